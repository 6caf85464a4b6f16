//! Regressions found by the simulation, each named after its rule.

mod permits;
mod waits;

use std::time::Duration;

use engine::Engine;
use jiff::Timestamp;
use model::ExecutionId;

use crate::common::{Peer, until_async, until_suspended};

async fn until_waiting_for_permit(engine: &Engine, id: ExecutionId) {
    until_async(async || engine.admission().queue_status(id).await.expect("it is known").turn.is_some())
        .await;
}

/// Formats a step that sends a request to the peer, on one line.
fn request_step(id: &str, peer: &Peer) -> String {
    format!("{{id: {id}, action: http.request, with: {{method: POST, url: \"{}/{id}\"}}}}", peer.base)
}

/// Returns the end of each wait of an execution.
async fn pauses_until(engine: &Engine, id: ExecutionId) -> Vec<Option<Timestamp>> {
    let queue_status = engine.admission().queue_status(id).await.expect("it is known");
    queue_status.pauses.into_iter().map(|pause| pause.until).collect()
}

/// Returns the stored end of each wait of an execution.
async fn woken_at(engine: &Engine, id: ExecutionId) -> Vec<Option<Timestamp>> {
    let waits = engine.store().waits(id).await.expect("they are read");
    waits.into_iter().map(|wait| wait.until).collect()
}

/// Waits until the execution is suspended with a single wait that ends in `seconds`.
async fn until_suspended_for(engine: &Engine, id: ExecutionId, seconds: u64) {
    let due = engine.clock().now() + Duration::from_secs(seconds);
    until_wait_ends_at(engine, id, due).await;
    // The wait is stored before the step has read earlier events; only then is the execution suspended.
    until_suspended(engine).await;
    assert_eq!(pauses_until(engine, id).await, [Some(due)]);
}

/// Waits until the store has exactly one wait of the execution, which ends at `due`.
async fn until_wait_ends_at(engine: &Engine, id: ExecutionId, due: Timestamp) {
    until_async(async || woken_at(engine, id).await == [Some(due)]).await;
}
