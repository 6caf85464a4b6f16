//! `cogwork secrets`: beside a daemon and without one. The values are canaries, so that every command is searched for them.

#![cfg(unix)]

use crate::daemon::Daemon;
use crate::support::Project;

/// An automation that shows what it read by its length alone.
const READS: &str = "\
trigger: {manual: {}}
configVars:
  token: {value: \"${{ secrets.deskToken }}\", secret: true}
steps:
  - {set: {length: \"${{ configVars.token | length }}\"}}
outputs: {length: \"${{ vars.length }}\"}
";

fn project() -> Project {
    Project::with(&[("automations/reads.yaml", READS)])
}

#[test]
fn a_secret_is_set_listed_read_and_removed_without_a_daemon() {
    let project = project();
    project
        .cogwork_with(&["secrets", "set", "deskToken"], &[], "canary-4471-desk\n")
        .exits(0)
        .says("version 1");
    let listed = project.cogwork(&["secrets", "list", "--json"]).exits(0);
    assert_eq!(listed.json()["secrets"][0]["name"], "deskToken");
    let ran = project.cogwork(&["run", "reads"]).exits(0).json();
    assert_eq!(ran["length"], 16);
    project.cogwork(&["secrets", "rotate"]).exits(0).says("sealed 1 value");
    assert_eq!(project.cogwork(&["run", "reads"]).exits(0).json()["length"], 16);
    project.cogwork(&["secrets", "remove", "deskToken"]).exits(0);
    project.cogwork(&["secrets", "remove", "deskToken"]).exits(1);
    project.cogwork(&["run", "reads"]).exits(1).says("cogwork secrets set deskToken");
}

#[test]
fn secrets_are_looked_up_in_the_store_then_the_folder_then_the_environment() {
    let project = project();
    let length = |variables: &[(&str, &str)]| {
        project.cogwork_with(&["run", "reads"], variables, "").exits(0).json()["length"].clone()
    };
    let variable = [("COGWORK_SECRET_DESK_TOKEN", "1")];
    assert_eq!(length(&variable), 1);
    project.write("secrets/deskToken", "22\n");
    assert_eq!(length(&variable), 2);
    project.write("elsewhere/deskToken", "4444");
    assert_eq!(length(&[variable[0], ("COGWORK_SECRETS_DIR", "elsewhere")]), 4);
    project.cogwork_with(&["secrets", "set", "deskToken"], &[], "333").exits(0);
    assert_eq!(length(&variable), 3);
}

#[test]
fn secrets_are_written_through_the_daemon_and_read_beside_it() {
    let project = project();
    let daemon = Daemon::start(&project, &[], "reads");
    project
        .cogwork_with(&["secrets", "set", "deskToken"], &[], "canary-4471-first")
        .exits(0)
        .says("version 1");
    project
        .cogwork_with(&["secrets", "set", "deskToken"], &[], "canary-4471-second")
        .exits(0)
        .says("version 2");
    let listed = project.cogwork(&["secrets", "list"]).exits(0).stdout;
    assert!(listed.contains("deskToken") && listed.contains("store"), "{listed}");
    assert_eq!(project.cogwork(&["run", "reads"]).exits(0).json()["length"], 18);
    project.cogwork(&["secrets", "rotate"]).exits(0).says("sealed 1 value");
    project.cogwork(&["secrets", "remove", "deskToken"]).exits(0);
    let (code, log) = daemon.stop();
    assert_eq!(code, Some(0));
    tests::canary::look(log, "the daemon's log");
}

#[test]
fn a_missing_secret_value_is_wrong_usage() {
    project().cogwork(&["secrets", "set", "deskToken"]).exits(2).says("on stdin");
}

#[test]
fn a_backup_contains_stored_secrets_without_the_master_key() {
    let project = project();
    project.cogwork_with(&["secrets", "set", "deskToken"], &[], "canary-4471-desk").exits(0);
    assert!(project.file(".cogwork/master.key").exists());
    project.cogwork(&["backup", "copy"]).exits(0);
    let names: Vec<String> = std::fs::read_dir(project.file("copy"))
        .expect("the backup is a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().any(|name| name == "cogwork.db"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("key")), "{names:?}");
    project.cogwork(&["restore", "copy", "--data-dir", "drill"]).exits(0).says("cannot be decrypted");
    project.cogwork(&["run", "reads", "--data-dir", "drill"]).exits(1);
}
