//! The actions.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::broker::Broker;

#[tokio::test]
async fn a_repeated_step_publishes_one_message() {
    let Some(broker) = Broker::start() else { return };
    let publish = json!({"subject": "orders.new", "body": {"id": 17}});
    let first = broker.call("nats.publish", publish.clone()).await.expect("it is sent");
    assert_eq!(first.to_json(), r#"{"stream":"ORDERS","sequence":1,"repeated":false}"#);
    let again = broker.call("nats.publish", publish.clone()).await.expect("it is sent");
    assert_eq!(again.to_json(), r#"{"stream":"ORDERS","sequence":1,"repeated":true}"#);
    broker.call_as("nats.publish", publish, "execution.other").await.expect("it is sent");
    assert_eq!(broker.server.client().count("ORDERS"), 2);
}

#[tokio::test]
async fn a_subject_without_a_stream_is_an_error_that_says_so() {
    let Some(broker) = Broker::start() else { return };
    let error = broker.call("nats.publish", json!({"subject": "nobody.cares"})).await;
    let error = error.expect_err("nobody takes it");
    assert_eq!(error.kind.to_string(), "response");
    assert_eq!(
        error.message,
        "no stream of the NATS server takes the subject `nobody.cares`; create one that does"
    );
}

#[tokio::test]
async fn a_subject_with_a_wildcard_is_refused() {
    let Some(broker) = Broker::start() else { return };
    for subject in ["orders.*", "orders.>", "orders.", "orders .new"] {
        let error = broker.call("nats.publish", json!({"subject": subject})).await;
        let error = error.expect_err("it is no subject of a message");
        assert!(error.message.starts_with("`subject` is the name of one subject"), "{error:?}");
    }
    assert_eq!(broker.server.client().count("ORDERS"), 0);
}

#[tokio::test]
async fn the_server_tells_its_version() {
    let Some(broker) = Broker::start() else { return };
    let info = broker.call("nats.serverInfo", json!({})).await.expect("it answers");
    assert!(info.get("version").is_some_and(|version| version.to_text().starts_with("2.")), "{info:?}");
    assert_eq!(info.get("jetStream"), Some(true.into()));
}

#[tokio::test]
async fn a_connection_that_was_lost_is_dialled_anew() {
    let Some(mut broker) = Broker::start() else { return };
    let publish = json!({"subject": "orders.new", "body": "a"});
    broker.call_as("nats.publish", publish.clone(), "a").await.expect("it is sent");
    broker.server.kill();
    let error = broker.call_as("nats.publish", publish.clone(), "b").await.expect_err("it is gone");
    assert!(["network", "timeout"].contains(&error.kind.to_string().as_str()), "{error:?}");
    broker.server.start_again().expect("it starts");
    broker.call_as("nats.publish", publish, "b").await.expect("it is sent");
}
