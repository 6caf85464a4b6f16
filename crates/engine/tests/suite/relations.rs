//! Relations between files: matching and mismatched calls, and effects of a change in one file on others.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::Deployment;
use engine::Engine;
use pretty_assertions::assert_eq;

use crate::common::{Project, stop};

/// A file that can be called, with an input.
const GREET: &str = "trigger: {manual: {}}\ninputs:\n  name: {type: text, required: true}\n  times: {type: integer}\nsteps:\n  - action: log.info\n    with: {message: \"${{ inputs.name }} ${{ inputs.times | default(1) }}\"}\n";

/// Formats an Automation that calls others and writes a log line at the end.
fn calling(ids: &[&str]) -> String {
    let calls: String = ids.iter().map(|id| format!("  - call: {id}\n")).collect();
    format!("trigger: {{manual: {{}}}}\nsteps:\n{calls}  - action: log.info\n    with: {{message: hello}}\n")
}

fn project(files: &[(&str, &str)]) -> Project {
    let project = Project::new();
    for (name, text) in files {
        project.write(&format!("automations/{name}.yaml"), text);
    }
    project
}

/// Returns the output of `validate` for these files: `file:line:column code: message; help`.
fn validate_output(files: &[(&str, &str)]) -> Vec<String> {
    let project = project(files);
    let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
    lines(&checked.reports)
}

fn lines(reports: &[text::diagnostic::Report]) -> Vec<String> {
    let entries = reports.iter().flat_map(text::diagnostic::Report::entries);
    entries
        .map(|entry| {
            let file = entry.file.trim_start_matches("automations/").trim_end_matches(".yaml").to_owned();
            let near = entry.nearest.map(|near| format!("; did you mean {near}")).unwrap_or_default();
            format!("{file}:{}:{} {}: {}{near}", entry.line, entry.column, entry.code, entry.message)
        })
        .collect()
}

#[test]
fn a_matching_call_has_no_diagnostics() {
    let call = "trigger: {manual: {}}\nsteps:\n  - call: greet\n    with: {name: Ada, times: 2}\n  - call: greet\n    with: {name: \"${{ execution.id }}\"}\n    async: true\n";
    assert_eq!(validate_output(&[("greet", GREET), ("main", call)]), [""; 0]);
}

#[test]
fn a_call_of_an_unknown_automation_suggests_the_nearest_id() {
    assert_eq!(
        validate_output(&[("greet", GREET), ("main", &calling(&["great", "nobody"]))]),
        [
            "main:3:11 unknown-automation: there is no automation `great`; did you mean greet",
            "main:4:11 unknown-automation: there is no automation `nobody`",
        ]
    );
}

#[test]
fn only_an_automation_with_a_manual_trigger_can_be_called() {
    let hook = calling(&[]).replace("manual", "webhook");
    assert_eq!(
        validate_output(&[("hook", &hook), ("main", &calling(&["hook"]))]).last().map(String::as_str),
        Some("main:3:11 not-callable: `hook` cannot be called: it is started by a `webhook` trigger")
    );
}

#[test]
fn call_inputs_are_checked_against_the_callees_inputs() {
    let call = "trigger: {manual: {}}\nsteps:\n  - call: greet\n    with: {nam: Ada, times: often}\n  - call: greet\n    with: {colour: red}\n";
    assert_eq!(
        validate_output(&[("greet", GREET), ("main", call)]),
        [
            "main:4:12 unknown-input: `greet` has no input `nam`; did you mean name",
            "main:4:29 wrong-input: input `times`: must be a whole number, found text",
            "main:6:5 missing-input: `greet` needs the input `name`",
            "main:6:12 unknown-input: `greet` has no input `colour`",
        ]
    );
}

#[test]
fn a_broken_callee_is_reported_and_its_readable_inputs_are_still_checked() {
    let broken = GREET.replace("log.info", "log.infos");
    assert_eq!(
        validate_output(&[
            ("greet", &broken),
            ("main", &calling(&["greet"])),
            ("outer", &calling(&["main"]))
        ])[1..],
        [
            "main:3:11 broken-automation: the automation `greet` has errors of its own",
            "main:3:11 missing-input: `greet` needs the input `name`",
            "outer:3:11 broken-automation: the automation `main` has errors of its own",
        ]
    );
    // Only the name of an unreadable file is known.
    let unreadable = validate_output(&[("greet", "trigger: [\n"), ("main", &calling(&["greet"]))]);
    assert_eq!(
        unreadable[1..],
        ["main:3:11 broken-automation: the automation `greet` has errors of its own"]
    );
}

#[test]
fn a_call_cycle_is_reported_once_in_each_of_its_files_and_nowhere_else() {
    let files = [
        ("a", calling(&["b", "b"])),
        ("b", calling(&["c"])),
        ("c", calling(&["a", "end"])),
        ("end", calling(&[])),
        ("before", calling(&["a"])),
        ("self", calling(&["self"])),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let told: Vec<String> =
        validate_output(&files).into_iter().filter(|line| !line.contains("empty-automation")).collect();
    let circle = "call-circle: these automations call each other without end:";
    assert_eq!(
        told,
        [
            format!("a:3:11 {circle} a → b → c → a"),
            format!("b:3:11 {circle} b → c → a → b"),
            "before:3:11 broken-automation: the automation `a` has errors of its own".to_owned(),
            format!("c:3:11 {circle} c → a → b → c"),
            format!("self:3:11 {circle} self → self"),
        ]
    );
}

#[test]
fn a_long_call_cycle_is_shown_abbreviated() {
    let names: Vec<String> = (0..1200).map(|number| format!("n{number:04}")).collect();
    let files: Vec<(&str, String)> = names
        .iter()
        .enumerate()
        .map(|(index, name)| (name.as_str(), calling(&[names[(index + 1) % names.len()].as_str()])))
        .collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let told = validate_output(&files);
    assert_eq!(told.len(), names.len());
    assert!(told[7].ends_with("without end: n0007 → n0008 → … → n0007"), "{}", told[7]);
}

#[test]
fn a_text_is_checked_like_a_file_against_the_rest_of_the_project() {
    let project =
        project(&[("greet", GREET), ("main", &calling(&["greet"])), ("other", &calling(&["main"]))]);
    let catalog = authoring::check_project(project.dir.path(), &[]).expect("checked").catalog;
    let check = |name: &str, text: &str| {
        lines(&[authoring::check_text(&catalog, &format!("automations/{name}.yaml"), text)])
    };
    assert_eq!(
        check("main", &calling(&["greet"])),
        ["main:3:11 missing-input: `greet` needs the input `name`"]
    );
    assert_eq!(
        check("main", &calling(&["other"])),
        ["main:3:11 call-circle: these automations call each other without end: main → other → main"]
    );
    assert_eq!(check("new", &calling(&["new"])).len(), 1);
    assert_eq!(
        check("new", &format!("id: greet\n{}", calling(&[]))).last().map(String::as_str),
        Some("new:1:5 duplicate-automation: the id `greet` is taken by `automations/greet.yaml`")
    );
}

/// Returns the active deployments, to compare them with those after a reload.
fn in_force(engine: &Engine) -> BTreeMap<String, Arc<Deployment>> {
    let catalog = engine.catalog();
    catalog
        .automations()
        .map(|deployment| (deployment.automation.id.to_string(), deployment.clone()))
        .collect()
}

/// Returns the ids whose deployments differ between two snapshots.
fn anew(before: &BTreeMap<String, Arc<Deployment>>, now: &BTreeMap<String, Arc<Deployment>>) -> Vec<String> {
    let other =
        |id: &&String| before.get(*id).zip(now.get(*id)).is_none_or(|(old, new)| !Arc::ptr_eq(old, new));
    now.keys().filter(other).cloned().collect()
}

#[tokio::test]
async fn a_changed_signature_rechecks_exactly_its_callers_and_marks_mismatches_stale() {
    let named = "trigger: {manual: {}}\nsteps:\n  - call: greet\n    with: {name: Ada}\n";
    let project = project(&[
        ("greet", GREET),
        ("fits", &named.replace("{name", "{times: 1, name")),
        ("caller", named),
        ("stranger", &calling(&[])),
    ]);
    let engine = project.start().await;
    let first = in_force(&engine);
    // Another text with the same signature does not affect other files.
    project.write("automations/greet.yaml", &GREET.replace("default(1)", "default(2)"));
    engine.reload().await;
    let second = in_force(&engine);
    assert_eq!(anew(&first, &second), ["greet"]);
    // One more required input.
    project.write(
        "automations/greet.yaml",
        &GREET.replace("{type: integer}", "{type: integer, required: true}"),
    );
    let reload = engine.reload().await;
    let third = in_force(&engine);
    assert_eq!(anew(&second, &third), ["caller", "fits", "greet"]);
    let ids = |ids: &[model::AutomationId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (ids(&reload.changed), ids(&reload.stale)),
        (vec!["greet".to_owned()], vec!["caller".to_owned()])
    );
    assert_eq!(lines(&reload.reports), ["caller:4:5 missing-input: `greet` needs the input `times`"]);
    assert_eq!((third["caller"].state().as_str(), third["fits"].state().as_str()), ("stale", "active"));
    // Back again.
    project.write("automations/greet.yaml", GREET);
    let reload = engine.reload().await;
    assert_eq!((ids(&reload.restored), ids(&reload.stale)), (vec!["caller".to_owned()], vec![]));
    assert_eq!(in_force(&engine)["caller"].state().as_str(), "active");
    stop(engine).await;
}

#[tokio::test]
async fn a_callee_that_breaks_becomes_stale_and_its_callers_stay_active() {
    let project = project(&[("greet", &calling(&[])), ("caller", &calling(&["greet"]))]);
    let engine = project.start().await;
    let first = in_force(&engine);
    project.write("automations/greet.yaml", "trigger: {manual: {}}\nsteps:\n  - sett: {}\n");
    engine.reload().await;
    let second = in_force(&engine);
    assert_eq!(anew(&first, &second), ["greet"]);
    assert_eq!((second["greet"].state().as_str(), second["caller"].state().as_str()), ("stale", "active"));
    stop(engine).await;
}

#[tokio::test]
async fn adding_or_removing_a_callee_updates_its_callers() {
    let project = project(&[("outer", &calling(&["caller"])), ("caller", &calling(&["greet"]))]);
    let engine = project.start().await;
    assert!(in_force(&engine).is_empty(), "one calls nothing, the other one that does not load");
    project.write("automations/greet.yaml", &calling(&[]));
    let reload = engine.reload().await;
    assert_eq!(reload.added.len(), 3);
    std::fs::remove_file(project.path("automations/greet.yaml")).expect("removed");
    let reload = engine.reload().await;
    assert_eq!((reload.removed.len(), reload.stale.len()), (1, 1));
    let now = in_force(&engine);
    assert_eq!((now["caller"].state().as_str(), now["outer"].state().as_str()), ("stale", "active"));
    stop(engine).await;
}

#[tokio::test]
async fn a_call_cycle_is_reported_when_closed_and_cleared_when_broken() {
    let project = project(&[("a", &calling(&["b"])), ("b", &calling(&["c"])), ("c", &calling(&[]))]);
    let engine = project.start().await;
    project.write("automations/c.yaml", &calling(&["a"]));
    let reload = engine.reload().await;
    assert_eq!(reload.stale.len(), 3, "{reload:?}");
    project.write("automations/b.yaml", &calling(&[]));
    let reload = engine.reload().await;
    assert_eq!((reload.stale.len(), reload.restored.len(), reload.changed.len()), (0, 1, 2), "{reload:?}");
    assert!(in_force(&engine).values().all(|deployment| deployment.state().as_str() == "active"));
    stop(engine).await;
}

#[tokio::test]
async fn a_changed_connection_rechecks_exactly_the_automations_that_use_it() {
    let wiki = "type: wiki.basic\nwith: {email: a@example.com, apiToken: \"${{ secrets.t }}\", host: \"http://127.0.0.1:1\"}\n";
    let list = "trigger: {manual: {}}\nsteps:\n  - action: wiki.listSpaces\n    connection: main\n";
    let project =
        project(&[("uses", list), ("another", &list.replace("main", "second")), ("none", &calling(&[]))]);
    project.write("connections/main.yaml", wiki);
    project.write("connections/second.yaml", wiki);
    let engine = project.start().await;
    let first = in_force(&engine);
    assert_eq!(first.len(), 3);
    project.write("connections/main.yaml", &wiki.replace("a@", "b@"));
    engine.reload().await;
    assert_eq!(anew(&first, &in_force(&engine)), ["uses"]);
    stop(engine).await;
}

#[test]
fn the_order_in_which_files_are_checked_changes_nothing() {
    // Enough files for several threads, with calls between them.
    let files: Vec<(String, String)> = (0..200)
        .map(|number| {
            let callee = format!("n{:03}", (number * 7 + 3) % 211);
            (format!("n{number:03}"), calling(&[callee.as_str(), "greet"]))
        })
        .collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let first = validate_output(&files);
    assert!(first.len() > 200);
    for _ in 0..3 {
        assert_eq!(validate_output(&files), first);
    }
}
