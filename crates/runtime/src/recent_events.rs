//! Retained events, for steps that start to wait after the event was sent.
//!
//! An event that an automation in force may wait for is stored in the state, in a scope with its name and under a key that
//! orders it. A step that starts to wait reads the events since its execution was accepted.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::engine_event::EngineEventName;
use model::execution::{ExecutionId, Signal};
use store::StateWrite;
use value::Value;

use crate::context::Context;
use crate::error::Error;
use crate::ids::Ids;

/// The retention time of an event.
const RETAINED_FOR: SignedDuration = SignedDuration::from_hours(24 * 7);
/// The time within which another node has written and delivered an event after it gave it a key.
const WRITTEN_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// The page size when retained events are read.
const PAGE: u32 = 1000;

/// A signal on its way to a waiting step.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) signal: Signal,
    /// The key in the order of retained events of an event that the step may have passed; `None` if it is sent for the first time.
    pub(crate) key: Option<String>,
}

impl From<Signal> for Delivery {
    /// A signal that is not sent again.
    fn from(signal: Signal) -> Self {
        Self { signal, key: None }
    }
}

/// The scope of the events of a name. No scope of an automation has a colon in it.
pub(crate) fn scope(name: &str) -> String {
    format!("events:{name}")
}

/// The keys of the events that this process retains. Each is greater than the one before, also if the clock is set back.
#[derive(Default)]
struct EventKeys {
    issued: Mutex<IssuedKeys>,
    shares: Mutex<Shares>,
}

/// The room of the retained events. Events from outside leave room for the events of automations.
#[derive(Default)]
struct Shares {
    /// The events of executions.
    executions: Share,
    /// The events of all other senders.
    outside: Share,
}

/// The sender of an event, as far as its share depends on it.
#[derive(Clone, Copy)]
enum Sender {
    Execution,
    Outside,
}

impl Sender {
    /// Returns the bytes of events that this process retains within [`RETAINED_FOR`].
    fn most(self) -> usize {
        match self {
            Self::Execution => 64 << 20,
            Self::Outside => 32 << 20,
        }
    }
}

impl Shares {
    fn of(&mut self, sender: Sender) -> &mut Share {
        match sender {
            Sender::Execution => &mut self.executions,
            Sender::Outside => &mut self.outside,
        }
    }
}

/// The bytes of the retained events of some senders, by the hour in which they end.
#[derive(Default)]
struct Share {
    by_hour: VecDeque<(i64, usize)>,
    bytes: usize,
    /// True once it was reported as used up, until there is room again.
    is_reported: bool,
}

impl Share {
    /// Takes `bytes` of `most` until [`RETAINED_FOR`] after `now`. Returns false if there is no room.
    fn take(&mut self, bytes: usize, most: usize, now: Timestamp) -> bool {
        let hour = now.as_second() / 3600;
        while let Some((_, ended)) = self.by_hour.front().copied().filter(|(end, _)| *end <= hour) {
            self.bytes -= ended;
            self.by_hour.pop_front();
        }
        if self.bytes + bytes > most {
            return false;
        }
        self.bytes += bytes;
        let end = end_of(now);
        match self.by_hour.back_mut() {
            Some((last, taken)) if *last >= end => *taken += bytes,
            _ => self.by_hour.push_back((end, bytes)),
        }
        true
    }

    /// Gives back what an event took at `now` that was not stored.
    fn release(&mut self, bytes: usize, now: Timestamp) {
        let end = end_of(now);
        let taken = self.by_hour.iter_mut().find(|(last, taken)| *last >= end && *taken >= bytes);
        if let Some((_, taken)) = taken {
            *taken -= bytes;
            self.bytes -= bytes;
        }
    }
}

/// Returns the hour in which every event of the hour of `now` has ended.
fn end_of(now: Timestamp) -> i64 {
    now.as_second() / 3600 + RETAINED_FOR.as_hours() + 1
}

#[derive(Default)]
struct IssuedKeys {
    last: Option<ExecutionId>,
    /// The keys of the events that are being written and delivered.
    under_way: BTreeSet<ExecutionId>,
}

/// The scope of the times of events that are not retained, by name.
const NOTED: &str = "event-times:";

/// An event that is about to be retained, by its write. It ends with [`Self::written`] or [`Self::give_up`].
pub(crate) struct Retaining<'a> {
    retained: Retained<'a>,
    pub(crate) write: StateWrite,
    /// The share that it takes, its bytes, and when it took them.
    room: (Sender, usize, Timestamp),
}

impl<'a> Retaining<'a> {
    /// The write is durable.
    pub(crate) fn written(self) -> Retained<'a> {
        self.retained
    }

    /// The write has failed: its room is free again.
    pub(crate) fn give_up(self) {
        let (share, bytes, now) = self.room;
        self.retained.keys.release_room(share, bytes, now);
    }
}

/// An event that is retained. Its delivery is over when this is dropped.
pub(crate) struct Retained<'a> {
    keys: &'a EventKeys,
    key: ExecutionId,
}

impl Drop for Retained<'_> {
    fn drop(&mut self) {
        self.keys.issued().under_way.remove(&self.key);
    }
}

impl EventKeys {
    fn issued(&self) -> MutexGuard<'_, IssuedKeys> {
        self.issued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the key of an event that is written and delivered from now on.
    fn begin(&self, ids: &Ids, now: Timestamp) -> Retained<'_> {
        let mut issued = self.issued();
        let key = issued.next(ids, now);
        issued.under_way.insert(key);
        Retained { keys: self, key }
    }

    /// Takes room for an event in the share of its sender. Returns false, and reports it once, if the share is used up.
    fn take_room(&self, sender: Sender, bytes: usize, now: Timestamp) -> bool {
        let (mut shares, most) = (self.shares(), sender.most());
        let share = shares.of(sender);
        let has_room = share.take(bytes, most, now);
        if !has_room && !std::mem::replace(&mut share.is_reported, true) {
            tracing::warn!(
                megabytes = most >> 20,
                "the events that are kept for steps that wait for them later take too much room; further ones reach waiting steps only"
            );
        }
        share.is_reported &= !has_room;
        has_room
    }

    /// Gives back the room of an event that was not stored.
    fn release_room(&self, sender: Sender, bytes: usize, now: Timestamp) {
        self.shares().of(sender).release(bytes, now);
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all later keys greater than the id of an execution.
    fn continue_after(&self, execution: ExecutionId) {
        let last = &mut self.issued().last;
        *last = Some(last.map_or(execution, |last| last.max(execution)));
    }

    /// The key below which this process neither writes nor delivers an event from now on.
    fn settled_until(&self, ids: &Ids, now: Timestamp) -> ExecutionId {
        let mut issued = self.issued();
        let first = issued.under_way.first().copied();
        first.unwrap_or_else(|| issued.next(ids, now))
    }
}

impl IssuedKeys {
    fn next(&mut self, ids: &Ids, now: Timestamp) -> ExecutionId {
        let mut key = ids.next(now);
        if let Some(last) = self.last.filter(|last| key <= *last) {
            let later = last.created_at().and_then(|at| at.checked_add(SignedDuration::from_millis(1)).ok());
            key = ids.next(later.unwrap_or(now));
        }
        self.last = Some(key);
        key
    }
}

/// The retained events: writes events that automations in force may wait for, and reads them for steps that begin to wait.
pub(crate) struct RecentEvents {
    context: Arc<Context>,
    ids: Arc<Ids>,
    keys: EventKeys,
}

impl RecentEvents {
    pub(crate) fn new(context: Arc<Context>, ids: Arc<Ids>) -> Self {
        Self { context, ids, keys: EventKeys::default() }
    }

    /// Makes all later keys greater than the id of an execution.
    pub(crate) fn continue_after(&self, execution: ExecutionId) {
        self.keys.continue_after(execution);
    }

    /// Creates the place of an event in the order of delivery to triggers. It is greater than all before in this process, and than the id
    /// of its sender.
    pub(crate) fn next_place(&self, sender: Option<ExecutionId>) -> ExecutionId {
        if let Some(sender) = sender {
            self.keys.continue_after(sender);
        }
        self.keys.issued().next(&self.ids, self.context.clock.now())
    }

    /// Retains an event if an automation in force may wait for it. The event is durable when the future completes, which must not
    /// be dropped before. Its key is greater than that of its sender, also if the clock was set back since.
    pub(crate) async fn retain(
        &self,
        signal: &Signal,
        sender: Option<ExecutionId>,
    ) -> Result<Option<Retained<'_>>, Error> {
        let Some(retaining) = self.prepare(signal, sender) else {
            self.note_time(&signal.name).await?;
            return Ok(None);
        };
        if let Err(error) = self.context.store.write_state(vec![retaining.write.clone()]).await {
            retaining.give_up();
            self.context.lost(&error);
            return Err(error.into());
        }
        Ok(Some(retaining.written()))
    }

    /// Returns the write that retains an event, for a commit with others. `None` if no automation in force may wait for it, or there is
    /// no room for it.
    pub(crate) fn prepare(&self, signal: &Signal, sender: Option<ExecutionId>) -> Option<Retaining<'_>> {
        if !self.context.catalog.load().awaited_events().may_include(&signal.name) {
            return None;
        }
        let value = serde_json::to_value(signal).map(Value::from_serde).ok()?;
        let bytes = value.estimated_size(StateWrite::MAX_VALUE_BYTES);
        if bytes >= StateWrite::MAX_VALUE_BYTES {
            tracing::warn!(
                event = signal.name,
                "an event of 1 MiB or more is not kept for steps that wait for it later"
            );
            return None;
        }
        let (now, keys) = (self.context.clock.now(), &self.keys);
        let share = if sender.is_some() { Sender::Execution } else { Sender::Outside };
        if !keys.take_room(share, bytes, now) {
            return None;
        }
        if let Some(sender) = sender {
            keys.continue_after(sender);
        }
        let retained = keys.begin(&self.ids, now);
        let write = StateWrite {
            scope: scope(&signal.name),
            key: retained.key.to_string(),
            expected: None,
            value: Some(value),
            expires_at: now.checked_add(RETAINED_FOR).ok(),
        };
        Some(Retaining { retained, write, room: (share, bytes, now) })
    }

    /// Notes that an event has come which is not retained, if a trigger in force starts at its silence.
    pub(crate) async fn note_time(&self, name: &str) -> Result<(), Error> {
        let catalog = self.context.catalog.load_full();
        let mut watching = catalog.awaited_events().on_engine(EngineEventName::Missing);
        if !watching.any(|trigger| trigger.filter.event.as_deref() == Some(name)) {
            return Ok(());
        }
        let (store, now) = (&self.context.store, self.context.clock.now());
        let known = store.read_state(NOTED, name).await?;
        let write = StateWrite {
            scope: NOTED.to_owned(),
            key: name.to_owned(),
            expected: known.map(|entry| entry.version),
            value: Some(Value::from(now.to_string())),
            expires_at: now.checked_add(RETAINED_FOR).ok(),
        };
        match store.write_state(vec![write]).await {
            // Another event has just come.
            Ok(()) | Err(store::Error::StateChanged { .. }) => Ok(()),
            Err(error) => {
                self.context.lost(&error);
                Err(error.into())
            }
        }
    }

    /// Returns when the last event with a name came that was not retained, as far as a trigger started at its silence then.
    pub(crate) async fn noted_time(&self, name: &str) -> Result<Option<Timestamp>, store::Error> {
        let noted = self.context.store.read_state(NOTED, name).await?;
        Ok(noted.and_then(|entry| entry.value.as_str()?.parse().ok()))
    }

    /// Returns a retained event by its key; `None` if it is not retained any more.
    pub(crate) async fn find(&self, name: &str, key: String) -> Result<Option<Delivery>, store::Error> {
        let found = self.context.store.read_state(&scope(name), &key).await?;
        let signal = found.and_then(|entry| serde_json::from_str(&entry.value.to_json()).ok());
        Ok(signal.map(|signal| Delivery { signal, key: Some(key) }))
    }

    /// Finds the key of an event that its sender may have sent before; `None` if it is not retained.
    pub(crate) async fn key_of(&self, signal: &Signal, sender: ExecutionId) -> Result<Option<String>, Error> {
        let mut after = first_event_key(sender, Duration::ZERO);
        loop {
            let (events, last) = self.page(&signal.name, &after, self.context.clock.now()).await?;
            if let Some(event) = events.into_iter().find(|event| event.signal.id == signal.id) {
                return Ok(event.key);
            }
            let Some(last) = last else { return Ok(None) };
            after = last;
        }
    }

    /// The key below which all retained events are written and delivered already: none with a smaller key appears after this call.
    ///
    /// It is exact on a node that is alone. Other nodes give keys, too, and write and deliver within [`WRITTEN_WITHIN`].
    pub(crate) fn settled_until(&self, now: Timestamp) -> String {
        if self.context.store.node().is_none() {
            return self.keys.settled_until(&self.ids, now).to_string();
        }
        let before = now.checked_sub(WRITTEN_WITHIN).unwrap_or(Timestamp::UNIX_EPOCH);
        ExecutionId::new(before, [0; 10]).to_string()
    }

    /// Reads a page of the events with a name that were sent after the key `after`, oldest first; and the key of the last one;
    /// `None` after the last page.
    pub(crate) async fn page(
        &self,
        name: &str,
        after: &str,
        now: Timestamp,
    ) -> Result<(Vec<Delivery>, Option<String>), store::Error> {
        let page = self.context.store.list_state(&scope(name), Some(after), PAGE).await?;
        let last = page.last().map(|row| row.key.clone());
        let alive = page.into_iter().filter(|row| row.entry.expires_at.is_none_or(|at| at > now));
        let events = alive.filter_map(|row| {
            let signal = serde_json::from_str(&row.entry.value.to_json()).ok()?;
            Some(Delivery { signal, key: Some(row.key) })
        });
        Ok((events.collect(), last))
    }
}

/// The key in the order of retained events at which an execution was accepted, or so long before.
pub(crate) fn first_event_key(id: ExecutionId, before: Duration) -> String {
    if before.is_zero() {
        return id.to_string();
    }
    let accepted = id.created_at().unwrap_or(Timestamp::UNIX_EPOCH);
    let first = accepted.checked_sub(before).unwrap_or(Timestamp::UNIX_EPOCH);
    ExecutionId::new(first, [0; 10]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + millisecond).unwrap()
    }

    #[test]
    fn event_keys_increase_even_if_the_clock_is_set_back() {
        let (ids, keys) = (Ids::default(), EventKeys::default());
        let mut last = keys.begin(&ids, at(5000)).key;
        for now in [at(5000), at(4000), at(4000), at(5000), at(4999), at(5001), at(9000)] {
            // An execution that is accepted in between takes ids from the same sequence.
            ids.next(now);
            let key = keys.begin(&ids, now).key;
            assert!(key > last, "{key} after {last}");
            last = key;
        }
    }

    #[test]
    fn an_event_is_settled_once_no_event_up_to_it_is_being_written_or_delivered() {
        let (ids, keys) = (Ids::default(), EventKeys::default());
        let (slow, fast) = (keys.begin(&ids, at(1)), keys.begin(&ids, at(2)));
        let fast_key = fast.key;
        drop(fast);
        assert!(fast_key > keys.settled_until(&ids, at(3)), "the slow one can still appear before it");
        drop(slow);
        let settled = keys.settled_until(&ids, at(3));
        assert!(fast_key < settled);
        assert!(keys.begin(&ids, at(0)).key > settled, "and none appears before it from now on");
    }

    #[test]
    fn event_keys_continue_after_the_newest_execution_of_the_previous_process() {
        let (ids, keys) = (Ids::default(), EventKeys::default());
        let newest = ExecutionId::new(at(5000), [7; 10]);
        keys.continue_after(newest);
        assert!(keys.begin(&ids, at(1)).key > newest);
    }

    #[test]
    fn external_events_leave_space_for_events_of_executions_until_they_expire() {
        let keys = EventKeys::default();
        let bytes = 1 << 20;
        let taken = (0..1000).take_while(|_| keys.take_room(Sender::Outside, bytes, at(0))).count();
        assert_eq!(taken, 32);
        assert!(keys.take_room(Sender::Execution, bytes, at(0)));
        let later = |hours: i64| at(0).checked_add(SignedDuration::from_hours(hours)).unwrap();
        assert!(!keys.take_room(Sender::Outside, bytes, later(24 * 7 - 1)));
        assert!(keys.take_room(Sender::Outside, bytes, later(24 * 7 + 1)));
    }

    #[test]
    fn an_event_that_was_not_stored_takes_no_space() {
        let keys = EventKeys::default();
        let bytes = Sender::Outside.most();
        let later = at(0).checked_add(SignedDuration::from_hours(2)).unwrap();
        assert!(keys.take_room(Sender::Outside, bytes, at(0)));
        assert!(!keys.take_room(Sender::Outside, bytes, later));
        keys.release_room(Sender::Outside, bytes, at(0));
        assert!(keys.take_room(Sender::Outside, bytes, later));
    }
}
