//! The probe of an outage: while writes fail, the writer writes some bytes by itself, with growing pauses, so that the end of the
//! outage is noticed although nobody sends requests.

use std::time::{Duration, Instant};

use model::Backoff;
use rusqlite::Connection;

use store::OutageKind;
use store::outage::{Outages, PROBE_PAUSES, Source};

/// The bytes that a probe writes: as many as the last batch that failed, within these bounds.
const LEAST_BYTES: usize = 64 << 10;
const MOST_BYTES: usize = 8 << 20;

/// The probes of one writer.
#[derive(Debug)]
pub(super) struct Probe {
    /// The instant of the next probe; `None` if there is no outage.
    due: Option<Instant>,
    pauses: Backoff,
    bytes: usize,
}

impl Default for Probe {
    fn default() -> Self {
        Self { due: None, pauses: PROBE_PAUSES, bytes: 0 }
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

    /// Notes that a batch of `bytes`, or a probe, failed.
    pub(super) fn failed(&mut self, outages: &Outages, kind: OutageKind, reason: &str, bytes: usize) {
        let now = Instant::now();
        outages.begin(Source::Writer, kind, reason, now);
        // A write of a caller is a probe too.
        self.due = Some(now + self.pauses.pause());
        self.bytes = self.bytes.max(bytes).clamp(LEAST_BYTES, MOST_BYTES);
    }

    /// Notes that a write or a probe succeeded.
    pub(super) fn succeeded(&mut self, outages: &Outages) {
        if self.due.is_some() {
            outages.end(Source::Writer);
            *self = Self::default();
        }
    }

    /// Makes no further probe.
    pub(super) fn stop(&mut self) {
        self.due = None;
    }

    /// Commits bytes and deletes them again.
    pub(super) fn run(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('probe', randomblob(?1))";
        connection.execute(sql, [i64::try_from(self.bytes).unwrap_or(i64::MAX)])?;
        connection.execute("DELETE FROM meta WHERE name = 'probe'", []).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_scheduled_from_the_first_failure_to_the_first_success() {
        let (outages, mut probe) = (Outages::default(), Probe::default());
        probe.succeeded(&outages);
        assert!(probe.pause().is_none());
        probe.failed(&outages, OutageKind::Full, "no space", 1);
        assert!(probe.pause().is_some() && outages.current().is_some());
        probe.succeeded(&outages);
        assert!(probe.pause().is_none() && outages.current().is_none());
    }

    #[test]
    fn a_stopped_probe_is_never_due_and_ends_no_outage() {
        let (outages, mut probe) = (Outages::default(), Probe::default());
        probe.failed(&outages, OutageKind::Full, "no space", 1);
        probe.stop();
        assert!(!probe.is_due() && probe.pause().is_none());
        assert!(outages.current().is_some());
    }
}
