//! Events on their way to the triggers that they start.

use jiff::Timestamp;
use model::ExecutionId;
use model::automation::TriggerKey;
use model::engine_event::EngineEventName;

use super::Shard;
use crate::Error;

/// An event on its way. The owner of the shard of its name delivers it, and deletes it with the last executions that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// The place in the order of delivery. The ids of one sender grow with each event.
    pub id: ExecutionId,
    /// The name of the event.
    pub name: String,
    /// The event, in the form of the engine; at most [`OutboxRow::MAX_BODY`] bytes.
    pub body: String,
    /// When it was sent.
    pub at: Timestamp,
}

/// The events with one name that are on their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxCount {
    /// The name.
    pub name: String,
    /// The number of events.
    pub rows: u64,
    /// When the first of them was sent.
    pub oldest: Timestamp,
    /// The last of them in the order of delivery.
    pub last: ExecutionId,
}

impl OutboxRow {
    /// The maximum number of events on their way.
    pub const MAX: u64 = 1_000_000;
    /// The maximum size of a body, in bytes: 1 MiB of data, and what belongs to them.
    pub const MAX_BODY: usize = (1 << 20) + (16 << 10);
    /// The maximum number of events of one write.
    pub const MAX_AT_ONCE: usize = 10_000;
    /// The approximate maximum size of a page, in bytes.
    pub const PAGE_BYTES: usize = 8 << 20;

    /// Returns the name of the events of the engine for a trigger, which has events of its own.
    #[must_use]
    pub fn engine_name(event: EngineEventName, trigger: &TriggerKey) -> String {
        format!("{}:{trigger}", event.as_str())
    }

    /// Returns the names of the events of the engine for one trigger, each with that for another.
    #[must_use]
    pub fn moved_names(from: &TriggerKey, to: &TriggerKey) -> Vec<(String, String)> {
        let names = |event| (Self::engine_name(event, from), Self::engine_name(event, to));
        EngineEventName::ALL.into_iter().map(names).collect()
    }

    /// Returns the shard of the events with a name.
    #[must_use]
    pub fn shard_of(name: &str) -> Shard {
        Shard::of_text(&format!("event:{name}"))
    }

    /// Checks the events of one write.
    ///
    /// # Errors
    /// They are too many, or one is too large.
    pub fn check(rows: &[Self]) -> Result<(), Error> {
        if rows.len() > Self::MAX_AT_ONCE {
            let (most, found) = (Self::MAX_AT_ONCE, rows.len());
            return Err(Error::Invalid {
                reason: format!("at most {most} events are sent at once, not {found}"),
            });
        }
        match rows.iter().find(|row| row.body.len() > Self::MAX_BODY) {
            Some(large) => Err(Error::TooLarge { bytes: large.body.len(), limit: Self::MAX_BODY }),
            None => Ok(()),
        }
    }

    /// Returns the approximate size of events in memory, in bytes.
    #[must_use]
    pub fn bytes(rows: &[Self]) -> usize {
        rows.iter().map(|row| 96 + row.name.len() + row.body.len()).sum()
    }
}
