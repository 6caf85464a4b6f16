//! Reloads: the effects of a change on disk, and the parts that it leaves alone.

use std::time::Duration;

use runtime::Clock as _;

use crate::common::{Project, end, soon, start_with, stop};

const GOOD: &str = "trigger: {webhook: {}}\nsteps:\n  - set: {v: 1}\n";

fn live(engine: &engine::Engine, id: &str) -> String {
    let catalog = engine.catalog();
    catalog.find(id).expect("in force").mounted[0].address.as_ref().expect("an address").live.clone()
}

#[tokio::test]
async fn a_file_that_breaks_keeps_its_last_good_version_active_and_is_reported() {
    let project = Project::with("trigger: {manual: {}}\nsteps:\n  - set: {v: 1}\n");
    let engine = project.start().await;
    project.write("automations/test.yaml", "trigger: {manual: {}}\nsteps:\n  - sett: {v: 2}\n");
    let reload = engine.reload().await;
    assert_eq!(reload.stale.len(), 1);
    assert!(reload.reports.iter().any(|report| report.render(false).contains("sett")));
    assert_eq!(engine.catalog().find("test").expect("in force").state().as_str(), "stale");
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"v":1}"#);
    project.write("automations/test.yaml", "trigger: {manual: {}}\nsteps:\n  - set: {v: 3}\n");
    engine.reload().await;
    assert_eq!(engine.catalog().find("test").expect("in force").state().as_str(), "active");
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"v":3}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_broken_file_prevents_neither_the_start_nor_other_automations() {
    let project = Project::with("trigger: {manual: {}}\nsteps: []\n");
    project.write("automations/broken.yaml", "trigger: [\n");
    project.write("automations/unknown.yaml", "trigger: {manual: {}}\nsteps:\n  - action: nobody.knows\n");
    let engine = project.start().await;
    assert_eq!(engine.catalog().invalid_files().len(), 2);
    let id = start_with(&engine, "{}").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[test]
fn a_huge_file_is_read_only_up_to_the_size_limit() {
    let project = Project::new();
    // Cut off in the midst of a character.
    project.write("automations/large.yaml", &format!("#{}\n", "é".repeat(5 << 20)));
    let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
    let entry = &checked.reports[0].entries()[0];
    assert_eq!((entry.code.as_str(), entry.line, entry.column), ("yaml-too-large", 1, 131_073));
    assert!(checked.reports[0].source().text().len() < 600 << 10);
    std::fs::write(project.path("automations/large.yaml"), b"name: \xff\n").expect("written");
    let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
    assert_eq!(checked.reports[0].entries()[0].code, "unreadable-file");
}

#[tokio::test]
async fn an_address_survives_reload_rename_change_of_trigger_and_restart() {
    let project = Project::with(&format!("id: orders\n{GOOD}"));
    let engine = project.start().await;
    let token = live(&engine, "orders");
    std::fs::rename(project.path("automations/test.yaml"), project.path("automations/renamed.yaml"))
        .expect("renamed");
    engine.reload().await;
    assert_eq!(live(&engine, "orders"), token);
    project.write("automations/renamed.yaml", "id: orders\ntrigger: {manual: {}}\nsteps: []\n");
    engine.reload().await;
    let answer = soon(engine.ingress().receive(&token, trigger::webhook::Request::default())).await;
    assert!(String::from_utf8_lossy(&answer.body.for_display()).contains("not_a_webhook"));
    project.write("automations/renamed.yaml", &format!("id: orders\n{GOOD}"));
    engine.reload().await;
    assert_eq!(live(&engine, "orders"), token);
    stop(engine).await;
    let engine = project.start().await;
    assert_eq!(live(&engine, "orders"), token);
    stop(engine).await;
}

#[tokio::test]
async fn a_removed_file_is_undeployed_and_its_address_unknown() {
    let project = Project::with(GOOD);
    let engine = project.start().await;
    let token = live(&engine, "test");
    std::fs::remove_file(project.path("automations/test.yaml")).expect("removed");
    let reload = engine.reload().await;
    assert_eq!(reload.removed.len(), 1);
    let answer = soon(engine.ingress().receive(&token, trigger::webhook::Request::default())).await;
    assert!(String::from_utf8_lossy(&answer.body.for_display()).contains("unknown_trigger"));
    stop(engine).await;
}

#[tokio::test]
async fn the_second_file_with_the_same_id_is_refused() {
    let project = Project::with(GOOD);
    project.write("automations/zweite.yaml", &format!("id: test\n{GOOD}"));
    let engine = project.start().await;
    let catalog = engine.catalog();
    assert_eq!(catalog.find("test").expect("in force").automation.source.path(), "automations/test.yaml");
    assert!(catalog.invalid_files()[0].report.render(false).contains("taken by `automations/test.yaml`"));
    stop(engine).await;
}

#[tokio::test]
async fn only_changed_files_are_redeployed() {
    let project = Project::with(GOOD);
    project.write("automations/other.yaml", GOOD);
    let engine = project.start().await;
    let before = engine.catalog().find("other").expect("in force").clone();
    project.write("automations/test.yaml", &GOOD.replace("v: 1", "v: 2"));
    let reload = engine.reload().await;
    assert_eq!(reload.changed.iter().map(model::AutomationId::as_str).collect::<Vec<_>>(), ["test"]);
    assert!(std::sync::Arc::ptr_eq(&before, engine.catalog().find("other").expect("in force")));
    let generation = engine.catalog().generation();
    assert!(engine.reload().await.is_empty());
    assert_eq!(engine.catalog().generation(), generation, "nothing changed, nothing is swapped");
    stop(engine).await;
}

#[tokio::test]
async fn adding_a_connection_rechecks_the_automations_that_use_it() {
    let project = Project::new();
    project.write(
        "automations/test.yaml",
        "trigger: {manual: {}}\nsteps:\n  - action: wiki.listSpaces\n    connection: main\n",
    );
    let engine = project.start().await;
    assert!(
        engine.catalog().invalid_files()[0].report.render(false).contains("there is no connection `main`")
    );
    project.write("connections/main.yaml", "type: wiki.basic\nwith: {email: a@example.com, apiToken: \"${{ secrets.t }}\", host: \"http://127.0.0.1:1\"}\n");
    engine.reload().await;
    assert!(
        engine.catalog().invalid_files().is_empty(),
        "{}",
        engine.catalog().invalid_files()[0].report.render(false)
    );
    stop(engine).await;
}

/// The debounce after the last event of a file: closed after a write, and possibly still being written.
const SETTLED: Duration = Duration::from_millis(if cfg!(target_os = "linux") { 5 } else { 40 });
const QUIET: Duration = Duration::from_millis(40);

/// Starts an engine that watches its folder, with one Automation that returns 1.
async fn watching() -> (Project, engine::Engine) {
    let mut project = Project::with("trigger: {manual: {}}\nsteps:\n  - set: {v: 1}\n");
    project.settings.watch = true;
    let engine = project.start().await;
    // Once it watches, the watcher sleeps until its next periodic poll.
    soon(project.clock.somebody_sleeps_until(engine.clock().now() + Duration::from_secs(3))).await;
    (project, engine)
}

/// Advances the clock by `wait` whenever a task sleeps for that long, until a reload changes the catalog.
async fn reloaded(
    project: &Project,
    notices: &mut tokio::sync::broadcast::Receiver<runtime::EngineEvent>,
    wait: Duration,
) {
    let taken =
        async { while !matches!(notices.recv().await, Ok(runtime::EngineEvent::CatalogChanged { .. })) {} };
    let time = async {
        loop {
            project.clock.somebody_sleeps_until(project.clock.now() + wait).await;
            project.clock.advance(wait);
        }
    };
    soon(async {
        tokio::select! {
            () = taken => {}
            () = time => {}
        }
    })
    .await;
}

#[tokio::test]
async fn a_save_is_detected_by_the_watcher() {
    let (project, engine) = watching().await;
    let mut notices = engine.subscribe();
    // As editors save: a new file is written and renamed over the old one.
    project.write("automations/.test.yaml.tmp", "trigger: {manual: {}}\nsteps:\n  - set: {v: 2}\n");
    std::fs::rename(project.path("automations/.test.yaml.tmp"), project.path("automations/test.yaml"))
        .expect("renamed");
    reloaded(&project, &mut notices, SETTLED).await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"v":2}"#);
    stop(engine).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_is_still_being_written_is_not_loaded_early() {
    use std::io::Write as _;

    let (project, engine) = watching().await;
    let mut notices = engine.subscribe();
    let mut file = std::fs::File::create(project.path("automations/test.yaml")).expect("created");
    file.write_all(b"trigger: {manual: {}}\nsteps:\n").and_then(|()| file.flush()).expect("written");
    soon(project.clock.somebody_sleeps_until(engine.clock().now() + QUIET)).await;
    file.write_all(b"  - set: {v: 2}\n").expect("written");
    drop(file);
    // Closing the file marks it as complete.
    reloaded(&project, &mut notices, SETTLED).await;
    assert_eq!(engine.catalog().find("test").expect("in force").state().as_str(), "active");
    stop(engine).await;
}

#[tokio::test]
async fn a_change_missed_by_the_watcher_is_found_by_the_periodic_poll() {
    let (project, engine) = watching().await;
    let mut notices = engine.subscribe();
    // The folder is recreated, so its watch is lost: only the periodic poll finds files written before it.
    std::fs::rename(project.path("automations"), project.path("aside")).expect("renamed");
    std::fs::create_dir(project.path("automations")).expect("a folder");
    project.write("automations/new.yaml", GOOD);
    reloaded(&project, &mut notices, Duration::from_secs(3)).await;
    assert!(engine.catalog().find("new").is_ok() && engine.catalog().find("test").is_err());
    stop(engine).await;
}
