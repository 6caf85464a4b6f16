//! An execution may start before it is stored, as long as this has no visible effect.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Engine;
use model::Payload;
use model::execution::Origin;
use runtime::Error;
use value::Map;

use crate::common::{Peer, Project, call, end, manual, rows, soon, stop, until_async};
use crate::watched::Watched;

async fn watched(yaml: &str) -> (Project, Arc<Watched>, Engine) {
    let project = Project::with(yaml);
    let (engine, store) = project.start_watched().await;
    (project, store, engine)
}

/// Starts the Automation in a task of its own.
fn starting(engine: &Engine) -> tokio::task::JoinHandle<Result<model::ExecutionId, Error>> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let id = engine.catalog().find("test")?.automation.id.clone();
        engine
            .ingress()
            .start(&id.clone().into(), runtime::ManualStart::new(Payload::manual(Map::new()), Origin::Manual))
            .await
    })
}

#[tokio::test]
async fn no_request_is_sent_before_the_execution_is_stored() {
    let mut peer = Peer::new().await;
    let steps = "  - set: {x: 1}\n".to_owned() + &call("a", &peer.base, "/a");
    let (_project, store, engine) = watched(&manual(&steps)).await;
    store.shut();
    let start = starting(&engine);
    store.held(1).await;
    assert!(peer.pending_request().is_none() && !start.is_finished());
    store.gate.add_permits(1000);
    let asked = peer.next_request().await;
    let id = soon(start).await.expect("no panic").expect("it is accepted while the call goes on");
    assert_eq!(rows(&engine).await[0].events, 2, "its start and what was set are one write");
    asked.answer(200, "1").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_start_returns_without_waiting_for_slow_steps() {
    for pause in ["wait: 10s", "code: \"export default () => { for (;;); };\"\n    timeout: 100ms"] {
        let (project, _store, engine) = watched(&manual(&format!("  - {pause}\n"))).await;
        let id = soon(starting(&engine)).await.expect("no panic").expect("it is accepted");
        project.clock.advance(Duration::from_secs(10));
        let outcome = end(&engine, id).await;
        assert_eq!(outcome.starts_with("failed"), pause.starts_with("code"), "{outcome}");
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_start_refused_by_a_full_store_leaves_no_trace() {
    let (_project, store, engine) = watched(&manual("  - set: {x: 1}\n  - fail: no\n")).await;
    store.full.store(1, Ordering::SeqCst);
    let refused = soon(starting(&engine)).await.expect("no panic");
    assert!(matches!(refused, Err(Error::Store(store::Error::Full))), "{refused:?}");
    assert!(engine.status().accepting, "nothing is in doubt");
    assert_eq!((rows(&engine).await.len(), engine.status().in_flight), (0, 0));
    let id = soon(starting(&engine)).await.expect("no panic").expect("there is room again");
    assert_eq!(end(&engine, id).await, "failed: no");
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_runs_although_its_caller_leaves_during_the_commit() {
    let (_project, store, engine) = watched(&manual("  - set: {x: 1}\n")).await;
    store.shut();
    let start = starting(&engine);
    store.held(1).await;
    start.abort();
    assert!(start.await.is_err_and(|error| error.is_cancelled()));
    store.gate.add_permits(1000);
    until_async(async || !rows(&engine).await.is_empty()).await;
    let id = rows(&engine).await[0].id;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}
