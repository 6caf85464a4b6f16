//! How full the store is, of the size that it may have: measured by the writer, read by anybody at no cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rusqlite::Connection;

use crate::Room;

/// The file, its blobs, and what they may take together.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauge(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    most: Option<u64>,
    /// Bytes of the pages that hold something, and of all of them.
    used: AtomicU64,
    file: AtomicU64,
    /// Bytes of the blobs that rows name.
    blobs: AtomicU64,
    /// Bytes of the blobs that are written or being written, and that no row is known to name.
    pending: AtomicI64,
}

/// There is no room for a blob.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverFull;

/// It is measured anew after so much was written, or after a hundredth of the size if that is less.
const STEP: u64 = 1 << 20;

/// What a writer has written since it last measured.
#[derive(Debug, Default)]
pub(super) struct Since(u64);

impl Gauge {
    /// Nothing measured, of so many bytes at most.
    pub(super) fn new(most: Option<u64>) -> Self {
        Self(Arc::new(Inner { most, ..Inner::default() }))
    }

    /// The most it may take.
    pub(super) fn most(&self) -> Option<u64> {
        self.0.most
    }

    /// Measures after a batch of so many bytes, if it is time. Where blobs are named it always is: they count as pending
    /// until then.
    pub(super) fn after(
        &self,
        since: &mut Since,
        bytes: usize,
        at_once: bool,
        connection: &Connection,
    ) -> rusqlite::Result<()> {
        since.0 = since.0.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.0.most.is_some_and(|most| at_once || since.0 >= STEP.min(most / 100)) {
            *since = Since::default();
            self.measure(connection)?;
        }
        Ok(())
    }

    /// Measures, and limits the file to what the blobs leave of the size.
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

    /// How much room there is.
    pub(super) fn room(&self) -> Room {
        let Some(most) = self.0.most else { return Room::Enough };
        let inner = &*self.0;
        let used = inner.used.load(Ordering::Relaxed).saturating_add(self.blobs());
        // A twentieth is kept for those that were accepted, to come to their end.
        if used >= most - most / 20 {
            Room::None
        } else if used >= most - most / 10 {
            Room::Little
        } else {
            Room::Enough
        }
    }

    /// Counts a blob that is about to be written.
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), OverFull> {
        let Some(most) = self.0.most else { return Ok(()) };
        let signed = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.0.pending.fetch_add(signed, Ordering::Relaxed);
        let all = self.0.file.load(Ordering::Relaxed).saturating_add(self.blobs());
        if all > most {
            self.settle(bytes);
            return Err(OverFull);
        }
        Ok(())
    }

    /// A blob that was counted as pending is counted by its row now, or is given up.
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

/// Bytes of all blobs that rows name.
pub(super) fn blob_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT value FROM meta WHERE name = 'blobBytes'";
    let bytes: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// How much of the file holds something.
pub(super) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let gauge = Gauge::default();
    gauge.measure(connection)?;
    Ok(gauge.0.used.load(Ordering::Relaxed))
}
