//! `plan` without a daemon reports everything as new, and all errors.

use crate::support::{BAD, HELLO, ORDER, Project};

const NIGHTLY: &str = "\
trigger:
  schedule: {daily: {at: \"02:30\"}, timezone: Europe/Berlin}
steps:
  - call: hello
";

#[test]
fn plan_shows_what_a_daemon_would_deploy() {
    let project = Project::with(&[
        ("automations/hello.yaml", HELLO),
        ("automations/nightly.yaml", NIGHTLY),
        ("automations/order.yaml", ORDER),
    ]);
    let ran =
        project.cogwork(&["plan"]).exits(0).says("3 added; 0 stay as they are").says("no daemon runs here");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("  + hello    added  automations/hello.yaml "), "{}", ran.stdout);
    assert!(lines[1].starts_with("  + nightly  added  "), "{}", ran.stdout);
    assert_eq!(lines[2], "      every day at 2:30 (Europe/Berlin): mounted");
    assert_eq!(lines[3], "      calls added: `hello`");
    assert!(
        lines[4].starts_with("      next fires: 20") && lines[4].ends_with(" 02:30:00 Europe/Berlin"),
        "{}",
        lines[4]
    );
    assert_eq!(lines[6], "      webhook: mounted");
    assert!(!project.file(".cogwork").exists(), "planning leaves nothing behind");
}

#[test]
fn plan_prints_errors_and_exits_1() {
    let project = Project::with(&[("automations/bad.yaml", BAD), ("automations/hello.yaml", HELLO)]);
    let ran =
        project.cogwork(&["plan"]).exits(1).says("did you mean `steps`?").says("1 added, 1 broken; 0 stay");
    assert!(
        ran.stdout.contains("  ! bad    broken: its file has errors, nothing is in force"),
        "{}",
        ran.stdout
    );
    let planned = project.cogwork(&["plan", "--json"]).exits(1).json();
    assert_eq!((&planned["daemon"], &planned["errors"]), (&false.into(), &1.into()));
    assert_eq!(planned["diagnostics"][0]["file"], "automations/bad.yaml");
    assert_eq!(
        (&planned["changes"][1]["id"], &planned["changes"][1]["effect"]),
        (&"hello".into(), &"added".into())
    );
    Project::empty().cogwork(&["plan"]).exits(1).says("is no project");
}

#[test]
fn plan_shows_each_setting_of_a_step_with_its_place() {
    let step = "trigger: {manual: {}}\nsteps:\n  - {id: greet, action: log.info, retry: 0, with: {message: hello}}\n";
    let project = Project::with(&[
        ("automations/greet.yaml", step),
        ("project.yaml", "# shared\ndefaults:\n  retry: 3\n  timeout: 30s\n"),
    ]);
    let ran = project.cogwork(&["plan", "--effective", "greet"]).exits(0);
    let expected = "greet  connection none, built in\ngreet  retry 0, from the step\ngreet  timeout 30s, from project.yaml:4\n";
    assert_eq!(ran.stdout, expected);
    let told = project.cogwork(&["plan", "--effective", "greet", "--json"]).exits(0).json();
    assert_eq!(told["steps"][0]["settings"][2]["place"], "project.yaml:4");
    project.cogwork(&["plan", "--effective", "greeet"]).exits(1).says("greet");
    project.cogwork(&["validate", "project.yaml"]).exits(0);
}
