//! A concurrency limit that changes while executions wait.

use engine::Engine;
use model::ExecutionId;

use crate::common::{Peer, PeerRequest, Project, call, soon, start_with, stop, until};

fn limited(peer: &Peer, concurrency: &str) -> String {
    format!("trigger: {{manual: {{}}}}\n{concurrency}steps:\n{}", call("a", &peer.base, "/a"))
}

/// Writes another text of the file and reloads it.
async fn save(project: &Project, engine: &Engine, text: &str) {
    project.write("automations/test.yaml", text);
    engine.reload().await;
}

async fn start(engine: &Engine, count: usize) -> Vec<ExecutionId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(start_with(engine, "{}").await);
    }
    ids
}

async fn next_requests(peer: &mut Peer, count: usize) -> Vec<PeerRequest> {
    let mut asked = Vec::new();
    for _ in 0..count {
        asked.push(peer.next_request().await);
    }
    assert!(peer.pending_request().is_none(), "no more than {count} run");
    asked
}

/// Waits until `count` executions hold a permit and have not ended.
async fn until_waiting(engine: &Engine, count: usize) {
    until(|| engine.admission().waiting_for_permit() == count).await;
}

#[tokio::test]
async fn a_lowered_limit_applies_once_earlier_permit_holders_have_ended() {
    for old_in_queue in [0, 5] {
        let mut peer = Peer::new().await;
        let project = Project::with(&limited(&peer, "concurrency: {limit: 3}\n"));
        let engine = project.start().await;
        let old = start(&engine, 3 + old_in_queue).await;
        let first = next_requests(&mut peer, 3).await;
        save(&project, &engine, &limited(&peer, "concurrency: {limit: 1}\n")).await;
        let new = start(&engine, 4).await;
        until_waiting(&engine, old_in_queue + 4).await;
        for (held, id) in first.into_iter().zip(&old) {
            assert!(peer.pending_request().is_none(), "more than one permit is taken");
            held.answer(200, "1").await;
            soon(engine.admission().wait(*id)).await.expect("it ends");
        }
        for id in old.iter().skip(3).chain(&new) {
            let only = next_requests(&mut peer, 1).await.remove(0);
            only.answer(200, "1").await;
            soon(engine.admission().wait(*id)).await.expect("it ends, in the order of acceptance");
        }
        assert!(peer.pending_request().is_none());
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_raised_or_removed_limit_starts_waiting_executions_at_once_in_order() {
    for (concurrency, free) in [("concurrency: {limit: 3}\n", 2), ("", 4)] {
        let mut peer = Peer::new().await;
        let project = Project::with(&limited(&peer, "concurrency: {limit: 1}\n"));
        let engine = project.start().await;
        let ids = start(&engine, 5).await;
        let mut running = next_requests(&mut peer, 1).await;
        save(&project, &engine, &limited(&peer, concurrency)).await;
        running.extend(next_requests(&mut peer, free).await);
        until_waiting(&engine, 4 - free).await;
        for held in running {
            held.answer(200, "1").await;
        }
        for _ in 0..4 - free {
            peer.next_request().await.answer(200, "1").await;
        }
        for id in ids {
            soon(engine.admission().wait(id)).await.expect("it ends");
        }
        stop(engine).await;
    }
}

#[tokio::test]
async fn cancel_running_cancels_all_executions_over_a_lowered_limit() {
    let mut peer = Peer::new().await;
    let project = Project::with(&limited(&peer, "concurrency: {limit: 3, policy: cancelRunning}\n"));
    let engine = project.start().await;
    let old = start(&engine, 3).await;
    let held = next_requests(&mut peer, 3).await;
    save(&project, &engine, &limited(&peer, "concurrency: {limit: 1, policy: cancelRunning}\n")).await;
    let newest = start_with(&engine, "{}").await;
    for id in old {
        let ended = crate::common::end(&engine, id).await;
        assert!(ended.starts_with("cancelled: cancelled for a newer execution"), "{ended}");
    }
    drop(held);
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(newest)).await.expect("it ends");
    stop(engine).await;
}
