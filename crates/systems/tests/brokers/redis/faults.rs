//! Connections that are cut, silent or lost.

use std::time::Duration;

use connector::Fate;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::Proxy;

use super::broker::{Broker, wait_for_new};
use crate::support::{PATIENCE, call, connect, take};

/// Waits until the proxy has swallowed a request.
async fn request_comes(proxy: &Proxy) {
    while !proxy.has_swallowed() {
        drop(tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await);
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_ends_a_wait_at_once() {
    let Some(broker) = Broker::start() else { return };
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    let mut source = broker.open_at(proxy.port).await;
    wait_for_new(&mut *source).await;
    proxy.swallow(Some(b"XREADGROUP"));
    let cut = async {
        request_comes(&proxy).await;
        proxy.cut();
    };
    let both = async { tokio::join!(source.wait(PATIENCE * 6), cut) };
    let (waited, ()) = tokio::time::timeout(PATIENCE, both).await.expect("it ends at once");
    assert_eq!(waited.expect_err("it was cut").kind.to_string(), "network");
}

#[tokio::test]
async fn a_wait_that_nobody_awaits_any_more_loses_no_message() {
    let Some(broker) = Broker::start() else { return };
    let mut source = broker.open().await;
    wait_for_new(&mut *source).await;
    drop(tokio::time::timeout(Duration::from_millis(50), source.wait(PATIENCE * 6)).await);
    let id = broker.server.client().add("orders", b"kept");
    let message = take(&mut *source, 1).await.remove(0);
    assert_eq!((message.id, message.redelivered), (format!("orders:{id}"), false));
}

#[tokio::test]
async fn a_lost_acknowledgement_brings_a_message_again() {
    let Some(broker) = Broker::start() else { return };
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    broker.server.client().add("orders", b"first");
    let mut source = broker.open_at(proxy.port).await;
    let first = take(&mut *source, 1).await.remove(0);
    proxy.swallow(Some(b"XACK"));
    let settled = source.settle(vec![(first.token, Fate::Done)]);
    drop(tokio::time::timeout(Duration::from_millis(300), settled).await);
    proxy.cut();
    let mut source = broker.open().await;
    let again = take(&mut *source, 1).await.remove(0);
    assert_eq!((again.id, again.redelivered), (first.id, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_ends_a_step_whose_outcome_nobody_knows_and_is_dialled_anew() {
    let Some(broker) = Broker::start() else { return };
    let mut source = broker.open().await;
    broker.call("redis.increment", json!({"key": "n"})).await.expect("it works");
    broker.server.freeze(true).expect("it stands still");
    let add = async { broker.call("redis.increment", json!({"key": "n"})).await };
    let get = async { broker.call("redis.get", json!({"key": "n"})).await };
    let (added, got, waited) = tokio::join!(add, get, source.wait(Duration::from_secs(1)));
    broker.server.freeze(false).expect("it goes on");
    let error = added.expect_err("it stands still");
    assert_eq!((error.kind.to_string().as_str(), error.outcome_unknown), ("timeout", true), "{error:?}");
    let error = got.expect_err("it stands still");
    assert_eq!((error.kind.to_string().as_str(), error.outcome_unknown), ("timeout", false), "{error:?}");
    assert_eq!(waited.expect_err("it stands still").kind.to_string(), "timeout");
    let mut client = broker.server.client();
    let before = client.connections();
    let got = broker.call("redis.get", json!({"key": "n"})).await.expect("it goes on");
    assert_eq!(got.get("value"), Some("2".into()), "it had come");
    assert_eq!(client.connections() - before, 1, "it is dialled anew");
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_has_an_unknown_outcome() {
    let Some(broker) = Broker::start() else { return };
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    let connection = connect(&broker.registry, "redis.server", super::broker::with(proxy.port));
    let call = async |key| {
        let inputs = (json!({"key": key}), "");
        call(&broker.registry, &broker.http, &connection, "redis.increment", inputs).await
    };
    call("n").await.expect("it works");
    proxy.swallow(Some(b"INCRBY"));
    let cut = async {
        request_comes(&proxy).await;
        proxy.cut();
    };
    let (called, ()) = tokio::join!(call("n"), cut);
    let error = called.expect_err("it was cut");
    assert_eq!((error.kind.to_string().as_str(), error.outcome_unknown), ("network", true), "{error:?}");
    proxy.swallow(None);
    call("n").await.expect("it is dialled anew");
}

#[tokio::test]
async fn a_step_that_ends_before_its_answer_leaves_a_new_connection_to_the_next() {
    let Some(broker) = Broker::start() else { return };
    let proxy = Proxy::start(broker.server.port).expect("a proxy");
    let connection = connect(&broker.registry, "redis.server", super::broker::with(proxy.port));
    let call = async || {
        let inputs = (json!({"key": "n"}), "");
        call(&broker.registry, &broker.http, &connection, "redis.increment", inputs).await
    };
    call().await.expect("it works");
    proxy.swallow(Some(b"INCRBY"));
    let swallowed = async {
        while !proxy.has_swallowed() {
            drop(tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await);
        }
    };
    tokio::select! {
        called = call() => panic!("it was swallowed: {called:?}"),
        () = swallowed => {}
    }
    proxy.swallow(None);
    let called = tokio::time::timeout(Duration::from_secs(5), call()).await.expect("it is dialled anew");
    assert_eq!(called.expect("it works").get("value"), Some(2.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_no_message_and_is_dialled_anew() {
    let Some(mut broker) = Broker::start() else { return };
    broker.server.client().add("orders", b"kept");
    let mut source = broker.open().await;
    let messages = take(&mut *source, 10).await;
    let add = json!({"stream": "orders", "body": "a"});
    broker.call("redis.add", add.clone()).await.expect("it is added");
    broker.server.kill();
    let settled = source.settle(vec![(messages[0].token, Fate::Done)]).await;
    assert!(settled.is_err(), "nothing has confirmed it");
    let error = broker.call("redis.add", add.clone()).await.expect_err("it is gone");
    assert_eq!(error.kind.to_string(), "network", "{error:?}");
    broker.server.start_again().expect("it starts");
    broker.call("redis.add", add).await.expect("it is added");
    let mut source = broker.open().await;
    let mut bodies: Vec<bytes::Bytes> = Vec::new();
    while bodies.len() < 3 {
        bodies.extend(take(&mut *source, 10).await.into_iter().map(|message| message.body));
    }
    assert_eq!(bodies, ["kept", "a", "a"]);
}
