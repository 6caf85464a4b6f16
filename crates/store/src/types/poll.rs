//! State of polls, and subscriptions at other applications.

use jiff::Timestamp;
use model::automation::TriggerKey;
use serde::{Deserialize, Serialize};
use value::{Map, Value};

/// The state of the poll of a trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollState {
    /// The canonical text of the polled request. A different text restarts the poll.
    pub source: String,
    /// The cursor with which the next poll continues.
    pub cursor: Value,
    /// The time of the last poll without an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polled_at: Option<Timestamp>,
    /// The time of the last poll that returned new items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_at: Option<Timestamp>,
    /// The time of the next poll.
    pub next_at: Timestamp,
    /// The number of failed polls since the last successful one.
    pub failures: u32,
    /// The error of the last poll, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The number of polls.
    pub polls: u64,
    /// The number of new items of all polls.
    pub found: u64,
}

/// The result of a poll. Written in the same transaction as the executions that it starts, or alone.
#[derive(Clone, Debug)]
pub struct PollWrite {
    /// The trigger.
    pub trigger: TriggerKey,
    /// The state after the poll.
    pub state: PollState,
    /// True if all stored keys are deleted first.
    pub forgets_keys: bool,
    /// The keys of the items of this poll; they may be stored already.
    pub keys: Vec<String>,
    /// The entry for the poll log, if any.
    pub entry: Option<PollEntry>,
}

impl PollWrite {
    /// The maximum number of keys of a trigger. Beyond it, the keys that were polled least recently are deleted.
    pub const MAX_KEYS: usize = 10_000;
    /// The maximum length of a key in bytes.
    pub const MAX_KEY_BYTES: usize = 200;
    /// The maximum number of log entries of a trigger.
    pub const MAX_ENTRIES: u32 = 100;
}

/// An entry of the poll log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollEntry {
    /// The time of the poll.
    pub at: Timestamp,
    /// The number of items.
    pub items: u64,
    /// The number of new items.
    pub found: u64,
    /// The error, if the poll failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A subscription at another application: active, to be created, or to be removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// The id that this store assigns.
    pub id: String,
    /// The trigger that receives the events.
    #[serde(rename = "automation")]
    pub trigger: TriggerKey,
    /// The trigger that its secret is derived from, if its rows have moved to `trigger` since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_trigger: Option<TriggerKey>,
    /// The canonical text of the trigger, to detect changes.
    pub source: String,
    /// The event: `connector.event`.
    pub event: String,
    /// The name of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The inputs of the event.
    pub inputs: Map,
    /// The callback address.
    pub url: String,
    /// True once the creation was requested: the other application may have it even if its id is unknown here.
    #[serde(rename = "asked")]
    pub requested: bool,
    /// The subscription's id at the other application, once it is created; null before.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub remote: Value,
    /// True if it is to be removed.
    #[serde(rename = "leaving")]
    pub removing: bool,
    /// True if it serves only the test address.
    pub test: bool,
    /// The number of failed attempts since the last success.
    pub failures: u32,
    /// The error of the last attempt, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The time of the next attempt; `None` if nothing is left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// The time since which it is in this state.
    pub since: Timestamp,
}

impl Subscription {
    /// Returns it as that of another trigger, which keeps its secret.
    #[must_use]
    pub fn moved_to(self, trigger: &TriggerKey) -> Self {
        let secret_trigger = self.secret_trigger.or(Some(self.trigger));
        Self { trigger: trigger.clone(), secret_trigger, ..self }
    }
}
