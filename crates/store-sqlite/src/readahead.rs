//! Readahead of the part of the write-ahead log that the next commits overwrite.
//!
//! The log is overwritten from its start again and again. A frame has 4,120 bytes (<https://sqlite.org/fileformat2.html#the_write_ahead_log>),
//! so no write covers whole pages of the page cache: the system first reads a page that it has dropped from disk, one at a
//! time, while the commit waits. Without readahead, a store that was idle for some seconds on a machine that is short of
//! memory, or that reclaims idle pages, would wait for that at each of its next commits.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The bytes of one request to the system. Many machines read no more at once (`read_ahead_kb` of 128).
const CHUNK: u64 = 128 << 10;

/// The distance ahead of the last commit: enough for several small commits, or one large one.
const AHEAD: u64 = 8 * CHUNK;

/// The time without a commit after which the system may have dropped the pages.
const IDLE: Duration = Duration::from_secs(1);

/// The bytes of a frame of the log: a page and its header.
const FRAME: u64 = 4096 + 24;

/// Reads ahead in the log of one store.
#[derive(Debug)]
pub(super) struct Readahead {
    log: PathBuf,
    /// `None` before the first commit, or if the log cannot be opened.
    file: Option<File>,
    span: Span,
}

impl Readahead {
    /// Creates the readahead for the log of the store in this file.
    pub(super) fn new(store: &Path) -> Self {
        let mut log = store.as_os_str().to_owned();
        log.push("-wal");
        Self { log: log.into(), file: None, span: Span::default() }
    }

    /// Requests readahead before a commit, when the log has `pages` pages. Does not block.
    pub(super) fn before_commit(&mut self, pages: u32) {
        let chunks = self.span.due(u64::from(pages) * FRAME, Instant::now());
        if chunks.is_empty() {
            return;
        }
        if self.file.is_none() {
            self.file = File::open(&self.log).ok();
        }
        if let Some(file) = &self.file {
            chunks.step_by(CHUNK as usize).for_each(|start| advise(file, start));
        }
    }
}

/// Advises the system to read. If it ignores the advice, commits are only slower.
#[cfg(target_os = "linux")]
fn advise(file: &File, start: u64) {
    let length = std::num::NonZeroU64::new(CHUNK);
    let _ = rustix::fs::fadvise(file, start, length, rustix::fs::Advice::WillNeed);
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &File, _: u64) {}

/// The part of the log that was requested.
#[derive(Debug, Default)]
struct Span {
    /// The end of the log at the last call, and its time.
    last: Option<(u64, Instant)>,
    /// The end of the requested part, a multiple of [`CHUNK`].
    until: u64,
}

impl Span {
    /// Returns the range to request now that the log ends at `end`, in whole chunks.
    fn due(&mut self, end: u64, now: Instant) -> Range<u64> {
        let goes_on = self.last.is_some_and(|(last, at)| end >= last && now.duration_since(at) < IDLE);
        self.last = Some((end, now));
        let from = if goes_on { self.until.max(end / CHUNK * CHUNK) } else { end / CHUNK * CHUNK };
        self.until = (end + AHEAD) / CHUNK * CHUNK;
        from..self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn the_wal_is_read_ahead_of_its_end_one_chunk_at_a_time() {
        let (mut span, now) = (Span::default(), Instant::now());
        assert_eq!(span.due(0, now), 0..1024 * KIB);
        assert_eq!(span.due(100 * KIB, now), 1024 * KIB..1024 * KIB, "no whole chunk more");
        assert_eq!(span.due(300 * KIB, now), 1024 * KIB..1280 * KIB);
        assert_eq!(
            span.due(5000 * KIB, now),
            4992 * KIB..5 * 1024 * KIB + 896 * KIB,
            "not what was passed by"
        );
    }

    #[test]
    fn a_restarted_or_idle_wal_is_read_ahead_again() {
        let (mut span, now) = (Span::default(), Instant::now());
        span.due(9000 * KIB, now);
        assert_eq!(span.due(30 * KIB, now), 0..1024 * KIB, "it started over");
        assert_eq!(span.due(60 * KIB, now + IDLE / 2), 1024 * KIB..1024 * KIB);
        assert_eq!(span.due(60 * KIB, now + 2 * IDLE), 0..1024 * KIB, "it was idle");
    }
}
