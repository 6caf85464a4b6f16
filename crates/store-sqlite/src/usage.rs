//! Used size of the store against its limit. The writer measures it; reading it is cheap.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rusqlite::Connection;

use store::Capacity;

/// The sizes of the file and its blobs, and their common limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    most: Option<u64>,
    /// Bytes of the pages in use, and of all pages.
    used: AtomicU64,
    file: AtomicU64,
    /// Bytes of the blobs that rows name.
    blobs: AtomicU64,
    /// Bytes of blobs that are written or being written, and not yet counted in `blobs` through a committed row.
    pending: AtomicI64,
}

/// A blob does not fit into the size limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverLimit;

/// The size is measured again after this many written bytes, or after a hundredth of the limit if that is less.
const STEP: u64 = 1 << 20;

/// The bytes that the writer has written since the last measurement.
#[derive(Debug, Default)]
pub(super) struct UnmeasuredBytes(u64);

impl Usage {
    /// Creates an unmeasured usage with a limit of `most` bytes.
    pub(super) fn new(most: Option<u64>) -> Self {
        Self(Arc::new(Inner { most, ..Inner::default() }))
    }

    /// Returns the size limit.
    pub(super) fn most(&self) -> Option<u64> {
        self.0.most
    }

    /// Measures after a batch of `bytes`, if it is due. `at_once` forces it after a batch that names blobs, since these
    /// count as pending until then.
    pub(super) fn after(
        &self,
        since: &mut UnmeasuredBytes,
        bytes: usize,
        at_once: bool,
        connection: &Connection,
    ) -> rusqlite::Result<()> {
        since.0 = since.0.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.0.most.is_some_and(|most| at_once || since.0 >= STEP.min(most / 100)) {
            *since = UnmeasuredBytes::default();
            self.measure(connection)?;
        }
        Ok(())
    }

    /// Measures, and limits the file to the part of the size limit that the blobs leave.
    pub(super) fn measure(&self, connection: &Connection) -> rusqlite::Result<()> {
        let inner = &*self.0;
        let number = |name| {
            let value = connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))?;
            Ok::<u64, rusqlite::Error>(u64::try_from(value).unwrap_or_default())
        };
        let (page, pages, free) = (number("page_size")?, number("page_count")?, number("freelist_count")?);
        let blobs = blob_bytes(connection)?;
        inner.used.store(pages.saturating_sub(free) * page, Ordering::Relaxed);
        inner.file.store(pages * page, Ordering::Relaxed);
        inner.blobs.store(blobs, Ordering::Relaxed);
        if let Some(most) = inner.most {
            let pages = (most.saturating_sub(blobs) / page.max(1)).clamp(1, u64::from(u32::MAX) - 1);
            connection.pragma_update(None, "max_page_count", i64::try_from(pages).unwrap_or(i64::MAX))?;
        }
        Ok(())
    }

    /// Returns the part of the limit that is left.
    pub(super) fn capacity(&self) -> Capacity {
        let Some(most) = self.0.most else { return Capacity::Ample };
        let inner = &*self.0;
        let used = inner.used.load(Ordering::Relaxed).saturating_add(self.blobs());
        // A twentieth is reserved for accepted executions, so that they can finish.
        if used >= most - most / 20 {
            Capacity::Exhausted
        } else if used >= most - most / 10 {
            Capacity::Low
        } else {
            Capacity::Ample
        }
    }

    /// Counts a blob as pending before it is written. Returns an error if it does not fit.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), OverLimit> {
        let Some(most) = self.0.most else { return Ok(()) };
        let signed = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.0.pending.fetch_add(signed, Ordering::Relaxed);
        let all = self.0.file.load(Ordering::Relaxed).saturating_add(self.blobs());
        if all > most {
            self.settle(bytes);
            return Err(OverLimit);
        }
        Ok(())
    }

    /// Stops counting a blob as pending, since its row is committed or its write is abandoned.
    pub(super) fn settle(&self, bytes: u64) {
        if self.0.most.is_some() {
            self.0.pending.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
        }
    }

    fn blobs(&self) -> u64 {
        let pending = self.0.pending.load(Ordering::Relaxed);
        self.0.blobs.load(Ordering::Relaxed).saturating_add(u64::try_from(pending).unwrap_or_default())
    }
}

/// Returns the total size of all blobs that rows name.
pub(super) fn blob_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT value FROM meta WHERE name = 'blobBytes'";
    let bytes: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// Returns the size of the pages in use.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let usage = Usage::default();
    usage.measure(connection)?;
    Ok(usage.0.used.load(Ordering::Relaxed))
}
