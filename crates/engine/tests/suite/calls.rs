//! Calls of other Automations, `undo`, interruptions, and the state that outlives executions.

use std::time::Duration;

use engine::Engine;
use model::execution::{ExecutionId, Origin};
use model::{AutomationId, Payload};
use value::Map;

use crate::common::{
    Peer, Project, call, crash, end, manual, outcome_of, rows, start_with, steps_of, stop, until, until_async,
};

/// Returns all executions as `automation status`, oldest first.
async fn all(engine: &Engine) -> Vec<String> {
    rows(engine)
        .await
        .into_iter()
        .rev()
        .map(|row| format!("{} {}", row.automation, row.status.as_str()))
        .collect()
}

const DOUBLE: &str = "trigger: {manual: {}}\ninputs: {n: {type: integer, required: true}, by: {default: 2}}\nsteps:\n  - set: {x: \"${{ inputs.n * inputs.by }}\"}\noutputs: ${{ vars.x }}\n";

#[tokio::test]
async fn a_call_returns_the_callees_result_and_an_async_call_its_execution_id() {
    let project = Project::with(&manual(
        "  - id: a\n    call: double\n    with: {n: 21}\n  - id: b\n    call: double\n    with: {n: 1, by: 10}\n    async: true\n  - set: {a: \"${{ steps.a.results }}\", b: \"${{ steps.b.results.executionId }}\"}\n",
    ));
    project.write("automations/double.yaml", DOUBLE);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let result = end(&engine, id).await;
    assert!(result.starts_with(r#"{"a":42,"b":""#), "{result}");
    let child: ExecutionId = result.split('"').nth(5).expect("an id").parse().expect("an id");
    assert_eq!(end(&engine, child).await, "10");
    let events = engine.store().events(child).await.expect("they are read").expect("it exists");
    let model::Event::Started { origin, .. } = &events[0] else { panic!("{events:?}") };
    let (step, trace) = ("b".to_owned(), Some(format!("{id};0")));
    assert_eq!(*origin, Origin::Call { execution: id, step, depth: 1, test: false, awaited: false, trace });
    stop(engine).await;
}

#[tokio::test]
async fn a_failed_call_fails_its_step_with_the_callees_error() {
    let project = Project::with(&manual(
        "  - id: a\n    call: bad\n    onError: [{set: {said: \"${{ error.message }}\", at: \"${{ error.step }}\"}}]\n",
    ));
    project.write("automations/bad.yaml", "trigger: {manual: {}}\nsteps: [{fail: no paper}]\n");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"said":"`bad` failed: no paper","at":"a"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn callers_that_hold_every_slot_do_not_deadlock() {
    let mut project = Project::with(&manual(
        "  - forEach: range(3)\n    concurrency: 3\n    steps: [{call: double, with: {n: \"${{ item }}\"}}]\n",
    ));
    project.settings.limits.in_flight = 1;
    project.write("automations/double.yaml", DOUBLE);
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let second = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, first).await, "[0,2,4]");
    assert_eq!(end(&engine, second).await, "[0,2,4]");
    stop(engine).await;
}

#[tokio::test]
async fn a_called_execution_is_started_once_despite_a_crash() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual("  - call: other\n"));
    project.write("automations/other.yaml", &manual(&call("ask", &peer.base, "/ask")));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    peer.next_request().await.answer(200, "7").await;
    assert!(end(&engine, id).await.contains(r#""body":7"#));
    assert_eq!(all(&engine).await, ["test succeeded", "other succeeded"]);
    stop(engine).await;
}

#[tokio::test]
async fn a_callee_that_has_outlived_its_caller_is_cancelled_after_a_crash() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual("  - set: {done: true}\n"));
    project.write("automations/other.yaml", &manual(&call("ask", &peer.base, "/ask")));
    let engine = project.start().await;
    let caller = start_with(&engine, "{}").await;
    end(&engine, caller).await;
    // The state after a crash between the end of the caller and the cancellation of its call.
    let step = "a".to_owned();
    let origin = Origin::Call { execution: caller, step, depth: 1, test: false, awaited: true, trace: None };
    let start = runtime::ManualStart::new(Payload::manual(Map::default()), origin);
    let other = AutomationId::parse("other").expect("an id");
    let id = engine.ingress().start(&other.into(), start).await.expect("it starts");
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    let ended = end(&engine, id).await;
    assert!(ended.starts_with(&format!("cancelled: cancelled: the execution {caller}")), "{ended}");
    stop(engine).await;
}

#[tokio::test]
async fn a_caller_is_suspended_with_its_callee_and_resumes_when_that_ends() {
    let project =
        Project::with(&manual("  - id: a\n    call: slow\n  - set: {got: \"${{ steps.a.results }}\"}\n"));
    project.write("automations/slow.yaml", "trigger: {manual: {}}\nsteps: [{waitFor: {event: go}}]\n");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    until(|| engine.status().resting >= 2).await;
    crash(engine).await;
    let engine = project.start().await;
    until(|| engine.status().resting >= 2).await;
    assert_eq!(engine.admission().emit("go", 5.into(), None).await.expect("it is sent").delivered, 1);
    assert_eq!(end(&engine, id).await, r#"{"got":5}"#);
    stop(engine).await;
}

#[tokio::test]
async fn cancelling_a_caller_cancels_its_callee() {
    let project = Project::with(&manual("  - call: slow\n"));
    project.write("automations/slow.yaml", "trigger: {manual: {}}\nsteps: [{waitFor: {event: never}}]\n");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    until(|| engine.status().resting >= 2).await;
    engine.admission().cancel(id, "enough").await.expect("it is asked");
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    until_async(async || all(&engine).await == ["test cancelled", "slow cancelled"]).await;
    stop(engine).await;
}

#[tokio::test]
async fn a_failed_execution_undoes_its_steps_in_reverse_order() {
    let mut peer = Peer::new().await;
    let undone = |id: &str| {
        call(id, &peer.base, &format!("/{id}"))
            + &format!(
                "    undo:\n      - action: http.request\n        with: {{method: POST, url: \"{}/undo-{id}/${{{{ steps.{id}.results.body }}}}\"}}\n",
                peer.base
            )
    };
    let steps = undone("a") + &undone("b") + "  - {id: late, fail: no room}\n";
    let text = manual(&steps) + "onError: [{action: log.error, with: {message: \"${{ error.message }}\"}}]\n";
    let project = Project::with(&text);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for (line, body) in [("POST /a", "1"), ("POST /b", "2")] {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, line);
        asked.answer(200, body).await;
    }
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /undo-b/2", "the last one first");
    crash(engine).await;
    drop(asked);

    // After a crash during `undo`, the remaining steps are undone and no step runs again.
    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /undo-b/2");
    asked.answer(500, "{}").await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /undo-a/1", "one that cannot be undone keeps no other from it");
    asked.answer(200, "{}").await;
    assert_eq!(end(&engine, id).await, "failed: no room");
    assert!(peer.pending_request().is_none());
    let logs = engine.store().logs(id, 0, 10).await.expect("they are read");
    assert!(logs.iter().any(|line| line.message.starts_with("`undo` of `b` failed:")), "{logs:?}");
    stop(engine).await;
}

#[tokio::test]
async fn each_iteration_is_undone_with_its_own_item() {
    let steps = manual(
        "  - forEach: [x, y]\n    steps:\n      - id: book\n        set: {booked: \"${{ item }}\"}\n        undo:\n          - action: state.append\n            with: {key: undone, value: \"${{ item ~ steps.book.results.booked ~ index }}\"}\n  - {fail: full}\n",
    );
    let project = Project::with(&steps);
    project.write("automations/look.yaml", "trigger: {manual: {}}\nsteps: [{set: {x: 1}}]\n");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, "failed: full");
    let kept = engine
        .store()
        .read_state("automation:test", "undone")
        .await
        .expect("it is read")
        .expect("it is there");
    assert_eq!(kept.value.to_json(), r#"["yy1","xx0"]"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_successful_execution_undoes_nothing() {
    assert_eq!(
        outcome_of(&manual("  - id: a\n    set: {x: 1}\n    undo: [{fail: never}]\n  - set: {y: 2}\n")).await,
        r#"{"y":2}"#
    );
}

#[tokio::test]
async fn a_step_with_on_interrupt_fail_fails_if_the_process_dies_in_it() {
    let mut peer = Peer::new().await;
    let steps = call("pay", &peer.base, "/pay")
        + "    onInterrupt: fail\n    retry: {max: 3, on: [all]}\n    onError: [{set: {kind: \"${{ error.kind }}\"}}]\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    assert_eq!(end(&engine, id).await, r#"{"kind":"interrupted"}"#);
    assert!(peer.pending_request().is_none());
    let ends = steps_of(&engine, id).await;
    assert_eq!(ends.last().map(String::as_str), Some(r#"pay handled={"kind":"interrupted"}"#));
    stop(engine).await;
}

#[tokio::test]
async fn clock_state_and_uuid_reads_are_unchanged_after_a_restart() {
    let mut peer = Peer::new().await;
    let steps = "  - action: state.set\n    with: {key: mode, value: first}\n".to_owned()
        + &format!(
            "  - id: choose\n    if: state.mode == 'first' and now() < '2026-03-02T09:00:00Z'\n    then:\n      - action: state.set\n        with: {{key: mode, value: second}}\n      - id: ask\n        action: http.request\n        with: {{method: POST, url: \"{}/then/${{{{ uuid() }}}}\"}}\n    else:\n      - fail: the other branch\n",
            peer.base
        );
    let project = Project::with(&format!("timeout: 5h\n{}", manual(&steps)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    let line = held.line.clone();
    crash(engine).await;
    drop(held);
    project.clock.advance(Duration::from_secs(7200));
    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, line, "the same branch, with the same UUID");
    asked.answer(200, "1").await;
    assert!(end(&engine, id).await.contains(r#""body":1"#));
    stop(engine).await;
}

#[tokio::test]
async fn state_is_private_to_its_automation_unless_shared_and_expires_after_its_ttl() {
    let project = Project::with(&manual(
        "  - action: state.increment\n    with: {key: n}\n  - action: state.increment\n    with: {key: n, scope: shared, by: 5, ttl: 1h}\n  - set: {own: \"${{ state.n }}\"}\n  - {id: shared, action: state.get, with: {key: n, scope: shared, default: 0}}\n  - set: {own: \"${{ vars.own }}\", shared: \"${{ steps.shared.results }}\", none: \"${{ state.nothing | default('-') }}\"}\n",
    ));
    project.write(
        "automations/other.yaml",
        &manual("  - {id: own, action: state.get, with: {key: n}}\n  - {id: shared, action: state.get, with: {key: n, scope: shared}}\n  - set: {own: \"${{ steps.own.results }}\", shared: \"${{ steps.shared.results }}\"}\n"),
    );
    let engine = project.start().await;
    for expected in [r#"{"own":1,"shared":5,"none":"-"}"#, r#"{"own":2,"shared":10,"none":"-"}"#] {
        let id = start_with(&engine, "{}").await;
        assert_eq!(end(&engine, id).await, expected);
    }
    let other = || async {
        let start = runtime::ManualStart::new(Payload::manual(Map::new()), Origin::Manual);
        let id = engine
            .ingress()
            .start(&AutomationId::parse("other").expect("an id").into(), start)
            .await
            .expect("it starts");
        end(&engine, id).await
    };
    assert_eq!(other().await, r#"{"own":null,"shared":10}"#);
    project.clock.advance(Duration::from_secs(3600));
    assert_eq!(other().await, r#"{"own":null,"shared":null}"#, "its time is up");
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"own":3,"shared":5,"none":"-"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn concurrent_increments_and_appends_lose_nothing() {
    let project = Project::with(&manual(
        "  - forEach: range(40)\n    concurrency: 40\n    steps:\n      - {action: state.increment, with: {key: n}}\n      - {action: state.append, with: {key: list, value: \"${{ item }}\", max: 10}}\n  - set: {n: \"${{ state.n }}\", kept: \"${{ state.list | length }}\"}\n",
    ));
    let engine = project.start().await;
    let (first, second) = (start_with(&engine, "{}").await, start_with(&engine, "{}").await);
    let ends = [end(&engine, first).await, end(&engine, second).await];
    assert!(ends.contains(&r#"{"n":80,"kept":10}"#.to_owned()), "{ends:?}");
    stop(engine).await;
}

#[tokio::test]
async fn incrementing_text_fails_and_leaves_the_value() {
    let project = Project::with(&manual(
        "  - {action: state.set, with: {key: k, value: text}}\n  - id: a\n    action: state.increment\n    with: {key: k}\n    onError: continue\n  - set: {said: \"${{ steps.a.error.message }}\", k: \"${{ state.k }}\"}\n",
    ));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"said":"the value is text, not a number","k":"text"}"#);
    stop(engine).await;
}
