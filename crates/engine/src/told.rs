//! The record of what triggers on events of the engine were told last about the files of the project: rows of the state, which exist
//! while a trigger in force hears of changes or of files that do not load.
//!
//! A reload and a start compare the next snapshot with the record, and write what they tell and the new record in one commit. So a
//! change is told once: also if the daemon dies in between, if it happened while no daemon ran, and if several daemons see it.

use std::collections::{BTreeMap, HashSet};

use catalog::{Catalog, Deployment};
use model::automation::AutomationId;
use model::engine_event::{EngineEventName, FailureKind};
use runtime::{Context, content_mark};
use serde::{Deserialize, Serialize};
use store::{Error, OutboxRow, StateEntry, StateWrite};
use value::Value;

/// The scope of the record in the state. No scope of an automation has a colon in it.
const SCOPE: &str = "told:files";
/// The key of the generation that was told last; it exists once the record is complete.
const GENERATION: &str = "generation";
/// The beginning of the keys of automations, which their ids follow.
const AUTOMATION: &str = "automation:";
/// The number of rows of a page.
const PAGE: u32 = 1000;

/// The version of an automation that was told last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToldAutomation {
    pub(crate) name: String,
    pub(crate) labels: Vec<String>,
    /// The path of its file.
    pub(crate) path: String,
    /// The hash of its definition.
    pub(crate) definition: String,
    pub(crate) enabled: bool,
    /// True if its file does not load.
    pub(crate) stale: bool,
}

impl ToldAutomation {
    fn new(deployment: &Deployment) -> Self {
        let automation = &deployment.automation;
        Self {
            name: automation.name.clone(),
            labels: automation.labels.clone(),
            path: automation.source.path().to_owned(),
            definition: automation.definition.to_string(),
            enabled: automation.enabled,
            stale: deployment.stale.is_some(),
        }
    }

    /// Returns the state of an automation in a snapshot. If its file does not load and no version of it is in force, the
    /// state that was told last is returned as stale; `None` if the automation is gone.
    pub(crate) fn of(catalog: &Catalog, id: &AutomationId, told: Option<&Self>) -> Option<Self> {
        match catalog.get(id) {
            Some(deployment) => Some(Self::new(deployment)),
            None => {
                let told = told.filter(|told| catalog.error_of(&told.path).is_some())?;
                Some(Self { stale: true, ..told.clone() })
            }
        }
    }
}

/// Returns the key of an automation.
pub(crate) fn key_of_automation(id: &AutomationId) -> String {
    format!("{AUTOMATION}{id}")
}

/// Returns the key of a file that does not load; a path may be longer than a key.
pub(crate) fn key_of_file(path: &str) -> String {
    format!("file:{}", content_mark(path))
}

/// Returns true if a trigger in force hears of changes, or of files that do not load.
pub(crate) fn has_listeners(catalog: &Catalog) -> bool {
    let awaited = catalog.awaited_events();
    awaited.on_engine(EngineEventName::Changed).next().is_some()
        || awaited
            .on_engine(EngineEventName::Failure)
            .any(|trigger| trigger.filter.wants_kind(FailureKind::File))
}

/// A difference from the record, with its events.
pub(crate) struct Difference {
    pub(crate) key: String,
    /// The new value of the record; `None` if it has no such value any more.
    pub(crate) value: Option<Value>,
    pub(crate) rows: Vec<OutboxRow>,
}

/// The record as it was read.
#[derive(Default)]
pub(crate) struct Record {
    rows: BTreeMap<String, StateEntry>,
}

impl Record {
    /// Reads the values with these keys; all of them if `keys` is `None`, or if the record is not complete.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn read(context: &Context, keys: Option<Vec<String>>) -> Result<Self, Error> {
        let store = &context.store;
        if let Some(mut keys) = keys {
            keys.push(GENERATION.to_owned());
            let found = store.read_states(SCOPE, &keys).await?;
            let found = keys.into_iter().zip(found);
            let rows = found.filter_map(|(key, entry)| Some((key, entry?))).collect();
            let record = Self { rows };
            if record.is_complete() {
                return Ok(record);
            }
        }
        let mut record = Self::default();
        let mut last: Option<String> = None;
        loop {
            let page = store.list_state(SCOPE, last.as_deref(), PAGE).await?;
            let Some(end) = page.last() else { return Ok(record) };
            last = Some(end.key.clone());
            record.rows.extend(page.into_iter().map(|row| (row.key, row.entry)));
        }
    }

    /// Returns true if it says what was told last about everything.
    pub(crate) fn is_complete(&self) -> bool {
        self.rows.contains_key(GENERATION)
    }

    /// Returns true if a later generation of the files than this one was told.
    pub(crate) fn is_later_than(&self, generation: Option<u64>) -> bool {
        let told = self.rows.get(GENERATION).and_then(|entry| entry.value.to_text().parse::<u64>().ok());
        generation.zip(told).is_some_and(|(own, told)| told > own)
    }

    /// Returns true if the files of this generation were told last.
    pub(crate) fn is_of(&self, generation: Option<u64>) -> bool {
        let told = self.rows.get(GENERATION).map(|entry| entry.value.to_text());
        told.is_some_and(|told| told == generation.unwrap_or_default().to_string())
    }

    /// Returns the version of an automation that was told last.
    pub(crate) fn automation(&self, id: &AutomationId) -> Option<ToldAutomation> {
        from_value(&self.rows.get(&key_of_automation(id))?.value)
    }

    /// Returns the automations of the record.
    pub(crate) fn automations(&self) -> impl Iterator<Item = AutomationId> {
        self.rows.keys().filter_map(|key| AutomationId::parse(key.strip_prefix(AUTOMATION)?))
    }

    /// Returns the mark of the content of a file that does not load, as it was told last.
    pub(crate) fn file(&self, key: &str) -> Option<String> {
        Some(self.rows.get(key)?.value.to_text())
    }

    /// Returns the keys of the values about files that do not load.
    pub(crate) fn files(&self) -> impl Iterator<Item = &String> {
        self.rows.keys().filter(|key| *key != GENERATION && !key.starts_with(AUTOMATION))
    }

    /// Writes differences with their events, and the generation. Large ones take several commits, each of which has what it tells.
    /// The first one has the generation, so that a node with older files does not tell the others back; that of a new record is the
    /// last one, since it says that the record is complete.
    ///
    /// # Errors
    /// [`Error::StateChanged`] if another node was faster; the store failed.
    pub(crate) async fn write(
        &self,
        context: &Context,
        differences: Vec<Difference>,
        generation: Option<u64>,
    ) -> Result<(), Error> {
        let generation = Value::from(generation.unwrap_or_default().to_string());
        let mut last = self.change(GENERATION.to_owned(), Some(generation));
        let first = last.take_if(|_| self.is_complete());
        let (mut writes, mut emits): (Vec<_>, _) = (first.into_iter().collect(), Vec::new());
        for Difference { key, value, rows } in differences {
            if writes.len() + 1 >= StateWrite::MAX_AT_ONCE
                || emits.len() + rows.len() > OutboxRow::MAX_AT_ONCE
            {
                commit(context, std::mem::take(&mut writes), std::mem::take(&mut emits)).await?;
            }
            emits.extend(rows);
            writes.extend(self.change(key, value));
        }
        writes.extend(last);
        commit(context, writes, emits).await
    }

    /// Deletes the record, since nothing hears of anything.
    ///
    /// # Errors
    /// The same as of [`Record::write`].
    pub(crate) async fn delete(&self, context: &Context) -> Result<(), Error> {
        // First that it is complete.
        let keys: Vec<String> = self.rows.keys().cloned().collect();
        let generation = self.change(GENERATION.to_owned(), None);
        commit(context, generation.into_iter().collect(), Vec::new()).await?;
        for keys in keys.chunks(StateWrite::MAX_AT_ONCE) {
            let keys = keys.iter().filter(|key| *key != GENERATION);
            let writes = keys.filter_map(|key| self.change(key.clone(), None)).collect();
            commit(context, writes, Vec::new()).await?;
        }
        Ok(())
    }

    /// Returns the write of a value; `None` if the record has it.
    fn change(&self, key: String, value: Option<Value>) -> Option<StateWrite> {
        let known = self.rows.get(&key);
        if known.map(|entry| &entry.value) == value.as_ref() {
            return None;
        }
        let expected = known.map(|entry| entry.version);
        Some(StateWrite { scope: SCOPE.to_owned(), key, expected, value, expires_at: None })
    }
}

async fn commit(context: &Context, writes: Vec<StateWrite>, emits: Vec<OutboxRow>) -> Result<(), Error> {
    if writes.is_empty() && emits.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = emits.iter().map(|row| row.name.clone()).collect();
    context.store.write_state_and_emit(writes, emits).await?;
    context.outbox.committed(names.iter().map(String::as_str));
    Ok(())
}

/// Returns the value of the record for an automation.
pub(crate) fn value_of(told: &ToldAutomation) -> Option<Value> {
    serde_json::to_string(told).ok().and_then(|json| serde_json::from_str(&json).ok())
}

fn from_value(value: &Value) -> Option<ToldAutomation> {
    serde_json::from_str(&value.to_json()).ok()
}

/// Returns the paths of the files of a snapshot that do not load.
pub(crate) fn wrong_paths(catalog: &Catalog) -> HashSet<&str> {
    let wrong = catalog.reports().filter(|report| report.has_errors());
    wrong.map(|report| report.source().path()).collect()
}
