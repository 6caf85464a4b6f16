//! A server that is killed, frozen or cut off.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use servers::Proxy;

use crate::account::{Account, Client, json_of, login, map};

/// A client of a server through a proxy, which sees the sent bytes.
fn through(account: &Account, proxy: &Proxy) -> Client {
    let mut with = login(&account.server);
    with["port"] = json!(proxy.port);
    with["security"] = json!("none");
    Client::new(with)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_is_lost_is_repeated_without_harm() {
    let Some(account) = Account::start() else { return };
    account.deliver_plain("one");
    let proxy = Proxy::start(account.server.port).expect("a proxy");
    let client = through(&account, &proxy);
    let validity = client.found(json!({})).await[0]["uidValidity"].clone();
    let place = |more: Json| {
        let mut place = json!({"uid": 1, "uidValidity": validity});
        place.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        place
    };
    let limit = Some(Duration::from_millis(500));
    for (action, inputs, swallowed) in [
        (
            "append",
            json!({"mailbox": "Archive", "content": "Subject: x\n\nhello there\n"}),
            b"hello there".as_slice(),
        ),
        ("mark", place(json!({"seen": true})), b"UID STORE"),
        ("move", place(json!({"to": "Archive"})), b"UID MOVE"),
    ] {
        proxy.swallow(Some(swallowed));
        let error =
            client.try_with(action, &map(inputs.clone()), ("key", limit)).await.expect_err("swallowed");
        assert_eq!((error.kind.to_string().as_str(), error.outcome_unknown), ("timeout", true), "{error:?}");
        proxy.swallow(None);
        let result = client.try_with(action, &map(inputs), ("key", None)).await.expect("repeated");
        let result = json_of(&result);
        assert!(
            [&result["moved"], &result["uid"]]
                .iter()
                .any(|value| **value == json!(true) || **value == json!(1)),
            "{action} {result}"
        );
    }
    let moved = client.found(json!({"mailbox": "Archive"})).await;
    assert_eq!(moved.len(), 2, "each once: {moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_frozen_and_then_killed_ends_the_call() {
    let Some(mut account) = Account::start() else { return };
    account.deliver_plain("one");
    account.client.call("search", json!({})).await;
    account.server.freeze(true).expect("frozen");
    let limit = Some(Duration::from_millis(300));
    let error = account.client.try_with("search", &map(json!({})), ("", limit)).await.expect_err("frozen");
    assert_eq!(error.kind.to_string(), "timeout", "{error:?}");
    account.server.freeze(false).expect("it goes on");
    account.client.call("search", json!({})).await;
    account.server.kill().expect("killed");
    let error = account.client.fails("search", json!({})).await;
    assert_eq!((error.kind.to_string().as_str(), error.not_sent), ("network", true), "{error:?}");
    account.server.start_again().expect("it starts");
    assert_eq!(account.client.found(json!({})).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_is_cut_off_ends_with_the_reason() {
    let Some(account) = Account::start() else { return };
    account.deliver_plain("before");
    let proxy = Proxy::start(account.server.port).expect("a proxy");
    let client = through(&account, &proxy);
    let begun = tokio::sync::Notify::new();
    let wake = || begun.notify_one();
    let action = client.registry.action("mail.listReceived").expect("an action").clone();
    let (inputs, memory) = (map(json!({"idle": true, "mailbox": "INBOX"})), value::Reserved::nothing());
    let listening = action.listen(client.call_of(&inputs, ("", None), &memory), &wake);
    let cutting = async {
        begun.notified().await;
        proxy.cut();
    };
    let ended =
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(listening, cutting).0 }).await;
    let error = ended.expect("it ends");
    assert_eq!(error.kind.to_string(), "network", "{error:?}");
}
