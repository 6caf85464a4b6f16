//! Daemons of different releases on one database: a later one says with its tables which earlier ones may still use them.

use std::time::Duration;

use model::automation::Level;
use model::{Event, Outcome, Status};
use store::conformance::{PostgresServer, PostgresSpace};
use store::{Append, Error};
use value::Value;

use crate::{accept, at, definition, folder, new, open, open_at, server, step};

const WAY_OUT: &str = "use the release that wrote it, or a later one";
/// Maximum time in which a daemon notices: it beats every two seconds.
const PATIENCE: Duration = Duration::from_secs(20);

fn run(server: &PostgresServer, space: &PostgresSpace, sql: &str) -> String {
    server.run(&format!("SET search_path = {}; {sql}", space.schema()))
}

/// Adds what a later release has added, and returns the version of this one.
fn expand(server: &PostgresServer, space: &PostgresSpace) -> i32 {
    let version = run(server, space, "SELECT max(version) FROM refinery_schema_history");
    run(
        server,
        space,
        "ALTER TABLE live ADD COLUMN later text; ALTER TABLE executions ADD COLUMN later int8; \
         INSERT INTO refinery_schema_history (version, name, applied_on, checksum) \
           SELECT max(version) + 1, 'later', max(applied_on), '0' FROM refinery_schema_history",
    );
    version.parse().expect("a version")
}

fn set_oldest(server: &PostgresServer, space: &PostgresSpace, oldest: i32) {
    run(
        server,
        space,
        &format!(
            "INSERT INTO meta (name, value) VALUES ('oldest', '{oldest}') ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        ),
    );
}

fn refusal(space: &PostgresSpace) -> String {
    match open_at(&space.url(), &folder()) {
        Ok(_) => "it opens".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_a_later_release_are_used_while_declared_compatible() {
    let server = server();
    let space = server.space();
    let first = open(&space, &folder());
    let version = expand(&server, &space);
    set_oldest(&server, &space, version);
    open(&space, &folder()).close().await.expect("it closes");
    set_oldest(&server, &space, version + 1);
    assert!(refusal(&space).contains(WAY_OUT), "{}", refusal(&space));
    run(&server, &space, "DELETE FROM meta WHERE name = 'oldest'");
    assert!(refusal(&space).contains(WAY_OUT), "the later release does not say what it allows");
    drop(first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_run_after_a_later_release_added_columns() {
    let server = server();
    let (space, folder) = (server.space(), folder());
    let store = open(&space, &folder);
    let definition = definition(&*store).await;
    let end = |number, first| {
        let events = vec![Event::Finished { at: at(), outcome: Outcome::Succeeded { result: Value::Null } }];
        Append { events, ..Append::new(new(&definition, number).id, first, Status::Succeeded) }
    };
    accept(&*store, new(&definition, 1)).await.expect("it is accepted");
    expand(&server, &space);
    accept(&*store, new(&definition, 2)).await.expect("it is accepted");
    store.append(&end(1, 1)).await.expect("one from before ends");
    store.append(&end(2, 1)).await.expect("one from after ends");
    // An execution that continues after its end gets its row back.
    let again = Append { events: vec![step(1)], ..Append::new(new(&definition, 2).id, 2, Status::Running) };
    store.append(&again).await.expect("it goes on");
    store.append(&end(2, 3)).await.expect("it ends again");
    for (number, events) in [(1, 2), (2, 4)] {
        let row =
            store.execution(new(&definition, number).id).await.expect("it is read").expect("it is there");
        assert_eq!((row.status, row.events), (Status::Succeeded, events));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_stops_after_an_incompatible_migration() {
    let server = server();
    let space = server.space();
    let running = open(&space, &folder());
    let version = expand(&server, &space);
    set_oldest(&server, &space, version + 1);
    let failure: Error = tokio::time::timeout(PATIENCE, running.failure()).await.expect("it stops");
    assert!(failure.outcome_unknown() && failure.to_string().contains(WAY_OUT), "{failure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_is_refused_while_a_daemon_of_an_earlier_release_beats_and_raised_once_it_has_gone() {
    let server = server();
    let space = server.space();
    let (older, newer) = (open(&space, &folder()), open(&space, &folder()));
    // As a release that does not write its level.
    run(
        &server,
        &space,
        "UPDATE nodes SET level = NULL, release = '0.1.0' WHERE id = (SELECT min(id) FROM nodes)",
    );
    newer.raise_level(Level::FIRST).await.expect("the first level needs nothing");
    let refused = newer.raise_level(Level::SECOND).await.expect_err("one daemon does not know it");
    assert!(matches!(&refused, Error::OlderDaemons { level: 2, daemons } if daemons.len() == 1), "{refused}");
    assert!(refused.to_string().contains("(release 0.1.0)"), "{refused}");
    let oldest = "SELECT convert_from(value, 'UTF8') FROM meta WHERE name = 'oldest'";
    assert_eq!(run(&server, &space, oldest), "1", "nothing changed");
    older.close().await.expect("it closes");
    for _ in 0..2 {
        newer.raise_level(Level::SECOND).await.expect("it has gone");
    }
    assert_eq!(run(&server, &space, oldest), "3");
    open(&space, &folder()).close().await.expect("this release still starts");
    assert_eq!(run(&server, &space, oldest), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_of_an_earlier_release_does_not_join_behind_a_raised_level() {
    let server = server();
    let space = server.space();
    let store = open(&space, &folder());
    // The statement of release 0.1.0, which may have read `oldest` before.
    let join = "INSERT INTO nodes (id, name, host, release, details, joined_ns) \
        VALUES (nextval('node_id'), 'x', 'x', '0.1.0', NULL, 0)";
    run(&server, &space, &format!("BEGIN; {join}; ROLLBACK"));
    store.raise_level(Level::SECOND).await.expect("it is raised");
    let guarded = format!(
        "DO $$ BEGIN {join}; EXCEPTION WHEN raise_exception THEN CREATE TABLE refused (a int); END $$"
    );
    run(&server, &space, &guarded);
    assert_eq!(run(&server, &space, "SELECT to_regclass('refused') IS NOT NULL"), "t");
}
