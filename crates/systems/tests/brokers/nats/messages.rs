//! Messages of a stream.

use std::time::Duration;

use connector::{Fate, TakeLimits};
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::Proxy;
use value::Value;

use super::broker::Broker;
use crate::support::{PATIENCE, take};

fn inputs() -> serde_json::Value {
    json!({"stream": "ORDERS", "consumer": "cogwork", "start": "all"})
}

#[tokio::test]
async fn messages_come_in_order_and_with_all_that_the_server_knows() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for body in ["one", "two", "three"] {
        client.publish("orders.new", body.as_bytes());
    }
    broker
        .call(
            "nats.publish",
            json!({"subject": "orders.paid", "body": "four", "headers": {"Tenant": "acme"}}),
        )
        .await
        .expect("it is published");
    let mut source = broker.open(inputs()).await.expect("it opens");
    assert_eq!(source.lag().await, Ok(Some(4)));
    let messages = take(&mut *source, 10).await;
    let bodies: Vec<&[u8]> = messages.iter().map(|message| &*message.body).collect();
    assert_eq!(bodies, [b"one".as_slice(), b"two", b"three", b"four"]);
    let last = &messages[3];
    assert_eq!((last.source.as_str(), last.key.as_deref()), ("ORDERS", Some("orders.paid")));
    assert_eq!(last.headers.get("Tenant"), Some(&Value::from("acme")));
    assert_eq!(last.properties.get("sequence"), Some(&Value::from(4)));
    assert!(last.at.is_some() && !last.redelivered && last.id.ends_with(":4"), "{last:?}");
}

#[tokio::test]
async fn a_settled_message_never_comes_again_and_any_other_does() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for body in ["done", "later", "left"] {
        client.publish("orders.new", body.as_bytes());
    }
    let mut source = broker.open(inputs()).await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    let fates = vec![(messages[0].token, Fate::Done), (messages[1].token, Fate::Later(Duration::ZERO))];
    source.settle(fates).await.expect("they are settled");
    let again = take(&mut *source, 10).await;
    assert_eq!((again.len(), &again[0].id, again[0].redelivered), (1, &messages[1].id, true));
    source.settle(vec![(again[0].token, Fate::Done)]).await.expect("it is settled");
    assert_eq!(client.unsettled("ORDERS", "cogwork"), 1, "the one that was left");
}

#[tokio::test]
async fn one_request_takes_no_more_messages_and_bytes_than_it_may() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for _ in 0..5 {
        client.publish("orders.new", &[b'x'; 1000]);
    }
    let mut source = broker.open(inputs()).await.expect("it opens");
    assert_eq!(take(&mut *source, 2).await.len(), 2);
    assert!(source.wait(PATIENCE).await.expect("it waits"));
    let limits = TakeLimits { messages: 10, bytes: 2500, fill: Duration::ZERO };
    let taken = source.take(limits).await.expect("they are taken").len();
    assert!((1..=2).contains(&taken), "{taken}");
    // A message above the limit comes alone.
    client.publish("orders.new", &[b'x'; 5000]);
    for _ in 0..4 {
        if !source.wait(Duration::from_millis(300)).await.expect("it waits") {
            break;
        }
        source.take(limits).await.expect("they are taken");
    }
    let info = client.request("$JS.API.CONSUMER.INFO.ORDERS.cogwork", b"");
    assert_eq!(info["num_pending"], 0, "{info}");
}

#[tokio::test]
async fn a_new_consumer_begins_with_the_next_message_or_with_the_oldest() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.publish("orders.new", b"before");
    let mut new = broker.open(json!({"stream": "ORDERS", "consumer": "new"})).await.expect("it opens");
    let mut all = broker.open(inputs()).await.expect("it opens");
    client.publish("orders.new", b"after");
    assert_eq!(&*take(&mut *new, 10).await[0].body, b"after");
    assert_eq!(take(&mut *all, 10).await.len(), 2);
}

#[tokio::test]
async fn a_consumer_reads_one_subject() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    let paid = json!({"stream": "ORDERS", "consumer": "paid", "subject": "orders.paid", "start": "all"});
    client.publish("orders.new", b"new");
    client.publish("orders.paid", b"paid");
    let mut source = broker.open(paid).await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    assert_eq!((messages.len(), &*messages[0].body), (1, b"paid".as_slice()));
    let other = json!({"stream": "ORDERS", "consumer": "paid", "subject": "orders.new"});
    let error = broker.open(other).await.err().expect("it reads another subject");
    assert!(error.message.contains("reads the subject `orders.paid`, and not `orders.new`"), "{error:?}");
}

#[tokio::test]
async fn a_stream_that_was_made_again_has_messages_with_other_ids() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.publish("orders.new", b"first");
    let mut source = broker.open(inputs()).await.expect("it opens");
    let first = take(&mut *source, 1).await.remove(0).id;
    client.delete_stream("ORDERS");
    client.create_stream("ORDERS");
    client.publish("orders.new", b"second");
    let mut source = broker.open(inputs()).await.expect("it opens");
    assert_ne!(take(&mut *source, 1).await[0].id, first);
}

#[tokio::test]
async fn a_lost_connection_is_an_error_of_the_source_and_loses_no_message() {
    let Some(mut broker) = Broker::start() else { return };
    broker.server.client().publish("orders.new", b"kept");
    let mut source = broker.open(inputs()).await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    broker.server.kill();
    let settled = source.settle(vec![(messages[0].token, Fate::Done)]).await;
    assert!(settled.is_err(), "nothing has confirmed it");
    broker.server.start_again().expect("it starts");
    assert!(source.lag().await.is_err() || source.wait(Duration::from_millis(1)).await.is_err());
    let mut source = broker.open(inputs()).await.expect("it opens");
    source.lag().await.expect("it answers");
    assert_eq!(broker.server.client().unsettled("ORDERS", "cogwork"), 1);
}

#[tokio::test]
async fn a_connection_that_is_cut_ends_a_wait_at_once() {
    let Some(broker) = Broker::start() else { return };
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    let mut source = broker.open_at(proxy.port, inputs()).await.expect("it opens");
    let cut = async { proxy.cut() };
    let both = async { tokio::join!(source.wait(PATIENCE * 6), cut) };
    let (waited, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it ends at once");
    assert_eq!(waited.expect_err("it was cut").kind.to_string(), "network");
}

#[tokio::test]
async fn a_request_that_the_server_does_not_answer_ends() {
    let Some(broker) = Broker::start() else { return };
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    broker.server.client().publish("orders.new", b"first");
    let mut source = broker.open_at(proxy.port, inputs()).await.expect("it opens");
    assert!(source.wait(PATIENCE).await.expect("it waits"));
    proxy.swallow(Some(b"\"no_wait\":true"));
    let limits = TakeLimits { messages: 10, bytes: 8 << 20, fill: Duration::ZERO };
    let taken = tokio::time::timeout(PATIENCE * 2, source.take(limits)).await.expect("it ends");
    assert_eq!(taken.expect("the first is there").len(), 1);
}

#[tokio::test]
async fn a_copy_of_a_message_is_published_once_with_the_reason() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.create_stream("DEAD");
    client.publish("orders.new", b"bad");
    let mut source = broker.open(inputs()).await.expect("it opens");
    let message = take(&mut *source, 1).await.remove(0);
    for _ in 0..2 {
        source.forward("dead.orders", &message, "key", "it is\nbad").await.expect("it is published");
    }
    assert_eq!(client.count("DEAD"), 1);
    let copy = client.message("DEAD", 1);
    let headers = connector_base64(copy["hdrs"].as_str().expect("headers"));
    assert!(headers.contains("Cogwork-Reason: it is bad"), "{headers}");
}

fn connector_base64(text: &str) -> String {
    use base64::Engine as _;
    let bytes = base64::prelude::BASE64_STANDARD.decode(text).expect("base64");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_consumer_that_gives_messages_up_is_refused() {
    let Some(broker) = Broker::start() else { return };
    let config = json!({
        "stream_name": "ORDERS", "config": {"durable_name": "cogwork", "ack_policy": "explicit", "max_deliver": 3}
    });
    let create = "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.cogwork";
    broker.server.client().request(create, config.to_string().as_bytes());
    let error = broker.open(inputs()).await.err().expect("it is refused");
    assert!(
        error.message.contains("gives a message up after 3 deliveries (`max_deliver`)"),
        "{}",
        error.message
    );
}
