//! Restoring backups.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use store::{Durability, Error, Options};

use crate::common::{self, accept, blob_files, end, pause, prepare, text, whole};

fn options() -> Options {
    Options { durability: Durability::Relaxed, ..Options::default() }
}

/// Makes a store with these executions, each with a large value, and closes it.
async fn make(directory: &Path, numbers: std::ops::Range<u32>) {
    let store = common::open(directory, options()).expect("it opens");
    prepare(&*store).await;
    for number in numbers {
        store.accept(&accept(number, 80_000)).await.expect("it is accepted");
        store.append(&pause(number, 1, 200)).await.expect("it is appended");
    }
    store.close().await.expect("it closes");
}

/// Asserts that the store has exactly these executions, complete.
async fn assert_holds(directory: &Path, numbers: std::ops::Range<u32>) {
    let store = common::open(directory, options()).expect("it opens");
    assert_eq!(
        store.unfinished_count().await.expect("it is counted"),
        u64::from(numbers.end - numbers.start)
    );
    for number in numbers {
        assert_eq!(whole(&*store, number).await, 2);
    }
    store.close().await.expect("it closes");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("it is read");
    let names = entries.map(|entry| entry.expect("it is read").file_name().to_string_lossy().into_owned());
    // Readers make these.
    let mut names: Vec<String> =
        names.filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm")).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_backup_is_restored_with_its_large_values() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, copy, other] = ["data", "copy", "other"].map(|name| directory.path().join(name));
    make(&data, 1..4).await;
    common::back_up(&data, &copy).expect("it is copied");
    let restored = common::restore(&copy, &other, false).expect("it is restored");
    assert_eq!((restored.executions, restored.blobs, restored.replaced), (3, 3, None));
    assert_eq!(blob_files(&other).len(), 3);
    assert_holds(&other, 1..4).await;
    // The backup is unchanged: it can be restored again.
    assert_holds(&copy, 1..4).await;
    let left = names(&other);
    assert!(!left.iter().any(|name| name.contains("restoring") || name.contains("replaced")), "{left:?}");
}

#[tokio::test]
async fn restore_replaces_a_store_only_on_request_and_keeps_the_old_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, copy] = ["data", "copy"].map(|name| directory.path().join(name));
    make(&data, 1..3).await;
    common::back_up(&data, &copy).expect("it is copied");
    let store = common::open(&data, options()).expect("it opens");
    store.accept(&accept(3, 80_000)).await.expect("it is accepted");
    store.append(&pause(3, 1, 200)).await.expect("it is appended");
    let refused = common::restore(&copy, &data, true).expect_err("a daemon has it open");
    assert!(matches!(refused, Error::Locked { pid: Some(_), .. }), "{refused}");
    store.close().await.expect("it closes");

    let refused = common::restore(&copy, &data, false).expect_err("there is a store");
    assert!(matches!(refused, Error::Occupied { .. }), "{refused}");
    assert_holds(&data, 1..4).await;

    let restored = common::restore(&copy, &data, true).expect("it is restored");
    let replaced = restored.replaced.expect("it is kept");
    assert_holds(&data, 1..3).await;
    assert_holds(&replaced, 1..4).await;
    // A change of the restored store has no effect on the kept one.
    let store = common::open(&data, options()).expect("it opens");
    store.append(&end(1, 2)).await.expect("it is appended");
    store.collect_garbage().await.expect("it is tidied");
    store.close().await.expect("it closes");
    assert_holds(&replaced, 1..4).await;
}

#[tokio::test]
async fn restore_replaces_a_damaged_store_and_keeps_it_unchanged() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, copy] = ["data", "copy"].map(|name| directory.path().join(name));
    make(&data, 1..3).await;
    common::back_up(&data, &copy).expect("it is copied");
    std::fs::write(data.join("cogwork.db"), "no database").expect("it is damaged");
    std::fs::write(data.join("cogwork.db-wal"), "no log").expect("it is damaged");
    let restored = common::restore(&copy, &data, true).expect("it is restored");
    let replaced = restored.replaced.expect("it is kept");
    assert_eq!(std::fs::read(replaced.join("cogwork.db")).expect("it is read"), b"no database");
    assert_eq!(blob_files(&replaced).len(), 2);
    assert_holds(&data, 1..3).await;
}

#[tokio::test]
async fn a_damaged_backup_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, copy] = ["data", "copy"].map(|name| directory.path().join(name));
    make(&data, 1..3).await;
    common::back_up(&data, &copy).expect("it is copied");
    let before = names(&data);
    let blob = blob_files(&copy).remove(0);
    let sound = std::fs::read(&blob).expect("it is read");
    std::fs::write(&blob, text(9, 80_000)).expect("it is damaged");
    let refused = common::restore(&copy, &data, true).expect_err("a large value is damaged");
    assert!(matches!(&refused, Error::RecordDamaged { detail } if detail.contains("blob")), "{refused}");
    std::fs::write(&blob, sound).expect("it is repaired");

    let file = copy.join("cogwork.db");
    let length = file.metadata().expect("it is there").len();
    let mut bytes = std::fs::read(&file).expect("it is read");
    let middle = usize::try_from(length / 2).expect("it fits");
    bytes[middle..].fill(0x5a);
    std::fs::write(&file, bytes).expect("it is damaged");
    common::restore(&copy, &data, true).expect_err("the database is damaged");
    common::restore(&directory.path().join("none"), &data, true).expect_err("there is no backup");
    common::restore(&data, &data, true).expect_err("a store is no backup of itself");
    assert_eq!(names(&data), before);
    assert_holds(&data, 1..3).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_backup_with_pipes_or_symlinks_is_rejected() {
    let directory = tempfile::tempdir().expect("a directory");
    let [data, copy, other] = ["data", "copy", "other"].map(|name| directory.path().join(name));
    make(&data, 1..3).await;
    common::back_up(&data, &copy).expect("it is copied");
    let blob = blob_files(&copy).remove(0);
    let sound = std::fs::read(&blob).expect("it is read");
    std::fs::remove_file(&blob).expect("it is removed");
    assert!(Command::new("mkfifo").arg(&blob).status().expect("it runs").success());
    let refused = common::restore(&copy, &other, false).expect_err("a large value is a pipe");
    assert!(refused.to_string().contains("not a regular file"), "{refused}");
    std::fs::remove_file(&blob).expect("it is removed");
    std::fs::write(&blob, sound).expect("it is repaired");

    let (file, elsewhere) = (copy.join("cogwork.db"), directory.path().join("elsewhere.db"));
    std::fs::rename(&file, &elsewhere).expect("it is moved");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("a link");
    let refused = common::restore(&copy, &other, false).expect_err("the database is a link");
    assert!(refused.to_string().contains("it is a link"), "{refused}");
    assert!(!other.join("cogwork.db").exists());
}

#[tokio::test]
async fn a_backup_of_a_later_release_is_rejected() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    make(&data, 0..1).await;
    let later = directory.path().join("later");
    common::back_up(&data, &later).expect("it is copied");
    let file = rusqlite::Connection::open(later.join("cogwork.db")).expect("it opens");
    file.execute("UPDATE refinery_schema_history SET version = version + 100", []).expect("it is changed");
    drop(file);
    let refused = common::restore(&later, &data, true).expect_err("a later release wrote it");
    assert!(matches!(refused, Error::NewerSchema { .. }), "{refused}");
    assert!(refused.to_string().contains("use the release that wrote it"), "{refused}");
    common::open_read_only(&data).expect("the store is unchanged");
}

/// The environment variable with the directory for the process that is killed.
const PLACE: &str = "STORE_RESTORE_TEST_DIRECTORY";

#[test]
fn a_killed_restore_leaves_the_old_or_the_restored_store() {
    if let Ok(directory) = std::env::var(PLACE) {
        // This is the child process that the test started.
        let directory = Path::new(&directory);
        for turn in 0..10_000 {
            let copy = directory.join(if turn % 2 == 0 { "two" } else { "one" });
            common::restore(&copy, &directory.join("data"), true).expect("it is restored");
            writeln!(std::io::stdout(), "restored").expect("somebody reads");
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let [data, one, two] = ["data", "one", "two"].map(|name| directory.path().join(name));
    runtime.block_on(async {
        make(&data, 1..3).await;
        common::back_up(&data, &one).expect("it is copied");
        let more = directory.path().join("more");
        make(&more, 1..6).await;
        common::back_up(&more, &two).expect("it is copied");
    });
    for kill in 0..6 {
        let test = "restore::a_killed_restore_leaves_the_old_or_the_restored_store";
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", test, "--nocapture"])
            .env(PLACE, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let restored = lines.filter(|line| line.as_ref().is_ok_and(|line| line == "restored"));
        assert_eq!(restored.take(kill + 1).count(), kill + 1);
        child.kill().expect("it is killed");
        child.wait().expect("it is gone");
        let found = runtime.block_on(async {
            let store = common::open(&data, options()).expect("one of them is in force");
            let found = store.unfinished_count().await.expect("it is counted");
            for number in 1..=u32::try_from(found).expect("a few") {
                assert_eq!(whole(&*store, number).await, 2);
            }
            assert_eq!(
                store
                    .executions(&store::ExecutionFilter::default(), store::Page { before: None, limit: 9 })
                    .await
                    .expect("they are listed")
                    .len() as u64,
                found
            );
            store.close().await.expect("it closes");
            found
        });
        assert!(found == 2 || found == 5, "{found}");
    }
}
