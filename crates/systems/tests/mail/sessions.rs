//! Sessions that are kept for the next step.

use std::time::{Duration, Instant};

use connector::Registry;
use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use servers::Proxy;
use servers::dovecot::Server;

use crate::account::{Account, Client, json_of, login, map};

/// The number of sessions that a connection keeps.
const KEPT: usize = 4;
/// The time limit of what a server does by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the log has a number of lines with these words. The server writes it beside its answers.
pub(crate) async fn until_logged(server: &Server, words: &str, count: usize) {
    let begun = Instant::now();
    loop {
        let found = server.logged(words).expect("a log");
        assert!(found <= count, "{found} lines with `{words}`");
        if found == count {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{found} lines with `{words}`, and not {count}");
        tokio::task::yield_now().await;
    }
}

/// Checks the number of logins. A login of another client comes after all of them in the log.
async fn expect_logins(account: &Account, others: &mut usize, count: usize) {
    Client::new(login(&account.server)).call("search", json!({})).await;
    *others += 1;
    until_logged(&account.server, "Login: ", count + *others).await;
}

/// The place of the first message of the mailbox.
async fn first(client: &Client) -> Json {
    let found = client.found(json!({})).await;
    json!({"uid": found[0]["uid"], "uidValidity": found[0]["uidValidity"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_one_after_the_other_log_in_once_and_see_the_mailbox_as_it_is() {
    let Some(account) = Account::start() else { return };
    let (client, mut others) = (&account.client, 0);
    for number in 1..4 {
        account.deliver_plain(&format!("m{number}"));
        assert_eq!(client.found(json!({})).await.len(), number, "a message that came meanwhile");
    }
    let place = first(client).await;
    client.call("get", place.clone()).await;
    client.call("append", json!({"mailbox": "Archive", "content": "Subject: x\n\nhello\n"})).await;
    let mut moved = place.clone();
    moved["to"] = json!("Archive");
    assert_eq!(json_of(&client.call("move", moved).await)["moved"], true);
    assert_eq!(client.found(json!({})).await.len(), 2);
    assert_eq!(client.found(json!({"mailbox": "Archive"})).await.len(), 2);
    client.call("delete", first(client).await).await;
    assert_eq!(client.found(json!({})).await.len(), 1);
    expect_logins(&account, &mut others, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_at_the_same_time_have_sessions_of_their_own_of_which_few_are_kept() {
    let Some(account) = Account::start() else { return };
    let mut others = 0;
    let at_once = |count: usize| {
        let client = &account.client;
        join_all((0..count).map(move |_| client.call("search", json!({}))))
    };
    at_once(KEPT + 2).await;
    at_once(KEPT).await;
    expect_logins(&account, &mut others, KEPT + 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_has_ended_is_replaced_without_an_error() {
    let Some(mut account) = Account::start() else { return };
    let mut others = 0;
    let write = |number: usize| json!({"mailbox": "Archive", "content": format!("Message-ID: <{number}@x>\n\nhello\n")});
    account.client.call("append", write(0)).await;
    account.server.end_sessions().expect("it runs");
    assert_eq!(json_of(&account.client.call("append", write(1)).await)["repeated"], false);
    expect_logins(&account, &mut others, 2).await;
    account.server.kill().expect("it is killed");
    account.server.start_again().expect("it starts");
    assert_eq!(json_of(&account.client.call("append", write(2)).await)["repeated"], false);
    assert_eq!(account.client.found(json!({"mailbox": "Archive"})).await.len(), 3, "each once");
    expect_logins(&account, &mut others, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_session_that_is_cut_off_is_replaced() {
    let Some(account) = Account::start() else { return };
    account.deliver_plain("one");
    let proxy = Proxy::start(account.server.port).expect("a proxy");
    let mut with = login(&account.server);
    with["port"] = json!(proxy.port);
    with["security"] = json!("none");
    let client = Client::new(with);
    let mut place = first(&client).await;
    place["seen"] = json!(true);
    for _ in 0..3 {
        proxy.cut();
        let marked = json_of(&client.call("mark", place.clone()).await);
        assert!(marked["flags"].as_array().is_some_and(|flags| flags.contains(&json!("\\Seen"))), "{marked}");
    }
    until_logged(&account.server, "Login: ", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_logs_in_anew_and_ends_the_old_session() {
    let Some(account) = Account::start() else { return };
    let mut with = login(&account.server);
    let registry = &account.client.registry;
    let connect = |with: &Json| {
        let kind = registry.connection_type("mail.imap").expect("a type");
        kind.resolve("box", &map(with.clone())).expect("a connection")
    };
    let mut client = Client::new(with.clone());
    client.registry = registry.clone();
    client.call("search", json!({})).await;
    account.server.set_password("canary-other").expect("it is set");
    client.call("search", json!({})).await;
    until_logged(&account.server, "Login: ", 1).await;
    with["password"] = json!("canary-other");
    client.connection = connect(&with);
    // The server reads its accounts once in a second.
    let begun = Instant::now();
    while client.try_call("search", json!({})).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "the password is not taken");
    }
    client.call("search", json!({})).await;
    until_logged(&account.server, "Login: ", 2).await;
    until_logged(&account.server, "imap(ada@example.com)", 1).await;
    with["password"] = json!("canary-wrong");
    client.connection = connect(&with);
    let error = client.fails("search", json!({})).await;
    assert_eq!(error.kind.to_string(), "connection", "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_step_that_failed_or_was_cut_off_is_not_used_again() {
    let Some(account) = Account::start() else { return };
    let mut others = 0;
    account.deliver_plain("one");
    let mut place = first(&account.client).await;
    place["uid"] = json!(17);
    account.client.fails("get", place).await;
    account.client.call("search", json!({})).await;
    expect_logins(&account, &mut others, 2).await;
    account.server.freeze(true).expect("it runs");
    let inputs = map(json!({}));
    let call = account.client.try_with("search", &inputs, ("", None));
    tokio::time::timeout(Duration::from_millis(200), call).await.expect_err("it is frozen");
    account.server.freeze(false).expect("it runs");
    account.client.call("search", json!({})).await;
    expect_logins(&account, &mut others, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_sessions_end_with_the_daemon() {
    let Some(mut account) = Account::start() else { return };
    account.client.call("search", json!({})).await;
    account.client.registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    until_logged(&account.server, "imap(ada@example.com)", 1).await;
}
