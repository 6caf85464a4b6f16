//! Providers of secrets that fail, hang, or give another version: executions and starts wait for them, and lose nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Engine;
use model::Status;
use model::execution::ExecutionId;
use runtime::{SecretSources, SourceKind, SourceRule};

use crate::common::{
    Peer, Project, crash, end, manual, rows, soon, start_and_suspend, start_with, steps_of, stop, until,
    until_async,
};
use crate::hooks::{post, text, tokens};

/// Steps that read a secret in a variable.
const READS: &str = "configVars: {token: {value: \"${{ secrets.token }}\", secret: true}}\n";

/// Makes secrets come from a program alone, which reads a file of the folder `vault` by the name.
pub(crate) fn provide(project: &mut Project, script: &str) {
    std::fs::create_dir(project.path("vault")).expect("a folder");
    let folder = project.path("vault").display().to_string();
    let command = ["/bin/sh", "-c", script, &folder].map(str::to_owned).to_vec();
    project.settings.secret_sources = SecretSources {
        order: vec![SourceRule { source: SourceKind::Provider("command".to_owned()), only: None }],
        command: Some(command),
        providers: BTreeMap::new(),
        ..SecretSources::default()
    };
}

/// The program fails while there is no file.
const FAILS: &str = "exec cat \"$0/$1\"";
/// The program hangs while there is no file.
const HANGS: &str = "while [ ! -e \"$0/$1\" ]; do sleep 0.02; done; exec cat \"$0/$1\"";

fn project(yaml: &str, script: &str) -> Project {
    let mut project = Project::with(yaml);
    provide(&mut project, script);
    project
}

/// Connects to a peer with the secret.
pub(crate) fn connect(project: &Project, peer: &Peer) {
    let connection = format!(
        "type: http.bearer\nwith: {{baseUrl: \"{}\", token: \"${{{{ secrets.token }}}}\"}}\n",
        peer.base
    );
    project.write("connections/api.yaml", &connection);
}

async fn status(engine: &Engine, id: ExecutionId) -> Status {
    engine.store().execution(id).await.expect("it is read").expect("it exists").status
}

/// Lets time pass until an execution ends.
async fn end_in_time(project: &Project, engine: &Engine, id: ExecutionId) -> String {
    until_async(async || {
        project.clock.advance(Duration::from_secs(10));
        status(engine, id).await.is_terminal()
    })
    .await;
    end(engine, id).await
}

#[tokio::test]
async fn an_execution_is_suspended_while_its_variables_cannot_be_read() {
    let yaml = format!("{READS}{}", manual("  - {id: a, set: {x: \"${{ configVars.token | length }}\"}}\n"));
    let project = project(&yaml, FAILS);
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    project.write("vault/token", "s3cret-value");
    project.clock.advance(Duration::from_secs(10));
    assert_eq!(end(&engine, id).await, r#"{"x":12}"#);
    stop(engine).await;
}

#[tokio::test]
async fn closing_steps_run_if_the_variables_cannot_be_read_until_the_timeout() {
    let closing =
        "timeout: 1m\nonError:\n  - {id: told, set: {x: 1}}\nfinally:\n  - {id: tidied, set: {x: 2}}\n";
    let yaml = format!("{READS}{}{closing}", manual("  - {id: a, set: {x: \"${{ configVars.token }}\"}}\n"));
    let project = project(&yaml, FAILS);
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    let outcome = end_in_time(&project, &engine, id).await;
    assert_eq!(outcome, "failed: the execution took longer than its timeout of 1m");
    let steps = steps_of(&engine, id).await;
    assert_eq!(steps, [r#"told={"x":1}"#, r#"tidied={"x":2}"#]);
    stop(engine).await;
}

#[tokio::test]
async fn a_missing_secret_fails_the_execution_with_its_closing_steps() {
    let yaml = format!(
        "{READS}{}onError:\n  - {{id: told, set: {{x: 1}}}}\n",
        manual("  - {id: a, set: {x: \"${{ configVars.token }}\"}}\n")
    );
    let project = project(&yaml, "exit 0");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("the secret `token` is not set"), "{outcome}");
    assert_eq!(steps_of(&engine, id).await, [r#"told={"x":1}"#]);
    stop(engine).await;
}

#[tokio::test]
async fn steps_are_undone_after_a_restart_although_the_variables_cannot_be_read() {
    let steps = "  - {id: a, set: {x: 1}, undo: {onCancel: true, steps: [{id: undone, set: {x: 2}}]}}\n  - {id: b, waitFor: {event: go}}\n";
    let yaml = format!("timeout: 1h\n{READS}{}", manual(steps));
    let project = project(&yaml, FAILS);
    project.write("vault/token", "s3cret-value");
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    crash(engine).await;
    std::fs::remove_file(project.path("vault/token")).expect("it is removed");
    let engine = project.start().await;
    assert!(engine.admission().cancel(id, "no longer wanted").await.expect("it is cancelled"));
    assert_eq!(end_in_time(&project, &engine, id).await, "cancelled: no longer wanted");
    let steps = steps_of(&engine, id).await;
    assert!(steps.contains(&r#"undone={"x":2}"#.to_owned()), "{steps:?}");
    stop(engine).await;
}

#[tokio::test]
async fn a_webhook_is_accepted_before_a_provider_answers() {
    let steps = "trigger: {webhook: {}}\nsteps:\n  - {set: {x: \"${{ configVars.token | length }}\"}}\n";
    let project = project(&format!("timeout: 30d\n{READS}{steps}"), HANGS);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    let id = rows(&engine).await[0].id;
    project.write("vault/token", "s3cret-value");
    let outcome = end_in_time(&project, &engine, id).await;
    assert_eq!(outcome, r#"{"x":12}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_start_that_reads_a_secret_waits_for_its_provider_and_is_not_lost() {
    let on = |trigger: &str| {
        format!("{READS}trigger:\n  {trigger}\n  if: configVars.token != ''\nsteps: [{{set: {{x: 1}}}}]\n")
    };
    let project = project(&on("webhook: {}"), FAILS);
    project.write("automations/tick.yaml", &on("schedule: {every: 1h}"));
    project.write("automations/event.yaml", &on("event: order.paid"));
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!((answer.status, answer.header("retry-after").is_some()), (503, true), "{}", text(&answer));
    engine.admission().emit("order.paid", value::Value::Null, None).await.expect("it is sent");
    until(|| {
        project.clock.advance(Duration::from_secs(60));
        let waits = engine.context().outbox.waits("order.paid");
        waits.iter().any(|wait| wait.reason.contains("secret"))
    })
    .await;
    project.clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(rows(&engine).await.len(), 0);
    project.write("vault/token", "s3cret-value");
    until_async(async || {
        project.clock.advance(Duration::from_secs(1));
        let rows = rows(&engine).await;
        ["tick", "event"].iter().all(|name| rows.iter().any(|row| row.automation.as_str() == *name))
    })
    .await;
    let failed = rows(&engine).await.iter().any(|row| row.status == Status::Failed);
    assert!(!failed, "none is consumed as failed");
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    stop(engine).await;
}

#[tokio::test]
async fn calls_in_flight_at_a_rotation_are_repeated_with_the_new_version() {
    let mut peer = Peer::new().await;
    let call = "  - {id: a, action: http.get, connection: api, with: {url: /x}}\n";
    let project = project(&manual(call), FAILS);
    connect(&project, &peer);
    project.write("vault/token", "version-1");
    let engine = project.start().await;
    let ids = [start_with(&engine, "{}").await, start_with(&engine, "{}").await];
    let (first, second) = (peer.next_request().await, peer.next_request().await);
    project.write("vault/token", "version-2");
    project.clock.advance(Duration::from_secs(2));
    for refused in [first, second] {
        assert_eq!(refused.header("authorization"), Some("bearer version-1"));
        refused.answer(401, "{}").await;
        let again = peer.next_request().await;
        assert_eq!(again.header("authorization"), Some("bearer version-2"));
        again.answer(200, "{}").await;
    }
    for id in ids {
        assert!(!end(&engine, id).await.starts_with("failed"));
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_waits_for_a_secret_ends_with_its_timeout_and_with_a_cancellation() {
    let peer = Peer::new().await;
    let call = "  - {id: a, timeout: 2s, action: http.get, connection: api, with: {url: /x}}\n";
    let project = project(&manual(call), HANGS);
    connect(&project, &peer);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = end_in_time(&project, &engine, id).await;
    assert!(outcome.contains("2s"), "{outcome}");
    let id = start_with(&engine, "{}").await;
    assert!(engine.admission().cancel(id, "no longer wanted").await.expect("it is cancelled"));
    assert_eq!(end(&engine, id).await, "cancelled: no longer wanted");
    stop(engine).await;
}

#[tokio::test]
async fn a_concurrency_key_reads_a_secret_of_this_machine_that_a_provider_may_have_too() {
    let key = "concurrency: {limit: 1, key: \"${{ configVars.token }}\"}\n";
    let yaml = format!("{READS}{key}{}", manual("  - {id: a, set: {x: 1}}\n"));
    let mut project = project(&yaml, FAILS);
    let files = SourceRule { source: SourceKind::Files, only: None };
    project.settings.secret_sources.order.insert(0, files);
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/token", "s3cret-value");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"x":1}"#);
    stop(engine).await;
}
