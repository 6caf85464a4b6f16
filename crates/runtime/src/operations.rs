//! The operations on executions, events and secrets that a person or a program asks the runtime for.

use std::sync::Arc;

use model::execution::{Event, ExecutionId, Outcome, Signal};
use value::Value;

use crate::admission::SentEvent;
use crate::api::{QueueStatus, Status};
use crate::context::Runtime;
use crate::error::Error;
use crate::secrets::ListedSecret;
use crate::vault::{Rotation, StoredSecret};

impl Runtime {
    /// Waits for the end of an execution.
    ///
    /// # Errors
    /// There is no such execution, the store failed, or the engine stops before the end.
    pub async fn wait(&self, id: ExecutionId) -> Result<Outcome, Error> {
        loop {
            let moved = self.admission.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(mut progress) = self.admission.watch(id) {
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
            let loaded = self.load_events(id).await?;
            // The memory is free before the next wait.
            let last = loaded.map(|(events, _memory)| events.into_iter().next_back());
            match last.ok_or(Error::NoSuchExecution(id))? {
                Some(Event::Finished { outcome, .. }) => return Ok(outcome),
                _ if !self.accepting() => return Err(Error::Closing),
                // It is being loaded or suspended, or another node owns it.
                _ => self.next_move_of(id, moved).await,
            }
        }
    }

    /// Asks an execution to end. False if it had ended already.
    ///
    /// # Errors
    /// There is no such execution, or the store failed.
    pub async fn cancel(self: &Arc<Self>, id: ExecutionId, reason: &str) -> Result<bool, Error> {
        if self.admission.cancel(self, id, reason) {
            return Ok(true);
        }
        if let Some(owner) = self.elsewhere(id).await? {
            return self.cancel_elsewhere(owner, id, reason).await;
        }
        match self.store.execution(id).await? {
            Some(_) => Ok(false),
            None => Err(Error::NoSuchExecution(id)),
        }
    }

    /// Returns the reason why an execution waits, if it does: its queue position, or the waits of its steps.
    ///
    /// # Errors
    /// There is no such execution, or the store failed.
    pub async fn queue_status(&self, id: ExecutionId) -> Result<QueueStatus, Error> {
        // One that something came for waits for a slot, and may pause in other steps meanwhile.
        let queue_status = self.admission.queue_status(id).unwrap_or_default();
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

    /// The existing secrets, by name, never with their values: of the store, then of the folder, then the names
    /// that files of the project require and the environment has.
    #[must_use]
    pub fn secrets(&self) -> Vec<ListedSecret> {
        self.secrets.list(&self.catalog().required_secrets())
    }

    /// The names of the secrets that files of the project require and that are not set.
    #[must_use]
    pub fn unset_secrets(&self) -> Vec<String> {
        self.catalog().required_secrets().into_iter().filter(|name| !self.secrets.is_set(name)).collect()
    }

    /// Stores a secret, sealed. It is durable and in use when this returns.
    ///
    /// # Errors
    /// The name or the value cannot be one, the key cannot be used, or the store failed.
    pub async fn set_secret(&self, name: &str, value: &str) -> Result<StoredSecret, Error> {
        self.vault()?.set_secret(name, value, self.clock.now()).await
    }

    /// Forgets a secret of the store; false if there was none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_secret(&self, name: &str) -> Result<bool, Error> {
        self.vault()?.remove_secret(name).await
    }

    /// Seals the secrets of the store with a new key.
    ///
    /// # Errors
    /// One of them cannot be opened, the key file cannot be written, or the store failed.
    pub async fn rotate_key(&self) -> Result<Rotation, Error> {
        self.vault()?.rotate().await
    }

    /// Returns the state of the engine.
    #[must_use]
    pub fn status(&self) -> Status {
        let runtime = self;
        Status {
            in_flight: runtime.admission.in_flight(),
            resting: runtime.admission.suspended_count(),
            queued: runtime.admission.queued(),
            accepting: runtime.accepts_starts(),
            generation: runtime.catalog.load().generation(),
            refused: runtime.rejections.all(),
            started_at: runtime.started_at,
        }
    }

    /// Comes back with the reason when the store can no longer be trusted, so that the process must exit.
    pub async fn store_lost(&self) -> String {
        let mut fatal = self.fatal.subscribe();
        match fatal.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Starts the tasks that dispatch executions, wake suspended ones and follow the other nodes. They end when the runtime closes.
    pub fn start_tasks(self: &Arc<Self>) {
        self.tracker.spawn(self.clone().dispatch());
        self.tracker.spawn(self.clone().dispatch_large());
        self.tracker.spawn(self.clone().run_wake_timers());
        self.tracker.spawn(self.clone().follow_peers());
        self.tracker.spawn(self.clone().share_backlog());
    }
}
