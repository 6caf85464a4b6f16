//! The probe of an outage: while writes fail, the writer writes some bytes by itself, with growing pauses, so that the end of the
//! outage is noticed although nobody sends requests.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::OutageKind;
use crate::outage::{Outages, Source};

/// The pauses between probes.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// The bytes that a probe writes: as many as the last batch that failed, within these bounds.
const LEAST_BYTES: usize = 64 << 10;
const MOST_BYTES: usize = 8 << 20;

/// The source of the outages that the writer notices.
const SOURCE: Source = Source::Write("write");

/// The probes of one writer.
#[derive(Debug)]
pub(super) struct Probe {
    /// The instant of the next probe; `None` if there is no outage.
    due: Option<Instant>,
    pause: Duration,
    bytes: usize,
}

impl Default for Probe {
    fn default() -> Self {
        Self { due: None, pause: FIRST_PAUSE, bytes: 0 }
    }
}

impl Probe {
    /// Returns the time until the next probe; `None` if none is planned.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Returns true if the next probe is to be made now.
    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Notes how a batch of `bytes`, or a probe, ended: with an outage of this kind and reason, or with success.
    pub(super) fn note(&mut self, outages: &Outages, failed: Option<(OutageKind, String)>, bytes: usize) {
        match failed {
            Some((kind, reason)) => {
                let now = Instant::now();
                outages.begin(SOURCE, kind, &reason, now);
                // A write of a caller is a probe too.
                self.due = Some(now + self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.bytes = self.bytes.max(bytes).clamp(LEAST_BYTES, MOST_BYTES);
            }
            None if self.due.is_some() => {
                outages.end(SOURCE);
                *self = Self::default();
            }
            None => {}
        }
    }

    /// Commits bytes and deletes them again.
    pub(super) fn run(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('probe', randomblob(?1))";
        connection.execute(sql, [i64::try_from(self.bytes).unwrap_or(i64::MAX)])?;
        connection.execute("DELETE FROM meta WHERE name = 'probe'", []).map(drop)
    }
}
