//! Operations: work of a service that a step starts once, and looks at until it ends.

use std::time::Duration;

use engine::Engine;
use model::execution::{Event, ExecutionId, WaitReason};

use crate::common::{
    Peer, PeerRequest, Project, crash, end, manual, pass, rows, start_and_suspend, start_with, stop,
    until_suspended,
};

/// The pause before the first looks.
const EVERY: Duration = Duration::from_secs(2);

const WORKS: &str = r#"
connector: works
title: Works
version: "1"
inputs: {name: {type: text, required: true}}
connections:
  site:
    title: Site
    inputs: {address: {type: text, required: true}, key: {type: text, required: true, secret: true}}
    baseUrl: {input: address}
    auth: {bearer: key}
actions:
  export:
    title: Export
    request: POST /exports/{name}
    inputs: {name: path}
    operation:
      status: GET /exports/{name}/{id}?full=1
      id: id
      done: {path: state, is: [done, empty]}
      failed: {path: state, is: failed}
      result: rows
      atMost: 1h
    results: {type: list, items: integer}
    example:
      with: {name: a}
      request: POST /exports/a
      answer: {id: 7, state: new}
      status: {request: GET /exports/a/7?full=1, answer: {state: done, rows: [1]}}
"#;

const STEP: &str = "  - {id: export, action: works.export, connection: works, with: {name: a}";

/// A project whose automation has these steps, and the server that they call.
async fn works(steps: &str) -> (Project, Peer) {
    let peer = Peer::new().await;
    let project = Project::with(&manual(steps));
    std::fs::create_dir_all(project.path("connectors")).expect("a folder");
    project.write("connectors/works.yaml", WORKS);
    project.write(
        "connections/works.yaml",
        &format!("type: works.site\nwith: {{address: \"{}\", key: k}}\n", peer.base),
    );
    (project, peer)
}

/// Expects a request, and answers it.
async fn expect(peer: &mut Peer, line: &str, status: u16, answer: &str) {
    let asked: PeerRequest = peer.next_request().await;
    assert_eq!(asked.line, line);
    asked.answer(status, answer).await;
}

/// Starts the execution, and expects its first request.
async fn begin(engine: &Engine, peer: &mut Peer) -> ExecutionId {
    let (id, ()) = tokio::join!(
        start_and_suspend(engine, "{}"),
        expect(peer, "POST /exports/a", 200, r#"{"id": 7, "state": "new"}"#)
    );
    id
}

const LOOK: &str = "GET /exports/a/7?full=1";
const RUNNING: &str = r#"{"state": "running"}"#;
const DONE: &str = r#"{"state": "done", "rows": [1, 2]}"#;

/// The reason for which the step waits.
async fn waits_for(engine: &Engine, id: ExecutionId) -> WaitReason {
    let pending = engine.admission().pending(id).await.expect("it is read");
    pending.into_iter().next().expect("it waits").on
}

fn operation(looks: u32) -> WaitReason {
    WaitReason::Operation { id: "7".to_owned(), looks }
}

#[tokio::test]
async fn a_step_waits_for_an_operation_without_a_slot_and_counts_its_looks() {
    let (project, mut peer) = works(&format!("{STEP}}}\n")).await;
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    assert_eq!((engine.status().in_flight, waits_for(&engine, id).await), (0, operation(0)));
    let row = engine.store().execution(id).await.expect("it is read").expect("it exists");
    let pauses = engine.records().pauses(&row).await.expect("they are read");
    let listed = pauses.first.first().map(|pause| (pause.step.as_str(), pause.kind));
    assert_eq!(listed, Some(("export", runtime::PauseKind::Operation)));
    for looks in 1..=2 {
        pass(&project, EVERY).await;
        expect(&mut peer, LOOK, 200, RUNNING).await;
        until_suspended(&engine).await;
        while waits_for(&engine, id).await != operation(looks) {
            tokio::task::yield_now().await;
        }
    }
    pass(&project, EVERY).await;
    expect(&mut peer, LOOK, 200, DONE).await;
    assert_eq!(end(&engine, id).await, "[1,2]");
    stop(engine).await;
}

#[tokio::test]
async fn a_crash_in_the_wait_or_in_a_look_never_sends_the_first_request_again() {
    let (project, mut peer) = works(&format!("{STEP}, onInterrupt: fail}}\n")).await;
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    crash(engine).await;
    let engine = project.start().await;
    pass(&project, EVERY).await;
    let look = peer.next_request().await;
    assert_eq!(look.line, LOOK);
    crash(engine).await;
    drop(look);
    let engine = project.start().await;
    expect(&mut peer, LOOK, 200, DONE).await;
    assert_eq!(end(&engine, id).await, "[1,2]");
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn looks_that_fail_for_a_while_are_repeated_and_a_refused_one_fails_the_step() {
    let (project, mut peer) = works(&format!("{STEP}}}\n")).await;
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    for _ in 0..2 {
        pass(&project, EVERY).await;
        expect(&mut peer, LOOK, 500, "{}").await;
        until_suspended(&engine).await;
    }
    pass(&project, EVERY).await;
    expect(&mut peer, LOOK, 403, r#"{"message": "no"}"#).await;
    assert_eq!(end(&engine, id).await, "failed: Works answered 403 Forbidden: no");
    stop(engine).await;
}

#[tokio::test]
async fn an_operation_that_failed_is_begun_anew_by_a_retry_and_a_refused_look_is_looked_again() {
    let (project, mut peer) =
        works(&format!("{STEP}, retry: {{max: 3, delay: 3s, backoff: 1, on: [all]}}}}\n")).await;
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    pass(&project, EVERY).await;
    expect(&mut peer, LOOK, 403, "{}").await;
    pass(&project, Duration::from_secs(3)).await;
    expect(&mut peer, LOOK, 200, r#"{"state": "failed", "message": "too many rows"}"#).await;
    crash_after_retry(&engine, id).await;
    crash(engine).await;
    let engine = project.start().await;
    pass(&project, Duration::from_secs(3)).await;
    let asked = peer.next_request().await;
    let key = asked.header("idempotency-key").map(str::to_owned);
    assert_eq!((asked.line.as_str(), key), ("POST /exports/a", Some(format!("{id}.export#2"))));
    asked.answer(200, r#"{"id": 8, "state": "empty", "rows": []}"#).await;
    assert_eq!(end(&engine, id).await, "[]", "it had ended at once");
    let events = engine.store().events(id).await.expect("they are read").expect("it exists");
    let errors = events.iter().filter_map(|event| match event {
        Event::StepRetry { error, .. } => Some((error.message.as_str(), error.code.as_deref())),
        _ => None,
    });
    let failed = ("Works: the operation `7` has failed: too many rows", Some("failed"));
    assert_eq!(errors.last(), Some(failed));
    stop(engine).await;
}

/// Waits until the second retry is recorded.
async fn crash_after_retry(engine: &Engine, id: ExecutionId) {
    loop {
        let events = engine.store().events(id).await.expect("they are read").expect("it exists");
        if events.iter().filter(|event| matches!(event, Event::StepRetry { .. })).count() == 2 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_timeout_of_the_step_counts_the_pauses_of_all_processes() {
    let (project, mut peer) = works(&format!("{STEP}, timeout: 5s}}\n")).await;
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    pass(&project, EVERY).await;
    expect(&mut peer, LOOK, 200, RUNNING).await;
    until_suspended(&engine).await;
    crash(engine).await;
    let engine = project.start().await;
    pass(&project, EVERY).await;
    expect(&mut peer, LOOK, 200, RUNNING).await;
    pass(&project, Duration::from_secs(1)).await;
    assert_eq!(end(&engine, id).await, "failed: step `export` took longer than its timeout of 5s");
    stop(engine).await;
}

#[tokio::test]
async fn an_operation_that_does_not_end_fails_the_step_after_its_limit() {
    ends_at_the_limit(200).await;
}

#[tokio::test]
async fn an_operation_that_cannot_be_looked_at_fails_the_step_after_its_limit_too() {
    ends_at_the_limit(500).await;
}

/// Lets an operation go on beyond its limit. The last look is answered with this status.
async fn ends_at_the_limit(last: u16) {
    let (project, mut peer) = works(&format!("{STEP}}}\n")).await;
    project.write("connectors/works.yaml", &WORKS.replace("atMost: 1h", "atMost: 5s"));
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    for seconds in [2, 2] {
        pass(&project, Duration::from_secs(seconds)).await;
        expect(&mut peer, LOOK, 200, RUNNING).await;
        until_suspended(&engine).await;
    }
    // The last look is at the limit, or as soon as the shortest pause allows.
    pass(&project, EVERY).await;
    let expected = "failed: Works: the operation `7` has not ended within 5s; it may go on there";
    if last == 200 {
        expect(&mut peer, LOOK, 200, RUNNING).await;
        assert_eq!(end(&engine, id).await, expected);
    } else {
        expect(&mut peer, LOOK, last, "{}").await;
        let ended = end(&engine, id).await;
        assert!(ended.starts_with(expected) && ended.contains("; the last look failed: "), "{ended}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_cancelled_step_looks_no_more() {
    let (project, mut peer) = works(&format!("{STEP}}}\n")).await;
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    engine.admission().cancel(id, "enough").await.expect("it is cancelled");
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    project.clock.advance(Duration::from_secs(60));
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn a_connector_that_loses_its_operation_sends_no_second_request() {
    let (project, mut peer) = works(&format!("{STEP}}}\n")).await;
    let engine = project.start().await;
    let id = begin(&engine, &mut peer).await;
    let (head, rest) = WORKS.split_once("    operation:").expect("it has one");
    let (_, rest) = rest.split_once("    results:").expect("they follow");
    let without = format!("{head}    results:{rest}");
    let without = without.replace("      answer: {id: 7, state: new}\n", "");
    let without = without.split_once("      status:").expect("the example has one").0.to_owned();
    project.write("connectors/works.yaml", &without);
    engine.reload().await;
    assert!(engine.catalog().invalid_files().is_empty());
    pass(&project, EVERY).await;
    let outcome = end(&engine, id).await;
    assert!(outcome.starts_with("failed: the first request of `works.export` has been sent"), "{outcome}");
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn operations_side_by_side_and_in_a_loop_are_told_apart() {
    let steps = "  - id: both\n    forEach: \"['a', 'b']\"\n    concurrency: 2\n    steps:\n      - {id: export, action: works.export, connection: works, with: {name: \"${{ item }}\"}}\n";
    let (project, mut peer) = works(steps).await;
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..2 {
        let asked = peer.next_request().await;
        let id = if asked.line.ends_with('a') { 7 } else { 8 };
        asked.answer(200, &format!(r#"{{"id": {id}, "state": "new"}}"#)).await;
    }
    until_suspended(&engine).await;
    crash(engine).await;
    let engine = project.start().await;
    pass(&project, EVERY).await;
    let mut lines = Vec::new();
    for _ in 0..2 {
        let asked = peer.next_request().await;
        lines.push(asked.line.clone());
        let rows = if asked.line.contains("/a/") { 1 } else { 2 };
        asked.answer(200, &format!(r#"{{"state": "done", "rows": [{rows}]}}"#)).await;
    }
    lines.sort();
    assert_eq!(lines, ["GET /exports/a/7?full=1", "GET /exports/b/8?full=1"]);
    assert_eq!(end(&engine, id).await, "[[1],[2]]");
    assert_eq!(rows(&engine).await.len(), 1);
    stop(engine).await;
}
