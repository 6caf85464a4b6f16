//! The actions.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::broker::Broker;

pub(super) async fn a_message_is_published_with_its_properties(broker: &Broker, queue: &str) {
    let mut client = broker.server.client();
    for body in [json!("text"), json!({"id": 17}), json!(null), json!("x".repeat(300_000))] {
        let publish = json!({"routingKey": queue, "body": body, "contentType": "application/x-order"});
        let sent = broker.call("amqp.publish", publish).await.expect("it is sent");
        assert_eq!(sent.to_json(), r#"{"messageId":"execution.step","routed":true}"#);
        let got = client.get(queue).expect("a message");
        let expected = match body {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        assert_eq!(got.body, expected.as_bytes());
        let properties = String::from_utf8_lossy(&got.properties).into_owned();
        assert!(properties.contains("application/x-order") && properties.contains("execution.step"));
    }
}

pub(super) async fn a_repeated_step_sends_the_same_message_id(broker: &Broker, queue: &str) {
    let publish = json!({"routingKey": queue, "body": "a"});
    for _ in 0..2 {
        broker.call("amqp.publish", publish.clone()).await.expect("it is sent");
    }
    let mut source = broker.open(queue).await.expect("it opens");
    let messages = crate::support::take(&mut *source, 10).await;
    assert_eq!((messages.len(), &messages[0].id), (2, &messages[1].id));
}

pub(super) async fn a_message_that_no_queue_takes_is_an_error_that_says_so(broker: &Broker, queue: &str) {
    let missing = format!("{queue}.missing");
    let publish = json!({"routingKey": missing, "body": "a"});
    let error = broker.call("amqp.publish", publish.clone()).await.expect_err("nobody takes it");
    assert_eq!((error.kind.to_string().as_str(), error.code.as_deref()), ("response", Some("312")));
    assert!(error.message.contains(&format!("has no queue `{missing}`; create it")), "{error:?}");
    let publish = json!({"routingKey": missing, "mandatory": false});
    let sent = broker.call("amqp.publish", publish).await.expect("it is sent");
    assert_eq!(sent.get("routed"), Some(false.into()));
    let publish = json!({"exchange": "missing", "routingKey": queue});
    let error = broker.call("amqp.publish", publish).await.expect_err("there is no such exchange");
    assert_eq!((error.code.as_deref(), error.outcome_unknown), (Some("404"), false));
    let long = json!({"routingKey": "x".repeat(256)});
    let error = broker.call("amqp.publish", long).await.expect_err("it does not fit");
    assert_eq!(error.message, "`routingKey` has 256 bytes, and AMQP takes at most 255");
}

pub(super) async fn an_error_of_one_step_disturbs_no_other(broker: &Broker, queue: &str) {
    let calls = (0..40).map(|number| {
        let exchange = if number % 4 == 0 { "missing" } else { "" };
        let publish = json!({"exchange": exchange, "routingKey": queue, "body": number});
        async move { broker.call_as("amqp.publish", publish, &number.to_string()).await }
    });
    let errors: Vec<_> = join_all(calls).await.into_iter().filter_map(Result::err).collect();
    let are_expected = errors.iter().all(|error| error.code.as_deref() == Some("404"));
    assert!(errors.len() == 10 && are_expected, "{errors:?}");
    assert_eq!(broker.server.client().count(queue), 30);
}

pub(super) async fn the_server_tells_its_version(broker: &Broker, _: &str) {
    let info = broker.call("amqp.serverInfo", json!({})).await.expect("it answers");
    assert_eq!(info.get("product"), Some("RabbitMQ".into()));
    assert!(info.get("version").is_some_and(|version| version.to_text().starts_with("3.")), "{info:?}");
}
