//! Events of other applications, as manifests declare them: found by polling, or received through a webhook
//! subscription.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::{InputSpec, ResultType};
use serde::Serialize;
use value::instant::Instant;
use value::{Map, Value};

use crate::http::value_at_path;
use crate::source::StreamedEvent;

/// An event of another application.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventSpec {
    /// The full name, such as `wiki.pageChanged`.
    pub name: String,
    /// A one-line description.
    pub title: String,
    /// Further notes for authors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The full names of the connection types that it accepts.
    pub connections: Vec<String>,
    /// True if it needs a connection.
    pub connection_required: bool,
    /// Inputs that an author may set.
    pub inputs: Vec<InputSpec>,
    /// The type of `trigger.results.body.data`, whose fields are then also in `trigger.results`; `None` if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<ResultType>,
    /// The way the event is detected.
    pub source: EventSource,
}

/// The way an event is detected.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EventSource {
    /// The engine polls a list.
    Poll(PolledEvent),
    /// The other application sends webhooks.
    Hook(SubscribedEvent),
    /// A broker keeps its messages until they are settled.
    Stream(StreamedEvent),
    /// The engine itself has the event.
    Engine,
}

impl EventSource {
    /// Returns the way its events come.
    #[must_use]
    pub fn delivery(&self) -> EventDelivery {
        match self {
            Self::Poll(_) => EventDelivery::Polled,
            Self::Hook(_) => EventDelivery::Subscribed,
            Self::Stream(_) => EventDelivery::Streamed,
            Self::Engine => EventDelivery::Engine,
        }
    }
}

/// The way an event comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum EventDelivery {
    /// The application sends it after a subscription.
    Subscribed,
    /// The daemon polls.
    Polled,
    /// The daemon takes messages from a broker.
    Streamed,
    /// The daemon itself has it.
    Engine,
}

/// A polled event: a list with the newest entry first, read until an entry is older than the known entries; or a list that begins at an instant,
/// oldest first.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolledEvent {
    /// The full name of the listing action.
    pub action: String,
    /// Its constant inputs.
    pub with: Map,
    /// Its input for the cursor of the next page; `None` if the list has no pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The path to the list in the result of the action.
    pub items: String,
    /// The paths, in each record, to the parts of its unique key.
    pub id: Vec<String>,
    /// The path, in each record, to the timestamp that sorts the list, taken from the other application's clock.
    pub time: String,
    /// The path and the value that mark a record as new rather than changed; `None` if all records are new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<(String, Value)>,
    /// The path, in each record, to the part that an execution gets; `None` for the whole record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The inputs of a list that begins at an instant, oldest first; `None` for one with the newest entry first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// The input that, if an author sets it, makes the daemon listen by [`Action::listen`](crate::Action::listen) and poll at once when
    /// something arrives; `None` for an application that is polled only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<String>,
    /// The default polling interval.
    #[serde(serialize_with = "seconds")]
    pub every: Duration,
    /// The longest time by which a record may appear late, before the newest known timestamp.
    #[serde(serialize_with = "seconds")]
    pub overlap: Duration,
}

/// The inputs of a list that begins at an instant.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Since {
    /// The input for the instant.
    pub input: String,
    /// The input that, if true, limits the list to the newest record; `None` for a list that cannot be limited so. Its first poll begins now, and
    /// its position moves on while nothing happens, since such services refuse instants of long ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
    /// The input in which an author sets [`PolledEvent::overlap`]; `None` for a fixed overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// The input that gets a text which no other trigger has; for an action that remembers what it has listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The path, in a result, to the position that the next call gets as `input` in place of an instant; `None` if the list begins at
    /// instants. Beside it a result may have `more`, true if the list goes on, and `problem`, the reason for which the action could not
    /// go on from the position that it got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
}

/// An event that the other application sends to a webhook, after a subscription.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscribedEvent {
    /// The full name of the action that subscribes.
    pub subscribe: String,
    /// Its constant inputs.
    pub with: Map,
    /// Its input for our webhook address.
    pub url: String,
    /// Its input for the secret that authenticates the sender; `None` if Cogwork does not make the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The input of the connection with the secret that authenticates the sender; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify_secret: Option<String>,
    /// The path in its result to the secret that authenticates the sender; `None` if the application does not give one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_from: Option<String>,
    /// The path to the id of the subscription in its result.
    pub id: String,
    /// The full name of the action that cancels the subscription.
    pub unsubscribe: String,
    /// Its input for the id of the subscription; `None` if the application has one subscription only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_input: Option<String>,
    /// The listing of existing subscriptions; `None` if the application cannot list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<Box<SubscriptionListing>>,
    /// The renewal of a subscription that ends by itself; `None` if it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew: Option<Box<SubscriptionRenewal>>,
    /// The signature preset that verifies requests.
    pub verify: String,
    /// The challenge preset that answers the questions of the application before its first event; `None` if it asks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<String>,
    /// The header, in lower case, with the delivery id, which is the same when a delivery is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// The path to the delivery id in the body, if no header has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_path: Option<String>,
    /// The header, in lower case, and the value that select requests of this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<(String, String)>,
}

/// The renewal of subscriptions that end by themselves.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionRenewal {
    /// The full name of the action that renews.
    pub action: String,
    /// Its constant inputs.
    pub with: Map,
    /// Its input for the id of the subscription; `None` if the application has one subscription only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_input: Option<String>,
    /// The input, of the actions that subscribe and renew, for the end of the subscription; `None` if the application chooses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The time from a call to the end.
    #[serde(serialize_with = "seconds")]
    pub lasts: Duration,
    /// The path, in the results of both actions, to the end; `None` if it is `lasts` after the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The time before the end at which the subscription is renewed.
    #[serde(serialize_with = "seconds")]
    pub before: Duration,
}

impl SubscriptionRenewal {
    /// Returns the inputs of a call at `now` that ask for the end of the subscription.
    #[must_use]
    pub fn inputs(&self, now: Timestamp) -> Map {
        let end = now.saturating_add(self.lasts).unwrap_or(Timestamp::MAX);
        self.until.iter().map(|name| (name.as_str(), Value::from(end.to_string()))).collect()
    }

    /// Returns the time of the next renewal after a call at `now` with this result. It is at least a minute away, also if the
    /// application gives a shorter life.
    #[must_use]
    pub fn next_at(&self, result: &Value, now: Timestamp) -> Timestamp {
        let stated = self.expires.as_ref().and_then(|path| instant(&value_at_path(result, path)?));
        let end = stated.map(Instant::to_timestamp);
        let after = |time: Duration| now.saturating_add(time).unwrap_or(Timestamp::MAX);
        let due = end.unwrap_or_else(|| after(self.lasts)).saturating_sub(self.before);
        due.unwrap_or(now).max(after(MIN_RENEWAL))
    }
}

/// The shortest time between two renewals of a subscription.
const MIN_RENEWAL: Duration = Duration::from_secs(60);

/// The listing of subscriptions that exist in another application.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionListing {
    /// The full name of the listing action.
    pub action: String,
    /// Its constant inputs.
    pub with: Map,
    /// Its input for the cursor of the next page; `None` if the list has no pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The path to the list in the result of the action.
    pub items: String,
    /// The path to the webhook address in each entry.
    pub url: String,
}

/// A record found by a poll.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The unique key.
    pub key: String,
    /// The time of the event by the other application's clock.
    pub at: Timestamp,
    /// The payload of the execution: `changeType` and `record`.
    pub value: Value,
}

impl PolledEvent {
    /// Returns the records in the result of the action, in its order, and the problem of each record that was left out because it has
    /// no usable time. A record without an id has its complete content as its key.
    ///
    /// # Errors
    /// Returns a message if the result, or each of its records, does not have the form that the manifest declares.
    pub fn records(&self, result: &Value) -> Result<(Vec<Record>, Vec<String>), String> {
        let list = value_at_path(result, &self.items);
        let list = list.as_ref().and_then(Value::as_list);
        let list = list.ok_or_else(|| format!("`{}` gave no list at `{}`", self.action, self.items))?;
        let (mut records, mut problems) = (Vec::with_capacity(list.len()), Vec::new());
        for record in list {
            match self.record(record) {
                Ok(record) => records.push(record),
                Err(problem) => problems.push(problem),
            }
        }
        match problems.first() {
            Some(first) if records.is_empty() => Err(first.clone()),
            _ => Ok((records, problems)),
        }
    }

    fn record(&self, record: &Value) -> Result<Record, String> {
        let missing = |path: &str| format!("`{}` gave a record without `{path}`", self.action);
        let parts = self.id.iter().map(|path| {
            let part = value_at_path(record, path).filter(|part| !part.is_null());
            part.map(|part| part.to_text())
        });
        let key = parts.collect::<Option<Vec<_>>>().map_or_else(|| record.to_json(), |parts| parts.join("/"));
        let at = value_at_path(record, &self.time).ok_or_else(|| missing(&self.time))?;
        let at = instant(&at).map(Instant::to_timestamp).ok_or_else(|| {
            format!("`{}` gave a record whose `{}` is no instant: `{}`", self.action, self.time, at.to_text())
        })?;
        let is_new = self
            .created
            .as_ref()
            .is_none_or(|(path, value)| value_at_path(record, path).as_ref() == Some(value));
        let change = if is_new { "created" } else { "updated" };
        let part = self.record.as_ref().and_then(|path| value_at_path(record, path));
        let record = part.unwrap_or_else(|| record.clone());
        let value = Map::from_iter([("changeType", Value::from(change)), ("record", record)]);
        Ok(Record { key, at, value: Value::from(value) })
    }
}

/// Returns the instant of a time: RFC 3339, seconds since 1970, or the same with a fraction in a text.
fn instant(at: &Value) -> Option<Instant> {
    Instant::from_value(at).or_else(|| {
        let text = at.as_str()?;
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let elapsed = SignedDuration::try_from_secs_f64(text.parse().ok().filter(|_| is_decimal)?).ok()?;
        Instant::from_epoch(elapsed)
    })
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text::units::format_duration(*duration))
}

#[cfg(test)]
mod tests {
    use value::JsonLimits;

    use super::*;

    fn event() -> PolledEvent {
        PolledEvent {
            action: "wiki.listPages".to_owned(),
            with: Map::new(),
            cursor: None,
            items: "results".to_owned(),
            id: vec!["id".to_owned(), "version.number".to_owned()],
            time: "version.createdAt".to_owned(),
            record: None,
            since: None,
            created: Some(("version.number".to_owned(), Value::from(1))),
            wake: None,
            every: Duration::from_secs(300),
            overlap: Duration::from_secs(60),
        }
    }

    fn check(json: &str, expected: &str) {
        let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
        let found = event().records(&value).map(|(records, _)| {
            let words = records.iter().map(|one| format!("{} {} {}", one.key, one.at, one.value.to_json()));
            words.collect::<Vec<_>>().join("; ")
        });
        assert_eq!(found.unwrap_or_else(|error| error), expected);
    }

    #[test]
    fn a_record_is_keyed_by_id_and_version_and_marked_created_or_updated() {
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
    fn a_time_may_be_seconds_since_1970() {
        for (time, expected) in [
            ("1700000000", "2023-11-14T22:13:20Z"),
            ("\"1700000000\"", "2023-11-14T22:13:20Z"),
            ("\"1700000000.5\"", "2023-11-14T22:13:20.5Z"),
        ] {
            let text = format!(r#"{{"results":[{{"id":"7","version":{{"number":1,"createdAt":{time}}}}}]}}"#);
            let value = Value::from_json(text.as_bytes(), JsonLimits::default()).expect("JSON");
            let (records, problems) = event().records(&value).expect("records");
            assert_eq!((records[0].at.to_string().as_str(), problems.len()), (expected, 0));
        }
    }

    #[test]
    fn a_record_without_an_id_or_timestamp_does_not_block_the_others() {
        let text = r#"{"results":[{"version":{"number":1,"createdAt":"2026-03-02T08:00:00.123456789012Z"}},{"id":"8"}]}"#;
        let value = Value::from_json(text.as_bytes(), JsonLimits::default()).expect("JSON");
        let (records, problems) = event().records(&value).expect("records");
        let keys: Vec<&str> = records.iter().map(|record| record.key.as_str()).collect();
        assert_eq!(keys, [r#"{"version":{"number":1,"createdAt":"2026-03-02T08:00:00.123456789012Z"}}"#]);
        assert_eq!(problems, ["`wiki.listPages` gave a record without `version.createdAt`"]);
    }

    #[test]
    fn a_response_of_an_unexpected_shape_is_reported() {
        check("{}", "`wiki.listPages` gave no list at `results`");
        check(r#"{"results":[{}]}"#, "`wiki.listPages` gave a record without `version.createdAt`");
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
