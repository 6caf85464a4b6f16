//! Saved payloads, addresses, and tests from executions: what the daemon changes for the command line.

#![cfg(unix)]

use crate::daemon::{Daemon, post};
use crate::support::{ORDER, Project};

fn started() -> (Project, Daemon) {
    let project = Project::with(&[("automations/order.yaml", ORDER)]);
    let daemon = Daemon::start(&project, &["--addresses"], "order");
    (project, daemon)
}

#[test]
fn a_saved_payload_is_listed_shown_renamed_and_removed() {
    let (project, _daemon) = started();
    let list =
        || project.cogwork(&["payloads", "list", "order", "--json"]).exits(0).json()["payloads"].clone();
    project.cogwork(&["payloads", "list", "order"]).exits(0).says("no payload is saved");
    for name in ["first", "second"] {
        let payload = r#"{"kind": "webhook", "method": "POST", "body": {"id": 7}}"#;
        project.write(&format!("payloads/order/{name}.json"), payload);
    }
    assert_eq!(list()[0]["name"], "first");
    let table = project.cogwork(&["payloads", "list", "order"]).exits(0).stdout;
    assert!(table.contains("first") && table.contains("POST"), "{table}");
    let taken = project.cogwork(&["payloads", "rename", "order", "first", "second"]).exits(1);
    taken.says("second");
    let renamed = project.cogwork(&["payloads", "rename", "order", "first", "third"]).exits(0);
    renamed.says("now payloads/order/third.json");
    assert!(
        project.file("payloads/order/third.json").exists()
            && !project.file("payloads/order/first.json").exists()
    );
    project.cogwork(&["payloads", "show", "order", "first"]).exits(1);
    project.cogwork(&["payloads", "remove", "order", "third"]).exits(0).says("removed");
    project.cogwork(&["payloads", "remove", "order", "third"]).exits(1).says("there is no payload");
    assert_eq!(list().as_array().map(Vec::len), Some(1));
}

#[test]
fn a_rotated_address_is_printed_and_the_previous_one_is_404() {
    let (project, daemon) = started();
    let previous = daemon.word("/trigger/").to_owned();
    project.cogwork(&["addresses", "rotate", "order"]).exits(2).says("--yes");
    assert!(post(&previous, r#"{"id": 1}"#).starts_with("HTTP/1.1 201 "), "it was not replaced");
    let rotated = project.cogwork(&["addresses", "rotate", "order", "--yes"]).exits(0).stdout;
    assert!(post(&previous, r#"{"id": 1}"#).starts_with("HTTP/1.1 404 "));
    assert!(post(rotated.trim(), r#"{"id": 1}"#).starts_with("HTTP/1.1 201 "), "{rotated}");
    let test =
        project.cogwork(&["addresses", "rotate", "order", "--test", "--yes", "--json"]).exits(0).json();
    assert_eq!(test["liveUrl"], rotated.trim());
    project.cogwork(&["addresses", "rotate", "none", "--yes"]).exits(1).says("none");
}

#[test]
fn to_test_writes_a_test_beside_the_automation_through_the_daemon() {
    let (project, daemon) = started();
    assert!(post(daemon.word("/trigger/"), r#"{"id": 7}"#).starts_with("HTTP/1.1 201 "));
    let written = project.cogwork(&["executions", "to-test", "latest", "--name", "seven"]).exits(0);
    assert_eq!(written.stdout.trim(), "automations/order.test.yaml");
    project.cogwork(&["executions", "to-test", "latest", "--name", "seven again"]).exits(0);
    let text = project.read("automations/order.test.yaml");
    assert!(text.contains("\"seven\"") && text.contains("\"seven again\""), "{text}");
    project.cogwork(&["test", "automations/order.test.yaml"]).exits(0);
}

#[test]
fn the_last_executions_are_replayed_on_an_undeployed_definition() {
    let project = Project::with(&[("automations/order.yaml", &format!("id: the-orders\n{ORDER}"))]);
    let daemon = Daemon::start(&project, &["--addresses"], "the-orders");
    for id in 1..=3 {
        assert!(post(daemon.word("/trigger/"), &format!("{{\"id\": {id}}}")).starts_with("HTTP/1.1 201 "));
    }
    let file = "automations/order.yaml";
    let tried = project.cogwork(&["executions", "try", file, "--last", "2", "--json"]).exits(0).json();
    let newest = project.cogwork(&["executions", "list", "--json"]).exits(0).json();
    let ids = |list: &serde_json::Value| {
        list["executions"].as_array().unwrap().iter().take(2).map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&tried), ids(&newest));
    assert_eq!(tried["executions"].as_array().map(Vec::len), Some(2), "{tried}");
    for wrong in [["--last", "51"], ["--last", "0"]] {
        project.cogwork(&["executions", "try", file, wrong[0], wrong[1]]).exits(2);
    }
    project.cogwork(&["executions", "try", file, "latest", "--last", "2"]).exits(2);
}

#[test]
fn a_read_only_daemon_writes_no_test() {
    let project = Project::with(&[("automations/order.yaml", ORDER)]);
    let daemon = Daemon::start(&project, &["--addresses", "--ui-read-only", "true"], "order");
    assert!(post(daemon.word("/trigger/"), r#"{"id": 7}"#).starts_with("HTTP/1.1 201 "));
    project.cogwork(&["executions", "to-test", "latest"]).exits(1).says("ui.readOnly");
    assert!(!project.file("automations/order.test.yaml").exists());
}
