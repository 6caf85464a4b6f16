//! Snapshots: a loop with waits costs the same in each iteration, and an execution does not see where its replay began.

use std::time::Duration;

use engine::Engine;
use model::{Event, ExecutionId};

use crate::common::{Project, crash, end, json, manual, soon, start_and_suspend, stop};

const HOUR: Duration = Duration::from_secs(3600);

/// Two loops around a wait. Some variables are set in one iteration only, before and inside the inner loop.
const NESTED: &str = r#"  - set: {total: 0, tenth: null, path: []}
  - id: first
    set: {kept: before}
  - id: outer
    timeout: 90d
    repeat: {max: 3}
    steps:
      - set: {round: "${{ index }}"}
      - if: vars.round == 0
        then:
          - id: once
            set: {once: only}
      - id: inner
        repeat: {max: 60, until: index >= 30}
        steps:
          - wait: 1h
          - if: index == 10
            then:
              - set: {tenth: "${{ vars.round }}"}
              - {id: tenth, set: {at: "${{ vars.total }}"}}
          - set: {total: "${{ vars.total + 1 }}"}
      - set: {path: "${{ vars.path + [vars.total] }}"}
  - set:
      all: "${{ vars }}"
      kept: "${{ steps.first.results.kept }}"
      once: "${{ steps.once.results.once }}"
      tenth: "${{ steps.tenth.results.at }}"
"#;

/// Returns the number of events that the next wake replays.
async fn replayed(engine: &Engine, id: ExecutionId) -> usize {
    let log = engine.store().replay_log(id).await.expect("it is read").expect("it is there");
    log.events.len()
}

/// Advances the clock past a wait of one hour. Returns false once the execution has ended.
async fn next_turn(project: &Project, engine: &Engine, id: ExecutionId) -> bool {
    let before = events(engine, id).await;
    project.clock.advance(HOUR);
    until_suspended_again(engine, id, before).await
}

/// Returns the number of events of an execution.
async fn events(engine: &Engine, id: ExecutionId) -> u32 {
    engine.store().execution(id).await.expect("it is read").expect("it is there").events
}

/// Waits until an execution is suspended with more events than `before`. Returns false once it has ended.
async fn until_suspended_again(engine: &Engine, id: ExecutionId, before: u32) -> bool {
    soon(async {
        loop {
            let row = engine.store().execution(id).await.expect("it is read").expect("it is there");
            if row.status.is_terminal() {
                return false;
            }
            if row.events > before && engine.status().resting == 1 {
                return true;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_loop_with_waits_replays_a_bounded_log_and_ends_with_the_same_result() {
    let project = Project::with(&manual(NESTED));
    let mut engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    let (mut most, mut turns) = (0, 0);
    while next_turn(&project, &engine, id).await {
        turns += 1;
        most = most.max(replayed(&engine, id).await);
        if turns % 17 == 0 {
            crash(engine).await;
            engine = project.start().await;
        }
    }
    assert_eq!(turns, 92);
    assert!((128..160).contains(&most), "a wake replayed {most} events");
    let all = engine.store().events(id).await.expect("they are read").expect("it is there");
    assert!(all.len() > 390, "the whole log is kept: {}", all.len());
    let log = engine.store().replay_log(id).await.expect("it is read").expect("it is there");
    assert_eq!((log.snapshot, log.events.len()), (None, all.len()), "the end needs no snapshot");
    assert_eq!(
        end(&engine, id).await,
        concat!(
            r#"{"all":{"total":93,"tenth":2,"path":[31,62,93],"kept":"before","round":2,"once":"only","at":72},"#,
            r#""kept":"before","once":"only","tenth":72}"#
        )
    );
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_with_undo_keeps_all_iterations_in_its_log() {
    let steps = "  - repeat: {max: 60}\n    steps:\n      - wait: 1h\n      - {id: a, set: {x: 1}, undo: [{action: log.info, with: {message: undone}}]}\n      - set: {y: 1}\n";
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    for _ in 0..50 {
        assert!(next_turn(&project, &engine, id).await);
    }
    let log = engine.store().replay_log(id).await.expect("it is read").expect("it is there");
    assert_eq!(log.snapshot, None);
    assert!(log.events.len() > 150);
    stop(engine).await;
}

#[tokio::test]
async fn each_retained_event_ends_one_iteration_and_is_recorded_once() {
    let steps = "  - set: {got: []}\n  - wait: 1h\n  - repeat: {max: 50}\n    steps:\n      - {id: paid, waitFor: {event: paid}}\n      - wait: 1h\n      - set: {got: \"${{ vars.got + [steps.paid.results] }}\"}\n  - set: {got: \"${{ vars.got }}\"}\n";
    let project = Project::with(&manual(steps));
    let mut engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    for number in 0..50 {
        engine.admission().emit("paid", json(&number.to_string()), None).await.expect("it is sent");
    }
    let mut turns = 0;
    while next_turn(&project, &engine, id).await {
        turns += 1;
        if turns % 13 == 0 {
            crash(engine).await;
            engine = project.start().await;
        }
    }
    let all = engine.store().events(id).await.expect("they are read").expect("it is there");
    let signals = all.iter().filter(|event| matches!(event, Event::Signalled { .. })).count();
    assert_eq!((turns, signals), (50, 50));
    let expected: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(end(&engine, id).await, format!(r#"{{"got":[{}]}}"#, expected.join(",")));
    stop(engine).await;
}

#[tokio::test]
async fn the_snapshot_of_a_loop_over_events_contains_only_recent_events() {
    let steps = "  - repeat: {max: 300}\n    steps:\n      - {id: paid, waitFor: {event: paid}}\n";
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = start_and_suspend(&engine, "{}").await;
    let mut most = [0, 0];
    for number in 0..300 {
        let stored = engine.store().replay_log(id).await.expect("it is read").expect("it is there").snapshot;
        let most = &mut most[number / 150];
        *most = stored.map_or(0, |snapshot| snapshot.body.len()).max(*most);
        let before = events(&engine, id).await;
        engine.admission().emit("paid", json(&number.to_string()), None).await.expect("it is sent");
        assert_eq!(until_suspended_again(&engine, id, before).await, number < 299);
    }
    let [early, late] = most;
    assert!(early > 200 && late < early + 100, "{early} bytes in the first turns, {late} in the last");
    stop(engine).await;
}
