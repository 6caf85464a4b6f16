use std::sync::Arc;

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use value::Value;

use crate::database::{Database, json as map};

async fn add(database: &Database, key: &str) -> Result<Value, model::ActionError> {
    let inputs = map(json!({
        "sql": "insert into log (n) values (:n) returning n", "params": {"n": 7}, "once": true
    }));
    database.try_with(&database.connection, "execute", &inputs, (key, None)).await
}

#[tokio::test]
async fn a_repeated_step_changes_nothing_and_has_the_same_result() {
    for database in Database::all() {
        database.execute("create table log (n integer)").await;
        let first = add(&database, "e1.add").await.expect("done");
        let again = add(&database, "e1.add").await.expect("done before");
        assert_eq!([first.get("repeated"), again.get("repeated")], [Some(false.into()), Some(true.into())]);
        assert_eq!(
            [first.path("row.n"), again.path("row.n")],
            [Some(7.into()), Some(7.into())],
            "{}",
            database.name
        );
        add(&database, "e2.add").await.expect("another execution");
        assert_eq!(database.rows("select count(*) as n from log").await, r#"[{"n":2}]"#, "{}", database.name);
    }
}

#[tokio::test]
async fn attempts_at_the_same_time_write_once() {
    for database in Database::all() {
        database.execute("create table log (n integer)").await;
        let attempts = futures_util::future::join_all((0..5).map(|_| add(&database, "e1.add"))).await;
        let repeated = attempts.iter().map(|result| result.as_ref().expect("done").get("repeated"));
        let repeated = repeated.filter(|repeated| *repeated == Some(true.into())).count();
        assert_eq!(repeated, 4, "{}", database.name);
        assert_eq!(database.rows("select count(*) as n from log").await, r#"[{"n":1}]"#, "{}", database.name);
    }
}

#[tokio::test]
async fn a_failed_attempt_leaves_no_key() {
    for database in Database::all() {
        let error = add(&database, "e1.add").await.expect_err("there is no table");
        assert_eq!(error.kind, ErrorKind::Response, "{}", error.message);
        database.execute("create table log (n integer)").await;
        let result = add(&database, "e1.add").await.expect("done");
        assert_eq!(result.get("repeated"), Some(false.into()), "{}", database.name);
    }
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_changes_nothing() {
    for database in Database::all() {
        let kind = if database.name == "mysql" { "longtext" } else { "text" };
        database.execute(&format!("create table log (s {kind})")).await;
        let sql = "insert into log values (:s) returning s";
        let large = "x".repeat(300 << 10);
        let error =
            database.fails("execute", json!({"sql": sql, "params": {"s": large}, "once": true})).await;
        assert_eq!(error.kind, ErrorKind::Limit, "{}", error.message);
        assert_eq!(database.rows("select * from log").await, "[]", "{}", database.name);
    }
}

#[tokio::test]
async fn an_insert_from_a_file_and_a_transaction_happen_once() {
    for database in Database::all() {
        database.execute("create table log (n integer)").await;
        let insert = map(json!({"table": "log", "rows": "n\n1\n2\n", "once": true}));
        let several = map(json!({"statements": [{"sql": "insert into log values (3)"}], "once": true}));
        for (action, inputs, key) in [("insert", &insert, "e.a"), ("transaction", &several, "e.b")] {
            for repeated in [false, true] {
                let result =
                    database.try_with(&database.connection, action, inputs, (key, None)).await.expect("done");
                assert_eq!(result.get("repeated"), Some(repeated.into()), "{} {action}", database.name);
            }
        }
        assert_eq!(database.rows("select count(*) as n from log").await, r#"[{"n":3}]"#);
    }
}

/// The answer to a commit is lost in any phase; the next attempt knows what happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_never_writes_twice() {
    let Some(database) = Database::postgres() else { return };
    let database = Arc::new(database);
    database.execute("create table log (n integer)").await;
    let server = database.server.as_ref().expect("a server");
    for round in 0..12_u32 {
        let key = format!("e{round}.add");
        let writer = {
            let (database, key) = (database.clone(), key.clone());
            tokio::spawn(async move { add(&database, &key).await })
        };
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'cogwork'";
        server.sql(kill).expect("killed");
        let outcome = writer.await.expect("no panic");
        if let Err(error) = &outcome {
            assert!(matches!(error.kind, ErrorKind::Network), "{error:?}");
        }
        let again = add(&database, &key).await;
        // The first call after the kill may find the dead connection of the pool.
        let again = match again {
            Ok(again) => again,
            Err(_) => add(&database, &key).await.expect("a new connection"),
        };
        if outcome.is_ok() {
            assert_eq!(again.get("repeated"), Some(true.into()));
        }
        let count = database.rows("select count(*) as n from log").await;
        assert_eq!(count, format!(r#"[{{"n":{}}}]"#, round + 1), "round {round}: {outcome:?}");
    }
}
