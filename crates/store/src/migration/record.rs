//! The records of a store in a form that is the same in every database, and the hashes that compare them.

#![expect(missing_docs, reason = "most fields are columns, and have their names")]

use std::collections::BTreeMap;
use std::fmt;

use model::execution::{ExecutionId, Origin};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::codec::cause_key;

/// The id of an execution, and the name of a blob or a definition, as their bytes.
pub type Id = [u8; 16];
pub type Hash = [u8; 32];

/// A kind of records. They are moved in the order of [`Kind::MOVED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The signing key of the store, and the latest version of a value of the state.
    Store,
    /// Definitions of Automations.
    Definitions,
    /// Large values and files.
    Blobs,
    /// Executions that have ended.
    Ended,
    /// Executions that have not ended.
    Unfinished,
    /// Rows of events; one has the events of an append.
    Events,
    /// Rows of log lines; one has the lines of an append.
    Logs,
    /// Open waits.
    Waits,
    /// Snapshots from which a replay begins.
    Snapshots,
    /// Keys that executions have taken.
    Keys,
    /// Deduplication records.
    Dedup,
    /// Values of the state, with the secrets among them.
    State,
    /// Addresses of webhooks.
    Addresses,
    /// Watermarks of schedules.
    Watermarks,
    /// States of polls.
    Polls,
    /// Keys that polls have stored.
    PollKeys,
    /// Entries of the logs of polls.
    PollLog,
    /// Subscriptions at other applications.
    Subscriptions,
    /// Events on their way to triggers.
    Outbox,
}

impl Kind {
    /// Every kind with its word for people.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::Store, "store"),
        (Self::Definitions, "definitions"),
        (Self::Blobs, "large values"),
        (Self::Ended, "ended executions"),
        (Self::Unfinished, "unfinished executions"),
        (Self::Events, "events"),
        (Self::Logs, "log lines"),
        (Self::Waits, "waits"),
        (Self::Snapshots, "snapshots"),
        (Self::Keys, "keys"),
        (Self::Dedup, "deduplication records"),
        (Self::State, "state"),
        (Self::Addresses, "addresses"),
        (Self::Watermarks, "watermarks"),
        (Self::Polls, "polls"),
        (Self::PollKeys, "keys of polls"),
        (Self::PollLog, "log of polls"),
        (Self::Subscriptions, "subscriptions"),
        (Self::Outbox, "events under way"),
    ];

    /// The kinds that are moved separately, in order. The others are parts of executions.
    pub const MOVED: [Self; 15] = [
        Self::Store,
        Self::Definitions,
        // Before the executions that name them.
        Self::Blobs,
        Self::Ended,
        Self::Unfinished,
        Self::Keys,
        Self::Dedup,
        Self::State,
        Self::Addresses,
        Self::Watermarks,
        Self::Polls,
        Self::PollKeys,
        Self::PollLog,
        Self::Subscriptions,
        Self::Outbox,
    ];

    /// Returns its word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("records", |(_, word)| word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A table of a store, for the test that none is forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The treatment of its rows.
    pub handling: Handling,
}

/// The treatment of a table by a migration.
#[derive(Clone, Copy, Debug)]
pub enum Handling {
    /// Its rows are moved as records of these kinds.
    Moved(&'static [Kind]),
    /// Its rows are not moved, for this reason.
    NotMoved(&'static str),
}

impl Table {
    /// Creates a table whose rows are moved as records of these kinds.
    #[must_use]
    pub const fn moved(name: &'static str, kinds: &'static [Kind]) -> Self {
        Self { name, handling: Handling::Moved(kinds) }
    }

    /// Creates a table whose rows are not moved, for this reason.
    #[must_use]
    pub const fn not_moved(name: &'static str, reason: &'static str) -> Self {
        Self { name, handling: Handling::NotMoved(reason) }
    }

    /// Returns true if its rows are moved.
    pub fn is_moved(&self) -> bool {
        matches!(self.handling, Handling::Moved(_))
    }
}

/// A record.
#[derive(Debug)]
pub enum Record {
    /// The signing key.
    Secret(Vec<u8>),
    /// The latest version of a value of the state.
    StateVersion(i64),
    /// A definition. `put` numbers the definitions of an Automation.
    Definition { hash: Hash, automation: String, put: i64, path: String, text: String },
    /// A large value or a file. Its content is moved in chunks.
    Blob(BlobRecord),
    /// An execution with everything that belongs to it alone.
    Execution(Box<ExecutionRecord>),
    /// A key. A long one is its hash in every database.
    Key { automation: String, key: Vec<u8>, execution: Id },
    /// A deduplication record.
    Dedup { automation: String, key: Vec<u8>, content: Option<Vec<u8>>, execution: Id, until_ns: i64 },
    /// A value of the state.
    State { scope: String, key: String, version: i64, expires_ns: Option<i64>, value: String },
    /// The addresses of an Automation.
    Address { automation: String, live: String, test: String },
    /// The watermark of a schedule.
    Watermark { automation: String, schedule: String, instant_ns: i64 },
    /// The state of a poll.
    Poll { automation: String, body: String },
    /// A key that a poll has stored.
    PollKey { automation: String, key: String, seen_ns: i64 },
    /// An entry of the log of polls.
    PollEntry { automation: String, body: String },
    /// A subscription.
    Subscription { id: String, automation: String, body: String },
    /// An event on its way to triggers.
    Outbox { id: Id, name: String, body: String, at_ns: i64 },
}

/// A large value or a file.
#[derive(Clone, Copy, Debug)]
pub struct BlobRecord {
    pub hash: Hash,
    /// The bytes of its content.
    pub length: u64,
    /// True if a value names it as a file.
    pub is_file: bool,
}

/// An execution.
#[derive(Debug)]
pub struct ExecutionRecord {
    pub id: Id,
    pub automation: String,
    pub definition: Hash,
    pub origin: String,
    /// The number of its status.
    pub status: i64,
    pub is_test: bool,
    pub has_ended: bool,
    pub keeps_permit: bool,
    pub started_ns: i64,
    pub finished_ns: Option<i64>,
    pub error: Option<String>,
    pub events: u32,
    pub logs: u32,
    /// Its rows of events, in order. The first one is its start.
    pub rows: Vec<EventRow>,
    /// The index of the first line, and the lines, of each row of its log.
    pub lines: Vec<(u32, String)>,
    pub waits: Vec<WaitRow>,
    pub snapshot: Option<(u32, String)>,
}

impl ExecutionRecord {
    /// Returns the execution that led to this one, as [`cause_key`] encodes it.
    #[must_use]
    pub fn cause(&self) -> Option<ExecutionId> {
        cause_key(&serde_json::from_str::<Origin>(&self.origin).ok()?)
    }
}

/// The events of an append.
#[derive(Debug)]
pub struct EventRow {
    pub first: u32,
    pub body: String,
    /// The body of the request, of the start.
    pub raw: Option<Vec<u8>>,
    pub uses: Vec<BlobUse>,
}

/// A blob of a row of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobUse {
    /// The offset of a value that was removed from the text; `None`: the text names the file.
    pub at: Option<u32>,
    pub blob: Hash,
}

/// An open wait.
#[derive(Debug)]
pub struct WaitRow {
    pub step: String,
    pub until_ns: Option<i64>,
    pub event: Option<String>,
    pub path: String,
    pub value: String,
    pub condition: Option<String>,
    pub child: Option<Id>,
}

impl Record {
    /// Returns about the bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let own = match self {
            Self::Secret(_) | Self::StateVersion(_) | Self::Blob(_) => 0,
            Self::Definition { text, .. } => text.len(),
            Self::Execution(record) => record.bytes(),
            Self::Key { key, .. } | Self::Dedup { key, .. } => key.len(),
            Self::State { value, .. } => value.len(),
            Self::PollKey { key, .. } => key.len(),
            Self::Address { live, .. } => live.len(),
            Self::Watermark { schedule, .. } => schedule.len(),
            Self::Poll { body, .. }
            | Self::PollEntry { body, .. }
            | Self::Subscription { body, .. }
            | Self::Outbox { body, .. } => body.len(),
        };
        own + 200
    }

    /// Adds the record to the counts and hashes of its kinds.
    pub fn tally(&self, tallies: &mut Tallies) {
        let (kind, digest) = match self {
            Self::Secret(secret) => (Kind::Store, Canonical::new("secret").bytes(secret)),
            Self::StateVersion(version) => (Kind::Store, Canonical::new("version").int(*version)),
            Self::Definition { hash, automation, put, path, text } => {
                let digest = Canonical::new("definition").bytes(hash).text(automation).int(*put);
                (Kind::Definitions, digest.text(path).text(text))
            }
            // Its content has its name as its hash, which is verified when it is read.
            Self::Blob(BlobRecord { hash, length, .. }) => {
                (Kind::Blobs, Canonical::new("blob").bytes(hash).int(signed(*length)))
            }
            Self::Execution(record) => return record.tally(tallies),
            Self::Key { automation, key, execution } => {
                (Kind::Keys, Canonical::new("key").text(automation).bytes(key).bytes(execution))
            }
            Self::Dedup { automation, key, content, execution, until_ns } => {
                let digest = Canonical::new("dedup").text(automation).bytes(key).some(content.as_deref());
                (Kind::Dedup, digest.bytes(execution).int(*until_ns))
            }
            Self::State { scope, key, version, expires_ns, value } => {
                let digest = Canonical::new("state").text(scope).text(key).int(*version);
                (Kind::State, digest.some_int(*expires_ns).text(value))
            }
            Self::Address { automation, live, test } => {
                (Kind::Addresses, Canonical::new("address").text(automation).text(live).text(test))
            }
            Self::Watermark { automation, schedule, instant_ns } => {
                let digest = Canonical::new("watermark").text(automation).text(schedule);
                (Kind::Watermarks, digest.int(*instant_ns))
            }
            Self::Poll { automation, body } => {
                (Kind::Polls, Canonical::new("poll").text(automation).text(body))
            }
            Self::PollKey { automation, key, seen_ns } => {
                (Kind::PollKeys, Canonical::new("pollKey").text(automation).text(key).int(*seen_ns))
            }
            Self::PollEntry { automation, body } => {
                (Kind::PollLog, Canonical::new("pollEntry").text(automation).text(body))
            }
            Self::Subscription { id, automation, body } => {
                (Kind::Subscriptions, Canonical::new("subscription").text(id).text(automation).text(body))
            }
            Self::Outbox { id, name, body, at_ns } => {
                (Kind::Outbox, Canonical::new("outbox").bytes(id).text(name).text(body).int(*at_ns))
            }
        };
        tallies.add(kind, digest);
    }
}

impl ExecutionRecord {
    fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(|row| 100 + row.body.len() + row.raw.as_ref().map_or(0, Vec::len));
        let lines = self.lines.iter().map(|(_, lines)| 50 + lines.len());
        let snapshot = self.snapshot.as_ref().map_or(0, |(_, body)| body.len());
        rows.sum::<usize>() + lines.sum::<usize>() + 200 * self.waits.len() + snapshot
    }

    fn tally(&self, tallies: &mut Tallies) {
        let head = Canonical::new("execution").bytes(&self.id).text(&self.automation).bytes(&self.definition);
        let head = head.text(&self.origin).int(self.status).int(i64::from(self.is_test));
        let head = head.int(i64::from(self.keeps_permit)).int(self.started_ns).some_int(self.finished_ns);
        let head = head.some(self.error.as_ref().map(String::as_bytes));
        let head = head.int(i64::from(self.events)).int(i64::from(self.logs));
        tallies.add(if self.has_ended { Kind::Ended } else { Kind::Unfinished }, head);
        for row in &self.rows {
            let mut digest = Canonical::new("events").bytes(&self.id).int(i64::from(row.first));
            digest = digest.text(&row.body).some(row.raw.as_deref());
            let mut uses = row.uses.clone();
            uses.sort_unstable();
            for BlobUse { at, blob } in uses {
                digest = digest.some_int(at.map(i64::from)).bytes(&blob);
            }
            tallies.add(Kind::Events, digest);
        }
        for (first, lines) in &self.lines {
            let digest = Canonical::new("logs").bytes(&self.id).int(i64::from(*first)).text(lines);
            tallies.add(Kind::Logs, digest);
        }
        for wait in &self.waits {
            let digest = Canonical::new("wait").bytes(&self.id).text(&wait.step).some_int(wait.until_ns);
            let digest = digest.some(wait.event.as_ref().map(String::as_bytes)).text(&wait.path);
            let digest = digest.text(&wait.value).some(wait.condition.as_ref().map(String::as_bytes));
            tallies.add(Kind::Waits, digest.some(wait.child.as_ref().map(|id| &id[..])));
        }
        if let Some((events, body)) = &self.snapshot {
            let digest = Canonical::new("snapshot").bytes(&self.id).int(i64::from(*events)).text(body);
            tallies.add(Kind::Snapshots, digest);
        }
    }
}

/// The number of the records of a kind, and their hash: the sum of the hashes of the records, which does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of records.
    pub count: u64,
    sum: [u64; 4],
}

impl Tally {
    /// Returns the hash, as text.
    #[must_use]
    pub fn hash(&self) -> String {
        self.sum.iter().rev().map(|part| format!("{part:016x}")).collect()
    }

    fn add(&mut self, digest: Hash) {
        self.count += 1;
        let mut carry = false;
        for (part, bytes) in self.sum.iter_mut().zip(digest.chunks_exact(8)) {
            let added = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
            let (first, over) = part.overflowing_add(added);
            let (second, again) = first.overflowing_add(u64::from(carry));
            *part = second;
            carry = over || again;
        }
    }
}

/// The tallies of all kinds.
#[derive(Clone, Debug, Default)]
pub struct Tallies(BTreeMap<Kind, Tally>);

impl Tallies {
    /// Returns the tally of a kind.
    pub fn of(&self, kind: Kind) -> Tally {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    fn add(&mut self, kind: Kind, digest: Canonical) {
        self.0.entry(kind).or_default().add(digest.0.finalize().into());
    }
}

/// Hashes the fields of a record. Each is written with its length, so that no two records have the same text.
struct Canonical(Sha256);

impl Canonical {
    fn new(kind: &str) -> Self {
        Self(Sha256::new()).text(kind)
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update(signed(bytes.len()).to_be_bytes());
        self.0.update(bytes);
        self
    }

    fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    fn int(mut self, number: i64) -> Self {
        self.0.update(number.to_be_bytes());
        self
    }

    fn some(mut self, bytes: Option<&[u8]>) -> Self {
        self.0.update([u8::from(bytes.is_some())]);
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self,
        }
    }

    fn some_int(self, number: Option<i64>) -> Self {
        self.some(number.map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..]))
    }
}

fn signed<N: TryInto<i64>>(number: N) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Checks that the tables that are moved name kinds, that every kind has a table, and that the others have a reason.
///
/// # Panics
/// A table or a kind is missing.
#[cfg(feature = "conformance")]
pub fn check_reasons(tables: &[Table]) {
    let mut kinds: std::collections::BTreeSet<Kind> = std::collections::BTreeSet::new();
    for table in tables {
        match table.handling {
            Handling::Moved(of) => kinds.extend(of),
            Handling::NotMoved(reason) => assert!(reason.len() > 10, "{}", table.name),
        }
    }
    for (kind, _) in Kind::ALL {
        assert!(kind == Kind::Store || kinds.contains(&kind), "{kind} is in no table");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(records: &[(&str, &str)]) -> Tally {
        let mut tallies = Tallies::default();
        for (automation, body) in records {
            let (automation, body) = ((*automation).to_owned(), (*body).to_owned());
            Record::Poll { automation, body }.tally(&mut tallies);
        }
        tallies.of(Kind::Polls)
    }

    #[test]
    fn the_hash_of_a_kind_covers_every_record_in_any_order() {
        let both = tally(&[("a", "1"), ("b", "2")]);
        assert_eq!(both, tally(&[("b", "2"), ("a", "1")]));
        for other in [
            tally(&[("a", "1")]),
            tally(&[("a", "1"), ("b", "3")]),
            tally(&[("a", "1"), ("a", "1")]),
            tally(&[("a1", ""), ("b", "2")]),
        ] {
            assert_ne!(both.hash(), other.hash());
        }
        assert_eq!(both.hash().len(), 64);
    }

    #[test]
    fn a_carry_propagates_to_the_next_word() {
        let mut tally = Tally::default();
        let mut one = [0; 32];
        one[..8].fill(0xff);
        tally.add(one);
        let mut add = [0; 32];
        add[0] = 1;
        tally.add(add);
        assert_eq!((tally.sum, tally.count), ([0, 1, 0, 0], 2));
    }

    #[test]
    fn every_kind_is_named_and_migrated_or_part_of_an_execution() {
        let parts = [Kind::Events, Kind::Logs, Kind::Waits, Kind::Snapshots];
        for (kind, word) in Kind::ALL {
            assert_eq!(kind.as_str(), word);
            assert_ne!(Kind::MOVED.contains(&kind), parts.contains(&kind), "{kind}");
        }
    }
}
