//! A daemon on a store that is damaged or emptied: it exits with code 3, and says the way out.

#![cfg(unix)]

use std::fs;
use std::path::Path;

use crate::daemon::{Daemon, post};
use crate::support::{HELLO, ORDER, Project};

const SERVE: [&str; 5] = ["serve", "--hooks", "0", "--admin", "0"];
const PAGE: usize = 4096;

/// Changes the first bytes of each of these pages.
fn flip(file: &Path, pages: impl Iterator<Item = usize>) {
    use std::os::unix::fs::FileExt as _;
    // In the same file, which the daemon may have open.
    let file = fs::File::options().read(true).write(true).open(file).expect("it opens");
    for page in pages {
        let mut bytes = [0; 12];
        file.read_exact_at(&mut bytes, (page * PAGE) as u64).expect("it is read");
        bytes.iter_mut().for_each(|byte| *byte ^= 0xa5);
        file.write_all_at(&bytes, (page * PAGE) as u64).expect("it is written");
    }
}

/// A project whose store has some executions, and its newest execution's id.
fn project_with_history() -> (Project, String) {
    let project = Project::with(&[("automations/hello.yaml", HELLO), ("automations/order.yaml", ORDER)]);
    let daemon = Daemon::start(&project, &["--addresses"], "/trigger/");
    let url = daemon.word("/trigger/").to_owned();
    for number in 0..30 {
        let body = format!(r#"{{"id": {number}, "text": "{}"}}"#, "x".repeat(2000));
        assert!(post(&url, &body).starts_with("HTTP/1.1 201 "));
    }
    assert_eq!(daemon.stop().0, Some(0));
    let shown = project.cogwork(&["executions", "show", "latest", "--json"]).exits(0).json();
    let id = shown["id"].as_str().expect("an id").to_owned();
    (project, id)
}

#[test]
fn store_damage_read_at_runtime_ends_the_daemon_with_exit_3() {
    let (project, id) = project_with_history();
    let file = project.file(".cogwork/cogwork.db");
    let daemon = Daemon::start(&project, &["--addresses"], "/trigger/");
    let url = daemon.word("/trigger/").to_owned();
    let pages = usize::try_from(file.metadata().expect("it is there").len()).expect("it fits") / PAGE;
    flip(&file, 1..pages);
    let answer = daemon.get(&project, &format!("/api/v1/executions/{id}"));
    assert!(!answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (code, log) = daemon.end();
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("the store cannot be trusted") && log.contains("damaged"), "{log}");
    assert!(std::net::TcpStream::connect(url.split('/').nth(2).expect("an address")).is_err());
    // And it does not start on it either.
    project.cogwork(&SERVE).exits(3).says("restore it from a backup");
}

#[test]
fn store_damage_found_at_startup_is_exit_3() {
    let (project, _) = project_with_history();
    let file = project.file(".cogwork/cogwork.db");
    let whole = fs::read(&file).expect("it is read");
    for page in [0, 1, 5] {
        fs::write(&file, &whole).expect("it is written");
        flip(&file, std::iter::once(page));
        project.cogwork(&SERVE).exits(3).says("damaged");
    }
    fs::write(&file, &whole[..whole.len() / 2]).expect("it is written");
    project.cogwork(&SERVE).exits(3).says("damaged");
}

#[test]
fn an_emptied_or_removed_store_is_not_recreated_beside_its_key() {
    let (project, _) = project_with_history();
    project.cogwork_with(&["secrets", "set", "deskToken"], &[], "canary-4471-desk").exits(0);
    let file = project.file(".cogwork/cogwork.db");
    fs::write(&file, "").expect("it is emptied");
    project.cogwork(&SERVE).exits(3).says("`master.key` beside it belong to a store");
    fs::remove_file(&file).expect("it goes");
    project.cogwork(&SERVE).exits(3).says("is missing");
    project
        .cogwork_with(&["secrets", "set", "other"], &[], "x")
        .exits(3)
        .says("restore the file from a backup");
    assert!(!file.exists());
}
