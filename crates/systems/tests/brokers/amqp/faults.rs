//! Connections that are cut, silent or lost.

use std::time::Duration;

use connector::Fate;
use pretty_assertions::assert_eq;
use servers::Proxy;

use super::broker::Broker;
use crate::support::{PATIENCE, take};

/// An acknowledgement as the client sends it: its class and its method, without the number of the message.
const ACKNOWLEDGEMENT: &[u8] = b"\x00\x3c\x00\x50";
/// A question for a queue.
const QUESTION: &[u8] = b"\x00\x32\x00\x0a";

pub(super) async fn a_connection_that_is_cut_ends_a_wait_at_once(broker: &Broker, queue: &str) {
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    let mut source = broker.open_at(proxy.port, queue).await.expect("it opens");
    let cut = async { proxy.cut() };
    let both = async { tokio::join!(source.wait(PATIENCE * 6), cut) };
    let (waited, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it ends at once");
    assert_eq!(waited.expect_err("it was cut").kind.to_string(), "network");
}

pub(super) async fn a_lost_acknowledgement_brings_a_message_again(broker: &Broker, queue: &str) {
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    broker.server.client().publish(queue, b"first", Some("one"));
    let mut source = broker.open_at(proxy.port, queue).await.expect("it opens");
    let first = take(&mut *source, 1).await.remove(0);
    proxy.swallow(Some(ACKNOWLEDGEMENT));
    // The acknowledgement and the question behind it may be in one piece.
    let settled = source.settle(vec![(first.token, Fate::Done)]);
    drop(tokio::time::timeout(Duration::from_millis(300), settled).await);
    proxy.cut();
    let mut source = broker.open(queue).await.expect("it opens");
    let again = take(&mut *source, 1).await.remove(0);
    assert_eq!((again.id, again.redelivered), (first.id, true));
}

pub(super) async fn a_request_that_the_server_does_not_answer_ends(broker: &Broker, queue: &str) {
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    let mut source = broker.open_at(proxy.port, queue).await.expect("it opens");
    proxy.swallow(Some(QUESTION));
    let asked = tokio::time::timeout(PATIENCE * 2, source.lag()).await.expect("it ends");
    assert_eq!(asked.expect_err("nothing answers").kind.to_string(), "timeout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_nobody_reads_keeps_its_connection_until_the_server_is_silent() {
    let Some(other) = Broker::start_with("heartbeat = 2") else { return };
    other.server.client().create_queue("orders");
    let mut source = other.open("orders").await.expect("it opens");
    // Nobody reads the source for longer than the server waits.
    drop(tokio::time::timeout(Duration::from_secs(7), std::future::pending::<()>()).await);
    assert_eq!(source.lag().await, Ok(Some(0)));
    other.server.freeze(true).expect("it stands still");
    let error = source.wait(PATIENCE * 2).await.expect_err("it is silent");
    assert_eq!(error.message, "the AMQP server is silent, and sends no heartbeat");
    other.server.freeze(false).expect("it goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_no_message_and_is_dialled_anew() {
    let Some(mut broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.create_queue("orders");
    client.publish("orders", b"kept", Some("kept"));
    let mut source = broker.open("orders").await.expect("it opens");
    let messages = take(&mut *source, 10).await;
    let publish = serde_json::json!({"routingKey": "orders", "body": "a"});
    broker.call_as("amqp.publish", publish.clone(), "a").await.expect("it is sent");
    broker.server.kill();
    let settled = source.settle(vec![(messages[0].token, Fate::Done)]).await;
    assert!(settled.is_err(), "nothing has confirmed it");
    let error = broker.call_as("amqp.publish", publish.clone(), "b").await.expect_err("it is gone");
    assert_eq!(error.kind.to_string(), "network", "{error:?}");
    broker.server.start_again().expect("it starts");
    broker.call_as("amqp.publish", publish, "b").await.expect("it is sent");
    let mut source = broker.open("orders").await.expect("it opens");
    let ids: Vec<String> = take(&mut *source, 10).await.into_iter().map(|message| message.id).collect();
    assert_eq!(ids, ["orders:kept", "orders:a", "orders:b"]);
}
