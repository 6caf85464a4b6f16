//! `sql.*` actions in an execution, on a SQLite file below the folder of files.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use model::failpoint::{Failpoint, FailpointAction, Failpoints};
use pretty_assertions::assert_eq;

use crate::checking::check_steps;
use crate::common::{Project, end, manual, pass, rows, soon, start_and_suspend, start_with, steps_of, stop};
use crate::crashes::at_each_commit;
use crate::polls::polled;

const ORDERS: &str = "
  - action: sql.execute
    connection: books
    with: {sql: 'create table if not exists orders (id integer primary key, customer text)', once: true}
  - id: ordered
    action: sql.transaction
    connection: books
    retry: {max: 3, on: all, delay: 0s}
    with:
      once: true
      statements:
        - id: order
          sql: insert into orders (customer) values (:customer) returning id
          params: {customer: '${{ inputs.name }}'}
        - sql: update orders set customer = upper(customer) where id = :id
          from: {id: {result: order, column: id}}
          expect: 1
  - action: sql.insert
    connection: books
    with:
      table: orders
      rows: [{id: 100, customer: eve}, {id: 101, customer: sam}]
      once: true
  - id: found
    action: sql.query
    connection: books
    with: {sql: 'select customer from orders order by id'}
  - set: {customers: '${{ steps.found.results.rows | map(attribute=\"customer\") | list }}'}
";

const EXPECTED: &str = r#"{"customers":["ADA","eve","sam"]}"#;

fn project() -> Project {
    project_with(ORDERS)
}

fn project_with(steps: &str) -> Project {
    let mut project = Project::with(&manual(steps));
    project.write("connections/books.yaml", "type: sql.sqlite\nwith: {file: books.db}\n");
    project.settings.files_dir = Some(project.path("files"));
    std::fs::create_dir(project.path("files")).expect("a folder");
    project
}

#[tokio::test]
async fn rows_go_into_a_database_and_come_back() {
    let project = project();
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"name": "ada"}"#).await;
    assert_eq!(end(&engine, id).await, EXPECTED);
    let tested = engine.connections().test_connection("books").await.expect("a test");
    assert_eq!(tested.error, None);
    stop(engine).await;
}

#[tokio::test]
async fn a_crash_at_any_commit_changes_the_database_once() {
    at_each_commit(async |at| {
        let project = project_with(&format!("  - wait: 1m\n{ORDERS}"));
        let crashing = at.start(&project).await;
        let engine = &crashing.engine;
        let id = start_and_suspend(engine, r#"{"name": "ada"}"#).await;
        crashing.arm();
        pass(&project, Duration::from_secs(60)).await;
        soon(async {
            tokio::select! {
                _ = engine.admission().wait(id) => {}
                _ = engine.context().store_lost() => {}
            }
        })
        .await;
        let has_crashed = crashing.has_crashed();
        crashing.end().await;
        let engine = project.start().await;
        assert_eq!(end(&engine, id).await, EXPECTED, "{at:?}");
        stop(engine).await;
        has_crashed
    })
    .await;
}

#[tokio::test]
async fn a_lost_answer_to_a_change_changes_nothing_more() {
    let mut project = project();
    let calls = AtomicU32::new(0);
    project.settings.failpoints = Failpoints::new(move |at| {
        let is_second = at == Failpoint::AfterEffect && calls.fetch_add(1, Ordering::SeqCst) == 1;
        is_second.then_some(FailpointAction::Error)
    });
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"name": "ada"}"#).await;
    assert_eq!(end(&engine, id).await, EXPECTED);
    let steps = steps_of(&engine, id).await.join("\n");
    assert!(steps.contains("\"repeated\":true"), "{steps}");
    stop(engine).await;
}

const WRITE: &str = "trigger: {manual: {}}
inputs: {sql: {type: text}}
steps:
  - action: sql.execute
    connection: books
    # cogwork: allow(computed-statement): the test gives it
    with: {sql: '${{ inputs.sql }}'}
";

const NEWS: &str = "trigger:
  event: sql.newRows
  connection: books
  with: {table: orders, id: [id], watermark: changed_at, columns: [id, total]}
  every: 1m
  deliver: each
steps:
  - set: {record: '${{ trigger.results.body.data.record }}'}
";

async fn write(engine: &engine::Engine, sql: &str) {
    let id = start_with(engine, &serde_json::json!({ "sql": sql }).to_string()).await;
    assert!(!end(engine, id).await.starts_with("failed"), "{sql}");
}

#[tokio::test]
async fn a_new_or_changed_row_starts_one_execution() {
    let project = project();
    project.write("automations/test.yaml", WRITE);
    let engine = project.start().await;
    write(&engine, "create table orders (id integer primary key, total integer, changed_at text)").await;
    write(&engine, "insert into orders values (1, 10, '2026-03-02 07:59:00')").await;
    project.write("automations/news.yaml", NEWS);
    engine.reload().await;
    polled(&project, &engine, 1).await;
    let changes = [
        // In the overlap, but known.
        ("update orders set total = 11 where id = 1", None),
        (
            "insert into orders values (2, 20, '2026-03-02 08:00:30')",
            Some(r#"{"id":2,"total":20,"changed_at":"2026-03-02 08:00:30"}"#),
        ),
        // Committed late, within the overlap.
        (
            "insert into orders values (3, 30, '2026-03-02 07:59:30')",
            Some(r#"{"id":3,"total":30,"changed_at":"2026-03-02 07:59:30"}"#),
        ),
        (
            "update orders set total = 21, changed_at = '2026-03-02 08:02:30' where id = 2",
            Some(r#"{"id":2,"total":21,"changed_at":"2026-03-02 08:02:30"}"#),
        ),
        ("insert into orders values (4, 40, null)", None),
        ("insert into orders values (5, 50, 'soon'), (6, 60, 1772438550)", None),
        (
            "insert into orders values (7, 70, '2026-03-02 08:05:30')",
            Some(r#"{"id":7,"total":70,"changed_at":"2026-03-02 08:05:30"}"#),
        ),
    ];
    let mut expected = Vec::new();
    for ((sql, record), poll) in changes.into_iter().zip(2..) {
        write(&engine, sql).await;
        expected.extend(record.map(|record| format!(r#"{{"record":{record}}}"#)));
        project.clock.advance(Duration::from_secs(60));
        polled(&project, &engine, poll).await;
        let mut found = Vec::new();
        for row in rows(&engine).await.into_iter().rev().filter(|row| row.automation.as_str() == "news") {
            found.push(end(&engine, row.id).await);
        }
        assert_eq!(found, expected, "{sql}");
    }
    stop(engine).await;
}

#[test]
fn mistakes_in_statements_are_found_at_their_places() {
    let step = |with: &str| format!("  - {{action: sql.query, connection: books, with: {{{with}}}}}\n");
    for (with, expected) in [
        ("sql: 'select :a as a', params: {a: 1}", ""),
        ("sql: 'select :a as a', params: '${{ {\"a\": 1} }}'", ""),
        ("sql: 'select :a as a'", "wrong-input sql"),
        ("sql: 'select :day as a', params: {dya: 1}", "wrong-input sql,wrong-input dya"),
        ("sql: 'select 1 as a', params: {a: 1}", "wrong-input a"),
        ("sql: 'select 1 as a; drop table t'", "wrong-input sql"),
        ("sql: 'select ? as a'", "wrong-input sql"),
        ("sql: 'commit'", "wrong-input sql"),
        ("sql: \"select 'a\"", "wrong-input sql"),
        ("sql: 'select ${{ execution.attempt }} as a'", "computed-statement sql"),
    ] {
        let found: Vec<&str> = expected.split(',').filter(|found| !found.is_empty()).collect();
        check_steps(&step(with), &found);
    }
    let allowed = "  - action: sql.query
    connection: books
    with:
      # cogwork: allow(computed-statement): the number is no text
      sql: 'select ${{ execution.attempt }} as a'
";
    check_steps(allowed, &[]);
}

#[test]
fn ids_of_statements_are_plain_and_a_statement_with_several_rows_is_not_read() {
    for (statements, expected) in [
        ("{id: new order, sql: 'select 1 as x'}", "wrong-input id"),
        ("{id: '', sql: 'select 1 as x'}", "wrong-input id"),
        ("{id: new-order_2, sql: 'select 1 as x'}", ""),
        (
            "{id: a, sql: 'select :n as x', rows: [{n: 1}, {n: 2}]}, {sql: 'select :x as x', from: {x: {result: a, column: x}}}",
            "wrong-input x",
        ),
        (
            "{id: a, sql: 'select :n as x', rows: [{n: '${{ 1 }}'}, {n: 2}]}, {sql: 'select :x as x', from: {x: {result: a, column: x}}}",
            "wrong-input x",
        ),
        (
            "{id: a, sql: 'select :n as x', rows: [{n: 1}]}, {sql: 'select :x as x', from: {x: {result: a, column: x}}}",
            "",
        ),
        (
            "{id: a, sql: 'select :n as x', rows: '${{ [{\"n\": 1}] }}'}, {sql: 'select :x as x', from: {x: {result: a, column: x}}}",
            "",
        ),
    ] {
        let found: Vec<&str> = expected.split(',').filter(|found| !found.is_empty()).collect();
        let with = format!("statements: [{statements}]");
        check_steps(
            &format!("  - {{action: sql.transaction, connection: books, with: {{{with}}}}}\n"),
            &found,
        );
    }
}

#[test]
fn mistakes_in_transactions_and_inserts_are_found_at_their_places() {
    let step = |action: &str, with: &str| {
        format!("  - {{action: sql.{action}, connection: books, with: {{{with}}}}}\n")
    };
    for (statements, expected) in [
        ("{id: a, sql: 'select 1 as x'}, {sql: 'select :x as x', from: {x: {result: a, column: x}}}", ""),
        ("{sql: 'select :x as x', from: {x: {result: a, column: x}}}", "wrong-input x"),
        (
            "{id: a, sql: 'select 1 as x'}, {sql: 'select 2 as y', from: {y: {result: a, column: x}}}",
            "wrong-input y",
        ),
        (
            "{id: a, sql: 'select 1 as x'}, {sql: 'select :x as x', params: {x: 1}, from: {x: {result: a, column: x}}}",
            "wrong-input x",
        ),
        (
            "{id: a, sql: 'select 1 as x'}, {sql: 'select :x as x', from: {x: {result: a, column: '${{ execution.id }}'}}}",
            "computed-statement from",
        ),
        (
            "{sql: 'select 1 as x'}, {sql: 'select :x as x', params: {m: '${{ 1 }}'}}",
            "wrong-input sql,wrong-input m",
        ),
        ("{sql: 'select :x as x', rows: [{x: 1}]}", ""),
        ("{sql: 'select :x as x', rows: [{x: 1}, {y: 1}]}", "wrong-input rows"),
        ("{sql: 'select :x as x', rows: [{x: 1, y: 1}]}", "wrong-input rows"),
        ("{sql: 'select :x as x', rows: []}", "wrong-input rows"),
        ("{sql: 'select :x as x', params: {x: 1}, rows: [{x: 2}]}", "wrong-input rows"),
        ("{sql: 'select :x as x', params: {x: 1}, rows: [{x: 2}, {}]}", ""),
        ("{id: a, sql: 'select 1 as x'}, {id: a, sql: 'select 2 as y'}", "wrong-input id"),
        (
            "{id: a, sql: 'insert into t (n) values (1)'}, {sql: 'select :x as x', from: {x: {result: a, column: total}}}",
            "wrong-input x",
        ),
        (
            "{id: a, sql: 'insert into t (n) values (1) returning n, m'}, {sql: 'select :x as x', from: {x: {result: a, column: k}}}",
            "wrong-input x",
        ),
        (
            "{id: a, sql: 'insert into t (n) values (1) returning N, m + 1 as k'}, {sql: 'select :x as x', from: {x: {result: a, column: k}}}",
            "",
        ),
        (
            "{id: a, sql: 'insert into t (n) values (1) returning *'}, {sql: 'select :x as x', from: {x: {result: a, column: k}}}",
            "",
        ),
        ("{sql: 'select ${{ 1 }} as x'}", "computed-statement sql"),
    ] {
        let found: Vec<&str> = expected.split(',').filter(|found| !found.is_empty()).collect();
        check_steps(&step("transaction", &format!("statements: [{statements}]")), &found);
    }
    check_steps(&step("transaction", "statements: []"), &["wrong-input statements"]);
    check_steps(&step("transaction", "statements: {sql: select 1 as x}"), &["wrong-input statements"]);
    check_steps(
        &step("insert", "table: '${{ execution.id }}', rows: [{a: 1}]"),
        &["computed-statement table"],
    );
    check_steps(&step("insert", "table: 'a b; c.d.e.f', rows: [{a: 1}]"), &["wrong-input table"]);
    check_steps(&step("insert", "table: t, rows: [{a: 1}], onConflict: update"), &["wrong-input onConflict"]);
}

#[test]
fn a_repeated_change_without_once_is_a_warning() {
    let step = |with: &str| {
        format!(
            "  - {{action: sql.execute, connection: books, retry: 2, with: {{sql: 'delete from t'{with}}}}}\n"
        )
    };
    check_steps(&step(""), &["repeated-write retry"]);
    check_steps(&step(", once: true"), &[]);
    check_steps(&step(", once: '${{ execution.attempt > 1 }}'"), &[]);
    let insert = |rest: &str| {
        format!(
            "  - {{action: sql.insert, connection: books, retry: 2, with: {{table: t, rows: [{{a: 1}}]{rest}}}}}\n"
        )
    };
    check_steps(&insert(""), &["repeated-write retry"]);
    check_steps(&insert(", onConflict: skip"), &[]);
}

const BATCH: &str = "trigger:
  event: sql.newRows
  connection: books
  with: {table: orders, id: [id], watermark: changed_at}
  every: 1m
  deliver: batch
steps:
  - set: {count: '${{ trigger.results.body.data | length }}'}
";

/// A project whose automation `news` is told of new rows, before its first poll.
async fn with_news(rows: &str) -> (Project, engine::Engine) {
    let project = project();
    project.write("automations/test.yaml", WRITE);
    let engine = project.start().await;
    write(&engine, "create table orders (id integer primary key, changed_at text)").await;
    write(&engine, rows).await;
    project.write("automations/news.yaml", BATCH);
    engine.reload().await;
    polled(&project, &engine, 1).await;
    (project, engine)
}

/// Inserts rows with the ids from `first` on, all of one instant.
fn many(first: u32, count: u32, at: &str) -> String {
    format!(
        "insert into orders with recursive c(n) as (select {first} union all select n + 1 from c where n < {}) select n, '{at}' from c",
        first + count - 1
    )
}

/// The number of rows that have started executions.
async fn news(engine: &engine::Engine) -> u64 {
    let mut count = 0;
    for row in rows(engine).await.into_iter().filter(|row| row.automation.as_str() == "news") {
        let told = end(engine, row.id).await;
        let told = serde_json::from_str::<serde_json::Value>(&told).expect("JSON");
        count += told["count"].as_u64().expect("a number");
    }
    count
}

/// Polls until nothing is left to read at once, and returns the number of the next poll.
async fn poll_all(project: &Project, engine: &engine::Engine, mut next: u64) -> u64 {
    project.clock.advance(Duration::from_secs(60));
    polled(project, engine, next).await;
    loop {
        next += 1;
        let poll = engine.ingress().polls().pop().expect("it polls").poll_state;
        assert_eq!(poll.error, None);
        if poll.next_at.duration_since(poll.polled_at.expect("it has polled")).as_secs() > 1 {
            return next;
        }
        project.clock.advance(Duration::from_secs(1));
        polled(project, engine, next).await;
    }
}

#[tokio::test]
async fn rows_of_one_instant_start_each_once_however_many_they_are() {
    let (project, engine) = with_news(&many(1, 11_000, "2026-03-02 07:59:00")).await;
    assert_eq!(news(&engine).await, 0, "they were there before");
    write(&engine, "insert into orders values (20000, '2026-03-02 07:59:30')").await;
    let next = poll_all(&project, &engine, 2).await;
    assert_eq!(news(&engine).await, 1);
    write(&engine, &many(30_000, 10_500, "2026-03-02 08:00:30")).await;
    let next = poll_all(&project, &engine, next).await;
    assert_eq!(news(&engine).await, 10_501);
    write(&engine, "insert into orders values (50000, '2026-03-02 08:00:40')").await;
    let next = poll_all(&project, &engine, next).await;
    poll_all(&project, &engine, next).await;
    assert_eq!(news(&engine).await, 10_502);
    stop(engine).await;
}

#[tokio::test]
async fn a_row_of_the_future_hides_no_other() {
    let (project, engine) = with_news("insert into orders values (1, '2026-03-02 07:59:50')").await;
    write(&engine, "insert into orders values (2, '2099-01-01 00:00:00')").await;
    let next = poll_all(&project, &engine, 2).await;
    assert_eq!(news(&engine).await, 1);
    write(&engine, "insert into orders values (3, '2026-03-02 08:00:50')").await;
    poll_all(&project, &engine, next).await;
    assert_eq!(news(&engine).await, 2);
    stop(engine).await;
}
