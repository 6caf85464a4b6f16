//! The daemons that share a store.

use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use model::automation::Retention;
use model::{AutomationId, ExecutionId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ExecutionRow, RunningGeneration};

/// The number of a node: one run of a daemon on a shared store. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub i64);

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A node, as it reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// The name of its machine.
    pub host: String,
    /// The release that it runs.
    pub release: String,
    /// The time at which it joined.
    pub joined_at: Timestamp,
    /// True once it has left, or the others have declared it dead; it is listed until its executions have other owners.
    pub dead: bool,
    /// The shards that it owns.
    pub shards: ShardSet,
    /// Its load when it beat last.
    pub load: Load,
    /// The generation of definitions that it ran when it beat last.
    pub running: RunningGeneration,
    /// Its description of itself.
    pub details: NodeDetails,
}

/// The description of a node, by the node. It has only its settings until its first beat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeDetails {
    /// The address of its admin listener.
    pub address: Option<String>,
    /// Its data folder.
    pub data_dir: Option<String>,
    /// The ids of the keys with which it reads secrets, the encrypting key first.
    pub keys: Vec<String>,
    /// The reasons why it cannot run everything, such as another key, as sentences for people.
    pub problems: Vec<String>,
    /// Its settings for the store; the store fills them in.
    pub settings: Option<SharedSettings>,
}

/// The settings that act on a store which several nodes share. One set of them is in force for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SharedSettings {
    /// The limit of the size, in bytes.
    pub store_size: Option<u64>,
    /// The retention of Automations that have none of their own.
    pub retention: Option<Retention>,
}

impl SharedSettings {
    /// Returns a text for each setting that has another value in `in_force`.
    #[must_use]
    pub fn differences(&self, in_force: &Self) -> Vec<String> {
        let (own, other) = (self.retention.unwrap_or_default(), in_force.retention.unwrap_or_default());
        let size = |bytes: Option<u64>| bytes.map(|bytes| format!("{bytes} bytes"));
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let yes = |value: Option<bool>| value.map(|value| value.to_string());
        let all = [
            ("limits.storeSize", size(self.store_size), size(in_force.store_size)),
            ("retention.days", number(own.days), number(other.days)),
            ("retention.failedDays", number(own.failed_days), number(other.failed_days)),
            ("retention.keepFailed", yes(own.keep_failed), yes(other.keep_failed)),
            ("retention.count", number(own.count), number(other.count)),
        ];
        let unset = || "not set".to_owned();
        let differs = all.into_iter().filter(|(_, own, other)| own != other);
        let told = differs.map(|(name, own, other)| {
            format!(
                "`{name}` is {} here, and {} is in force",
                own.unwrap_or_else(unset),
                other.unwrap_or_else(|| "no value".to_owned())
            )
        });
        told.collect()
    }
}

/// The load of a node, in executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The executions in memory.
    pub in_flight: u64,
    /// The executions that wait for a slot.
    pub queued: u64,
    /// The suspended executions.
    pub resting: u64,
}

/// A reading of the clock of the database server, which is the clock of all nodes.
#[derive(Clone, Copy, Debug)]
pub struct ServerTime {
    /// The time that the server returned.
    pub told: Timestamp,
    /// When the answer came.
    pub received: Instant,
    /// The time between the question and the answer: the server read its clock within it.
    pub round_trip: Duration,
}

impl ServerTime {
    /// The time of the server now, if it read its clock in the middle of the round trip.
    pub fn now(&self) -> Timestamp {
        let since = self.received.elapsed().saturating_add(self.round_trip / 2);
        self.told.checked_add(since).unwrap_or(Timestamp::MAX)
    }
}

/// A shard: the Automations whose schedules, polls, subscriptions and gated executions one node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u8);

impl Shard {
    /// The number of shards.
    pub const COUNT: u8 = 128;

    /// Returns the shard of an Automation.
    #[must_use]
    pub fn of(automation: &AutomationId) -> Self {
        Self::of_text(automation.as_str())
    }

    /// Returns the shard of a text.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let [first, ..] = <[u8; 32]>::from(Sha256::digest(text.as_bytes()));
        Self(first % Self::COUNT)
    }

    /// Returns the shard with this number; `None` if there is none.
    #[must_use]
    pub fn new(number: u8) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// Returns the number, below [`Shard::COUNT`].
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }
}

/// A set of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(u128);

impl ShardSet {
    /// All shards.
    pub const ALL: Self = Self(u128::MAX);

    /// Returns true if the shard is in the set.
    #[must_use]
    pub fn contains(self, shard: Shard) -> bool {
        self.0 >> shard.0 & 1 == 1
    }

    /// Adds a shard.
    pub fn insert(&mut self, shard: Shard) {
        self.0 |= 1 << shard.0;
    }

    /// Removes a shard.
    pub fn remove(&mut self, shard: Shard) {
        self.0 &= !(1 << shard.0);
    }

    /// Returns the shards that are in one of the sets and not in the other.
    #[must_use]
    pub fn difference(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns true if there are no shards.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the shards in order.
    pub fn iter(self) -> impl Iterator<Item = Shard> {
        (0..Shard::COUNT).map(Shard).filter(move |shard| self.contains(*shard))
    }
}

impl FromIterator<Shard> for ShardSet {
    fn from_iter<T: IntoIterator<Item = Shard>>(shards: T) -> Self {
        let mut set = Self::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

/// An execution that this node owns and does not have in memory yet: another node accepted it, or its owner is dead.
#[derive(Clone, Debug)]
pub struct HandedExecution {
    /// Its list row.
    pub row: ExecutionRow,
    /// True if it keeps its concurrency permit while it waits.
    pub keeps_permit: bool,
    /// The earliest end of its open waits.
    pub wake_at: Option<Timestamp>,
}

/// The recipient of a letter: the owner of one of these, whichever node that is when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The owner of an execution that has not ended.
    Execution(ExecutionId),
    /// The owner of a shard.
    Shard(Shard),
}

/// A request to another node. It is kept until it is answered, or its sender gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its id, by which the sender finds the reply.
    pub id: [u8; 16],
    /// Its recipient.
    pub to: Recipient,
    /// The node that waits for the reply.
    pub sender: NodeId,
    /// The request, in a form that the engine defines.
    pub body: Vec<u8>,
}

/// The state of a letter for its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterState {
    /// The owner has not answered yet.
    Open,
    /// The reply, in a form that the engine defines.
    Answered(Vec<u8>),
    /// The execution has ended and there is no reply. Its owner may be about to write one.
    Ended,
}

/// A hint of one node to another that something has changed. It may be lost: each node also polls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum News {
    /// A letter has come.
    Letter,
    /// The reply to a letter has come.
    Reply,
    /// There are executions that this node owns and does not have.
    Handed,
    /// Nodes have joined, left or died.
    Nodes,
    /// A node waits for the end of an execution of this node.
    Watch {
        /// The execution.
        execution: ExecutionId,
        /// The node that waits.
        node: NodeId,
    },
    /// An execution has ended, or its caller can be answered.
    Ended {
        /// The execution.
        execution: ExecutionId,
    },
    /// A generation of definitions was deployed.
    Deployed,
    /// Addresses of webhooks have changed.
    Addresses,
    /// Secrets have changed.
    Secrets,
    /// Events for triggers were sent.
    Emitted {
        /// The name of the events.
        name: String,
    },
    /// A listening session at a test address began or ended, or a request was captured.
    Listening,
    /// Executions wait for a slot at a node.
    Backlog {
        /// The node.
        node: NodeId,
        /// Their number.
        count: usize,
    },
    /// A node has free slots for executions that wait at another one.
    Room {
        /// The node.
        node: NodeId,
        /// The number of slots.
        count: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_set_contains_added_and_not_removed_shards() {
        let shard = |number| Shard::new(number).expect("there is one");
        let mut set: ShardSet = [shard(0), shard(127), shard(5)].into_iter().collect();
        set.remove(shard(5));
        assert_eq!(set.iter().map(Shard::number).collect::<Vec<_>>(), [0, 127]);
        assert_eq!((set.len(), set.is_empty(), ShardSet::ALL.len()), (2, false, 128));
        assert!(Shard::new(128).is_none());
    }

    #[test]
    fn the_shard_of_an_automation_never_changes() {
        // Nodes of two releases that disagree would both fire its schedule.
        let of = |id| Shard::of(&AutomationId::parse(id).expect("an id")).number();
        assert_eq!((of("orders"), of("hello")), (28, 44));
    }
}
