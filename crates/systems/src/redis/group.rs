//! The positions of consumer groups, as long as this process runs. A group that somebody has deleted goes on there.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use connector::ResolvedConnection;
use sha2::{Digest as _, Sha256};

use crate::connection::Inputs;

/// The time for which a position is kept, as long as the ids of messages are known: before it an entry may start again.
const KEPT: Duration = Duration::from_hours(24 * 7);
/// The largest number of groups whose positions are known.
const MAX_GROUPS: usize = 10_000;

/// An id of an entry: its milliseconds, and its number within them. Entries are in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId(u64, u64);

impl EntryId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (milliseconds, number) = text.split_once('-')?;
        Some(Self(milliseconds.parse().ok()?, number.parse().ok()?))
    }

    /// The largest id before this one.
    pub(super) fn before(self) -> Self {
        match self {
            Self(milliseconds, 0) => Self(milliseconds.saturating_sub(1), u64::MAX),
            Self(milliseconds, number) => Self(milliseconds, number - 1),
        }
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.0, self.1)
    }
}

/// The identity of a group.
pub(super) type GroupId = [u8; 32];

/// Returns the identity of a group of a stream.
pub(super) fn group_id(connection: &ResolvedConnection, stream: &str, group: &str) -> GroupId {
    let mut hash = Sha256::new();
    hash.update(Inputs(connection).digest());
    for part in [stream, group] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// For each group the entry up to which all are acknowledged, as the server has last told it.
#[derive(Default)]
pub(super) struct Groups(Mutex<HashMap<GroupId, (EntryId, Instant)>>);

impl Groups {
    pub(super) fn position(&self, group: &GroupId) -> Option<EntryId> {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        groups.get(group).filter(|(_, noted)| noted.elapsed() < KEPT).map(|(position, _)| *position)
    }

    pub(super) fn note(&self, group: GroupId, position: EntryId) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() < MAX_GROUPS || groups.contains_key(&group) {
            groups.insert(group, (position, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn ids_are_ordered_by_their_numbers_and_have_a_predecessor() {
        let id = |text: &str| EntryId::parse(text).expect("an id");
        assert!(id("9-10") < id("10-9") && id("10-9") < id("10-10"));
        assert_eq!(id("10-9").before(), id("10-8"));
        assert_eq!(id("10-0").before().to_string(), format!("9-{}", u64::MAX));
        assert_eq!(id("0-1").before().to_string(), "0-0");
        assert!(["", "1", "1-", "a-1", "-1-1"].into_iter().all(|text| EntryId::parse(text).is_none()));
    }
}
