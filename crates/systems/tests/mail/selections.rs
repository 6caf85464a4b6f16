//! A mailbox that stays selected from one step to the next.

use model::ActionError;
use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};

use crate::account::{Account, Client, json_of, login};
use crate::hostile::{GREETING, Hostile, good};
use crate::sessions::until_logged;

/// A message, whose mailbox is then selected in the kept session of the account.
async fn selected(account: &Account, mailbox: &str) -> Json {
    let message = b"Subject: one\r\nMessage-ID: <one@x>\r\n\r\nhi\r\n";
    account.server.deliver(mailbox, message).expect("delivered");
    let found = account.client.found(json!({"mailbox": mailbox})).await;
    let one = found.last().expect("a message");
    let place = json!({"mailbox": mailbox, "uid": one["uid"], "uidValidity": one["uidValidity"]});
    // The second selects it for changes, the third finds it selected.
    account.client.call("get", place.clone()).await;
    account.client.call("mark", with(&place, "flagged", json!(true))).await;
    account.client.call("get", place.clone()).await;
    place
}

fn with(place: &Json, name: &str, value: Json) -> Json {
    let mut place = place.clone();
    place[name] = value;
    place
}

/// The steps with a message that read and that change something.
fn steps(place: &Json) -> [(&'static str, Json); 4] {
    [
        ("get", place.clone()),
        ("mark", with(place, "seen", json!(true))),
        ("move", with(place, "to", json!("Archive"))),
        ("delete", place.clone()),
    ]
}

/// Makes the server end the kept session, and waits for its end.
async fn end_session(account: &Account) {
    const WORDS: &str = "Server shutting down";
    let before = account.server.logged(WORDS).expect("a log");
    account.server.end_sessions().expect("it runs");
    until_logged(&account.server, WORDS, before + 1).await;
}

async fn try_step(account: &Account, (action, inputs): (&str, Json)) -> Result<Json, ActionError> {
    account.client.try_call(action, inputs).await.map(|result| json_of(&result))
}

#[tokio::test]
async fn a_step_selects_no_mailbox_that_is_selected() {
    let server = Hostile::start(GREETING, |tag, rest| good(tag, rest, |_| None)).await;
    let client = Client::new(server.login("none"));
    let place = json!({"uid": 1, "uidValidity": 7});
    for expected in [
        &["LOGIN", "EXAMINE", "UID FETCH 1 (UID FLAGS", "UID FETCH 1 (UID BODY.PEEK[TEXT]"][..],
        &["NOOP", "UID FETCH 1 (UID FLAGS", "UID FETCH 1 (UID BODY.PEEK[TEXT]"],
    ] {
        client.call("get", place.clone()).await;
        server.expect(expected);
    }
    client.call("mark", with(&place, "seen", json!(true))).await;
    server.expect(&["NOOP", "SELECT", "UID STORE", "UID FETCH"]);
    client.call("mark", with(&place, "seen", json!(true))).await;
    server.expect(&["NOOP", "UID STORE", "UID FETCH"]);
    client.call("get", place.clone()).await;
    server.expect(&["NOOP", "UID FETCH", "UID FETCH"]);
    client.call("search", json!({})).await;
    server.expect(&["NOOP", "EXAMINE", "UID SEARCH", "UID FETCH"]);
    client.fails("get", with(&place, "uidValidity", json!(8))).await;
    server.expect(&["NOOP", "EXAMINE"]);
}

#[tokio::test]
async fn a_mailbox_is_selected_again_once_the_server_tells_another_numbering() {
    let server = Hostile::start(GREETING, |tag, rest| {
        good(tag, rest, |rest| {
            (rest == "NOOP").then(|| format!("* OK [UIDVALIDITY 8] x\r\n{tag} OK x\r\n").into_bytes())
        })
    });
    let server = server.await;
    let client = Client::new(server.login("none"));
    let place = json!({"uid": 1, "uidValidity": 7});
    client.call("get", place.clone()).await;
    server.expect(&["LOGIN", "EXAMINE", "UID FETCH", "UID FETCH"]);
    client.call("get", place.clone()).await;
    server.expect(&["NOOP", "EXAMINE", "UID FETCH", "UID FETCH"]);
    client.call("mark", with(&place, "seen", json!(true))).await;
    server.expect(&["NOOP", "SELECT", "UID STORE", "UID FETCH"]);
    client.call("mark", with(&place, "seen", json!(true))).await;
    server.expect(&["NOOP", "SELECT", "UID STORE", "UID FETCH"]);
}

#[tokio::test]
async fn a_mailbox_that_can_only_be_read_is_not_changed() {
    let server = Hostile::start(GREETING, |tag, rest| {
        good(tag, rest, |rest| {
            let selected = || format!("* OK [UIDVALIDITY 7] x\r\n{tag} OK [READ-ONLY] x\r\n").into_bytes();
            rest.starts_with("SELECT").then(selected)
        })
    });
    let server = server.await;
    let inputs = json!({"uid": 1, "uidValidity": 7, "seen": true});
    let error = Client::new(server.login("none")).fails("mark", inputs).await;
    assert_eq!(error.code.as_deref(), Some("READ-ONLY"), "{error:?}");
    server.expect(&["LOGIN", "SELECT"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_that_was_deleted_is_missing_in_a_kept_session() {
    for step in 0..4 {
        let Some(account) = Account::start() else { return };
        let place = selected(&account, "Later").await;
        account.server.delete_mailbox("Later").expect("deleted");
        let [.., step] = &steps(&place)[..=step] else { panic!("a step") };
        let error = try_step(&account, step.clone()).await.expect_err("it is deleted");
        assert_eq!((error.code.as_deref(), error.outcome_unknown), (Some("NO"), false), "{step:?} {error:?}");
        assert!(
            error.message.contains("refuses EXAMINE") || error.message.contains("refuses SELECT"),
            "{error:?}"
        );
        let moved = account.client.found(json!({"mailbox": "Archive"})).await;
        assert_eq!(moved.len(), 0, "{step:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_that_was_created_anew_has_another_numbering_in_a_kept_session() {
    for step in 0..4 {
        let Some(account) = Account::start() else { return };
        let place = selected(&account, "Later").await;
        account.server.delete_mailbox("Later").expect("deleted");
        account.server.deliver("Later", b"Subject: other\r\n\r\nother\r\n").expect("delivered");
        let [.., step] = &steps(&place)[..=step] else { panic!("a step") };
        let error = try_step(&account, step.clone()).await.expect_err("it is another one");
        assert_eq!(
            (error.code.as_deref(), error.outcome_unknown),
            (Some("UIDVALIDITY"), false),
            "{step:?} {error:?}"
        );
        let found = account.client.found(json!({"mailbox": "Later", "unseen": true})).await;
        assert_eq!(found.len(), 1, "{step:?} changes nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_another_session_has_moved_is_missing_in_a_kept_one() {
    for step in 0..4 {
        let Some(account) = Account::start() else { return };
        let place = selected(&account, "INBOX").await;
        let other = Client::new(login(&account.server));
        other.call("move", with(&place, "to", json!("Archive"))).await;
        let [.., (action, inputs)] = &steps(&place)[..=step] else { panic!("a step") };
        match try_step(&account, (action, inputs.clone())).await {
            Ok(result) => {
                let name = if *action == "move" { "moved" } else { "deleted" };
                assert_eq!(result[name], false, "{action} {result}");
            }
            Err(error) => assert_eq!(error.code.as_deref(), Some("NOT_FOUND"), "{action} {error:?}"),
        }
        assert_eq!(account.client.found(json!({"mailbox": "Archive", "unseen": true})).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_came_meanwhile_is_found_in_a_kept_session() {
    let Some(account) = Account::start() else { return };
    let place = selected(&account, "INBOX").await;
    let other = Client::new(login(&account.server));
    for (uid, action) in [(2, "get"), (3, "mark"), (4, "move"), (5, "delete")] {
        account.deliver_plain(&format!("m{uid}"));
        assert_eq!(other.found(json!({})).await[0]["uid"], uid);
        let steps = steps(&with(&place, "uid", json!(uid)));
        let step = steps.iter().find(|step| step.0 == action).expect("a step");
        let result = try_step(&account, step.clone()).await.expect("it is there");
        let was_there = ["uid", "moved", "deleted"]
            .iter()
            .any(|name| !matches!(result[name], Json::Null | Json::Bool(false)));
        assert!(was_there, "{action} {result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_selected_mailbox_that_the_server_has_ended_is_replaced() {
    for (step, is_killed) in (0..4).flat_map(|step| [(step, false), (step, true)]) {
        let Some(mut account) = Account::start() else { return };
        let place = selected(&account, "INBOX").await;
        if is_killed {
            account.server.kill().expect("it is killed");
            account.server.start_again().expect("it starts");
        } else {
            end_session(&account).await;
        }
        let [.., (action, inputs)] = &steps(&place)[..=step] else { panic!("a step") };
        let result = try_step(&account, (action, inputs.clone())).await;
        let result = result.unwrap_or_else(|error| panic!("{action} {is_killed}: {error:?}"));
        let done = match *action {
            "get" => result["subject"] == "one",
            "mark" => result["flags"].as_array().is_some_and(|flags| flags.contains(&json!("\\Seen"))),
            "move" => result["moved"] == true,
            _ => result["deleted"] == true,
        };
        assert!(done, "{action} {is_killed} {result}");
    }
}
