//! State access outside of executions, and waits that a retry repeats.

use std::time::Duration;

use model::Status;
use runtime::{EngineEvent, Error, StateScope};
use value::Value;

use crate::common::{Project, end, json, pass, soon, start_with, stop};

const HOUR: Duration = Duration::from_secs(3600);

fn scope(text: &str) -> StateScope {
    StateScope::parse(text, false).expect("a scope")
}

#[tokio::test]
async fn an_expired_state_value_is_hidden_at_once_and_deleted_later() {
    let project = Project::with("trigger: {manual: {}}\nsteps: [{set: {x: 1}}]\n");
    let engine = project.start().await;
    let scope = scope("shared");
    engine.context().write_state(&scope, "brief", Value::from(1), Some(HOUR)).await.expect("it is kept");
    engine.context().write_state(&scope, "lasting", Value::from(2), None).await.expect("it is kept");
    let seen = async || -> Vec<String> {
        let (values, next) = engine.context().list_state(&scope, None, 10).await.expect("they are listed");
        assert_eq!(next, None);
        values.into_iter().map(|value| value.key).collect()
    };
    let kept = async || engine.store().list_state("shared", None, 10).await.expect("they are listed").len();
    assert_eq!(seen().await, ["brief", "lasting"]);
    // The first clean-up ran when the engine started.
    pass(&project, HOUR).await;
    assert_eq!((seen().await, kept().await), (vec!["lasting".to_owned()], 2));
    assert_eq!(engine.context().read_state(&scope, "brief").await.expect("it is read"), None);
    // An hour later no writer can be about to overwrite it.
    for _ in 0..2 {
        pass(&project, HOUR).await;
    }
    soon(project.clock.somebody_sleeps_until(engine.clock().now() + HOUR)).await;
    assert_eq!((seen().await, kept().await), (vec!["lasting".to_owned()], 1));
    stop(engine).await;
}

#[tokio::test]
async fn state_written_through_the_api_is_read_by_steps_and_vice_versa() {
    let yaml = "trigger: {manual: {}}\nsteps:\n  - {action: state.increment, with: {key: n}}\noutputs: ${{ state.n }}\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let own = scope("test");
    engine.context().write_state(&own, "n", Value::from(41), None).await.expect("it is kept");
    let id = start_with(&engine, "{}").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    let found = engine.context().read_state(&own, "n").await.expect("it is read").expect("a value");
    assert_eq!(found.value, Value::from(42));
    assert_eq!(engine.context().read_state(&scope("shared"), "n").await.expect("it is read"), None);
    assert!(engine.context().delete_state(&own, "n").await.expect("it is forgotten"));
    assert!(!engine.context().delete_state(&own, "n").await.expect("there is none"));
    stop(engine).await;
}

#[tokio::test]
async fn concurrent_api_writes_to_state_do_not_conflict() {
    let project = Project::with("trigger: {manual: {}}\nsteps: [{set: {x: 1}}]\n");
    let engine = project.start().await;
    let scope = scope("shared");
    let writes = (0..50).map(|n| engine.context().write_state(&scope, "n", Value::from(n), None));
    for written in futures_util::future::join_all(writes).await {
        written.expect("no write comes between another's read and write");
    }
    let long = "k".repeat(513);
    let refused = engine.context().write_state(&scope, &long, Value::from(1), None).await;
    assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    stop(engine).await;
}

#[tokio::test]
async fn an_event_for_a_wait_does_not_end_the_retried_wait_even_after_a_restart() {
    let yaml = "trigger: {manual: {}}
retry: {max: 1, delay: 2s, backoff: 1}
steps:
  - id: go
    waitFor: {event: go, if: event.data.attempt == execution.attempt}
    timeout: 1h
";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let mut notices = engine.subscribe();
    let id = start_with(&engine, "{}").await;
    let mut pauses = async |count: usize| {
        let mut seen = 0;
        while seen < count {
            let EngineEvent::ExecutionEvents { events, .. } = notices.recv().await.expect("notices come")
            else {
                continue;
            };
            seen += events.iter().filter(|event| matches!(event, model::Event::Waiting { .. })).count();
        }
    };
    soon(pauses(1)).await;
    // The event is for the second attempt, which does not wait yet.
    engine.admission().signal(id, None, json(r#"{"attempt": 2}"#), None).await.expect("it is taken");
    pass(&project, HOUR).await;
    pass(&project, Duration::from_secs(2)).await;
    soon(pauses(1)).await;
    soon(engine.shutdown(Duration::ZERO)).await;
    engine.store().close().await.expect("the store closes");

    let engine = project.start().await;
    assert_eq!(engine.admission().queue_status(id).await.expect("it stands").pauses.len(), 1);
    engine
        .admission()
        .signal(id, None, json(r#"{"attempt": 2, "late": true}"#), None)
        .await
        .expect("it is taken");
    let end = end(&engine, id).await;
    assert_eq!(end, r#"{"attempt":2,"late":true}"#);
    let row = engine.store().execution(id).await.expect("it is read").expect("it exists");
    assert_eq!(row.status, Status::Succeeded);
    stop(engine).await;
}

#[tokio::test]
async fn execution_id_is_known_wherever_an_expression_reads_it() {
    let tells = "{action: log.info, with: {message: \"it is ${{ execution.id }} of ${{ automation.id }}\"}}";
    let fails = "{fail: oh}";
    for rest in [
        format!("steps: [{tells}]"),
        format!("steps: [{{id: list, forEach: [1], concurrency: 2, steps: [{tells}]}}]"),
        format!("steps: [{{id: a, fail: oh, onError: [{tells}]}}]"),
        format!("steps: [{{id: a, set: {{x: 1}}, undo: [{tells}]}}, {fails}]"),
        format!("onError: [{tells}]\nsteps: [{fails}]"),
        format!("finally: [{tells}]\nsteps: [{{set: {{x: 1}}}}]"),
    ] {
        let project = Project::with(&format!("trigger: {{manual: {{}}}}\n{rest}\n"));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        soon(engine.admission().wait(id)).await.expect("it ends");
        let logs = engine.store().logs(id, 0, 100).await.expect("they are read");
        let lines: Vec<String> = logs.into_iter().map(|line| line.message).collect();
        assert!(lines.contains(&format!("it is {id} of test")), "{rest}\n{lines:?}");
        stop(engine).await;
    }
    for rest in [
        "outputs: ${{ execution.id }}\nsteps: [{set: {x: 1}}]",
        "outputs: ${{ $.execution.id }}\nsteps: [{set: {x: 1}}]",
        "concurrency: {limit: 1, key: \"${{ execution.id }}\"}\noutputs: \"${{ $['execution']['id'] }}\"\nsteps: [{set: {x: 1}}]",
    ] {
        let project = Project::with(&format!("trigger: {{manual: {{}}}}\n{rest}\n"));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        assert_eq!(end(&engine, id).await, format!("\"{id}\""), "{rest}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_value_is_taken_once_and_set_only_over_the_expected_one() {
    let yaml = "
trigger: {manual: {}}
steps:
  - {id: first, action: state.compareAndSet, with: {key: lock, value: a}}
  - {id: second, action: state.compareAndSet, with: {key: lock, value: b}}
  - {id: third, action: state.compareAndSet, with: {key: lock, expected: a, value: {n: 1}}}
  - {id: fourth, action: state.compareAndSet, with: {key: lock, expected: {n: 1}, value: [c]}}
  - {id: taken, action: state.take, with: {key: lock}}
  - {id: gone, action: state.take, with: {key: lock, default: none}}
outputs: \"${{ [steps.first.results, steps.second.results, steps.third.results.changed, steps.fourth.results.value, steps.taken.results, steps.gone.results, state.lock is defined] }}\"
";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let expected =
        r#"[{"changed":true,"value":"a"},{"changed":false,"value":"a"},true,["c"],["c"],"none",false]"#;
    assert_eq!(end(&engine, id).await, expected);
    assert_eq!(engine.context().read_state(&scope("test"), "lock").await.expect("it is read"), None);
    stop(engine).await;
}

#[tokio::test]
async fn a_duration_of_iso_8601_from_data_ends_a_wait_and_a_value() {
    let yaml = "
trigger: {manual: {}}
configVars: {pause: PT30M, life: PT1H}
steps:
  - wait: \"${{ configVars.pause }}\"
  - {action: state.set, with: {key: brief, value: 1, ttl: \"${{ configVars.life }}\"}}
";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    pass(&project, HOUR / 2).await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    let own = scope("test");
    assert!(engine.context().read_state(&own, "brief").await.expect("it is read").is_some());
    project.clock.advance(HOUR);
    assert_eq!(engine.context().read_state(&own, "brief").await.expect("it is read"), None);
    stop(engine).await;
}
