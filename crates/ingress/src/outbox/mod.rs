//! Delivers events of the store's outbox to the triggers that they start.
//!
//! The node that has the shard of a name delivers the events with that name, one page after the other, in the order of their ids. No
//! position is kept, since an event may become visible after one with a greater id, except behind events that only wait for a trigger
//! which is not in force; then a pass over all follows every 30 s. Each trigger gets the events of a page in one
//! acceptance, and the last acceptance deletes them. A crash in between repeats them: the key of an execution has the id of the event,
//! so every acceptance is then a duplicate.

mod engine;
mod lane;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::SignedDuration;
use runtime::MonotonicTime;
use store::{News, OutboxRow};

use crate::ingress::Ingress;
pub(crate) use engine::EngineDeliveries;
use lane::{Delivered, Lane};
pub(crate) use start::key as event_key;

/// The time between two looks for events that no hint was about.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// The same, if there was no event, and no other process can store one without a hint.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The time after which events are delivered again that a trigger could not take, or that the store refused.
const RETRY: Duration = Duration::from_secs(1);
/// The time after which an event is deleted although a trigger that it was to start is not in force: a node may get it a moment later,
/// or its file may be broken for a moment.
const FORSAKEN: SignedDuration = SignedDuration::from_mins(10);
/// The least time between two hints to other nodes about one name.
const HINT_INTERVAL: Duration = Duration::from_millis(20);
/// The number of names whose events are delivered at one time.
const LANES: usize = 16;

/// Delivers events until the engine stops.
pub(crate) async fn run(ingress: Arc<Ingress>) {
    let mut deliverer = Deliverer {
        look_at: ingress.context.clock.monotonic_now(),
        ingress,
        due: BTreeSet::new(),
        lanes: BTreeMap::new(),
        retries: BTreeMap::new(),
        hints: BTreeMap::new(),
        running: FuturesUnordered::new(),
        at_work: BTreeSet::new(),
    };
    deliverer.run().await;
}

impl Ingress {
    /// Delivers the events that are due and start something, without the task that does it in a daemon. Returns false if no event is due.
    pub async fn deliver_due_events(self: &Arc<Self>) -> bool {
        let mut is_due = false;
        for (name, _) in self.context.outbox.take_due() {
            if self.context.event_consumers(&name).is_empty() {
                continue;
            }
            is_due = true;
            self.clone().deliver(name, Lane::default()).await;
        }
        is_due
    }
}

/// A delivery under way: the name, and the progress; `None` after a panic.
type Running = BoxFuture<'static, (String, Option<(Lane, Delivered)>)>;

/// The names whose events are due or being delivered.
struct Deliverer {
    ingress: Arc<Ingress>,
    /// The next look for events that no hint was about.
    look_at: MonotonicTime,
    /// Names to deliver now.
    due: BTreeSet<String>,
    /// Names with events that a trigger could not take.
    lanes: BTreeMap<String, Lane>,
    /// Names to deliver again, with the time.
    retries: BTreeMap<String, MonotonicTime>,
    /// The last hint about a name to the other nodes, and true if one more is due.
    hints: BTreeMap<String, (MonotonicTime, bool)>,
    running: FuturesUnordered<Running>,
    /// The names of `running`.
    at_work: BTreeSet<String>,
}

/// The happenings that the deliverer waits for.
enum Happening {
    Closing,
    Woken,
    Shards,
    Reloaded,
    Due,
    Ended(String, Option<(Lane, Delivered)>),
}

impl Deliverer {
    async fn run(&mut self) {
        let context = self.ingress.context.clone();
        let mut shards = self.ingress.peers.shards.subscribe();
        let mut generation = context.generation.subscribe();
        loop {
            self.begin();
            let next = self.next();
            let happening = {
                let woken = pin!(context.outbox.woken());
                tokio::select! {
                    biased;
                    () = context.closing.cancelled() => Happening::Closing,
                    Some((name, ended)) = self.running.next() => Happening::Ended(name, ended),
                    changed = shards.changed() => match changed {
                        Ok(()) => Happening::Shards,
                        Err(_) => Happening::Closing,
                    },
                    changed = generation.changed() => match changed {
                        Ok(()) => Happening::Reloaded,
                        Err(_) => Happening::Closing,
                    },
                    () = woken => Happening::Woken,
                    () = context.clock.sleep_until_monotonic(next) => Happening::Due,
                }
            };
            match happening {
                Happening::Closing => return,
                Happening::Woken => self.take_due(),
                // It may have events from the time before.
                Happening::Shards => self.look_at = context.clock.monotonic_now(),
                // A trigger may be in force now for which events wait.
                Happening::Reloaded => self.due.extend(self.retries.keys().chain(&self.at_work).cloned()),
                Happening::Due => self.run_due().await,
                Happening::Ended(name, ended) => self.ended(name, ended),
            }
        }
    }

    /// Returns the time at which something is due without a hint.
    fn next(&self) -> MonotonicTime {
        let hints = self.hints.values().filter(|(_, is_due)| *is_due).map(|(at, _)| at.after(HINT_INTERVAL));
        self.retries.values().copied().chain(hints).fold(self.look_at, MonotonicTime::min)
    }

    /// Takes the names about which commits and other nodes have told.
    fn take_due(&mut self) {
        // Events that are not delivered at once are looked for too.
        let look_at = self.ingress.context.clock.monotonic_now().after(LOOK_INTERVAL);
        self.look_at = self.look_at.min(look_at);
        for (name, is_own) in self.ingress.context.outbox.take_due() {
            if self.ingress.peers.shards.has_shard(OutboxRow::shard_of(&name)) {
                self.due.insert(name);
            } else if is_own {
                self.hint(name);
            }
        }
    }

    /// Tells the other nodes that events with a name are stored, unless they were told a moment ago.
    fn hint(&mut self, name: String) {
        let now = self.ingress.context.clock.monotonic_now();
        match self.hints.get_mut(&name) {
            Some((at, is_due)) if at.after(HINT_INTERVAL) > now => *is_due = true,
            _ => {
                self.hints.insert(name.clone(), (now, false));
                self.ingress.context.store.tell(None, News::Emitted { name });
            }
        }
    }

    async fn run_due(&mut self) {
        let now = self.ingress.context.clock.monotonic_now();
        let retries = self.retries.extract_if(.., |_, at| *at <= now);
        self.due.extend(retries.map(|(name, _)| name));
        let hints = self.hints.extract_if(.., |_, (at, _)| at.after(HINT_INTERVAL) <= now);
        let late: Vec<String> = hints.filter(|(_, (_, is_due))| *is_due).map(|(name, _)| name).collect();
        late.into_iter().for_each(|name| self.hint(name));
        if self.look_at <= now {
            self.look_at = now.after(self.look().await);
        }
    }

    /// Looks for events that no hint was about. Returns the time until the next look.
    async fn look(&mut self) -> Duration {
        let context = &self.ingress.context;
        let counts = match context.store.outbox_counts().await {
            Ok(counts) => counts,
            Err(error) => {
                context.lost(&error);
                return RETRY;
            }
        };
        context.outbox.counted(&counts);
        let is_idle = counts.is_empty() && context.store.node().is_none();
        if let Some(last) = counts.iter().map(|count| count.last).max() {
            self.ingress.admission.continue_events_after(last);
        }
        let shards = &self.ingress.peers.shards;
        let own = counts.into_iter().filter(|count| shards.has_shard(OutboxRow::shard_of(&count.name)));
        // A name with a retry is delivered then.
        self.due.extend(own.map(|count| count.name).filter(|name| !self.retries.contains_key(name)));
        if is_idle { IDLE_LOOK_INTERVAL } else { LOOK_INTERVAL }
    }

    /// Begins the delivery of names that are due.
    fn begin(&mut self) {
        while self.at_work.len() < LANES {
            let Some(name) = self.due.iter().find(|name| !self.at_work.contains(*name)).cloned() else {
                return;
            };
            self.due.remove(&name);
            self.retries.remove(&name);
            self.at_work.insert(name.clone());
            let lane = self.lanes.remove(&name).unwrap_or_default();
            // A task of its own, which any thread of the runtime runs.
            let delivering = self.ingress.clone().deliver(name.clone(), lane);
            let delivering = self.ingress.context.tracker.spawn(delivering);
            self.running.push(Box::pin(async move { (name, delivering.await.ok()) }));
        }
    }

    fn ended(&mut self, name: String, ended: Option<(Lane, Delivered)>) {
        self.at_work.remove(&name);
        // After a panic the events are delivered again, and the accepted ones are duplicates.
        let (lane, delivered) = ended.unwrap_or((Lane::default(), Delivered::NotAll));
        let at = match delivered {
            Delivered::All | Delivered::Elsewhere => return,
            Delivered::NotAll => self.ingress.context.clock.monotonic_now().after(RETRY),
            Delivered::Later(at) => at,
        };
        self.retries.insert(name.clone(), at);
        self.lanes.insert(name, lane);
    }
}
