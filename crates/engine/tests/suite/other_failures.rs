//! Failures of subscriptions and schedules, and stuck executions, are told to the triggers that want them.

use std::time::Duration;

use crate::common::{Peer, Project, call, crash, end, manual, settled, start_with, stop, until_async};
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
    until_async(async || engine.ingress().subscriptions().iter().all(|one| one.next_at.is_some())).await;
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
