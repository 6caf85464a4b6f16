//! A process that is killed while it writes loses no confirmed write, and leaves no partial one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::common::{self, accept, blob_files, pause, prepare, whole};
use store::Options;

/// The environment variable with the directory for the process that is killed.
const PLACE: &str = "STORE_CRASH_TEST_DIRECTORY";

/// The number of confirmed writes after which the process is killed.
const ANSWERS: usize = 600;

/// Writes until the process is killed.
fn write_until_killed(directory: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let store = common::open(directory, Options::default()).expect("it opens");
        prepare(&*store).await;
        let writers: Vec<_> = (0..8_u32)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    // Far more than are ever reached, but finite in case nothing kills it.
                    for turn in 0..20_000 {
                        let number = turn * 8 + writer + 1;
                        // One writer has large values, so that there is a moment between a blob and its row.
                        let bytes = if writer == 0 { 80_000 } else { 200 };
                        store.accept(&accept(number, bytes)).await.expect("it is accepted");
                        writeln!(std::io::stdout(), "stored {number} 1").expect("somebody reads");
                        for first in [1, 2] {
                            store.append(&pause(number, first, 200)).await.expect("it is appended");
                            let events = first + 1;
                            writeln!(std::io::stdout(), "stored {number} {events}").expect("somebody reads");
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("it writes");
        }
    });
}

#[test]
fn confirmed_writes_survive_a_kill_and_no_write_is_partial() {
    if let Ok(directory) = std::env::var(PLACE) {
        // This is the child process that the test started.
        return write_until_killed(&directory);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crash::confirmed_writes_survive_a_kill_and_no_write_is_partial", "--nocapture"])
        .env(PLACE, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut answers = Vec::new();
    let mut note = |line: std::io::Result<String>| {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        let ["stored", number, events] = words[..] else { return 0 };
        let (Ok(number), Ok(events)) = (number.parse::<u32>(), events.parse::<usize>()) else { return 0 };
        answers.push((number, events));
        answers.len()
    };
    while note(lines.next().expect("it goes on")) < ANSWERS {}
    child.kill().expect("it is killed");
    // The complete lines that it printed.
    for line in lines {
        note(line);
    }
    child.wait().expect("it is gone");

    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let store = common::open(directory.path(), Options::default()).expect("it opens");
        assert!(answers.len() >= ANSWERS);
        for (number, answered) in answers {
            let found = whole(&*store, number).await;
            assert!((answered..=3).contains(&found), "{number} has {found} events, not {answered}");
        }
        store.collect_garbage().await.expect("it is tidied");
        store.close().await.expect("it closes");
    });
    let file = rusqlite::Connection::open(directory.path().join("cogwork.db")).expect("it opens");
    let sound: String =
        file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it is checked");
    assert_eq!(sound, "ok");
    let rows: usize = file
        .query_row("SELECT count(*) FROM blobs", [], |row| row.get::<_, u32>(0))
        .expect("a count") as usize;
    assert!(rows > 0);
    assert_eq!(blob_files(directory.path()).len(), rows, "what the kill left of a blob is gone");
}
