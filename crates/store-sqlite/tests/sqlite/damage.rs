//! Damaged, empty and missing files. They are never opened as intact or new stores.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt as _;
use rusqlite::Connection;
use store::{Error, Options};

use crate::blobs::{LARGE, input, open, options};
use crate::common::{self, accept, blob_files, end, id, prepare, step, text};

const PAGE: usize = 4096;

fn database(directory: &Path) -> PathBuf {
    directory.join("cogwork.db")
}

/// Changes the bytes of the file from `at` on.
fn flip(file: &Path, at: usize, count: usize) {
    let mut bytes = fs::read(file).expect("it is read");
    bytes[at..at + count].iter_mut().for_each(|byte| *byte ^= 0xa5);
    fs::write(file, bytes).expect("it is written");
}

/// Copies a folder without its lock files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it is made");
    for entry in fs::read_dir(from).expect("it is read") {
        let entry = entry.expect("it is read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("it is copied");
        }
    }
}

/// A closed store with some executions, and a large value.
async fn filled(directory: &Path) {
    let store = open(directory, options()).await;
    for number in 1..=20 {
        store.accept(&accept(number, 3000)).await.expect("it is accepted");
        store.append(&step(number, 1, 500)).await.expect("it is appended");
    }
    store.accept(&accept(21, LARGE)).await.expect("it is accepted");
    store.close().await.expect("it closes");
}

#[tokio::test]
async fn a_missing_or_empty_database_beside_other_store_files_is_not_a_new_store() {
    let whole = tempfile::tempdir().expect("a directory");
    filled(whole.path()).await;
    for (trace, is_missing) in
        [("blobs", true), ("blobs", false), ("cogwork.db-wal", false), ("master.key", true)]
    {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        match trace {
            "blobs" => copy(&whole.path().join("blobs"), &place.join("blobs")),
            name => fs::write(place.join(name), "something").expect("it is written"),
        }
        if !is_missing {
            fs::write(database(place), "").expect("it is written");
        }
        for _ in 0..2 {
            let refused = common::open(place, Options::default()).expect_err("it is refused");
            assert!(matches!(refused, Error::DatabaseLost { .. }) && refused.is_untrusted(), "{refused}");
            let words = refused.to_string();
            let state = if is_missing { "is missing" } else { "is empty" };
            assert!(words.contains(&format!("`{trace}`")) && words.contains(state), "{words}");
            assert!(words.contains("move them to another place"), "the way out: {words}");
        }
        assert_eq!(database(place).exists(), !is_missing, "nothing is made");
        assert_eq!(blob_files(place).len(), usize::from(trace == "blobs"), "nothing is deleted");
        // The way out.
        fs::rename(place.join(trace), whole.path().join("moved")).expect("it is moved");
        common::open(place, Options::default()).expect("it is a new store");
        fs::remove_dir_all(whole.path().join("moved"))
            .or_else(|_| fs::remove_file(whole.path().join("moved")))
            .expect("it goes");
    }
}

#[tokio::test]
async fn a_database_that_lost_its_wal_and_tables_is_not_a_new_store() {
    let (directory, other) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let store = open(directory.path(), options()).await;
    store.accept(&accept(1, LARGE)).await.expect("it is accepted");
    // All commits are still in the log.
    copy(&directory.path().join("blobs"), &other.path().join("blobs"));
    fs::copy(database(directory.path()), database(other.path())).expect("it is copied");
    assert!(database(other.path()).metadata().expect("it is there").len() > 0);
    let refused = common::open(other.path(), Options::default()).expect_err("it is refused");
    assert!(matches!(refused, Error::DatabaseLost { .. }), "{refused}");
    assert_eq!(blob_files(other.path()).len(), 1);
}

#[test]
fn an_interrupted_creation_of_an_empty_store_is_repeated() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(database(directory.path()), "").expect("it is written");
    fs::write(directory.path().join("cogwork.db-wal"), "").expect("it is written");
    fs::create_dir_all(directory.path().join("blobs/unnamed")).expect("it is made");
    common::open(directory.path(), Options::default()).expect("it is a new store");
}

#[tokio::test]
async fn damage_to_any_page_of_a_small_store_is_detected_on_open() {
    let whole = tempfile::tempdir().expect("a directory");
    filled(whole.path()).await;
    let pages = fs::read(database(whole.path())).expect("it is read").len() / PAGE;
    assert!(pages > 20, "{pages}");
    for page in 0..pages {
        let directory = tempfile::tempdir().expect("a directory");
        copy(whole.path(), directory.path());
        flip(&database(directory.path()), page * PAGE, 12);
        let refused = common::open(directory.path(), Options::default());
        let refused = refused.err().unwrap_or_else(|| panic!("page {page} is damaged, and nobody sees it"));
        assert!(refused.is_untrusted(), "page {page}: {refused:?}");
        assert_eq!(blob_files(directory.path()).len(), 1);
    }
    let directory = tempfile::tempdir().expect("a directory");
    copy(whole.path(), directory.path());
    let file = File::options().write(true).open(database(directory.path())).expect("it opens");
    file.set_len((pages / 2 * PAGE) as u64).expect("it is cut off");
    let refused = common::open(directory.path(), Options::default()).expect_err("it is cut off");
    assert!(refused.is_untrusted(), "{refused:?}");
}

/// Creates a store too large for a whole check, with one damaged execution.
async fn damaged_within(directory: &Path) {
    let inline = Options { blob_bytes: usize::MAX, ..options() };
    let store = open(directory, inline).await;
    for number in 1..=60 {
        store.accept(&accept(number, 200_000)).await.expect("it is accepted");
    }
    store.close().await.expect("it closes");
    let bytes = fs::read(database(directory)).expect("it is read");
    let needle = &text(30, 200_000).into_bytes()[100_000..100_064];
    let at = bytes.windows(64).position(|window| window == needle).expect("it is there");
    // The page number of the continuation of the value.
    flip(&database(directory), at / PAGE * PAGE, 4);
}

#[tokio::test]
async fn a_read_that_detects_damage_stops_all_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    damaged_within(directory.path()).await;
    let store = common::open(directory.path(), options()).expect("a large file is not read as a whole");
    prepare(&*store).await;
    store.accept(&accept(100, 10)).await.expect("nobody knows yet");
    assert!(store.failure().now_or_never().is_none());
    let found = store.events(id(30)).await;
    assert!(matches!(found, Err(Error::DatabaseDamaged { .. })), "{found:?}");
    let failure = store.failure().await;
    assert!(failure.outcome_unknown() && failure.to_string().contains("damaged"), "{failure}");
    let refused = store.accept(&accept(101, 10)).await.expect_err("nothing is accepted any more");
    assert!(refused.outcome_unknown(), "{refused}");
    assert!(matches!(store.close().await, Err(Error::Poisoned { .. })));
}

/// Writes a file of this age that no row names.
fn stray(directory: &Path, age: Duration) -> PathBuf {
    let part = directory.join("blobs/ab");
    fs::create_dir_all(&part).expect("it is made");
    let path = part.join("0".repeat(62));
    fs::write(&path, "nobody's").expect("it is written");
    let file = File::options().write(true).open(&path).expect("it opens");
    let modified = file.metadata().and_then(|known| known.modified()).expect("it has a time");
    file.set_modified(modified - age).expect("it is set");
    path
}

#[tokio::test]
async fn a_blob_that_is_older_than_the_store_is_never_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), options()).await;
    let path = stray(directory.path(), Duration::from_secs(60));
    assert_eq!(store.collect_garbage().await.expect("it is tidied"), 0);
    assert!(path.exists(), "another store may have written it");
    stray(directory.path(), Duration::ZERO);
    assert_eq!(store.collect_garbage().await.expect("it is tidied"), 1);
    assert!(!path.exists(), "what a crash left goes");
}

#[tokio::test]
async fn no_blob_is_deleted_when_the_rows_that_reference_blobs_are_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), options()).await;
    store.accept(&accept(1, LARGE)).await.expect("it is accepted");
    store.accept(&accept(2, 10)).await.expect("it is accepted");
    store.append(&end(2, 1)).await.expect("it ends");
    store.close().await.expect("it closes");
    let connection = Connection::open(database(directory.path())).expect("it opens");
    let blobs: Vec<Vec<u8>> = {
        let mut rows = connection.prepare("DELETE FROM blobs RETURNING hash").expect("it is SQL");
        let rows = rows.query_map([], |row| row.get(0)).expect("they go");
        rows.collect::<Result<_, _>>().expect("they are read")
    };
    assert_eq!(blobs.len(), 1);
    drop(connection);
    let store = common::open(directory.path(), options()).expect("it opens");
    let refused = store.collect_garbage().await.expect_err("something is missing");
    assert!(matches!(refused, Error::RecordDamaged { .. }), "{refused}");
    assert_eq!(blob_files(directory.path()).len(), 1);
    assert!(input(&*store, 2).await.is_ok(), "the others are there");
}
