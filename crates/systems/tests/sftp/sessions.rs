//! Sessions that are kept for the next step.

use std::time::{Duration, Instant};

use connector::Registry;
use futures_util::future::join_all;
use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use value::Value;

use crate::server::{Server, bytes_of, map};

/// The number of sessions that a connection keeps.
const KEPT: usize = 4;
/// The time limit of what a server does by itself.
const PATIENCE: Duration = Duration::from_secs(20);

fn logins(server: &Server) -> usize {
    server.openssh.logins().expect("a log")
}

/// Waits until the server has this number of connections.
async fn until_sessions(server: &Server, count: usize) {
    let begun = Instant::now();
    while server.openssh.sessions().expect("it runs") != count {
        assert!(begun.elapsed() < PATIENCE, "{} sessions", server.openssh.sessions().expect("it runs"));
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_one_after_the_other_log_in_once() {
    let Some(server) = Server::start().await else { return };
    server.call("makeFolder", json!({"path": "in"})).await;
    for number in 0..5 {
        let path = format!("in/{number}");
        server.call("put", json!({"path": path, "content": path})).await;
        assert_eq!(bytes_of(&server.call("get", json!({"path": path})).await), path.as_bytes());
    }
    server.call("move", json!({"from": "in/0", "to": "in/9"})).await;
    server.call("delete", json!({"path": "in/1"})).await;
    let found = server.call("list", json!({"path": "in"})).await.get("results").unwrap_or_default();
    assert_eq!(found.as_list().map(<[_]>::len), Some(4));
    assert_eq!(logins(&server), 1);
    until_sessions(&server, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_at_the_same_time_have_sessions_of_their_own_of_which_few_are_kept() {
    let Some(server) = Server::start().await else { return };
    let at_once = |count: usize| {
        let server = &server;
        join_all((0..count).map(move |_| server.call("stat", json!({"path": "."}))))
    };
    at_once(KEPT + 2).await;
    assert_eq!(logins(&server), KEPT + 2);
    until_sessions(&server, KEPT).await;
    at_once(KEPT).await;
    assert_eq!(logins(&server), KEPT + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_has_ended_is_replaced_without_an_error() {
    let Some(mut server) = Server::start().await else { return };
    let write = |number: usize| json!({"path": number.to_string(), "content": "x"});
    server.call("put", write(0)).await;
    server.openssh.end_sessions().expect("it runs");
    let repeated = server.call("put", write(1)).await.get("repeated");
    assert_eq!((repeated, logins(&server)), (Some(Value::from(false)), 2));
    server.openssh.kill().expect("it is killed");
    server.openssh.start_again().expect("it starts");
    let repeated = server.call("put", write(2)).await.get("repeated");
    assert_eq!((repeated, logins(&server)), (Some(Value::from(false)), 3));
    until_sessions(&server, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_secret_logs_in_anew_and_ends_the_old_session() {
    let Some(server) = Server::start().await else { return };
    let stat = map(json!({"path": "."}));
    for (key, expected) in [("user", 1), ("user", 1), ("user_ecdsa", 2), ("user_ecdsa", 2)] {
        let mut with = server.login();
        with.insert("privateKey", server.read(key).as_str());
        let connection = server.connect("sftp.key", &with);
        server.try_with(&connection, "stat", &stat, ("", None)).await.expect("the key is good");
        assert_eq!(logins(&server), expected, "{key}");
        until_sessions(&server, 1).await;
    }
    let mut with = server.login();
    with.insert("privateKey", server.read("stranger").as_str());
    let connection = server.connect("sftp.key", &with);
    let error = server.try_with(&connection, "stat", &stat, ("", None)).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Connection, "a session of another key is not used: {error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_step_that_failed_or_was_cut_off_is_not_used_again() {
    let Some(server) = Server::start().await else { return };
    server.call("stat", json!({"path": "."})).await;
    server.fails("stat", json!({"path": "none"})).await;
    server.call("stat", json!({"path": "."})).await;
    assert_eq!(logins(&server), 2);
    for is_cancelled in [true, false] {
        let before = logins(&server);
        server.openssh.freeze(true).expect("it runs");
        let brief = Duration::from_millis(200);
        let inputs = map(json!({"path": "."}));
        let limit = if is_cancelled { None } else { Some(brief) };
        let call = server.try_with(&server.connection, "stat", &inputs, ("", limit));
        match tokio::time::timeout(2 * brief, call).await {
            Ok(result) => assert_eq!(result.expect_err("it is frozen").kind, ErrorKind::Timeout),
            Err(_) => assert!(is_cancelled),
        }
        server.openssh.freeze(false).expect("it runs");
        server.call("stat", json!({"path": "."})).await;
        assert_eq!(logins(&server), before + 1);
        until_sessions(&server, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_sessions_end_with_the_daemon() {
    let Some(mut server) = Server::start().await else { return };
    server.call("stat", json!({"path": "."})).await;
    until_sessions(&server, 1).await;
    server.registry = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    until_sessions(&server, 0).await;
}
