//! `undo` of steps that have begun and after a cancellation, and `finally` of steps, over each end and a crash.

use std::time::Duration;

use engine::Engine;
use model::execution::ExecutionId;

use crate::checking::check_steps;
use crate::common::{
    Peer, PeerRequest, Project, call, crash, end, manual, outcome_of, pass, start_and_suspend, start_with,
    steps_of, stop, until_async,
};

/// A step that calls the peer, with an `undo` that calls it too, as `/undo-<id>`.
fn saga(id: &str, base: &str, settings: &str) -> String {
    format!(
        "{}    undo: {{{settings}steps: [{{id: undo_{id}, action: http.request, with: {{method: POST, url: \"{base}/undo-{id}\"}}}}]}}\n",
        call(id, base, &format!("/{id}"))
    )
}

/// The steps as the list of a step.
fn inside(steps: &str) -> String {
    steps.lines().map(|line| format!("    {line}\n")).collect()
}

/// Two lists side by side.
fn beside(first: &str, second: &str) -> String {
    let list = |steps: &str| inside(&inside(steps));
    format!("  - id: both\n    parallel:\n      a:\n{}      b:\n{}", list(first), list(second))
}

async fn next(peer: &mut Peer, line: &str) -> PeerRequest {
    let request = peer.next_request().await;
    assert_eq!(request.line, format!("POST /{line}"));
    request
}

/// Takes two requests that may come in any order.
async fn next_two(peer: &mut Peer, lines: [&str; 2]) -> [PeerRequest; 2] {
    let mut requests = [peer.next_request().await, peer.next_request().await];
    requests.sort_by(|first, second| first.line.cmp(&second.line));
    assert_eq!(
        requests.each_ref().map(|request| request.line.as_str()),
        lines.map(|line| format!("POST /{line}"))
    );
    requests
}

async fn cancel(engine: &Engine, id: ExecutionId) {
    assert!(engine.admission().cancel(id, "enough").await.expect("it is known"));
}

async fn outcomes_seen(engine: &Engine, id: ExecutionId) -> Vec<String> {
    let steps = steps_of(engine, id).await;
    steps.into_iter().filter_map(|step| step.strip_prefix("seen=").map(str::to_owned)).collect()
}

/// A `finally` that notes how its step has ended.
const SEEN: &str = "    finally: [{id: seen, set: {s: \"${{ outcome.status }}\", r: \"${{ outcome.reason }}\", e: \"${{ outcome.error.message | default(none) }}\", v: \"${{ outcome.result }}\"}}]\n";

#[tokio::test]
async fn a_step_that_is_undone_once_it_has_begun_is_undone_after_each_end() {
    let mut peer = Peer::new().await;
    let base = peer.base.clone();
    // `late` has not begun, `done` is undone only after a success.
    let first = saga("cut", &base, "when: begun, ") + &saga("late", &base, "when: begun, ");
    let second = saga("done", &base, "") + &saga("fails", &base, "when: begun, ");
    let project = Project::with(&manual(&beside(&first, &second)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let [cut, done] = next_two(&mut peer, ["cut", "done"]).await;
    done.answer(200, "1").await;
    next(&mut peer, "fails").await.answer(404, "no").await;
    let _cut = cut;
    // The last one first: `cut` has begun and not ended.
    for line in ["undo-fails", "undo-done", "undo-cut"] {
        next(&mut peer, line).await.answer(200, "1").await;
    }
    assert!(end(&engine, id).await.starts_with("failed: "));
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn a_lost_answer_is_undone_after_a_crash_and_the_step_may_read_that_it_is_not_ok() {
    let mut peer = Peer::new().await;
    let base = peer.base.clone();
    let undo = format!(
        "    undo: {{when: begun, steps: [{{id: undone, action: http.request, with: {{method: POST, url: \"{base}/undo-${{{{ steps.a.ok }}}}\"}}}}]}}\n"
    );
    let steps = call("a", &base, "/a") + "    onInterrupt: fail\n" + &undo;
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let lost = next(&mut peer, "a").await;
    crash(engine).await;
    drop(lost);
    let engine = project.start().await;
    let undone = next(&mut peer, "undo-false").await;
    crash(engine).await;
    drop(undone);
    let engine = project.start().await;
    next(&mut peer, "undo-false").await.answer(200, "1").await;
    assert!(end(&engine, id).await.starts_with("failed: the daemon stopped"));
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn ended_steps_inside_a_cut_group_are_undone_also_after_a_crash_in_the_closing_steps() {
    for is_cancelled in [false, true] {
        let mut peer = Peer::new().await;
        let base = peer.base.clone();
        let group = saga("x", &base, "onCancel: true, ") + &saga("y", &base, "when: begun, onCancel: true, ");
        let group = format!("  - id: group\n    steps:\n{}", inside(&group));
        let steps = beside(&group, &(saga("z", &base, "onCancel: true, ") + &call("b", &base, "/b")));
        let project = Project::with(&manual(&steps));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let [x, z] = next_two(&mut peer, ["x", "z"]).await;
        x.answer(200, "1").await;
        let y = next(&mut peer, "y").await;
        z.answer(200, "1").await;
        let b = next(&mut peer, "b").await;
        let held = if is_cancelled {
            cancel(&engine, id).await;
            Some(b)
        } else {
            b.answer(404, "no").await;
            None
        };
        let undone = next(&mut peer, "undo-z").await;
        crash(engine).await;
        drop((y, held, undone));
        let engine = project.start().await;
        for line in ["undo-z", "undo-y", "undo-x"] {
            next(&mut peer, line).await.answer(200, "1").await;
        }
        let outcome = end(&engine, id).await;
        assert!(
            outcome.starts_with(if is_cancelled { "cancelled: enough" } else { "failed: " }),
            "{outcome}"
        );
        assert!(peer.pending_request().is_none());
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_cancellation_undoes_only_what_asks_for_it() {
    let mut peer = Peer::new().await;
    let base = peer.base.clone();
    let undo = "    undo: {onCancel: true, steps: [{id: seen, set: {k: \"${{ error.kind }}\", m: \"${{ error.message }}\"}}]}\n";
    let steps = call("a", &base, "/a") + undo + &saga("b", &base, "") + &call("c", &base, "/c");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    next(&mut peer, "a").await.answer(200, "1").await;
    next(&mut peer, "b").await.answer(200, "1").await;
    let _held = next(&mut peer, "c").await;
    cancel(&engine, id).await;
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    assert_eq!(outcomes_seen(&engine, id).await, [r#"{"k":"cancelled","m":"enough"}"#]);
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn the_finally_of_a_step_runs_once_and_reads_its_outcome() {
    let group = |steps: &str| format!("  - id: g\n    steps: [{steps}]\n{SEEN}");
    let in_loop = |steps: &str| format!("  - forEach: [1]\n    steps:\n{}", inside(&group(steps)));
    let seen = |status: &str, reason: &str, error: &str, result: &str| {
        format!(r#"{{"s":"{status}","r":{reason},"e":{error},"v":{result}}}"#)
    };
    let handled = group("{fail: no}") + "    onError: [{set: {x: 1}}]\n";
    let retried = group("{fail: no}") + "    retry: {max: 1, delay: 0s}\n    onError: continue\n";
    let cases = [
        (group("{set: {x: 1}}"), seen("succeeded", "null", "null", r#"{"x":1}"#)),
        (group("{fail: no}"), seen("failed", "null", r#""no""#, "null")),
        (handled, seen("failed", "null", r#""no""#, r#"{"x":1}"#)),
        (retried, seen("failed", "null", r#""no""#, "null")),
        (group("{stop: {result: early}}"), seen("succeeded", "null", "null", r#""early""#)),
    ];
    for (steps, expected) in cases {
        let project = Project::with(&manual(&steps));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        end(&engine, id).await;
        assert_eq!(outcomes_seen(&engine, id).await, [expected], "{steps}");
        stop(engine).await;
    }
    for word in ["break: true", "continue: true"] {
        let project = Project::with(&manual(&in_loop(&format!("{{{word}}}"))));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        end(&engine, id).await;
        let steps = steps_of(&engine, id).await;
        let closed: Vec<_> = steps.iter().filter(|step| step.starts_with("seen[0]=")).collect();
        assert_eq!(closed.len(), 1, "{steps:?}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_step_that_was_skipped_or_did_not_begin_has_nothing_to_close() {
    let steps = format!("  - id: g\n    if: false\n    steps: [{{set: {{x: 1}}}}]\n{SEEN}");
    let project = Project::with(&manual(&steps.replace("if: false", "if: inputs.name == 'x'")));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, "null");
    assert_eq!(outcomes_seen(&engine, id).await, [""; 0]);
    stop(engine).await;
}

#[tokio::test]
async fn a_finally_that_fails_makes_a_successful_step_fail_and_its_sets_stay_inside() {
    let closing = "    finally: [{fail: dirty}]\n";
    assert_eq!(
        outcome_of(&manual(&format!("  - id: g\n    steps: [{{set: {{x: 1}}}}]\n{closing}"))).await,
        "failed: dirty"
    );
    assert_eq!(
        outcome_of(&manual(&format!("  - id: g\n    steps: [{{fail: first}}]\n{closing}"))).await,
        "failed: first"
    );
    let handled = format!("  - id: g\n    steps: [{{set: {{x: 1}}}}]\n{closing}    onError: continue\n");
    assert_eq!(outcome_of(&manual(&handled)).await, "failed: dirty", "`onError` is over before `finally`");
    let sets = "  - set: {x: outer}\n  - id: g\n    steps: [{set: {y: 1}}]\n    finally: [{set: {x: inner}}]\n  - set: {z: \"${{ vars.x }}\"}\n";
    assert_eq!(outcome_of(&manual(sets)).await, r#"{"z":"outer"}"#);
}

/// The causes that cut off a step in flight.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Timeout,
    Cancellation,
    Failure,
    Enough,
}

#[tokio::test]
async fn a_step_that_is_cut_off_runs_its_finally_and_goes_on_with_it_after_a_crash() {
    for cut in [Cut::Timeout, Cut::Cancellation, Cut::Failure, Cut::Enough] {
        for crashes in [false, true] {
            let mut peer = Peer::new().await;
            let base = peer.base.clone();
            let closing = call("unlock", &base, "/unlock");
            let group = format!(
                "  - id: outer\n    steps:\n{}{SEEN}",
                inside(&format!(
                    "  - id: inner\n    steps:\n{}    finally:\n{}",
                    inside(&(call("lock", &base, "/lock") + &call("work", &base, "/work"))),
                    inside(&closing)
                ))
            );
            let other = match cut {
                Cut::Enough | Cut::Failure => call("other", &base, "/other"),
                Cut::Timeout | Cut::Cancellation => "  - set: {other: 1}\n".to_owned(),
            };
            let settings = match cut {
                Cut::Enough => "    enough: 1\n",
                Cut::Timeout => "    timeout: 1m\n",
                Cut::Failure | Cut::Cancellation => "",
            };
            let project = Project::with(&manual(&(beside(&group, &other) + settings)));
            let mut engine = project.start().await;
            let id = start_with(&engine, "{}").await;
            let work = match cut {
                Cut::Timeout | Cut::Cancellation => {
                    next(&mut peer, "lock").await.answer(200, "1").await;
                    let work = next(&mut peer, "work").await;
                    match cut {
                        Cut::Timeout => pass(&project, Duration::from_secs(60)).await,
                        _ => cancel(&engine, id).await,
                    }
                    work
                }
                Cut::Failure | Cut::Enough => {
                    let [lock, other] = next_two(&mut peer, ["lock", "other"]).await;
                    lock.answer(200, "1").await;
                    let work = next(&mut peer, "work").await;
                    let status = if matches!(cut, Cut::Enough) { 200 } else { 404 };
                    other.answer(status, "1").await;
                    work
                }
            };
            let mut unlock = next(&mut peer, "unlock").await;
            if crashes {
                crash(engine).await;
                drop(unlock);
                engine = project.start().await;
                unlock = next(&mut peer, "unlock").await;
            }
            unlock.answer(200, "1").await;
            let outcome = end(&engine, id).await;
            let expected = match cut {
                Cut::Timeout => "failed: step `both` took longer than its timeout of 1m",
                Cut::Cancellation => "cancelled: enough",
                Cut::Failure => "failed: ",
                Cut::Enough => r#"{"a":null,"b":"#,
            };
            assert!(outcome.starts_with(expected), "{cut:?} {crashes}: {outcome}");
            let seen = outcomes_seen(&engine, id).await;
            assert_eq!(seen.len(), 1, "{cut:?} {crashes}: {seen:?}");
            assert!(seen[0].starts_with(r#"{"s":"cancelled","r":""#), "{cut:?} {crashes}: {seen:?}");
            assert!(peer.pending_request().is_none(), "{cut:?} {crashes}");
            drop(work);
            stop(engine).await;
        }
    }
}

#[tokio::test]
async fn a_pausing_list_that_is_cut_off_runs_its_finally() {
    let waiting = format!("  - id: g\n    steps: [{{waitFor: {{event: never}}, timeout: 1h}}]\n{SEEN}");
    let steps = beside(&waiting, "  - wait: 10s\n") + "    enough: 1\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    pass(&project, Duration::from_secs(10)).await;
    assert_eq!(end(&engine, id).await, r#"{"a":null,"b":null}"#);
    assert_eq!(outcomes_seen(&engine, id).await.len(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn a_cancelled_execution_waits_in_the_finally_of_a_step() {
    let steps = "  - id: g\n    steps: [{waitFor: {event: never}, timeout: 1h}]\n    finally: [{wait: 10s}, {id: seen, set: {x: 1}}]\n";
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    cancel(&engine, id).await;
    until_async(async || {
        engine.store().events(id).await.is_ok_and(|events| {
            events.into_iter().flatten().any(|event| matches!(event, model::Event::StepClosing { .. }))
        })
    })
    .await;
    until_async(async || engine.status().resting == 1).await;
    pass(&project, Duration::from_secs(10)).await;
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    assert_eq!(outcomes_seen(&engine, id).await, [r#"{"x":1}"#]);
    stop(engine).await;
}

#[tokio::test]
async fn the_finally_of_the_file_reads_the_outcome() {
    for (steps, expected) in [
        ("[{set: {x: 1}}]", r#"{"s":"succeeded","v":{"x":1}}"#),
        ("[{fail: oh}]", r#"{"s":"failed","v":null}"#),
    ] {
        let text = format!(
            "trigger: {{manual: {{}}}}\nsteps: {steps}\nfinally: [{{id: seen, set: {{s: \"${{{{ outcome.status }}}}\", v: \"${{{{ outcome.result }}}}\"}}}}]\n"
        );
        let project = Project::with(&text);
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        end(&engine, id).await;
        assert_eq!(outcomes_seen(&engine, id).await, [expected], "{steps}");
        stop(engine).await;
    }
}

#[test]
fn closing_lists_are_checked() {
    let says = |text: &str| format!("action: log.info, with: {{message: \"${{{{ {text} }}}}\"}}");
    let begun = |undo: &str| {
        format!("- id: a\n  set: {{x: 1}}\n  undo: {{when: begun, steps: [{{{undo}}}]}}\n- wait: 1s\n")
    };
    check_steps(&begun(&says("steps.a.results.x")), &["uncertain-results a"]);
    check_steps(&begun(&format!("if: steps.a.ok, {}", says("steps.a.results.x"))), &[]);
    check_steps(&begun(&says("steps.a.results.x | default('')")), &[]);
    check_steps(&begun(&says("steps.a.ok and steps.a.results.x")), &[]);
    check_steps(&begun(&says("steps.a.results")), &["uncertain-results a"]);
    check_steps(&begun(&says("steps.a.error.message")), &["uncertain-results a"]);
    check_steps(
        &begun(&format!("if: steps.a.error is none, {}", says("error.message"))),
        &["uncertain-results a"],
    );
    check_steps(&begun(&says("steps.a.error.message | default(error.message)")), &[]);
    check_steps(&format!("- {{{}}}\n", says("outcome.status")), &["name-not-here outcome"]);
    let closed = |closing: &str, next: &str| {
        format!("- id: g\n  steps: [{{id: a, set: {{x: 1}}}}]\n  finally: [{{{closing}}}]\n- {{{next}}}\n")
    };
    check_steps(&closed(&says("outcome.states"), "wait: 1s"), &["unknown-member states (status)"]);
    check_steps(&closed(&says("outcome.error.message"), "wait: 1s"), &[]);
    check_steps(&closed(&says("steps.a.results.x"), "wait: 1s"), &["may-be-missing a"]);
    check_steps(&closed("set: {y: 1}", &says("vars.y")), &["later-variable y"]);
}

#[tokio::test]
async fn each_failed_list_of_closing_steps_is_logged_once_with_its_step() {
    let steps =
        "  - {id: a, set: {_x: 1}, undo: [{fail: one}]}\n  - {id: b, set: {_y: 1}, finally: [{fail: two}]}\n";
    let project = Project::with(&(manual(steps) + "onError: [{fail: three}]\nfinally: [{fail: four}]\n"));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, "failed: two");
    let logs = engine.store().logs(id, 0, 20).await.expect("they are read");
    let failed = logs.iter().filter(|line| line.message.contains(" failed: "));
    let shown: Vec<_> = failed.map(|line| (line.step.as_deref(), line.message.as_str())).collect();
    assert_eq!(
        shown,
        [
            (Some("b"), "`finally` of `b` failed: two"),
            (Some("a"), "`undo` of `a` failed: one"),
            (None, "`onError` failed: three"),
            (None, "`finally` failed: four"),
        ]
    );
    stop(engine).await;
}
