//! Events about files: each change and each file that does not load is told once, over crashes, restarts and several daemons.

use engine::Engine;

use crate::common::{Project, stop, until_async};
use crate::crashes::at_each_commit;
use crate::engine_events::{FAILS, event_handler, executions, quiet, told};

const GOOD: &str = "labels: [shop]\ntrigger: {manual: {}}\nsteps: [{set: {x: 1}}]\n";

/// A project with a handler of changes and one of files.
fn project() -> Project {
    let project = Project::new();
    write_handlers(&project);
    project.write("automations/a.yaml", GOOD);
    project.write("automations/b.yaml", GOOD);
    project
}

fn write_handlers(project: &Project) {
    project.write("automations/log.yaml", &event_handler("cogwork.changed", ""));
    project.write("automations/wrong.yaml", &event_handler("cogwork.failure", ", with: {kinds: [file]}"));
}

fn changed(text: &str) -> String {
    text.replace("x: 1", "x: 2")
}

fn broken(text: &str) -> String {
    text.replace("set", "sett")
}

fn remove(project: &Project, path: &str) {
    std::fs::remove_file(project.path(path)).expect("it is removed");
}

/// The changes that were told, in the order of their texts.
async fn changes(engine: &Engine) -> Vec<String> {
    let mut changes = told(engine, "log", &["kind", "automation.id"]).await;
    changes.sort();
    changes
}

/// The files that were told, in the order of their texts.
async fn files(engine: &Engine) -> Vec<String> {
    let mut files = told(engine, "wrong", &["file.path", "count"]).await;
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_told_once_over_a_crash_at_any_commit() {
    at_each_commit(async |at| {
        let project = project();
        let crashing = at.start(&project).await;
        crashing.arm();
        project.write("automations/a.yaml", &changed(GOOD));
        project.write("automations/b.yaml", &broken(GOOD));
        let engine = &crashing.engine;
        engine.reload().await;
        let has_crashed = crashing
            .run_until(async || {
                let is_idle = engine.store().unfinished_count().await.is_ok_and(|count| count == 0);
                is_idle
                    && executions(engine, "log").await.len() == 2
                    && executions(engine, "wrong").await.len() == 1
            })
            .await;
        crashing.end().await;
        let engine = project.start().await;
        quiet(&engine).await;
        assert_eq!(changes(&engine).await, ["changed a", "stale b"], "after {at:?}");
        // The start tells that the last good version is not in force any more.
        let told = files(&engine).await;
        assert!((1..=2).contains(&told.len()) && told[0] == "automations/b.yaml 1", "after {at:?}: {told:?}");
        stop(engine).await;
        has_crashed
    })
    .await;
}

#[tokio::test]
async fn a_trigger_hears_at_once_of_the_reload_that_adds_it() {
    let project = Project::with(GOOD);
    let engine = project.start().await;
    write_handlers(&project);
    project.write("automations/a.yaml", GOOD);
    engine.reload().await;
    // No time passes.
    quiet(&engine).await;
    assert!(changes(&engine).await.contains(&"added a".to_owned()));
    stop(engine).await;
}

#[tokio::test]
async fn a_change_while_no_daemon_runs_is_told_at_the_next_start() {
    let project = project();
    project.write("automations/off.yaml", GOOD);
    let engine = project.start().await;
    quiet(&engine).await;
    assert_eq!(changes(&engine).await, [""; 0], "the first start compares with nothing");
    stop(engine).await;
    project.write("automations/a.yaml", &changed(GOOD));
    project.write("automations/off.yaml", &format!("enabled: false\n{GOOD}"));
    project.write("automations/new.yaml", GOOD);
    remove(&project, "automations/b.yaml");
    let expected = ["added new", "changed a", "disabled off", "removed b"];
    for _ in 0..2 {
        let engine = project.start().await;
        quiet(&engine).await;
        assert_eq!(changes(&engine).await, expected);
        assert_eq!(executions(&engine, "wrong").await.len(), 0);
        stop(engine).await;
    }
    // A removed automation had a name and labels.
    let engine = project.start().await;
    let told = told(&engine, "log", &["title", "automation.labels", "file.path"]).await;
    assert!(told.contains(&r#"b was removed ["shop"] automations/b.yaml"#.to_owned()), "{told:?}");
    stop(engine).await;
}

#[tokio::test]
async fn a_file_that_breaks_while_no_daemon_runs_is_told_until_it_is_valid_again() {
    let project = project();
    stop(project.start().await).await;
    project.write("automations/a.yaml", &broken(GOOD));
    for _ in 0..2 {
        let engine = project.start().await;
        quiet(&engine).await;
        assert_eq!(changes(&engine).await, ["stale a"]);
        assert_eq!(files(&engine).await, ["automations/a.yaml 1"]);
        stop(engine).await;
    }
    let engine = project.start().await;
    let title = told(&engine, "log", &["title"]).await;
    assert_eq!(title, ["a is stale: its file does not load, and no version of it is in force"]);
    project.write("automations/a.yaml", &changed(GOOD));
    engine.reload().await;
    quiet(&engine).await;
    assert_eq!(changes(&engine).await, ["changed a", "stale a", "valid a"]);
    // The same content is broken again.
    stop(engine).await;
    project.write("automations/a.yaml", &broken(GOOD));
    project.clock.advance(std::time::Duration::from_secs(60));
    let engine = project.start().await;
    quiet(&engine).await;
    assert_eq!(files(&engine).await, ["automations/a.yaml 1"; 2]);
    stop(engine).await;
}

#[tokio::test]
async fn a_change_that_no_trigger_waited_for_is_not_told_later() {
    let project = Project::with(FAILS);
    project.write("automations/a.yaml", GOOD);
    stop(project.start().await).await;
    project.write("automations/a.yaml", &changed(GOOD));
    write_handlers(&project);
    let engine = project.start().await;
    quiet(&engine).await;
    assert_eq!(changes(&engine).await, [""; 0]);
    for path in ["automations/log.yaml", "automations/wrong.yaml"] {
        remove(&project, path);
    }
    engine.reload().await;
    project.write("automations/a.yaml", GOOD);
    project.write("automations/b.yaml", GOOD);
    engine.reload().await;
    write_handlers(&project);
    engine.reload().await;
    quiet(&engine).await;
    // The handlers have come into force with this reload.
    assert_eq!(changes(&engine).await, ["added log", "added wrong"]);
    stop(engine).await;
    let engine = project.start().await;
    quiet(&engine).await;
    assert_eq!(changes(&engine).await.len(), 2);
    stop(engine).await;
}

#[tokio::test]
async fn a_broken_handler_is_told_to_other_handlers_and_hears_of_others_in_its_last_good_version() {
    let project = project();
    project.write("automations/second.yaml", &event_handler("cogwork.failure", ", with: {kinds: [file]}"));
    let engine = project.start().await;
    let text = broken(&event_handler("cogwork.failure", ", with: {kinds: [file]}"));
    project.write("automations/wrong.yaml", &text);
    engine.reload().await;
    quiet(&engine).await;
    assert_eq!(told(&engine, "second", &["file.path"]).await, ["automations/wrong.yaml"]);
    assert_eq!(executions(&engine, "wrong").await.len(), 0, "not to itself");
    project.write("automations/a.yaml", &broken(GOOD));
    engine.reload().await;
    quiet(&engine).await;
    assert_eq!(told(&engine, "wrong", &["file.path"]).await, ["automations/a.yaml"]);
    assert_eq!(executions(&engine, "second").await.len(), 2);
    stop(engine).await;
    // After a start it is not in force, and the other one hears of it.
    project.clock.advance(std::time::Duration::from_secs(60));
    let engine = project.start().await;
    quiet(&engine).await;
    assert_eq!(executions(&engine, "wrong").await.len(), 1);
    assert_eq!(executions(&engine, "second").await.len(), 4);
    stop(engine).await;
}

#[cfg(unix)]
mod several_daemons {
    use engine::{Deploy, deployable_files};
    use store::GenerationSource;
    use store::conformance::PostgresServer;

    use super::*;
    use crate::shared_shards::start_on_server;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn daemons_with_folders_of_their_own_tell_of_a_change_once() {
        let server = PostgresServer::start();
        let space = server.space();
        let projects = [project(), project()];
        let engines =
            [start_on_server(&projects[0], &space).await, start_on_server(&projects[1], &space).await];
        for project in &projects {
            project.write("automations/a.yaml", &changed(GOOD));
            project.write("automations/b.yaml", &broken(GOOD));
            project.write("automations/c.yaml", GOOD);
        }
        tokio::join!(engines[0].reload(), engines[1].reload());
        quiet(&engines[0]).await;
        assert_eq!(changes(&engines[0]).await, ["added c", "changed a", "stale b"]);
        assert_eq!(files(&engines[0]).await, ["automations/b.yaml 1"]);
        // One more starts with the same files.
        let third = project();
        third.write("automations/a.yaml", &changed(GOOD));
        third.write("automations/c.yaml", GOOD);
        third.write("automations/b.yaml", &changed(GOOD));
        let late = start_on_server(&third, &space).await;
        quiet(&engines[0]).await;
        assert_eq!(changes(&engines[0]).await, ["added c", "changed a", "changed b", "stale b", "valid b"]);
        for engine in engines.into_iter().chain([late]) {
            stop(engine).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn daemons_that_take_a_generation_tell_of_its_changes_once() {
        let server = PostgresServer::start();
        let space = server.space();
        let projects = [project(), project()];
        let mut engines =
            vec![start_on_server(&projects[0], &space).await, start_on_server(&projects[1], &space).await];
        let deploy = async |engines: &[Engine]| {
            let files = deployable_files(projects[0].dir.path());
            let (author, note) = ("test".to_owned(), String::new());
            let deploy = Deploy { files, author, note, follows: None, source: GenerationSource::Push };
            let number = engines[0].deploy(deploy).await.expect("it is deployed").generation.number;
            until_async(async || {
                engines.iter().all(|engine| {
                    engine.running_definitions().generation.is_some_and(|running| running.number == number)
                })
            })
            .await;
        };
        deploy(&engines).await;
        projects[0].write("automations/a.yaml", &changed(GOOD));
        remove(&projects[0], "automations/b.yaml");
        deploy(&engines).await;
        quiet(&engines[0]).await;
        let expected = ["changed a", "removed b"];
        assert_eq!(changes(&engines[0]).await, expected);
        // A daemon that was away while a generation came tells nothing again; if it returns alone, it tells of the generation.
        stop(engines.pop().expect("a daemon")).await;
        projects[0].write("automations/c.yaml", GOOD);
        deploy(&engines).await;
        engines.push(start_on_server(&projects[1], &space).await);
        quiet(&engines[0]).await;
        assert_eq!(changes(&engines[0]).await, ["added c", "changed a", "removed b"]);
        assert_eq!(executions(&engines[0], "wrong").await.len(), 0);
        for engine in engines {
            stop(engine).await;
        }
    }
}
