//! Definitions, and the numbers by which the rows of executions refer to them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::automation::TriggerKey;
use model::{AutomationId, DefinitionHash};
use tokio::sync::{RwLock, RwLockReadGuard};
use uuid::Uuid;

use super::list::{MAX_PAGE, prefix};
use super::op::{Done, Op, params};
use super::partitions::{day_of, first_id};
use super::queue::Queue;
use super::reader::{Reader, damaged, get, text};
use store::Error;
use store::{Definition, DefinitionUse};

const FIND: &str = "SELECT no, automation FROM definitions WHERE hash = $1";
const READ: &str = "SELECT a.id, d.path, d.body FROM definitions d JOIN automations a ON a.no = d.automation WHERE d.hash = $1";
/// The definitions of an Automation with their numbers of executions. Live ones are counted by their primary key's table,
/// ended ones by the index of their Automation.
const LIST: &str = "SELECT d.hash, d.path, \
      (SELECT count(*) FROM live l WHERE l.definition = d.no) \
      + (SELECT count(*) FROM executions e WHERE e.automation = d.automation AND e.definition = d.no) \
    FROM definitions d JOIN automations a ON a.no = d.automation WHERE a.id = $1 ORDER BY d.put DESC LIMIT $2";
const PUT_AUTOMATION: &str = "INSERT INTO automations (id) VALUES ($1) ON CONFLICT (id) DO NOTHING";
/// A known definition becomes the latest, unless it is.
const PUT: &str = "INSERT INTO definitions AS d (hash, automation, put, path, body) \
    SELECT $1, a.no, coalesce((SELECT max(put) FROM definitions WHERE automation = a.no), 0) + 1, $3, $4 \
      FROM automations a WHERE a.id = $2 \
    ON CONFLICT (hash) DO UPDATE SET put = excluded.put \
      WHERE d.put < (SELECT max(o.put) FROM definitions o WHERE o.automation = d.automation)";
/// It says which definitions are used, for as long as there are days of them.
const PUT_DAY: &str = "INSERT INTO definition_days (definition, day) \
    SELECT no, $2 FROM definitions WHERE no = $1 ON CONFLICT (definition, day) DO NOTHING";
const IS_STORED: &str = "SELECT EXISTS (SELECT 1 FROM definitions WHERE no = $1)";

/// Definitions that are not the latest of their Automation, with their days. Among days without executions of them.
const OLD_DAYS: &str = "SELECT d.no, d.automation, d.hash, y.day, (extract(epoch FROM clock_timestamp()) * 1000)::int8 FROM definitions d \
    LEFT JOIN definition_days y ON y.definition = d.no \
    WHERE d.put < (SELECT max(o.put) FROM definitions o WHERE o.automation = d.automation) ORDER BY d.no, y.day";
const IS_USED: &str = "SELECT EXISTS (SELECT 1 FROM live WHERE id >= $3 AND id < $4 AND definition = $1) \
    OR EXISTS (SELECT 1 FROM executions WHERE automation = $2 AND id >= $3 AND id < $4 AND definition = $1)";
const DELETE_DAY: &str = "DELETE FROM definition_days WHERE definition = $1 AND day = $2";
const DELETE: &str = "DELETE FROM definitions WHERE no = $1";

/// The numbers of a definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) automation: i32,
    pub(super) definition: i32,
}

/// The definitions that this process knows to be stored.
#[derive(Clone, Debug)]
pub(super) struct Definitions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    known: Mutex<Known>,
    /// Held while executions are accepted, so that none of their definitions is deleted meanwhile.
    gate: RwLock<()>,
    reader: Reader,
}

#[derive(Debug, Default)]
struct Known {
    numbers: HashMap<DefinitionHash, Numbers>,
    days: HashSet<(i32, i32)>,
}

impl Definitions {
    pub(super) fn new(reader: Reader) -> Self {
        Self(Arc::new(Inner { known: Mutex::default(), gate: RwLock::new(()), reader }))
    }

    /// Keeps definitions from being deleted until the guard is dropped.
    pub(super) async fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.0.gate.read().await
    }

    /// Returns the numbers of a stored definition, and notes that an execution with this id uses it.
    ///
    /// # Errors
    /// [`Error::NoSuchDefinition`] if it is not stored.
    pub(super) async fn use_for(
        &self,
        queue: &Queue,
        hash: DefinitionHash,
        id: Uuid,
    ) -> Result<Numbers, Error> {
        let known = self.known().numbers.get(&hash).copied();
        let numbers = match known {
            Some(numbers) => numbers,
            None => {
                let row = self.0.reader.row(FIND, params![hash.as_bytes().to_vec()]).await?;
                let row = row.ok_or(Error::NoSuchDefinition(hash))?;
                let numbers = Numbers { definition: get(&row, 0)?, automation: get(&row, 1)? };
                self.known().numbers.insert(hash, numbers);
                numbers
            }
        };
        let day = (numbers.definition, day_of(id));
        let is_known = self.known().days.contains(&day);
        if !is_known {
            let put = (PUT_DAY, params![day.0, day.1]);
            let done = queue.write(Op::Statements(vec![put, (IS_STORED, params![day.0])])).await?;
            let Done::Rows(lists) = done else { return Ok(numbers) };
            let row = lists.last().and_then(|rows| rows.first());
            if !row.map(|row| get::<bool>(row, 0)).transpose()?.unwrap_or_default() {
                // Another node has deleted it, since nothing used it any more.
                self.known().numbers.remove(&hash);
                return Err(Error::NoSuchDefinition(hash));
            }
            self.known().days.insert(day);
        }
        Ok(numbers)
    }

    /// Stores a definition and makes it the latest of its Automation.
    pub(super) async fn put(&self, queue: &Queue, definition: Definition) -> Result<(), Error> {
        let _held = self.hold().await;
        let Definition { hash, automation, path, text } = definition;
        let automation = automation.as_str().to_owned();
        let put = params![hash.as_bytes().to_vec(), automation.clone(), path.into_bytes(), text.into_bytes()];
        queue.write(Op::Statements(vec![(PUT_AUTOMATION, params![automation]), (PUT, put)])).await.map(drop)
    }

    /// Returns the definition with this hash.
    pub(super) async fn read(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        let row = self.0.reader.row(READ, params![hash.as_bytes().to_vec()]).await?;
        let definition = |row: &tokio_postgres::Row| {
            let automation = automation(get(row, 0)?)?;
            Ok(Definition { hash, automation, path: text(row, 1)?, text: text(row, 2)? })
        };
        row.as_ref().map(definition).transpose()
    }

    /// Returns the definitions of an Automation without their texts, the one put last first.
    pub(super) async fn list(
        &self,
        automation: &AutomationId,
        limit: u32,
    ) -> Result<Vec<DefinitionUse>, Error> {
        let limit = i64::from(limit.min(MAX_PAGE));
        let rows = self.0.reader.rows(LIST, params![automation.as_str().to_owned(), limit]).await?;
        let used = |row: &tokio_postgres::Row| {
            let executions: i64 = get(row, 2)?;
            Ok(DefinitionUse {
                hash: hash(get(row, 0)?)?,
                path: text(row, 1)?,
                executions: u64::try_from(executions).unwrap_or_default(),
            })
        };
        rows.iter().map(used).collect()
    }

    /// Deletes definitions without executions, except the latest of each Automation.
    pub(super) async fn delete_unused(&self, queue: &Queue) -> Result<(), Error> {
        let _alone = self.0.gate.write().await;
        let mut left: HashMap<i32, (DefinitionHash, usize)> = HashMap::new();
        let mut deleted = Vec::new();
        for row in self.0.reader.rows(OLD_DAYS, Vec::new()).await? {
            let (no, of): (i32, i32) = (get(&row, 0)?, get(&row, 1)?);
            let (_, days) = left.entry(no).or_insert((hash(get(&row, 2)?)?, 0));
            let Some(day) = get::<Option<i32>>(&row, 3)? else { continue };
            let today = day_of(prefix(get(&row, 4)?));
            if day.saturating_add(1) >= today {
                // A node may use it: each remembers for a day that it is stored.
                *days += 1;
                continue;
            }
            let bounds = params![no, of, first_id(day), first_id(day.saturating_add(1))];
            let is_used = self.0.reader.row(IS_USED, bounds).await?;
            if is_used.map(|row| get::<bool>(&row, 0)).transpose()?.unwrap_or(true) {
                *days += 1;
            } else {
                deleted.push((DELETE_DAY, params![no, day]));
                self.known().days.remove(&(no, day));
            }
        }
        for (no, (hash, days)) in left {
            if days == 0 {
                deleted.push((DELETE, params![no]));
                self.known().numbers.remove(&hash);
            }
        }
        if deleted.is_empty() {
            return Ok(());
        }
        queue.write(Op::Statements(deleted)).await.map(drop)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the hash of a definition.
fn hash(bytes: Vec<u8>) -> Result<DefinitionHash, Error> {
    let bytes = bytes.try_into().map_err(|_| damaged("a hash of a definition is too short".to_owned()))?;
    Ok(DefinitionHash::from_bytes(bytes))
}

/// Reads the id of an Automation.
/// Reads the key of a trigger.
pub(super) fn trigger_key(text: &str) -> Result<TriggerKey, Error> {
    text.parse().map_err(|_| damaged(format!("`{text}` is not the key of a trigger")))
}

pub(super) fn automation(text: &str) -> Result<AutomationId, Error> {
    AutomationId::parse(text).ok_or_else(|| damaged(format!("`{text}` is no id of an Automation")))
}
