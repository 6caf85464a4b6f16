use jiff::Timestamp;
use model::{AutomationId, Map, Value};
use serde::{Deserialize, Serialize};

/// Where the poll of an Automation stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollStanding {
    /// What is polled, so that another question begins anew.
    pub source: String,
    /// Where the next poll goes on.
    #[serde(default)]
    pub cursor: Value,
    /// When it was last polled without an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polled_at: Option<Timestamp>,
    /// When something new was last found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_at: Option<Timestamp>,
    /// When it is polled next.
    pub next_at: Timestamp,
    /// How many polls failed since the last one that did not.
    pub failures: u32,
    /// Why the last one failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many polls there were, and how many new things they found.
    pub polls: u64,
    /// How many new things they found.
    pub found: u64,
}

/// What came of a poll. Written in one transaction with the executions that it starts, or alone.
#[derive(Clone, Debug)]
pub struct PollWrite {
    /// Of which Automation.
    pub automation: AutomationId,
    /// Where it stands then.
    pub standing: PollStanding,
    /// Whether everything seen before is forgotten.
    pub forget: bool,
    /// What is seen now; may have been seen before.
    pub keys: Vec<String>,
    /// What to keep of it.
    pub entry: Option<PollEntry>,
}

impl PollWrite {
    /// The most keys that are kept of one Automation: of more, those go that were not seen for the longest time.
    pub const MAX_KEYS: usize = 10_000;
    /// The most bytes of a key.
    pub const MAX_KEY_BYTES: usize = 200;
    /// The most entries that are kept of one Automation.
    pub const MAX_ENTRIES: u32 = 100;
}

/// What came of one poll, for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollEntry {
    /// When.
    pub at: Timestamp,
    /// How many things were looked at.
    pub items: u64,
    /// How many of them were new.
    pub found: u64,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// That another application tells of something, is to tell of it, or is to stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// Its own id.
    pub id: String,
    /// For which Automation.
    pub automation: AutomationId,
    /// What was asked for, so that a change is noticed.
    pub source: String,
    /// The event: `connector.event`.
    pub event: String,
    /// With which connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// With which inputs.
    pub inputs: Map,
    /// The address that is told.
    #[serde(default)]
    pub url: String,
    /// Whether it was asked for: the other application may have it, though nobody here knows what it calls it.
    #[serde(default)]
    pub asked: bool,
    /// What the other application calls it, once it is there.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub remote: Value,
    /// Whether it is to be taken back.
    pub leaving: bool,
    /// Whether it is for the test address alone.
    #[serde(default)]
    pub test: bool,
    /// How often it failed since it last did not.
    pub failures: u32,
    /// Why it last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it is tried next, while it is not as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
    /// Since when it is as it is.
    pub since: Timestamp,
}
