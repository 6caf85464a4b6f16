//! The delivery of the events with one name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use catalog::Mount;
use jiff::{SignedDuration, Timestamp};
use model::ExecutionId;
use model::automation::TriggerKey;
use model::execution::OutboxEvent;
use runtime::{DeliveryWait, Error, MonotonicTime, NewStart, parse_engine_row_name};
use store::{Accept, OutboxRow};

use super::FORSAKEN;
use crate::ingress::Ingress;

/// The maximum number of events of one acceptance.
const PAGE: u32 = 128;
/// The maximum number of events that the triggers which take some are ahead of those which could not. Events that wait for a trigger
/// which is not in force do not count: it may not come back.
const AHEAD: usize = 2048;
/// The age from which an event counts as settled: hardly an event with a lesser id becomes visible later. A whole pass finds it.
const SETTLED: SignedDuration = SignedDuration::from_secs(2);
/// The time from one pass over all events of a name to the next, while events wait for a trigger that is not in force.
const WHOLE_PASS_INTERVAL: Duration = Duration::from_secs(30);
/// The time after which an event is dropped for the triggers that have not taken it.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 7);
/// The reason why an event is dropped.
const NOT_STARTED: &str = "it could not start for 7 days";

/// The progress with events that some triggers have and others could not take. It is lost with the process, and then the triggers that have
/// them get them again, as duplicates.
#[derive(Default)]
pub(super) struct Lane {
    /// The triggers that have an event, by its place. Most events have equal ones, which are shared: many may wait.
    taken: BTreeMap<ExecutionId, Triggers>,
    /// The events that a pass need not read again.
    passed: Option<Passed>,
}

/// The first events of a name, if all of them only wait for triggers that are not in force.
struct Passed {
    /// The triggers that are in force: each has the events.
    consumers: BTreeSet<TriggerKey>,
    /// The last of the events; `None` if none waits.
    last: Option<ExecutionId>,
    /// The time of the next pass over all events.
    until: MonotonicTime,
}

/// Triggers that have an event.
type Triggers = Arc<BTreeSet<TriggerKey>>;

/// The result of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// No event is left.
    All,
    /// Another node delivers them.
    Elsewhere,
    /// A trigger could not take some, or the store failed.
    NotAll,
    /// Some are due at this time.
    Later(MonotonicTime),
}

/// An event with its row.
struct Event {
    row: OutboxRow,
    /// `None` if the row cannot be read.
    event: Option<OutboxEvent>,
    /// True if it stays, because a trigger that it is to start is not in force here.
    stays: bool,
}

impl Ingress {
    /// Delivers the events with a name until no event is left, or no event that a trigger could take.
    pub(super) async fn deliver(self: Arc<Self>, name: String, mut lane: Lane) -> (Lane, Delivered) {
        let (shards, shard) = (&self.peers.shards, OutboxRow::shard_of(&name));
        let Some(_hold) = shards.hold_shard(shard).filter(|_| !shards.is_leaving(shard)) else {
            self.context.outbox.set_waits(&name, Vec::new());
            self.leave_engine_rows(&name);
            return (Lane::default(), Delivered::Elsewhere);
        };
        let mut delivery =
            Delivery { ingress: &self, lane: &mut lane, blocked: BTreeMap::new(), stays: false };
        let delivered = match parse_engine_row_name(&name) {
            Some((event, trigger)) => self.deliver_engine(&name, event, &trigger).await,
            None => delivery.run(&name).await,
        };
        let mut waits = delivery.waits();
        let delivered = match delivered {
            Ok(delivered) => delivered,
            Err(error) => {
                waits = vec![DeliveryWait {
                    trigger: None,
                    reason: format!("{error}; it is tried again every second"),
                }];
                if let Error::Store(error) = &error {
                    self.context.lost(error);
                } else if self.context.accepting() {
                    tracing::warn!(event = name, %error, "events cannot be delivered; it is tried again");
                }
                Delivered::NotAll
            }
        };
        self.context.outbox.set_waits(&name, if delivered == Delivered::NotAll { waits } else { Vec::new() });
        (lane, delivered)
    }
}

/// A run through the events with one name.
struct Delivery<'a> {
    ingress: &'a Arc<Ingress>,
    lane: &'a mut Lane,
    /// The triggers that could not take an event in this run, with the reason: they get no later one either.
    blocked: BTreeMap<TriggerKey, String>,
    /// True if an event waits for a trigger which is not in force.
    stays: bool,
}

impl Delivery<'_> {
    /// Returns the reasons why events are left.
    fn waits(&self) -> Vec<DeliveryWait> {
        let wait = |(key, reason): (&TriggerKey, &String)| DeliveryWait {
            trigger: Some(key.name()),
            reason: reason.clone(),
        };
        self.blocked.iter().map(wait).collect()
    }

    async fn run(&mut self, name: &str) -> Result<Delivered, Error> {
        let begin = self.begin(name);
        self.stays = begin.is_some();
        let (mut after, mut left, mut seen) = (begin, 0, BTreeSet::new());
        loop {
            if !self.ingress.context.accepting() {
                return Err(Error::Closing);
            }
            let page = self.ingress.context.store.outbox_page(name, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            seen.extend(page.iter().map(|row| row.id));
            let settled = self.last_settled(&page);
            left += self.deliver_page(name, page).await?;
            if left >= AHEAD {
                return Ok(Delivered::NotAll);
            }
            let passed = self.lane.passed.as_mut().filter(|_| left == 0 && self.stays);
            if let Some(passed) = passed {
                passed.last = settled.or(passed.last);
            }
        }
        self.lane.taken.retain(|id, _| begin.is_some_and(|begin| *id <= begin) || seen.contains(id));
        Ok(match &self.lane.passed {
            Some(passed) if self.blocked.is_empty() && self.stays => Delivered::Later(passed.until),
            _ if left == 0 && !self.stays => Delivered::All,
            _ => Delivered::NotAll,
        })
    }

    /// Returns the event after which this pass begins; `None` if it reads all.
    fn begin(&mut self, name: &str) -> Option<ExecutionId> {
        let context = &self.ingress.context;
        let now = context.clock.monotonic_now();
        let consumers = context.event_consumers(name).iter().map(Mount::key).collect();
        if let Some(passed) = &self.lane.passed
            && passed.consumers == consumers
            && now < passed.until
        {
            return passed.last;
        }
        self.lane.passed = Some(Passed { consumers, last: None, until: now.after(WHOLE_PASS_INTERVAL) });
        None
    }

    /// Returns the last event of a page before which hardly another one becomes visible.
    fn last_settled(&self, page: &[OutboxRow]) -> Option<ExecutionId> {
        let now = self.ingress.context.clock.now();
        let is_settled =
            |id: &ExecutionId| id.created_at().is_none_or(|at| now.duration_since(at) >= SETTLED);
        page.iter().map(|row| row.id).take_while(is_settled).last()
    }

    /// Delivers events to each trigger that is in force now. Returns the number of events that one of them could not take.
    async fn deliver_page(&mut self, name: &str, rows: Vec<OutboxRow>) -> Result<usize, Error> {
        let consumers = self.ingress.context.event_consumers(name);
        let keys: BTreeSet<TriggerKey> = consumers.iter().map(Mount::key).collect();
        // A reload may have come in between.
        self.lane.passed.take_if(|passed| passed.consumers != keys);
        let now = self.ingress.context.clock.now();
        let mut events: Vec<Event> = rows.into_iter().map(|row| Event::read(row, &keys, now)).collect();
        self.stays |= events.iter().any(|event| event.stays);
        // Nothing is in force that they start, or they cannot be read.
        let nothing = |event: &Event| !event.stays && self.lane.has_all(event, &keys);
        let (over, open): (Vec<Event>, Vec<Event>) = events.drain(..).partition(nothing);
        self.delete(&over, Vec::new()).await?;
        events = open;
        for consumer in &consumers {
            self.deliver_to(consumer, &keys, &mut events).await?;
            if events.is_empty() {
                return Ok(0);
            }
        }
        self.drop_old(&mut events, &keys).await?;
        Ok(events.iter().filter(|event| !self.lane.has_all(event, &keys)).count())
    }

    /// Delivers events to one trigger, and removes the ones that no other trigger is to get.
    async fn deliver_to(
        &mut self,
        mount: &Mount,
        consumers: &BTreeSet<TriggerKey>,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        let key = mount.key();
        if self.blocked.contains_key(&key) {
            return Ok(());
        }
        let room = self.ingress.admission.queue_room();
        let (mut starts, mut taken, mut delivered) = (Vec::new(), Vec::new(), Vec::new());
        for Event { row, event, stays } in events.iter() {
            let Some(event) = event.as_ref().filter(|_| !self.lane.has(row.id, &key)) else { continue };
            let start = match self.ingress.event_start(mount, event).await {
                Ok(start) => start,
                Err(error) => {
                    self.blocked.insert(key.clone(), error.to_string());
                    break;
                }
            };
            if start.is_some() && starts.len() >= room {
                self.ingress.context.rejections.count(Some(&key.automation), "busy");
                let most = self.ingress.context.settings.limits.queue;
                let reason = format!("the queue of executions is full (limits.queue: {most})");
                self.blocked.insert(key.clone(), reason);
                break;
            }
            starts.extend(start);
            taken.push(row.id);
            if !stays && consumers.iter().all(|other| *other == key || self.lane.has(row.id, other)) {
                delivered.push(row.id);
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        self.accept(mount, starts, delivered.clone()).await?;
        self.lane.take(&taken, &key);
        self.forget(&delivered);
        events.retain(|event| !delivered.contains(&event.row.id));
        Ok(())
    }

    async fn accept(
        &self,
        mount: &Mount,
        starts: Vec<NewStart>,
        delivered: Vec<ExecutionId>,
    ) -> Result<(), Error> {
        if starts.is_empty() && delivered.is_empty() {
            return Ok(());
        }
        let (ingress, count) = (self.ingress, delivered.len());
        let with = Accept { delivered, ..Accept::default() };
        if starts.is_empty() {
            ingress.context.store.accept(&with).await?;
        } else {
            ingress.admission.accept_batch(&mount.deployment, starts, with).await?;
        }
        ingress.context.outbox.deleted(count);
        Ok(())
    }

    /// Deletes events that start nothing.
    async fn delete(&mut self, events: &[Event], emits: Vec<OutboxRow>) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        let delivered: Vec<ExecutionId> = events.iter().map(|event| event.row.id).collect();
        let accept = Accept { delivered: delivered.clone(), emits, ..Accept::default() };
        self.ingress.context.store.accept(&accept).await?;
        self.ingress.rows_committed(&accept.emits);
        self.ingress.context.outbox.deleted(delivered.len());
        self.forget(&delivered);
        Ok(())
    }

    /// Drops events that some triggers could not take for too long.
    async fn drop_old(
        &mut self,
        events: &mut Vec<Event>,
        consumers: &BTreeSet<TriggerKey>,
    ) -> Result<(), Error> {
        let now = self.ingress.context.clock.now();
        let old: Vec<Event> = events.extract_if(.., |event| is_over(event.row.at, now)).collect();
        let catalog = self.ingress.context.catalog();
        let mut failures = Vec::new();
        for Event { row, event, .. } in &old {
            let id = event.as_ref().map_or("", |event| event.event.id.as_str());
            for consumer in consumers.iter().filter(|consumer| !self.lane.has(row.id, consumer)) {
                self.ingress.context.rejections.count(Some(&consumer.automation), "undelivered");
                tracing::error!(event = row.name, id, trigger = %consumer, "an event is dropped: the trigger could not start for 7 days");
                if let Some(mount) = catalog.trigger(consumer) {
                    failures.extend(self.ingress.dropped_event(&mount, &row.name, id, NOT_STARTED));
                }
            }
        }
        self.delete(&old, failures).await
    }

    fn forget(&mut self, delivered: &[ExecutionId]) {
        for id in delivered {
            self.lane.taken.remove(id);
        }
    }
}

impl Lane {
    fn has(&self, id: ExecutionId, trigger: &TriggerKey) -> bool {
        self.taken.get(&id).is_some_and(|taken| taken.contains(trigger))
    }

    fn take(&mut self, events: &[ExecutionId], trigger: &TriggerKey) {
        let mut last: Option<(Triggers, Triggers)> = None;
        for id in events {
            let before = self.taken.get(id).cloned().unwrap_or_default();
            let after = match &last {
                Some((known, after)) if *known == before => after.clone(),
                _ => Arc::new(before.iter().chain([trigger]).cloned().collect()),
            };
            last = Some((before, after.clone()));
            self.taken.insert(*id, after);
        }
    }

    fn has_all(&self, event: &Event, triggers: &BTreeSet<TriggerKey>) -> bool {
        event.event.is_none() || triggers.iter().all(|trigger| self.has(event.row.id, trigger))
    }
}

impl Event {
    /// Reads an event, for the triggers that are in force here.
    fn read(row: OutboxRow, triggers: &BTreeSet<TriggerKey>, now: Timestamp) -> Self {
        let event = serde_json::from_str::<OutboxEvent>(&row.body);
        let event = event.inspect_err(
            |error| tracing::error!(event = row.name, place = %row.id, %error, "an event cannot be read; it starts nothing"),
        );
        let event = event.ok();
        let waits = |event: &OutboxEvent| {
            triggers.is_empty() || event.consumers.iter().any(|consumer| !triggers.contains(consumer))
        };
        let until = row.at.checked_add(FORSAKEN).unwrap_or(Timestamp::MAX);
        let stays = event.as_ref().is_some_and(|event| until > now && waits(event));
        Self { row, event, stays }
    }
}

fn is_over(sent: Timestamp, now: Timestamp) -> bool {
    now.duration_since(sent) > LONGEST
}
