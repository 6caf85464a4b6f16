//! `init` and `new`.

use crate::support::{HELLO, Project};

#[test]
fn a_new_project_is_valid_and_runs() {
    let project = Project::empty();
    let ran = project.cogwork(&["init", "flows"]).exits(0).says("cd flows && cogwork run hello");
    assert_eq!(ran.stdout, "");
    project.cogwork(&["--dir", "flows", "validate"]).exits(0).says("checked 3 files: 0 errors, 0 warnings");
    project.cogwork(&["--dir", "flows", "test"]).exits(0);
    let ran = project.cogwork(&["--dir", "flows", "run", "hello", "--input", "name=Ada"]).exits(0);
    assert_eq!(ran.json(), serde_json::json!({"greeting": "Hello, Ada!"}));
    assert!(project.read("flows/.gitignore").contains(".cogwork/"));
}

#[test]
fn a_new_project_overwrites_nothing() {
    let project = Project::with(&[("automations/hello.yaml", "mine")]);
    project.cogwork(&["init"]).exits(1).says("`automations/hello.yaml` would be overwritten");
    assert_eq!(project.read("automations/hello.yaml"), "mine");
    assert!(!project.file("cogwork.yaml").exists());
}

#[test]
fn a_folder_under_git_keeps_its_gitignore() {
    let project = Project::with(&[(".gitignore", "target/\n")]);
    project.cogwork(&["init"]).exits(0).says("kept .gitignore");
    assert_eq!(project.read(".gitignore"), "target/\n");
    assert!(project.file("automations/hello.yaml").exists());
}

#[test]
fn a_new_automation_of_each_kind_is_valid_and_runs() {
    let project = Project::empty();
    let kinds = [("Order desk", "webhook"), ("Nightly", "schedule"), ("Many", "manual"), ("Orders", "poll")];
    for (name, kind) in
        kinds.into_iter().chain([("Pages", "event"), ("Paid", "ownEvent"), ("Failures", "failure")])
    {
        project.cogwork(&["new", name, "--trigger", kind]).exits(0);
    }
    // The token of the wiki is not set yet.
    let checked = project.cogwork(&["validate"]).exits(0).says("checked 15 files: 0 errors, 1 warning");
    assert!(checked.stdout.contains("missing-secret"), "{}", checked.stdout);
    let ran = project.cogwork(&["test", "--coverage"]).exits(0);
    assert!(ran.stdout.contains("11 passed"), "{}", ran.stdout);
    for (id, key) in [("order-desk", "order"), ("nightly", "dueAt"), ("many", "greeted")] {
        let result = project.cogwork(&["run", id]).exits(0).json();
        assert!(result.get(key).is_some(), "{id}: {result}");
    }
}

#[test]
fn a_new_automation_overwrites_nothing() {
    let project = Project::with(&[("automations/hello.yaml", HELLO)]);
    project.cogwork(&["new", "Hello", "--trigger", "manual"]).exits(1).says("is not overwritten");
    assert_eq!(project.read("automations/hello.yaml"), HELLO);
}

#[test]
fn nothing_is_prompted_without_a_terminal() {
    let project = Project::empty();
    project.cogwork(&["new"]).exits(2).says("give the name");
    project.cogwork(&["new", "hello"]).exits(2).says("webhook, schedule, poll, manual");
    project.cogwork(&["new", "---", "--trigger", "manual"]).exits(2);
    project.cogwork(&["new", "hello", "--trigger", "cron"]).exits(2).says("possible values");
    project
        .cogwork(&["new", "hello", "--id", "Hello!", "--trigger", "manual"])
        .exits(2)
        .says("cannot be an id");
}

#[test]
fn a_non_ascii_name_becomes_a_readable_ascii_id() {
    let project = Project::empty();
    let ran = project.cogwork(&["new", "Bestellung für Ärger", "--trigger", "manual"]).exits(0);
    ran.says("its id is `bestellung-fur-arger`; --id gives it another");
    assert!(project.read("automations/bestellung-fur-arger.yaml").contains("name: \"Bestellung für Ärger\""));
    project.cogwork(&["new", "Ärger", "--id", "trouble", "--trigger", "manual"]).exits(0);
    assert!(project.file("automations/trouble.yaml").exists());
}

#[test]
fn a_new_poll_or_event_automation_is_disabled() {
    let project = Project::empty();
    for kind in ["poll", "event"] {
        project.cogwork(&["new", kind, "--trigger", kind]).exits(0);
        let text = project.read(&format!("automations/{kind}.yaml"));
        assert!(text.contains("\nenabled: false\n"), "{text}");
    }
}

#[test]
fn a_new_event_automation_uses_the_existing_connection() {
    let connection = "type: wiki.basic\nwith: {email: a@b.example, apiToken: \"${{ secrets.t }}\", host: \"https://a.example\"}\n";
    let project = Project::with(&[("connections/ourWiki.yaml", connection)]);
    project.cogwork(&["new", "pages", "--trigger", "event"]).exits(0);
    assert!(project.read("automations/pages.yaml").contains("connection: ourWiki\n"));
    assert!(!project.file("connections/mainWiki.yaml").exists());
    let checked = project.cogwork(&["validate"]).exits(0).says("0 errors, 1 warning");
    assert!(checked.stdout.contains("missing-secret"), "{}", checked.stdout);
}
