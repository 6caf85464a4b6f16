//! The size of the tables of the store, measured now and then.
//!
//! A deletion does not make the tables smaller: the server uses their free space again. So the space that deletions freed is
//! estimated, by the share of the executions that they deleted, and is kept in the database for all nodes. It is used up as far as
//! the tables grow afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use super::agreement::Agreement;
use super::generations;
use super::op::{Op, params};
use super::queue::Queue;
use super::reader::{Reader, get};
use store::{Capacity, Error};

/// The time between two measurements.
const EVERY: Duration = Duration::from_secs(30);
/// Maximum number of executions that are counted. If there are more, a deletion counts for more than it frees, and less is deleted.
const MOST_COUNTED: i64 = 1_000_000;

/// The size of the tables with their indexes, and the last measurement of any node with the bytes that were free then.
const MEASURE: &str = "SELECT (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class c \
      WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'), \
    (SELECT convert_from(value, 'UTF8') FROM meta WHERE name = 'freed')";
const COUNT: &str = "SELECT (SELECT count(*) FROM (SELECT 1 FROM executions LIMIT $1) e) \
    + (SELECT count(*) FROM (SELECT 1 FROM live LIMIT $1) l)";
/// Adds the bytes that a deletion freed to the sum of all nodes. The value has the size of the tables, the bytes that were free
/// then, and the id of the last deletion, whose statement may be sent twice.
const ADD_FREED: &str = "INSERT INTO meta AS m (name, value) \
    VALUES ('freed', convert_to($1::int8 || ' ' || $2::int8 || ' ' || $3::text, 'UTF8')) \
    ON CONFLICT (name) DO UPDATE SET value = (SELECT convert_to( \
      split_part(v, ' ', 1) || ' ' || split_part(v, ' ', 2)::int8 + $2 || ' ' || $3, 'UTF8') \
      FROM convert_from(m.value, 'UTF8') v) \
    WHERE split_part(convert_from(m.value, 'UTF8'), ' ', 3) <> $3";
/// Takes over a measurement. Where the tables grew, free space was not there or is used up; where they shrank, it was given back.
const MEASURED: &str = "UPDATE meta SET value = (SELECT convert_to( \
      $1::int8 || ' ' || greatest(0, split_part(v, ' ', 2)::int8 - abs($1 - split_part(v, ' ', 1)::int8)) \
      || ' ' || split_part(v, ' ', 3), 'UTF8') FROM convert_from(value, 'UTF8') v) WHERE name = 'freed'";

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
    /// Held while a measurement or a deletion is noted here and in the database.
    noting: Mutex<()>,
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
            noting: Mutex::default(),
            nodes_changed: Notify::new(),
        }))
    }

    /// Returns the limit in bytes; `None` if there is none.
    pub(super) fn most(&self) -> Option<u64> {
        self.0.agreement.in_force().store_size
    }

    /// Returns the bytes of the last measurement.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that hold something, by the last measurement and the deletions since.
    pub(super) fn used(&self) -> u64 {
        self.bytes().saturating_sub(self.0.freed.load(Ordering::Relaxed))
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
        let _noting = self.0.noting.lock().await;
        let (bytes, used) = (self.bytes(), self.used());
        let mut executions = self.0.executions.load(Ordering::Relaxed);
        if executions == 0 {
            let row = reader.row(COUNT, params![MOST_COUNTED]).await?;
            let left: i64 = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
            executions = u64::try_from(left).unwrap_or_default().saturating_add(deleted);
        }
        let share = u128::from(used) * u128::from(deleted) / u128::from(executions.max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX).min(used);
        self.0.executions.store(executions.saturating_sub(deleted), Ordering::Relaxed);
        self.0.freed.fetch_add(share, Ordering::Relaxed);
        let deletion = uuid::Uuid::new_v4().to_string();
        let statement = (ADD_FREED, params![stored(bytes), stored(share), deletion]);
        queue.write(Op::Statements(vec![statement])).await.map(drop)
    }
}

fn stored(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Measures the size of the tables, unless that or a deletion is being noted already, which takes as long as an outage.
async fn measure_if_idle(reader: &Reader, usage: &Usage) -> Result<(), Error> {
    match usage.0.noting.try_lock() {
        Ok(_noting) => measure_alone(reader, usage).await.map(drop),
        Err(_) => Ok(()),
    }
}

/// Measures the size of the tables. Returns it in bytes.
pub(super) async fn measure(reader: &Reader, usage: &Usage) -> Result<u64, Error> {
    let _noting = usage.0.noting.lock().await;
    measure_alone(reader, usage).await
}

async fn measure_alone(reader: &Reader, usage: &Usage) -> Result<u64, Error> {
    let Some(row) = reader.row(MEASURE, Vec::new()).await? else { return Ok(0) };
    let (bytes, stored): (i64, Option<String>) = (get(&row, 0)?, get(&row, 1)?);
    let bytes = u64::try_from(bytes).unwrap_or_default();
    let freed = stored.map_or(0, |stored| still_free(&stored, bytes));
    usage.0.bytes.store(bytes, Ordering::Relaxed);
    usage.0.freed.store(freed, Ordering::Relaxed);
    usage.0.executions.store(0, Ordering::Relaxed);
    Ok(bytes)
}

/// Returns the bytes that are still free in tables of this size, by the value that is stored. [`MEASURED`] computes the same.
fn still_free(stored: &str, bytes: u64) -> u64 {
    let mut numbers = stored.split(' ').map_while(|number| number.parse::<u64>().ok());
    let (Some(then), Some(freed)) = (numbers.next(), numbers.next()) else { return 0 };
    freed.saturating_sub(bytes.abs_diff(then))
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
                let _noting = usage.0.noting.lock().await;
                let bytes = measure_alone(&reader, &usage).await?;
                if usage.0.freed.load(Ordering::Relaxed) > 0 {
                    // The growth that was counted is not counted again.
                    let statement = (MEASURED, params![stored(bytes)]);
                    queue.write(Op::Statements(vec![statement])).await?;
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

/// Measures the size, and returns how many bytes the large values take and why a guarantee is weakened.
pub(super) async fn read(reader: &Reader, usage: &Usage) -> Result<(u64, Option<String>), Error> {
    measure_if_idle(reader, usage).await?;
    let sql = "SELECT coalesce(sum(stored) FILTER (WHERE stored > 0), 0)::int8 FROM blobs";
    let row = reader.row(sql, Vec::new()).await?;
    let bytes: i64 = row.map(|row| get(&row, 0)).transpose()?.unwrap_or_default();
    Ok((u64::try_from(bytes).unwrap_or_default(), generations::weakness(reader).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_growth_consumes_free_space_and_shrinking_adds_none() {
        assert_eq!(still_free("1000 300 a-deletion", 1000), 300);
        assert_eq!(still_free("1000 300 a-deletion", 1100), 200);
        assert_eq!(still_free("1000 300 a-deletion", 900), 200);
        assert_eq!(still_free("1000 300 a-deletion", 2000), 0);
        assert_eq!(still_free("", 2000), 0);
    }
}
