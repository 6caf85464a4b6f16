//! The database file: locking, refused files, and the return of free space.

use std::time::Duration;

use crate::common::{self, accept, at, end, id, prepare, step};
use rusqlite::Connection;
use store::{Durability, Error, ExecutionFilter, Options, Page, PruneFilter, PruneRule};

fn relaxed() -> Options {
    Options { durability: Durability::Relaxed, ..Options::default() }
}

#[tokio::test]
async fn a_second_daemon_is_rejected_with_the_pid_of_the_first_until_it_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = common::open(directory.path(), Options::default()).expect("it opens");
    prepare(&*first).await;
    let refused = common::open(directory.path(), Options::default()).expect_err("it is taken");
    let Error::Locked { path, pid } = refused else { panic!("{refused}") };
    assert_eq!(path, directory.path().join("cogwork.db.lock"));
    assert_eq!(pid, Some(std::process::id()));
    first.accept(&accept(1, 10)).await.expect("the first is not disturbed");
    first.close().await.expect("it closes");
    let second = common::open(directory.path(), Options::default()).expect("closing lets go of the lock");
    drop(second);
    let third = common::open(directory.path(), Options::default()).expect("dropping lets go of it too");
    assert!(third.execution(id(1)).await.expect("it is read").is_some());
}

#[tokio::test]
async fn a_read_only_store_sees_commits_of_the_daemon_and_rejects_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = common::open_read_only(directory.path());
    assert!(matches!(missing, Err(Error::Open { .. })), "a reader makes no store");
    let daemon = common::open(directory.path(), Options::default()).expect("it opens");
    prepare(&*daemon).await;
    let reader = common::open_read_only(directory.path()).expect("it opens beside");
    daemon.accept(&accept(1, 10)).await.expect("it is accepted");
    assert!(reader.execution(id(1)).await.expect("it is read").is_some());
    assert!(matches!(reader.accept(&accept(2, 10)).await, Err(Error::ReadOnly)));
    daemon.close().await.expect("a reader does not keep it from closing");
    assert!(reader.execution(id(1)).await.expect("it is still read").is_some());
    let alone = common::open_read_only(directory.path().join("cogwork.db")).expect("it opens alone");
    let page = Page { before: None, limit: 10 };
    assert_eq!(alone.executions(&ExecutionFilter::default(), page).await.expect("it is listed").len(), 1);
    alone.close().await.expect("it closes");
    assert!(matches!(alone.execution(id(1)).await, Err(Error::Closed)));
}

#[tokio::test]
async fn dropping_the_last_handle_flushes_the_queue_and_removes_the_wal() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = common::open(directory.path(), Options::default()).expect("it opens");
    prepare(&*store).await;
    store.accept(&accept(1, 10)).await.expect("it is accepted");
    drop(store);
    assert!(!directory.path().join("cogwork.db-wal").exists());
    let connection = Connection::open(directory.path().join("cogwork.db")).expect("it opens");
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it is checked");
    assert_eq!(sound, "ok");
}

#[tokio::test]
async fn weakened_durability_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = common::open(directory.path(), relaxed()).expect("it opens");
    let info = store.info().await.expect("it is read");
    assert!(info.weakened.iter().any(|text| text.starts_with("durability is relaxed")), "{info:?}");
    assert!(info.engine.starts_with("SQLite 3."), "{info:?}");
    assert!(info.bytes > 0 && info.schema == 4 && info.location.ends_with("cogwork.db"), "{info:?}");
}

#[test]
fn a_file_that_is_not_a_store_is_not_touched() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = directory.path().join("text.db");
    std::fs::write(&text, "not a database at all, but long enough to look at ".repeat(100))
        .expect("it is written");
    let refused = common::open(&text, Options::default());
    assert!(matches!(refused, Err(Error::NotAStore { .. })), "{refused:?}");
    let foreign = directory.path().join("foreign.db");
    let connection = Connection::open(&foreign).expect("it opens");
    connection.execute_batch("CREATE TABLE notes (text TEXT)").expect("it is made");
    drop(connection);
    let refused = common::open(&foreign, Options::default());
    assert!(matches!(refused, Err(Error::NotAStore { .. })), "{refused:?}");
    let refused = common::open_read_only(&foreign);
    assert!(matches!(refused, Err(Error::NotAStore { .. })), "{refused:?}");
}

#[test]
fn tables_of_a_later_release_are_rejected() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cogwork.db");
    drop(common::open(&file, Options::default()).expect("it opens"));
    let connection = Connection::open(&file).expect("it opens");
    connection
        .execute_batch("UPDATE refinery_schema_history SET version = 99 WHERE version = 4")
        .expect("it is changed");
    drop(connection);
    for refused in [common::open(&file, Options::default()), common::open_read_only(&file)] {
        let error = refused.expect_err("it is refused");
        assert!(matches!(error, Error::NewerSchema { found: 99, known: 4, .. }), "{error}");
    }
}

#[test]
fn a_read_only_store_rejects_tables_that_need_migration() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cogwork.db");
    drop(common::open(&file, Options::default()).expect("it opens"));
    let connection = Connection::open(&file).expect("it opens");
    connection.execute_batch("DELETE FROM refinery_schema_history WHERE version = 4").expect("it is changed");
    drop(connection);
    let error = common::open_read_only(&file).expect_err("it is refused");
    assert!(matches!(error, Error::OlderSchema { found: 3, known: 4, .. }), "{error}");
}

#[tokio::test]
async fn pruning_frees_space_and_deletes_long_executions_in_steps() {
    let directory = tempfile::tempdir().expect("a directory");
    let inline = Options { blob_bytes: usize::MAX, ..relaxed() };
    let store = common::open(directory.path(), inline).expect("it opens");
    prepare(&*store).await;
    // One with more events than a step deletes, some with large payloads.
    store.accept(&accept(1, 10)).await.expect("it is accepted");
    for first in 1..=2500 {
        store.append(&step(1, first, 10)).await.expect("it is appended");
    }
    store.append(&end(1, 2501)).await.expect("it ends");
    for number in 2..=30 {
        store.accept(&accept(number, 200_000)).await.expect("it is accepted");
        store.append(&end(number, 1)).await.expect("it ends");
    }
    store.accept(&accept(31, 10)).await.expect("it is accepted");
    drop(store);
    let file = directory.path().join("cogwork.db");
    let size = || std::fs::metadata(&file).expect("it is there").len();
    let before = size();
    assert!(before > 29 * 200_000, "{before}");

    let store = common::open(directory.path(), relaxed()).expect("it opens");
    let all = PruneFilter::new(PruneRule::EndedBefore(at(5000)));
    assert_eq!(store.prune(all, 1000).await.expect("it prunes"), 30);
    drop(store);
    assert!(size() < before / 4, "{} of {before}", size());
    let connection = Connection::open(&file).expect("it opens");
    let left = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).expect("it is counted")
    };
    let tables = ["executions", "starts", "events", "logs", "remains"];
    assert_eq!(tables.map(left), [1, 1, 0, 0, 0]);
    let uses: i64 = connection
        .query_row("SELECT executions FROM definition_uses", [], |row| row.get(0))
        .expect("it is read");
    assert_eq!(uses, 1);
}

#[tokio::test]
async fn the_file_of_an_idle_store_shrinks_without_another_write() {
    let directory = tempfile::tempdir().expect("a directory");
    let inline = Options { blob_bytes: usize::MAX, ..relaxed() };
    let store = common::open(directory.path(), inline).expect("it opens");
    prepare(&*store).await;
    for number in 1..=30 {
        store.accept(&accept(number, 200_000)).await.expect("it is accepted");
        store.append(&end(number, 1)).await.expect("it ends");
    }
    store.close().await.expect("it closes");
    let file = directory.path().join("cogwork.db");
    let size = || std::fs::metadata(&file).expect("it is there").len();
    let before = size();
    let store = common::open(directory.path(), relaxed()).expect("it opens");
    let all = PruneFilter::new(PruneRule::EndedBefore(at(5000)));
    assert_eq!(store.prune(all, 1000).await.expect("it prunes"), 30);
    let shorter = async {
        while size() >= before / 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), shorter).await.expect("the file becomes shorter");
    store.close().await.expect("it closes");
}

#[tokio::test]
async fn leftover_rows_of_a_deleted_execution_never_become_another_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = common::open(directory.path(), relaxed()).expect("it opens");
    prepare(&*store).await;
    store.accept(&accept(1, 10)).await.expect("it is accepted");
    drop(store);
    // Its number is reused once its row is deleted.
    let connection = Connection::open(directory.path().join("cogwork.db")).expect("it opens");
    let remains = "INSERT INTO remains (execution, start) SELECT ?1, start FROM executions";
    assert_eq!(connection.execute(remains, [id(2).as_bytes()]), Ok(1));
    drop(connection);
    let store = common::open(directory.path(), relaxed()).expect("it opens");
    store.collect_garbage().await.expect("it is tidied");
    let events = store.events(id(1)).await.expect("they are read").expect("it is there");
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn the_wal_stays_bounded_under_continuous_load() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = common::open(directory.path(), relaxed()).expect("it opens");
    prepare(&*store).await;
    let log = || std::fs::metadata(directory.path().join("cogwork.db-wal")).expect("it is there").len();
    let mut longest = 0;
    for number in 1..=4000 {
        store.accept(&accept(number, 10)).await.expect("it is accepted");
        longest = longest.max(log());
    }
    // Over 100 MB went through it; it starts over at 32 MiB, after at most one batch more.
    assert!(longest < 48 << 20, "{longest}");
}

#[tokio::test]
async fn a_damaged_history_is_an_error_and_not_skipped() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = common::open(directory.path(), relaxed()).expect("it opens");
    prepare(&*store).await;
    for number in 1..=5 {
        store.accept(&accept(number, 10)).await.expect("it is accepted");
        store.append(&step(number, 1, 10)).await.expect("it is appended");
        store.append(&step(number, 2, 10)).await.expect("it is appended");
    }
    drop(store);
    let connection = Connection::open(directory.path().join("cogwork.db")).expect("it opens");
    for (number, damage) in [
        (3, "DELETE FROM starts WHERE execution = ?1"),
        (4, "UPDATE starts SET body = '[]' WHERE execution = ?1"),
        (5, "UPDATE executions SET start = 1 WHERE id = ?1"),
    ] {
        connection.execute(damage, [id(number).as_bytes()]).expect("it is changed");
    }
    connection
        .execute("DELETE FROM events WHERE execution = ?1 AND first = 1", [id(1).as_bytes()])
        .expect("it goes");
    connection
        .execute("UPDATE events SET body = '[{' WHERE execution = ?1 AND first = 2", [id(2).as_bytes()])
        .expect("it is changed");
    drop(connection);
    let store = common::open(directory.path(), relaxed()).expect("it opens");
    for number in 1..=5 {
        let found = store.events(id(number)).await;
        assert!(matches!(found, Err(Error::RecordDamaged { .. })), "{found:?}");
    }
}
