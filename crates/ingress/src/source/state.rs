//! The consumers of this node, and their state.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::automation::TriggerKey;
use serde::{Deserialize, Serialize};
use store::Shard;
use tokio::sync::{Notify, Semaphore};

/// The number of commits that are put together at one time: each has up to [`MAX_BYTES`](super::intake) of messages in memory.
const MAX_INTAKES: usize = 4;

/// The consumers of this node.
pub(crate) struct Sources {
    views: Mutex<BTreeMap<ConsumerId, SourceView>>,
    /// Notified when a consumer has ended.
    pub(super) ended: Notify,
    pub(super) intakes: Semaphore,
    /// Held while messages are added to the list, whose size is bounded.
    pub(super) list: tokio::sync::Mutex<()>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            views: Mutex::default(),
            ended: Notify::new(),
            intakes: Semaphore::new(MAX_INTAKES),
            list: tokio::sync::Mutex::default(),
        }
    }
}

/// A consumer of a trigger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConsumerId {
    pub(super) trigger: TriggerKey,
    /// From 0.
    pub(super) number: u32,
}

impl ConsumerId {
    /// The first consumer is where its automation is, the others are elsewhere.
    pub(super) fn shard(&self) -> Shard {
        match self.number {
            0 => Shard::of(&self.trigger.automation),
            number => Shard::of_text(&format!("{}/{number}", self.trigger)),
        }
    }
}

impl Sources {
    pub(super) fn views(&self) -> MutexGuard<'_, BTreeMap<ConsumerId, SourceView>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of a consumer.
    pub(super) fn change(&self, id: &ConsumerId, change: impl FnOnce(&mut SourceView)) {
        if let Some(view) = self.views().get_mut(id) {
            change(view);
        }
    }
}

/// The state of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum SourceState {
    /// It connects.
    Connecting,
    /// It takes messages.
    Running,
    /// It asks for none, since there is no room for executions.
    Waiting,
    /// It could not connect, or lost the connection, and tries again.
    Failing,
}

/// A consumer of a trigger on messages of a broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceView {
    /// The trigger.
    pub trigger: TriggerKey,
    /// The number of the consumer, from 0.
    pub consumer: u32,
    /// Its state.
    pub state: SourceState,
    /// When it got into this state.
    pub since: Timestamp,
    /// The last error, or the reason why it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of failures in a row.
    pub failures: u32,
    /// The messages that wait at the broker; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// The messages that started an execution since the consumer began.
    pub accepted: u64,
    /// The redelivered messages, which had started an execution before.
    pub repeated: u64,
    /// The messages that came into the list of poisoned messages.
    pub poisoned: u64,
    /// The messages without an identity: each starts an execution whenever it comes.
    #[serde(default)]
    pub unidentified: u64,
    /// When the last message came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
}

impl SourceView {
    pub(super) fn new(trigger: &TriggerKey, consumer: u32, now: Timestamp) -> Self {
        Self {
            trigger: trigger.clone(),
            consumer,
            state: SourceState::Connecting,
            since: now,
            error: None,
            failures: 0,
            lag: None,
            accepted: 0,
            repeated: 0,
            poisoned: 0,
            unidentified: 0,
            last_at: None,
        }
    }

    /// Sets the state, with the reason.
    pub(super) fn enter(&mut self, state: SourceState, error: Option<String>, now: Timestamp) {
        if self.state != state {
            self.since = now;
        }
        (self.state, self.error) = (state, error);
    }
}

/// Tells the state of the consumers of a trigger.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SourceOperation;
