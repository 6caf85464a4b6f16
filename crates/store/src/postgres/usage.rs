//! The size of the tables of the store, measured now and then.
//!
//! A deletion does not make the tables smaller: the server uses their free space again. So the space that deletions freed is
//! estimated, by the share of the executions that they deleted, and is kept in the database for all nodes. It is used up as far as
//! the tables grow afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::agreement::Agreement;
use super::op::{Op, params};
use super::queue::Queue;
use super::reader::{Reader, get};
use crate::{Capacity, Error};

/// The time between two measurements.
const EVERY: Duration = Duration::from_secs(30);
/// The most executions that are counted. If there are more, a deletion counts for more than it frees, and less is deleted.
const MOST_COUNTED: i64 = 1_000_000;

/// The size of the tables with their indexes, and the last measurement of any node with the bytes that were free then.
const MEASURE: &str = "SELECT (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class c \
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'), \
    (SELECT convert_from(value, 'UTF8') FROM meta WHERE name = 'freed')";
const COUNT: &str = "SELECT (SELECT count(*) FROM (SELECT 1 FROM executions LIMIT $1) e) \
    + (SELECT count(*) FROM (SELECT 1 FROM live LIMIT $1) l)";
const PUT_FREED: &str = "INSERT INTO meta (name, value) VALUES ('freed', convert_to($1, 'UTF8')) \
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// The size of the tables, and their limit.
#[derive(Clone, Debug)]
pub(super) struct Usage(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bytes: AtomicU64,
    /// The bytes that deletions freed in the tables, and that are not used again.
    freed: AtomicU64,
    /// The number of executions at the last measurement, without those deleted since; 0 if they are not counted.
    executions: AtomicU64,
    agreement: Agreement,
    /// Notified when nodes have joined or left, so that other settings may be in force.
    nodes_changed: Notify,
}

impl Usage {
    pub(super) fn new(agreement: Agreement) -> Self {
        Self(Arc::new(Inner {
            bytes: AtomicU64::default(),
            freed: AtomicU64::default(),
            executions: AtomicU64::default(),
            agreement,
            nodes_changed: Notify::new(),
        }))
    }

    /// Returns the limit in bytes; `None` if there is none.
    pub(super) fn most(&self) -> Option<u64> {
        self.0.agreement.in_force().store_size
    }

    /// Returns the bytes that hold something, by the last measurement and the deletions since.
    pub(super) fn used(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed).saturating_sub(self.0.freed.load(Ordering::Relaxed))
    }

    /// Returns how much of the limit is left, by the last measurement and the deletions since.
    pub(super) fn capacity(&self) -> Capacity {
        let Some(most) = self.most() else { return Capacity::Ample };
        let used = self.used();
        if used >= most - most / 20 {
            Capacity::Exhausted
        } else if used >= most - most / 10 {
            Capacity::Low
        } else {
            Capacity::Ample
        }
    }

    /// Notes that nodes have joined or left.
    pub(super) fn note_nodes(&self) {
        self.0.nodes_changed.notify_one();
    }

    /// Notes that executions were deleted, and estimates what that freed.
    pub(super) async fn note_deleted(
        &self,
        reader: &Reader,
        queue: &Queue,
        deleted: u64,
    ) -> Result<(), Error> {
        if deleted == 0 || self.most().is_none() {
            return Ok(());
        }
        let (bytes, used) = (self.0.bytes.load(Ordering::Relaxed), self.used());
        let mut executions = self.0.executions.load(Ordering::Relaxed);
        if executions == 0 {
            let row = reader.row(COUNT, params![MOST_COUNTED]).await?;
            let left: i64 = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
            executions = u64::try_from(left).unwrap_or_default().saturating_add(deleted);
        }
        let share = u128::from(used) * u128::from(deleted) / u128::from(executions.max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX).min(used);
        self.0.executions.store(executions.saturating_sub(deleted), Ordering::Relaxed);
        let freed = self.0.freed.fetch_add(share, Ordering::Relaxed).saturating_add(share);
        put_freed(queue, bytes, freed).await
    }
}

async fn put_freed(queue: &Queue, bytes: u64, freed: u64) -> Result<(), Error> {
    let statement = (PUT_FREED, params![format!("{bytes} {freed}")]);
    queue.write(Op::Statements(vec![statement])).await.map(drop)
}

/// Measures the size of the tables. Returns it in bytes.
pub(super) async fn measure(reader: &Reader, usage: &Usage) -> Result<u64, Error> {
    let Some(row) = reader.row(MEASURE, Vec::new()).await? else { return Ok(0) };
    let (bytes, stored): (i64, Option<String>) = (get(&row, 0)?, get(&row, 1)?);
    let bytes = u64::try_from(bytes).unwrap_or_default();
    let numbers = stored.as_deref().and_then(|stored| stored.split_once(' '));
    let numbers =
        numbers.and_then(|(then, freed)| Some((then.parse::<u64>().ok()?, freed.parse::<u64>().ok()?)));
    // Where the tables grow, free space was not there or is used up; where they shrink, it was given back.
    let freed = numbers.map_or(0, |(then, freed)| freed.saturating_sub(bytes.abs_diff(then)));
    usage.0.bytes.store(bytes, Ordering::Relaxed);
    usage.0.freed.store(freed, Ordering::Relaxed);
    usage.0.executions.store(0, Ordering::Relaxed);
    Ok(bytes)
}

/// Measures the size again and again, if it has a limit, and agrees with the other nodes on the settings for the store.
pub(super) async fn keep_measuring(reader: Reader, usage: Usage, queue: Queue) {
    let mut is_failing = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = usage.0.nodes_changed.notified() => {}
        }
        let result = async {
            usage.0.agreement.refresh(&reader, &queue).await?;
            if usage.most().is_some() {
                let bytes = measure(&reader, &usage).await?;
                let freed = usage.0.freed.load(Ordering::Relaxed);
                if freed > 0 {
                    // The growth that was counted is not counted again.
                    put_freed(&queue, bytes, freed).await?;
                }
            }
            Ok::<(), Error>(())
        };
        let result = result.await;
        if let Err(error) = &result
            && !is_failing
        {
            tracing::warn!(%error, "the settings that the daemons share, or the size of the database, cannot be read; it is tried again");
        }
        is_failing = result.is_err();
    }
}
