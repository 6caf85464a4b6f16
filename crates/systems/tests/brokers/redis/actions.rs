//! The actions.

use futures_util::future::join_all;
use model::ActionError;
use pretty_assertions::assert_eq;
use serde_json::json;

use super::broker::Broker;

fn told(error: &ActionError) -> (String, Option<&str>, bool) {
    (error.kind.to_string(), error.code.as_deref(), error.outcome_unknown)
}

#[tokio::test]
async fn an_entry_has_the_body_and_the_fields_and_the_stream_stays_short() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    for (inputs, fields) in [
        (json!({"body": {"id": 17}}), json!(["body", r#"{"id":17}"#])),
        (json!({"body": "text", "fields": {"tenant": "acme"}}), json!(["tenant", "acme", "body", "text"])),
        (json!({"fields": {"id": "17"}}), json!(["id", "17"])),
    ] {
        let mut add = inputs;
        add["stream"] = json!("orders");
        let added = broker.call("redis.add", add).await.expect("it is added");
        let last = client.get(&["XREVRANGE", "orders", "+", "-", "COUNT", "1"]);
        assert_eq!((&last[0][0], &last[0][1]), (&json!(added.get("id").expect("an id").to_text()), &fields));
    }
    for number in 0..500 {
        let add = json!({"stream": "short", "body": number, "maxLength": 10});
        broker.call("redis.add", add).await.expect("it is added");
    }
    let length = client.get(&["XLEN", "short"]).as_u64().expect("a number");
    assert!((10..=110).contains(&length), "{length}");
    for wrong in [json!({"stream": "s"}), json!({"stream": "s", "body": 1, "fields": {"body": "2"}})] {
        let error = broker.call("redis.add", wrong).await.expect_err("it is refused");
        assert_eq!(error.kind.to_string(), "input", "{error:?}");
    }
}

#[tokio::test]
async fn values_are_set_read_counted_and_deleted() {
    let Some(broker) = Broker::start() else { return };
    let call = async |action: &str, inputs| broker.call(action, inputs).await.expect("it works").to_json();
    assert_eq!(call("redis.get", json!({"key": "k"})).await, r#"{"found":false,"value":null}"#);
    let first = json!({"key": "k", "value": "one", "onlyIf": "exists"});
    assert_eq!(call("redis.set", first).await, r#"{"stored":false}"#);
    let first = json!({"key": "k", "value": "one", "onlyIf": "missing", "ttl": "1h"});
    assert_eq!(call("redis.set", first.clone()).await, r#"{"stored":true}"#);
    assert_eq!(call("redis.set", first).await, r#"{"stored":false}"#);
    let mut client = broker.server.client();
    let left = client.get(&["TTL", "k"]).as_i64().expect("a number");
    assert!((3500..=3600).contains(&left), "{left}");
    assert_eq!(call("redis.get", json!({"key": "k"})).await, r#"{"found":true,"value":"one"}"#);
    call("redis.set", json!({"key": "k", "value": {"rate": 1}})).await;
    assert_eq!(client.get(&["TTL", "k"]), json!(-1), "a new value has no time limit of an old one");
    let parsed = call("redis.get", json!({"key": "k", "parse": "json"})).await;
    assert_eq!(parsed, r#"{"found":true,"value":{"rate":1}}"#);
    assert_eq!(call("redis.increment", json!({"key": "n"})).await, r#"{"value":1}"#);
    assert_eq!(call("redis.increment", json!({"key": "n", "by": -3})).await, r#"{"value":-2}"#);
    assert_eq!(call("redis.delete", json!({"key": "n"})).await, r#"{"deleted":true}"#);
    assert_eq!(call("redis.delete", json!({"key": "n"})).await, r#"{"deleted":false}"#);
    for ttl in ["0s", "soon", "200y"] {
        let error = broker.call("redis.set", json!({"key": "k", "value": 1, "ttl": ttl})).await;
        assert!(error.expect_err("no time").message.starts_with("`ttl`"), "{ttl}");
    }
}

#[tokio::test]
async fn values_have_a_largest_size_and_bytes_are_a_file() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.get(&["SETRANGE", "large", &(8 << 20).to_string(), "x"]);
    let error = broker.call("redis.get", json!({"key": "large"})).await.expect_err("it is too large");
    assert_eq!(
        error.message,
        "the value of `large` has 8388609 bytes, and at most 8388608 are read and written"
    );
    assert_eq!(error.kind.to_string(), "limit");
    for (action, name) in [("redis.set", "value"), ("redis.add", "body")] {
        let inputs = json!({"key": "k", "stream": "s", name: "x".repeat((8 << 20) + 1)});
        let mut inputs = inputs.as_object().cloned().expect("a map");
        inputs.remove(if action == "redis.set" { "stream" } else { "key" });
        let error = broker.call(action, inputs.into()).await.expect_err("it is too large");
        assert_eq!(error.kind.to_string(), "limit", "{error:?}");
    }
    let largest = "x".repeat(8 << 20);
    broker.call("redis.set", json!({"key": "k", "value": largest})).await.expect("it fits");
    let file = broker.call("redis.get", json!({"key": "k", "parse": "file"})).await.expect("it fits");
    let value = file.get("value").expect("a value");
    assert_eq!(value.as_file().expect("a file").data.len(), 8 << 20);
    client.get(&["SETRANGE", "zero", "3", "x"]);
    client.get(&["SETBIT", "bits", "0", "1"]);
    let error = broker.call("redis.get", json!({"key": "bits"})).await.expect_err("it is no text");
    assert!(error.message.starts_with("the value of `bits` is not the text that `parse: text`"), "{error:?}");
}

#[tokio::test]
async fn errors_have_the_word_of_the_server_and_the_kind_by_it() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.get(&["LPUSH", "list", "x"]);
    for (action, inputs) in [
        ("redis.get", json!({"key": "list"})),
        ("redis.increment", json!({"key": "list"})),
        ("redis.add", json!({"stream": "list", "body": 1})),
    ] {
        let error = broker.call(action, inputs).await.expect_err("it is a list");
        assert_eq!(told(&error), ("response".to_owned(), Some("WRONGTYPE"), false), "{error:?}");
    }
    client.get(&["CONFIG", "SET", "maxmemory", "1"]);
    let set = json!({"key": "k", "value": "x"});
    let error = broker.call("redis.set", set.clone()).await.expect_err("there is no memory");
    assert_eq!(told(&error), ("network".to_owned(), Some("OOM"), false));
    client.get(&["CONFIG", "SET", "maxmemory", "0"]);
    client.get(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = broker.call("redis.set", set).await.expect_err("it is a replica");
    assert_eq!(told(&error), ("network".to_owned(), Some("READONLY"), false));
    client.get(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    let error = broker.call("redis.get", json!({"key": "k"})).await.expect_err("its master is down");
    assert_eq!(told(&error), ("network".to_owned(), Some("MASTERDOWN"), false));
}

#[tokio::test]
async fn steps_share_a_connection_and_an_error_of_one_disturbs_no_other() {
    let Some(broker) = Broker::start() else { return };
    let mut client = broker.server.client();
    client.get(&["LPUSH", "list", "x"]);
    let before = client.connections();
    let calls = (0..40).map(|number| {
        let key = if number % 4 == 0 { "list" } else { "n" };
        let broker = &broker;
        async move { broker.call("redis.increment", json!({"key": key})).await }
    });
    broker.call("redis.increment", json!({"key": "n"})).await.expect("it works");
    let errors: Vec<_> = join_all(calls).await.into_iter().filter_map(Result::err).collect();
    assert!(errors.len() == 10 && errors.iter().all(|error| error.code.as_deref() == Some("WRONGTYPE")));
    let got = broker.call("redis.get", json!({"key": "n"})).await.expect("it works");
    assert_eq!(got.get("value"), Some("31".into()));
    assert_eq!(client.connections() - before, 1);
}

#[tokio::test]
async fn the_server_tells_its_version_and_each_connection_has_its_database() {
    let Some(broker) = Broker::start() else { return };
    let info = broker.call("redis.serverInfo", json!({})).await.expect("it answers");
    assert_eq!(info.get("product"), Some("redis".into()));
    assert!(info.get("version").is_some_and(|version| version.to_text().starts_with("7.")), "{info:?}");
    let mut with = super::broker::with(broker.server.port);
    with["database"] = json!(3);
    let other = crate::support::connect(&broker.registry, "redis.server", with);
    let set = (json!({"key": "k", "value": "x"}), "");
    crate::support::call(&broker.registry, &broker.http, &other, "redis.set", set).await.expect("it works");
    let mut client = broker.server.client();
    assert_eq!(client.get(&["EXISTS", "k"]), json!(0));
    client.get(&["SELECT", "3"]);
    assert_eq!(client.get(&["EXISTS", "k"]), json!(1));
}
