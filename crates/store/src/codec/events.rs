//! Encoding of events as a JSON list. Frequent events use a compact array; all others use the public JSON form.
//!
//! ```text
//! [at, tookUs, step, result]   a step succeeded
//! [at, result]                 the execution succeeded
//! [at, call, step]             a step made a call: "GET https://…", or the id of the execution that it started
//! {"event": …}                 anything else
//! ```
//! Times in the short forms are nanoseconds since the Unix epoch.

use std::fmt;

use jiff::Timestamp;
use model::execution::CallRecord;
use model::{Event, Outcome, StepOutcome};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use value::Value;

/// Encodes a list of events.
pub struct EncodedEvents<I>(pub I);

/// A decoded event.
pub(super) struct DecodedEvent(pub Event);

/// Decodes a list of events.
pub fn decode_events(text: &str) -> serde_json::Result<Vec<Event>> {
    let events: Vec<DecodedEvent> = serde_json::from_str(text)?;
    Ok(events.into_iter().map(|DecodedEvent(event)| event).collect())
}

/// Encodes one event.
pub(super) struct EncodedEvent<'event>(pub(super) &'event Event);

/// A time: nanoseconds since the epoch, or text if they do not fit into 64 bits.
pub(super) struct Nanoseconds(pub(super) Timestamp);

impl Serialize for Nanoseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match nanoseconds(self.0) {
            Some(at) => at.serialize(serializer),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Nanoseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(i64),
            Text(Timestamp),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(at) => Timestamp::from_nanosecond(at.into()).map(Self).map_err(D::Error::custom),
            Either::Text(at) => Ok(Self(at)),
        }
    }
}

impl<'event, I: Iterator<Item = &'event Event> + Clone> Serialize for EncodedEvents<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone().map(EncodedEvent))
    }
}

impl Serialize for EncodedEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Event::StepFinished { at, step, took_us, outcome: StepOutcome::Succeeded { result } }
                if let Some(at) = nanoseconds(*at)
                    && i64::try_from(*took_us).is_ok() =>
            {
                (at, took_us, step, result).serialize(serializer)
            }
            Event::Finished { at, outcome: Outcome::Succeeded { result } }
                if let Some(at) = nanoseconds(*at) =>
            {
                (at, result).serialize(serializer)
            }
            Event::StepCalled { at, step, call } if let Some(at) = nanoseconds(*at) => match call {
                CallRecord::Request { method, url } => {
                    (at, format_args!("{method} {url}"), step).serialize(serializer)
                }
                CallRecord::Execution { id } => (at, id, step).serialize(serializer),
            },
            other => other.serialize(serializer),
        }
    }
}

/// Decodes the short form of a call. Only a request contains a blank.
fn called(text: &str) -> Option<CallRecord> {
    match text.split_once(' ') {
        Some((method, url)) => Some(CallRecord::Request { method: method.to_owned(), url: url.to_owned() }),
        None => text.parse().ok().map(|id| CallRecord::Execution { id }),
    }
}

/// Converts to nanoseconds since the epoch; `None` for times that do not fit, before 1678 or after 2261.
fn nanoseconds(at: Timestamp) -> Option<i64> {
    i64::try_from(at.as_nanosecond()).ok()
}

impl<'de> Deserialize<'de> for DecodedEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EventVisitor).map(Self)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Event, A::Error> {
        Event::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Event, A::Error> {
        let missing = || A::Error::custom("an event breaks off");
        let at: i64 = list.next_element()?.ok_or_else(missing)?;
        let at = Timestamp::from_nanosecond(at.into()).map_err(A::Error::custom)?;
        let second: Value = list.next_element()?.ok_or_else(missing)?;
        let Some(step) = list.next_element()? else {
            return Ok(Event::Finished { at, outcome: Outcome::Succeeded { result: second } });
        };
        if let Some(text) = second.as_str() {
            let call = called(text)
                .ok_or_else(|| A::Error::custom("a call is neither a request nor an execution"))?;
            return Ok(Event::StepCalled { at, step, call });
        }
        let took_us = second.as_i64().and_then(|took| u64::try_from(took).ok());
        let took_us = took_us.ok_or_else(|| A::Error::custom("the time that a step took is no number"))?;
        let result = list.next_element()?.ok_or_else(missing)?;
        Ok(Event::StepFinished { at, step, took_us, outcome: StepOutcome::Succeeded { result } })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use model::action::{ActionError, ErrorKind};
    use model::execution::DelayReason;
    use proptest::prelude::*;

    use super::*;

    fn written(event: &Event) -> String {
        serde_json::to_string(&EncodedEvents(std::iter::once(event))).expect("it is JSON")
    }

    fn read(text: &str) -> Vec<Event> {
        let stored: Vec<DecodedEvent> = serde_json::from_str(text).expect("it was written so");
        stored.into_iter().map(|DecodedEvent(event)| event).collect()
    }

    pub(in super::super) fn time() -> impl Strategy<Value = Timestamp> {
        (Timestamp::MIN.as_nanosecond()..=Timestamp::MAX.as_nanosecond())
            .prop_map(|at| Timestamp::from_nanosecond(at).expect("it is in range"))
    }

    pub(in super::super) fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z$]{1,4}", inner, 0..4)
                    .prop_map(|map| Value::from(map.into_iter().collect::<value::Map>())),
            ]
        })
    }

    fn call() -> impl Strategy<Value = CallRecord> {
        prop_oneof![
            ("[A-Z]{1,7}", "https://[a-z]{1,5}(/[a-z %]{0,5})?")
                .prop_map(|(method, url)| CallRecord::Request { method, url }),
            any::<[u8; 16]>()
                .prop_map(|bytes| CallRecord::Execution { id: model::ExecutionId::from_bytes(bytes) }),
        ]
    }

    fn delay() -> impl Strategy<Value = DelayReason> {
        let holder = any::<[u8; 16]>().prop_map(model::ExecutionId::from_bytes);
        prop_oneof![
            Just(DelayReason::Slot),
            Just(DelayReason::Memory),
            Just(DelayReason::Commit),
            "[a-z.]{1,9}".prop_map(|host| DelayReason::Host { host }),
            (".{0,5}", proptest::option::of(holder))
                .prop_map(|(key, holder)| DelayReason::Permit { key, holder }),
        ]
    }

    pub(in super::super) fn event() -> impl Strategy<Value = Event> {
        let error = || ActionError::new(ErrorKind::Failed, "no");
        prop_oneof![
            (time(), "[a-z]{1,5}(\\[[0-9]\\])?", any::<u64>(), value()).prop_map(
                |(at, step, took_us, result)| {
                    Event::StepFinished { at, step, took_us, outcome: StepOutcome::Succeeded { result } }
                }
            ),
            (time(), value())
                .prop_map(|(at, result)| Event::Finished { at, outcome: Outcome::Succeeded { result } }),
            time().prop_map(move |at| Event::Finished { at, outcome: Outcome::Failed { error: error() } }),
            (time(), any::<u64>()).prop_map(|(at, took_us)| {
                Event::StepFinished { at, step: "a".to_owned(), took_us, outcome: StepOutcome::Skipped }
            }),
            (time(), proptest::option::of(value())).prop_map(move |(at, handled)| {
                let outcome = StepOutcome::Failed { error: error(), handled };
                Event::StepFinished { at, step: "a".to_owned(), took_us: 1, outcome }
            }),
            (time(), "[a-z]{1,5}").prop_map(|(at, step)| Event::StepStarted { at, step, attempt: 1 }),
            (time(), "[a-z]{1,5}", value()).prop_map(|(at, step, result)| {
                Event::StepClosing {
                    at,
                    step,
                    outcome: StepOutcome::Jumped { by: model::execution::Jump::Cut, result },
                }
            }),
            (time(), any::<bool>()).prop_map(|(at, waited)| Event::Resumed { at, waited }),
            (time(), "[a-z]{1,5}", call()).prop_map(|(at, step, call)| Event::StepCalled { at, step, call }),
            (time(), proptest::option::of("[a-z]{1,5}"), delay(), any::<u64>())
                .prop_map(|(at, step, reason, ms)| Event::Waited { at, step, reason, ms }),
            (time(), any::<u16>()).prop_map(|(at, status)| Event::Answered { at, status }),
        ]
    }

    proptest! {
        #[test]
        fn events_round_trip_through_their_encoding(events in proptest::collection::vec(event(), 0..5)) {
            let text = serde_json::to_string(&EncodedEvents(events.iter())).expect("it is JSON");
            prop_assert_eq!(read(&text), events);
        }

        #[test]
        fn no_stored_text_makes_the_decoder_panic(text in "[\\[\\]{}:,\"0-9a-e\\- ]{0,40}") {
            let _ = serde_json::from_str::<Vec<DecodedEvent>>(&format!("[{text}]"));
        }
    }

    #[test]
    fn frequent_events_have_a_compact_encoding() {
        let at = Timestamp::from_second(1).expect("a time");
        let result = Value::from(7);
        let step = Event::StepFinished {
            at,
            step: "total".to_owned(),
            took_us: 5,
            outcome: StepOutcome::Succeeded { result: result.clone() },
        };
        assert_eq!(written(&step), r#"[[1000000000,5,"total",7]]"#);
        let end = Event::Finished { at, outcome: Outcome::Succeeded { result } };
        assert_eq!(written(&end), "[[1000000000,7]]");
        let call = CallRecord::Request { method: "GET".to_owned(), url: "https://a/b".to_owned() };
        let called = Event::StepCalled { at, step: "total".to_owned(), call };
        assert_eq!(written(&called), r#"[[1000000000,"GET https://a/b","total"]]"#);
    }
}
