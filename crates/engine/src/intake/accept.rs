//! The way in: a start becomes durable, and then runs or waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::execution::{Event, ExecutionId, Origin};
use model::payload::Payload;
use model::value::Value;
use store::{Accept, Accepted, NewExecution, PollWrite, Room, Sending, Watermark};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::Instrument as _;

use super::Queued;
use super::gate::Place;
use crate::Error;
use crate::catalog::Deployed;
use crate::run::{Cancellation, Journal, Progress, Run, Surroundings};
use crate::services::Services;
use crate::told::Start;

/// When a refused caller may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is asked to be accepted, beside the start itself.
#[derive(Default)]
pub(crate) struct Terms {
    /// The id, where it is given already.
    pub(crate) id: Option<ExecutionId>,
    /// A key that makes it unique for its Automation.
    pub(crate) key: Option<String>,
    /// The names of what was sent.
    pub(crate) sendings: Vec<Sending>,
    /// The instant up to which its schedule is dealt with, with it.
    pub(crate) watermark: Option<Watermark>,
    /// Whether it must begin at once or not at all.
    pub(crate) at_once: bool,
    /// In whose slot it runs.
    pub(crate) slot: Slot,
    /// What steps read of the payload, where whoever asks has read it already.
    pub(crate) results: Option<Value>,
}

/// In whose slot an execution runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slot {
    /// In one of its own, for which it may have to wait.
    #[default]
    Own,
    /// In that of the execution that waits for its end.
    Shared,
}

/// Takes what the code of a trigger logged into the execution's log.
pub(super) fn log_decided(journal: &Journal, payload: &Payload) {
    for line in payload.decided().iter().flat_map(|decided| &decided.logs) {
        journal.log(line.level, None, &line.message);
    }
}

impl Services {
    /// Makes a start durable and sees to it that it runs.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        deployed: &Arc<Deployed>,
        start: Start,
        terms: Terms,
    ) -> Result<(ExecutionId, Accepted), Error> {
        if !self.accepting() {
            return Err(Error::Closing);
        }
        let permit = match terms.slot {
            Slot::Own => self.admit(terms.at_once).inspect_err(|_| {
                // What a webhook is answered is counted by its code.
                if !matches!(start.origin, Origin::Webhook | Origin::Test | Origin::Event) {
                    self.refusals.count(Some(&deployed.automation.id), "busy");
                }
            })?,
            Slot::Shared => None,
        };
        // In a task of its own: whoever asks may go away while the commit is under way, and what is committed runs.
        let accepting = self.clone().accept_with(permit, deployed.clone(), start, terms);
        self.tracker.spawn(accepting).await.unwrap_or(Err(Error::Closing))
    }

    async fn accept_with(
        self: Arc<Self>,
        permit: Option<OwnedSemaphorePermit>,
        deployed: Arc<Deployed>,
        start: Start,
        terms: Terms,
    ) -> Result<(ExecutionId, Accepted), Error> {
        let automation = &deployed.automation;
        let (now, ahead) = (self.clock.now(), self.clock.ahead());
        let id = terms.id.unwrap_or_else(|| self.intake.next_id(now));
        let Start { payload, origin } = start;
        let begins = permit.is_some() || terms.slot == Slot::Shared;
        let accept = || {
            let started = Event::Started {
                at: now,
                automation: automation.id.clone(),
                definition: automation.definition,
                origin: origin.clone(),
                payload: payload.clone(),
            };
            let (key, sendings) = (terms.key.clone(), terms.sendings.clone());
            let executions = vec![NewExecution { id, started, key, sendings, begins }];
            Accept { executions, watermark: terms.watermark.clone(), ..Accept::default() }
        };
        let accepted = self.accept_durably(&deployed, accept).await?.into_iter().next();
        match accepted {
            Some(taken @ (Accepted::Duplicate(first) | Accepted::Mismatch(first))) => Ok((first, taken)),
            _ => {
                self.intake.count_scheduled(&automation.id, &origin);
                if begins {
                    let journal = Journal::new(id, automation, (now, ahead), self.surroundings());
                    log_decided(&journal, &payload);
                    let run = self.live(Live {
                        deployed,
                        journal,
                        payload,
                        started_at: now,
                        origin,
                        results: terms.results,
                    });
                    self.spawn(run, permit);
                } else {
                    self.intake.enqueue(Queued::new(id, ahead));
                }
                Ok((id, Accepted::New))
            }
        }
    }

    /// Commits what is accepted. The definition goes first, unless it is known to be there already.
    async fn accept_durably(
        &self,
        deployed: &Deployed,
        accept: impl Fn() -> Accept,
    ) -> Result<Vec<Accepted>, Error> {
        self.store_definition(deployed).await?;
        let mut accepted = self.store.accept(accept()).await;
        if matches!(accepted, Err(store::Error::NoSuchDefinition(_))) {
            // It was cleared away since it was last put.
            self.forget_stored_definitions();
            self.store_definition(deployed).await?;
            accepted = self.store.accept(accept()).await;
        }
        if self.store.room() != Room::Enough {
            self.room_wanted.notify_one();
        }
        Ok(accepted.inspect_err(|error| self.lost(error))?)
    }

    /// Makes what a poll found durable together with the executions that it starts, and sees to it that they run.
    pub(crate) async fn accept_found(
        self: &Arc<Self>,
        deployed: &Arc<Deployed>,
        starts: Vec<Start>,
        poll: PollWrite,
    ) -> Result<(), Error> {
        if !self.accepting() {
            return Err(Error::Closing);
        }
        // In a task of its own, as in `accept`: what is committed runs.
        let accepting = self.clone().accept_all(deployed.clone(), starts, poll);
        self.tracker.spawn(accepting).await.unwrap_or(Err(Error::Closing))
    }

    async fn accept_all(
        self: Arc<Self>,
        deployed: Arc<Deployed>,
        starts: Vec<Start>,
        poll: PollWrite,
    ) -> Result<(), Error> {
        if !starts.is_empty() && self.intake.queued() + starts.len() > self.settings.limits.queue {
            self.refusals.count(Some(&deployed.automation.id), "busy");
            return Err(Error::Busy { retry_after: RETRY_AFTER });
        }
        let (automation, now, ahead) = (&deployed.automation, self.clock.now(), self.clock.ahead());
        let new = |start: Start| {
            let started = Event::Started {
                at: now,
                automation: automation.id.clone(),
                definition: automation.definition,
                origin: start.origin,
                payload: start.payload,
            };
            NewExecution {
                id: self.intake.next_id(now),
                started,
                key: None,
                sendings: Vec::new(),
                begins: false,
            }
        };
        let executions: Vec<NewExecution> = starts.into_iter().map(new).collect();
        let accept =
            || Accept { executions: executions.clone(), poll: Some(poll.clone()), ..Accept::default() };
        self.accept_durably(&deployed, accept).await?;
        for NewExecution { id, .. } in executions {
            self.intake.enqueue(Queued::new(id, ahead));
        }
        Ok(())
    }

    /// A slot if one is free and nobody waits for it; an error if no more may wait.
    fn admit(&self, at_once: bool) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let state = self.intake.state();
        let free = state.backlog.is_empty();
        let full = state.backlog.len() >= self.settings.limits.queue;
        drop(state);
        let permit = if free { self.intake.slots.clone().try_acquire_owned().ok() } else { None };
        if permit.is_none() && (full || at_once) {
            return Err(Error::Busy { retry_after: RETRY_AFTER });
        }
        Ok(permit)
    }

    async fn store_definition(&self, deployed: &Deployed) -> Result<(), Error> {
        let automation = &deployed.automation;
        let hash = automation.definition;
        if self.intake.state().stored.contains(&hash) {
            return Ok(());
        }
        self.store
            .put_definition(super::definition::pack(automation))
            .await
            .inspect_err(|error| self.lost(error))?;
        self.intake.state().stored.insert(hash);
        Ok(())
    }

    /// Forgets which definitions are stored, since some may have been pruned.
    pub(crate) fn forget_stored_definitions(&self) {
        self.intake.state().stored.clear();
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            store: self.store.clone(),
            closing: self.closing.clone(),
            clock: self.clock.clone(),
            notices: self.notices.clone(),
            redactor: self.settings.redactor.clone(),
        }
    }

    pub(super) fn live(self: &Arc<Self>, live: Live) -> Arc<Run> {
        let id = live.journal.id();
        let mut state = self.intake.state();
        let progress = state.awaited.remove(&id).unwrap_or_else(|| watch::channel(Progress::default()).0);
        progress.send_if_modified(|progress| std::mem::take(&mut progress.rests));
        if let Some(response) = live.journal.response() {
            // Decided before it was read back.
            progress.send_if_modified(|progress| progress.response.replace(response).is_none());
        }
        let run = Arc::new(Run {
            deployed: live.deployed,
            services: self.clone(),
            journal: live.journal,
            payload: live.payload,
            results: live.results,
            started_at: live.started_at,
            origin: live.origin,
            undos: Mutex::default(),
            progress,
            cancelled: Cancellation::default(),
        });
        state.live.insert(id, run.clone());
        drop(state);
        self.intake.moved.notify_waiters();
        run
    }

    pub(super) fn spawn(self: &Arc<Self>, run: Arc<Run>, permit: Option<OwnedSemaphorePermit>) {
        let automation = &run.deployed.automation.id;
        let span = tracing::info_span!("execution", id = %run.journal.id(), %automation);
        // Here and not in the task: who comes first has the place.
        let mut place = Place::new(self.clone(), run);
        let enters = place.enter();
        self.tracker.spawn(
            async move {
                if enters {
                    place.carry_on().await;
                }
                // The slot is free before anybody who waits for it is woken.
                drop(permit);
                drop(place);
            }
            .instrument(span),
        );
    }
}

/// What a live execution is made of.
pub(super) struct Live {
    pub(super) deployed: Arc<Deployed>,
    pub(super) journal: Journal,
    pub(super) payload: Payload,
    pub(super) started_at: jiff::Timestamp,
    pub(super) origin: Origin,
    pub(super) results: Option<Value>,
}
