//! What happens in other applications, as manifests declare it: how it is polled for, or how it is told of.

use std::time::Duration;

use jiff::Timestamp;
use model::{InputSpec, Map, Value};
use serde::Serialize;

use crate::http::dig;

/// Something that happens in another application.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventSpec {
    /// The full name, such as `wiki.pageChanged`.
    pub name: String,
    /// What happens, in one line.
    pub title: String,
    /// What else an author should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The full names of the connection types it takes.
    pub connections: Vec<String>,
    /// Whether it needs one of them.
    pub connection_required: bool,
    /// What an author may say of it.
    pub inputs: Vec<InputSpec>,
    /// How it is noticed.
    pub source: EventSource,
}

/// How an event is noticed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventSource {
    /// The connector looks for it again and again.
    Poll(PolledEvent),
    /// The other application tells of it.
    Hook(HookedEvent),
}

/// How an event is looked for: a list with the newest first, which is read until something older than what is known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolledEvent {
    /// The full name of the action that lists.
    pub action: String,
    /// Inputs of it that are always the same.
    pub with: Map,
    /// The input that takes the cursor of the next page, where the list has pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The path to the list in what the action gives.
    pub items: String,
    /// The paths to what tells one record from all others, in each.
    pub id: Vec<String>,
    /// The path to the instant by which the list is sorted, in each: one of the other application's clock.
    pub time: String,
    /// The path and the value by which a record is told to be new rather than changed; without it all are new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<(String, Value)>,
    /// How often it is looked for, where the author does not say.
    #[serde(serialize_with = "seconds")]
    pub every: Duration,
    /// How much before the newest known instant something may come to light later.
    #[serde(serialize_with = "seconds")]
    pub overlap: Duration,
}

/// How another application is made to tell of an event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookedEvent {
    /// The full name of the action that subscribes.
    pub subscribe: String,
    /// Inputs of it that are always the same.
    pub with: Map,
    /// The input of it that takes our address.
    pub url: String,
    /// The input of it that takes the secret by which we know the sender.
    pub secret: String,
    /// The path to the id of the subscription in what it gives.
    pub id: String,
    /// The full name of the action that takes the subscription back.
    pub unsubscribe: String,
    /// The input of it that takes the id.
    pub id_input: String,
    /// How the subscriptions that there are can be listed, where they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<Box<ListedHooks>>,
    /// The preset by which requests are verified.
    pub verify: String,
    /// The header, in lower case, with what tells one request from all others, though it be sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// The header, in lower case, and the value by which a request is about this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<(String, String)>,
}

/// How the subscriptions that another application has can be listed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedHooks {
    /// The full name of the action that lists.
    pub action: String,
    /// Inputs of it that are always the same.
    pub with: Map,
    /// The input that takes the cursor of the next page, where the list has pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The path to the list in what the action gives.
    pub items: String,
    /// The path to the address that is told, in each.
    pub url: String,
}

/// Something that a poll found.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What tells it from all others.
    pub key: String,
    /// When it happened, by the other application's clock.
    pub at: Timestamp,
    /// What an execution gets of it: `changeType` and `record`.
    pub value: Value,
}

impl PolledEvent {
    /// The records in what the action gave, as they stand there.
    ///
    /// # Errors
    /// It is not of the form that the manifest says; in words.
    pub fn records(&self, result: &Value) -> Result<Vec<Record>, String> {
        let list = dig(result, &self.items);
        let list = list.as_ref().and_then(Value::as_list);
        let list = list.ok_or_else(|| format!("`{}` gave no list at `{}`", self.action, self.items))?;
        list.iter().map(|record| self.record(record)).collect()
    }

    fn record(&self, record: &Value) -> Result<Record, String> {
        let missing = |path: &str| format!("`{}` gave a record without `{path}`", self.action);
        let parts = self.id.iter().map(|path| {
            let part = dig(record, path).filter(|part| !part.is_null());
            part.map(|part| part.to_text()).ok_or_else(|| missing(path))
        });
        let key = parts.collect::<Result<Vec<_>, _>>()?.join("/");
        let at = dig(record, &self.time).ok_or_else(|| missing(&self.time))?;
        let at = at.to_text().parse().map_err(|_| {
            format!("`{}` gave a record whose `{}` is no instant: `{}`", self.action, self.time, at.to_text())
        })?;
        let is_new =
            self.created.as_ref().is_none_or(|(path, value)| dig(record, path).as_ref() == Some(value));
        let change = if is_new { "created" } else { "updated" };
        let value = Map::from_iter([("changeType", Value::from(change)), ("record", record.clone())]);
        Ok(Record { key, at, value: Value::from(value) })
    }
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&model::units::format_duration(*duration))
}

#[cfg(test)]
mod tests {
    use model::value::JsonLimits;

    use super::*;

    fn event() -> PolledEvent {
        PolledEvent {
            action: "wiki.listPages".to_owned(),
            with: Map::new(),
            cursor: None,
            items: "results".to_owned(),
            id: vec!["id".to_owned(), "version.number".to_owned()],
            time: "version.createdAt".to_owned(),
            created: Some(("version.number".to_owned(), Value::from(1))),
            every: Duration::from_secs(300),
            overlap: Duration::from_secs(60),
        }
    }

    fn check(json: &str, expected: &str) {
        let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
        let found = event().records(&value).map(|records| {
            let words = records.iter().map(|one| format!("{} {} {}", one.key, one.at, one.value.to_json()));
            words.collect::<Vec<_>>().join("; ")
        });
        assert_eq!(found.unwrap_or_else(|error| error), expected);
    }

    #[test]
    fn a_record_is_known_by_its_id_and_says_whether_it_is_new() {
        let page = |number: u32| {
            format!(r#"{{"id":"7","version":{{"number":{number},"createdAt":"2026-03-02T08:00:00.000Z"}}}}"#)
        };
        check(
            &format!(r#"{{"results":[{},{}]}}"#, page(2), page(1)),
            &format!(
                r#"7/2 2026-03-02T08:00:00Z {{"changeType":"updated","record":{}}}; 7/1 2026-03-02T08:00:00Z {{"changeType":"created","record":{}}}"#,
                page(2),
                page(1)
            ),
        );
        check(r#"{"results":[]}"#, "");
    }

    #[test]
    fn an_answer_of_another_form_is_told() {
        check("{}", "`wiki.listPages` gave no list at `results`");
        check(r#"{"results":[{}]}"#, "`wiki.listPages` gave a record without `id`");
        check(
            r#"{"results":[{"id":"7","version":{"number":2}}]}"#,
            "`wiki.listPages` gave a record without `version.createdAt`",
        );
        check(
            r#"{"results":[{"id":"7","version":{"number":2,"createdAt":"then"}}]}"#,
            "`wiki.listPages` gave a record whose `version.createdAt` is no instant: `then`",
        );
    }
}
