//! Failures of subscriptions and schedules, and stuck executions, are told to the triggers that want them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;

use crate::common::{
    Peer, Project, call, crash, end, manual, settled, start_with, stop, subscribed, until_async,
};
use crate::engine_events::{event_handler, executions, quiet, told};

fn write_handler(project: &Project, name: &str, with: &str) {
    let handler = event_handler("cogwork.failure", &format!(", with: {{{with}}}"));
    project.write(&format!("automations/{name}.yaml"), &handler);
}

#[tokio::test]
async fn a_subscription_that_cannot_be_created_is_told() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(
        "triggers: [{id: pushed, event: github.push, connection: hub, with: {owner: acme, repo: shop}}]\nsteps: [{set: {a: 1}}]\n",
    );
    project.settings.public_url = Some("https://hooks.example.com".to_owned());
    let connection = format!("type: github.token\nwith: {{host: \"{}\", token: t}}\n", peer.base);
    project.write("connections/hub.yaml", &connection);
    write_handler(&project, "each", "kinds: [subscription]");
    write_handler(&project, "twice", "kinds: [subscription], after: 2");
    write_handler(&project, "others", "kinds: [poll, execution]");
    let engine = project.start().await;
    peer.next_request().await.answer(422, r#"{"message": "no"}"#).await;
    until_async(async || executions(&engine, "each").await.len() == 1).await;
    let failed = told(&engine, "each", &["kind", "automation.id", "trigger", "error.kind", "count"]).await;
    assert_eq!(failed, ["subscription test pushed failed 1"]);
    assert_eq!(executions(&engine, "twice").await.len(), 0);
    subscribed(&engine, |one| one.next_at.is_some()).await;
    let next = engine.ingress().subscriptions()[0].next_at.expect("it is tried again");
    settled(&project, &next.to_string()).await;
    project.clock.advance_to(next);
    peer.next_request().await.answer(422, r#"{"message": "no"}"#).await;
    until_async(async || executions(&engine, "twice").await.len() == 1).await;
    assert_eq!(told(&engine, "twice", &["count"]).await, ["2"]);
    assert_eq!(executions(&engine, "others").await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_stuck_execution_is_told_as_a_failure() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&call("a", &peer.base, "/a")));
    project.settings.limits.interruptions = 1;
    write_handler(&project, "all", "kinds: [execution]");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    // The state left by a process that dies while the execution computes.
    project.write(".cogwork/crash-record", &format!("{id}\n"));
    for _ in 0..2 {
        let engine = project.start().await;
        assert!(end(&engine, id).await.starts_with("stuck: "));
        quiet(&engine).await;
        let titles = told(&engine, "all", &["kind", "execution.id", "title"]).await;
        assert_eq!(titles.len(), 1);
        assert!(
            titles[0].starts_with(&format!("execution {id} ")) && titles[0].contains(" is stuck: "),
            "{titles:?}"
        );
        stop(engine).await;
    }
}

#[tokio::test]
async fn an_instant_that_finds_the_queue_full_starts_later_and_is_no_failure() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&call("a", &peer.base, "/a")));
    (project.settings.limits.in_flight, project.settings.limits.queue) = (1, 1);
    project.write(
        "automations/tick.yaml",
        "trigger: {schedule: {every: 1m, misfire: all}}\nsteps: [{set: {x: 1}}]\n",
    );
    write_handler(&project, "all", "kinds: [schedule]");
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    start_with(&engine, "{}").await;
    // The only slot and the only place in the queue are taken.
    project.clock.advance(Duration::from_secs(60));
    until_async(async || engine.status().refused.get("busy").is_some_and(|count| *count > 0)).await;
    assert_eq!(executions(&engine, "tick").await.len(), 0);
    held.answer(200, "1").await;
    peer.next_request().await.answer(200, "1").await;
    until_async(async || {
        project.clock.advance(Duration::from_millis(100));
        !executions(&engine, "tick").await.is_empty()
    })
    .await;
    assert_eq!(executions(&engine, "all").await.len(), 0);
    stop(engine).await;
}

#[tokio::test]
async fn instants_that_the_store_refuses_until_others_pass_are_told_with_their_number() {
    let project = Project::new();
    write_ticks(&project);
    let (engine, store) = project.start_watched().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    store.refused.store(u64::MAX, Ordering::SeqCst);
    for minute in 1..=3 {
        let left = store.refused.load(Ordering::SeqCst);
        project.clock.advance_to(format!("2026-03-02T08:0{minute}:00Z").parse().expect("an instant"));
        until_async(async || store.refused.load(Ordering::SeqCst) < left).await;
    }
    store.refused.store(0, Ordering::SeqCst);
    check_ticks(&project, &engine, 2).await;
    stop(engine).await;
}

/// Writes a schedule with an instant each minute, and a handler of its failures.
fn write_ticks(project: &Project) {
    let trigger = "trigger: {schedule: {every: 1m, misfire: latest}}\nsteps: [{set: {x: 1}}]\n";
    project.write("automations/tick.yaml", trigger);
    write_handler(project, "all", "kinds: [schedule]");
}

/// Checks that only the last instant starts, and that the instants before it are told together.
async fn check_ticks(project: &Project, engine: &Engine, missed: usize) {
    until_async(async || {
        project.clock.advance(Duration::from_millis(100));
        executions(engine, "tick").await.len() == 1 && executions(engine, "all").await.len() == 1
    })
    .await;
    quiet(engine).await;
    let told = told(engine, "all", &["kind", "automation.id", "trigger", "count", "since"]).await;
    assert_eq!(told, [format!("schedule tick main {missed} 2026-03-02T08:01:00Z")]);
}

#[tokio::test]
async fn a_failure_with_long_texts_ends_its_execution_and_is_told_with_their_begin() {
    let project = Project::with(
        r#"trigger: {manual: {}}
inputs: {why: text, in: text}
steps:
  - {id: message, if: inputs.in == 'message', fail: "${{ inputs.why }}"}
  - {id: code, fail: {message: broken, code: "${{ inputs.why }}"}}
"#,
    );
    write_handler(&project, "alert", "kinds: [execution]");
    let engine = project.start().await;
    let why = "é".repeat(600_000);
    for place in ["message", "code"] {
        let id = start_with(&engine, &format!(r#"{{"why": "{why}", "in": "{place}"}}"#)).await;
        assert!(end(&engine, id).await.starts_with("failed"), "{place}");
    }
    quiet(&engine).await;
    let cut = format!("{}…", "é".repeat(4096));
    for place in ["error.message", "error.code"] {
        let told = told(&engine, "alert", &[place]).await;
        assert_eq!((told.len(), told.contains(&cut)), (2, true), "{place}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn instants_missed_while_an_instant_is_retried_are_told_together_and_once() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&call("a", &peer.base, "/a")));
    (project.settings.limits.in_flight, project.settings.limits.queue) = (1, 1);
    write_ticks(&project);
    let engine = project.start().await;
    settled(&project, "2026-03-02T08:01:00Z").await;
    start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    start_with(&engine, "{}").await;
    for minute in 1..=5 {
        project.clock.advance(Duration::from_secs(60));
        until_async(async || engine.status().refused.get("busy").is_some_and(|count| *count >= minute)).await;
        settled(&project, &format!("2026-03-02T08:0{minute}:01Z")).await;
    }
    assert_eq!(executions(&engine, "tick").await.len(), 0);
    held.answer(200, "1").await;
    peer.next_request().await.answer(200, "1").await;
    check_ticks(&project, &engine, 4).await;
    stop(engine).await;
}
