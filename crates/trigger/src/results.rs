//! `trigger.results`, the data of a trigger that steps read.

use model::engine_event::EngineEventName;
use model::{EmittedEvent, Payload, Trigger};
use value::{Map, Value};

use crate::{Rejection, webhook};

/// Computes `trigger.results` of a payload. The result depends on the payload only, so it is not stored.
///
/// Every kind has `body.data`, so that an Automation can be started manually with the data of a request:
/// [`webhook::results`] describes that of a webhook; a schedule's is `null`, in addition to `scheduledAt`, `startedAt` (RFC 3339,
/// UTC) and `timezone`; a poll's is the new item, in addition to `polledAt`; an own event's are its data, in addition to
/// `event` (`name`, `id`, `sentAt`, `by`); an event of the engine has its members there too; a manual start's are the inputs, also in `inputs`.
///
/// # Errors
/// Returns an error only for a webhook with an unreadable body; [`webhook::receive`] rejects such a request before it is stored.
pub fn results(payload: &Payload) -> Result<Value, Rejection> {
    if let Some(results) = payload.code_result().and_then(|decided| decided.results.as_ref()) {
        return Ok(results.clone());
    }
    match payload {
        Payload::Webhook(request) => webhook::results(request),
        Payload::Schedule { scheduled_at, started_at, timezone } => Ok(map([
            ("scheduledAt", Value::from(scheduled_at.to_string())),
            ("startedAt", Value::from(started_at.to_string())),
            ("timezone", Value::from(timezone.as_str())),
            ("body", map([("data", Value::Null)])),
        ])),
        Payload::Poll { data, polled_at } => Ok(map([
            ("body", map([("data", data.clone())])),
            ("polledAt", Value::from(polled_at.to_string())),
        ])),
        Payload::Emitted(event) => Ok(emitted(event)),
        Payload::Manual { inputs } => {
            let inputs = Value::from(inputs.clone());
            Ok(map([("body", map([("data", inputs.clone())])), ("inputs", inputs)]))
        }
    }
}

/// Computes the results of an own event, or of an event of the engine, whose members are also beside `body`.
fn emitted(emitted: &EmittedEvent) -> Value {
    let EmittedEvent { event, id, sent_at, by, data } = emitted;
    let sent = map([
        ("name", Value::from(event.as_str())),
        ("id", Value::from(id.as_str())),
        ("sentAt", Value::from(sent_at.to_string())),
        ("by", by.as_deref().map(Value::from).unwrap_or_default()),
    ]);
    let is_of_engine = EngineEventName::find(event).is_some();
    let members = data.as_map().filter(|_| is_of_engine).cloned().unwrap_or_default();
    let own = [("body", map([("data", data.clone())])), ("event", sent)];
    let own = own.into_iter().map(|(name, value)| (name.into(), value));
    Value::from(members.into_iter().chain(own).collect::<Map>())
}

/// The members of `trigger.results` of one trigger kind.
struct Members {
    names: &'static [&'static str],
    /// The members of `body`.
    body: &'static [&'static str],
}

const WEBHOOK: Members = Members {
    names: &["body", "rawBody", "headers", "pathFragment", "queryParameters", "rawQuery", "method"],
    body: &["data", "contentType"],
};
const SCHEDULE: Members =
    Members { names: &["scheduledAt", "startedAt", "timezone", "body"], body: &["data"] };
const POLL: Members = Members { names: &["body", "polledAt"], body: &["data"] };
/// Members of both forms: the connector determines if an event is received or polled.
const EVENT: Members = Members {
    names: &["body", "polledAt", "rawBody", "headers", "pathFragment", "queryParameters", "method"],
    body: &["data", "contentType"],
};
const OWN: Members = Members { names: &["body", "event"], body: &["data"] };
const ENGINE: Members = Members { names: model::engine_event::RESULTS, body: &["data"] };
const MANUAL: Members = Members { names: &["body", "inputs"], body: &["data"] };

fn members(trigger: &Trigger) -> &'static Members {
    match trigger {
        Trigger::Webhook(_) => &WEBHOOK,
        Trigger::Schedule(_) => &SCHEDULE,
        Trigger::Event(_) if EngineEventName::of(trigger).is_some() => &ENGINE,
        Trigger::Event(_) => &EVENT,
        Trigger::Own(_) => &OWN,
        Trigger::Poll(_) => &POLL,
        Trigger::Manual => &MANUAL,
    }
}

/// Returns the members of `trigger.results` that executions of this trigger may have.
#[must_use]
pub fn result_names(trigger: &Trigger) -> &'static [&'static str] {
    members(trigger).names
}

/// Returns the members of `trigger.results.body` that executions of this trigger may have.
#[must_use]
pub fn body_names(trigger: &Trigger) -> &'static [&'static str] {
    members(trigger).body
}

/// Returns the first trigger kind whose results have this member.
#[must_use]
pub fn kind_with_result(name: &str) -> Option<&'static str> {
    let kinds = [("webhook", &WEBHOOK), ("schedule", &SCHEDULE), ("poll", &POLL), ("manual", &MANUAL)];
    kinds.into_iter().find(|(_, members)| members.names.contains(&name)).map(|(kind, _)| kind)
}

fn map<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::from(entries.into_iter().collect::<Map>())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(payload: &Payload, expected: &str) {
        assert_eq!(results(payload).map(|value| value.to_json()), Ok(expected.to_owned()));
    }

    #[test]
    fn the_results_of_a_schedule_are_its_instants_and_time_zone() {
        let payload = Payload::Schedule {
            scheduled_at: "2026-03-29T01:00:00Z".parse().expect("an instant"),
            started_at: "2026-03-29T01:00:00.25Z".parse().expect("an instant"),
            timezone: "Europe/Berlin".into(),
        };
        let expected = concat!(
            r#"{"scheduledAt":"2026-03-29T01:00:00Z","startedAt":"2026-03-29T01:00:00.25Z","#,
            r#""timezone":"Europe/Berlin","body":{"data":null}}"#
        );
        check(&payload, expected);
    }

    #[test]
    fn the_results_of_a_poll_are_the_new_item_and_its_time() {
        let payload = Payload::Poll {
            data: Value::from(Map::from_iter([("id", "17")])),
            polled_at: "2026-03-29T01:00:00Z".parse().expect("an instant"),
        };
        check(&payload, r#"{"body":{"data":{"id":"17"}},"polledAt":"2026-03-29T01:00:00Z"}"#);
    }

    #[test]
    fn the_results_of_an_engine_event_are_its_members_and_its_data() {
        let event = EmittedEvent {
            event: "cogwork.failure".to_owned(),
            id: "1".to_owned(),
            sent_at: "2026-03-29T01:00:00Z".parse().expect("an instant"),
            by: None,
            data: Value::from(Map::from_iter([("title", "gone")])),
        };
        let sent = r#""id":"1","sentAt":"2026-03-29T01:00:00Z","by":null}"#;
        check(
            &Payload::Emitted(event.clone()),
            &format!(
                r#"{{"title":"gone","body":{{"data":{{"title":"gone"}}}},"event":{{"name":"cogwork.failure",{sent}}}"#
            ),
        );
        let own = Payload::Emitted(EmittedEvent { event: "order.failure".to_owned(), ..event });
        let own = results(&own).map(|value| value.get("title"));
        assert_eq!(own, Ok(None));
    }

    #[test]
    fn the_results_of_a_manual_start_have_its_inputs_under_both_names() {
        let inputs: Map = [("spaceId", "65538")].into_iter().collect();
        let expected = r#"{"body":{"data":{"spaceId":"65538"}},"inputs":{"spaceId":"65538"}}"#;
        check(&Payload::manual(inputs), expected);
    }
}
