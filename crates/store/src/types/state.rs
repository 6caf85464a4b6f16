//! Values that outlive executions, by scope and key.

use jiff::Timestamp;
use model::Value;

/// A value as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StateEntry {
    /// The value.
    pub value: Value,
    /// A number that no other value of this key ever had or will have, not even after it is deleted.
    pub version: u64,
    /// From when on it counts as absent. It may be read until [`crate::Store::prune_state`] deletes it: whoever
    /// reads it compares this with the time it is, and names its version when writing over it.
    pub expires_at: Option<Timestamp>,
}

/// A value with its key, in a list of those of a scope.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRow {
    /// Its key.
    pub key: String,
    /// What is kept.
    pub entry: StateEntry,
}

/// A value to keep or to delete, on condition that nobody else did so meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct StateWrite {
    /// Whose it is: an Automation's, everybody's. Up to [`StateWrite::MAX_NAME_BYTES`].
    pub scope: String,
    /// Its key within the scope, up to [`StateWrite::MAX_NAME_BYTES`].
    pub key: String,
    /// The version it must have now, else [`crate::Error::StateChanged`]; `None`: it must be absent.
    pub expected: Option<u64>,
    /// The value to keep, up to [`StateWrite::MAX_VALUE_BYTES`] as JSON; `None` deletes what is kept.
    pub value: Option<Value>,
    /// From when on it counts as absent.
    pub expires_at: Option<Timestamp>,
}

impl StateWrite {
    /// How many values one write can keep or delete.
    pub const MAX_AT_ONCE: usize = 1000;

    /// How long a scope or a key can be.
    pub const MAX_NAME_BYTES: usize = 512;

    /// How large a value can be, as JSON.
    pub const MAX_VALUE_BYTES: usize = 1 << 20;
}
