//! `cogwork token` and `cogwork audit` beside a daemon.

#![cfg(unix)]

use crate::daemon::Daemon;
use crate::support::Project;

const MANUAL: &str = "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n";

#[test]
fn a_created_token_grants_its_scopes_until_it_is_revoked() {
    let project = Project::with(&[("automations/one.yaml", MANUAL)]);
    let daemon = Daemon::start(&project, &[], "one");
    let created = project
        .cogwork(&["token", "create", "reader", "--scope", "read", "--valid-for", "30d"])
        .exits(0)
        .says("not shown again");
    let token = created.stdout.trim().to_owned();
    assert!(token.starts_with("cogwork_"), "{token}");
    let as_reader = [("COGWORK_ADMIN_TOKEN", token.as_str())];
    project.cogwork_with(&["executions", "list", "--json"], &as_reader, "").exits(0);
    project.cogwork_with(&["audit"], &as_reader, "").exits(1).says("needs the scope `admin`");
    project.cogwork(&["token", "create", "x", "--scope", "everything"]).exits(2).says("is no scope");
    let listed = project.cogwork(&["token", "list"]).exits(0).stdout;
    assert!(listed.contains("reader") && listed.contains("read") && !listed.contains(&token), "{listed}");
    project.cogwork(&["token", "revoke", "reader"]).exits(0);
    project.cogwork_with(&["token", "list"], &as_reader, "").exits(1);
    assert_eq!(daemon.stop().0, Some(0));
}

#[test]
fn the_audit_log_survives_a_restart_and_is_exported_line_by_line() {
    let project = Project::with(&[("automations/one.yaml", MANUAL)]);
    let daemon = Daemon::start(&project, &[], "one");
    project.cogwork_with(&["secrets", "set", "desk"], &[], "canary-4471-audit").exits(0);
    project.cogwork(&["disable", "one"]).exits(0);
    assert_eq!(daemon.stop().0, Some(0));
    let daemon = Daemon::start(&project, &[], "one");
    project.cogwork(&["enable", "one"]).exits(0);
    let exported = project.cogwork(&["audit", "--json"]).exits(0).stdout;
    let actions = |text: &str| -> Vec<String> {
        let entries = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        entries.map(|entry| entry["action"].as_str().expect("a word").to_owned()).collect()
    };
    assert_eq!(actions(&exported), ["enable", "disable", "setSecret"]);
    assert!(!exported.contains("canary"), "{exported}");
    let of_secrets = project.cogwork(&["audit", "--json", "--about", "secrets/desk"]).exits(0).stdout;
    assert_eq!(actions(&of_secrets), ["setSecret"]);
    let table = project.cogwork(&["audit", "--action", "enable"]).exits(0).stdout;
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.contains("admin token") && table.contains("127.0.0.1"), "{table}");
    assert_eq!(daemon.stop().0, Some(0));
}
