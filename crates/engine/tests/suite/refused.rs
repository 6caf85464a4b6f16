//! Executions of which the store refuses writes.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Peer, Project, call, end, manual, settled, soon, start_with, stop};
use crate::watched::Watched;

#[tokio::test]
async fn an_execution_whose_writes_are_refused_makes_no_change_before_they_are_taken() {
    let mut peer = Peer::new().await;
    let project = Project::with(&manual(&call("a", &peer.base, "/a")));
    let store = Arc::new(Watched::new(project.open_store()));
    let engine = project.start_on(store.clone()).await;
    *store.refused_appends.lock().expect("no panic") = Some("permission denied".to_owned());
    let id = start_with(&engine, "{}").await;
    soon(async {
        while !engine.runtime().queue_status(id).await.expect("it is known").for_store {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(peer.asked_already().is_none(), "its result could not be stored");
    *store.refused_appends.lock().expect("no panic") = None;
    settled(&project, "2026-03-02T08:00:00.25Z").await;
    project.clock.advance(Duration::from_millis(250));
    peer.asked().await.answer(200, "1").await;
    assert!(!end(&engine, id).await.starts_with("failed"));
    assert!(peer.asked_already().is_none());
    stop(engine).await;
}
