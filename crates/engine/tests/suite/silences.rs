//! Silences and changes of automations start the triggers on events of the engine that want them.

use std::time::Duration;

use engine::Engine;

use crate::common::{Project, crash, end, json, settled, start_with, stop, until_async};
use crate::crashes::at_each_commit;
use crate::engine_events::{FAILS, event_handler, executions, fail, quiet, told};

#[tokio::test]
async fn each_change_of_an_automation_is_told() {
    let project = Project::new();
    project.write("automations/log.yaml", &event_handler("cogwork.changed", ", with: {automations: a}"));
    project.write("automations/other.yaml", &event_handler("cogwork.changed", ", with: {labels: none}"));
    let engine = project.start().await;
    let good = "labels: [shop]\ntrigger: {manual: {}}\nsteps: [{set: {x: 1}}]\n";
    let versions = [
        ("added", Some(good.to_owned())),
        ("changed", Some(good.replace("x: 1", "x: 2"))),
        ("stale", Some(good.replace("set", "sett"))),
        ("valid", Some(good.replace("x: 1", "x: 2"))),
        ("disabled", Some(format!("enabled: false\n{good}"))),
        ("enabled", Some(good.to_owned())),
        ("removed", None),
    ];
    let mut expected = Vec::new();
    for (kind, text) in versions {
        match text {
            Some(text) => project.write("automations/a.yaml", &text),
            None => std::fs::remove_file(project.path("automations/a.yaml")).expect("it is removed"),
        }
        engine.reload().await;
        quiet(&engine).await;
        expected.push(format!("{kind} a automations/a.yaml"));
        assert_eq!(told(&engine, "log", &["kind", "automation.id", "file.path"]).await, expected);
    }
    assert_eq!(executions(&engine, "other").await.len(), 0);
    crash(engine).await;
    let engine = project.start().await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "log").await.len(), expected.len(), "a start changes nothing");
    stop(engine).await;
}

fn watching(project: &Project, with: &str) {
    project
        .write("automations/silence.yaml", &event_handler("cogwork.missing", &format!(", with: {{{with}}}")));
}

async fn silences(engine: &Engine) -> Vec<String> {
    told(engine, "silence", &["kind", "automation.id", "eventName", "since"]).await
}

/// Waits until this number of silences is told.
async fn until_silences(engine: &Engine, count: usize) {
    until_async(async || executions(engine, "silence").await.len() == count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silence_is_told_once_over_a_crash_at_any_commit() {
    at_each_commit(async |at| {
        let project = Project::with(FAILS);
        watching(&project, "automations: test, within: 1h");
        let crashing = at.start(&project).await;
        crashing.arm();
        let engine = &crashing.engine;
        let has_crashed = crashing
            .run_until(async || {
                // An hour passes while the engine runs, and then its silence is told.
                project.clock.advance(Duration::from_secs(60));
                let is_idle = engine.store().unfinished_count().await.is_ok_and(|count| count == 0);
                is_idle && executions(engine, "silence").await.len() == 1
            })
            .await;
        crashing.end().await;
        let engine = project.start().await;
        until_async(async || {
            project.clock.advance(Duration::from_secs(60));
            executions(&engine, "silence").await.len() == 1
        })
        .await;
        quiet(&engine).await;
        project.clock.advance(Duration::from_secs(7200));
        quiet(&engine).await;
        let told = silences(&engine).await;
        assert!(told.len() == 1 && told[0].starts_with("automation test "), "after {at:?}: {told:?}");
        stop(engine).await;
        has_crashed
    })
    .await;
}

#[tokio::test]
async fn an_automation_that_does_not_succeed_in_time_is_told_once_for_each_silence() {
    let project = Project::with(FAILS);
    watching(&project, "automations: test, within: 1h");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    project.clock.advance(Duration::from_secs(1800));
    fail(&engine, "no").await;
    fail(&engine, "yes").await;
    stop(engine).await;
    // A start is no success: the deadline still counts from the success at 08:30.
    project.clock.advance(Duration::from_secs(900));
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:30:00Z").await;
    project.clock.advance(Duration::from_secs(2699));
    assert_eq!(executions(&engine, "silence").await.len(), 0);
    project.clock.advance(Duration::from_secs(1));
    until_silences(&engine, 1).await;
    settled(&project, "2026-03-02T10:30:00Z").await;
    project.clock.advance(Duration::from_secs(3600));
    settled(&project, "2026-03-02T11:30:00Z").await;
    crash(engine).await;
    let engine = project.start().await;
    settled(&project, "2026-03-02T11:30:00Z").await;
    assert_eq!(silences(&engine).await, ["automation test  2026-03-02T08:30:00Z"], "one silence");
    fail(&engine, "no").await;
    project.clock.advance(Duration::from_secs(3600));
    until_silences(&engine, 2).await;
    assert_eq!(silences(&engine).await[1], "automation test  2026-03-02T10:30:00Z");
    stop(engine).await;
}

#[tokio::test]
async fn labels_select_the_automations_under_watch_and_disabled_ones_are_not() {
    let project = Project::with(FAILS);
    project.write("automations/off.yaml", &format!("enabled: false\n{FAILS}"));
    project.write("automations/stock.yaml", &FAILS.replace("billing", "stock"));
    watching(&project, "labels: [billing], within: 1h");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    project.clock.advance(Duration::from_secs(3600));
    until_silences(&engine, 1).await;
    // It counts from when it came under watch.
    project.write("automations/off.yaml", FAILS);
    engine.reload().await;
    settled(&project, "2026-03-02T10:00:00Z").await;
    project.clock.advance(Duration::from_secs(3600));
    until_silences(&engine, 2).await;
    assert_eq!(
        silences(&engine).await,
        ["automation test  2026-03-02T08:00:00Z", "automation off  2026-03-02T09:00:00Z"]
    );
    stop(engine).await;
}

#[tokio::test]
async fn an_event_that_does_not_come_in_time_is_told() {
    let project = Project::new();
    watching(&project, "event: backup.done, within: 1h");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    project.clock.advance(Duration::from_secs(1800));
    let sent = engine.admission().emit("backup.done", json("null"), None).await.expect("it is sent");
    assert!(sent.kept);
    project.clock.advance(Duration::from_secs(1800));
    settled(&project, "2026-03-02T09:30:00Z").await;
    crash(engine).await;
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:30:00Z").await;
    assert_eq!(executions(&engine, "silence").await.len(), 0);
    project.clock.advance(Duration::from_secs(1800));
    until_silences(&engine, 1).await;
    assert_eq!(silences(&engine).await, ["event - backup.done 2026-03-02T08:30:00Z"]);
    stop(engine).await;
}

#[tokio::test]
async fn the_address_of_an_execution_is_that_of_its_page() {
    let mut project =
        Project::with("trigger: {manual: {}}\nsteps: [{set: {x: 1}}]\noutputs: \"${{ execution.url }}\"\n");
    project.settings.admin_url = Some("https://cogwork.internal".to_owned());
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, format!(r#""https://cogwork.internal/executions/{id}""#));
    stop(engine).await;
}
