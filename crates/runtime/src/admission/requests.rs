//! The operations on executions and events that a person or a program asks for.

use std::sync::Arc;

use async_trait::async_trait;
use catalog::Deployment;
use model::execution::{Event, ExecutionId, Outcome, Signal};
use value::Value;

use super::Admission;
use crate::api::{AcceptOptions, Acceptance, QueueStatus, SentEvent, Start};
use crate::error::Error;
use crate::run::Starter;

impl Admission {
    /// Waits for the end of an execution.
    ///
    /// # Errors
    /// There is no such execution, the store failed, or the engine stops before the end.
    pub async fn wait(&self, id: ExecutionId) -> Result<Outcome, Error> {
        loop {
            let moved = self.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(mut progress) = self.watch(id) {
                let ended = tokio::select! {
                    biased;
                    ended = progress.wait_for(|progress| progress.outcome.is_some() || progress.is_left) => {
                        ended.map(|progress| progress.outcome.clone())
                    }
                    () = self.wait_until_left(id) => Ok(None),
                };
                match ended {
                    Ok(Some(outcome)) => return Ok(outcome),
                    Ok(None) => return Err(Error::Closing),
                    Err(_) => {}
                }
            }
            let loaded = self.context.load_events(id).await?;
            // The memory is free before the next wait.
            let last = loaded.map(|(events, _memory)| events.into_iter().next_back());
            match last.ok_or(Error::NoSuchExecution(id))? {
                Some(Event::Finished { outcome, .. }) => return Ok(outcome),
                _ if !self.context.accepting() => return Err(Error::Closing),
                // It is on its way into memory, or to rest, or another node has it.
                _ => self.next_move_of(id, moved).await,
            }
        }
    }

    /// Asks an execution to end. False if it had ended already.
    ///
    /// # Errors
    /// There is no such execution, or the store failed.
    pub async fn cancel(self: &Arc<Self>, id: ExecutionId, reason: &str) -> Result<bool, Error> {
        if self.cancel_here(id, reason) {
            return Ok(true);
        }
        if let Some(owner) = self.elsewhere(id).await? {
            return self.letters.cancel_elsewhere(owner, id, reason).await;
        }
        match self.context.store.execution(id).await? {
            Some(_) => Ok(false),
            None => Err(Error::NoSuchExecution(id)),
        }
    }

    /// The reason why an execution waits, if it does: its turn, or the pauses of its steps.
    ///
    /// # Errors
    /// There is no such execution, or the store failed.
    pub async fn queue_status(&self, id: ExecutionId) -> Result<QueueStatus, Error> {
        // After a signal the execution waits for a slot, while its other steps may still wait for theirs.
        let queue_status = self.place(id).unwrap_or_default();
        Ok(QueueStatus { pauses: self.pending(id).await?, ..queue_status })
    }

    /// Takes an event to every execution that waits for it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn emit(
        self: &Arc<Self>,
        name: &str,
        data: Value,
        by: Option<String>,
    ) -> Result<SentEvent, Error> {
        let id = uuid::Uuid::new_v4().to_string();
        self.deliver_event(Signal { id, name: name.to_owned(), data, by }, None, false).await
    }
}

#[async_trait]
impl Starter for Admission {
    async fn start(
        self: Arc<Self>,
        deployment: Arc<Deployment>,
        start: Start,
        options: AcceptOptions,
    ) -> Result<Acceptance, Error> {
        self.accept(&deployment, start, options).await
    }

    async fn outcome(&self, id: ExecutionId) -> Result<Option<Outcome>, Error> {
        self.outcome_unless_suspended(id).await
    }

    fn cancel(self: Arc<Self>, id: ExecutionId, reason: &str) {
        self.cancel_here(id, reason);
    }

    async fn end(self: Arc<Self>, id: ExecutionId, reason: &str) -> Result<bool, Error> {
        Self::cancel(&self, id, reason).await
    }

    async fn emit(
        self: Arc<Self>,
        signal: Signal,
        sender: ExecutionId,
        may_repeat: bool,
    ) -> Result<SentEvent, Error> {
        self.deliver_event(signal, Some(sender), may_repeat).await
    }
}
