//! The operations on executions and events that a person or a program asks for.

use std::sync::Arc;

use async_trait::async_trait;
use catalog::Deployment;
use jiff::Timestamp;
use model::execution::{Event, ExecutionId, Outcome, Signal};
use store::StateWrite;
use value::Value;

use super::Admission;
use crate::api::{AcceptOptions, Acceptance, QueueStatus, SentEvent, Start};
use crate::detached::spawn_on_drop;
use crate::error::Error;
use crate::outbox::{EventRecord, PendingRow};
use crate::recent_events::{Delivery, Retaining};
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

    /// Creates the place of an event of the engine in the order of delivery to triggers.
    #[must_use]
    pub fn next_event_place(&self) -> ExecutionId {
        self.events.next_place(None)
    }

    /// Returns the time of an event with this name that is kept and came after `after`: the last of the oldest ones. `None` if none
    /// came. Events are kept for 7 days if an automation in force waits for them, or a trigger watches them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn kept_event_after(
        &self,
        name: &str,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, store::Error> {
        let first = ExecutionId::new(after, [0; 10]).to_string();
        let (_, last) = self.events.page(name, &first, self.context.clock.now()).await?;
        let kept = last.and_then(|key| key.parse::<ExecutionId>().ok()?.created_at());
        let noted = self.events.noted_time(name).await?;
        Ok(kept.into_iter().chain(noted.filter(|noted| *noted >= after)).max())
    }

    /// Makes the places of later events greater than the place of an event of an earlier process.
    pub fn continue_events_after(&self, last: ExecutionId) {
        self.events.continue_after(last);
    }

    /// Sends an event with a new id, as [`Self::emit_as`].
    ///
    /// # Errors
    /// See [`Self::emit_as`].
    pub async fn emit(
        self: &Arc<Self>,
        name: &str,
        data: Value,
        by: Option<String>,
    ) -> Result<SentEvent, Error> {
        self.emit_as(None, name, data, by).await
    }

    /// Takes an event to every execution that waits for it, and stores it for the triggers that it starts. If it starts any, the `id` is
    /// stored with it, and a repetition does nothing; `None` for a new id.
    ///
    /// # Errors
    /// The event cannot start what it is to start, or the store failed.
    pub async fn emit_as(
        self: &Arc<Self>,
        id: Option<String>,
        name: &str,
        data: Value,
        by: Option<String>,
    ) -> Result<SentEvent, Error> {
        let record = match &id {
            Some(id) => match self.context.record_of_event(name, id).await? {
                EventRecord::New(record) => Some(record),
                EventRecord::Sent { kept_as } => {
                    // A crash may have come before its delivery.
                    self.deliver_again(name, kept_as).await?;
                    return Ok(SentEvent { id: id.clone(), repeated: true, ..SentEvent::default() });
                }
            },
            None => None,
        };
        let id = id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let signal = Signal { id: id.clone(), name: name.to_owned(), data, by };
        let starts = self.context.starts_of(&signal, None).map_err(|error| {
            if self.context.outbox_is_full() { Error::busy() } else { Error::Input(error.into_message()) }
        })?;
        let Some(row) = starts.row else {
            let sent = self.deliver_event(signal, None, false).await?;
            return Ok(SentEvent { id, ..sent });
        };
        let admission = self.clone();
        // An event that is stored is delivered, even if the caller has gone.
        let sent = spawn_on_drop(&self.context.tracker, async move {
            admission.send_recorded(signal, record, row).await
        });
        let sent = sent.await?;
        let starts = if sent.repeated { Vec::new() } else { starts.triggers };
        Ok(SentEvent { id, starts, ..sent })
    }

    /// Stores an event from outside that starts executions, its record and the retained event in one commit, and then delivers it.
    async fn send_recorded(
        self: &Arc<Self>,
        signal: Signal,
        record: Option<StateWrite>,
        row: PendingRow,
    ) -> Result<SentEvent, Error> {
        let context = &self.context;
        let retaining = self.events.prepare(&signal, None);
        let key = retaining.as_ref().map(|retaining| retaining.write.key.clone());
        let record =
            record.map(|record| StateWrite { value: key.map(Value::from).or(record.value), ..record });
        let writes = record.into_iter().chain(retaining.as_ref().map(|retaining| retaining.write.clone()));
        let emits = vec![row.at(self.events.next_place(None))];
        if let Err(error) = context.store.write_state_and_emit(writes.collect(), emits).await {
            if let Some(retaining) = retaining {
                retaining.give_up();
            }
            // Another request with this id was faster.
            if matches!(error, store::Error::StateChanged { .. }) {
                return Ok(SentEvent { repeated: true, ..SentEvent::default() });
            }
            context.lost(&error);
            return Err(error.into());
        }
        context.outbox.committed([signal.name.as_str()]);
        let retained = retaining.map(Retaining::written);
        if retained.is_none() {
            self.events.note_time(&signal.name).await?;
        }
        let delivered = self.deliver_to_waiting(&Delivery::from(signal), &|_| true).await?;
        Ok(SentEvent { delivered, kept: retained.is_some(), ..SentEvent::default() })
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
