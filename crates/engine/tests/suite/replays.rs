//! Replays: new executions of a recorded payload, from the start or from a step.

use engine::{BulkAction, BulkSelection, BulkState, Engine, TestText, TrialOutcome, TrialRequest};
use model::execution::{Event, ExecutionId, Origin};
use model::payload::Payload;
use runtime::{Clock as _, Error, ReplayRequest};
use store::{ExecutionFilter, Page};
use testing::{Side, Verdict};

use crate::common::{
    Peer, Project, call, crash, end, json, manual, rows, soon, start_with, steps_of, stop, until,
};

fn from(step: &str) -> ReplayRequest {
    ReplayRequest { from: Some(step.to_owned()), ..ReplayRequest::default() }
}

async fn replay(engine: &Engine, id: ExecutionId, request: ReplayRequest) -> Result<ExecutionId, Error> {
    let plan = engine.records().plan_replay(id, request).await?;
    engine.ingress().replay(plan).await
}

async fn refusal(engine: &Engine, id: ExecutionId, step: &str) -> String {
    match engine.records().plan_replay(id, from(step)).await {
        Ok(plan) => format!("{} steps kept", plan.kept_steps),
        Err(error) => error.to_string(),
    }
}

async fn ended(engine: &Engine, inputs: &str) -> ExecutionId {
    let id = start_with(engine, inputs).await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    id
}

/// Runs these steps, replays the execution from a step, and returns the step outcomes of the replay.
async fn replayed(steps: &str, step: &str) -> Vec<String> {
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = ended(&engine, "{}").await;
    let new = replay(&engine, id, from(step)).await.expect("it is replayed");
    soon(engine.admission().wait(new)).await.expect("it ends");
    let found = steps_of(&engine, new).await;
    stop(engine).await;
    found
}

#[tokio::test]
async fn a_replay_is_a_new_execution_that_repeats_all_calls_with_new_keys() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(
        &(call("a", &peer.base, "/a/${{ inputs.name }}") + &call("b", &peer.base, "/b")),
    ));
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"name": "x"}"#).await;
    let mut keys = Vec::new();
    for _ in 0..2 {
        let asked = peer.next_request().await;
        keys.push(asked.header("idempotency-key").map(str::to_owned));
        asked.answer(200, "1").await;
    }
    end(&engine, id).await;
    let new = replay(&engine, id, ReplayRequest::default()).await.expect("it is replayed");
    assert_ne!(new, id);
    for line in ["POST /a/x", "POST /b"] {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, line);
        assert!(!keys.contains(&asked.header("idempotency-key").map(str::to_owned)));
        asked.answer(200, "2").await;
    }
    assert!(end(&engine, new).await.contains(r#""body":2"#));
    let row = engine.store().execution(new).await.expect("it is read").expect("it is there");
    assert_eq!(row.origin, Origin::Replay { of: id, from: None, kept: 0, test: false });
    let filter = ExecutionFilter { replay_of: Some(id), ..ExecutionFilter::default() };
    let found =
        engine.store().executions(&filter, Page { before: None, limit: 9 }).await.expect("they are listed");
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [new]);
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_from_a_step_keeps_earlier_results_and_repeats_no_earlier_call() {
    let mut peer = Peer::new().await;
    let steps = "  - {id: one, set: {first: 1}}\n".to_owned()
        + &call("a", &peer.base, "/a")
        + &call("b", &peer.base, "/b/${{ steps.a.results.body }}/${{ vars.first }}");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "7").await;
    peer.next_request().await.answer(500, "0").await;
    assert!(end(&engine, id).await.starts_with("failed"));
    let plan = engine.records().plan_replay(id, from("b")).await.expect("it can be replayed");
    let calls: Vec<_> = plan.calls.iter().map(|call| (call.step.as_str(), call.called)).collect();
    assert_eq!((calls.as_slice(), plan.kept_steps), (&[("b", true)][..], 2));
    let new = engine.ingress().replay(plan).await.expect("it is replayed");
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /b/7/1");
    assert_eq!(asked.header("idempotency-key"), Some(format!("{new}.b").as_str()));
    asked.answer(200, "9").await;
    assert!(end(&engine, new).await.contains(r#""body":9"#));
    // A replay of the replay keeps the results that the first one kept.
    let again = replay(&engine, new, from("b")).await.expect("it is replayed");
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /b/7/1");
    asked.answer(200, "9").await;
    end(&engine, again).await;
    stop(engine).await;
}

#[tokio::test]
async fn a_crash_between_acceptance_and_first_step_loses_no_replay_and_repeats_no_kept_step() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a")
        + &call("b", &peer.base, "/b/${{ steps.a.results.body }}")
        + &call("c", &peer.base, "/c");
    let mut project = Project::with(&manual(&steps));
    project.settings.limits.in_flight = 1;
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for body in ["7", "8", "9"] {
        peer.next_request().await.answer(200, body).await;
    }
    end(&engine, id).await;
    // Another execution holds the only slot, so the replay is accepted and does not start.
    let other = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    let new = replay(&engine, id, from("b")).await.expect("it is replayed");
    let events = engine.store().events(new).await.expect("they are read").expect("it is stored");
    assert!(matches!(events.as_slice(), [Event::Started { .. }, Event::StepFinished { .. }]), "{events:?}");
    crash(engine).await;
    drop(held);

    let engine = project.start().await;
    let mut lines = Vec::new();
    // The other execution starts again with `/a`.
    for _ in 0..5 {
        let asked = peer.next_request().await;
        lines.push(asked.line.clone());
        asked.answer(200, "7").await;
    }
    end(&engine, other).await;
    end(&engine, new).await;
    lines.sort_unstable();
    assert_eq!(lines, ["POST /a", "POST /b/7", "POST /b/7", "POST /c", "POST /c"]);
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_resumes_at_its_step_after_a_crash() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + &call("b", &peer.base, "/b") + &call("c", &peer.base, "/c");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..3 {
        peer.next_request().await.answer(200, "7").await;
    }
    end(&engine, id).await;
    let new = replay(&engine, id, from("b")).await.expect("it is replayed");
    peer.next_request().await.answer(200, "8").await;
    let held = peer.next_request().await;
    let key = held.header("idempotency-key").map(str::to_owned);
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!((asked.line.as_str(), asked.header("idempotency-key").map(str::to_owned)), ("POST /c", key));
    asked.answer(200, "9").await;
    end(&engine, new).await;
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_keeps_the_loop_iterations_before_its_step() {
    let steps = "  - forEach: [10, 20, 30]\n    id: each\n    steps:\n      - {id: one, set: {sum: \"${{ (vars.sum | default(0)) + item }}\"}}\n      - {id: two, set: {last: \"${{ item }}\"}}\n  - {id: after, set: {total: \"${{ vars.sum }}\"}}\n";
    let kept = ["one[0]", "two[0]", "one[1]"];
    let found = replayed(steps, "two[1]").await;
    let names: Vec<&str> = found.iter().filter_map(|end| end.split('=').next()).collect();
    assert_eq!(names[..3], kept);
    assert_eq!(names[3..], ["two[1]", "one[2]", "two[2]", "each", "after"]);
    assert_eq!(found.last().map(String::as_str), Some(r#"after={"total":60}"#));
}

#[tokio::test]
async fn a_replay_keeps_the_results_of_parallel_steps() {
    let steps = "  - {id: a, set: {a: 1}}\n  - {id: b, needs: [a], set: {b: 1}}\n  - {id: c, needs: [a], set: {c: 1}}\n  - {id: d, needs: [b], set: {d: 1}}\n";
    let found = replayed(steps, "b").await;
    assert_eq!(found, [r#"a={"a":1}"#, r#"c={"c":1}"#, r#"b={"b":1}"#, r#"d={"d":1}"#]);
    let steps = "  - id: both\n    parallel:\n      left:\n        - {id: l, set: {l: 1}}\n      right:\n        - {id: r, set: {r: 1}}\n";
    let found = replayed(steps, "r").await;
    assert_eq!(found[..2], [r#"l={"l":1}"#, r#"r={"r":1}"#]);
}

#[tokio::test]
async fn a_replay_takes_the_same_branch_by_the_recorded_values() {
    let project = Project::with(&manual(
        "  - if: now() < '2026-03-02T08:00:05Z'\n    id: branch\n    then:\n      - {id: a, set: {a: 1}}\n      - {id: b, set: {b: \"${{ steps.a.results.a + 1 }}\"}}\n",
    ));
    let engine = project.start().await;
    let id = ended(&engine, "{}").await;
    project.clock.advance(std::time::Duration::from_secs(7));
    let new = replay(&engine, id, from("b")).await.expect("it is replayed");
    assert_eq!(end(&engine, new).await, r#"{"b":2}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_from_an_unsuitable_step_is_refused_with_the_reason() {
    let project = Project::with(
        "trigger: {manual: {}}\nsteps:\n  - {id: a, set: {a: 1}}\n  - id: each\n    forEach: [1]\n    steps:\n      - {id: inner, set: {x: 1}}\n  - id: choose\n    if: 1 > 2\n    then:\n      - {id: never, set: {x: 1}}\n  - {id: risky, fail: no, onError: [{id: mend, set: {m: 1}}]}\n  - {id: bad, fail: no}\n  - {id: late, set: {l: 1}}\nfinally:\n  - {id: tidy, set: {t: 1}}\n",
    );
    let engine = project.start().await;
    let id = ended(&engine, "{}").await;
    for (step, expected) in [
        ("nope", "there is no step `nope` in the version that the replay runs on"),
        ("lste", "there is no step `lste` in the version that the replay runs on; did you mean `late`?"),
        ("tidy", "step `tidy` closes or undoes an execution; replay from a step of the list `steps`"),
        ("mend", "step `mend` handles a failure of `risky`; replay from `risky`"),
        ("inner", "step `inner` is in 1 loops, and `inner` names 0 iterations; write it as `inner[0]`"),
        (
            "inner[4]",
            "step `inner[4]` did not run in the execution; replay from `each`, which decides whether it runs",
        ),
        (
            "never",
            "step `never` did not run in the execution; replay from `choose`, which decides whether it runs",
        ),
        ("late", "step `bad` before `late` did not succeed; replay from `bad` or an earlier step"),
        ("bad", "6 steps kept"),
    ] {
        assert_eq!(refusal(&engine, id, step).await, expected);
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_from_a_step_is_refused_until_the_execution_has_ended() {
    let project = Project::with(&manual("  - {id: a, set: {a: 1}}\n  - {id: b, wait: 1h}\n"));
    let engine = project.start().await;
    let id = crate::common::start_and_suspend(&engine, "{}").await;
    let expected = format!("execution `{id}` has not ended; cancel it, or replay it from the start");
    assert_eq!(refusal(&engine, id, "b").await, expected);
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_runs_the_current_version_unless_the_original_is_requested() {
    let project =
        Project::with(&manual("  - {id: a, set: {a: old}}\n  - {id: b, set: {b: \"old ${{ vars.a }}\"}}\n"));
    let engine = project.start().await;
    let id = ended(&engine, "{}").await;
    project.write(
        "automations/test.yaml",
        &manual("  - {id: a, set: {a: new}}\n  - {id: b, set: {b: \"new ${{ vars.a }}\"}}\n"),
    );
    engine.reload().await;
    let outcome = async |request| {
        let new = replay(&engine, id, request).await.expect("it is replayed");
        end(&engine, new).await
    };
    assert_eq!(outcome(ReplayRequest::default()).await, r#"{"b":"new new"}"#);
    assert_eq!(outcome(from("b")).await, r#"{"b":"new old"}"#);
    assert_eq!(
        outcome(ReplayRequest { original: true, ..ReplayRequest::default() }).await,
        r#"{"b":"old old"}"#
    );
    project.write(
        "automations/test.yaml",
        &manual("  - {id: a, action: log.info, with: {message: hi}}\n  - {id: b, set: {b: 1}}\n"),
    );
    engine.reload().await;
    let expected = "step `a` is `log.info` in the current version and was `set` in the execution; replay from it or an earlier step, or on the original version";
    assert_eq!(refusal(&engine, id, "b").await, expected);
    stop(engine).await;
}

#[tokio::test]
async fn an_edited_payload_replaces_the_recorded_one() {
    let project = Project::with(&manual("  - set: {hello: \"${{ inputs.name }}\"}\n"));
    let engine = project.start().await;
    let id = ended(&engine, r#"{"name": "a"}"#).await;
    let payload = Payload::manual(json(r#"{"name": "b"}"#).as_map().expect("a map").clone());
    let request = ReplayRequest { payload: Some(payload), test: Some(true), ..ReplayRequest::default() };
    let new = replay(&engine, id, request).await.expect("it is replayed");
    assert_eq!(end(&engine, new).await, r#"{"hello":"b"}"#);
    let row = engine.store().execution(new).await.expect("it is read").expect("it is there");
    assert!(row.origin.is_test());
    let wrong = Payload::manual(json(r#"{"nobody": "b"}"#).as_map().expect("a map").clone());
    let request = ReplayRequest { payload: Some(wrong), ..ReplayRequest::default() };
    assert!(matches!(replay(&engine, id, request).await, Err(Error::Input(_))));
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_undoes_only_its_own_steps_and_keeps_no_undone_step() {
    let mut peer = Peer::new().await;
    let undo = |id: &str, base: &str| {
        call(id, base, &format!("/{id}"))
            + &format!(
                "    undo:\n      - id: un{id}\n        action: http.request\n        with: {{method: POST, url: \"{base}/un{id}\"}}\n"
            )
    };
    let steps = undo("a", &peer.base) + &undo("b", &peer.base) + &call("c", &peer.base, "/c");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..3 {
        peer.next_request().await.answer(200, "1").await;
    }
    end(&engine, id).await;
    let new = replay(&engine, id, from("b")).await.expect("it is replayed");
    for (line, status) in [("POST /b", 200), ("POST /c", 400), ("POST /unb", 200)] {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, line);
        asked.answer(status, "1").await;
    }
    assert!(end(&engine, new).await.starts_with("failed"));
    assert!(peer.pending_request().is_none(), "the step of the first execution is not undone");
    let expected = "step `b` was undone when the execution failed; replay from it or an earlier step";
    assert_eq!(refusal(&engine, new, "c").await, expected);
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_keeps_waits_and_responses_and_runs_finally_steps_again() {
    let yaml = "trigger: {webhook: {mode: sync}}\nsteps:\n  - {id: w, waitFor: {event: x}, timeout: 1h, onTimeout: continue}\n  - {id: r, respond: {status: 201, json: {a: 1}}}\n  - {id: e, set: {timedOut: \"${{ steps.w.timedOut }}\"}}\nfinally:\n  - {id: f, set: {f: 1}}\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let id = crate::common::start_and_suspend(&engine, "{}").await;
    project.clock.advance(std::time::Duration::from_secs(3601));
    end(&engine, id).await;
    let new = replay(&engine, id, from("e")).await.expect("it is replayed");
    assert_eq!(end(&engine, new).await, r#"{"timedOut":true}"#);
    let names: Vec<String> = steps_of(&engine, new).await;
    assert_eq!(names[2..], [r#"e={"timedOut":true}"#, r#"f={"f":1}"#]);
    let events = engine.store().events(new).await.expect("they are read").expect("it is stored");
    let responses = events.iter().filter(|event| matches!(event, Event::Responded { .. }));
    assert_eq!(responses.count(), 1);
    stop(engine).await;
}

#[tokio::test]
async fn a_bulk_replay_runs_at_a_limited_rate_until_it_is_stopped() {
    let project = Project::with(&manual("  - set: {a: 1}\n"));
    let engine = project.start().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(ended(&engine, "{}").await);
    }
    let (records, bulk) = (engine.records(), engine.bulk());
    let action = BulkAction::Replay(Box::default());
    let filter =
        Box::new(ExecutionFilter { status: vec![model::Status::Succeeded], ..ExecutionFilter::default() });
    let plan = bulk.plan(records, &action, BulkSelection::Filter(filter)).await.expect("it is planned");
    assert_eq!((plan.ids.as_slice(), plan.calling, plan.skipped), (ids.as_slice(), 0, 0));
    let begun = bulk.start((engine.admission(), engine.ingress()), action, plan.ids, 10).expect("it begins");
    let progress = || bulk.get(&begun.id).expect("it is listed");
    let done = async |count| {
        until(|| progress().done >= count).await;
    };
    done(1).await;
    soon(project.clock.somebody_sleeps_until(project.clock.now() + std::time::Duration::from_millis(100)))
        .await;
    assert_eq!(progress().done, 1, "the second one waits for its turn");
    project.clock.advance(std::time::Duration::from_millis(100));
    done(2).await;
    bulk.stop(&begun.id).expect("it is listed");
    until(|| progress().state != BulkState::Running).await;
    let ended = progress();
    assert_eq!((ended.state, ended.total, ended.done, ended.failed), (BulkState::Stopped, 3, 2, 0));
    for new in ended.started {
        assert_eq!(end(&engine, new).await, r#"{"a":1}"#);
    }
    stop(engine).await;
}

#[tokio::test]
async fn bulk_replay_takes_only_ended_and_bulk_cancel_only_unfinished_executions() {
    let project = Project::with(&manual("  - {id: w, wait: 1h}\n"));
    let engine = project.start().await;
    let waiting = crate::common::start_and_suspend(&engine, "{}").await;
    let (records, bulk) = (engine.records(), engine.bulk());
    let all = || BulkSelection::Ids(vec![waiting]);
    let replay = BulkAction::Replay(Box::default());
    let plan = bulk.plan(records, &replay, all()).await.expect("it is planned");
    assert_eq!((plan.ids.len(), plan.skipped), (0, 1));
    let cancel = BulkAction::Cancel("no".to_owned());
    let plan = bulk.plan(records, &cancel, all()).await.expect("it is planned");
    bulk.start((engine.admission(), engine.ingress()), cancel, plan.ids, 10).expect("it begins");
    assert_eq!(end(&engine, waiting).await, "cancelled: no");
    stop(engine).await;
}

/// Runs an execution whose calls are answered, then makes a trial of another text, which must send no request.
async fn tried(steps: &str, draft: &str, requests: usize) -> Vec<TrialOutcome> {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&steps.replace("BASE", &peer.base)));
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"name": "x"}"#).await;
    for _ in 0..requests {
        peer.next_request().await.answer(200, r#"{"id": 7}"#).await;
    }
    end(&engine, id).await;
    let request = TrialRequest {
        path: "automations/test.yaml".to_owned(),
        text: manual(&draft.replace("BASE", &peer.base)),
        executions: vec![id],
        ..TrialRequest::default()
    };
    let trials = engine.try_draft(request).await.expect("it is tried");
    assert!(peer.pending_request().is_none(), "a trial calls nothing");
    assert_eq!(rows(&engine).await.len(), 1, "a trial leaves no execution");
    stop(engine).await;
    trials.executions
}

const TWO_CALLS: &str = "  - id: page\n    action: http.request\n    with: {method: POST, url: \"BASE/page/${{ inputs.name }}\"}\n  - id: at\n    set: {at: \"${{ now() }}\", id: \"${{ steps.page.results.body.id }}\"}\n  - id: save\n    action: http.request\n    with: {method: POST, url: \"BASE/save\", body: {id: \"${{ vars.id }}\"}}\n";

#[tokio::test]
async fn a_trial_waits_for_a_dropped_trial_to_end() {
    let project = Project::with(&manual("  - {id: a, set: {x: 1}}\n"));
    let engine = project.start().await;
    let request = || TrialRequest {
        path: "automations/test.yaml".to_owned(),
        text: manual("  - {id: a, set: {x: 2}}\n"),
        tests: true,
        ..TrialRequest::default()
    };
    // One poll of the future takes the lock and starts the work on another thread, which may even have ended by then;
    // then the request is dropped.
    tokio::select! {
        biased;
        _ = engine.try_draft(request()) => {}
        () = std::future::ready(()) => {}
    }
    engine.try_draft(request()).await.expect("it is not refused as busy");
    stop(engine).await;
}

#[tokio::test]
async fn a_trial_runs_the_test_texts_of_its_request() {
    let steps = "  - {id: page, set: {x: 1}}\n";
    let tests = "tests:\n  - {name: it runs, expect: {steps: {page: succeeded}}}\n";
    let project = Project::with(&manual(steps));
    project.write("automations/test.test.yaml", tests);
    let engine = project.start().await;
    let failures = async |text: &str, test_files| {
        let request = TrialRequest {
            path: "automations/test.yaml".to_owned(),
            text: manual(text),
            tests: true,
            test_files,
            ..TrialRequest::default()
        };
        let trials = engine.try_draft(request).await.expect("they run");
        assert_eq!(trials.tests.len(), 1);
        trials.tests[0].report.error_count()
    };
    let renamed = steps.replace("page", "made");
    assert!(failures(&renamed, Vec::new()).await > 0, "the test on disk names the step as before");
    let path = "automations/test.test.yaml".to_owned();
    let follows = TestText { path, text: tests.replace("page", "made") };
    assert_eq!(failures(&renamed, vec![follows]).await, 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_trial_of_unchanged_text_reports_no_difference_and_calls_nothing() {
    let found = tried(TWO_CALLS, TWO_CALLS, 2).await;
    let trial = found[0].trial.as_ref().expect("it runs");
    assert_eq!((trial.verdict, trial.calls, trial.same_steps), (Verdict::Same, 2, 3), "{:?}", trial.steps);
}

#[tokio::test]
async fn a_trial_shows_changed_requests() {
    let draft = TWO_CALLS.replace("${{ vars.id }}", "${{ vars.id + 1 }}");
    let found = tried(TWO_CALLS, &draft, 2).await;
    let trial = found[0].trial.as_ref().expect("it runs");
    assert_eq!((trial.verdict, trial.calls), (Verdict::Differs, 2));
    let [step] = trial.steps.as_slice() else { panic!("{:?}", trial.steps) };
    let body = |side: &Option<Side>| {
        let inputs = side.as_ref().and_then(|side| side.inputs.clone()).expect("its inputs are known");
        inputs.get("body").expect("a body").to_json()
    };
    assert_eq!(
        (step.step.as_str(), body(&step.recorded), body(&step.trial)),
        ("save", r#"{"id":7}"#.to_owned(), r#"{"id":8}"#.to_owned())
    );
}

#[tokio::test]
async fn a_renamed_step_finds_its_recorded_result_by_action_and_inputs() {
    let draft = TWO_CALLS.replace("id: save", "id: keep");
    let found = tried(TWO_CALLS, &draft, 2).await;
    let trial = found[0].trial.as_ref().expect("it runs");
    assert_eq!((trial.verdict, trial.calls), (Verdict::Differs, 2));
    let names: Vec<&str> = trial.steps.iter().map(|step| step.step.as_str()).collect();
    assert_eq!(names, ["keep", "save"]);
}

#[tokio::test]
async fn an_unrecorded_call_ends_the_trial_and_is_named() {
    let draft = TWO_CALLS.to_owned()
        + "  - id: more\n    action: http.request\n    with: {method: DELETE, url: \"BASE/more\"}\n    timeout: 1s\n    onError: continue\n  - {id: last, set: {a: 1}}\n";
    let found = tried(TWO_CALLS, &draft, 2).await;
    let trial = found[0].trial.as_ref().expect("it runs");
    let call = trial.new_call.as_ref().expect("it is named");
    assert_eq!(
        (trial.verdict, call.step.as_str(), call.name.as_str()),
        (Verdict::NewCall, "more", "http.request")
    );
    assert!(trial.steps.iter().all(|step| step.step != "last"), "nothing runs after it");
}

#[tokio::test]
async fn a_trial_needs_a_text_without_errors_and_at_most_fifty_executions() {
    let project = Project::with(&manual("  - set: {a: 1}\n"));
    let engine = project.start().await;
    let id = ended(&engine, "{}").await;
    let request = |text: &str, count| TrialRequest {
        path: "automations/test.yaml".to_owned(),
        text: text.to_owned(),
        executions: vec![id; count],
        ..TrialRequest::default()
    };
    let refused = async |request| match engine.try_draft(request).await {
        Err(Error::Input(message)) => message,
        _ => panic!("it is refused"),
    };
    assert!(refused(request("trigger: 1\n", 1)).await.contains("automations/test.yaml:1"));
    assert_eq!(refused(request("", 51)).await, "at most 50 executions are tried at once");
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_becomes_a_test_that_passes_offline() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&TWO_CALLS.replace("BASE", &peer.base)));
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"name": "x"}"#).await;
    for _ in 0..2 {
        peer.next_request().await.answer(200, r#"{"id": 7}"#).await;
    }
    end(&engine, id).await;
    let draft =
        engine.test_from_execution(id, Some("a page is saved".to_owned())).await.expect("it is a test");
    assert_eq!((draft.path.as_str(), draft.before), ("automations/test.test.yaml", None));
    assert!(draft.text.contains("a page is saved") && draft.text.contains("save:"), "{}", draft.text);
    project.write(&draft.path, &draft.text);
    // A second one is appended, and no byte of the first changes.
    let second = engine.test_from_execution(id, None).await.expect("it is a test");
    assert!(second.text.starts_with(&draft.text), "{}", second.text);
    assert!(peer.pending_request().is_none(), "a test calls nothing");
    stop(engine).await;
}

#[tokio::test]
async fn a_trial_and_a_test_of_an_execution_have_the_variables_of_the_environment() {
    const READS: &str = "trigger: {manual: {}}\ninputs: {name: {type: text}}\nconfigVars:\n  where: ${{ env.CARGO_PKG_NAME }}\n  hidden: {value: \"${{ env.CARGO_PKG_VERSION }}\", secret: true}\nsteps:\n  - {id: a, set: {where: \"${{ configVars.where }}\", known: \"${{ configVars.hidden is defined }}\"}}\n";
    let project = Project::with(READS);
    let engine = project.start().await;
    let id = start_with(&engine, r#"{"name": "x"}"#).await;
    assert!(end(&engine, id).await.contains(env!("CARGO_PKG_NAME")));
    let request = TrialRequest {
        path: "automations/test.yaml".to_owned(),
        text: READS.to_owned(),
        executions: vec![id],
        ..TrialRequest::default()
    };
    let trials = engine.try_draft(request).await.expect("it is tried");
    let [trial] = trials.executions.as_slice() else { panic!("one trial") };
    let verdict = trial.trial.as_ref().map(|trial| trial.verdict);
    assert_eq!(verdict, Ok(Verdict::Same), "the text has not changed");
    let draft = engine.test_from_execution(id, None).await.expect("it is a test");
    let env = format!(r#"env: {{"CARGO_PKG_NAME":"{}""#, env!("CARGO_PKG_NAME"));
    assert!(draft.text.contains(&env), "{}", draft.text);
    assert!(draft.text.contains("not-the-real-CARGO_PKG_VERSION"), "{}", draft.text);
    stop(engine).await;
}
