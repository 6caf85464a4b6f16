//! Events on their way to the triggers that they start, from the sender to the commit.
//!
//! The commit that says that a step has sent an event also stores the event in the store's outbox, if a trigger in force is named
//! after it. [`Outbox`] then wakes whoever delivers it, in this process or on the node that has the shard of its name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use catalog::Mount;
use connector::Trace;
use jiff::SignedDuration;
use model::action::{ActionError, ErrorKind};
use model::automation::{OwnEventTrigger, TriggerKey};
use model::execution::{ExecutionId, OutboxEvent, Signal};
use model::payload::EmittedEvent;
use sha2::{Digest as _, Sha256};
use store::{Capacity, OutboxCount, OutboxRow, StateWrite};
use tokio::sync::Notify;
use value::{Reserved, Value};

use crate::context::Context;

/// The prefix of the names of the engine's own events, which no sender starts triggers with.
pub const ENGINE_EVENTS: &str = "cogwork.";

/// The maximum size of the data of an event that starts triggers, in bytes.
const MAX_DATA: usize = 1 << 20;

/// The scope of the ids of events from outside, in the state. No scope of an automation has a colon in it.
const SENT: &str = "sent:events";
/// The time for which such an id is known: an event is delivered for 7 days, and the keys of executions live 30 days longer than they.
const KNOWN: SignedDuration = SignedDuration::from_hours(24 * 37);

/// The names of events that are to be delivered, and about how many are on their way.
#[derive(Default)]
pub struct Outbox {
    /// Each with true if this process has stored some.
    due: Mutex<BTreeMap<String, bool>>,
    woken: Notify,
    /// The events in the store, by the last count and the commits of this process since.
    rows: AtomicU64,
    /// The reasons why events wait, by name, as the last delivery of this process found them.
    waits: Mutex<BTreeMap<String, Vec<DeliveryWait>>>,
}

/// The reason why events of a name wait for their delivery.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryWait {
    /// The trigger that could not take them: `orders`, `orders/paid`; absent if it concerns every trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The reason, in words.
    pub reason: String,
}

impl Outbox {
    /// Notes that events with these names are stored.
    pub fn committed<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut due = self.due();
        let mut count = 0;
        for name in names {
            count += 1;
            if due.get(name) != Some(&true) {
                due.insert(name.to_owned(), true);
            }
        }
        drop(due);
        if count > 0 {
            self.rows.fetch_add(count, Ordering::Relaxed);
            self.woken.notify_one();
        }
    }

    /// Notes that another node has stored events with this name.
    pub fn wake(&self, name: String) {
        self.due().entry(name).or_default();
        self.woken.notify_one();
    }

    /// Notes that events were deleted.
    pub fn deleted(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        // The count is an estimate, which other nodes change too.
        let _ = self
            .rows
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rows| Some(rows.saturating_sub(count)));
    }

    /// Sets the number of events in the store.
    pub fn counted(&self, counts: &[OutboxCount]) {
        self.rows.store(counts.iter().map(|count| count.rows).sum(), Ordering::Relaxed);
    }

    /// Returns the number of events in the store, by the last count and the commits of this process since.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Waits until events are to be delivered.
    pub async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Takes the names of the events that are to be delivered, each with true if this process has stored some.
    #[must_use]
    pub fn take_due(&self) -> BTreeMap<String, bool> {
        std::mem::take(&mut *self.due())
    }

    /// Records why events of a name still wait after a delivery; empty if none does, or if another node delivers them.
    pub fn set_waits(&self, name: &str, waits: Vec<DeliveryWait>) {
        let mut all = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.is_empty() {
            all.remove(name);
        } else {
            all.insert(name.to_owned(), waits);
        }
    }

    /// Returns the reasons why events of a name wait; empty if this process knows none.
    #[must_use]
    pub fn waits(&self, name: &str) -> Vec<DeliveryWait> {
        let all = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name).cloned().unwrap_or_default()
    }

    fn due(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sender of an event.
pub(crate) struct EventSender<'a> {
    /// The execution.
    pub(crate) execution: ExecutionId,
    /// The step, with its iterations.
    pub(crate) step: &'a str,
    /// The chain of the execution.
    pub(crate) trace: Trace,
    /// True if the execution is a test.
    pub(crate) is_test: bool,
}

/// The record of an event from outside, by its id.
pub(crate) enum EventRecord {
    /// It was not sent before: the write that records it.
    New(StateWrite),
    /// It was sent before, and its retained event has this key, if it has one.
    Sent { kept_as: Option<String> },
}

/// The triggers that an event starts, and its row.
#[derive(Default)]
pub(crate) struct Starts {
    /// The triggers in force, as people call them.
    pub(crate) triggers: Vec<String>,
    /// The event without its place in the order; `None` if it starts nothing.
    pub(crate) row: Option<PendingRow>,
    /// True if the chain of its sender is too long, so that it starts nothing.
    pub(crate) is_loop: bool,
}

/// An event that gets its place in the order of delivery when it is sent.
pub(crate) struct PendingRow {
    name: String,
    body: String,
    at: jiff::Timestamp,
}

impl PendingRow {
    /// Returns the event at its place in the order.
    pub(crate) fn at(self, id: ExecutionId) -> OutboxRow {
        OutboxRow { id, name: self.name, body: self.body, at: self.at }
    }
}

impl Context {
    /// Returns the triggers in force that an event of this name starts; in a test, its receivers' triggers.
    #[must_use]
    pub fn event_consumers(&self, name: &str) -> Vec<Mount> {
        let catalog = self.catalog.load();
        let consumers = catalog.awaited_events().consumers(name).iter();
        let receives = |mount: &&Mount| {
            let doubles = self.doubles.as_ref();
            doubles.is_none_or(|doubles| doubles.receives_events(&mount.deployment.automation.id))
        };
        consumers.filter(receives).take(OwnEventTrigger::MAX_PER_NAME).cloned().collect()
    }

    /// Looks up an event from outside by its id.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn record_of_event(&self, name: &str, id: &str) -> Result<EventRecord, store::Error> {
        let key = hex::encode(Sha256::digest(format!("{name}\n{id}")));
        let known = self.store.read_state(SENT, &key).await?;
        let now = self.clock.now();
        if let Some(entry) = known.as_ref().filter(|entry| entry.expires_at.is_none_or(|at| at > now)) {
            return Ok(EventRecord::Sent { kept_as: entry.value.as_str().map(str::to_owned) });
        }
        let (expected, expires_at) = (known.map(|entry| entry.version), now.checked_add(KNOWN).ok());
        let value = Some(Value::from(true));
        Ok(EventRecord::New(StateWrite { scope: SENT.to_owned(), key, expected, value, expires_at }))
    }

    /// Looks up what an event starts: in the snapshot in memory, before anybody gets the event.
    ///
    /// # Errors
    /// Returns an error of kind `limit` if a trigger is named after the event and its data are too large, or too many events are on
    /// their way.
    pub(crate) fn starts_of(
        &self,
        signal: &Signal,
        sender: Option<EventSender<'_>>,
    ) -> Result<Starts, ActionError> {
        if signal.name.starts_with(ENGINE_EVENTS) {
            return Ok(Starts::default());
        }
        let consumers = self.event_consumers(&signal.name);
        if consumers.is_empty() {
            return Ok(Starts::default());
        }
        if sender.as_ref().is_some_and(|sender| is_loop(&sender.trace, self.settings.limits.chain)) {
            return Ok(Starts { is_loop: true, ..Starts::default() });
        }
        let triggers = consumers.iter().map(display_name).collect();
        let row = self.pending_row(signal, sender, consumers.iter().map(Mount::key).collect())?;
        Ok(Starts { triggers, row: Some(row), is_loop: false })
    }

    /// Returns true if no event is stored any more, since too many are on their way or the store is full.
    pub(crate) fn outbox_is_full(&self) -> bool {
        self.outbox.rows() >= OutboxRow::MAX || self.store.capacity() == Capacity::Exhausted
    }

    fn pending_row(
        &self,
        signal: &Signal,
        sender: Option<EventSender<'_>>,
        consumers: Vec<TriggerKey>,
    ) -> Result<PendingRow, ActionError> {
        let limit = |message: String| ActionError::new(ErrorKind::Limit, message);
        if self.outbox_is_full() {
            return Err(limit(format!(
                "the event `{}` cannot start anything: {} events wait for their delivery, or the store is full",
                signal.name,
                self.outbox.rows()
            )));
        }
        let too_large = || {
            let most = text::units::format_size(MAX_DATA as u64);
            limit(format!(
                "the data of the event `{}` are larger than {most}, which is the most for an event that starts executions; \
                 send an id, and let them read the rest",
                signal.name
            ))
        };
        if signal.data.estimated_size(MAX_DATA) > MAX_DATA {
            return Err(too_large());
        }
        // Many executions share the data, so none of them keeps a file for them.
        let data = signal.data.load_files(MAX_DATA, &Reserved::uncounted(MAX_DATA));
        let data = data.map_err(|_| too_large())?;
        let at = self.clock.now();
        let event = EmittedEvent {
            event: signal.name.clone(),
            id: signal.id.clone(),
            sent_at: at,
            by: signal.by.clone(),
            data,
        };
        let event = OutboxEvent {
            event,
            sender: sender.as_ref().map(|sender| sender.execution),
            step: sender.as_ref().map(|sender| sender.step.to_owned()),
            trace: sender.as_ref().map(|sender| sender.trace.to_string()),
            test: sender.is_some_and(|sender| sender.is_test),
            consumers,
        };
        let body = serde_json::to_string(&event);
        let body = body.map_err(|error| ActionError::new(ErrorKind::Internal, error.to_string()))?;
        if body.len() > OutboxRow::MAX_BODY {
            return Err(too_large());
        }
        Ok(PendingRow { name: signal.name.clone(), body, at })
    }
}

/// Returns true if an execution that this one starts would be beyond the longest chain.
fn is_loop(sender: &Trace, most: u32) -> bool {
    sender.depth.saturating_add(1) >= most
}

/// Returns the name of a trigger as people write it: `orders`, or `orders/paid`.
fn display_name(mount: &Mount) -> String {
    mount.deployment.automation.trigger_key(&mount.declared().id).name()
}
