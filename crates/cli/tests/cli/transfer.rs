//! Backups and their restore, exports and imports.

#![cfg(unix)]

use crate::daemon::Daemon;
use crate::support::{FAILING, HELLO, Project};

fn project() -> Project {
    let project = Project::with(&[("automations/hello.yaml", HELLO), ("automations/failing.yaml", FAILING)]);
    project.cogwork(&["run", "hello", "--input", "name=Ada"]).exits(0);
    project.cogwork(&["run", "failing"]).exits(1);
    project
}

fn executions(project: &Project, arguments: &[&str]) -> Vec<serde_json::Value> {
    let list: Vec<&str> = ["executions", "list", "--json"].iter().chain(arguments).copied().collect();
    project.cogwork(&list).exits(0).json()["executions"].as_array().expect("a list").clone()
}

#[test]
fn a_backup_replaces_a_store_only_with_replace() {
    let project = project();
    project.cogwork(&["backup", "copy"]).exits(0);
    project.cogwork(&["run", "hello"]).exits(0);
    project.cogwork(&["restore", "copy"]).exits(2).says("there is a store").says("--replace");
    assert_eq!(executions(&project, &[]).len(), 3);

    let daemon = Daemon::start(&project, &[], "admin");
    let refused = project.cogwork(&["restore", "copy", "--replace"]).exits(1);
    refused.says("nothing was restored").says("another daemon (process");
    daemon.stop();
    assert_eq!(executions(&project, &[]).len(), 3);

    let restored = project.cogwork(&["restore", "copy", "--replace", "--json"]).exits(0);
    let restored = restored.json();
    assert_eq!(restored["executions"], 2);
    assert_eq!(executions(&project, &[]).len(), 2);
    let replaced = restored["replaced"].as_str().expect("it is kept");
    assert_eq!(executions(&project, &["--store", replaced]).len(), 3);

    let said = project.cogwork(&["restore", "nowhere", "--replace"]).exits(1);
    said.says("nothing was restored");
    project
        .cogwork(&["restore", "copy", "--data-dir", "drill"])
        .exits(0)
        .says("restored 2 executions")
        .says("cannot be decrypted");
    assert_eq!(executions(&project, &["--data-dir", "drill"]).len(), 2);
}

#[test]
fn executions_are_exported_and_imported_as_json_lines() {
    let project = project();
    project.cogwork(&["executions", "export"]).exits(2).says("--all");
    project.cogwork(&["executions", "export", "latest", "--all"]).exits(2);
    let all = project.cogwork(&["executions", "export", "--all", "--output", "all.jsonl"]).exits(0);
    all.says("exported 2 executions");
    let failed = project.cogwork(&["executions", "export", "--status", "failed"]).exits(0);
    assert_eq!(failed.stdout.matches("{\"execution\":").count(), 1, "{}", failed.stdout);
    for line in failed.stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("each line is JSON");
    }
    project
        .cogwork(&["executions", "import", "all.jsonl"])
        .exits(1)
        .says("refused 2 executions")
        .says("already");

    let other = Project::empty();
    other.write("all.jsonl", &project.read("all.jsonl"));
    let imported = other.cogwork(&["executions", "import", "all.jsonl", "--json"]).exits(0).json();
    assert_eq!((&imported["executions"], &imported["refused"]), (&2.into(), &0.into()));
    let found = executions(&other, &["--origin", "imported"]);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["origin"]["original"]["kind"], "manual");
    let shown = other.cogwork(&["executions", "show", "latest"]).exits(0).stdout;
    assert!(shown.contains("started by manual elsewhere") && shown.contains("7 is one too many"), "{shown}");
    let piped = project.read("all.jsonl");
    let third = Project::empty();
    third.cogwork_with(&["executions", "import", "-"], &[], &piped).exits(0).says("imported 2 executions");
    third.cogwork_with(&["executions", "import", "-"], &[], "no export").exits(1).says("not an export");
}
