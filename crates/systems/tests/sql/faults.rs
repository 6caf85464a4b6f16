//! Servers that are cut off, silent, slow and frozen.

use std::time::Duration;

use connector::ResolvedConnection;
use model::{ActionError, ErrorKind};
use pretty_assertions::assert_eq;
use serde_json::json;
use value::Value;

use crate::database::{Database, PASSWORD, json as map};
use crate::proxy::{Fault, Proxy};

/// The servers, each with a proxy before it and a connection through the proxy.
async fn servers() -> Vec<(Database, Proxy, ResolvedConnection)> {
    let mut found = Vec::new();
    for database in Database::all() {
        let port = match database.name {
            "sqlite" => continue,
            "mysql" => 3306,
            _ => 5432,
        };
        let server = format!("{}:{port}", database.address).parse().expect("an address");
        let proxy = Proxy::start(server).await;
        let mut with = Database::login(&proxy.address.ip().to_string(), PASSWORD);
        with.insert("port", u64::from(proxy.address.port()));
        let connection = database.connect(&with).expect("a connection");
        found.push((database, proxy, connection));
    }
    found
}

async fn add(
    database: &Database,
    connection: &ResolvedConnection,
    once: bool,
    key: &str,
    limit: Duration,
) -> Result<Value, ActionError> {
    let inputs = map(json!({"sql": "insert into log (n) values (1)", "once": once}));
    database.try_with(connection, "execute", &inputs, (key, Some(limit))).await
}

/// Waits until the table has this many rows, or shows how many it has.
async fn has_rows(database: &Database, count: usize) {
    let expected = format!(r#"[{{"n":{count}}}]"#);
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while database.rows("select count(*) as n from log").await != expected {
            tokio::task::yield_now().await;
        }
    });
    if waited.await.is_err() {
        assert_eq!(database.rows("select count(*) as n from log").await, expected, "{}", database.name);
    }
}

#[tokio::test]
async fn a_lost_answer_to_a_commit_is_unknown_and_once_knows_it() {
    for (database, proxy, through) in servers().await {
        database.execute("create table log (n integer)").await;
        add(&database, &through, true, "e0.add", Duration::from_secs(20))
            .await
            .expect("nothing is mistreated yet");
        let mut count = 1;
        for (fault, is_written) in [
            (Fault::CutAfterCommit, true),
            (Fault::SilentAfterCommit, true),
            (Fault::CutBeforeCommit, false),
            (Fault::Frozen, false),
        ] {
            for once in [true, false] {
                let key = format!("{fault:?}{once}");
                proxy.set(fault);
                let error = add(&database, &through, once, &key, Duration::from_millis(800)).await;
                let error = error.expect_err("the answer is lost");
                let shown = format!("{} {fault:?} once: {once}: {error:?}", database.name);
                let is_silent = matches!(fault, Fault::SilentAfterCommit | Fault::Frozen);
                assert_eq!(error.kind == ErrorKind::Timeout, is_silent, "{shown}");
                assert!(is_silent || error.kind == ErrorKind::Network, "{shown}");
                assert_eq!(error.outcome_unknown, fault != Fault::Frozen, "{shown}");
                assert!(!shown.contains("canary"), "{shown}");
                count += usize::from(is_written);
                has_rows(&database, count).await;
                proxy.set(Fault::None);
                let again = add(&database, &through, once, &key, Duration::from_secs(20)).await;
                let again = again.expect("a new connection");
                assert_eq!(again.get("repeated"), Some((once && is_written).into()), "{shown}");
                count += usize::from(!(once && is_written));
                has_rows(&database, count).await;
            }
        }
    }
}

#[tokio::test]
async fn a_slow_server_is_waited_for() {
    for (database, proxy, through) in servers().await {
        proxy.set(Fault::Slow);
        let sql = match database.name {
            "mysql" => "select seq as n from seq_1_to_300",
            _ => "select n from generate_series(1, 300) as s (n)",
        };
        let inputs = map(json!({"sql": sql}));
        let found = database.try_with(&through, "query", &inputs, ("", Some(Duration::from_secs(60)))).await;
        assert_eq!(found.expect("rows").get("count"), Some(300.into()), "{}", database.name);
    }
}

#[tokio::test]
async fn a_stopped_server_ends_a_call_with_its_time_and_serves_the_next_one() {
    let Some(database) = Database::postgres() else { return };
    database.execute("create table log (n integer)").await;
    let process = database.server.as_ref().expect("a server").process().expect("it runs").to_string();
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &process]).status().expect("kill");
        assert!(sent.success());
    };
    // Sessions have processes of their own: a new one needs the server's.
    let mut with = Database::login(&database.address, PASSWORD);
    with.insert("pool", 2);
    let fresh = database.connect(&with).expect("a connection");
    signal("-STOP");
    let error = add(&database, &fresh, true, "e.add", Duration::from_millis(700)).await;
    signal("-CONT");
    let error = error.expect_err("nobody answers");
    assert_eq!((error.kind.clone(), error.outcome_unknown), (ErrorKind::Timeout, false), "{error:?}");
    add(&database, &fresh, true, "e.add", Duration::from_secs(20)).await.expect("it answers again");
    has_rows(&database, 1).await;
}

#[tokio::test]
async fn a_server_that_is_gone_is_told_and_found_again() {
    let Some(mut database) = Database::postgres() else { return };
    database.execute("create table log (n integer)").await;
    database.server.as_mut().expect("a server").stop().expect("stopped");
    for _ in 0..2 {
        let error = add(&database, &database.connection, true, "e.add", Duration::from_secs(5)).await;
        let error = error.expect_err("it is gone");
        assert_eq!((error.kind.clone(), error.outcome_unknown), (ErrorKind::Network, false), "{error:?}");
    }
    database.server.as_mut().expect("a server").run().expect("started");
    let added = add(&database, &database.connection, true, "e.add", Duration::from_secs(20)).await;
    added.expect("it is there again");
    has_rows(&database, 1).await;
}
