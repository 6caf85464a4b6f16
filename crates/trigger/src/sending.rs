//! What tells that the same was sent before: the sender's own id, all that it signed, or a caller's `Idempotency-Key`.

use std::time::Duration;

use model::automation::{DedupBy, RequestPlace, WebhookTrigger};
use model::payload::WebhookPayload;
use model::{Map, Value};
use ring::digest::{Context, SHA256};

use crate::rejection::Rejection;
use crate::webhook::Received;

/// The header with which a caller says that it sends the same again (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The most bytes of it.
const MAX_KEY: usize = 255;
/// How long a caller's key is remembered (guarantee G15).
const KEY_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// A name for what was sent. Another sending with the same key, within the window, is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// A hash of what it has in common with others of its kind.
    pub key: [u8; 32],
    /// A hash of all of it, where the same key must not stand for something else.
    pub content: Option<[u8; 32]>,
    /// How long it is remembered.
    pub window: Duration,
}

/// The names of a request: by its caller's key, then by the trigger's `dedup`. `signed` is a hash of what its signature is over, and
/// `test` whether it came to the test address, whose sendings are others. A request without an id has no name.
///
/// # Errors
/// 400 for a caller's key that is empty or too long.
pub fn names(
    trigger: &WebhookTrigger,
    received: &Received,
    signed: Option<[u8; 32]>,
    test: bool,
) -> Result<Vec<Sending>, Rejection> {
    let mut names = Vec::new();
    let place = if test { "test" } else { "live" };
    if let Some(key) = received.payload.headers.get(IDEMPOTENCY_KEY) {
        if key.is_empty() || key.len() > MAX_KEY {
            let message = format!("`Idempotency-Key` must have 1 to {MAX_KEY} bytes");
            return Err(Rejection::bad_request("bad_idempotency_key", message));
        }
        let content = Some(content(&received.payload));
        names.push(Sending { key: hash(&[place, "key", key]), content, window: KEY_WINDOW });
    }
    if let Some(dedup) = &trigger.dedup {
        let key = match &dedup.by {
            DedupBy::Signed => signed.map(|signed| hash_of(&[place.as_bytes(), b"signed", &signed])),
            DedupBy::Place(at) => text_at(at, received).map(|id| hash(&[place, "id", &id])),
        };
        names.extend(key.map(|key| Sending { key, content: None, window: dedup.window }));
    }
    Ok(names)
}

/// The id at a place: a text, a number or a truth value that is not empty.
fn text_at(place: &RequestPlace, received: &Received) -> Option<String> {
    let value = match place {
        RequestPlace::Header(name) => {
            received.payload.headers.get(name.as_ref()).map(|text| Value::from(text.as_str()))
        }
        RequestPlace::Query(name) => received.payload.query_parameters.get(name).cloned(),
        RequestPlace::Body(pointer) => pointed(&received.results.path("body.data")?, pointer),
    };
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.to_string()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_text()),
        _ => None,
    }
}

/// Where a JSON Pointer (RFC 6901) leads.
fn pointed(value: &Value, pointer: &str) -> Option<Value> {
    pointer.split('/').skip(1).try_fold(value.clone(), |value, part| {
        let name = part.replace("~1", "/").replace("~0", "~");
        match &value {
            Value::Map(map) => Map::get(map, &name).cloned(),
            Value::List(_) => value.at(name.parse().ok()?).cloned(),
            _ => None,
        }
    })
}

/// A hash of all that a caller said.
fn content(payload: &WebhookPayload) -> [u8; 32] {
    hash_of(&[
        payload.method.as_bytes(),
        payload.path_fragment.as_bytes(),
        payload.raw_query.as_bytes(),
        payload.body.content_type.as_bytes(),
        // A large one is not read again for it.
        &payload.body.data.digest(),
    ])
}

fn hash(parts: &[&str]) -> [u8; 32] {
    hash_of(&parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>())
}

/// A hash of these parts, each with its length, so that what one ends with is never what the next begins with.
fn hash_of(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use model::automation::Dedup;

    use super::*;
    use crate::webhook::{Request, receive, testing};

    fn by(by: Option<DedupBy>) -> WebhookTrigger {
        let window = Duration::from_secs(60);
        WebhookTrigger { dedup: by.map(|by| Dedup { by, window }), ..testing::trigger() }
    }

    fn json(body: &str, headers: &[(&str, &str)]) -> Request {
        let all = [("content-type", "application/json")].iter().chain(headers);
        Request {
            method: "POST".to_owned(),
            headers: all.map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect(),
            body: body.to_owned().into(),
            ..Request::default()
        }
    }

    fn named(trigger: &WebhookTrigger, request: Request, signed: Option<u8>) -> Vec<Sending> {
        let received = receive(trigger, request).expect("it is taken");
        names(trigger, &received, signed.map(|byte| [byte; 32]), false).expect("it has names")
    }

    #[test]
    fn what_has_the_same_id_is_the_same_whatever_else_it_says() {
        let pointer = by(Some(DedupBy::Place(RequestPlace::Body(Cow::Borrowed("/event/0/id")))));
        let name = |body: &str| named(&pointer, json(body, &[]), None).first().map(|sending| sending.key);
        let first = name(r#"{"event":[{"id":"a"}],"try":1}"#);
        assert!(first.is_some());
        assert_eq!(first, name(r#"{"try":2,"event":[{"id":"a"}]}"#));
        assert_ne!(first, name(r#"{"event":[{"id":"b"}]}"#));
        assert_eq!(name(r#"{"event":[{"id":7}]}"#), name(r#"{"event":[{"id":"7"}]}"#));
        for without in
            ["{}", r#"{"event":[{"id":""}]}"#, r#"{"event":[{"id":null}]}"#, r#"{"event":[{"id":{}}]}"#, "[]"]
        {
            assert_eq!(name(without), None, "{without}");
        }
        let header = by(Some(DedupBy::Place(RequestPlace::Header(Cow::Borrowed("x-id")))));
        let name =
            |id: &str| named(&header, json("{}", &[("X-Id", id)]), None).first().map(|sending| sending.key);
        assert_eq!((name("1"), name("")), (name("1"), None));
        assert_ne!(name("1"), name("2"));
    }

    #[test]
    fn what_is_signed_alike_is_the_same_and_the_two_addresses_never_are() {
        let signed = by(Some(DedupBy::Signed));
        let name = |hash| named(&signed, json("{}", &[]), hash).first().map(|sending| sending.key);
        assert_eq!(name(Some(1)), name(Some(1)));
        assert_ne!(name(Some(1)), name(Some(2)));
        assert_eq!(name(None), None);
        let received = receive(&signed, json("{}", &[])).expect("it is taken");
        let [live, test] =
            [false, true].map(|test| names(&signed, &received, Some([1; 32]), test).expect("named"));
        assert_ne!(live, test);
    }

    #[test]
    fn a_callers_key_stands_for_one_request_only() {
        let plain = by(None);
        let name = |body: &str, key: &str| named(&plain, json(body, &[("Idempotency-Key", key)]), None)[0];
        let (first, again, other) = (name("{}", "k"), name("{}", "k"), name("[]", "k"));
        assert_eq!(first, again);
        assert_eq!(first.key, other.key);
        assert_ne!(first.content, other.content);
        assert_ne!(first.key, name("{}", "l").key);
        assert!(named(&plain, json("{}", &[]), None).is_empty());
        let received = receive(&plain, json("{}", &[("Idempotency-Key", &"k".repeat(256))])).expect("taken");
        let refused = names(&plain, &received, None, false).expect_err("it is too long");
        assert_eq!((refused.status, refused.code), (400, "bad_idempotency_key"));
    }
}
