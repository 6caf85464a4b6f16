//! Letters: requests to the node that owns an execution or a shard. A letter stays in the store until that node, or the next owner,
//! has answered it. So a confirmed answer of a person is never lost.

use std::sync::Arc;
use std::time::Duration;

use model::automation::AutomationId;
use model::execution::{Event, ExecutionId, Signal};
use serde::{Deserialize, Serialize};
use store::{Letter, LetterState, News, NodeId, Recipient, Shard};
use tokio::sync::Notify;

use crate::api::SignalError;
use crate::context::Context;
use crate::error::Error;
use crate::recent_events::Delivery;

/// The time that a sender waits for a reply.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pauses between two looks for a reply: the hint may be lost.
const FIRST_CHECK_DELAY: Duration = Duration::from_millis(250);
const MAX_CHECK_DELAY: Duration = Duration::from_secs(2);
/// The time after the end of an execution in which its owner can still write a reply.
const REPLY_GRACE: Duration = Duration::from_secs(3);

/// A request to the owner of an execution.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Request {
    /// Deliver a signal to a waiting step.
    Signal {
        step: String,
        signal: Signal,
        /// The key in the order of retained events of an event that the step may have passed.
        key: Option<String>,
    },
    /// End the execution.
    Cancel { reason: String },
    /// Record an event that explains the history.
    Note { event: Event },
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reply {
    /// It is done.
    Done,
    /// The signal was delivered before.
    Known,
    /// No step waits for it, or the execution has ended.
    NotWaiting,
    /// The step has received more signals than it reads.
    TooMany,
}

/// Sends letters to other nodes and waits for their replies.
pub(crate) struct Letters {
    context: Arc<Context>,
    /// Notified when replies may have come.
    pub(super) replies: Notify,
}

impl Letters {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, replies: Notify::new() }
    }

    /// Delivers a signal to an execution of another node. It is durable when this returns; false if it was delivered before.
    pub(crate) async fn deliver_elsewhere(
        &self,
        owner: NodeId,
        id: ExecutionId,
        step: &str,
        delivery: Delivery,
    ) -> Result<bool, SignalError> {
        let Delivery { signal, key } = delivery;
        let request = Request::Signal { step: step.to_owned(), signal, key };
        match self.ask(owner, id, &request).await? {
            Reply::Done => Ok(true),
            Reply::Known => Ok(false),
            Reply::NotWaiting => Err(SignalError::NotWaiting),
            Reply::TooMany => Err(SignalError::TooMany),
        }
    }

    /// Asks an execution of another node to end. Returns false if it had ended already.
    pub(crate) async fn cancel_elsewhere(
        &self,
        owner: NodeId,
        id: ExecutionId,
        reason: &str,
    ) -> Result<bool, Error> {
        let reply = self.ask(owner, id, &Request::Cancel { reason: reason.to_owned() }).await?;
        Ok(reply == Reply::Done)
    }

    /// Records an event in the log of an execution of another node, if it has not ended.
    pub(crate) async fn note_elsewhere(
        &self,
        owner: NodeId,
        id: ExecutionId,
        event: Event,
    ) -> Result<(), Error> {
        self.ask(owner, id, &Request::Note { event }).await.map(drop)
    }

    /// Sends a request to the owner of the shard of an Automation, and waits so long for its reply.
    ///
    /// # Errors
    /// The owner did not answer, the engine stops, or the store failed.
    pub(super) async fn ask_shard(
        &self,
        automation: &AutomationId,
        request: Vec<u8>,
        patience: Duration,
    ) -> Result<Vec<u8>, Error> {
        let shard = Shard::of(automation);
        let nodes = self.context.store.nodes().await?;
        let owner = nodes.iter().find(|node| !node.dead && node.shards.contains(shard)).map(|node| node.id);
        let reply = self.send_and_wait(owner, Recipient::Shard(shard), request, patience).await?;
        reply.ok_or(Error::Unanswered)
    }

    /// Sends a request to the owner of an execution and waits for its reply.
    async fn ask(&self, owner: NodeId, execution: ExecutionId, request: &Request) -> Result<Reply, Error> {
        let body = serde_json::to_vec(request).map_err(|error| Error::Input(error.to_string()))?;
        let to = Recipient::Execution(execution);
        match self.send_and_wait(Some(owner), to, body, PATIENCE).await? {
            Some(reply) => {
                let unreadable =
                    |error: serde_json::Error| Error::Input(format!("a reply cannot be read: {error}"));
                serde_json::from_slice(&reply).map_err(unreadable)
            }
            None => Ok(Reply::NotWaiting),
        }
    }

    /// Sends a request and waits for its reply; `None` if its recipient has ended.
    async fn send_and_wait(
        &self,
        owner: Option<NodeId>,
        to: Recipient,
        body: Vec<u8>,
        patience: Duration,
    ) -> Result<Option<Vec<u8>>, Error> {
        let sender = self.context.store.node().ok_or(Error::Unanswered)?;
        let letter = Letter { id: store::random()?, to, sender, body };
        self.context.store.send_letter(letter.clone()).await?;
        if owner.is_some() {
            self.context.store.tell(owner, News::Letter);
        }
        let reply = self.reply_to(&letter, patience).await;
        self.context.store.delete_letter(&letter).await?;
        reply
    }

    async fn reply_to(&self, letter: &Letter, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        let give_up = self.context.clock.monotonic_now().after(patience);
        let (mut pause, mut ended_until) = (FIRST_CHECK_DELAY, None);
        loop {
            let replied = self.replies.notified();
            tokio::pin!(replied);
            replied.as_mut().enable();
            let now = self.context.clock.monotonic_now();
            match self.context.store.letter_state(letter).await? {
                LetterState::Answered(body) => return Ok(Some(body)),
                LetterState::Ended if now >= *ended_until.get_or_insert(now.after(REPLY_GRACE)) => {
                    return Ok(None);
                }
                LetterState::Open if now >= give_up => return Err(Error::Unanswered),
                LetterState::Ended | LetterState::Open => {}
            }
            tokio::select! {
                biased;
                () = self.context.closing.cancelled() => return Err(Error::Closing),
                () = replied => {}
                () = self.context.clock.sleep_for(pause) => pause = (pause * 2).min(MAX_CHECK_DELAY),
            }
        }
    }
}
