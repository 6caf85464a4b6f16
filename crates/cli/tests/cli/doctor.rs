//! `cogwork doctor`: each check fails once, beside a daemon and without one.

#![cfg(unix)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::daemon::Daemon;
use crate::support::{BAD, HELLO, Project};

const FREE: [&str; 4] = ["--hooks", "0", "--admin", "0"];

/// The findings of the command, with its exit code.
fn examine(project: &Project, arguments: &[&str], variables: &[(&str, &str)], code: i32) -> Value {
    let arguments: Vec<&str> = ["doctor", "--json"].iter().chain(arguments).copied().collect();
    project.cogwork_with(&arguments, variables, "").exits(code).json()
}

/// The findings of a check: their state with their detail and way out.
fn of(report: &Value, section: &str, name: &str) -> Vec<(String, String)> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let of_check = findings.filter(|finding| finding["section"] == section && finding["name"] == name);
    of_check
        .map(|finding| {
            let (detail, help) = (finding["detail"].as_str(), finding["help"].as_str());
            let text = format!("{} {}", detail.unwrap_or_default(), help.unwrap_or_default());
            (finding["state"].as_str().expect("a state").to_owned(), text)
        })
        .collect()
}

#[track_caller]
fn check(report: &Value, section: &str, name: &str, state: &str, text: &str) {
    let found = of(report, section, name);
    let matches = found.iter().any(|(found, detail)| found == state && detail.contains(text));
    assert!(matches, "{section} {name} {state} `{text}` in {report:#}");
}

fn hello() -> Project {
    Project::with(&[("automations/hello.yaml", HELLO)])
}

#[test]
fn a_healthy_project_has_no_errors_and_every_problem_names_a_fix() {
    let project = hello();
    let report = examine(&project, &FREE, &[], 0);
    assert_eq!((&report["ok"], &report["errors"]), (&true.into(), &0.into()), "{report:#}");
    for (section, name) in [
        ("project", "files"),
        ("project", "settings"),
        ("store", "database"),
        ("machine", "clock"),
        ("listeners", "hooks"),
        ("listeners", "admin"),
        ("secrets", "set"),
    ] {
        check(&report, section, name, "ok", "");
    }
    check(&report, "daemon", "running", "skipped", "no daemon runs");
    for finding in report["findings"].as_array().expect("findings") {
        let is_problem = matches!(finding["state"].as_str(), Some("warning" | "error"));
        assert_eq!(is_problem, finding["help"].is_string(), "{finding}");
    }
    let shown = project.cogwork(&["doctor", "--hooks", "0", "--admin", "0"]).exits(0);
    assert!(shown.stdout.contains("settings at the default"), "{}", shown.stdout);
    assert!(!project.file(".cogwork").exists(), "it leaves nothing behind");
}

#[test]
fn each_setting_names_its_source() {
    let project = hello();
    project.write("cogwork.yaml", "limits: {queue: 5}\nlog: {level: warn}\n");
    let variables = [("COGWORK_LIMITS_QUEUE", "7"), ("COGWORK_RETENTION_DAYS", "3")];
    let report = examine(&project, &FREE, &variables, 0);
    let source = |key: &str| {
        let settings = report["settings"].as_array().expect("settings").iter();
        let found = settings.clone().find(|setting| setting["key"] == key).expect("a setting");
        (found["value"].clone(), found["source"].as_str().expect("a source").to_owned())
    };
    assert_eq!(source("log.level"), ("warn".into(), "cogwork.yaml".to_owned()));
    assert_eq!(source("limits.queue"), ("7".into(), "COGWORK_LIMITS_QUEUE".to_owned()));
    assert_eq!(source("hooks"), ("0".into(), "--hooks".to_owned()));
    assert_eq!(source("durability"), ("full".into(), "default".to_owned()));
    assert_eq!(source("filesDir"), (Value::Null, "default".to_owned()));
}

#[test]
fn doctor_reports_invalid_files_settings_and_variables() {
    let project = Project::with(&[("automations/bad.yaml", BAD)]);
    project.write("cogwork.yaml", "durability: fast\n");
    let report = examine(&project, &FREE, &[("COGWORK_LIMITS_QUEU", "7")], 1);
    check(&report, "project", "files", "error", "`cogwork validate`");
    check(&report, "project", "settings", "error", "cogwork.yaml:1");
    check(&report, "project", "variables", "warning", "COGWORK_LIMITS_QUEUE");
    check(&examine(&Project::empty(), &FREE, &[], 1), "project", "files", "error", "cogwork init");
}

#[test]
fn doctor_reports_ports_in_use_and_equal_ports() {
    let project = hello();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address").to_string();
    let report = examine(&project, &["--hooks", &address, "--admin", "0"], &[], 1);
    check(&report, "listeners", "hooks", "error", "stop the program");
    let report = examine(&project, &["--hooks", &address, "--admin", &address], &[], 1);
    check(&report, "listeners", "ports", "error", "different ports");
    let report = examine(&project, &["--hooks", "203.0.113.1:7070", "--admin", "0"], &[], 1);
    check(&report, "listeners", "hooks", "error", "no interface has this address");
}

#[test]
fn doctor_lists_weakened_settings_and_strict_fails_on_them() {
    let project = hello();
    let weak =
        ["--hooks", "0", "--admin", "0.0.0.0:0", "--durability", "relaxed", "--public-metrics", "true"];
    let weak: Vec<&str> = weak.into_iter().chain(["--outbound-allow", "0.0.0.0/0"]).collect();
    let report = examine(&project, &weak, &[], 0);
    check(&report, "weakened", "durability", "warning", "durability: full");
    check(&report, "weakened", "admin", "warning", "TLS");
    check(&report, "weakened", "metrics", "warning", "publicMetrics");
    check(&report, "weakened", "outbound", "warning", "0.0.0.0/0");
    let public = ["--hooks", "0.0.0.0:0", "--admin", "0", "--public-url", "http://hooks.example.com"];
    check(&examine(&project, &public, &[], 0), "weakened", "webhooks", "warning", "https");
    let strict: Vec<&str> = weak.into_iter().chain(["--strict"]).collect();
    examine(&project, &strict, &[], 1);
}

#[test]
fn doctor_reports_missing_secrets_readable_secret_files_and_a_lost_key() {
    let project = hello();
    let connection = "type: wiki.basic\nwith: {email: a@example.com, apiToken: \"${{ secrets.wikiToken }}\", host: wiki.example.com}\n";
    project.write("connections/wiki.yaml", connection);
    project.write("secrets/open", "x");
    fs::set_permissions(project.file("secrets/open"), fs::Permissions::from_mode(0o644)).expect("set");
    let report = examine(&project, &FREE, &[], 0);
    check(&report, "secrets", "missing", "warning", "wikiToken");
    check(&report, "secrets", "permissions", "warning", "chmod 600");
    project.cogwork_with(&["secrets", "set", "wikiToken"], &[], "canary-7731-desk\n").exits(0);
    assert!(of(&examine(&project, &FREE, &[], 0), "secrets", "missing").is_empty());
    project.write(".cogwork/master.key", "bm90IHRoZSBrZXkgdGhhdCBzZWFsZWQgdGhlIHZhbHVlcw\n");
    check(&examine(&project, &FREE, &[], 1), "secrets", "stored", "error", "secrets.keyFile");
    // A key, but not the one: as on a new machine whose drill began without the key of the old one.
    let other = [("COGWORK_MASTER_KEY", "YW5vdGhlciBrZXkgb2YgdGhpcnR5LXR3byBieXRlcy4=")];
    check(&examine(&project, &FREE, &other, 1), "secrets", "stored", "error", "decrypts `wikiToken`");
    fs::remove_file(project.file(".cogwork/master.key")).expect("removed");
    let report = examine(&project, &FREE, &[], 1);
    check(&report, "secrets", "stored", "error", "decrypts `wikiToken`");
    assert!(of(&report, "secrets", "set").is_empty(), "{report:#}");
}

#[test]
fn a_store_that_the_daemon_rejects_is_an_error_with_the_same_message() {
    let project = hello();
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["migrate", "--to", "elsewhere.db"]).exits(0);
    let report = examine(&project, &FREE, &[], 1);
    check(&report, "store", "database", "error", "was moved to");
    check(&report, "store", "database", "error", "cogwork migrate --undo");
    project.cogwork(&["migrate", "--undo"]).exits(0);
    // As a restore of a backup that left the database out.
    project.cogwork_with(&["secrets", "set", "token"], &[], "canary-7731-desk\n").exits(0);
    fs::remove_file(project.file(".cogwork/cogwork.db")).expect("removed");
    let report = examine(&project, &FREE, &[], 3);
    check(&report, "store", "database", "error", "`master.key` beside it belong to a store");
    check(&report, "store", "database", "error", "restore the file from a backup");
    let refused = project.cogwork(&["serve", "--hooks", "0", "--admin", "0"]).exits(3).stderr;
    assert!(refused.contains("restore the file from a backup"), "{refused}");
}

#[test]
fn an_unreadable_folder_is_an_error_and_not_an_empty_one() {
    let project = hello();
    std::os::unix::fs::symlink(project.file("loop"), project.file("loop")).expect("a link");
    let report = examine(&project, &[&FREE[..], &["--data-dir", "loop"]].concat(), &[], 1);
    check(&report, "store", "database", "error", "loop");
    check(&report, "daemon", "running", "error", "loop");
    let report = examine(&project, &[&FREE[..], &["--dir", "loop"]].concat(), &[], 1);
    check(&report, "project", "files", "error", "correct the permissions");
    std::os::unix::fs::symlink(project.file("secrets"), project.file("secrets")).expect("a link");
    check(&examine(&project, &FREE, &[], 1), "secrets", "folder", "error", "folder of secrets");
}

#[test]
fn doctor_reports_contradicting_settings() {
    let project = hello();
    project.write("cogwork.yaml", "retention: {keepFailed: true, failedDays: 90}\n");
    check(&examine(&project, &FREE, &[], 1), "project", "settings", "error", "give one of them");
    project.write("cogwork.yaml", "secrets: {keyFile: other.key}\n");
    let key = [("COGWORK_MASTER_KEY", "YW5vdGhlciBrZXkgb2YgdGhpcnR5LXR3byBieXRlcy4=")];
    check(&examine(&project, &FREE, &key, 0), "project", "settings", "warning", "has no effect");
}

#[test]
fn doctor_reports_an_unwritable_data_folder() {
    let project = hello();
    // Also root cannot write there.
    let report = examine(&project, &["--data-dir", "/proc/self"], &[], 1);
    check(&report, "machine", "data folder", "error", "dataDir");
}

#[test]
fn doctor_reports_a_full_and_a_damaged_store() {
    let project = hello();
    project.cogwork(&["run", "hello"]).exits(0);
    let report = examine(&project, &["--limits-store-size", "64KiB"], &[], 1);
    check(&report, "store", "size", "error", "limits.storeSize");
    project.write(".cogwork/cogwork.db", &"not a database\n".repeat(500));
    let report = examine(&project, &FREE, &[], 1);
    check(&report, "store", "database", "error", "is not a store of Cogwork");
    assert!(of(&report, "secrets", "stored").is_empty(), "the store is the cause: {report:#}");
}

#[test]
fn doctor_queries_a_running_daemon_and_detects_a_killed_one() {
    let project = Project::with(&[("automations/bad.yaml", BAD), ("automations/hello.yaml", HELLO)]);
    let daemon = Daemon::start(&project, &[], "does not load");
    let report = examine(&project, &[], &[], 1);
    check(&report, "daemon", "running", "ok", env!("CARGO_PKG_VERSION"));
    check(&report, "daemon", "accepting", "ok", "it accepts starts");
    check(&report, "daemon", "files", "error", "1 file");
    check(&report, "listeners", "hooks", "skipped", "running daemon");
    check(&examine(&project, &["--ready"], &[], 0), "daemon", "accepting", "ok", "");
    let wrong = [("COGWORK_ADMIN_TOKEN", "0123456789abcdef0")];
    check(&examine(&project, &FREE, &wrong, 1), "daemon", "running", "error", "admin-token");
    // Killed, it leaves its announcement behind.
    drop(daemon);
    check(&examine(&project, &FREE, &[], 1), "daemon", "running", "warning", "cogwork serve");
    check(&examine(&project, &["--ready"], &[], 1), "daemon", "ready", "error", "cogwork serve");
}
