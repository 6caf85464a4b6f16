//! From an accepted start to a running execution: durable first, then a slot, in order, within limits.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::automation::{AutomationId, Concurrency, ConcurrencyPolicy, DefinitionHash, Overlap, Trigger};
use model::execution::{Event, ExecutionId, Origin, Outcome};
use model::payload::Payload;
use store::{Accept, Accepted, Definition, NewExecution, Watermark};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tracing::Instrument as _;

use crate::Error;
use crate::catalog::Deployed;
use crate::engine::{Services, Start};
use crate::run::{Cancellation, Journal, Progress, Run, Surroundings};

/// When a refused caller may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Compiled definitions that are no longer in force but still run, at most.
const OLD_DEFINITIONS: usize = 256;
/// Unfinished executions that are read at one time when the engine starts.
const PAGE: u32 = 5000;

/// Executions that are accepted and have not ended.
pub(crate) struct Intake {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    /// Accepted, waiting for a slot, in order of acceptance.
    backlog: VecDeque<ExecutionId>,
    /// Running in this process.
    live: HashMap<ExecutionId, Arc<Run>>,
    /// Where somebody waits for the end of one that has not begun.
    awaited: HashMap<ExecutionId, watch::Sender<Progress>>,
    /// Executions of each schedule that have not ended.
    scheduled: HashMap<AutomationId, usize>,
    gates: HashMap<(AutomationId, String), Gate>,
    /// Definitions known to be stored.
    stored: HashSet<DefinitionHash>,
    old: HashMap<DefinitionHash, Arc<Deployed>>,
    refused: BTreeMap<&'static str, u64>,
    /// When the last id was given out, and how many before it in the same millisecond.
    last_millisecond: i64,
    sequence: u16,
}

/// The executions of one concurrency key. Derived from live executions, so a slot cannot leak.
#[derive(Default)]
struct Gate {
    holders: Vec<ExecutionId>,
    waiting: VecDeque<ExecutionId>,
}

/// What is asked to be accepted, beside the start itself.
#[derive(Default)]
pub(crate) struct Terms {
    /// A key that makes it unique for its Automation.
    pub(crate) key: Option<String>,
    /// The instant up to which its schedule is dealt with, with it.
    pub(crate) watermark: Option<Watermark>,
    /// Whether it must begin at once or not at all.
    pub(crate) at_once: bool,
}

impl Intake {
    pub(crate) fn new(in_flight: usize) -> Self {
        let slots = Arc::new(Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS)));
        Self { slots, state: Mutex::new(State::default()), wake: Notify::new() }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.state().live.len()
    }

    pub(crate) fn queued(&self) -> usize {
        self.state().backlog.len()
    }

    pub(crate) fn refused(&self) -> BTreeMap<String, u64> {
        self.state().refused.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect()
    }

    /// Counts a start that was refused or passed over.
    pub(crate) fn count_refused(&self, reason: &'static str) {
        *self.state().refused.entry(reason).or_default() += 1;
    }

    /// Whether an execution that the Automation's schedule started has not ended.
    pub(crate) fn schedule_is_busy(&self, automation: &AutomationId) -> bool {
        self.state().scheduled.get(automation).is_some_and(|count| *count > 0)
    }

    /// How far an execution has come, if it has not ended.
    pub(crate) fn watch(&self, id: ExecutionId) -> Option<watch::Receiver<Progress>> {
        let mut state = self.state();
        if let Some(run) = state.live.get(&id) {
            return Some(run.progress.subscribe());
        }
        let waits =
            state.backlog.contains(&id) || state.gates.values().any(|gate| gate.waiting.contains(&id));
        waits.then(|| {
            state.awaited.entry(id).or_insert_with(|| watch::channel(Progress::default()).0).subscribe()
        })
    }

    /// Asks an execution to end. False if this process does not have it.
    pub(crate) fn cancel(&self, services: &Arc<Services>, id: ExecutionId, reason: &str) -> bool {
        let mut state = self.state();
        if let Some(run) = state.live.get(&id) {
            run.cancelled.cancel(reason);
            return true;
        }
        let position = state.backlog.iter().position(|waiting| *waiting == id);
        let queued = position.and_then(|position| state.backlog.remove(position)).is_some();
        let gated = state.gates.values_mut().any(|gate| {
            let before = gate.waiting.len();
            gate.waiting.retain(|waiting| *waiting != id);
            gate.waiting.len() < before
        });
        drop(state);
        if queued || gated {
            // It begins without a slot, only to end at once.
            let services = services.clone();
            let reason = reason.to_owned();
            let tracker = services.tracker.clone();
            tracker.spawn(async move { services.load_and_run(id, None, Some(reason)).await });
        }
        queued || gated
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let permit = self.admit(terms.at_once)?;
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
        let now = self.clock.now();
        let id = self.intake.next_id(now);
        let Start { payload, origin } = start;
        let started = Event::Started {
            at: now,
            automation: automation.id.clone(),
            definition: automation.definition,
            origin: origin.clone(),
            payload: payload.clone(),
        };
        let executions = vec![NewExecution { id, started, key: terms.key }];
        let accept = Accept { executions, watermark: terms.watermark };
        let accepted = self.accept_durably(&deployed, accept).await?;
        match accepted {
            Some(Accepted::Duplicate(first)) => Ok((first, Accepted::Duplicate(first))),
            _ => {
                self.intake.count_scheduled(&automation.id, &origin);
                match permit {
                    Some(permit) => {
                        let journal = Journal::new(id, automation.id.clone(), self.surroundings());
                        let run = self.live(deployed, journal, payload, now);
                        self.spawn(run, Some(permit), origin);
                    }
                    None => self.intake.enqueue(id),
                }
                Ok((id, Accepted::New))
            }
        }
    }

    /// Commits what is accepted. The definition goes first, unless it is known to be there already.
    async fn accept_durably(&self, deployed: &Deployed, accept: Accept) -> Result<Option<Accepted>, Error> {
        self.store_definition(deployed).await?;
        let mut accepted = self.store.accept(accept.clone()).await;
        if matches!(accepted, Err(store::Error::NoSuchDefinition(_))) {
            // It was cleared away since it was last put.
            self.forget_stored_definitions();
            self.store_definition(deployed).await?;
            accepted = self.store.accept(accept).await;
        }
        Ok(accepted.inspect_err(|error| self.lost(error))?.into_iter().next())
    }

    /// A slot if one is free and nobody waits for it; an error if no more may wait.
    fn admit(&self, at_once: bool) -> Result<Option<OwnedSemaphorePermit>, Error> {
        let state = self.intake.state();
        let free = state.backlog.is_empty();
        let full = state.backlog.len() >= self.settings.limits.queue;
        drop(state);
        let permit = if free { self.intake.slots.clone().try_acquire_owned().ok() } else { None };
        if permit.is_none() && (full || at_once) {
            self.intake.count_refused("busy");
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
        let definition = Definition {
            hash,
            automation: automation.id.clone(),
            path: automation.source.path().to_owned(),
            text: automation.source.text().to_owned(),
        };
        self.store.put_definition(definition).await.inspect_err(|error| self.lost(error))?;
        self.intake.state().stored.insert(hash);
        Ok(())
    }

    /// Forgets which definitions are stored, since some may have been pruned.
    pub(crate) fn forget_stored_definitions(&self) {
        self.intake.state().stored.clear();
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings { store: self.store.clone(), clock: self.clock.clone(), notices: self.notices.clone() }
    }

    fn live(
        self: &Arc<Self>,
        deployed: Arc<Deployed>,
        journal: Journal,
        payload: Payload,
        started_at: jiff::Timestamp,
    ) -> Arc<Run> {
        let id = journal.id();
        let mut state = self.intake.state();
        let progress = state.awaited.remove(&id).unwrap_or_else(|| watch::channel(Progress::default()).0);
        let run = Arc::new(Run {
            deployed,
            services: self.clone(),
            journal,
            payload,
            started_at,
            progress,
            cancelled: Cancellation::default(),
        });
        state.live.insert(id, run.clone());
        run
    }

    fn spawn(self: &Arc<Self>, run: Arc<Run>, permit: Option<OwnedSemaphorePermit>, origin: Origin) {
        let automation = &run.deployed.automation.id;
        let span = tracing::info_span!("execution", id = %run.journal.id(), %automation);
        let services = self.clone();
        self.tracker.spawn(
            async move {
                let mut end = End { services, run, origin, gated: None, waits: false };
                if end.enter() {
                    end.run.execute().await;
                }
                // The slot is free before anybody who waits for it is woken.
                drop(permit);
                drop(end);
            }
            .instrument(span),
        );
    }

    /// Reads back an accepted execution and runs it on from where it stands.
    pub(crate) async fn load_and_run(
        self: Arc<Self>,
        id: ExecutionId,
        permit: Option<OwnedSemaphorePermit>,
        cancel: Option<String>,
    ) {
        let loaded = self.load(id).await;
        match loaded {
            Ok(Some((deployed, journal, payload, started_at, origin))) => {
                let run = self.live(deployed, journal, payload, started_at);
                if let Some(reason) = cancel {
                    run.cancelled.cancel(&reason);
                }
                self.spawn(run, permit, origin);
            }
            Ok(None) => {}
            Err(message) => {
                tracing::error!(%id, message, "an accepted execution cannot be read back; it is left as it is")
            }
        }
    }

    async fn load(
        &self,
        id: ExecutionId,
    ) -> Result<Option<(Arc<Deployed>, Journal, Payload, jiff::Timestamp, Origin)>, String> {
        let events = self.store.events(id).await.map_err(|error| error.to_string())?;
        let Some(events) = events else { return Ok(None) };
        let execution = crate::run::folded(id, &events)?;
        if execution.outcome.is_some() {
            return Ok(None);
        }
        let deployed = self.deployed(execution.definition).await?;
        let journal = Journal::restore(id, &deployed.automation, &events, self.surroundings());
        Ok(Some((deployed, journal, execution.payload, execution.started_at, execution.origin)))
    }

    /// The definition with this hash, in force or kept.
    async fn deployed(&self, hash: DefinitionHash) -> Result<Arc<Deployed>, String> {
        let catalog = self.catalog.load_full();
        if let Some(found) = catalog.by_definition(hash) {
            return Ok(found.clone());
        }
        if let Some(found) = self.intake.state().old.get(&hash) {
            return Ok(found.clone());
        }
        let kept = self.store.definition(hash).await.map_err(|error| error.to_string())?;
        let kept = kept.ok_or_else(|| format!("its definition {hash} is not in the store"))?;
        let source = Arc::new(model::Source::new(kept.path, kept.text));
        let loaded = model::load::automation(source, kept.automation.as_str());
        let automation = loaded.value.ok_or_else(|| {
            format!(
                "its definition does not load with this version of Cogwork:\n{}",
                loaded.report.render(false)
            )
        })?;
        let deployed = Arc::new(Deployed::old(Arc::new(automation), loaded.report));
        let mut state = self.intake.state();
        if state.old.len() >= OLD_DEFINITIONS {
            state.old.clear();
        }
        state.old.insert(hash, deployed.clone());
        Ok(deployed)
    }

    /// Puts every execution that has not ended into the backlog, oldest first.
    pub(crate) async fn read_back(&self) -> Result<usize, Error> {
        let mut after = None;
        let mut count = 0;
        loop {
            let page = self.store.unfinished(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            count += page.len();
            let mut state = self.intake.state();
            for row in page {
                if matches!(row.origin, Origin::Schedule { .. }) {
                    *state.scheduled.entry(row.automation).or_default() += 1;
                }
                state.backlog.push_back(row.id);
            }
        }
        if count > 0 {
            self.intake.wake.notify_one();
        }
        Ok(count)
    }

    /// Gives free slots to what waits, in order, until the engine stops.
    pub(crate) async fn dispatch(self: Arc<Self>) {
        loop {
            let permit = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                permit = self.next_slot() => permit,
            };
            let Some(permit) = permit else { return };
            let next = self.intake.state().backlog.pop_front();
            if let Some(id) = next {
                let services = self.clone();
                self.tracker.spawn(services.load_and_run(id, Some(permit), None));
            }
        }
    }

    async fn next_slot(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if !self.intake.state().backlog.is_empty() {
                return self.intake.slots.clone().acquire_owned().await.ok();
            }
            self.intake.wake.notified().await;
        }
    }
}

impl Intake {
    /// An id for an execution accepted now. Those of one millisecond are told apart by a count in the bits behind
    /// the time (RFC 9562, 6.2), so that they sort in the order of acceptance.
    fn next_id(&self, now: jiff::Timestamp) -> ExecutionId {
        let mut bits = random::<10>();
        let millisecond = now.as_millisecond();
        let mut state = self.state();
        state.sequence =
            if state.last_millisecond == millisecond { state.sequence.wrapping_add(1) } else { 0 };
        state.last_millisecond = millisecond;
        bits[..2].copy_from_slice(&(state.sequence & 0x0fff).to_be_bytes());
        ExecutionId::new(now, bits)
    }

    fn enqueue(&self, id: ExecutionId) {
        self.state().backlog.push_back(id);
        self.wake.notify_one();
    }

    fn count_scheduled(&self, automation: &AutomationId, origin: &Origin) {
        if matches!(origin, Origin::Schedule { .. }) {
            *self.state().scheduled.entry(automation.clone()).or_default() += 1;
        }
    }
}

/// Sees to it that an execution's place is given back however its task ends.
struct End {
    services: Arc<Services>,
    run: Arc<Run>,
    origin: Origin,
    gated: Option<(AutomationId, String)>,
    /// It waits for its turn among others of its key, and has not ended.
    waits: bool,
}

impl End {
    /// Takes a place at the gate of its concurrency key, if it has one. False if it has to wait.
    fn enter(&mut self) -> bool {
        let Some(Concurrency { limit, key, policy }) = self.concurrency() else { return true };
        let key = match key.map(|template| self.run.concurrency_key(&template)) {
            None => String::new(),
            Some(Ok(key)) => key,
            // Evaluated again where the failure is recorded.
            Some(Err(_)) => return true,
        };
        let id = self.run.journal.id();
        let name = (self.run.deployed.automation.id.clone(), key);
        let mut state = self.services.intake.state();
        let gate = state.gates.entry(name.clone()).or_default();
        if gate.holders.len() >= limit as usize && !self.run.cancelled.token.is_cancelled() {
            match policy {
                ConcurrencyPolicy::Skip => {
                    drop(state);
                    self.run
                        .cancelled
                        .cancel("skipped: as many executions as `concurrency.limit` allows were running");
                    return true;
                }
                ConcurrencyPolicy::Queue | ConcurrencyPolicy::CancelRunning => {
                    gate.waiting.push_back(id);
                    let oldest = gate.holders.first().copied();
                    let cancel = policy == ConcurrencyPolicy::CancelRunning;
                    if let Some(run) = oldest.filter(|_| cancel).and_then(|oldest| state.live.get(&oldest)) {
                        run.cancelled.cancel("cancelled for a newer execution, as `concurrency.policy` says");
                    }
                    self.waits = true;
                    return false;
                }
            }
        }
        gate.holders.push(id);
        self.gated = Some(name);
        true
    }

    /// The Automation's own rule, or the one that `overlap: queue` of its schedule makes.
    fn concurrency(&self) -> Option<Concurrency> {
        let automation = &self.run.deployed.automation;
        if let Some(own) = &automation.concurrency {
            return Some(own.clone());
        }
        let queues =
            matches!(&automation.trigger, Trigger::Schedule(schedule) if schedule.overlap == Overlap::Queue);
        let scheduled = matches!(self.origin, Origin::Schedule { .. });
        (queues && scheduled).then_some(Concurrency { limit: 1, key: None, policy: ConcurrencyPolicy::Queue })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let id = self.run.journal.id();
        let intake = &self.services.intake;
        let mut state = intake.state();
        state.live.remove(&id);
        if self.waits {
            // Whoever waits for it goes on waiting, on the channel that it will have when it begins.
            state.awaited.insert(id, self.run.progress.clone());
            return;
        }
        if let Some(name) = self.gated.take()
            && let Some(gate) = state.gates.get_mut(&name)
        {
            gate.holders.retain(|holder| *holder != id);
            let next = gate.waiting.pop_front();
            if gate.holders.is_empty() && gate.waiting.is_empty() && next.is_none() {
                state.gates.remove(&name);
            }
            state.backlog.extend(next);
        }
        let automation = &self.run.deployed.automation.id;
        if matches!(self.origin, Origin::Schedule { .. })
            && let Some(count) = state.scheduled.get_mut(automation)
        {
            *count = count.saturating_sub(1);
        }
        drop(state);
        intake.wake.notify_one();
        match self.run.journal.outcome() {
            Some(Outcome::Failed { error } | Outcome::Stuck { error }) => {
                tracing::warn!(execution = %id, %automation, step = error.step, error = error.message, "execution failed");
            }
            Some(outcome) => {
                tracing::debug!(execution = %id, %automation, status = outcome.status().word(), "execution ended")
            }
            None => {}
        }
    }
}

/// Random bits for an id.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        // The system's source of randomness never fails once it is seeded; an id stays unique by its time.
        tracing::error!("the system gives no random bytes");
    }
    bytes
}
