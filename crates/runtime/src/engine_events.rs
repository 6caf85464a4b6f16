//! Events of the engine on their way to triggers: failures, and changes of automations.
//!
//! Each trigger in force that wants an event has a row of its own in the store's outbox, written in the commit that says what
//! happened. A row stays until an execution stands for it, so the rows are also the exact count of merged events.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Catalog, EngineTrigger};
use jiff::Timestamp;
use model::action::ActionError;
use model::automation::{Automation, AutomationId, TriggerId, TriggerKey};
use model::engine_event::{EngineEventName, FailureKind};
use model::execution::{ExecutionId, Outcome};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use store::OutboxRow;
use value::{Map, Value};

use crate::context::Context;
use crate::outbox::ENGINE_EVENTS;

/// The maximum size of the body and of the data of an error that handlers get, in bytes as JSON.
const MAX_ERROR_VALUE: usize = 16 << 10;
/// The maximum length of each text of an error that handlers get, in characters.
const MAX_ERROR_TEXT: usize = 4 << 10;
/// The maximum length of a title, in characters.
const MAX_TITLE: usize = 500;

/// An occurrence that the engine tells triggers about.
#[derive(Debug, Default)]
pub struct Occurrence {
    /// The id: a trigger hears once of occurrences with the same id.
    pub id: String,
    /// The value of `kind`.
    pub kind: &'static str,
    /// A sentence for people.
    pub title: String,
    /// The trigger that it concerns.
    pub trigger: Option<TriggerId>,
    /// The error.
    pub error: Option<ActionError>,
    /// The execution: its `id`, `origin`, `startedAt` and `attempt`.
    pub execution: Option<Map>,
    /// The execution that handlers link to.
    pub sender: Option<ExecutionId>,
    /// The path of the file and the line of its first error.
    pub file: Option<(String, Option<u64>)>,
    /// The name of the event.
    pub event_name: Option<String>,
    /// The number of failures that it stands for; 0 counts as 1.
    pub count: u64,
    /// Since when; `None` for now.
    pub since: Option<Timestamp>,
    /// The path of the page in the web UI.
    pub page: String,
    /// The failures in a row, for a poll or a subscription.
    pub streak: Option<FailureStreak>,
}

/// The failures in a row of a poll or a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureStreak {
    /// Their number.
    pub failures: u32,
    /// A text that is the same for all of them, and different for those after the next success.
    pub since: String,
}

/// The automation that an occurrence concerns. It may not be in force any more.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its id.
    pub id: &'a AutomationId,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a [String],
}

impl<'a> From<&'a Automation> for Subject<'a> {
    fn from(automation: &'a Automation) -> Self {
        Self { id: &automation.id, name: &automation.name, labels: &automation.labels }
    }
}

/// The body of a row of the outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineRow {
    /// The id of the occurrence.
    pub id: String,
    /// `trigger.results.body.data`, with the `count` of this row.
    pub data: Value,
    /// The execution that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<ExecutionId>,
    /// The failures in a row, for a poll or a subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streak: Option<FailureStreak>,
}

/// Returns the event and the trigger of the rows with this name; `None` for the name of an own event.
#[must_use]
pub fn parse_engine_row_name(name: &str) -> Option<(EngineEventName, TriggerKey)> {
    let (event, trigger) = name.strip_prefix(ENGINE_EVENTS).and_then(|_| name.split_once(':'))?;
    Some((EngineEventName::find(event)?, trigger.parse().ok()?))
}

/// Returns the place of a row that several nodes write: the same on all of them.
#[must_use]
pub fn shared_place(at: Timestamp, name: &str, id: &str) -> ExecutionId {
    let digest = Sha256::digest(format!("{name}\n{id}"));
    let mut random = [0; 10];
    random.iter_mut().zip(digest).for_each(|(byte, part)| *byte = part);
    ExecutionId::new(at, random)
}

/// Returns a short text that is the same for the same content of a file, and another for any other.
#[must_use]
pub fn content_mark(content: &str) -> String {
    hex::encode(Sha256::digest(content).get(..8).unwrap_or_default())
}

impl Context {
    /// Returns the rows by which the triggers of a snapshot hear of a failure; none if no trigger wants it. `automation` is that which
    /// it concerns, `place` makes the id of each row, by its name.
    pub fn failure_rows(
        &self,
        catalog: &Catalog,
        kind: FailureKind,
        automation: Option<&Automation>,
        place: impl FnMut(&str) -> ExecutionId,
        occurrence: impl FnOnce() -> Occurrence,
    ) -> Vec<OutboxRow> {
        let wants = |trigger: &&EngineTrigger| {
            let filter = &trigger.filter;
            // A file that is broken does not handle that itself.
            let is_own = automation.is_some_and(|of| of.id == trigger.mount.deployment.automation.id);
            filter.wants_kind(kind)
                && filter.wants_automation(automation)
                && !(kind == FailureKind::File && is_own)
        };
        let triggers = on_engine(catalog, EngineEventName::Failure).filter(wants);
        self.rows(EngineEventName::Failure, triggers, automation.map(Subject::from), place, occurrence)
    }

    /// Returns the rows by which the triggers of a snapshot hear of a change of an automation.
    pub fn change_rows(
        &self,
        catalog: &Catalog,
        automation: Subject<'_>,
        place: impl FnMut(&str) -> ExecutionId,
        occurrence: impl FnOnce() -> Occurrence,
    ) -> Vec<OutboxRow> {
        let wants =
            |trigger: &&EngineTrigger| trigger.filter.wants(automation.id.as_str(), automation.labels);
        let triggers = on_engine(catalog, EngineEventName::Changed).filter(wants);
        self.rows(EngineEventName::Changed, triggers, Some(automation), place, occurrence)
    }

    fn rows<'a>(
        &self,
        event: EngineEventName,
        triggers: impl Iterator<Item = &'a EngineTrigger>,
        automation: Option<Subject<'_>>,
        mut place: impl FnMut(&str) -> ExecutionId,
        occurrence: impl FnOnce() -> Occurrence,
    ) -> Vec<OutboxRow> {
        let mut triggers = triggers.peekable();
        // Tests of automations, and a command that runs one execution, raise nothing.
        if triggers.peek().is_none() || !self.settings.background {
            return Vec::new();
        }
        if self.outbox.rows() >= OutboxRow::MAX {
            self.rejections.count(automation.map(|automation| automation.id), "outbox_full");
            tracing::error!(
                event = event.as_str(),
                "too many events wait for their delivery: a trigger does not hear of this one"
            );
            return Vec::new();
        }
        let at = self.clock.now();
        let body = self.engine_row(automation, occurrence(), at);
        let Some(body) = row_body(body) else { return Vec::new() };
        let row = |trigger: &EngineTrigger| {
            let name = OutboxRow::engine_name(event, &trigger.mount.key());
            OutboxRow { id: place(&name), name, body: body.clone(), at }
        };
        triggers.map(row).collect()
    }

    /// Returns `trigger.results.body.data` for an occurrence that concerns this automation.
    #[must_use]
    pub fn occurrence_data(&self, automation: Option<&Automation>, of: Occurrence, at: Timestamp) -> Value {
        self.engine_row(automation.map(Subject::from), of, at).data
    }

    fn engine_row(&self, automation: Option<Subject<'_>>, of: Occurrence, at: Timestamp) -> EngineRow {
        let title = text::truncate(&of.title, MAX_TITLE).into_owned();
        let file = of.file.map(|(path, line)| {
            Map::from_iter([("path", Value::from(path)), ("line", line.map(Value::from).unwrap_or_default())])
        });
        let data = Map::from_iter([
            ("kind", Value::from(of.kind)),
            ("title", Value::from(title)),
            ("automation", automation.map(automation_value).unwrap_or_default()),
            ("trigger", of.trigger.map(|id| Value::from(id.as_str())).unwrap_or_default()),
            ("error", of.error.as_ref().map(error_value).unwrap_or_default()),
            ("execution", of.execution.map(Value::from).unwrap_or_default()),
            ("file", file.map(Value::from).unwrap_or_default()),
            ("eventName", of.event_name.map(Value::from).unwrap_or_default()),
            ("count", Value::from(of.count.max(1))),
            ("since", Value::from(of.since.unwrap_or(at).to_string())),
            ("url", Value::from(self.page_url(&of.page))),
        ]);
        EngineRow { id: of.id, data: Value::from(data), sender: of.sender, streak: of.streak }
    }
}

/// Iterates over the enabled triggers on an event of the engine. Cheap without such triggers.
fn on_engine(catalog: &Catalog, event: EngineEventName) -> impl Iterator<Item = &EngineTrigger> {
    catalog.awaited_events().on_engine(event)
}

fn automation_value(automation: Subject<'_>) -> Value {
    let labels: Value = automation.labels.iter().map(|label| Value::from(label.as_str())).collect();
    Value::from(Map::from_iter([
        ("id", Value::from(automation.id.as_str())),
        ("name", Value::from(automation.name)),
        ("labels", labels),
    ]))
}

/// The text of a row. It is in the commit of what it tells about, which must not fail because of it, so that an error for which the row
/// has no room is left out.
fn row_body(mut row: EngineRow) -> Option<String> {
    let body = serde_json::to_string(&row).ok()?;
    if body.len() <= OutboxRow::MAX_BODY {
        return Some(body);
    }
    if let Value::Map(members) = &mut row.data {
        Arc::make_mut(members).insert("error", Value::Null);
    }
    let body = serde_json::to_string(&row).ok().filter(|body| body.len() <= OutboxRow::MAX_BODY);
    if body.is_none() {
        tracing::error!(id = row.id, "an event of the engine is too large: triggers do not hear of it");
    }
    body
}

/// The error without large values, which the page of the execution shows.
fn error_value(error: &ActionError) -> Value {
    let mut error = error.clone();
    for text in error.texts_mut() {
        if let Cow::Owned(cut) = text::truncate(text, MAX_ERROR_TEXT) {
            *text = cut;
        }
    }
    let mut value = error.to_value();
    if let Value::Map(members) = &mut value {
        let members = Arc::make_mut(members);
        for name in ["body", "data"] {
            let is_large = |value: &Value| {
                value.external_bytes() > 0 || value.estimated_size(MAX_ERROR_VALUE) >= MAX_ERROR_VALUE
            };
            if members.get(name).is_some_and(is_large) {
                members.insert(name, Value::Null);
            }
        }
    }
    value
}

/// Returns the sentence about a failed end of an execution.
pub(crate) fn title_of_end(automation: &Automation, outcome: &Outcome) -> String {
    let name = &automation.name;
    let message = outcome.message().unwrap_or_default();
    match outcome {
        Outcome::Stuck { .. } => format!("{name} is stuck: {message}"),
        _ => format!("{name} failed: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_name_has_its_event_and_trigger() {
        for key in ["alert", "alert#broken"] {
            let key: TriggerKey = key.parse().expect("a key");
            let name = OutboxRow::engine_name(EngineEventName::Failure, &key);
            assert_eq!(parse_engine_row_name(&name), Some((EngineEventName::Failure, key)));
        }
        assert_eq!(parse_engine_row_name("order.paid:x"), None);
        assert_eq!(parse_engine_row_name("cogwork.other:x"), None);
    }

    #[test]
    fn a_shared_place_depends_on_what_it_is_for_alone() {
        let at = Timestamp::UNIX_EPOCH;
        assert_eq!(shared_place(at, "a", "b"), shared_place(at, "a", "b"));
        assert_ne!(shared_place(at, "a", "b"), shared_place(at, "a", "c"));
        assert_ne!(shared_place(at, "a", "b"), shared_place(at, "b", "b"));
    }
}
