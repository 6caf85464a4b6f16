use std::time::Duration;

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::{Database, json as map};

/// A statement that runs for minutes.
fn endless(database: &Database) -> &'static str {
    match database.name {
        "sqlite" => {
            "insert into t with recursive c(n) as (select 1 union all select n + 1 from c where n < 100000000000) select max(n) from c"
        }
        "mysql" => "insert into t select sleep(300)",
        _ => "insert into t select 1 from pg_sleep(300)",
    }
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended_and_taken_back() {
    for database in Database::all() {
        database.execute("create table t (n bigint)").await;
        let inputs = map(json!({"sql": endless(&database)}));
        let limit = Some(Duration::from_millis(300));
        let error = database
            .try_with(&database.connection, "execute", &inputs, ("", limit))
            .await
            .expect_err("ended");
        assert_eq!(
            (error.kind.clone(), error.outcome_unknown),
            (ErrorKind::Timeout, false),
            "{}: {}",
            database.name,
            error.message
        );
        // The other writer waits until the first one is gone.
        database.execute("insert into t values (7)").await;
        assert_eq!(database.rows("select n from t").await, r#"[{"n":7}]"#, "{}", database.name);
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let Some(database) = Database::postgres() else { return };
    database.execute("create table t (n integer)").await;
    let inputs = map(json!({"sql": "insert into t select 1 from pg_sleep(300)"}));
    {
        let call = database.try_with(&database.connection, "execute", &inputs, ("", None));
        let dropped = tokio::time::timeout(Duration::from_millis(300), call).await;
        assert!(dropped.is_err());
    }
    // The request is sent by a task.
    let server = database.server.as_ref().expect("a server");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let until = "select count(*) = 0 from pg_stat_activity where query like '%pg_sleep(300)%' and state = 'active' and pid <> pg_backend_pid()";
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while server.sql(until).expect("an answer") != "t" {
            tokio::task::yield_now().await;
        }
    });
    waited.await.expect("cancelled");
}

#[tokio::test]
async fn sessions_are_kept_and_limited() {
    let Some(database) = Database::postgres() else { return };
    let pid = || async { database.rows("select pg_backend_pid() as pid").await };
    assert_eq!(pid().await, pid().await, "a session is used again");
    let mut with = Database::login(&database.address, crate::database::PASSWORD);
    with.insert("pool", 1);
    let connection = database.connect(&with).expect("a connection");
    let inputs = map(json!({"sql": "select pg_backend_pid() as pid, pg_sleep(0.05)::text as s"}));
    let calls = (0..3).map(|_| database.try_with(&connection, "query", &inputs, ("", None)));
    let pids = futures_util::future::join_all(calls).await;
    let pids: Vec<_> = pids.into_iter().map(|result| result.expect("a result").path("row.pid")).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]), "one session for all: {pids:?}");
}
