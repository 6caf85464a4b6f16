//! Starts during the recovery of executions of an earlier daemon process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;
use model::{Automation, Event, ExecutionId, Origin, Payload};
use store::{Accept, InitialEvents, NewExecution};
use tokio::sync::Semaphore;
use value::Map;

use crate::common::{Project, settled, soon, stop};
use crate::hooks::{post, text, tokens};
use crate::watched::Watched;

fn automation(engine: &Engine) -> Arc<Automation> {
    engine.catalog().find("test").expect("it is in force").automation.clone()
}

/// Accepts an execution without an engine, as an earlier daemon process did.
async fn accept(store: &Arc<Watched>, automation: &Automation, number: u8) -> ExecutionId {
    let at = "2026-03-02T08:00:00Z".parse().expect("an instant");
    let started = Event::Started {
        at,
        automation: automation.id.clone(),
        definition: automation.definition,
        origin: Origin::Manual,
        payload: Payload::manual(Map::new()).into(),
        trigger: model::automation::TriggerId::MAIN,
        inputs: None,
    };
    let id = ExecutionId::new(at, [number; 10]);
    let (initial, dedup) = (InitialEvents::default(), Vec::new());
    let new = NewExecution { id, started, key: None, dedup, starts_running: false, initial, gated: false };
    store
        .store()
        .accept(&Accept { executions: vec![new], ..Accept::default() })
        .await
        .expect("it is accepted");
    id
}

/// Creates a project with a stored definition, and opens its store for the next daemon.
async fn stored() -> (Project, Arc<Automation>, Arc<Watched>) {
    let project = Project::with("trigger: {webhook: {verify: none, mode: sync}}\nsteps: []\n");
    let engine = project.start().await;
    let automation = automation(&engine);
    let answer = soon(Box::pin(engine.ingress().receive(&tokens(&engine).0, post("{}")))).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    stop(engine).await;
    let store = Watched::new(project.open_store());
    (project, automation, store)
}

#[tokio::test]
async fn a_failed_read_of_an_accepted_execution_is_retried_without_an_outage() {
    let (project, automation, store) = stored().await;
    let id = accept(&store, &automation, 1).await;
    store.unanswered.store(2, Ordering::SeqCst);
    let engine = project.start_on(store.store()).await;
    assert!(engine.store().outage().is_none());
    let ended = async {
        while engine
            .store()
            .execution(id)
            .await
            .expect("it is read")
            .is_none_or(|row| !row.status.is_terminal())
        {
            project.clock.advance(Duration::from_millis(50));
            tokio::task::yield_now().await;
        }
    };
    soon(ended).await;
    assert_eq!(store.unanswered.load(Ordering::SeqCst), 0);
    stop(engine).await;
}

#[tokio::test]
async fn a_synchronous_start_waits_500_ms_for_recovery_and_then_gets_503() {
    let (project, automation, store) = stored().await;
    for number in 1..=2 {
        accept(&store, &automation, number).await;
    }
    // The first is being read, and the second waits for its turn.
    store.reading.forget_permits(Semaphore::MAX_PERMITS);
    let engine = project.start_on(store.store()).await;
    let (live, _) = tokens(&engine);
    let (ingress, token) = (engine.ingress().clone(), live.clone());
    let waiting = tokio::spawn(async move { Box::pin(ingress.receive(&token, post("{}"))).await });
    settled(&project, "2026-03-02T08:00:00.5Z").await;
    project.clock.advance(Duration::from_millis(500));
    let refused = soon(waiting).await.expect("no panic");
    assert!(
        text(&refused).starts_with("503 ") && text(&refused).contains("being started"),
        "{}",
        text(&refused)
    );
    assert!(refused.header("retry-after").is_some());
    store.reading.add_permits(1 << 20);
    let answer = soon(Box::pin(engine.ingress().receive(&live, post("{}")))).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    stop(engine).await;
}
