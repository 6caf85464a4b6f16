//! Starts while executions of an earlier run of the daemon are read back.

use std::sync::Arc;
use std::time::Duration;

use model::{Event, ExecutionId, Map, Origin, Payload};
use store::{Accept, ExecutionStore as _, InitialEvents, NewExecution};
use tokio::sync::Semaphore;

use crate::common::{Project, settled, soon, stop};
use crate::hooks::{post, text, tokens};
use crate::watched::Watched;

#[tokio::test]
async fn a_synchronous_start_waits_a_moment_for_the_backlog_and_is_then_refused_with_503_not_429() {
    let project = Project::with("trigger: {webhook: {verify: none, mode: sync}}\nsteps: []\n");
    let engine = project.start().await;
    let deployment = engine.catalog().find("test").expect("it is in force").clone();
    let automation = deployment.automation.clone();
    // Stores the definition.
    let answer = soon(Box::pin(engine.ingress().receive(&tokens(&engine).0, post("{}")))).await;
    assert_eq!(answer.status, 200, "{}", text(&answer));
    stop(engine).await;
    let store = Arc::new(Watched::new(project.open_store()));
    let at = "2026-03-02T08:00:00Z".parse().expect("an instant");
    for number in 1..=2 {
        let started = Event::Started {
            at,
            automation: automation.id.clone(),
            definition: automation.definition,
            origin: Origin::Manual,
            payload: Payload::manual(Map::new()).into(),
        };
        let id = ExecutionId::new(at, [number; 10]);
        let (initial, dedup) = (InitialEvents::default(), Vec::new());
        let new =
            NewExecution { id, started, key: None, dedup, starts_running: false, initial, gated: false };
        store.accept(&Accept { executions: vec![new], ..Accept::default() }).await.expect("it is accepted");
    }
    // The first is being read, and the second waits for its turn.
    store.reading.forget_permits(Semaphore::MAX_PERMITS);
    let engine = project.start_on(store.clone()).await;
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
