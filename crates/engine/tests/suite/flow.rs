//! Effects: order, parallel steps, retries, timeouts, cancellation.

use std::time::Duration;

use model::Event;
use model::execution::CallRecord;

use crate::common::{
    Peer, Project, call, end, manual, pass, show, soon, start_and_suspend, start_with, steps_of, stop,
};

#[tokio::test]
async fn independent_steps_run_in_parallel_and_the_join_waits_for_both() {
    let mut peer = Peer::new().await;
    let needs =
        |id: &str, path: &str, needs: &str| call(id, &peer.base, path) + &format!("    needs: {needs}\n");
    let steps = needs("a", "/a", "[]") + &needs("b", "/b", "[]") + &needs("c", "/c", "[a, b]");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let (first, second) = (peer.next_request().await, peer.next_request().await);
    let mut lines = [first.line.clone(), second.line.clone()];
    lines.sort();
    assert_eq!(lines, ["POST /a", "POST /b"]);
    first.answer(200, "1").await;
    assert!(peer.pending_request().is_none());
    second.answer(200, "2").await;
    let third = peer.next_request().await;
    assert_eq!(third.line, "POST /c");
    third.answer(200, "3").await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    assert!(show(&outcome).contains(r#""body":3"#), "{}", show(&outcome));
    stop(engine).await;
}

#[tokio::test]
async fn a_loop_keeps_within_its_concurrency() {
    let mut peer = Peer::new().await;
    let url = format!("{}/${{{{ item }}}}", peer.base);
    let steps = format!(
        "  - forEach: range(5)\n    concurrency: 2\n    steps:\n      - action: http.request\n        with: {{method: POST, url: \"{url}\"}}\n"
    );
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let mut held = std::collections::VecDeque::from([peer.next_request().await, peer.next_request().await]);
    for _ in 2..5 {
        assert!(peer.pending_request().is_none(), "never more than two");
        held.pop_front().expect("one is held").answer(200, "null").await;
        held.push_back(peer.next_request().await);
    }
    for asked in held {
        asked.answer(200, "null").await;
    }
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_failed_call_is_retried_after_its_delay_with_the_same_idempotency_key() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: {max: 2, delay: 10s}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let mut keys = Vec::new();
    for (status, wait) in [(503, 10), (503, 20), (200, 0)] {
        let asked = peer.next_request().await;
        keys.push(asked.header("idempotency-key").map(str::to_owned));
        let due = engine.clock().now() + Duration::from_secs(wait);
        asked.answer(status, "{}").await;
        if wait > 0 {
            soon(project.clock.somebody_sleeps_until(due)).await;
            assert!(peer.pending_request().is_none(), "it waits for its delay");
            project.clock.advance(Duration::from_secs(wait));
        }
    }
    assert_eq!(keys[0], Some(format!("{id}.a")));
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn exhausted_retries_fail_with_the_status_of_the_last_response() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: {max: 1, delay: 1s}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(1);
    peer.next_request().await.answer(500, r#"{"message": "out of order"}"#).await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(1));
    peer.next_request().await.answer(500, r#"{"message": "out of order"}"#).await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("500"), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_group_is_retried_after_any_error_of_its_steps() {
    let mut peer = Peer::new().await;
    let inside: String = call("a", &peer.base, "/a").lines().map(|line| format!("    {line}\n")).collect();
    let steps = format!("  - retry: {{max: 1, delay: 0s}}\n    steps:\n{inside}");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(404, "null").await;
    peer.next_request().await.answer(200, "1").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains(r#""body":1"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn the_error_after_a_lost_write_response_mentions_the_lost_attempt() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: {max: 2, delay: 10s}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    drop(peer.next_request().await);
    pass(&project, Duration::from_secs(10)).await;
    peer.next_request().await.answer(400, r#"{"message": "a page with this title already exists"}"#).await;
    let outcome = end(&engine, id).await;
    assert!(
        outcome
            .contains("a page with this title already exists (attempt 2; the answer to attempt 1 was lost: "),
        "{outcome}"
    );
    stop(engine).await;
}

#[tokio::test]
async fn the_final_error_names_the_first_attempt_whose_response_was_lost() {
    let mut peer = Peer::new().await;
    let on_error = "    retry: {max: 3, delay: 10s, backoff: 1}\n    onError: [{set: {z: \"${{ error.lostAttempt.attempt }} ${{ error.lostAttempt.status }} ${{ error.status }}\"}}]\n";
    let project = Project::with(&manual(&(call("a", &peer.base, "/a") + on_error)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for status in [429, 502, 503] {
        peer.next_request().await.answer(status, "{}").await;
        pass(&project, Duration::from_secs(10)).await;
    }
    peer.next_request().await.answer(409, "{}").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("2 502 409"), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_lost_attempt_is_remembered_when_the_whole_execution_is_retried() {
    let mut peer = Peer::new().await;
    let yaml = manual(&call("a", &peer.base, "/a")).replace("steps:", "retry: {max: 1, delay: 10s}\nsteps:");
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(504, "{}").await;
    pass(&project, Duration::from_secs(10)).await;
    peer.next_request().await.answer(409, "{}").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("409 Conflict (attempt 2; attempt 1 may have been carried out: "), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_client_error_is_not_retried() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "    retry: 5\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(404, "{}").await;
    assert!(end(&engine, id).await.starts_with("failed:"));
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn a_step_that_takes_longer_than_its_timeout_fails_and_its_error_can_be_handled() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a")
        + "    timeout: 5s\n    onError:\n      - set: {kind: \"${{ error.kind }}\"}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(5);
    let held = peer.next_request().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(5));
    assert_eq!(end(&engine, id).await, r#"{"kind":"timeout"}"#);
    drop(held);
    stop(engine).await;
}

#[tokio::test]
async fn the_timeout_of_a_block_is_not_swallowed_by_the_steps_inside_it() {
    let mut peer = Peer::new().await;
    let url = peer.base.clone();
    let steps = format!(
        "  - forEach: [1, 2]\n    timeout: 5s\n    steps:\n      - action: http.request\n        with: {{method: POST, url: \"{url}\"}}\n        onError: continue\n"
    );
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(5);
    let held = peer.next_request().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(5));
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("longer than its timeout of 5s"), "{outcome}");
    drop(held);
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_that_waits_for_a_retry_can_be_cancelled() {
    let mut peer = Peer::new().await;
    let yaml = manual(&call("a", &peer.base, "/a")).replace("steps:", "retry: {max: 1, delay: 1s}\nsteps:");
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + Duration::from_secs(1);
    peer.next_request().await.answer(503, "{}").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    assert!(engine.admission().cancel(id, "not needed").await.expect("it is known"));
    assert_eq!(end(&engine, id).await, "cancelled: not needed");
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_that_is_suspended_until_a_retry_can_be_cancelled() {
    let retry = "retry: {max: 1, delay: 10m, maxDelay: 10m, on: all}";
    let whole =
        manual("  - fail: no\n").replace("steps:", "retry: {max: 1, delay: 10m, maxDelay: 10m}\nsteps:");
    let step = manual(&format!("  - {{fail: no, {retry}}}\n"));
    let block = manual(&format!("  - {retry}\n    steps: [{{fail: no}}]\n"));
    let branches = manual(&format!(
        "  - parallel:\n      a: [{{fail: no, {retry}}}]\n      b: [{{waitFor: {{event: go}}}}]\n"
    ));
    for yaml in [whole, step, block, branches] {
        let project = Project::with(&yaml);
        let engine = project.start().await;
        let id = start_and_suspend(&engine, "{}").await;
        assert!(engine.admission().cancel(id, "not needed").await.expect("it is known"));
        assert_eq!(end(&engine, id).await, "cancelled: not needed", "{yaml}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_cancelled_execution_ends_with_its_reason_and_nothing_more_is_sent() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + &call("b", &peer.base, "/b");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    assert!(engine.admission().cancel(id, "not needed").await.expect("it is known"));
    assert_eq!(end(&engine, id).await, "cancelled: not needed");
    assert!(!engine.admission().cancel(id, "again").await.expect("it is known"));
    drop(held);
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_is_retried_from_the_failed_step() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{manual: {{}}}}\nretry: {{max: 1, delay: 30s}}\nsteps:\n{}{}",
        call("a", &peer.base, "/a"),
        call("b", &peer.base, "/b")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "1").await;
    let failing = peer.next_request().await;
    assert_eq!(failing.line, "POST /b");
    let due = engine.clock().now() + Duration::from_secs(30);
    failing.answer(503, "{}").await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(Duration::from_secs(30));
    let again = peer.next_request().await;
    assert_eq!(again.line, "POST /b", "what succeeded is not done again");
    again.answer(200, "2").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains(r#""body":2"#), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn executions_with_one_concurrency_key_queue_and_others_do_not() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{manual: {{}}}}\ninputs:\n  key: {{type: text, required: true}}\nconcurrency: {{limit: 1, key: \"${{{{ inputs.key }}}}\"}}\nsteps:\n{}",
        call("a", &peer.base, "/${{ inputs.key }}")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let first = start_with(&engine, r#"{"key": "x"}"#).await;
    let held = peer.next_request().await;
    let second = start_with(&engine, r#"{"key": "x"}"#).await;
    let other = start_with(&engine, r#"{"key": "y"}"#).await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /y");
    asked.answer(200, "1").await;
    soon(engine.admission().wait(other)).await.expect("it ends");
    assert!(peer.pending_request().is_none(), "the second of the key waits");
    held.answer(200, "1").await;
    soon(engine.admission().wait(first)).await.expect("it ends");
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(second)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_over_the_limit_is_skipped_or_replaces_the_running_one() {
    for (policy, first_ends, second_ends) in [
        ("skip", r#""body":1"#, "cancelled: skipped"),
        ("cancelRunning", "cancelled: cancelled for a newer", r#""body":1"#),
    ] {
        let mut peer = Peer::new().await;
        let yaml = format!(
            "trigger: {{manual: {{}}}}\nconcurrency: {{limit: 1, policy: {policy}}}\nsteps:\n{}",
            call("a", &peer.base, "/a")
        );
        let project = Project::with(&yaml);
        let engine = project.start().await;
        let first = start_with(&engine, "{}").await;
        let held = peer.next_request().await;
        let second = start_with(&engine, "{}").await;
        if policy == "skip" {
            assert!(end(&engine, second).await.starts_with(second_ends));
            held.answer(200, "1").await;
            assert!(end(&engine, first).await.contains(first_ends));
        } else {
            assert!(end(&engine, first).await.starts_with(first_ends));
            peer.next_request().await.answer(200, "1").await;
            assert!(end(&engine, second).await.contains(second_ends));
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_step_whose_on_error_steps_stop_the_execution_is_recorded_as_left() {
    let steps = "  - id: a\n    fail: oh\n    onError:\n      - stop: {result: saved}\n";
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, "\"saved\"");
    assert_eq!(steps_of(&engine, id).await, ["step2 left by stop", "a left by stop"]);
    stop(engine).await;
}

#[tokio::test]
async fn a_subscriber_that_arrives_during_the_final_commit_gets_the_end() {
    let project = Project::with(&manual("  - set: {a: 1}\n"));
    let engine = project.start().await;
    for _ in 0..50 {
        let id = start_with(&engine, "{}").await;
        let mut notices = engine.subscribe();
        soon(async {
            loop {
                let events = engine.store().events(id).await.expect("read").expect("exists");
                if matches!(events.last(), Some(Event::Finished { .. })) {
                    break;
                }
                // Events that are not stored yet are delivered too.
                while !matches!(notices.recv().await, Ok(runtime::EngineEvent::ExecutionEvents { .. })) {}
            }
        })
        .await;
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_sent_request_is_recorded_even_if_another_branch_ends_its_step() {
    let mut peer = Peer::new().await;
    let steps = format!(
        "  - id: both\n    parallel:\n      a:\n{}      b:\n{}        - fail: too late\n",
        call("pay", &peer.base, "/pay").replace("  - ", "        - ").replace("\n    ", "\n          "),
        call("look", &peer.base, "/look").replace("  - ", "        - ").replace("\n    ", "\n          "),
    );
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let (first, second) = (peer.next_request().await, peer.next_request().await);
    let (look, _pay) = if first.line == "POST /look" { (first, second) } else { (second, first) };
    look.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, "failed: too late");
    let events = engine.store().events(id).await.expect("the events are read").expect("it exists");
    let called: Vec<String> = events
        .into_iter()
        .filter_map(|event| match event {
            Event::StepCalled { step, call: CallRecord::Request { method, url }, .. } => {
                Some(format!("{step} {method} {}", url.trim_start_matches(&peer.base)))
            }
            _ => None,
        })
        .collect();
    assert_eq!(called, ["look POST /look", "pay POST /pay"]);
    stop(engine).await;
}

#[tokio::test]
async fn a_loop_whose_every_iteration_fails_by_an_expression_fails_without_fail_fast() {
    for concurrency in [1, 3] {
        let loops = |items: &str| {
            manual(&format!(
                "  - forEach: {items}\n    concurrency: {concurrency}\n    failFast: false\n    steps:\n      - set: {{a: \"${{{{ item.name }}}}\"}}\n"
            ))
        };
        let outcome = async |items: &str| {
            let project = Project::with(&loops(items));
            let engine = project.start().await;
            let id = start_with(&engine, "{}").await;
            let outcome = end(&engine, id).await;
            stop(engine).await;
            outcome
        };
        let failed = outcome(r#""'[{\"nam\": 1}, {\"nam\": 2}]' | parseJson""#).await;
        assert!(failed.contains("every iteration failed by an expression"), "{failed}");
        let mixed = outcome(r#""'[{\"name\": 1}, {\"nam\": 2}]' | parseJson""#).await;
        assert!(mixed.contains(r#""kind":"expression""#) && !mixed.starts_with("failed"), "{mixed}");
        assert!(outcome("[]").await.contains("[]"));
    }
}
