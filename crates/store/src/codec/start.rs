//! Encoding of the first events of an execution in the table `starts`. The text omits the columns of the execution's own
//! row, and the raw bytes of a request body are in a column beside it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use model::automation::TriggerId;
use model::payload::{TriggerCodeResult, WebhookPayload};
use model::{AutomationId, DefinitionHash, Event, Origin, Payload};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use value::{Data, File, Map};

use super::events::{DecodedEvent, EncodedEvent, Nanoseconds};

/// Encodes the first events of an execution.
pub(super) struct StartEncoder<'start> {
    at: Timestamp,
    payload: &'start Payload,
    /// The inputs beside the payload.
    inputs: Option<&'start Map>,
    /// The events after the first.
    events: &'start [Event],
    /// The request and the bytes of its body, if the body is beside the text.
    raw_body: Option<(&'start WebhookPayload, &'start Bytes)>,
}

/// The columns of an execution that belong to its first event.
pub struct StartColumns {
    /// The Automation.
    pub automation: AutomationId,
    /// Its definition.
    pub definition: DefinitionHash,
    /// The origin and the trigger, from [`super::decode_origin`].
    pub origin: (Origin, TriggerId),
}

/// A request without its body: the head, method, path fragment, query parameters, raw query, headers, content
/// type, and the decision of the trigger's code.
type RequestHead =
    (Head, String, String, Map, String, BTreeMap<String, String>, Arc<str>, Option<Box<TriggerCodeResult>>);

/// The time of acceptance, and the inputs beside the payload: the time alone, or `[time, inputs]`.
struct Head {
    at: Timestamp,
    inputs: Option<Map>,
}

/// Encodes a [`Head`].
struct EncodedHead<'start> {
    at: Timestamp,
    inputs: Option<&'start Map>,
}

impl Serialize for EncodedHead<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.inputs {
            None => Nanoseconds(self.at).serialize(serializer),
            Some(inputs) => (Nanoseconds(self.at), inputs).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Time(Nanoseconds),
            Both(Nanoseconds, Map),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Time(Nanoseconds(at)) => Self { at, inputs: None },
            Either::Both(Nanoseconds(at), inputs) => Self { at, inputs: Some(inputs) },
        })
    }
}

/// A decoded text: the first item and the later events.
struct StartText<Opening> {
    opening: Opening,
    events: Vec<Event>,
}

impl<'start> StartEncoder<'start> {
    /// Creates the encoder of an execution accepted at `at`. A request body of `large` bytes or more is part of the text.
    pub(super) fn new(
        at: Timestamp,
        payload: &'start Payload,
        inputs: Option<&'start Map>,
        events: &'start [Event],
        large: usize,
    ) -> Self {
        let body_apart = match payload {
            Payload::Webhook(request) if request.body.filename.is_none() => {
                let bytes = request.body.data.in_memory().filter(|bytes| bytes.len() < large);
                bytes.map(|bytes| (request, bytes))
            }
            _ => None,
        };
        Self { at, payload, inputs, events, raw_body: body_apart }
    }

    fn head(&self) -> EncodedHead<'start> {
        EncodedHead { at: self.at, inputs: self.inputs }
    }

    /// Returns the bytes beside the text.
    pub(super) fn raw(&self) -> Option<&'start Bytes> {
        self.raw_body.map(|(_, bytes)| bytes)
    }

    /// Returns the approximate size of the text, to allocate it at once.
    pub(super) fn size_hint(&self) -> usize {
        let opening = match (self.payload, &self.raw_body) {
            (Payload::Webhook(request), None) => {
                let body = request.body.data.in_memory().map_or(0, Bytes::len);
                512 + body + body / 4
            }
            _ => 512,
        };
        opening + 128 * self.events.len()
    }
}

impl Serialize for StartEncoder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = serializer.serialize_seq(Some(1 + self.events.len()))?;
        match self.raw_body {
            None => items.serialize_element(&(self.head(), self.payload))?,
            Some((request, _)) => {
                let WebhookPayload {
                    method,
                    path_fragment,
                    query_parameters,
                    raw_query,
                    headers,
                    body,
                    code_result,
                } = request;
                items.serialize_element(&(
                    self.head(),
                    method,
                    path_fragment,
                    query_parameters,
                    raw_query,
                    headers,
                    &body.content_type,
                    code_result,
                ))?;
            }
        }
        for event in self.events {
            items.serialize_element(&EncodedEvent(event))?;
        }
        items.end()
    }
}

/// Decodes the first events of an execution from its row in `starts` and the columns of its own row.
pub fn read(text: &str, raw: Option<&[u8]>, known: StartColumns) -> Result<Vec<Event>, serde_json::Error> {
    let (head, payload, mut later): (Head, _, _) = match raw {
        None => {
            let StartText { opening: (head, payload), events } = serde_json::from_str(text)?;
            (head, payload, events)
        }
        Some(raw) => {
            let StartText { opening, events } = serde_json::from_str::<StartText<RequestHead>>(text)?;
            let (
                head,
                method,
                path_fragment,
                query_parameters,
                raw_query,
                headers,
                content_type,
                code_result,
            ) = opening;
            let body = File { content_type, filename: None, data: Data::from(raw.to_vec()) };
            let request = WebhookPayload {
                method,
                path_fragment,
                query_parameters,
                raw_query,
                headers,
                body,
                code_result,
            };
            (head, Payload::Webhook(request), events)
        }
    };
    let StartColumns { automation, definition, origin: (origin, trigger) } = known;
    let Head { at, inputs } = head;
    let (payload, inputs) = (Arc::new(payload), inputs.map(Arc::new));
    let started = Event::Started { at, automation, definition, origin, payload, trigger, inputs };
    later.insert(0, started);
    Ok(later)
}

impl<'de, Opening: Deserialize<'de>> Deserialize<'de> for StartText<Opening> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(StartTextVisitor(PhantomData))
    }
}

struct StartTextVisitor<Opening>(PhantomData<Opening>);

impl<'de, Opening: Deserialize<'de>> Visitor<'de> for StartTextVisitor<Opening> {
    type Value = StartText<Opening>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the beginning of an execution")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let opening = list.next_element()?.ok_or_else(|| A::Error::custom("it is empty"))?;
        let mut events = Vec::new();
        while let Some(DecodedEvent(event)) = list.next_element()? {
            events.push(event);
        }
        Ok(StartText { opening, events })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    use model::EmittedEvent;

    use super::super::events::tests::{event, time, value};
    use super::*;

    fn known() -> StartColumns {
        let automation = AutomationId::parse("orders").expect("an id");
        StartColumns {
            automation,
            definition: DefinitionHash::from_bytes([7; 32]),
            origin: (Origin::Webhook, TriggerId::MAIN),
        }
    }

    fn started(at: Timestamp, payload: Payload) -> Event {
        let StartColumns { automation, definition, origin: (origin, trigger) } = known();
        let payload = Arc::new(payload);
        Event::Started { at, automation, definition, origin, payload, trigger, inputs: None }
    }

    fn map() -> impl Strategy<Value = Map> {
        btree_map("[a-z$]{0,6}", value(), 0..3).prop_map(|map| map.into_iter().collect())
    }

    fn code_results() -> impl Strategy<Value = Box<TriggerCodeResult>> {
        let results = option::of(value());
        (results, any::<bool>()).prop_map(|(results, declined)| {
            Box::new(TriggerCodeResult { results, declined, ..TriggerCodeResult::default() })
        })
    }

    fn request() -> impl Strategy<Value = Payload> {
        let body = (".{0,8}", option::weighted(0.1, "[a-z]{1,5}"), vec(any::<u8>(), 0..40));
        let body = body.prop_map(|(content_type, filename, bytes)| File {
            content_type: content_type.into(),
            filename: filename.map(Into::into),
            data: bytes.into(),
        });
        let headers = btree_map("[a-z-]{1,6}", ".{0,6}", 0..4);
        ("[A-Z]{1,5}", ".{0,6}", map(), ".{0,6}", headers, body, option::of(code_results())).prop_map(
            |(method, path_fragment, query_parameters, raw_query, headers, body, code_result)| {
                Payload::Webhook(WebhookPayload {
                    method,
                    path_fragment,
                    query_parameters,
                    raw_query,
                    headers,
                    body,
                    code_result,
                })
            },
        )
    }

    fn payload() -> impl Strategy<Value = Payload> {
        prop_oneof![
            3 => request(),
            1 => map().prop_map(Payload::manual),
            1 => (time(), value()).prop_map(|(polled_at, data)| Payload::Poll { data, polled_at }),
            1 => (time(), value(), any::<Option<String>>()).prop_map(|(sent_at, data, by)| {
                let (event, id) = ("order.paid".to_owned(), "1.send".to_owned());
                Payload::Emitted(EmittedEvent { event, id, sent_at, by, data })
            }),
        ]
    }

    proptest! {
        #[test]
        fn start_data_round_trips_through_its_encoding(
            at in time(),
            payload in payload(),
            events in vec(event(), 0..4),
            large in 0_usize..40,
        ) {
            let start = StartEncoder::new(at, &payload, None, &events, large);
            let text = serde_json::to_string(&start).expect("it is JSON");
            let raw = start.raw().map(|bytes| bytes.as_ref());
            prop_assert!(raw.is_none_or(|raw| raw.len() < large));
            let found = read(&text, raw, known()).expect("it was written so");
            let expected: Vec<Event> = [started(at, payload)].into_iter().chain(events).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_stored_text_makes_the_decoder_panic(text in "[\\[\\]{}:,\"0-9a-e\\- ]{0,40}", has_raw: bool) {
            let raw: Option<&[u8]> = has_raw.then_some(b"{}");
            let _ = read(&format!("[{text}]"), raw, known());
        }
    }

    #[test]
    fn a_request_body_is_stored_apart_from_a_compact_start_record() {
        let request = WebhookPayload {
            method: "POST".to_owned(),
            path_fragment: String::new(),
            query_parameters: Map::new(),
            raw_query: String::new(),
            headers: BTreeMap::from([("host".to_owned(), "a".to_owned())]),
            body: File {
                content_type: "application/json".into(),
                filename: None,
                data: Data::from("{\"a\":1}"),
            },
            code_result: None,
        };
        let payload = Payload::Webhook(request);
        let at = Timestamp::from_second(1).expect("a time");
        let start = StartEncoder::new(at, &payload, None, &[], 8);
        let text = serde_json::to_string(&start).expect("it is JSON");
        assert_eq!(text, r#"[[1000000000,"POST","",{},"",{"host":"a"},"application/json",null]]"#);
        assert_eq!(start.raw().map(|bytes| bytes.as_ref()), Some(&b"{\"a\":1}"[..]));
    }
}
