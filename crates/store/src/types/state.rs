//! Values that outlive executions, found by scope and key.

use jiff::Timestamp;
use value::Value;

/// A stored value with its version.
#[derive(Clone, Debug, PartialEq)]
pub struct StateEntry {
    /// The value.
    pub value: Value,
    /// The version, for optimistic locking. No two values of a key ever have the same one, not even after a deletion.
    pub version: u64,
    /// The expiry; `None` if the value does not expire.
    ///
    /// An expired value can still be read until [`crate::MaintenanceStore::prune_state`] deletes it. The reader
    /// compares this time with its clock, and names the version when it overwrites the value.
    pub expires_at: Option<Timestamp>,
}

/// A stored value with its key, as an item of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRow {
    /// The key within the scope.
    pub key: String,
    /// The value with its version.
    pub entry: StateEntry,
}

/// A write or deletion of a value, guarded by its expected version.
#[derive(Clone, Debug, PartialEq)]
pub struct StateWrite {
    /// The scope: an Automation, or the shared one. At most [`StateWrite::MAX_NAME_BYTES`].
    pub scope: String,
    /// The key within the scope. At most [`StateWrite::MAX_NAME_BYTES`].
    pub key: String,
    /// The version that must be stored, else [`crate::Error::StateChanged`]; `None`: the key must be absent.
    pub expected: Option<u64>,
    /// The new value, at most [`StateWrite::MAX_VALUE_BYTES`] as JSON; `None` deletes the stored one.
    pub value: Option<Value>,
    /// The expiry; `None` if the value does not expire.
    pub expires_at: Option<Timestamp>,
}

impl StateWrite {
    /// The maximum number of values in one write.
    pub const MAX_AT_ONCE: usize = 1000;

    /// The maximum length of a scope or a key in bytes.
    pub const MAX_NAME_BYTES: usize = 512;

    /// The maximum size of a value as JSON in bytes.
    pub const MAX_VALUE_BYTES: usize = 1 << 20;
}
