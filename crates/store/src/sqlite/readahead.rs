//! Has the system read the part of the write-ahead log that the next commits write over.
//!
//! The log is written over from its start again and again. A frame of it has 4,120 bytes (<https://sqlite.org/fileformat2.html#the_write_ahead_log>),
//! so no write covers whole pages of the page cache: one that the system has dropped since it reads from disk first, one
//! page at a time, while the commit waits. A store that was idle for some seconds on a machine that is short of memory, or
//! that reclaims what is idle, met that at each of its next commits.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the system is told at a time: it reads no more than that at once on many machines (`read_ahead_kb` of 128).
const PIECE: u64 = 128 << 10;

/// How far ahead of the last commit: some commits of one write each, or one of many.
const AHEAD: u64 = 8 * PIECE;

/// After so long without a commit the system may have dropped what it had read.
const IDLE: Duration = Duration::from_secs(1);

/// The bytes of a frame of the log: a page and its header.
const FRAME: u64 = 4096 + 24;

/// Reads ahead in the log of one store.
#[derive(Debug)]
pub(super) struct Readahead {
    log: PathBuf,
    /// Nothing before the first commit, or where the log cannot be opened.
    file: Option<File>,
    span: Span,
}

impl Readahead {
    /// For the log of the store in this file.
    pub(super) fn new(store: &Path) -> Self {
        let mut log = store.as_os_str().to_owned();
        log.push("-wal");
        Self { log: log.into(), file: None, span: Span::default() }
    }

    /// Before a commit, where the log has so many pages. Waits for nothing.
    pub(super) fn before_commit(&mut self, pages: u32) {
        let pieces = self.span.due(u64::from(pages) * FRAME, Instant::now());
        if pieces.is_empty() {
            return;
        }
        if self.file.is_none() {
            self.file = File::open(&self.log).ok();
        }
        if let Some(file) = &self.file {
            pieces.step_by(PIECE as usize).for_each(|start| advise(file, start));
        }
    }
}

/// It is advice: where the system does not take it, commits are as slow as they were.
#[cfg(target_os = "linux")]
fn advise(file: &File, start: u64) {
    let length = std::num::NonZeroU64::new(PIECE);
    let _ = rustix::fs::fadvise(file, start, length, rustix::fs::Advice::WillNeed);
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &File, _: u64) {}

/// What of the log has been read ahead.
#[derive(Debug, Default)]
struct Span {
    /// Where the log ended at the last look, and when that was.
    last: Option<(u64, Instant)>,
    /// Up to where it was read, in whole pieces.
    until: u64,
}

impl Span {
    /// What is to be read now that the log ends here: whole pieces, from the start of the first to the end of the last.
    fn due(&mut self, end: u64, now: Instant) -> Range<u64> {
        let goes_on = self.last.is_some_and(|(last, at)| end >= last && now.duration_since(at) < IDLE);
        self.last = Some((end, now));
        let from = if goes_on { self.until.max(end / PIECE * PIECE) } else { end / PIECE * PIECE };
        self.until = (end + AHEAD) / PIECE * PIECE;
        from..self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn the_log_is_read_ahead_of_its_end_and_each_piece_once() {
        let (mut span, now) = (Span::default(), Instant::now());
        assert_eq!(span.due(0, now), 0..1024 * KIB);
        assert_eq!(span.due(100 * KIB, now), 1024 * KIB..1024 * KIB, "no whole piece more");
        assert_eq!(span.due(300 * KIB, now), 1024 * KIB..1280 * KIB);
        assert_eq!(
            span.due(5000 * KIB, now),
            4992 * KIB..5 * 1024 * KIB + 896 * KIB,
            "not what was passed by"
        );
    }

    #[test]
    fn a_log_that_starts_over_or_was_idle_is_read_anew() {
        let (mut span, now) = (Span::default(), Instant::now());
        span.due(9000 * KIB, now);
        assert_eq!(span.due(30 * KIB, now), 0..1024 * KIB, "it started over");
        assert_eq!(span.due(60 * KIB, now + IDLE / 2), 1024 * KIB..1024 * KIB);
        assert_eq!(span.due(60 * KIB, now + 2 * IDLE), 0..1024 * KIB, "it was idle");
    }
}
