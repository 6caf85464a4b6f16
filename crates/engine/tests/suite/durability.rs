//! Recovery after the end of a process, and effects that must never be repeated.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;

use crate::common::{Peer, Project, call, show, soon, start_and_rest, start_with, steps_of, stop, workers};
use crate::watched::Watched;

fn manual(steps: &str) -> String {
    format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}")
}

/// Ends an engine as a crash would, as far as its journal is concerned: what is in flight is cut off at once.
async fn crash(engine: Engine) {
    soon(engine.shutdown(Duration::ZERO)).await;
    engine.store().close().await.expect("the store closes");
}

#[tokio::test]
async fn an_execution_goes_on_at_the_step_it_was_in_and_finished_steps_never_run_again() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a")
        + "  - set: {seen: \"${{ steps.a.results.body }}\"}\n"
        + &call("b", &peer.base, "/b")
        + &call("c", &peer.base, "/c/${{ vars.seen }}");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(200, "7").await;
    let held = peer.asked().await;
    let key = held.header("idempotency-key").map(str::to_owned);
    assert_eq!(held.line, "POST /b");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    let again = peer.asked().await;
    assert_eq!(again.line, "POST /b", "the first step is not sent again");
    assert_eq!(again.header("idempotency-key").map(str::to_owned), key);
    again.answer(200, "8").await;
    let last = peer.asked().await;
    assert_eq!(last.line, "POST /c/7", "what pure steps named is there again");
    last.answer(200, "9").await;
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it ends"));
    assert!(outcome.contains(r#""body":9"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_failure_that_was_passed_over_is_none_after_a_restart() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a")
        + "    onError: continue\n"
        + &call("b", &peer.base, "/b/${{ steps.a.error.status }}");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(404, "{}").await;
    let held = peer.asked().await;
    assert_eq!(held.line, "POST /b/404");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    let again = peer.asked().await;
    assert_eq!(again.line, "POST /b/404", "what it read of the failure is there again");
    again.answer(200, "7").await;
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it ends"));
    assert!(outcome.contains(r#""body":7"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_for_a_retry_outlives_a_restart_with_its_count_and_its_instant() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: {max: 1, delay: 60s}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(60);
    peer.asked().await.answer(503, "{}").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    crash(engine).await;

    project.clock.advance(Duration::from_secs(20));
    let engine = project.start().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    assert!(peer.asked_already().is_none());
    project.clock.advance(Duration::from_secs(40));
    peer.asked().await.answer(503, "{}").await;
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it ends"));
    assert!(outcome.starts_with("failed:"), "the second failure was the last try: {outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_lost_answer_is_remembered_over_a_restart() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: {max: 1, delay: 60s}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(60);
    peer.asked().await.answer(503, "{}").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    crash(engine).await;

    let engine = project.start().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(60));
    peer.asked().await.answer(409, "{}").await;
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it ends"));
    assert!(outcome.contains("(attempt 2; attempt 1 may have been carried out: "), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_failed_for_good_is_not_sent_again_when_its_on_error_list_is_interrupted() {
    let mut peer = Peer::new().await;
    let inner = call("mend", &peer.base, "/mend/${{ error.status }}").replace("  ", "    ");
    let inner = inner.replace("        action", "      action").replace("        with", "      with");
    let steps = call("a", &peer.base, "/a") + "    onError:\n" + &inner;
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(404, "{}").await;
    let held = peer.asked().await;
    assert_eq!(held.line, "POST /mend/404");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    let again = peer.asked().await;
    assert_eq!(again.line, "POST /mend/404", "what failed is not sent again");
    again.answer(200, "1").await;
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it ends"));
    assert!(outcome.contains(r#""body":1"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_cancelled_execution_does_not_go_on_with_its_main_steps_after_a_crash_in_its_closing_steps() {
    let mut peer = Peer::new().await;
    let (last, main) = (call("last", &peer.base, "/last"), call("a", &peer.base, "/a"));
    let project = Project::with(&format!("trigger: {{manual: {{}}}}\nfinally:\n{last}steps:\n{main}"));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.asked().await;
    engine.admission().cancel(id, "enough").await.expect("it is known");
    let closing = peer.asked().await;
    assert_eq!(closing.line, "POST /last");
    crash(engine).await;
    drop((held, closing));

    let engine = project.start().await;
    let again = peer.asked().await;
    assert_eq!(again.line, "POST /last");
    again.answer(200, "1").await;
    assert_eq!(show(&soon(engine.admission().wait(id)).await.expect("it ends")), "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn a_loop_goes_on_at_the_turn_it_was_in() {
    let mut peer = Peer::new().await;
    let url = format!("{}/${{{{ item }}}}", peer.base);
    let steps = format!(
        "  - set: {{sum: 0}}\n  - forEach: [1, 2, 3]\n    steps:\n      - id: ask\n        action: http.request\n        with: {{method: POST, url: \"{url}\"}}\n      - set: {{sum: \"${{{{ vars.sum + steps.ask.results.body }}}}\"}}\n  - set: {{total: \"${{{{ vars.sum }}}}\"}}\n"
    );
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(200, "10").await;
    let held = peer.asked().await;
    assert_eq!(held.line, "POST /2");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    for (line, answer) in [("POST /2", "20"), ("POST /3", "30")] {
        let asked = peer.asked().await;
        assert_eq!(asked.line, line);
        asked.answer(200, answer).await;
    }
    assert_eq!(show(&soon(engine.admission().wait(id)).await.expect("it ends")), r#"{"total":60}"#);
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
    let held = peer.asked().await;
    project.write("automations/test.yaml", &with("new"));
    assert_eq!(engine.reload().await.changed.len(), 1);
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    peer.asked().await.answer(200, "1").await;
    assert_eq!(show(&soon(engine.admission().wait(id)).await.expect("it ends")), r#"{"v":"old"}"#);
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(200, "1").await;
    assert_eq!(show(&soon(engine.admission().wait(id)).await.expect("it ends")), r#"{"v":"new"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_graceful_stop_lets_the_step_in_flight_end_and_the_next_start_does_the_rest() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + &call("b", &peer.base, "/b");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.asked().await;
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
    assert!(peer.asked_already().is_none());
    engine.store().close().await.expect("the store closes");

    let engine = project.start().await;
    let asked = peer.asked().await;
    assert_eq!(asked.line, "POST /b");
    asked.answer(200, "2").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_waits_for_the_network_whenever_the_process_ends_is_not_set_aside() {
    let mut peer = Peer::new().await;
    let mut project = Project::with(&manual(&call("a", &peer.base, "/a")));
    project.settings.limits.interruptions = 1;
    let mut engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..6 {
        let held = peer.asked().await;
        crash(engine).await;
        drop(held);
        engine = project.start().await;
    }
    peer.asked().await.answer(200, "7").await;
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it ends"));
    assert!(outcome.contains(r#""body":7"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_computed_whenever_the_process_died_is_set_aside_as_stuck() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let mut engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..5 {
        let held = peer.asked().await;
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
    assert_eq!(record.trim(), "", "nobody computes any more");
}

#[tokio::test]
async fn damage_that_a_read_finds_stops_the_engine_as_a_failed_commit_does() {
    let project = Project::with(&manual("  - set: {x: 1}\n"));
    let damaged = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(damaged.clone()).await;
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
    let counting = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(counting.clone()).await;
    let id = start_with(&engine, "{}").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(counting.written(), (1, 0));
    assert_eq!(steps_of(&engine, id).await.len(), 40);
    stop(engine).await;
}

/// Lists side by side that send one request each.
fn side_by_side(peer: &Peer, method: &str, count: usize) -> String {
    let list = |n: usize| {
        let with = format!("{{method: {method}, url: \"{}/{n}\"}}", peer.base);
        format!("      l{n}:\n        - action: http.request\n          with: {with}\n")
    };
    let lists: String = (0..count).map(list).collect();
    manual(&format!("  - parallel:\n{lists}"))
}

#[tokio::test]
async fn what_is_read_side_by_side_begins_behind_one_write_and_ends_with_one() {
    let mut peer = Peer::new().await;
    let project = Project::with(&side_by_side(&peer, "GET", 10));
    let counting = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(counting.clone()).await;
    let id = start_with(&engine, "{}").await;
    let mut asked = Vec::new();
    for _ in 0..10 {
        asked.push(peer.asked().await);
    }
    assert_eq!(counting.written(), (1, 0), "that they began is written with what comes next");
    for request in asked {
        request.answer(200, "1").await;
    }
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(counting.written(), (1, 1), "no time has passed between their ends");
    assert_eq!(steps_of(&engine, id).await.len(), 11);
    stop(engine).await;
}

/// Two requests side by side, of which one is answered: what was written by then, and which of the two begins again
/// after a crash. The clock is moved on by `passes` after the answer.
async fn one_of_two_is_answered(method: &str, passes: Option<Duration>) -> ((u64, u64), Vec<String>) {
    let mut peer = Peer::new().await;
    let project = Project::with(&side_by_side(&peer, method, 2));
    let counting = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(counting.clone()).await;
    start_with(&engine, "{}").await;
    let (one, two) = (peer.asked().await, peer.asked().await);
    let answered = one.line.clone();
    one.answer(200, "1").await;
    if let Some(passes) = passes {
        soon(project.clock.somebody_sleeps_until(engine.clock().now() + passes)).await;
        assert_eq!(counting.written(), (1, 0), "others may end at the same time");
        project.clock.advance(passes);
    }
    soon(async {
        while counting.written().1 == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let written = counting.written();
    crash(engine).await;
    drop(two);
    let engine = project.start().await;
    let mut again = vec![peer.asked().await];
    again.extend(peer.asked_already());
    let again: Vec<String> = again.iter().map(|asked| asked.line.clone()).collect();
    crash(engine).await;
    assert!(!again.contains(&answered), "{answered} is done again");
    (written, again)
}

#[tokio::test]
async fn what_was_changed_beside_something_slow_is_committed_at_once() {
    let (written, again) = one_of_two_is_answered("POST", None).await;
    assert_eq!((written, again.len()), ((1, 1), 1));
}

#[tokio::test]
async fn what_was_read_beside_something_slow_is_committed_within_a_moment() {
    let (written, again) = one_of_two_is_answered("GET", Some(Duration::from_millis(10))).await;
    assert_eq!((written, again.len()), ((1, 1), 1));
}

/// The number of writes after the acceptance once a call has ended and `behind` goes on behind it. The clock is moved
/// on by `passes` after the answer.
async fn writes_behind_a_call(method: &str, behind: &str, passes: Option<Duration>) -> u64 {
    workers();
    let mut peer = Peer::new().await;
    let made = call("a", &peer.base, "/a").replace("method: POST", &format!("method: {method}"));
    let project = Project::with(&manual(&(made + behind)));
    let counting = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(counting.clone()).await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(200, "1").await;
    if let Some(passes) = passes {
        soon(project.clock.somebody_sleeps_until(engine.clock().now() + passes)).await;
        project.clock.advance(passes);
    }
    soon(async {
        while counting.written().1 == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let written = counting.written().1;
    soon(async { while steps_of(&engine, id).await.is_empty() {} }).await;
    crash(engine).await;
    written
}

const ENDLESS_CODE: &str = "  - code: |\n      export default () => { for (;;); };\n";
const ENDLESS_LOOP: &str =
    "  - repeat: {max: 100000}\n    steps:\n      - code: \"export default () => 1;\"\n";

#[tokio::test]
async fn the_end_of_a_call_is_committed_while_code_runs_behind_it() {
    assert_eq!(writes_behind_a_call("POST", ENDLESS_CODE, None).await, 1);
}

#[tokio::test]
async fn the_end_of_a_call_is_committed_while_a_loop_of_code_runs_behind_it() {
    assert_eq!(writes_behind_a_call("POST", ENDLESS_LOOP, None).await, 1);
}

#[tokio::test]
async fn the_end_of_a_call_is_committed_during_a_short_wait_behind_it() {
    assert_eq!(writes_behind_a_call("POST", "  - wait: 2s\n", None).await, 1);
}

#[tokio::test]
async fn the_end_of_a_call_that_only_read_is_committed_within_a_moment_of_a_wait_behind_it() {
    let passes = Some(Duration::from_millis(10));
    assert_eq!(writes_behind_a_call("GET", "  - wait: 2s\n", passes).await, 1);
}

#[tokio::test]
async fn a_call_at_the_end_is_written_with_the_end() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let counting = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(counting.clone()).await;
    let id = start_with(&engine, "{}").await;
    peer.asked().await.answer(200, "1").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    assert_eq!(counting.written(), (1, 1));
    stop(engine).await;
}

/// A step that reads an address of the peer.
fn read(id: &str, base: &str) -> String {
    call(id, base, &format!("/{id}")).replace("method: POST", "method: GET")
}

#[tokio::test]
async fn reads_in_a_row_are_written_with_the_end() {
    let mut peer = Peer::new().await;
    let steps = ["a", "b", "c"].map(|id| read(id, &peer.base)).concat();
    let project = Project::with(&manual(&steps));
    let counting = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(counting.clone()).await;
    let id = start_with(&engine, "{}").await;
    for line in ["GET /a", "GET /b", "GET /c"] {
        let asked = peer.asked().await;
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
    let gated = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(gated.clone()).await;
    let id = start_with(&engine, "{}").await;
    let first = peer.asked().await;
    gated.shut();
    first.answer(200, "1").await;
    // The result waits to be committed: until it is, nothing goes out.
    gated.held(1).await;
    assert!(peer.asked_already().is_none());
    gated.gate.add_permits(1000);
    let second = peer.asked().await;
    assert_eq!(second.line, line);
    second.answer(200, "2").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_change_starts_only_when_the_reads_before_it_are_committed() {
    starts_behind_a_commit(|base| read("a", base) + &call("b", base, "/b"), "POST /b").await;
}

#[tokio::test]
async fn a_read_starts_only_when_the_changes_before_it_are_committed() {
    starts_behind_a_commit(|base| call("a", base, "/a") + &read("b", base), "GET /b").await;
}

#[tokio::test]
async fn an_effect_starts_only_when_the_effect_before_it_is_committed() {
    let steps = |base: &str| call("a", base, "/a") + "  - set: {x: 1}\n" + &call("b", base, "/b");
    starts_behind_a_commit(steps, "POST /b").await;
}

#[tokio::test]
async fn a_commit_in_doubt_ends_the_intake_and_says_so() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let failing = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(failing.clone()).await;
    start_with(&engine, "{}").await;
    let asked = peer.asked().await;
    failing.fail.store(1, Ordering::SeqCst);
    asked.answer(200, "1").await;
    let reason = soon(engine.context().store_lost()).await;
    assert!(!reason.is_empty());
    assert!(!engine.status().accepting);
    soon(engine.shutdown(Duration::ZERO)).await;
}

#[tokio::test]
async fn a_commit_in_doubt_while_an_execution_leaves_its_rest_is_told_and_leaves_it_to_the_next_start() {
    let project = Project::with(&manual("  - waitFor: {event: go}\n"));
    let failing = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(failing.clone()).await;
    let id = start_and_rest(&engine, "{}").await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.admission().wait(id).await }
    });
    failing.fail.store(1, Ordering::SeqCst);
    let sent = soon(engine.admission().emit("go", value::Value::Null, None)).await;
    assert!(sent.is_err(), "who sent it must not believe that it is kept");
    soon(engine.context().store_lost()).await;
    soon(engine.shutdown(Duration::ZERO)).await;
    let waited = soon(waiting).await.expect("no panic");
    assert!(waited.is_err(), "who waits for its end is told that it does not come here");
    drop((engine, failing));

    let engine = project.start().await;
    soon(async {
        while engine.admission().emit("go", value::Value::from(2), None).await.expect("it is sent").delivered
            == 0
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(show(&soon(engine.admission().wait(id)).await.expect("it ends")), "2");
    stop(engine).await;
}

#[tokio::test]
async fn a_result_that_meets_a_full_store_is_kept_and_not_made_again() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&(call("a", &peer.base, "/a") + &call("b", &peer.base, "/b"))));
    let full = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(full.clone()).await;
    let id = start_with(&engine, "{}").await;
    let asked = peer.asked().await;
    full.full.store(2, Ordering::SeqCst);
    asked.answer(200, "1").await;
    for pause in [250, 500] {
        let due = engine.clock().now() + Duration::from_millis(pause);
        soon(project.clock.somebody_sleeps_until(due)).await;
        assert!(peer.asked_already().is_none(), "what is not stored has no consequences");
        assert!(engine.status().accepting, "nothing is in doubt");
        project.clock.advance(Duration::from_millis(pause));
    }
    let second = peer.asked().await;
    assert_eq!(second.line, "POST /b", "with room again it goes on, and no step is done again");
    second.answer(200, "2").await;
    let outcome = show(&soon(engine.admission().wait(id)).await.expect("it ends"));
    assert!(outcome.contains(r#""body":2"#), "{outcome}");
    stop(engine).await;
}
