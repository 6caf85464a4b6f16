//! A process that is killed in the midst of writing loses nothing it had been answered.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::common::{accept, id, prepare, step};
use store::{Options, SqliteStore, Store};

/// In this variable the process that is to be killed finds where to write.
const PLACE: &str = "STORE_CRASH_TEST_DIRECTORY";

/// How many answers it has had when it is killed.
const ANSWERS: usize = 400;

/// What the process does that is to be killed.
fn write_until_killed(directory: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(directory, Options::default()).expect("it opens"));
        prepare(&*store).await;
        let writers: Vec<_> = (0..8_u32)
            .map(|writer| {
                let store = store.clone();
                tokio::spawn(async move {
                    // Far more than are ever reached; an end all the same, should nobody kill it.
                    for turn in 0..20_000 {
                        let number = turn * 8 + writer + 1;
                        store.accept(accept(number, 200)).await.expect("it is accepted");
                        writeln!(std::io::stdout(), "accepted {number}").expect("somebody reads");
                        store.append(step(number, 1, 200)).await.expect("it is appended");
                        writeln!(std::io::stdout(), "appended {number}").expect("somebody reads");
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
fn what_was_answered_survives_a_kill() {
    if let Ok(directory) = std::env::var(PLACE) {
        // This is the process that the test has started of itself.
        return write_until_killed(&directory);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crash::what_was_answered_survives_a_kill", "--nocapture"])
        .env(PLACE, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut answers = Vec::new();
    let mut note = |line: std::io::Result<String>| {
        let line = line.expect("text");
        let Some((what, number)) = line.split_once(' ') else { return 0 };
        let (Ok(number), "accepted" | "appended") = (number.parse::<u32>(), what) else { return 0 };
        answers.push((number, what == "appended"));
        answers.len()
    };
    while note(lines.next().expect("it goes on")) < ANSWERS {}
    child.kill().expect("it is killed");
    // What it had said until then, but for a line cut short.
    for line in lines {
        note(line);
    }
    child.wait().expect("it is gone");

    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let store = SqliteStore::open(directory.path(), Options::default()).expect("it opens");
        assert!(answers.len() >= ANSWERS);
        for (number, appended) in answers {
            let events =
                store.events(id(number)).await.expect("it is read").expect("an answered execution is there");
            assert!(events.len() == 2 || (events.len() == 1 && !appended), "{number}: {events:?}");
        }
    });
    let file = rusqlite::Connection::open(directory.path().join("cogwork.db")).expect("it opens");
    let sound: String =
        file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it is checked");
    assert_eq!(sound, "ok");
}
