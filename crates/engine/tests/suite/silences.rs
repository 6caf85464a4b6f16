//! Silences and changes of automations start the triggers on events of the engine that want them.

use std::time::Duration;

use engine::Engine;
use model::automation::Retention;
use runtime::Clock as _;

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
async fn an_event_that_is_too_large_to_be_kept_ends_a_silence() {
    let project = Project::new();
    watching(&project, "event: backup.done, within: 1h");
    let engine = project.start().await;
    settled(&project, "2026-03-02T09:00:00Z").await;
    project.clock.advance(Duration::from_secs(1800));
    let large = value::Value::from("x".repeat(1 << 20));
    for _ in 0..2 {
        let sent = engine.admission().emit("backup.done", large.clone(), None).await.expect("it is sent");
        assert!(!sent.kept);
    }
    project.clock.advance(Duration::from_secs(1800));
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

#[tokio::test]
async fn a_silence_counts_from_a_success_whose_execution_is_deleted() {
    let mut project = Project::with(FAILS);
    project.settings.retention = Some(Retention { days: Some(1), ..Retention::default() });
    watching(&project, "automations: test, within: 3d");
    let engine = project.start().await;
    settled(&project, "2026-03-02T20:00:00Z").await;
    project.clock.advance(Duration::from_secs(3600));
    fail(&engine, "no").await;
    let until = "2026-03-05T09:00:00Z".parse().expect("an instant");
    while project.clock.now() < until {
        project.clock.advance(Duration::from_secs(3600));
        quiet(&engine).await;
    }
    until_async(async || executions(&engine, "test").await.is_empty()).await;
    until_silences(&engine, 1).await;
    assert_eq!(silences(&engine).await, ["automation test  2026-03-02T09:00:00Z"]);
    stop(engine).await;
}

#[cfg(unix)]
mod several_daemons {
    use model::AutomationId;
    use store::conformance::{PostgresServer, PostgresSpace};

    use super::*;
    use crate::shared_shards::{shared, start_on_server};

    /// The automations that hear that an automation does not succeed, and that an event does not come.
    const HANDLERS: [&str; 2] = ["silence", "calm"];

    /// Starts a daemon with a folder of its own, and the clock of another one.
    async fn daemon(project: Project, space: &PostgresSpace, other: Option<&Project>) -> (Project, Engine) {
        let mut project = project;
        if let Some(other) = other {
            project.clock = other.clock.clone();
        }
        let engine = start_on_server(&project, space).await;
        (project, engine)
    }

    fn write_handlers(project: &Project) {
        watching(project, "automations: test, within: 1h");
        let with = ", with: {event: backup.done, within: 1h}";
        project.write("automations/calm.yaml", &event_handler("cogwork.missing", with));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_silence_is_told_once_by_several_daemons_also_if_the_one_that_watches_leaves() {
        let server = PostgresServer::start();
        for watcher_leaves in [true, false] {
            let space = server.space();
            let first = daemon(Project::with(FAILS), &space, None).await;
            let second = daemon(Project::with(FAILS), &space, Some(&first.0)).await;
            let mut daemons = vec![first, second];
            // Hours pass until both have shards, so the watch begins after that.
            shared(&daemons).await;
            for (project, engine) in &daemons {
                write_handlers(project);
                engine.reload().await;
            }
            let id = AutomationId::parse(HANDLERS[0]).expect("an id");
            daemons.sort_by_key(|(_, engine)| engine.peers().shards.has(&id) == watcher_leaves);
            fail(&daemons[0].1, "no").await;
            let sent = daemons[0].1.admission().emit("backup.done", json("null"), None).await;
            assert!(sent.expect("it is sent").kept);
            stop(daemons.pop().expect("a daemon").1).await;
            let (project, engine) = daemons.remove(0);
            let success = executions(&engine, "test").await[0].finished_at.expect("it has ended").to_string();
            until_async(async || {
                project.clock.advance(Duration::from_secs(20));
                executions(&engine, HANDLERS[0]).await.len() == 1
                    && executions(&engine, HANDLERS[1]).await.len() == 1
            })
            .await;
            assert_eq!(told(&engine, HANDLERS[0], &["since"]).await, [success], "{watcher_leaves}");
            // It counts from the same moment at a daemon that comes later, and is told.
            let late = Project::with(FAILS);
            write_handlers(&late);
            let late = daemon(late, &space, Some(&project)).await;
            let daemons = [(project, engine), late];
            shared(&daemons).await;
            for _ in 0..400 {
                daemons[0].0.clock.advance(Duration::from_secs(20));
                tokio::task::yield_now().await;
            }
            quiet(&daemons[0].1).await;
            for name in HANDLERS {
                assert_eq!(executions(&daemons[0].1, name).await.len(), 1, "{name} {watcher_leaves}");
            }
            for (_, engine) in daemons {
                stop(engine).await;
            }
        }
    }
}
