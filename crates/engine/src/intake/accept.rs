//! The way in: a start becomes durable, and then runs or waits.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use model::action::ActionError;
use model::automation::Automation;
use model::execution::{Event, ExecutionId, Origin};
use model::payload::Payload;
use model::value::Value;
use store::{
    Accept, AcceptOutcome, Capacity, DedupRecord, InitialEvents, NewExecution, PollWrite, Watermark,
};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::Instrument as _;

use super::Queued;
use super::gate::Place;
use crate::Error;
use crate::catalog::Deployed;
use crate::lasting::lasting;
use crate::memory::Share;
use crate::run::{Activity, Cancellation, Journal, Progress, Run, Surroundings};
use crate::services::Services;
use crate::told::Start;

/// When a refused caller may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long the acceptance of an execution waits for code at the most, where somebody waits for the end of all of it.
const FOR_CODE: Duration = Duration::from_millis(50);

/// What is asked to be accepted, beside the start itself.
#[derive(Default)]
pub(crate) struct Terms {
    /// The id, where it is given already.
    pub(crate) id: Option<ExecutionId>,
    /// A key that makes it unique for its Automation.
    pub(crate) key: Option<String>,
    /// The names of what was sent.
    pub(crate) sendings: Vec<DedupRecord>,
    /// The instant up to which its schedule is dealt with, with it.
    pub(crate) watermark: Option<Watermark>,
    /// Whether it must begin at once or not at all.
    pub(crate) at_once: bool,
    /// In whose slot it runs.
    pub(crate) slot: Slot,
    /// What steps read of the payload, where whoever asks has read it already.
    pub(crate) results: Option<Value>,
    /// The error with which the execution begins: none of its main steps runs, only `onError` and `finally`.
    pub(crate) fails: Option<ActionError>,
}

/// The events that an execution begins with behind its start.
fn first_events(at: Timestamp, fails: Option<ActionError>) -> InitialEvents {
    let events = fails.map(|error| Event::Failing { at, error }).into_iter().collect();
    InitialEvents { events, ..InitialEvents::default() }
}

/// What became of a start.
pub(crate) struct Admission {
    /// The execution: this one, or the one that was started by the same before.
    pub(crate) id: ExecutionId,
    /// Which of them it is.
    pub(crate) accepted: AcceptOutcome,
    /// How far it has come, where it has begun and somebody waits for its end.
    pub(crate) progress: Option<watch::Receiver<Progress>>,
}

/// What an execution begins with.
struct Admitted {
    id: ExecutionId,
    /// When it was accepted, and how far the clock was ahead.
    accepted_at: (Timestamp, SignedDuration),
    origin: Origin,
    payload: Arc<Payload>,
    results: Option<Value>,
}

/// Whether an execution may begin before it is accepted. One that has to wait for its turn among others may not, nor one
/// of a schedule, which is counted from its acceptance on.
fn begins_unaccepted(automation: &Automation, origin: &Origin) -> bool {
    automation.concurrency.is_none() && !matches!(origin, Origin::Schedule { .. })
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
    ) -> Result<Admission, Error> {
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
        // Whoever asks may go away while the commit is under way, and what is committed runs.
        lasting(&self.tracker, self.clone().accept_with(permit, deployed.clone(), start, terms)).await
    }

    async fn accept_with(
        self: Arc<Self>,
        permit: Option<OwnedSemaphorePermit>,
        deployed: Arc<Deployed>,
        start: Start,
        terms: Terms,
    ) -> Result<Admission, Error> {
        let (now, ahead) = (self.clock.now(), self.clock.ahead());
        let id = terms.id.unwrap_or_else(|| self.intake.next_id(now));
        // One that fails at its begin is read back from the store, where its error is.
        let begins = terms.fails.is_none() && (permit.is_some() || terms.slot == Slot::Shared);
        let Start { payload, origin } = start;
        let payload = Arc::new(payload);
        let started = Event::Started {
            at: now,
            automation: deployed.automation.id.clone(),
            definition: deployed.automation.definition,
            origin: origin.clone(),
            payload: payload.clone(),
        };
        let Terms { key, sendings, watermark, at_once, results, fails, .. } = terms;
        let already = first_events(now, fails);
        let new =
            NewExecution { id, started, key, dedup: sendings, starts_running: begins, initial: already };
        let accept = Accept { executions: vec![new], watermark, ..Accept::default() };
        let admitted = Admitted { id, accepted_at: (now, ahead), origin, payload, results };
        if begins && begins_unaccepted(&deployed.automation, &admitted.origin) {
            return self.accept_begun(permit, deployed, accept, admitted, at_once).await;
        }
        let accepted = self.accept_durably(&deployed, accept).await?.into_iter().next();
        if let Some(taken @ (AcceptOutcome::Duplicate(first) | AcceptOutcome::Mismatch(first))) = accepted {
            return Ok(Admission { id: first, accepted: taken, progress: None });
        }
        self.intake.count_scheduled(&deployed.automation.id, &admitted.origin);
        if begins {
            let journal = Journal::new(id, &deployed.automation, admitted.accepted_at, self.surroundings());
            let run = self.begin(deployed, journal, admitted);
            self.spawn(run, permit);
        } else {
            self.intake.enqueue(Queued::new(id, ahead));
        }
        Ok(Admission { id, accepted: AcceptOutcome::New, progress: None })
    }

    /// Begins an execution before it is accepted. What it does at first changes nothing outside, and one commit is
    /// enough for its start and all that: at the latest when it is about to do something that can be noticed, or has to
    /// wait for anything, it is accepted. Where whoever asks waits for the end, code may take some time before that.
    async fn accept_begun(
        self: Arc<Self>,
        permit: Option<OwnedSemaphorePermit>,
        deployed: Arc<Deployed>,
        accept: Accept,
        admitted: Admitted,
        at_once: bool,
    ) -> Result<Admission, Error> {
        let id = admitted.id;
        let (services, definition) = (self.clone(), deployed.clone());
        let accepting = Box::new(move |already| {
            let accepting =
                async move { services.accept_with_what_happened(&definition, accept, already).await };
            accepting.boxed()
        });
        let (automation, surroundings) = (&deployed.automation, self.surroundings());
        let journal = Journal::to_accept(id, automation, admitted.accepted_at, surroundings, accepting);
        let run = self.begin(deployed, journal, admitted);
        let progress = at_once.then(|| run.progress.subscribe());
        let mut carried = Box::pin(self.carry(run.clone(), permit));
        let verdict = tokio::select! {
            biased;
            () = &mut carried => None,
            verdict = async {
                if at_once && run.activity.computes() {
                    self.clock.sleep_for(FOR_CODE).await;
                }
                run.journal.verdict().await
            } => Some(verdict),
        };
        let verdict = match verdict {
            Some(verdict) => {
                self.tracker.spawn(carried);
                verdict
            }
            None => run.journal.verdict().await,
        };
        match verdict.map_err(Arc::unwrap_or_clone)? {
            AcceptOutcome::New => Ok(Admission { id, accepted: AcceptOutcome::New, progress }),
            taken @ (AcceptOutcome::Duplicate(first) | AcceptOutcome::Mismatch(first)) => {
                Ok(Admission { id: first, accepted: taken, progress: None })
            }
        }
    }

    async fn accept_with_what_happened(
        &self,
        deployed: &Deployed,
        mut accept: Accept,
        already: InitialEvents,
    ) -> Result<AcceptOutcome, store::Error> {
        if let [new] = accept.executions.as_mut_slice() {
            new.initial = already;
        }
        let accepted = self.accept_durably(deployed, accept).await?;
        Ok(accepted.into_iter().next().unwrap_or(AcceptOutcome::New))
    }

    /// Commits what is accepted. The definition goes first, unless it is known to be there already.
    async fn accept_durably(
        &self,
        deployed: &Deployed,
        accept: Accept,
    ) -> Result<Vec<AcceptOutcome>, store::Error> {
        self.store_definition(deployed).await?;
        let mut accepted = self.store.accept(&accept).await;
        if matches!(accepted, Err(store::Error::NoSuchDefinition(_))) {
            // It was cleared away since it was last put.
            self.forget_stored_definitions();
            self.store_definition(deployed).await?;
            accepted = self.store.accept(&accept).await;
        }
        if self.store.capacity() != Capacity::Ample {
            self.room_wanted.notify_one();
        }
        accepted.inspect_err(|error| self.lost(error))
    }

    /// Makes what a poll found durable together with the executions that it starts, each with the error that it begins with,
    /// and sees to it that they run.
    pub(crate) async fn accept_found(
        self: &Arc<Self>,
        deployed: &Arc<Deployed>,
        starts: Vec<(Start, Option<ActionError>)>,
        poll: PollWrite,
    ) -> Result<(), Error> {
        if !self.accepting() {
            return Err(Error::Closing);
        }
        // As in `accept`: what is committed runs.
        lasting(&self.tracker, self.clone().accept_all(deployed.clone(), starts, poll)).await
    }

    async fn accept_all(
        self: Arc<Self>,
        deployed: Arc<Deployed>,
        starts: Vec<(Start, Option<ActionError>)>,
        poll: PollWrite,
    ) -> Result<(), Error> {
        if !starts.is_empty() && self.intake.queued() + starts.len() > self.settings.limits.queue {
            self.refusals.count(Some(&deployed.automation.id), "busy");
            return Err(Error::Busy { retry_after: RETRY_AFTER });
        }
        let (automation, now, ahead) = (&deployed.automation, self.clock.now(), self.clock.ahead());
        let new = |(start, fails): (Start, Option<ActionError>)| {
            let started = Event::Started {
                at: now,
                automation: automation.id.clone(),
                definition: automation.definition,
                origin: start.origin,
                payload: start.payload.into(),
            };
            NewExecution {
                id: self.intake.next_id(now),
                started,
                key: None,
                dedup: Vec::new(),
                starts_running: false,
                initial: first_events(now, fails),
            }
        };
        let executions: Vec<NewExecution> = starts.into_iter().map(new).collect();
        let ids: Vec<ExecutionId> = executions.iter().map(|new| new.id).collect();
        let accept = Accept { executions, poll: Some(poll), ..Accept::default() };
        self.accept_durably(&deployed, accept).await?;
        for id in ids {
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

    async fn store_definition(&self, deployed: &Deployed) -> Result<(), store::Error> {
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
        let end = state.out_of_hand(id);
        let progress = state.awaited.remove(&id).unwrap_or_else(|| watch::channel(Progress::default()).0);
        progress.send_if_modified(|progress| std::mem::take(&mut progress.rests));
        if let Some(response) = live.journal.response() {
            // Decided before it was read back.
            progress.send_if_modified(|progress| progress.response.replace(response).is_none());
        }
        let observation =
            live.journal.resumed().then(|| self.isolation.observe(id, live.journal.interruptions()));
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
            activity: Activity::default(),
            stretch: AtomicU64::new(0),
            memory: Share::default(),
            observation,
        });
        if let Some(reason) = end {
            run.cancelled.cancel(&reason);
        }
        state.live.insert(id, run.clone());
        drop(state);
        self.intake.moved.notify_waiters();
        run
    }

    fn begin(self: &Arc<Self>, deployed: Arc<Deployed>, journal: Journal, admitted: Admitted) -> Arc<Run> {
        let Admitted { accepted_at: (started_at, _), origin, payload, results, .. } = admitted;
        log_decided(&journal, &payload);
        self.live(Live { deployed, journal, payload, started_at, origin, results })
    }

    pub(super) fn spawn(self: &Arc<Self>, run: Arc<Run>, permit: Option<OwnedSemaphorePermit>) {
        self.tracker.spawn(self.carry(run, permit));
    }

    /// Carries an execution on in a slot. Its place among others is taken at once, and not when this is first polled.
    fn carry(
        self: &Arc<Self>,
        run: Arc<Run>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let automation = &run.deployed.automation.id;
        // For those who look closely: what is logged above that level names the execution itself.
        let span = tracing::debug_span!("execution", id = %run.journal.id(), %automation);
        // Here and not in the task: who comes first has the place.
        let mut place = Place::new(self.clone(), run.clone());
        let enters = place.enter();
        async move {
            let carried = async move {
                if enters {
                    place.carry_on().await;
                }
                // The slot is free before anybody who waits for it is woken.
                drop(permit);
                drop(place);
            };
            let has_passed = || run.journal.has_passed();
            run.services.isolation.run(run.observation.as_ref(), has_passed, carried).await;
        }
        .instrument(span)
    }
}

/// What a live execution is made of.
pub(super) struct Live {
    pub(super) deployed: Arc<Deployed>,
    pub(super) journal: Journal,
    pub(super) payload: Arc<Payload>,
    pub(super) started_at: Timestamp,
    pub(super) origin: Origin,
    pub(super) results: Option<Value>,
}
