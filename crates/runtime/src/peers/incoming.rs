//! Answers the letters of other nodes to the executions and shards of this one.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use model::execution::ExecutionId;
use store::{Letter, News, Recipient};

use super::Peers;
use super::letters::{Reply, Request};
use crate::api::SignalError;
use crate::error::Error;
use crate::recent_events::Delivery;

/// Answers the requests of other nodes about the shards of this one.
#[async_trait]
pub trait ShardRequests: Send + Sync {
    /// Returns the reply. `None` if this node cannot answer now: the request is repeated, here or at the next owner of the shard.
    async fn answer(&self, request: &[u8]) -> Option<Vec<u8>>;
}

impl Peers {
    /// Answers the letters to executions and shards of this node, each in a task of its own.
    pub(super) async fn answer_letters(self: &Arc<Self>) -> Result<(), Error> {
        for letter in self.context.store.letters().await? {
            let is_new = self.answering.lock().unwrap_or_else(PoisonError::into_inner).insert(letter.id);
            if is_new {
                let peers = self.clone();
                self.context.tracker.spawn(async move {
                    peers.answer_letter(&letter).await;
                    peers.answering.lock().unwrap_or_else(PoisonError::into_inner).remove(&letter.id);
                });
            }
        }
        Ok(())
    }

    async fn answer_letter(self: &Arc<Self>, letter: &Letter) {
        // Without a reply it is found again, here or by the next owner.
        let reply = match letter.to {
            Recipient::Execution(id) => match self.handle(id, letter).await {
                Some(reply) => serde_json::to_vec(&reply).ok(),
                None => None,
            },
            Recipient::Shard(_) => match self.shard_requests.get() {
                Some(requests) => requests.answer(&letter.body).await,
                None => None,
            },
        };
        let Some(body) = reply else { return };
        if let Err(error) = self.context.store.answer_letters(vec![(letter.clone(), body)]).await {
            return self.context.lost(&error);
        }
        self.context.store.tell(Some(letter.sender), News::Reply);
    }

    async fn handle(self: &Arc<Self>, id: ExecutionId, letter: &Letter) -> Option<Reply> {
        if !self.admission.has(id) {
            // It is on its way into the table of this node, or out of it.
            return None;
        }
        let request = serde_json::from_slice(&letter.body);
        let request = request
            .inspect_err(|error| tracing::error!(%id, %error, "a message of another daemon cannot be read"));
        Some(match request.ok()? {
            Request::Signal { step, signal, key } => {
                match self.admission.deliver(id, step, Delivery { signal, key }).await {
                    Ok(true) => Reply::Done,
                    Ok(false) => Reply::Known,
                    Err(SignalError::TooMany) => Reply::TooMany,
                    Err(SignalError::Engine(_)) => return None,
                    Err(_) => Reply::NotWaiting,
                }
            }
            Request::Cancel { reason } => match self.admission.cancel_here(id, &reason) {
                true => Reply::Done,
                false => Reply::NotWaiting,
            },
            Request::Note { event } => {
                self.admission.record_event(id, event);
                Reply::Done
            }
        })
    }
}
