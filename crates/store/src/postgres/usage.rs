//! The size of the database, measured now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::reader::{Reader, get};
use crate::{Capacity, Error};

/// The time between two measurements.
const EVERY: Duration = Duration::from_secs(30);

/// The size of a database, and its limit.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    bytes: Arc<AtomicU64>,
    most: Option<u64>,
}

impl Usage {
    pub(super) fn new(most: Option<u64>) -> Self {
        Self { bytes: Arc::default(), most }
    }

    /// Returns the limit in bytes; `None` if there is none.
    pub(super) fn most(&self) -> Option<u64> {
        self.most
    }

    /// Returns how much of the limit is left, by the last measurement.
    pub(super) fn capacity(&self) -> Capacity {
        let Some(most) = self.most else { return Capacity::Ample };
        let bytes = self.bytes.load(Ordering::Relaxed);
        if bytes >= most - most / 20 {
            Capacity::Exhausted
        } else if bytes >= most - most / 10 {
            Capacity::Low
        } else {
            Capacity::Ample
        }
    }
}

/// Measures the size of the database. Returns it in bytes.
pub(super) async fn measure(reader: &Reader, usage: &Usage) -> Result<u64, Error> {
    let row = reader.row("SELECT pg_database_size(current_database())", Vec::new()).await?;
    let bytes: i64 = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
    let bytes = u64::try_from(bytes).unwrap_or_default();
    usage.bytes.store(bytes, Ordering::Relaxed);
    Ok(bytes)
}

/// Measures the size again and again, if it has a limit.
pub(super) async fn keep_measuring(reader: Reader, usage: Usage) {
    while usage.most.is_some() {
        tokio::time::sleep(EVERY).await;
        if let Err(error) = measure(&reader, &usage).await {
            tracing::warn!(%error, "the size of the database cannot be measured");
        }
    }
}
