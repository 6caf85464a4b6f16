//! One end of a migration: a store that no daemon uses, read and written by pages.

use async_trait::async_trait;
use model::automation::Level;
use model::failpoint::{Failpoint, FailpointAction, Failpoints};
use serde::{Deserialize, Serialize};

use super::record::{BlobRecord, Kind, Record};
use crate::Error;

/// The maximum number of records of a page.
pub const PAGE_RECORDS: usize = 1000;
/// The size in bytes at which a page ends.
pub const PAGE_BYTES: usize = 4 << 20;
/// The bytes of a chunk of a blob.
pub const CHUNK_BYTES: usize = 256 << 10;

/// The place of a record in its store, from which a page continues: the parts of its key, as the store writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(pub Vec<String>);

impl Place {
    /// Creates the place of a key with one part.
    pub fn one(part: impl Into<String>) -> Self {
        Self(vec![part.into()])
    }

    /// Creates the place of a key with two parts.
    pub fn two(first: impl Into<String>, second: impl Into<String>) -> Self {
        Self(vec![first.into(), second.into()])
    }

    /// Returns a part; empty before the first record.
    pub fn part(&self, index: usize) -> &str {
        self.0.get(index).map_or("", String::as_str)
    }

    /// Returns a part that is a number; `none` before the first record.
    pub fn number(&self, index: usize, none: i64) -> i64 {
        self.0.get(index).and_then(|part| part.parse().ok()).unwrap_or(none)
    }

    /// Returns a part that is bytes; empty before the first record.
    pub fn bytes(&self, index: usize) -> Vec<u8> {
        unhex(self.part(index))
    }
}

/// Returns bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// A page of records.
#[derive(Debug, Default)]
pub struct Page {
    /// The records.
    pub records: Vec<Record>,
    /// The place of the last record.
    pub last: Place,
    bytes: usize,
}

impl Page {
    /// Adds a record. Returns false once the page is full.
    pub fn push(&mut self, record: Record, place: Place) -> bool {
        self.bytes += record.bytes();
        self.records.push(record);
        self.last = place;
        self.records.len() < PAGE_RECORDS && self.bytes < PAGE_BYTES
    }
}

/// The purpose for which a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Its records are read, and at the end a mark is written.
    Source,
    /// Records are written. It is made if it is missing.
    Target,
}

/// Progress of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A daemon on this machine has not left. The migration waits to see that it does not run.
    Waiting {
        /// The name of the machine.
        host: String,
    },
    /// The migration continues an interrupted one.
    Resumed,
    /// Records are moved: their number in this run.
    Moving(Kind, u64),
    /// Both stores are read to compare them: the number of records that were read.
    Comparing(Kind, u64),
}

/// A mark of a store: what a migration notes in it, by name. `None` removes it.
pub type Mark = (&'static str, Option<String>);

/// One end of a migration. It has the store for itself until it is dropped.
#[async_trait]
pub trait Side: Send {
    /// Returns a text that no other store has, and that stays.
    async fn identity(&mut self) -> Result<String, Error>;

    /// Returns a mark.
    async fn mark(&mut self, name: &'static str) -> Result<Option<String>, Error>;

    /// Returns the level of the language that its definitions may have.
    async fn level(&mut self) -> Result<Level, Error>;

    /// Raises that level, as [`crate::DefinitionStore::raise_level`].
    async fn raise_level(&mut self, level: Level) -> Result<(), Error>;

    /// Returns true if nothing was ever stored in it.
    async fn is_empty(&mut self) -> Result<bool, Error>;

    /// Returns the records of a kind after a place, in the order of the store; empty after the last.
    async fn page(&mut self, kind: Kind, after: &Place) -> Result<Page, Error>;

    /// Returns a chunk of the content of a blob: [`CHUNK_BYTES`], or the remaining bytes.
    async fn chunk(&mut self, blob: &BlobRecord, number: u32) -> Result<Vec<u8>, Error>;

    /// Begins to write a blob. Returns false if its content is stored already.
    async fn begin_blob(&mut self, blob: &BlobRecord) -> Result<bool, Error>;

    /// Writes the next chunk of the blob that was begun.
    async fn put_chunk(&mut self, blob: &BlobRecord, number: u32, bytes: &[u8]) -> Result<(), Error>;

    /// Ends the blob that was begun: its content is durable when this returns.
    async fn end_blob(&mut self, blob: &BlobRecord) -> Result<(), Error>;

    /// Writes records and a mark in one transaction.
    async fn write(&mut self, records: &[Record], mark: &Mark) -> Result<(), Error>;

    /// Prepares the store for its first daemon, after everything is written.
    async fn finish(&mut self) -> Result<(), Error>;
}

/// Injects the fault of a test around a commit.
pub fn at(failpoints: &Failpoints, boundary: Failpoint) -> Result<(), Error> {
    match failpoints.at(boundary) {
        None | Some(FailpointAction::Delay(_)) => Ok(()),
        Some(FailpointAction::Abort) => std::process::abort(),
        Some(FailpointAction::Error | FailpointAction::UnknownOutcome) => {
            Err(Error::Write { reason: format!("the failpoint `{}`", boundary.as_str()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_round_trips_through_json() {
        let place = Place::two("orders", hex(&[0, 0xff, 0x1a]));
        let text = serde_json::to_string(&place).expect("it is JSON");
        let again: Place = serde_json::from_str(&text).expect("it is a place");
        assert_eq!((again.part(0), again.bytes(1)), ("orders", vec![0, 0xff, 0x1a]));
        assert_eq!((Place::default().part(1), Place::default().number(0, -1)), ("", -1));
    }
}
