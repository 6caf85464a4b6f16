//! Sessions that are kept for the next step: what ends them, and what the next step finds in them.

use std::time::Duration;

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::{Database, json as map};

#[tokio::test]
async fn a_table_that_changed_since_a_statement_was_prepared_is_read_anew() {
    let Some(database) = Database::postgres() else { return };
    let server = database.server.as_ref().expect("a server");
    database.execute("create table log (n integer)").await;
    database.execute("insert into log values (7)").await;
    assert_eq!(database.rows("select * from log").await, r#"[{"n":7}]"#);
    server.sql("alter table log add column s text default 'new'").expect("changed");
    assert_eq!(database.rows("select * from log").await, r#"[{"n":7,"s":"new"}]"#);
}

#[tokio::test]
async fn rows_beyond_the_maximum_are_not_read() {
    for database in Database::all() {
        // The server would sleep at a row that nobody needs.
        let sql = match database.name {
            "sqlite" => continue,
            "mysql" => "select seq, if(seq > 90000, sleep(60), 0) as slept from seq_1_to_100000",
            _ => {
                "select n, case when n > 90000 then pg_sleep(60)::text end from generate_series(1, 100000) as n"
            }
        };
        let inputs = map(json!({"sql": sql, "maxRows": 1}));
        let limit = Some(Duration::from_secs(20));
        let result = database.try_with(&database.connection, "query", &inputs, ("", limit)).await;
        assert_eq!(result.expect("a row").get("truncated"), Some(true.into()), "{}", database.name);
        let error =
            database.try_with(&database.connection, "execute", &map(json!({"sql": sql})), ("", limit)).await;
        let error = error.expect_err("too many rows");
        assert_eq!(error.kind, ErrorKind::Limit, "{}: {}", database.name, error.message);
        assert_eq!(database.rows("select 1 as n").await, r#"[{"n":1}]"#, "{}", database.name);
    }
}

#[tokio::test]
async fn a_row_above_the_limit_is_refused() {
    let Some(database) = Database::postgres() else { return };
    let sql = "select repeat('x', 17000000) as s";
    let error = database.fails("query", json!({"sql": sql, "as": "csv"})).await;
    assert_eq!((&error.kind, &*error.message), (&ErrorKind::Limit, "a row has more than 16MiB"));
    assert_eq!(database.rows("select 1 as n").await, r#"[{"n":1}]"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_leaves_nothing_in_the_session_of_the_next_one() {
    for database in Database::all() {
        database.execute("create temporary table leak (n integer)").await;
        let error = database.fails("query", json!({"sql": "select * from leak"})).await;
        assert_eq!(error.kind, ErrorKind::Response, "{}: {}", database.name, error.message);
        let (change, read, expected) = match database.name {
            "sqlite" => continue,
            "mysql" => ("set @leak = 1", "select @leak as s", r#"[{"s":null}]"#),
            _ => (
                "select set_config('lock_timeout', '7s', false)",
                "select current_setting('lock_timeout') as s",
                r#"[{"s":"0"}]"#,
            ),
        };
        database.execute(change).await;
        assert_eq!(database.rows(read).await, expected, "{}", database.name);
        if let Some(server) = &database.server {
            database.execute("set lock_timeout = '7s'").await;
            assert_eq!(database.rows(read).await, expected);
            database.call("query", json!({"sql": "select pg_advisory_lock(7)::text as s"})).await;
            server.sql("set statement_timeout = '20s'; select pg_advisory_lock(7)").expect("nobody has it");
        }
    }
}

#[tokio::test]
async fn an_update_counts_the_rows_that_it_finds() {
    for database in Database::all() {
        database.execute("create table log (n integer)").await;
        database.execute("insert into log values (1), (1), (2)").await;
        let update = json!({"sql": "update log set n = 1 where n = 1", "expect": 2});
        let done = database.call("execute", update).await;
        assert_eq!(done.get("affected"), Some(2.into()), "{}", database.name);
    }
}

#[tokio::test]
async fn keys_that_are_old_are_deleted_until_none_is_left() {
    for database in Database::all() {
        let kind = format!("sql.{}", database.name);
        database.execute(systems::table_of_once(&kind).expect("a database")).await;
        database.execute("create table log (n integer)").await;
        let old = match database.name {
            "sqlite" => {
                "insert into cogwork_once (key, at) with recursive c(n) as (select 1 union all select n + 1 from c where n < 2500) \
                 select 'k' || n, datetime('now', '-40 days') from c"
            }
            "mysql" => {
                "insert into cogwork_once (`key`, at) select concat('k', seq), now() - interval 40 day from seq_1_to_2500"
            }
            _ => {
                "insert into cogwork_once (key, at) select 'k' || n, now() - interval '40 days' from generate_series(1, 2500) as n"
            }
        };
        database.execute(old).await;
        for _ in 0..3 {
            let add = json!({"sql": "insert into log values (1)", "once": true});
            database.call("execute", add).await;
        }
        let left = "select count(*) as n from cogwork_once";
        assert_eq!(database.rows(left).await, r#"[{"n":3}]"#, "{}", database.name);
    }
}

/// The statement that creates the table as earlier versions did, without an index on the age.
fn former_table(database: &str) -> &'static str {
    match database {
        "sqlite" => {
            "create table cogwork_once (key text primary key, at text not null default current_timestamp, result text)"
        }
        "mysql" => {
            "create table cogwork_once (`key` varchar(255) character set utf8mb4 collate utf8mb4_bin primary key, \
             at timestamp not null default current_timestamp, result mediumtext character set utf8mb4) engine = InnoDB"
        }
        _ => {
            "create table cogwork_once (key text primary key, at timestamptz not null default now(), result text)"
        }
    }
}

#[tokio::test]
async fn the_table_of_an_earlier_version_gets_an_index_on_the_age_of_its_keys() {
    for database in Database::all() {
        let count = match database.name {
            "sqlite" => "select count(*) as n from pragma_index_list('cogwork_once') where origin = 'c'",
            "mysql" => {
                "select count(*) as n from information_schema.statistics where table_schema = database() \
                 and table_name = 'cogwork_once' and index_name = 'cogwork_once_at'"
            }
            _ => "select count(*) as n from pg_indexes where indexname = 'cogwork_once_at'",
        };
        let add = json!({"sql": "insert into log values (1)", "once": true});
        database.execute("create table log (n integer)").await;
        database.execute(former_table(database.name)).await;
        database.call("execute", add.clone()).await;
        assert_eq!(database.rows(count).await, r#"[{"n":1}]"#, "{}", database.name);
    }
    for database in Database::all() {
        let kind = format!("sql.{}", database.name);
        let add = json!({"sql": "insert into log values (1)", "once": true});
        database.execute("create table log (n integer)").await;
        database.execute(systems::table_of_once(&kind).expect("a database")).await;
        database.call("execute", add).await;
        let named = match database.name {
            "sqlite" => {
                "select count(*) as n from pragma_index_list('cogwork_once') where name = 'cogwork_once_at'"
            }
            "mysql" => {
                "select count(*) as n from information_schema.statistics where table_schema = database() \
                 and index_name = 'cogwork_once_at'"
            }
            _ => "select count(*) as n from pg_indexes where indexname = 'cogwork_once_at'",
        };
        assert_eq!(database.rows(named).await, r#"[{"n":0}]"#, "{}: a new table has one", database.name);
    }
}
