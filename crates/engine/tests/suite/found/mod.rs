//! Faults that seeds of the simulation found, each by its rule.

mod pauses;
mod places;

use std::time::Duration;

use engine::Engine;
use jiff::Timestamp;
use model::ExecutionId;

use crate::common::{Peer, soon};

async fn waits_its_turn(engine: &Engine, id: ExecutionId) {
    soon(async {
        while engine.admission().queue_status(id).await.expect("it is known").turn.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn rests(engine: &Engine) {
    soon(async {
        while engine.status().resting == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A step that asks the peer, on one line.
fn asks(id: &str, peer: &Peer) -> String {
    format!("{{id: {id}, action: http.request, with: {{method: POST, url: \"{}/{id}\"}}}}", peer.base)
}

/// Until when each of its pauses lasts.
async fn pauses_until(engine: &Engine, id: ExecutionId) -> Vec<Option<Timestamp>> {
    let queue_status = engine.admission().queue_status(id).await.expect("it is known");
    queue_status.pauses.into_iter().map(|pause| pause.until).collect()
}

/// When the store says that each of its pauses is over.
async fn woken_at(engine: &Engine, id: ExecutionId) -> Vec<Option<Timestamp>> {
    let waits = engine.store().waits(id).await.expect("they are read");
    waits.into_iter().map(|wait| wait.until).collect()
}

/// Comes back once nothing but one pause, of so many seconds more, keeps the execution.
async fn rests_for(engine: &Engine, id: ExecutionId, seconds: u64) {
    let due = engine.clock().now() + Duration::from_secs(seconds);
    is_woken_at(engine, id, due).await;
    // The wait is stored before the step has read the events that were sent earlier; then it rests.
    soon(async {
        while engine.status().resting == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(pauses_until(engine, id).await, [Some(due)]);
}

/// Comes back once the store says that the execution goes on at this instant, and at no other.
async fn is_woken_at(engine: &Engine, id: ExecutionId, due: Timestamp) {
    soon(async {
        while woken_at(engine, id).await != [Some(due)] {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
