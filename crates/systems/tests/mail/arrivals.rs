use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use value::Reserved;

use crate::account::{Account, json_of, map};

/// The longest wait for what the server tells.
const PATIENCE: Duration = Duration::from_secs(20);

fn ids(result: &Json) -> Vec<&str> {
    result["results"].as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_arrive_once_behind_a_position() {
    let Some(account) = Account::start() else { return };
    let list = async |inputs: Json| json_of(&account.client.call("listReceived", inputs).await);
    account.deliver_plain("before");
    let newest = list(json!({"newest": true})).await;
    assert_eq!(ids(&newest), [""; 0]);
    assert_eq!(ids(&list(json!({})).await), ["before@x"]);
    account.deliver_plain("one");
    account.deliver("From: b@example.com\nContent-Type: multipart/mixed; boundary=m\n\n--m\n\nx\n--m--\n");
    let found = list(json!({"after": newest["position"]})).await;
    let validity = found["results"][0]["mail"]["uidValidity"].as_u64().expect("a number");
    assert_eq!(ids(&found), ["one@x".to_owned(), format!("{validity}/3")]);
    assert_eq!(ids(&list(json!({"after": found["position"]})).await), [""; 0]);
    for (with, expected) in [
        (json!({"subject": "one"}), vec!["one@x".to_owned()]),
        (json!({"from": "b@"}), vec![format!("{validity}/3")]),
        (json!({"attachments": true}), vec![format!("{validity}/3")]),
        (json!({"from": "nobody"}), vec![]),
    ] {
        let mut inputs = with.clone();
        inputs["after"] = newest["position"].clone();
        let result = list(inputs).await;
        assert_eq!(ids(&result), expected, "{with}");
        assert_eq!(result["position"], found["position"], "what does not fit is behind the position too");
    }
    let error = account.client.fails("listReceived", json!({"after": "2026-01-01T00:00:00Z"})).await;
    assert_eq!(error.kind.to_string(), "input", "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_messages_arrive_in_pages() {
    let Some(account) = Account::start() else { return };
    for number in 0..450 {
        account.deliver_plain(&number.to_string());
    }
    let (mut position, mut all, mut pages) = (Json::Null, Vec::new(), 0);
    loop {
        let mut inputs = json!({});
        if !position.is_null() {
            inputs["after"] = position;
        }
        let result = json_of(&account.client.call("listReceived", inputs).await);
        all.extend(ids(&result).into_iter().map(str::to_owned));
        pages += 1;
        if result["more"] == false {
            break;
        }
        position = result["position"].clone();
    }
    let expected: Vec<String> = (0..450).map(|number| format!("{number}@x")).collect();
    assert_eq!((all, pages), (expected, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_that_is_numbered_anew_goes_on_from_the_newest_with_a_problem() {
    let Some(account) = Account::start() else { return };
    account.deliver_plain("one");
    let before = json_of(&account.client.call("listReceived", json!({})).await);
    account.server.renumber("INBOX").expect("numbered anew");
    let after = json_of(&account.client.call("listReceived", json!({"after": before["position"]})).await);
    assert!(after["problem"].as_str().is_some_and(|problem| problem.contains("numbered")), "{after}");
    assert_eq!(ids(&after), [""; 0]);
    account.deliver_plain("two");
    let next = json_of(&account.client.call("listReceived", json!({"after": after["position"]})).await);
    assert_eq!((ids(&next), &next["problem"]), (vec!["two@x"], &Json::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_woken_when_it_begins_and_by_each_message() {
    let Some(account) = Account::start() else { return };
    let client = &account.client;
    // The mailbox exists from its first message on.
    account.deliver_plain("before");
    let (woken, news) = (AtomicU32::new(0), tokio::sync::Notify::new());
    let wake = || {
        woken.fetch_add(1, Ordering::Relaxed);
        news.notify_one();
    };
    let action = client.registry.action("mail.listReceived").expect("an action").clone();
    let (inputs, memory) = (map(json!({"idle": true, "mailbox": "INBOX"})), Reserved::nothing());
    let listening = action.listen(client.call_of(&inputs, ("", None), &memory), &wake);
    let testing = async {
        tokio::time::timeout(PATIENCE, news.notified()).await.expect("it begins");
        account.deliver_plain("one");
        tokio::time::timeout(PATIENCE, news.notified()).await.expect("it is woken");
    };
    tokio::select! {
        error = listening => panic!("{error:?}"),
        () = testing => assert!(woken.load(Ordering::Relaxed) >= 2),
    }
    let off = map(json!({"mailbox": "INBOX"}));
    let error = action.listen(client.call_of(&off, ("", None), &memory), &wake).await;
    assert!(error.message.contains("`idle`"), "{error:?}");
}
