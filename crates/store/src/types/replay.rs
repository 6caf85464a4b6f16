//! The part of a log that a replay needs.

use model::Event;

use crate::Error;

/// The state of an execution after its first events, from which a replay continues.
///
/// It only shortens the replay: the log stays complete, and a replay of all events produces the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of events that it covers. An append begins there: every earlier event is stored.
    pub events: u32,
    /// The state, in the form of the engine. At most [`Snapshot::MAX_BYTES`].
    pub body: String,
}

impl Snapshot {
    /// The maximum size of the body, in bytes.
    pub const MAX_BYTES: usize = 2 << 20;
}

/// A change of the snapshot of an execution. An execution has at most one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SnapshotChange {
    /// No change.
    #[default]
    Keep,
    /// A new snapshot, which replaces an earlier one. It covers all events before its append, or fewer.
    Put(Snapshot),
    /// The snapshot is deleted.
    Delete,
}

impl SnapshotChange {
    /// Returns an error if the snapshot is too large, or covers more than the `first` events before its append.
    pub(crate) fn check(&self, first: u32) -> Result<(), Error> {
        let Self::Put(Snapshot { events, body }) = self else { return Ok(()) };
        if *events > first {
            let reason = format!("a snapshot of {events} events cannot be written with event {first}");
            return Err(Error::Invalid { reason });
        }
        match body.len() {
            bytes if bytes > Snapshot::MAX_BYTES => {
                Err(Error::TooLarge { bytes, limit: Snapshot::MAX_BYTES })
            }
            _ => Ok(()),
        }
    }

    /// The size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Put(snapshot) => snapshot.body.len(),
            Self::Keep | Self::Delete => 0,
        }
    }
}

/// The part of an execution's log that a replay needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayLog {
    /// The snapshot; `None` if the execution has none.
    pub snapshot: Option<Snapshot>,
    /// The first event of the execution and all events after the snapshot; all events if there is none.
    pub events: Vec<Event>,
    /// The number of stored events.
    pub count: u32,
}
