//! Waits: they hold no slot, survive restarts, and end by time, by an event or by an answer.

use std::time::Duration;

use model::Status;
use model::execution::{Event, WaitReason};
use runtime::{Answer, EngineEvent, SignalError};
use value::{Map, Value};

use crate::common::{
    Peer, Project, call, crash, end, json, manual, outcome_of, pass, soon, start_and_suspend, start_with,
    steps_of, stop, until_async, until_suspended,
};

#[tokio::test]
async fn a_wait_ends_on_time_and_holds_no_slot() {
    let mut project = Project::with(&manual("  - wait: 1h\n  - set: {x: \"${{ now() }}\"}\n"));
    project.settings.limits.in_flight = 1;
    let engine = project.start().await;
    let first = start_and_suspend(&engine, "{}").await;
    assert_eq!((engine.status().in_flight, engine.status().resting), (0, 1));
    let row = engine.store().execution(first).await.expect("it is read").expect("it exists");
    assert_eq!(row.status, Status::Waiting);
    let second = start_with(&engine, "{}").await;
    pass(&project, Duration::from_secs(3600)).await;
    assert_eq!(end(&engine, first).await, r#"{"x":"2026-03-02T09:00:00.000Z"}"#);
    assert_eq!(end(&engine, second).await, r#"{"x":"2026-03-02T09:00:00.000Z"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_survives_a_restart_and_earlier_steps_do_not_run_again() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a")
        + "  - wait: {until: \"'2026-03-03T08:00:00Z'\"}\n"
        + &call("b", &peer.base, "/b");
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let mut notices = engine.subscribe();
    let id = start_with(&engine, "{}").await;
    peer.next_request().await.answer(200, "1").await;
    soon(async {
        while !matches!(
            notices.recv().await,
            Ok(EngineEvent::ExecutionEvents { status: Status::Waiting, .. })
        ) {}
    })
    .await;
    crash(engine).await;
    project.clock.advance(Duration::from_secs(3600));
    let engine = project.start().await;
    let due = "2026-03-03T08:00:00Z".parse().expect("an instant");
    soon(project.clock.somebody_sleeps_until(due)).await;
    assert!(peer.pending_request().is_none());
    project.clock.advance(Duration::from_secs(23 * 3600));
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /b");
    asked.answer(200, "2").await;
    assert!(end(&engine, id).await.contains(r#""body":2"#));
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_until_a_past_instant_returns_at_once_and_an_invalid_one_fails() {
    use crate::common::outcome_of;
    assert_eq!(outcome_of(&manual("  - wait: {until: \"'2020-01-01T00:00:00Z'\"}\n")).await, "null");
    assert_eq!(outcome_of(&manual("  - wait: {until: '17'}\n")).await, "null", "seconds since 1970");
    let wrong = outcome_of(&manual("  - set: {d: tomorrow}\n  - wait: {until: vars.d}\n")).await;
    assert!(wrong.starts_with("failed: until: `tomorrow` is not an instant"), "{wrong}");
    let wrong = outcome_of(&manual("  - set: {d: soon}\n  - wait: \"${{ vars.d }}\"\n")).await;
    assert!(wrong.starts_with("failed: wait:"), "{wrong}");
}

#[tokio::test]
async fn a_wait_counts_against_the_timeout_of_a_group_but_not_of_the_execution() {
    let day = Duration::from_secs(86_400);
    let project = Project::with(&format!("timeout: 1m\n{}", manual("  - wait: 1d\n  - set: {x: 1}\n")));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    project.clock.advance(day);
    assert_eq!(end(&engine, id).await, r#"{"x":1}"#);
    stop(engine).await;

    let project = Project::with(&manual(
        "  - id: group\n    timeout: 1h\n    steps: [{wait: 1d}]\n    onError: [{set: {said: \"${{ error.message }}\"}}]\n",
    ));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    project.clock.advance(Duration::from_secs(3600));
    assert_eq!(end(&engine, id).await, r#"{"said":"step `group` took longer than its timeout of 1h"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn an_event_ends_a_wait_if_its_name_and_condition_match() {
    let project = Project::with(&manual(
        "  - id: paid\n    waitFor: {event: \"order-${{ inputs.name }}\", if: event.data.amount > 10}\n  - set: {got: \"${{ steps.paid.results }}\"}\n",
    ));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, r#"{"name": "7"}"#).await;
    assert_eq!(
        engine
            .admission()
            .emit("order-8", json(r#"{"amount": 99}"#), None)
            .await
            .expect("it is sent")
            .delivered,
        0
    );
    assert_eq!(
        engine
            .admission()
            .emit("order-7", json(r#"{"amount": 3}"#), None)
            .await
            .expect("it is sent")
            .delivered,
        0
    );
    until_suspended(&engine).await;
    assert_eq!(
        engine.admission().queue_status(id).await.expect("it is known").pauses.len(),
        1,
        "the condition rejects the event"
    );
    assert_eq!(
        engine
            .admission()
            .emit("order-7", json(r#"{"amount": 30}"#), None)
            .await
            .expect("it is sent")
            .delivered,
        1
    );
    assert_eq!(end(&engine, id).await, r#"{"got":{"amount":30}}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_received_event_survives_a_restart() {
    let project = Project::with(&manual("  - id: paid\n    waitFor: {event: paid}\n"));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    crash(engine).await;
    let engine = project.start().await;
    assert_eq!(
        engine.admission().emit("paid", json("{\"n\": 1}"), None).await.expect("it is sent").delivered,
        1
    );
    // The event is durable even if the execution has not consumed it before the end.
    crash(engine).await;
    let engine = project.start().await;
    assert_eq!(end(&engine, id).await, r#"{"n":1}"#);
    stop(engine).await;
}

#[tokio::test]
async fn an_emitted_event_is_delivered_to_another_execution_once() {
    let project = Project::with(&manual("  - waitFor: {event: paid}\n"));
    project.write(
        "automations/sender.yaml",
        "trigger: {manual: {}}\nsteps:\n  - action: events.emit\n    with: {name: paid, data: {from: sender}}\n",
    );
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    let sender = model::AutomationId::parse("sender").expect("an id");
    let start = runtime::ManualStart::new(model::Payload::manual(Map::new()), model::Origin::Manual);
    let sent = engine.ingress().start(&sender.clone().into(), start).await.expect("it starts");
    assert!(end(&engine, sent).await.starts_with(r#"{"delivered":1,"#));
    assert_eq!(end(&engine, id).await, r#"{"from":"sender"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn an_unanswered_approval_fails_or_continues_with_null_per_on_timeout() {
    for (on_timeout, expected) in
        [("", "failed: nobody answered within 1h"), ("    onTimeout: continue\n", r#"{"x":null}"#)]
    {
        let project = Project::with(&manual(&format!(
            "  - id: ask\n    waitFor: {{approval: {{message: Go?}}}}\n    timeout: 1h\n{on_timeout}  - set: {{x: \"${{{{ steps.ask.results }}}}\"}}\n"
        )));
        let engine = project.start().await;
        let id = start_and_suspend(&engine, "{}").await;
        project.clock.advance(Duration::from_secs(1800));
        crash(engine).await;
        let engine = project.start().await;
        let due = runtime::Clock::now(&project.clock) + Duration::from_secs(1800);
        soon(project.clock.somebody_sleeps_until(due)).await;
        project.clock.advance(Duration::from_secs(1800));
        assert_eq!(end(&engine, id).await, expected);
        stop(engine).await;
    }
}

#[tokio::test]
async fn an_approval_accepts_one_of_its_options_with_a_valid_form() {
    let project = Project::with(&manual(
        "  - id: ask\n    waitFor:\n      approval:\n        message: Send ${{ inputs.name }}?\n        options: [send, keep]\n        form: {copies: {type: integer, required: true}, note: {type: text, default: none}}\n",
    ));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, r#"{"name": "it"}"#).await;
    let pending = engine.admission().queue_status(id).await.expect("it is known").pauses.remove(0);
    let shown = serde_json::to_value(&pending).expect("it is shown");
    assert_eq!(
        shown["on"],
        serde_json::json!({"kind": "approval", "message": "Send it?", "options": ["send", "keep"]})
    );
    let answer = |option: &str, form: &str| Answer {
        option: option.to_owned(),
        form: json(form).as_map().expect("a map").clone(),
        by: Some("a test".to_owned()),
    };
    for (option, form, expected) in [
        ("sned", r#"{"copies": 1}"#, "`sned` is not an option; choose one of: send, keep"),
        ("send", "{}", "input `copies` is required (whole number)"),
        ("send", r#"{"copies": "many"}"#, "input `copies`:"),
        ("send", r#"{"copies": 1, "ntoe": "x"}"#, "the form has no input `ntoe`; did you mean `note`?"),
        (
            "send",
            r#"{"copies": 1, "copeis": 1}"#,
            "the form has no input `copeis` (its inputs: copies, note)",
        ),
    ] {
        let error = engine.admission().answer(id, None, answer(option, form)).await.expect_err(option);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    engine
        .admission()
        .answer(id, Some("ask"), answer("send", r#"{"copies": 2}"#))
        .await
        .expect("it is taken");
    assert_eq!(end(&engine, id).await, r#"{"option":"send","form":{"copies":2,"note":"none"}}"#);
    let late = engine.admission().answer(id, None, answer("keep", r#"{"copies": 2}"#)).await;
    assert!(matches!(late, Err(SignalError::NotWaiting)), "{late:?}");
    stop(engine).await;
}

#[tokio::test]
async fn only_one_of_two_concurrent_answers_counts() {
    let project =
        Project::with(&manual("  - id: ask\n    waitFor: {approval: {message: Go?, options: [a, b]}}\n"));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    let answer = |option: &str| Answer { option: option.to_owned(), form: Map::new(), by: None };
    let (first, second) = tokio::join!(
        engine.admission().answer(id, None, answer("a")),
        engine.admission().answer(id, None, answer("b"))
    );
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let expected = if first.is_ok() { "a" } else { "b" };
    assert_eq!(end(&engine, id).await, format!(r#"{{"option":"{expected}","form":{{}}}}"#));
    stop(engine).await;
}

#[tokio::test]
async fn a_resume_url_identifies_its_execution_and_cannot_be_altered() {
    let project = Project::with(&manual(
        "  - id: say\n    set: {url: \"${{ execution.resumeUrl }}\"}\n  - waitFor: {event: a}\n",
    ));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    let said = steps_of(&engine, id).await.remove(0);
    let token = said.rsplit('/').next().expect("a token").trim_end_matches("\"}").to_owned();
    assert_eq!(engine.context().resumed_by(&token), Some(id));
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("it is text");
        // The last character has unused bits.
        assert!(engine.context().resumed_by(&changed) != Some(id) || at + 1 == token.len(), "{at}");
    }
    assert_eq!(engine.context().resumed_by(""), None);
    assert_eq!(engine.context().resumed_by(&token[..22]), None);
    crash(engine).await;
    let engine = project.start().await;
    assert_eq!(engine.context().resumed_by(&token), Some(id), "the address outlives the process");
    stop(engine).await;
}

#[tokio::test]
async fn parallel_branches_wait_independently() {
    let mut peer = Peer::new().await;
    let steps = format!(
        "  - id: both\n    parallel:\n      left:\n        - waitFor: {{event: left}}\n      right:\n        - action: http.request\n          with: {{method: POST, url: \"{}/right\"}}\n        - waitFor: {{event: right}}\n",
        peer.base
    );
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    // One branch waits while the other runs its step: the event reaches the wait, or is retained for it.
    engine.admission().emit("left", json("1"), None).await.expect("it is sent");
    held.answer(200, "0").await;
    engine.admission().emit("right", json("2"), None).await.expect("it is sent");
    assert_eq!(end(&engine, id).await, r#"{"left":1,"right":2}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_cancellation_takes_effect_whenever_it_arrives() {
    let project = Project::with(&manual("  - waitFor: {event: never}\n"));
    let engine = project.start().await;
    for round in 0..50 {
        let id = start_with(&engine, "{}").await;
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        assert!(engine.admission().cancel(id, "enough").await.expect("it is asked"));
        assert_eq!(end(&engine, id).await, "cancelled: enough", "{round}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_suspended_execution_can_be_cancelled() {
    let project = Project::with(&manual("  - waitFor: {event: never}\n"));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    assert!(engine.admission().cancel(id, "not needed any more").await.expect("it is asked"));
    assert_eq!(end(&engine, id).await, "cancelled: not needed any more");
    assert_eq!(engine.status().resting, 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_suspended_execution_keeps_its_concurrency_permit_over_a_restart() {
    let text = format!("concurrency: {{limit: 1}}\n{}", manual("  - waitFor: {event: go}\n"));
    let project = Project::with(&text);
    let engine = project.start().await;
    let first = start_and_suspend(&engine, "{}").await;
    let second = start_with(&engine, "{}").await;
    until_async(async || engine.admission().queue_status(second).await.expect("it is known").turn.is_some())
        .await;
    let turn =
        engine.admission().queue_status(second).await.expect("it is known").turn.expect("it waits its turn");
    assert_eq!((turn.holders, turn.ahead), (vec![first], 0), "the status names the permit holder");
    crash(engine).await;

    let engine = project.start().await;
    until_async(async || engine.admission().queue_status(second).await.expect("it is known").turn.is_some())
        .await;
    project.clock.advance(Duration::from_millis(5));
    assert_eq!(
        engine.admission().emit("go", Value::from(1), None).await.expect("it is sent").delivered,
        1,
        "only the first waits for it"
    );
    assert_eq!(end(&engine, first).await, "1");
    assert_eq!(end(&engine, second).await, "1", "it came since the second was accepted");
    stop(engine).await;
}

#[tokio::test]
async fn the_delay_between_iterations_survives_a_restart_and_none_runs_again() {
    let mut peer = Peer::new().await;
    let steps = format!(
        "  - id: poll\n    repeat: {{until: steps.look.results.body.done, max: 3, delay: 10m}}\n    steps:\n      - id: look\n        action: http.request\n        with: {{method: POST, url: \"{}/${{{{ index }}}}\"}}\n",
        peer.base
    );
    let project = Project::with(&manual(&steps));
    let mut engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for turn in 0..3 {
        let asked = peer.next_request().await;
        assert_eq!(asked.line, format!("POST /{turn}"));
        asked.answer(200, if turn == 2 { r#"{"done": true}"# } else { r#"{"done": false}"# }).await;
        if turn < 2 {
            let due = runtime::Clock::now(&project.clock) + Duration::from_secs(600);
            soon(project.clock.somebody_sleeps_until(due)).await;
            crash(engine).await;
            engine = project.start().await;
            soon(project.clock.somebody_sleeps_until(due)).await;
            project.clock.advance(Duration::from_secs(600));
        }
    }
    assert!(end(&engine, id).await.contains(r#""done":true"#));
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_over_50_ms_is_recorded_and_written_with_the_next_commit() {
    let steps = "  - {id: shortest, wait: 50ms}\n  - {id: short, wait: 51ms}\n  - {id: longer, wait: 2s}\n";
    let project = Project::with(&format!("timeout: 1s\n{}", manual(steps)));
    let (engine, counting) = project.start_watched().await;
    let id = start_with(&engine, "{}").await;
    for pause in [50, 51, 2000].map(Duration::from_millis) {
        pass(&project, pause).await;
    }
    assert_eq!(end(&engine, id).await, "null", "recorded pauses do not count against the timeout");
    let events = engine.store().events(id).await.expect("it is read").expect("it exists");
    let waits: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Waiting { at, step, until: Some(until), on: WaitReason::Time, .. } => {
                Some((step.as_str(), until.duration_since(*at).as_millis()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(waits, [("short", 51), ("longer", 2000)]);
    assert_eq!(counting.written().1, 1, "all of it is written with the end");
    stop(engine).await;
}

#[tokio::test]
async fn a_computed_wait_has_the_limit_of_a_constant_one() {
    let wait = |text: &str| manual(&format!("  - wait: ${{{{ '{text}' }}}}\n"));
    let message = outcome_of(&wait("367d")).await;
    assert_eq!(message, "failed: wait: `367d` is too long; a pause is at most 366d, or `until` an instant");
    let project = Project::with(&wait("366d"));
    let engine = project.start().await;
    start_and_suspend(&engine, "{}").await;
    stop(engine).await;
}

#[tokio::test]
async fn a_wait_until_the_end_of_9999_never_ends() {
    for until in ["'9999-12-31T23:59:59Z'", "253402300799", "'9999-12-31T23:59:59.999999999999+00:00'"] {
        let project = Project::with(&manual(&format!("  - wait: {{until: \"{until}\"}}\n")));
        let engine = project.start().await;
        let id = start_and_suspend(&engine, "{}").await;
        crash(engine).await;
        let engine = project.start().await;
        project.clock.advance(Duration::from_secs(366 * 86_400));
        assert_eq!(engine.status().resting, 1, "{until}");
        assert!(engine.admission().cancel(id, "enough").await.expect("it is asked"));
        assert_eq!(end(&engine, id).await, "cancelled: enough");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_timeout_ends_an_execution_that_waits_for_the_next_try_of_a_step() {
    let tried = "{fail: oh, retry: {max: 5, delay: 8s, maxDelay: 10m, on: [all]}}";
    for (text, outcome) in [
        (
            manual(&format!("  - id: g\n    timeout: 10s\n    steps: [{tried}]\n")),
            "failed: step `g` took longer than its timeout of 10s",
        ),
        (
            format!("timeout: 10s\n{}", manual(&format!("  - {tried}\n"))),
            "failed: the execution took longer than its timeout of 10s",
        ),
    ] {
        let project = Project::with(&text);
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        pass(&project, Duration::from_secs(8)).await;
        pass(&project, Duration::from_secs(2)).await;
        assert_eq!(end(&engine, id).await, outcome);
        stop(engine).await;
    }
}
