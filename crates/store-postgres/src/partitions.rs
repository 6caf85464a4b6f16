//! The partitions of the days. An id begins with its time, so the executions of a day are a range of ids.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::forms::id_of;
use super::op::{Item, Op, params};
use super::reader::{Reader, get};
use store::Error;
use store::codec::id_prefix;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The days before yesterday that have partitions, by the clock of the server.
const OLD_DAYS: &str = "SELECT d.day FROM (SELECT split_part(c.relname, '_', -1)::int4 AS day FROM pg_inherits i \
    JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('executions')) d \
    WHERE d.day < floor(extract(epoch FROM clock_timestamp()) / 86400)::int4 - 1";

/// The days that have partitions.
#[derive(Clone, Debug)]
pub(super) struct Partitions {
    known: Arc<Mutex<HashSet<i32>>>,
    reader: Reader,
}

/// Returns the day of an id, counted from the Unix epoch.
pub(super) fn day_of(id: Uuid) -> i32 {
    let [a, b, c, d, e, f, ..] = *id.as_bytes();
    let ms = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    // 48 bits of milliseconds are three million days.
    i64::try_from(ms).ok().and_then(|ms| i32::try_from(ms / DAY_MS).ok()).unwrap_or_default()
}

/// Returns the first id of a day.
pub(super) fn first_id(day: i32) -> Uuid {
    let mut bytes = [0; 16];
    let prefix = id_prefix(i64::from(day).saturating_mul(DAY_MS));
    bytes.iter_mut().zip(prefix).for_each(|(byte, first)| *byte = first);
    Uuid::from_bytes(bytes)
}

impl Partitions {
    pub(super) fn new(reader: Reader) -> Self {
        Self { known: Arc::default(), reader }
    }

    /// Makes the partitions of the days of these ids, as far as they are not known to exist.
    pub(super) async fn ensure(&self, ids: impl Iterator<Item = Uuid>) -> Result<(), Error> {
        let missing: HashSet<i32> = {
            let known = self.known();
            ids.map(day_of).filter(|day| !known.contains(day)).collect()
        };
        for day in missing {
            self.make(day).await?;
        }
        Ok(())
    }

    /// Makes the partitions of a batch that found none, since another program dropped them.
    pub(super) async fn make_again(&self, items: &[Item]) {
        let mut days = HashSet::new();
        for item in items {
            match &item.op {
                Op::Accept(accept) => {
                    days.extend(accept.executions.iter().map(|new| day_of(id_of(new.row.id))))
                }
                Op::Append(row) => drop(days.insert(day_of(id_of(row.execution)))),
                Op::State(..) | Op::Statements(_) => {}
            }
        }
        for day in days {
            if let Err(error) = self.make(day).await {
                tracing::error!(day, %error, "the partitions of a day cannot be made");
            }
        }
    }

    async fn make(&self, day: i32) -> Result<(), Error> {
        let params = params![day, first_id(day), first_id(day.saturating_add(1))];
        let made = self.reader.rows("SELECT make_day($1, $2, $3)", params).await;
        made.map_err(|error| match error {
            Error::Read { reason } => Error::Write { reason },
            error => error,
        })?;
        self.known().insert(day);
        Ok(())
    }

    /// Drops the partitions of days before yesterday in which nothing is left. Returns their number.
    pub(super) async fn drop_empty(&self) -> Result<u64, Error> {
        let mut dropped = 0;
        for row in self.reader.rows(OLD_DAYS, Vec::new()).await? {
            let day: i32 = get(&row, 0)?;
            let row = self.reader.row("SELECT drop_day($1)", params![day]).await?;
            if row.map(|row| get::<bool>(&row, 0)).transpose()? == Some(true) {
                self.known().remove(&day);
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    fn known(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daily_partitions_cover_all_ids_without_a_gap() {
        for day in [0, 1, 20_782, 3_000_000] {
            let (first, next) = (first_id(day), first_id(day + 1));
            assert_eq!((day_of(first), day_of(next)), (day, day + 1));
            let before = Uuid::from_u128(next.as_u128() - 1);
            assert_eq!(day_of(before), day, "the last id of the day");
        }
    }
}
