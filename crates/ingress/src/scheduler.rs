//! The scheduler: one timer over all schedules in force. The execution of a tick and the watermark commit together
//! under the key (trigger, instant), so that each instant fires exactly once, also across restarts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use model::Backoff;
use model::automation::{AutomationId, Misfire, Overlap, ScheduleTrigger, Trigger, TriggerKey};
use model::execution::Origin;
use model::payload::Payload;
use store::{Accept, AcceptOutcome, OutboxRow, Watermark};

use crate::changes::{CatalogListener, known_triggers, triggers_of};
use crate::ingress::Ingress;
use crate::persist::until_done;
use catalog::{Catalog, Mount};
use runtime::AcceptOptions;
use runtime::Error;
use runtime::Start;
use runtime::{Due, Timed};

/// Maximum delay of an instant that still counts as on time, regardless of `misfire`.
const ON_TIME: Duration = Duration::from_secs(30);
/// Maximum number of concurrent ticks, which share commits.
const MAX_CONCURRENT: usize = 256;

/// The first and the longest delay before an instant is retried that the queue or the store did not take.
const RETRY_DELAY: SignedDuration = SignedDuration::from_secs(1);
const MAX_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(8);
/// The pauses before watermarks are stored again that the store did not take.
const SAVE_PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));

/// The fingerprint in the watermark of a schedule that is not in force. No schedule has it, so a schedule that is enabled or comes
/// back begins then, and the instants before are not made up for.
const NOT_IN_FORCE: &str = "";

/// Fires schedules until the engine stops.
pub(crate) async fn run(ingress: Arc<Ingress>) {
    let timer = ingress.context.timer();
    if let Some(timetable) = Timetable::read(ingress).await {
        timer.run(timetable).await;
    }
}

/// The next instants of all schedules in force.
struct Timetable {
    ingress: Arc<Ingress>,
    entries: BTreeMap<TriggerKey, Entry>,
    order: BTreeSet<(Timestamp, TriggerKey)>,
    /// Stored watermarks of schedules that are not in force yet.
    stored: BTreeMap<TriggerKey, Watermark>,
    /// Watermarks that no execution was stored with, and the time of the next attempt to store them; `None` if no attempt is due.
    unsaved: BTreeMap<TriggerKey, Unsaved>,
    save_at: Option<Timestamp>,
    save_pauses: Backoff,
    /// False until the automations in force at the start are known.
    is_adopted: bool,
}

/// A watermark that no execution was stored with.
struct Unsaved {
    watermark: Watermark,
    /// The rows by which triggers hear of failures up to there.
    failures: Vec<OutboxRow>,
}

impl Unsaved {
    /// A watermark without failures.
    fn new(watermark: Watermark) -> Self {
        Self { watermark, failures: Vec::new() }
    }
}

struct Entry {
    mount: Mount,
    fingerprint: String,
    /// The last processed instant.
    done: Timestamp,
    /// The next due time: the next instant, or a retry. `None` if the schedule has no further instant.
    next: Option<Timestamp>,
    /// The number of retries in a row; missed instants are logged before the first of them.
    retries: u32,
    /// The rows of failures before the next due time, which are stored with its watermark.
    failures: Vec<OutboxRow>,
    /// The missed instants of which no row is stored yet.
    untold: Option<Untold>,
}

/// Missed instants of which no row is stored. A retry that misses more of them tells of all at once.
#[derive(Clone, Copy)]
struct Untold {
    count: u64,
    since: Timestamp,
}

impl Timed for Timetable {
    async fn adopt(&mut self) {
        let ingress = self.ingress.clone();
        let _still = ingress.moving.lock().await;
        let pending = ingress.changes.take(CatalogListener::Schedules);
        for (from, to) in &pending.renamed {
            self.rename(from, to);
        }
        self.forget(&pending.moved).await;
        let catalog = self.ingress.context.catalog.load_full();
        let ids = self.with_removed(&catalog, pending.automations);
        self.apply(&catalog, ids).await;
    }

    fn next(&self) -> Option<Due> {
        let first = self.order.first().map(|(at, _)| *at);
        first.into_iter().chain(self.save_at).min().map(Due::WallClock)
    }

    async fn run_due(&mut self) {
        let ingress = self.ingress.clone();
        let _still = ingress.moving.lock().await;
        if ingress.changes.is_renamed(CatalogListener::Schedules) {
            // The new snapshot comes first: it has the keys under which the instants count.
            return;
        }
        let ticks = self.due(ingress.context.clock.now());
        // Tasks of their own, which all threads of the runtime run.
        let fire = |tick: Tick| ingress.context.tracker.spawn(tick.fire(ingress.clone()));
        let fired = stream::iter(ticks).map(fire).buffer_unordered(MAX_CONCURRENT);
        let fired = fired.filter_map(async |ended| {
            ended.inspect_err(|error| tracing::error!(%error, "a schedule could not be fired")).ok().flatten()
        });
        let fired: Vec<Fired> = fired.collect().await;
        let now = self.ingress.context.clock.now();
        let mut is_save_due = self.save_at.is_some_and(|at| at <= now);
        for Fired { trigger, is_stored, unfinished, unsaved, missed, untold, mut failures } in fired {
            if is_stored {
                self.unsaved.remove(&trigger);
            }
            is_save_due |= unsaved.is_some();
            match (unfinished, unsaved) {
                (Some(unfinished), _) => self.retry(&trigger, unfinished, (untold, failures), now),
                (None, Some(watermark)) => {
                    failures.splice(..0, missed);
                    drop(self.unsaved.insert(trigger, Unsaved { watermark, failures }))
                }
                (None, None) => {}
            }
        }
        if is_save_due {
            self.save().await;
        }
    }
}

impl Timetable {
    async fn read(ingress: Arc<Ingress>) -> Option<Self> {
        let context = &ingress.context;
        let stored = until_done(context, || context.store.watermarks()).await?.into_iter();
        let stored = stored.map(|watermark| (watermark.trigger.clone(), watermark)).collect();
        Some(Self {
            ingress,
            entries: BTreeMap::new(),
            order: BTreeSet::new(),
            stored,
            unsaved: BTreeMap::new(),
            save_at: None,
            save_pauses: SAVE_PAUSES,
            is_adopted: false,
        })
    }

    /// Goes on with a schedule under the key to which its records have moved.
    fn rename(&mut self, from: &TriggerKey, to: &TriggerKey) {
        let own = |watermark: Watermark| (to.clone(), Watermark { trigger: to.clone(), ..watermark });
        let (stored, unsaved) = (self.stored.remove(from), self.unsaved.remove(from));
        self.stored.extend(stored.map(own));
        self.unsaved.extend(unsaved.map(|Unsaved { watermark, failures }| {
            let (key, watermark) = own(watermark);
            (key, Unsaved { watermark, failures })
        }));
        if let Some(entry) = self.entries.remove(from) {
            if let Some(at) = entry.next {
                self.order.remove(&(at, from.clone()));
                self.order.insert((at, to.clone()));
            }
            self.entries.insert(to.clone(), entry);
        }
    }

    /// Reads the watermarks of schedules again that another node may have fired.
    async fn forget(&mut self, moved: &BTreeSet<AutomationId>) {
        if moved.is_empty() {
            return;
        }
        for id in moved {
            for key in known_triggers(&self.unsaved, id) {
                self.unsaved.remove(&key);
            }
            for key in known_triggers(&self.entries, id) {
                if let Some(at) = self.entries.remove(&key).and_then(|entry| entry.next) {
                    self.order.remove(&(at, key));
                }
            }
        }
        let context = &self.ingress.context;
        // Without its watermark a schedule would begin now, and lose the instants before.
        let stored = until_done(context, || context.store.watermarks()).await;
        let stored = stored.into_iter().flatten();
        let stored = stored.filter(|watermark| moved.contains(&watermark.trigger.automation));
        self.stored.extend(stored.map(|watermark| (watermark.trigger.clone(), watermark)));
    }

    /// Adds the schedules whose file is gone since the last run of the daemon, so that they do not come back with the instants of
    /// the time between. A file that does not load is not gone, and neither are the files of a project that cannot be read at all.
    fn with_removed(&mut self, catalog: &Catalog, mut ids: BTreeSet<AutomationId>) -> BTreeSet<AutomationId> {
        let is_read = catalog.automations().len() > 0;
        if !std::mem::replace(&mut self.is_adopted, true) && is_read && catalog.invalid_files().is_empty() {
            let gone = self.stored.keys().filter(|key| catalog.trigger(key).is_none());
            ids.extend(gone.map(|key| key.automation.clone()));
        }
        ids
    }

    /// Applies the schedules of these Automations from a snapshot. An unchanged schedule keeps its watermark.
    async fn apply(&mut self, catalog: &Catalog, ids: BTreeSet<AutomationId>) {
        let ingress = &self.ingress;
        let now = ingress.context.clock.now();
        let mut fresh = BTreeMap::new();
        let known = |id: &AutomationId| {
            [known_triggers(&self.entries, id), known_triggers(&self.stored, id)].concat()
        };
        for id in triggers_of(&ids, catalog, known) {
            let before = self.entries.remove(&id);
            if let Some(at) = before.as_ref().and_then(|entry| entry.next) {
                self.order.remove(&(at, id.clone()));
            }
            if !ingress.peers.shards.has(&id.automation) {
                // Another node fires it.
                continue;
            }
            let mount = catalog.trigger(&id).filter(Mount::is_enabled);
            let in_force = mount.and_then(|mount| Some((mount.clone(), mount.schedule()?.clone())));
            let Some((mount, schedule)) = in_force else {
                let stored = self.stored.remove(&id);
                if before.is_some() || stored.is_some_and(|stored| stored.schedule != NOT_IN_FORCE) {
                    let (trigger, schedule) = (id.clone(), NOT_IN_FORCE.to_owned());
                    fresh.insert(id, Unsaved::new(Watermark { trigger, schedule, instant: now }));
                }
                continue;
            };
            let fingerprint = schedule.fingerprint();
            let before = before.filter(|entry| entry.fingerprint == fingerprint);
            let stored = self.stored.remove(&id).filter(|watermark| watermark.schedule == fingerprint);
            let done = match (before, stored) {
                (Some(entry), _) => entry.done,
                (None, Some(watermark)) => watermark.instant,
                (None, None) => {
                    let (trigger, schedule) = (id.clone(), fingerprint.clone());
                    fresh.insert(id.clone(), Unsaved::new(Watermark { trigger, schedule, instant: now }));
                    now
                }
            };
            let next = schedule.next_after(done);
            self.order.extend(next.map(|at| (at, id.clone())));
            let entry =
                Entry { mount, fingerprint, done, next, retries: 0, failures: Vec::new(), untold: None };
            self.entries.insert(id, entry);
        }
        // The start of a new schedule must survive a restart, or instants missed before its first tick are lost.
        if !fresh.is_empty() {
            self.unsaved.extend(fresh);
            self.save().await;
        }
    }

    /// Stores the watermarks that no execution is stored with. The instants of other schedules do not wait for a store that refuses
    /// one: it is repeated after growing pauses.
    async fn save(&mut self) {
        let context = &self.ingress.context;
        let is_first = self.save_pauses.is_fresh();
        let save = async |Unsaved { watermark, failures }: &Unsaved| {
            // Otherwise the node that has the schedule now stores it.
            let _hold = self.ingress.peers.shards.hold(&watermark.trigger.automation)?;
            let (watermark, emits) = (Some(watermark.clone()), failures.clone());
            let accept = Accept { watermark, emits, ..Accept::default() };
            let stored = context.store.accept(&accept).await;
            if stored.is_ok() {
                self.ingress.rows_committed(failures);
            }
            let error = stored.err()?;
            if is_first || !error.may_pass() {
                context.lost(&error);
            }
            error.may_pass().then(|| accept.watermark.map(|watermark| watermark.trigger)).flatten()
        };
        let left = stream::iter(self.unsaved.values()).map(save).buffer_unordered(MAX_CONCURRENT);
        let left = left.filter_map(std::future::ready).collect();
        // When the engine stops, the next start of the daemon looks at the instants again.
        let left: Option<HashSet<TriggerKey>> = context.closing.run_until_cancelled(left).await;
        let left = left.filter(|_| context.accepting()).unwrap_or_default();
        self.unsaved.retain(|id, _| left.contains(id));
        self.save_at = if left.is_empty() {
            self.save_pauses.reset();
            None
        } else {
            let pause = SignedDuration::try_from(self.save_pauses.pause()).unwrap_or(RETRY_DELAY);
            Some(after(context.clock.now(), pause))
        };
    }

    /// Removes and returns all due ticks.
    fn due(&mut self, now: Timestamp) -> Vec<Tick> {
        let mut ticks = Vec::new();
        while let Some((at, id)) = self.order.first().cloned() {
            if at > now {
                break;
            }
            self.order.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            let mut tick = entry.due(now);
            if let Some(tick) = &mut tick {
                tick.missed_rows = tick.untold.map_or_else(Vec::new, |Untold { count, since }| {
                    self.ingress.missed_instants(&tick.mount, count, since)
                });
                let unsaved = self.unsaved.get_mut(&id);
                tick.failures.extend(unsaved.into_iter().flat_map(|unsaved| unsaved.failures.drain(..)));
            }
            let rejections = &self.ingress.context.rejections;
            rejections.count_many(
                Some(&id.automation),
                "missed",
                tick.as_ref().map_or(0, |tick| tick.missed),
            );
            ticks.extend(tick);
            if let Some(next) = entry.next {
                self.order.insert((next, id));
            }
        }
        ticks
    }

    /// Sets a schedule back to the last processed instant and retries it.
    fn retry(
        &mut self,
        id: &TriggerKey,
        unfinished: Unfinished,
        (untold, failures): (Option<Untold>, Vec<OutboxRow>),
        now: Timestamp,
    ) {
        let Unfinished { done, retries, is_refused } = unfinished;
        let Some(entry) = self.entries.get_mut(id) else { return };
        (entry.untold, entry.failures) = (untold, failures);
        if let Some(next) = entry.next {
            self.order.remove(&(next, id.clone()));
        }
        let doublings = if is_refused { retries.min(8) } else { 0 };
        let again = after(now, RETRY_DELAY.saturating_mul(1 << doublings).min(MAX_RETRY_DELAY));
        (entry.done, entry.next, entry.retries) = (done, Some(again), retries.saturating_add(1));
        self.order.insert((again, id.clone()));
    }
}

/// The due instants of a schedule.
struct Tick {
    mount: Mount,
    fingerprint: String,
    timezone: String,
    overlap: Overlap,
    /// True if the instants are missed ones of `misfire: all`: each waits for the end of the previous execution.
    waits: bool,
    /// Instants to run, oldest first.
    instants: Vec<Timestamp>,
    /// Number of further missed instants that are skipped.
    missed: u64,
    /// The missed instants to tell of, and the rows for them.
    untold: Option<Untold>,
    missed_rows: Vec<OutboxRow>,
    /// The rows by which triggers hear of failures up to here.
    failures: Vec<OutboxRow>,
    /// The last instant processed before this tick.
    before: Timestamp,
    /// The last instant processed after this tick.
    done: Timestamp,
    /// The number of retries in a row before this tick.
    retries: u32,
}

/// The result of a tick.
struct Fired {
    trigger: TriggerKey,
    /// True if a watermark was stored with an execution.
    is_stored: bool,
    /// The instants that must be retried.
    unfinished: Option<Unfinished>,
    /// The watermark to store if the last instants started nothing: an acceptance commits that of its instant.
    unsaved: Option<Watermark>,
    /// The rows of missed instants that are not stored, and what they tell.
    missed: Vec<OutboxRow>,
    untold: Option<Untold>,
    /// The rows of failures that are not stored.
    failures: Vec<OutboxRow>,
}

/// Unprocessed instants of a schedule, because the queue or the store is full or the previous execution still runs.
struct Unfinished {
    /// The last processed instant.
    done: Timestamp,
    /// The number of retries in a row before this one.
    retries: u32,
    /// True if the store took no write, so that the delays grow.
    is_refused: bool,
}

impl Entry {
    /// Computes the due instants and the next due time; `None` if nothing is due.
    fn due(&mut self, now: Timestamp) -> Option<Tick> {
        let schedule = self.mount.schedule()?.clone();
        let before = self.done;
        let Some(at) = schedule.next_after(before).filter(|at| *at <= now) else {
            self.next = schedule.next_after(before);
            return None;
        };
        let Trigger::Schedule(ScheduleTrigger { timezone, misfire, overlap, .. }) = self.mount.on() else {
            return None;
        };
        let following = schedule.next_after(at);
        let late = Duration::try_from(at.duration_until(now)).unwrap_or_default();
        let alone = following.is_none_or(|following| following > now);
        // Retried instants of `misfire: all` stay missed ones, even if the last of them is recent.
        let retries = std::mem::take(&mut self.retries);
        let is_retry = retries > 0;
        let is_made_up = is_retry && *misfire == Misfire::All;
        let on_time = alone && late <= ON_TIME && !is_made_up;
        let (instants, missed, done) = if on_time {
            (vec![at], 0, at)
        } else {
            let misfire = match misfire {
                // An instant for which there was no room, or no store, was not missed.
                Misfire::Skip if is_retry => Misfire::Latest,
                misfire => *misfire,
            };
            let missed = schedule.missed(before, now, misfire);
            let trigger = self.mount.key();
            if !is_retry {
                tracing::warn!(%trigger, runs = missed.due.len(), passed_over = missed.dropped, "instants of its schedule were missed");
            }
            (missed.due, missed.dropped, now)
        };
        let waits = !on_time && *misfire == Misfire::All;
        self.done = done;
        self.next = schedule.next_after(done);
        // Instants skipped now must not be skipped again after a retry.
        let first = instants.first().filter(|_| missed > 0);
        let before = first.map_or(before, |first| after(*first, -SignedDuration::from_nanos(1)));
        let untold = self.untold.take();
        let since = untold.map_or(at, |untold| untold.since);
        let count = missed.saturating_add(untold.map_or(0, |untold| untold.count));
        Some(Tick {
            mount: self.mount.clone(),
            fingerprint: self.fingerprint.clone(),
            timezone: timezone.name.clone(),
            overlap: *overlap,
            waits,
            instants,
            missed,
            untold: (count > 0).then_some(Untold { count, since }),
            missed_rows: Vec::new(),
            failures: std::mem::take(&mut self.failures),
            before,
            done,
            retries,
        })
    }
}

impl Tick {
    /// Starts the executions. Returns `None` if another node has the schedule.
    async fn fire(self, ingress: Arc<Ingress>) -> Option<Fired> {
        let (automation, trigger) = (&self.mount.deployment.automation, self.mount.key());
        // Otherwise the node that has the schedule now fires it.
        let _hold = ingress.peers.shards.hold(&automation.id)?;
        let watermark =
            |instant| Watermark { trigger: trigger.clone(), schedule: self.fingerprint.clone(), instant };
        let fired = |recorded: Option<Timestamp>, unfinished: Option<Unfinished>, rows: Rows| Fired {
            trigger: trigger.clone(),
            is_stored: recorded.is_some(),
            unsaved: (unfinished.is_none() && (recorded != Some(self.done) || !rows.is_empty()))
                .then(|| watermark(self.done)),
            unfinished,
            untold: self.untold.filter(|_| !rows.missed.is_empty()),
            missed: rows.missed,
            failures: rows.failures,
        };
        // Executions have the id of the file.
        let started = automation.trigger_key(&self.mount.declared().id);
        let unfinished = |done, is_refused| Some(Unfinished { done, retries: self.retries, is_refused });
        let mut rows = Rows { missed: self.missed_rows, failures: self.failures };
        let (mut recorded, mut done) = (None, self.before);
        for instant in &self.instants {
            let reached = std::mem::replace(&mut done, *instant);
            let busy = self.overlap == Overlap::Skip && ingress.admission.schedule_is_busy(&started);
            if busy && self.waits {
                return Some(fired(recorded, unfinished(reached, false), rows));
            }
            if busy {
                ingress.context.rejections.count(Some(&automation.id), "overlap");
                tracing::info!(%trigger, %instant, "an instant of its schedule is skipped: the last execution still runs");
                continue;
            }
            let payload = payload(*instant, ingress.context.clock.now(), &self.timezone);
            let prepared = ingress.prepare_start(&self.mount, &payload).await;
            let Ok(prepared) = prepared.inspect_err(
                |error| tracing::warn!(%trigger, %instant, %error, "an instant of its schedule starts later"),
            ) else {
                return Some(fired(recorded, unfinished(reached, false), rows));
            };
            let Some((by, fails)) = prepared else { continue };
            let start = Start { payload, origin: Origin::Schedule { instant: *instant }, by };
            let key = Some(tick_key(&trigger, *instant));
            let options = AcceptOptions {
                key,
                watermark: Some(watermark(*instant)),
                emits: rows.all(),
                fails,
                ..AcceptOptions::default()
            };
            let accepted = ingress.admission.accept(&self.mount.deployment, start, options).await;
            if accepted.is_ok() {
                ingress.rows_committed(&rows.all());
                rows = Rows::default();
            }
            match accepted {
                // Nothing is known to be stored, so the instant is still due. If it is stored, its key makes the retry a duplicate.
                Err(Error::Store(_)) => return Some(fired(recorded, unfinished(reached, true), rows)),
                Err(Error::Busy { .. } | Error::Recovering { .. } | Error::Closing) => {
                    return Some(fired(recorded, unfinished(reached, false), rows));
                }
                Ok(accepted) if accepted.accepted == AcceptOutcome::New => {
                    recorded = Some(*instant);
                    ingress.observe_lateness(*instant);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(%trigger, %instant, %error, "an instant of its schedule could not start");
                    rows.failures.extend(ingress.refused_instant(&self.mount, *instant, &error));
                }
            }
        }
        Some(fired(recorded, None, rows))
    }
}

/// The rows of a tick that are not stored.
#[derive(Default)]
struct Rows {
    /// Of missed instants.
    missed: Vec<OutboxRow>,
    /// Of other failures.
    failures: Vec<OutboxRow>,
}

impl Rows {
    fn is_empty(&self) -> bool {
        self.missed.is_empty() && self.failures.is_empty()
    }

    fn all(&self) -> Vec<OutboxRow> {
        [self.missed.as_slice(), &self.failures].concat()
    }
}

impl Ingress {
    /// Records how late an instant has started.
    fn observe_lateness(&self, instant: Timestamp) {
        let late = instant.duration_until(self.context.clock.now());
        self.context.metrics.schedule_lateness.observe_duration(Duration::try_from(late).unwrap_or_default());
    }
}

fn payload(instant: Timestamp, now: Timestamp, timezone: &str) -> Payload {
    Payload::Schedule { scheduled_at: instant, started_at: now, timezone: timezone.to_owned() }
}

/// Returns the key of the execution of an instant.
fn tick_key(trigger: &TriggerKey, instant: Timestamp) -> String {
    match trigger.trigger.is_main() {
        true => format!("tick:{instant}"),
        false => format!("tick:{}:{instant}", trigger.trigger),
    }
}

fn after(at: Timestamp, pause: SignedDuration) -> Timestamp {
    at.checked_add(pause).unwrap_or(Timestamp::MAX)
}
