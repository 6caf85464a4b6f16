//! `defaults` of files and of `project.yaml`, and the level of the language that they need.

use std::sync::Arc;

use authoring::check_project;
use catalog::effective_settings;
use engine::Engine;
use model::automation::{AutomationId, Level};
use pretty_assertions::assert_eq;
use store::Memory;
use store::memory::{FaultPlan, Faults, Operation};

use crate::common::{Peer, Project, show, soon, start_with, stop};

const CRM: &str = "type: http.open\nwith: {baseUrl: \"https://crm.example\"}\n";
const OTHER: &str = "type: http.open\nwith: {baseUrl: \"https://other.example\"}\n";
const STEP: &str = "{id: a, action: http.request, with: {method: GET, url: /people}}";

fn file(top: &str, step: &str) -> String {
    format!("{top}\ntrigger: {{manual: {{}}}}\nsteps:\n  - {step}\n")
}

fn project_with(project_file: &str, automation: &str) -> Project {
    let project = Project::with(automation);
    project.write("connections/crm.yaml", CRM);
    project.write("connections/other.yaml", OTHER);
    project.write("project.yaml", project_file);
    project
}

/// Returns the settings of the step `a`, a line each, or the codes of the problems with their files and lines.
fn settings(project_file: &str, automation: &str) -> Vec<String> {
    let project = project_with(project_file, automation);
    let checked = check_project(project.dir.path(), &[]).expect("the connectors load");
    let entries = checked.reports.iter().flat_map(|report| report.entries());
    let problems: Vec<String> = entries
        .filter(|entry| !["no-retry", "unused-value"].contains(&&*entry.code))
        .map(|entry| format!("{} {}:{}", entry.code, entry.file, entry.line))
        .collect();
    if !problems.is_empty() {
        return problems;
    }
    let found = checked.catalog.find("test").expect("it is in force");
    let step = found.automation.step("a").expect("it has the step");
    effective_settings(&found.automation, step).iter().map(ToString::to_string).collect()
}

#[test]
fn the_value_of_a_step_goes_before_that_of_its_file_of_the_project_and_of_the_language() {
    let shared = "# shared\ndefaults:\n  connection: crm\n  retry: 3\n  timeout: 30s\n";
    let all = "connection crm, from project.yaml:3";
    let (retry, timeout) = ("retry 3, from project.yaml:4", "timeout 30s, from project.yaml:5");
    let with = |keys: &str| STEP.replace("id: a,", &format!("id: a, {keys},"));
    let cases: &[(&str, String, [&str; 3])] = &[
        ("", STEP.to_owned(), [all, retry, timeout]),
        ("", with("retry: 1"), [all, "retry 1, from the step", timeout]),
        ("", with("retry: 0"), [all, "retry 0, from the step", timeout]),
        ("", with("timeout: 5s"), [all, retry, "timeout 5s, from the step"]),
        ("", with("connection: other"), ["connection other, from the step", retry, timeout]),
        (
            "defaults: {retry: {max: 1, delay: 5s}}",
            STEP.to_owned(),
            [all, "retry {max: 1, delay: 5s}, from automations/test.yaml:1", timeout],
        ),
        (
            "defaults: {retry: 0, timeout: 1m}",
            STEP.to_owned(),
            [all, "retry 0, from automations/test.yaml:1", "timeout 1m, from automations/test.yaml:1"],
        ),
        (
            "defaults: {connection: other}",
            STEP.to_owned(),
            ["connection other, from automations/test.yaml:1", retry, timeout],
        ),
    ];
    for (top, step, expected) in cases {
        assert_eq!(settings(shared, &file(top, step)), *expected, "{top} {step}");
    }
    let built_in = ["connection none, built in", "retry 0, built in", "timeout none, built in"];
    let open = STEP.replace("url: /people", "url: \"https://open.example/\"");
    assert_eq!(settings("", &file("", &open)), built_in, "an empty file");
    assert_eq!(settings("defaults: {}", &file("", &open)), built_in);
    let none = open.replace("id: a,", "id: a, connection: null,");
    assert_eq!(settings(shared, &file("", &none))[0], "connection none, from the step");
    assert_eq!(
        settings(shared, &file("defaults: {connection: null}", &open))[0],
        "connection none, built in"
    );
}

#[test]
fn a_default_retry_is_never_merged_and_also_holds_for_calls() {
    let shared = "defaults: {retry: {max: 3, delay: 9s, on: [network]}, timeout: 30s}";
    let own = file("", &STEP.replace("id: a,", "id: a, connection: crm, retry: {max: 2},"));
    assert_eq!(settings(shared, &own)[1], "retry 2, from the step");
    let call = file("", "{id: a, call: test2}");
    let project = project_with(shared, &call);
    project.write("automations/test2.yaml", &file("", "{id: b, set: {x: 1}}"));
    let checked = check_project(project.dir.path(), &[]).expect("the connectors load");
    let found = &checked.catalog.find("test").expect("it is in force").automation;
    let settings = effective_settings(found, found.step("a").expect("a step"));
    let shown: Vec<String> = settings.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["retry {max: 3, delay: 9s, on: [network]}, from project.yaml:1"], "no timeout");
}

#[test]
fn problems_of_defaults_are_reported_at_their_place() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("defaults: {connection: [crm, other]}", "", &["conflicting-keys project.yaml:1"]),
        ("defaults: {connection: crmm}", "", &["unknown-connection project.yaml:1"]),
        ("default: {retry: 3}", "", &["unknown-key project.yaml:1"]),
        ("defaults: {retries: 3}", "", &["unknown-key project.yaml:1"]),
        ("limits: {crm: 3}", "", &["unknown-key project.yaml:1"]),
        ("defaults: {connection: }", "", &["wrong-type project.yaml:1"]),
        ("", "defaults: {connection: [crm, other]}", &["conflicting-keys automations/test.yaml:1"]),
        ("", "defaults: {timeout: 5}", &["invalid-duration automations/test.yaml:1"]),
    ];
    for (shared, own, expected) in cases {
        let found = settings(shared, &file(own, &STEP.replace("id: a,", "id: a, connection: crm,")));
        assert_eq!(found, *expected, "{shared} {own}");
    }
    let elsewhere = file("", &STEP.replace("/people", "\"https://else.example/\""));
    let found = settings("defaults: {connection: crm}", &elsewhere);
    assert_eq!(found, ["default-other-host automations/test.yaml:4"]);
    let null = elsewhere.replace("id: a,", "id: a, connection: null,");
    assert_eq!(settings("defaults: {connection: crm}", &null)[0], "connection none, from the step");
}

/// Returns the hints at unused defaults as `file:line message`.
fn unused(project: &Project) -> Vec<String> {
    let checked = check_project(project.dir.path(), &[]).expect("the connectors load");
    let entries = checked.reports.iter().flat_map(|report| report.entries());
    let unused = entries.filter(|entry| entry.code == "unused-value");
    unused.map(|entry| format!("{}:{} {}", entry.file, entry.line, entry.message)).collect()
}

#[test]
fn a_default_that_no_step_takes_is_a_hint_at_its_place() {
    let shared = "defaults:\n  connection:\n    - crm\n    - other\n  retry: 3\n  timeout: 30s\n";
    let shared = shared.replace("    - other\n", "");
    let of = |place: &str, line: usize, what: &str| {
        let in_file = if place == "project.yaml" { "the project" } else { "this file" };
        format!("{place}:{line} no step of {in_file} takes the default {what}")
    };
    let with = |keys: &str| STEP.replace("id: a,", &format!("id: a, {keys}"));
    let cases: &[(&str, String, &[&str])] = &[
        ("", STEP.to_owned(), &[]),
        (
            "",
            with("connection: crm, retry: 1, timeout: 1s,"),
            &["3 connection `crm`", "4 `retry`", "5 `timeout`"],
        ),
        (
            "",
            "{id: a, call: other, retry: 1}".to_owned(),
            &["3 connection `crm`", "4 `retry`", "5 `timeout`"],
        ),
        ("", "{id: a, call: other}".to_owned(), &["3 connection `crm`", "5 `timeout`"]),
        ("defaults: {retry: 0}", STEP.to_owned(), &["4 `retry`"]),
        (
            "defaults: {connection: null}",
            with("timeout: 1s,").replace("/people", "\"https://a.example\""),
            &["3 connection `crm`", "5 `timeout`"],
        ),
    ];
    for (top, step, lines) in cases {
        let project = project_with(&shared, &file(top, step));
        project.write("automations/other.yaml", &file("", "{set: {x: 1}}"));
        let expected = lines.iter().map(|line| {
            let (line, what) = line.split_once(' ').expect("a line");
            of("project.yaml", line.parse().expect("a number"), what)
        });
        assert_eq!(unused(&project), expected.collect::<Vec<_>>(), "{top} {step}");
    }
    let own = project_with("", &file("defaults: {connection: crm, timeout: 5s}", "{call: other}"));
    own.write("automations/other.yaml", &file("", "{set: {x: 1}}"));
    let place = "automations/test.yaml";
    assert_eq!(unused(&own), [of(place, 1, "connection `crm`"), of(place, 1, "`timeout`")]);
}

#[tokio::test]
async fn the_hint_at_an_unused_default_follows_the_other_files_and_can_be_allowed() {
    let taken = file("", &STEP.replace("id: a,", "id: a, connection: crm,"));
    let project = project_with("defaults:\n  retry: 3\n", &taken);
    let engine = project.start().await;
    let codes = async |engine: &Engine| {
        engine.reload().await;
        let catalog = engine.catalog();
        let reports = catalog.reports().filter(|report| report.source().path() == "project.yaml");
        reports.flat_map(|report| report.entries()).map(|entry| entry.code.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(codes(&engine).await, [""; 0]);
    let own = file("", &STEP.replace("id: a,", "id: a, connection: crm, retry: 1,"));
    project.write("automations/test.yaml", &own);
    assert_eq!(codes(&engine).await, ["unused-value"]);
    // A draft of the file is checked with the other files as they are.
    let draft =
        |text: &str| authoring::check_text(&engine.catalog(), "project.yaml", text).diagnostics().len();
    assert_eq!(draft("defaults:\n  timeout: 3s\n"), 0);
    assert_eq!(draft("defaults:\n  retry: 4\n"), 1);
    assert_eq!(draft("defaults:\n  # cogwork: allow(unused-value)\n  retry: 4\n"), 0);
    // A file with an error may take it.
    project.write("automations/more.yaml", "trigger: {manual: {}}\nsteps: [{actoin: http.get}]\n");
    assert_eq!(codes(&engine).await, [""; 0]);
    std::fs::remove_file(project.path("automations/more.yaml")).expect("it is removed");
    assert_eq!(codes(&engine).await, ["unused-value"]);
    project.write("automations/test.yaml", &taken);
    assert_eq!(codes(&engine).await, [""; 0]);
    stop(engine).await;
}

#[test]
fn a_default_that_a_step_cannot_use_up_is_not_reported_at_the_step() {
    let step = |keys: &str| {
        let inner = STEP.replace("id: a,", &format!("id: a, connection: crm, {keys}"));
        file("", &format!("{{timeout: 20s, steps: [{inner}]}}"))
    };
    let shared = "defaults: {timeout: 30s, retry: {max: 1, delay: 25s}}";
    let silent = ["connection crm, from the step", "retry {max: 1, delay: 25s}, from project.yaml:1"];
    assert_eq!(settings(shared, &step(""))[..2].to_vec(), silent);
    assert_eq!(settings(shared, &step("timeout: 30s,")), ["unused-setting automations/test.yaml:4"]);
    assert_eq!(
        settings(shared, &step("retry: {max: 1, delay: 25s},")),
        ["unused-setting automations/test.yaml:4"]
    );
}

/// Returns the forecast changes as `id: summary`.
async fn forecast(engine: &Engine) -> Vec<String> {
    let preview = soon(engine.preview_reload()).await.expect("a forecast");
    assert_eq!(preview.errors(), 0);
    preview.changes.iter().map(|change| format!("{}: {}", change.id, change.summary())).collect()
}

#[tokio::test]
async fn a_plan_lists_exactly_the_steps_that_a_change_of_the_project_file_changes() {
    let project = project_with("defaults: {connection: crm, retry: 3}", &file("", STEP));
    project.write(
        "automations/own.yaml",
        &file("", &STEP.replace("id: a,", "id: a, connection: crm, retry: 1,")),
    );
    let engine = project.start().await;
    let hash = |id: &str| engine.catalog().find(id).expect("it is in force").automation.definition;
    let before = hash("test");
    project.write("project.yaml", "# why\ndefaults:\n  connection: crm\n  retry: 3\n  timeout: 30s\n");
    assert_eq!(forecast(&engine).await, ["own: steps changed: `a`", "test: steps changed: `a`"]);
    project.write("project.yaml", "# why\ndefaults:\n  connection: crm\n  retry: 4\n");
    assert_eq!(forecast(&engine).await, ["test: steps changed: `a`"]);
    project.write("project.yaml", "# why\ndefaults:\n  retry: 3\n  connection: [crm, crm]\n");
    assert!(forecast(&engine).await.is_empty(), "only the text changes");
    engine.reload().await;
    assert_eq!(hash("test"), before);
    project.write("project.yaml", "defaults: {connection: crm, retry: 5}");
    engine.reload().await;
    assert_ne!(hash("test"), before);
    stop(engine).await;
}

#[tokio::test]
async fn a_broken_project_file_leaves_the_last_valid_one_in_force() {
    let project = project_with("defaults: {connection: crm, retry: 3}", &file("", STEP));
    let engine = project.start().await;
    let hash = || engine.catalog().find("test").expect("it is in force").automation.definition;
    let before = hash();
    for broken in ["defaults: [\n", "defaults: {retry: -1}", "defaults: {connection: [crm, other]}"] {
        project.write("project.yaml", broken);
        let reload = engine.reload().await;
        assert_eq!(
            reload.reports.first().map(|report| report.source().path().to_owned()),
            Some("project.yaml".to_owned())
        );
        assert_eq!(hash(), before, "{broken}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_in_flight_keeps_the_defaults_that_it_started_with() {
    let mut peer = Peer::new().await;
    let url = format!("{}/x", peer.base);
    let steps = format!(
        "trigger: {{manual: {{}}}}\nsteps:\n  - {{id: pause, wait: 1h}}\n  - {{id: a, action: http.request, with: {{method: GET, url: \"{url}\"}}}}\n"
    );
    let project = Project::with(&steps);
    project.write("project.yaml", "defaults: {retry: {max: 1, delay: 0ms}}");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    crate::common::until_suspended(&engine).await;
    stop(engine).await;
    project.write("project.yaml", "defaults: {retry: 0}");
    let engine = project.start().await;
    crate::common::pass(&project, std::time::Duration::from_secs(3600)).await;
    peer.next_request().await.answer(503, "{}").await;
    peer.next_request().await.answer(200, "{\"ok\": true}").await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    assert!(show(&outcome).contains("\"ok\":true"), "{}", show(&outcome));
    stop(engine).await;
}

struct NoFaults;

impl Faults for NoFaults {
    fn plan(&self, _: Operation<'_>) -> FaultPlan {
        FaultPlan::NONE
    }
}

#[tokio::test]
async fn a_file_of_a_later_level_waits_until_the_older_daemon_has_gone() {
    let memory = Memory::default();
    let (older, _store) = memory.join(Arc::new(NoFaults));
    memory.set_known_level(older, Level::FIRST);
    let (_, store) = memory.join(Arc::new(NoFaults));
    let mut project = Project::with(&file("", "{id: a, set: {x: 1}}"));
    project.settings.background = false;
    let engine = project.start_on(store).await;
    let id = AutomationId::parse("test").expect("an id");
    let in_force = || engine.catalog().get(&id).expect("it is in force").clone();
    let first = in_force().automation.definition;
    project.write("automations/test.yaml", &file("defaults: {retry: 3}", "{id: a, call: other}"));
    project.write("automations/other.yaml", &file("", "{id: b, set: {x: 1}}"));
    for _ in 0..2 {
        engine.reload().await;
        let deployment = in_force();
        let report = deployment.stale.clone().expect("its last version stays in force");
        assert_eq!(deployment.automation.definition, first);
        let entry = report.entries().into_iter().find(|entry| entry.code == "older-daemons").expect("why");
        assert!(
            entry.message.contains("`defaults` needs level 2") && entry.message.contains("the daemon 1"),
            "{}",
            entry.message
        );
        assert!(engine.catalog().find("other").is_ok(), "files of the first level are not affected");
        assert_eq!(memory.level(), Level::FIRST);
    }
    memory.declare_dead(older);
    let reload = engine.reload().await;
    assert_eq!((reload.changed.len(), memory.level()), (1, Level::SECOND));
    assert!(in_force().stale.is_none());
}

#[tokio::test]
async fn a_project_of_the_first_level_raises_nothing() {
    let memory = Memory::default();
    let project =
        project_with("", &file("retry: 2", &STEP.replace("id: a,", "id: a, connection: crm, retry: 0,")));
    let engine = project.start_on(memory.open()).await;
    assert_eq!(engine.catalog().automations().len(), 1);
    assert_eq!(memory.level(), Level::FIRST);
}
