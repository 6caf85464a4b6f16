//! The complete text of `--help`.

use crate::support::Project;

/// The help of a command as a snapshot of its own.
#[track_caller]
fn check(name: &str, command: &[&str]) {
    let arguments: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
    let ran = Project::empty().cogwork(&arguments).exits(0);
    assert_eq!(ran.stderr, "");
    insta::assert_snapshot!(format!("help_{name}"), ran.stdout);
}

#[test]
fn the_help_of_every_command_matches_its_snapshot() {
    check("cogwork", &[]);
    for command in [
        "init",
        "new",
        "validate",
        "fix",
        "run",
        "start",
        "test",
        "serve",
        "list",
        "listen",
        "plan",
        "enable",
        "disable",
        "payloads",
        "addresses",
        "triggers",
        "pair",
        "executions",
        "events",
        "polls",
        "subscriptions",
        "state",
        "doctor",
        "backup",
        "restore",
        "migrate",
        "connections",
        "secrets",
        "token",
        "audit",
        "connectors",
        "import",
        "schema",
        "completions",
        "version",
    ] {
        check(command, &[command]);
    }
    for command in
        ["list", "show", "logs", "export", "import", "signal", "replay", "try", "to-test", "cancel"]
    {
        check(&format!("executions_{command}"), &["executions", command]);
    }
    for command in ["emit", "list"] {
        check(&format!("events_{command}"), &["events", command]);
    }
    for command in ["list", "show", "now", "reset", "rewind"] {
        check(&format!("polls_{command}"), &["polls", command]);
    }
    check("subscriptions_try", &["subscriptions", "try"]);
    for command in ["list", "get", "set", "delete"] {
        check(&format!("state_{command}"), &["state", command]);
    }
    for command in ["list", "test", "login"] {
        check(&format!("connections_{command}"), &["connections", command]);
    }
    for command in ["list", "set", "remove", "rotate"] {
        check(&format!("secrets_{command}"), &["secrets", command]);
    }
    for command in ["list", "show", "test"] {
        check(&format!("connectors_{command}"), &["connectors", command]);
    }
    for command in ["list", "show", "rename", "remove"] {
        check(&format!("payloads_{command}"), &["payloads", command]);
    }
    check("triggers_move", &["triggers", "move"]);
    check("addresses_rotate", &["addresses", "rotate"]);
    check("import_openapi", &["import", "openapi"]);
}

#[test]
fn wrong_usage_exits_2_with_a_suggestion() {
    Project::empty().cogwork(&["serv"]).exits(2).says("serve");
    Project::empty().cogwork(&["validate", "--format", "xml"]).exits(2).says("github");
    Project::empty().cogwork(&[]).exits(2);
}

#[test]
fn the_short_help_omits_settings_and_global_options() {
    let short = Project::empty().cogwork(&["serve", "-h"]).exits(0).stdout;
    let full = Project::empty().cogwork(&["serve", "--help"]).exits(0).stdout;
    for option in ["--data-dir", "--log-level"] {
        assert!(full.contains(option), "{full}");
        assert!(!short.contains(option), "{short}");
    }
    assert!(short.contains("Examples:") && short.contains("`--help` also lists"), "{short}");
}
