//! Acceptance: a start becomes durable, and then runs or waits.

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use model::action::ActionError;
use model::automation::{Automation, AutomationId, Trigger, TriggerId};
use model::execution::{Event, ExecutionId, Origin};
use model::payload::Payload;
use store::{Accept, AcceptOutcome, Capacity, InitialEvents, NewExecution};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;
use value::Value;

use super::Admission;
use super::admit::{Admit, Facts, Gate};
use super::backlog::Lane;
use super::concurrency::{RunGuard, is_gated, needs_permit};
use super::table::Queued;
use crate::api::{AcceptOptions, Acceptance, Slot, Start, StartedBy};
use crate::credentials::mask_credentials;
use crate::detached::spawn_on_drop;
use crate::error::Error;
use crate::memory::{Share, trigger_memory};
use crate::observer::Observed;
use crate::run::{Activity, Cancellation, Journal, JournalContext, PendingAcceptance, Run};
use catalog::Deployment;

/// The `Retry-After` of a start during a recovery.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum time that an execution with an immediate start waits behind the backlog for a slot.
const BACKLOG_GRACE: Duration = Duration::from_millis(500);

/// The maximum time that an acceptance waits for code, if the caller waits for the end of the execution.
const CODE_GRACE: Duration = Duration::from_millis(50);

/// The maximum time that an acceptance waits for memory, if the caller waits for the end of the execution.
const MEMORY_GRACE: Duration = Duration::from_secs(10);

/// The events that are stored with the start of an execution.
pub(super) fn initial_events(
    at: Timestamp,
    mut kept: Vec<Event>,
    fails: Option<ActionError>,
) -> InitialEvents {
    kept.extend(fails.map(|error| Event::Failing { at, error }));
    InitialEvents { events: kept, ..InitialEvents::default() }
}

/// The first event of an execution.
pub(super) fn started(
    at: Timestamp,
    automation: &Automation,
    origin: &Origin,
    payload: Arc<Payload>,
    by: &StartedBy,
) -> Event {
    Event::Started {
        at,
        automation: automation.id.clone(),
        definition: automation.definition,
        origin: origin.clone(),
        payload,
        trigger: by.trigger.clone(),
        inputs: by.inputs.clone(),
    }
}

/// An execution that is being accepted.
struct NewRun {
    id: ExecutionId,
    /// The instant of acceptance and the wall offset at that instant.
    accepted_at: (Timestamp, SignedDuration),
    origin: Origin,
    by: StartedBy,
    payload: Arc<Payload>,
    results: Option<Value>,
    /// The memory for the data of its trigger, in bytes; 0 if they are small.
    trigger_memory: usize,
    /// The memory reserved for its large values.
    memory: Share,
}

/// Adds the log lines of the trigger's code to the log of the execution.
pub(super) fn log_trigger_code(journal: &Journal, payload: &Payload) {
    for line in payload.code_result().iter().flat_map(|decided| &decided.logs) {
        journal.log(line.level, None, &line.message);
    }
}

impl Admission {
    /// Accepts a start durably and runs it.
    pub async fn accept(
        self: &Arc<Self>,
        deployment: &Arc<Deployment>,
        start: Start,
        options: AcceptOptions,
    ) -> Result<Acceptance, Error> {
        if !self.context.accepting() {
            return Err(Error::Closing);
        }
        let permit = match options.slot {
            Slot::Own => self.admit(options.at_once).await.inspect_err(|_| {
                // Rejected webhook requests are counted by their error code.
                if !matches!(start.origin, Origin::Webhook | Origin::Test | Origin::Event) {
                    self.context.rejections.count(Some(&deployment.automation.id), "busy");
                }
            })?,
            Slot::Shared => None,
        };
        let (now, wall_offset) = (self.context.clock.now(), self.context.clock.wall_offset());
        let id = options.id.unwrap_or_else(|| self.ids.next(now));
        let Start { mut payload, origin, by } = start;
        let AcceptOptions {
            key,
            dedup_records,
            watermark,
            emits,
            at_once,
            mut results,
            fails,
            kept,
            slot,
            ..
        } = options;
        let has_slot = permit.is_some() || slot == Slot::Shared;
        let has_events = fails.is_some() || !kept.is_empty();
        self.mask_credentials(&deployment.automation, &by.trigger, &mut payload, results.as_mut());
        let payload = Arc::new(payload);
        let started = started(now, &deployment.automation, &origin, payload.clone(), &by);
        let gated = is_gated(&deployment.automation, &origin, &by.trigger);
        let mut admit =
            Admit::decide(self.facts(&deployment.automation, (&origin, &by.trigger), has_slot, has_events));
        let (memory, trigger_memory) = (Share::default(), trigger_memory(&payload, &by, results.as_ref()));
        if trigger_memory > 0
            && slot == Slot::Own
            && admit.needs_memory(at_once)
            && !self.reserve_for_trigger(&memory, trigger_memory, at_once).await?
        {
            admit = Admit::StoreThenQueue;
        }
        let new = NewExecution {
            id,
            started,
            key,
            dedup: dedup_records,
            starts_running: admit != Admit::StoreThenQueue,
            initial: initial_events(now, kept, fails),
            gated,
        };
        let accept = Accept { executions: vec![new], watermark, emits, ..Accept::default() };
        let accepted_at = (now, wall_offset);
        let new_run = NewRun { id, accepted_at, origin, by, payload, results, trigger_memory, memory };
        let (admission, deployment, tracker) = (self.clone(), deployment.clone(), &self.context.tracker);
        // The caller may stop waiting during the commit; an execution that is committed runs.
        if admit == Admit::RunFirst {
            let accepted = admission.accept_running(permit, deployment, accept, new_run, at_once);
            spawn_on_drop(tracker, accepted).await
        } else {
            let runs = admit == Admit::StoreThenRun;
            spawn_on_drop(tracker, admission.accept_stored(permit, deployment, accept, new_run, runs)).await
        }
    }

    /// Stores an execution, and then runs it if it `runs`; otherwise it waits in the backlog.
    async fn accept_stored(
        self: Arc<Self>,
        permit: Option<OwnedSemaphorePermit>,
        deployment: Arc<Deployment>,
        accept: Accept,
        new_run: NewRun,
        runs: bool,
    ) -> Result<Acceptance, Error> {
        let NewRun { id, accepted_at: (_, wall_offset), trigger_memory, .. } = new_run;
        let gated = is_gated(&deployment.automation, &new_run.origin, &new_run.by.trigger);
        let accepted = self.accept_durably(&deployment, accept).await?.into_iter().next();
        if let Some(taken @ (AcceptOutcome::Duplicate(first) | AcceptOutcome::Mismatch(first))) = accepted {
            return Ok(Acceptance { id: first, accepted: taken, progress: None });
        }
        self.context.metrics.count_accepted(&new_run.origin);
        if accepted == Some(AcceptOutcome::Elsewhere) {
            self.hand_over(id).await;
            return Ok(Acceptance { id, accepted: AcceptOutcome::New, progress: None });
        }
        let key = deployment.automation.trigger_key(&new_run.by.trigger);
        self.table().count_scheduled(&key, &new_run.origin);
        if runs {
            let around = JournalContext::from(&*self.context);
            let journal = Journal::new(id, &deployment.automation, new_run.accepted_at, around);
            let run = self.begin(deployment, journal, new_run);
            self.spawn(run, permit);
        } else {
            let queued = self.queued_since_now(&new_run.origin, gated, wall_offset, trigger_memory);
            self.enqueue(&deployment.automation.id, gated, vec![(id, queued)]);
        }
        Ok(Acceptance { id, accepted: AcceptOutcome::New, progress: None })
    }

    /// The facts that decide how a start is admitted.
    fn facts(
        &self,
        automation: &Automation,
        (origin, trigger): (&Origin, &TriggerId),
        has_slot: bool,
        has_events: bool,
    ) -> Facts {
        let gate = match is_gated(automation, origin, trigger) {
            false => Gate::Open,
            true if self.shards.has(&automation.id) => Gate::Here,
            true => Gate::Elsewhere,
        };
        let needs_permit = needs_permit(automation, origin, trigger);
        Facts { has_slot, has_events, needs_permit, gate, is_alone: self.context.store.node().is_none() }
    }

    /// Masks the credentials in the payload of a start, before anything of it is stored or read.
    pub(super) fn mask_credentials(
        &self,
        automation: &Automation,
        trigger: &TriggerId,
        payload: &mut Payload,
        results: Option<&mut Value>,
    ) {
        let on = automation.trigger(trigger).map(|trigger| &trigger.on);
        let verifies = matches!(on, Some(Trigger::Webhook(webhook)) if webhook.verify.is_some());
        mask_credentials(payload, results, verifies, &self.context.settings.redactor);
    }

    /// Runs an execution before it is stored. Its first steps change nothing outside, so its start and their results need one
    /// commit. It is stored at the latest before a step with an outside effect, or when it waits for something. If the caller
    /// waits for the end of the execution, code may run for up to [`CODE_GRACE`] before that.
    fn accept_running(
        self: Arc<Self>,
        permit: Option<OwnedSemaphorePermit>,
        deployment: Arc<Deployment>,
        accept: Accept,
        new_run: NewRun,
        at_once: bool,
    ) -> impl Future<Output = Result<Acceptance, Error>> + Send + use<> {
        let id = new_run.id;
        let definitions = self.records.stored.clone();
        let acceptance = PendingAcceptance::new(accept, deployment.automation.clone(), definitions);
        let (automation, context) = (&deployment.automation, JournalContext::from(&*self.context));
        // The end of the run, which may come before the commit, counts it out again.
        self.table().count_scheduled(&automation.trigger_key(&new_run.by.trigger), &new_run.origin);
        let journal = Journal::to_accept(id, automation, new_run.accepted_at, context, acceptance);
        let guard = self.begin(deployment, journal, new_run);
        let run = guard.run().clone();
        let progress = at_once.then(|| run.progress.subscribe());
        let driven = Box::pin(self.drive(guard, permit));
        async move {
            let accepted = self.drive_until_stored(&run, driven, at_once).await?;
            match accepted {
                AcceptOutcome::New => {
                    self.context.metrics.count_accepted(&run.origin);
                    Ok(Acceptance { id, accepted: AcceptOutcome::New, progress })
                }
                taken @ (AcceptOutcome::Duplicate(first) | AcceptOutcome::Mismatch(first)) => {
                    Ok(Acceptance { id: first, accepted: taken, progress: None })
                }
                // Only executions that no other node can own run before they are stored.
                AcceptOutcome::Elsewhere => Err(Error::Closing),
            }
        }
    }

    /// Polls an execution until it is stored. Then it continues as a task.
    async fn drive_until_stored(
        &self,
        run: &Run,
        mut driven: BoxFuture<'static, ()>,
        at_once: bool,
    ) -> Result<AcceptOutcome, Error> {
        let verdict = tokio::select! {
            biased;
            () = &mut driven => None,
            verdict = async {
                if at_once && run.activity.computes() {
                    self.context.clock.sleep_for(CODE_GRACE).await;
                }
                run.journal.verdict().await
            } => Some(verdict),
        };
        let verdict = match verdict {
            Some(verdict) => {
                self.context.tracker.spawn(driven);
                verdict
            }
            None => run.journal.verdict().await,
        };
        Ok(self.after_write(verdict.map_err(Arc::unwrap_or_clone))?)
    }

    /// Commits executions and their definition.
    pub(super) async fn accept_durably(
        &self,
        deployment: &Deployment,
        accept: Accept,
    ) -> Result<Vec<AcceptOutcome>, store::Error> {
        let definitions = &self.records.stored;
        self.after_write(definitions.accept(&*self.context.store, &deployment.automation, &accept).await)
    }

    /// Notes how the store took an acceptance: that it has little room left, or has failed.
    fn after_write<T>(&self, result: Result<T, store::Error>) -> Result<T, store::Error> {
        if self.context.store.capacity() != Capacity::Ample {
            self.context.room_wanted.notify_one();
        }
        result.inspect_err(|error| self.context.lost(error))
    }

    /// Describes an accepted execution that joins the backlog. It needs so much `memory` for the data of its trigger, if they are large.
    pub(super) fn queued_since_now(
        &self,
        origin: &Origin,
        gated: bool,
        wall_offset: SignedDuration,
        memory: usize,
    ) -> Queued {
        let queued = Queued {
            memory,
            is_small: memory == 0,
            ..Queued::new(wall_offset, self.context.clock.monotonic_now())
        };
        queued.movable(origin, gated || memory > 0)
    }

    /// Appends accepted executions of one trigger to the backlog, and wakes those who take from there. If the shard has moved here during
    /// the write, gated ones wait until this node has read the other ones of it: one of those may have the permit that these need.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        automation: &AutomationId,
        gated: bool,
        executions: Vec<(ExecutionId, Queued)>,
    ) {
        if executions.is_empty() {
            return;
        }
        if !gated || self.shards.has(automation) {
            return self.add_to_backlog(executions);
        }
        let (admission, automation) = (self.clone(), automation.clone());
        self.context.tracker.spawn(async move {
            let arrival = admission.shards.arrival(&automation);
            if admission.context.closing.run_until_cancelled(arrival).await.is_some() {
                admission.add_to_backlog(executions);
            }
        });
    }

    fn add_to_backlog(&self, executions: Vec<(ExecutionId, Queued)>) {
        let mut table = self.table();
        for (id, queued) in executions {
            table.enqueue(id, queued);
        }
        drop(table);
        self.wake_backlog();
    }

    fn wake_backlog(&self) {
        self.wake_dispatchers();
        self.joined.notify_one();
    }

    /// Acquires a slot if one is free and the backlog is empty. An execution that must begin at once waits up to
    /// [`BACKLOG_GRACE`] while the backlog gets the free slots, as after a start or a takeover.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] if the execution would have to wait and may not, and [`Error::Recovering`] if that is not for lack of
    /// slots.
    async fn admit(&self, at_once: bool) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let give_up = self.context.clock.monotonic_now().after(BACKLOG_GRACE);
        loop {
            let moved = self.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let full = self.queued() >= self.context.settings.limits.queue;
            let permit = if self.table().waiting_count(Lane::Slot) == 0 {
                self.slots.clone().try_acquire_owned().ok()
            } else {
                None
            };
            if permit.is_some() || !(full || at_once) {
                return Ok(permit);
            }
            if full || self.slots.available_permits() == 0 {
                return Err(Error::busy());
            }
            tokio::select! {
                biased;
                () = moved => {}
                () = self.context.clock.sleep_until_monotonic(give_up) => {
                    return Err(Error::Recovering { retry_after: RETRY_AFTER });
                }
            }
        }
    }

    /// Reserves memory for the large data of a trigger. Returns false if it is taken and the execution may wait for it later.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] if it is taken for [`MEMORY_GRACE`] and the execution may not wait.
    async fn reserve_for_trigger(&self, memory: &Share, bytes: usize, at_once: bool) -> Result<bool, Error> {
        if self.context.memory.try_reserve(memory, bytes) {
            return Ok(true);
        }
        if !at_once {
            return Ok(false);
        }
        tokio::select! {
            biased;
            () = self.context.memory.reserve(memory, bytes) => Ok(true),
            () = self.context.clock.sleep_for(MEMORY_GRACE) => Err(Error::busy()),
        }
    }

    /// Returns the memory, in bytes, for the data of a trigger whose execution runs at the node that has the shard of its
    /// automation; `None` if it runs here, or the data are small.
    #[must_use]
    pub fn trigger_memory_elsewhere(
        &self,
        automation: &Automation,
        Start { payload, origin, by }: &Start,
        results: Option<&Value>,
    ) -> Option<usize> {
        let is_elsewhere = is_gated(automation, origin, &by.trigger) && !self.shards.has(&automation.id);
        is_elsewhere.then(|| trigger_memory(payload, by, results)).filter(|bytes| *bytes > 0)
    }

    /// Waits for memory for the data of a trigger, as the acceptance of a synchronous execution does, and releases it. Returns
    /// false if it stays taken.
    pub async fn has_trigger_memory(&self, bytes: usize) -> bool {
        self.reserve_for_trigger(&Share::default(), bytes, true).await.is_ok()
    }

    /// Registers an execution that runs from now on.
    pub(super) fn register(self: &Arc<Self>, mut parts: RunParts) -> RunGuard {
        let id = parts.journal.id();
        if let Some(observer) = &self.context.settings.observer {
            parts.journal.observe(Observed::enter(observer, id, &parts.payload, &parts.origin));
        }
        let response = parts.journal.response();
        let observation = parts
            .journal
            .is_resumed()
            .then(|| self.context.isolation.observe(id, parts.journal.interruptions()));
        let mut table = self.table();
        let progress = table.progress(id);
        progress.send_if_modified(|progress| std::mem::take(&mut progress.is_parked));
        if let Some(response) = response {
            // Decided before it was read back.
            progress.send_if_modified(|progress| progress.response.replace(response).is_none());
        }
        let run = Arc::new(Run {
            deployment: parts.deployment,
            context: self.context.clone(),
            connections: self.connections.clone(),
            events: self.events.clone(),
            starter: self.clone(),
            journal: parts.journal,
            payload: parts.payload,
            results: parts.results,
            started_at: parts.started_at,
            origin: parts.origin,
            by: parts.by,
            undos: Mutex::default(),
            successes: Mutex::default(),
            progress,
            cancelled: Cancellation::default(),
            activity: Activity::default(),
            stretch: AtomicU64::new(0),
            trigger_memory: parts.trigger_memory,
            memory: parts.memory,
            observation,
        });
        let has_held = table.has_held();
        let (pending_cancel, ahead) = table.register(id, run.clone());
        if let Some(reason) = pending_cancel.or(parts.cancel) {
            run.cancelled.cancel(&reason);
        }
        drop(table);
        if has_held {
            // It may have been the last for which they were held.
            self.wake_dispatchers();
        }
        self.moved.notify_waiters();
        RunGuard::new(self.clone(), run, ahead, parts.has_begun)
    }

    fn begin(
        self: &Arc<Self>,
        deployment: Arc<Deployment>,
        journal: Box<Journal>,
        new_run: NewRun,
    ) -> RunGuard {
        let NewRun { accepted_at, origin, by, payload, results, trigger_memory, memory, .. } = new_run;
        let (started_at, _) = accepted_at;
        log_trigger_code(&journal, &payload);
        self.register(RunParts {
            deployment,
            journal,
            payload,
            started_at,
            origin,
            by,
            results,
            trigger_memory,
            memory,
            has_begun: false,
            cancel: None,
        })
    }

    pub(super) fn spawn(self: &Arc<Self>, guard: RunGuard, slot: Option<OwnedSemaphorePermit>) {
        self.context.tracker.spawn(self.drive(guard, slot));
    }

    /// Drives an execution in a slot. It asks for its permit at once, and not when the future is first polled. One without a slot
    /// is waited for, or only ends: it does not wait for memory.
    fn drive(
        self: &Arc<Self>,
        mut guard: RunGuard,
        slot: Option<OwnedSemaphorePermit>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let run = guard.run().clone();
        let automation = &run.deployment.automation.id;
        // At debug level only: a line above that level names the execution itself.
        let span = tracing::debug_span!("execution", id = %run.journal.id(), %automation);
        // Permits go in the order of registration.
        let may_run = guard.acquire_permit() && (slot.is_none() || guard.acquire_memory());
        async move {
            let driven = pin!(async move {
                if may_run {
                    let disposition = guard.drive().await;
                    // The slot is free before callers that wait for the execution are woken.
                    drop(slot);
                    guard.end(disposition);
                }
            });
            let has_passed = || run.journal.has_passed();
            run.context.isolation.run(run.observation.as_ref(), has_passed, driven).await;
        }
        .instrument(span)
    }
}

/// The parts of a run.
pub(super) struct RunParts {
    pub(super) deployment: Arc<Deployment>,
    pub(super) journal: Box<Journal>,
    pub(super) payload: Arc<Payload>,
    pub(super) started_at: Timestamp,
    pub(super) origin: Origin,
    pub(super) by: StartedBy,
    pub(super) results: Option<Value>,
    /// The memory for the data of its trigger, in bytes; 0 if they are small.
    pub(super) trigger_memory: usize,
    /// The memory reserved for its large values.
    pub(super) memory: Share,
    /// True if it has events of its own after its start in the store, so that it may hold a permit.
    pub(super) has_begun: bool,
    /// The reason to cancel it at once.
    pub(super) cancel: Option<String>,
}
