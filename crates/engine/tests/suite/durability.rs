//! Recovery after the end of a process, and effects that must never be repeated.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{
    Peer, Project, call, crash, end, manual, pass, show, soon, start_and_suspend, start_with, steps_of, stop,
    until, until_async, workers,
};

#[tokio::test]
async fn an_execution_resumes_at_its_step_and_finished_steps_never_run_again() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a")
        + "  - set: {seen: \"${{ steps.a.results.body }}\"}\n"
        + &call("b", &peer.base, "/b")
        + &call("c", &peer.base, "/c/${{ vars.seen }}");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "7").await;
    let held = peer.next_request().await;
    let key = held.header("idempotency-key").map(str::to_owned);
    assert_eq!(held.line, "POST /b");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    let again = peer.next_request().await;
    assert_eq!(again.line, "POST /b", "the first step is not sent again");
    assert_eq!(again.header("idempotency-key").map(str::to_owned), key);
    again.answer(200, "8").await;
    let last = peer.next_request().await;
    assert_eq!(last.line, "POST /c/7", "variables set by pure steps are restored");
    last.answer(200, "9").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains(r#""body":9"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_failure_with_on_error_continue_stays_handled_after_a_restart() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a")
        + "    onError: continue\n"
        + &call("b", &peer.base, "/b/${{ steps.a.error.status }}");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(404, "{}").await;
    let held = peer.next_request().await;
    assert_eq!(held.line, "POST /b/404");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    let again = peer.next_request().await;
    assert_eq!(again.line, "POST /b/404", "the error of the step is restored");
    again.answer(200, "7").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains(r#""body":7"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_pending_retry_survives_a_restart_with_its_count_and_due_time() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: {max: 1, delay: 60s}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(60);
    peer.next_request().await.answer(503, "{}").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    crash(engine).await;

    project.clock.advance(Duration::from_secs(20));
    let engine = project.start().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    assert!(peer.pending_request().is_none());
    project.clock.advance(Duration::from_secs(40));
    peer.next_request().await.answer(503, "{}").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.starts_with("failed:"), "the second failure was the last try: {outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_lost_response_is_remembered_over_a_restart() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: {max: 1, delay: 60s}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(60);
    peer.next_request().await.answer(503, "{}").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    crash(engine).await;

    let engine = project.start().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(60));
    peer.next_request().await.answer(409, "{}").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("(attempt 2; attempt 1 may have been carried out: "), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_failed_step_is_not_repeated_when_its_on_error_steps_are_interrupted() {
    let mut peer = Peer::new().await;
    let inner = call("mend", &peer.base, "/mend/${{ error.status }}").replace("  ", "    ");
    let inner = inner.replace("        action", "      action").replace("        with", "      with");
    let steps = call("a", &peer.base, "/a") + "    onError:\n" + &inner;
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(404, "{}").await;
    let held = peer.next_request().await;
    assert_eq!(held.line, "POST /mend/404");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    let again = peer.next_request().await;
    assert_eq!(again.line, "POST /mend/404", "what failed is not sent again");
    again.answer(200, "1").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains(r#""body":1"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_loop_resumes_at_its_current_iteration() {
    let mut peer = Peer::new().await;
    let url = format!("{}/${{{{ item }}}}", peer.base);
    let steps = format!(
        "  - set: {{sum: 0}}\n  - forEach: [1, 2, 3]\n    steps:\n      - id: ask\n        action: http.request\n        with: {{method: POST, url: \"{url}\"}}\n      - set: {{sum: \"${{{{ vars.sum + steps.ask.results.body }}}}\"}}\n  - set: {{total: \"${{{{ vars.sum }}}}\"}}\n"
    );
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "10").await;
    let held = peer.next_request().await;
    assert_eq!(held.line, "POST /2");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    for (line, answer) in [("POST /2", "20"), ("POST /3", "30")] {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, line);
        asked.answer(200, answer).await;
    }
    assert_eq!(end(&engine, id).await, r#"{"total":60}"#);
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_keeps_the_definition_it_started_with() {
    let mut peer = Peer::new().await;
    let base = peer.base.clone();
    let with = |answer: &str| manual(&(call("a", &base, "/a") + &format!("  - set: {{v: {answer}}}\n")));
    let project = Project::with(&with("old"));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    project.write("automations/test.yaml", &with("new"));
    assert_eq!(engine.reload().await.changed.len(), 1);
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    peer.next_request().await.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, r#"{"v":"old"}"#);
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, r#"{"v":"new"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_graceful_stop_ends_the_step_in_flight_and_the_next_start_runs_the_rest() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + &call("b", &peer.base, "/b");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.shutdown(Duration::from_secs(3600)).await }
    });
    while engine.status().accepting {
        tokio::task::yield_now().await;
    }
    held.answer(200, "1").await;
    soon(stopping).await.expect("it stops");
    assert_eq!(steps_of(&engine, id).await.len(), 1, "the step in flight is recorded");
    assert!(peer.pending_request().is_none());
    engine.store().close().await.expect("the store closes");

    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /b");
    asked.answer(200, "2").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_awaits_the_network_at_every_crash_is_not_marked_stuck() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&call("a", &peer.base, "/a")));
    project.settings.limits.interruptions = 1;
    let mut engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..6 {
        let held = peer.next_request().await;
        crash(engine).await;
        drop(held);
        engine = project.start().await;
    }
    peer.next_request().await.answer(200, "7").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains(r#""body":7"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_computes_at_every_crash_is_marked_stuck() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let mut engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..5 {
        let held = peer.next_request().await;
        crash(engine).await;
        drop(held);
        // The state left by a process that dies while the execution computes.
        project.write(".cogwork/crash-record", &format!("{id}\n"));
        engine = project.start().await;
    }
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it is given up"));
    assert!(outcome.starts_with("stuck: the daemon died 5 times"), "{outcome}");
    stop(engine).await;
    let record = std::fs::read_to_string(project.path(".cogwork/crash-record")).expect("it is read");
    assert_eq!(record.trim(), "", "no execution computes any more");
}

#[tokio::test]
async fn a_damaged_database_found_by_a_read_stops_the_engine() {
    let project = Project::with(&manual("  - set: {x: 1}\n"));
    let (engine, damaged) = project.start_watched().await;
    assert!(engine.status().accepting);
    damaged.damaged.notify_one();
    let reason = soon(engine.context().store_lost()).await;
    assert!(reason.contains("damaged"), "{reason}");
    assert!(!engine.status().accepting, "no write had to fail for that");
    soon(engine.shutdown(Duration::ZERO)).await;
}

#[tokio::test]
async fn an_execution_of_pure_steps_is_one_write() {
    let steps: String = (0..40).map(|n| format!("  - set: {{v{n}: \"${{{{ {n} + 1 }}}}\"}}\n")).collect();
    let project = Project::with(&manual(&steps));
    let (engine, counting) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(counting.written(), (1, 0));
    assert_eq!(steps_of(&engine, id).await.len(), 40);
    stop(engine).await;
}

/// Formats parallel branches that send one request each.
fn side_by_side(peer: &Peer, method: &str, count: usize) -> String {
    let list = |n: usize| {
        let with = format!("{{method: {method}, url: \"{}/{n}\"}}", peer.base);
        format!("      l{n}:\n        - action: http.request\n          with: {with}\n")
    };
    let lists: String = (0..count).map(list).collect();
    manual(&format!("  - parallel:\n{lists}"))
}

#[tokio::test]
async fn parallel_reads_cost_one_write_before_and_one_after() {
    let mut peer = Peer::new().await;
    let project = Project::with(&side_by_side(&peer, "GET", 10));
    let (engine, counting) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    let mut asked = Vec::new();
    for _ in 0..10 {
        asked.push(peer.next_request().await);
    }
    assert_eq!(counting.written(), (1, 0), "the starts of the steps are written with the next commit");
    for request in asked {
        request.answer(200, "1").await;
    }
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(counting.written(), (1, 1), "no time has passed between their ends");
    assert_eq!(steps_of(&engine, id).await.len(), 11);
    stop(engine).await;
}

/// Answers one of two parallel requests and advances the clock by `passes`. Returns the writes up to then, and the
/// requests that are sent again after a crash.
async fn one_of_two_is_answered(method: &str, passes: Option<Duration>) -> ((u64, u64), Vec<String>) {
    let mut peer = Peer::new().await;
    let project = Project::with(&side_by_side(&peer, method, 2));
    let (engine, counting) = project.start_watched().await;
    start_with(&engine, "{}").await;
    let (one, two) = (peer.next_request().await, peer.next_request().await);
    let answered = one.line.clone();
    one.answer(200, "1").await;
    if let Some(passes) = passes {
        soon(project.clock.somebody_sleeps_until(engine.clock().now() + passes)).await;
        assert_eq!(counting.written(), (1, 0), "others may end at the same time");
        project.clock.advance(passes);
    }
    until(|| counting.written().1 > 0).await;
    let written = counting.written();
    crash(engine).await;
    drop(two);
    let engine = project.start().await;
    let mut again = vec![peer.next_request().await];
    again.extend(peer.pending_request());
    let again: Vec<String> = again.iter().map(|asked| asked.line.clone()).collect();
    crash(engine).await;
    assert!(!again.contains(&answered), "{answered} is done again");
    (written, again)
}

#[tokio::test]
async fn a_finished_write_beside_a_slow_branch_is_committed_at_once() {
    let (written, again) = one_of_two_is_answered("POST", None).await;
    assert_eq!((written, again.len()), ((1, 1), 1));
}

#[tokio::test]
async fn a_finished_read_beside_a_slow_branch_is_committed_within_10_ms() {
    let (written, again) = one_of_two_is_answered("GET", Some(Duration::from_millis(10))).await;
    assert_eq!((written, again.len()), ((1, 1), 1));
}

/// Returns the number of writes after acceptance once a call has ended and the step `behind` runs. The clock is
/// advanced by `passes` after the response.
async fn writes_behind_a_call(method: &str, behind: &str, passes: Option<Duration>) -> u64 {
    workers();
    let mut peer = Peer::new().await;
    let made = call("a", &peer.base, "/a").replace("method: POST", &format!("method: {method}"));
    let project = Project::with(&manual(&(made + behind)));
    let (engine, counting) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "1").await;
    if let Some(passes) = passes {
        pass(&project, passes).await;
    }
    until(|| counting.written().1 > 0).await;
    let written = counting.written().1;
    soon(async { while steps_of(&engine, id).await.is_empty() {} }).await;
    crash(engine).await;
    written
}

const ENDLESS_CODE: &str = "  - code: |\n      export default () => { for (;;); };\n";
const ENDLESS_LOOP: &str =
    "  - repeat: {max: 100000}\n    steps:\n      - code: \"export default () => 1;\"\n";

#[tokio::test]
async fn the_end_of_a_call_is_committed_while_later_code_runs() {
    assert_eq!(writes_behind_a_call("POST", ENDLESS_CODE, None).await, 1);
}

#[tokio::test]
async fn the_end_of_a_call_is_committed_while_a_later_loop_of_code_runs() {
    assert_eq!(writes_behind_a_call("POST", ENDLESS_LOOP, None).await, 1);
}

#[tokio::test]
async fn the_end_of_a_call_is_committed_during_a_short_wait_after_it() {
    assert_eq!(writes_behind_a_call("POST", "  - wait: 2s\n", None).await, 1);
}

#[tokio::test]
async fn the_end_of_a_read_is_committed_within_10_ms_of_a_wait_after_it() {
    let passes = Some(Duration::from_millis(10));
    assert_eq!(writes_behind_a_call("GET", "  - wait: 2s\n", passes).await, 1);
}

#[tokio::test]
async fn a_final_call_is_committed_with_the_end_of_the_execution() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let (engine, counting) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(counting.written(), (1, 1));
    stop(engine).await;
}

/// Formats a step that sends a GET request to the peer.
fn read(id: &str, base: &str) -> String {
    call(id, base, &format!("/{id}")).replace("method: POST", "method: GET")
}

#[tokio::test]
async fn consecutive_reads_are_committed_with_the_end_of_the_execution() {
    let mut peer = Peer::new().await;
    let steps = ["a", "b", "c"].map(|id| read(id, &peer.base)).concat();
    let project = Project::with(&manual(&steps));
    let (engine, counting) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    for line in ["GET /a", "GET /b", "GET /c"] {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, line);
        asked.answer(200, "1").await;
    }
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(counting.written(), (1, 1));
    stop(engine).await;
}

/// Checks that the second call, `line`, is sent only once the result of the first is committed.
async fn starts_behind_a_commit(steps: impl Fn(&str) -> String, line: &str) {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&steps(&peer.base)));
    let (engine, gated) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    let first = peer.next_request().await;
    gated.shut();
    first.answer(200, "1").await;
    // Until the result is committed, no request is sent.
    gated.held(1).await;
    assert!(peer.pending_request().is_none());
    gated.gate.add_permits(1000);
    let second = peer.next_request().await;
    assert_eq!(second.line, line);
    second.answer(200, "2").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_write_starts_only_after_earlier_reads_are_committed() {
    starts_behind_a_commit(|base| read("a", base) + &call("b", base, "/b"), "POST /b").await;
}

#[tokio::test]
async fn a_read_starts_only_after_earlier_writes_are_committed() {
    starts_behind_a_commit(|base| call("a", base, "/a") + &read("b", base), "GET /b").await;
}

#[tokio::test]
async fn an_effect_starts_only_after_the_previous_effect_is_committed() {
    let steps = |base: &str| call("a", base, "/a") + "  - set: {x: 1}\n" + &call("b", base, "/b");
    starts_behind_a_commit(steps, "POST /b").await;
}

#[tokio::test]
async fn a_commit_with_unknown_outcome_stops_admission_with_the_reason() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let (engine, failing) = project.start_watched().await;
    start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    failing.fail.store(1, Ordering::SeqCst);
    asked.answer(200, "1").await;
    let reason = soon(engine.context().store_lost()).await;
    assert!(!reason.is_empty());
    assert!(!engine.status().accepting);
    soon(engine.shutdown(Duration::ZERO)).await;
}

#[tokio::test]
async fn an_unknown_commit_during_a_resume_is_reported_and_left_to_the_next_start() {
    let project = Project::with(&manual("  - waitFor: {event: go}\n"));
    let (engine, failing) = project.start_watched().await;
    let id = start_and_suspend(&engine, "{}").await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.admission().wait(id).await }
    });
    failing.fail.store(1, Ordering::SeqCst);
    let sent = soon(engine.admission().emit("go", value::Value::Null, None)).await;
    assert!(sent.is_err(), "the sender must not take the event for stored");
    soon(engine.context().store_lost()).await;
    soon(engine.shutdown(Duration::ZERO)).await;
    let waited = soon(waiting).await.expect("no panic");
    assert!(waited.is_err(), "a waiter gets an error, since the execution does not end here");
    drop((engine, failing));

    let engine = project.start().await;
    until_async(async || {
        engine.admission().emit("go", value::Value::from(2), None).await.expect("it is sent").delivered > 0
    })
    .await;
    assert_eq!(end(&engine, id).await, "2");
    stop(engine).await;
}

#[tokio::test]
async fn a_result_refused_by_a_full_store_is_kept_and_its_step_not_repeated() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&(call("a", &peer.base, "/a") + &call("b", &peer.base, "/b"))));
    let (engine, full) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    let asked = peer.next_request().await;
    full.full.store(2, Ordering::SeqCst);
    asked.answer(200, "1").await;
    for pause in [250, 500] {
        let due = engine.clock().now() + Duration::from_millis(pause);
        soon(project.clock.somebody_sleeps_until(due)).await;
        assert!(peer.pending_request().is_none(), "an unstored result has no effect");
        assert!(engine.status().accepting, "nothing is in doubt");
        project.clock.advance(Duration::from_millis(pause));
    }
    let second = peer.next_request().await;
    assert_eq!(second.line, "POST /b", "with room again it resumes, and no step is repeated");
    second.answer(200, "2").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains(r#""body":2"#), "{outcome}");
    stop(engine).await;
}
