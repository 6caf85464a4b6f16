//! Deduplication of requests: by the sender's id, the signed content, or a caller's `Idempotency-Key`.

use std::time::Duration;

use model::automation::{DedupBy, RequestField, TriggerId, WebhookTrigger};
use model::payload::WebhookPayload;
use ring::digest::{Context, SHA256};
use value::{Map, Value};

use crate::rejection::Rejection;
use crate::webhook::ReceivedRequest;

/// The header that identifies a retried request (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Its maximum length in bytes.
const MAX_KEY: usize = 255;
/// The time for which the daemon remembers a caller's key (guarantee G15).
const KEY_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// The deduplication key of a request. Within the window, a request with the same key is a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupKey {
    /// A hash of the identifying part of the request.
    pub key: [u8; 32],
    /// A hash of the whole request, if reusing the key for a different request is an error.
    pub content: Option<[u8; 32]>,
    /// The time for which the key is remembered.
    pub window: Duration,
}

/// The address that a request came to.
#[derive(Clone, Copy, Debug)]
pub struct DedupScope<'a> {
    /// The trigger.
    pub trigger: &'a TriggerId,
    /// True for its test address.
    pub is_test: bool,
}

/// The deduplication keys of a request: that of the caller's `Idempotency-Key`, then that of the trigger's `dedup`. `signed` is
/// a hash of the signed content. The keys of each scope are separate. A request without an id has no key.
///
/// # Errors
/// 400 if the caller's key is empty or too long.
pub fn dedup_keys(
    trigger: &WebhookTrigger,
    received: &ReceivedRequest,
    signed: Option<[u8; 32]>,
    scope: DedupScope<'_>,
) -> Result<Vec<DedupKey>, Rejection> {
    let mut keys = Vec::new();
    let address = if scope.is_test { "test" } else { "live" };
    // The keys of the trigger `main` are as in release 0.1.0.
    let scope =
        if scope.trigger.is_main() { address.to_owned() } else { format!("{address}#{}", scope.trigger) };
    let scope = scope.as_str();
    if let Some(key) = received.payload.headers.get(IDEMPOTENCY_KEY) {
        if key.is_empty() || key.len() > MAX_KEY {
            let message = format!("`Idempotency-Key` must have 1 to {MAX_KEY} bytes");
            return Err(Rejection::bad_request("bad_idempotency_key", message));
        }
        let content = Some(content(&received.payload));
        keys.push(DedupKey { key: hash(&[scope, "key", key]), content, window: KEY_WINDOW });
    }
    if let Some(dedup) = &trigger.dedup {
        let key = match &dedup.by {
            DedupBy::Signed => signed.map(|signed| hash_parts(&[scope.as_bytes(), b"signed", &signed])),
            DedupBy::Field(at) => text_at(at, received).map(|id| hash(&[scope, "id", &id])),
        };
        keys.extend(key.map(|key| DedupKey { key, content: None, window: dedup.window }));
    }
    Ok(keys)
}

/// The id at a location: a non-empty text, a number or a boolean.
fn text_at(place: &RequestField, received: &ReceivedRequest) -> Option<String> {
    let value = match place {
        RequestField::Header(name) => {
            received.payload.headers.get(name.as_ref()).map(|text| Value::from(text.as_str()))
        }
        RequestField::Query(name) => received.payload.query_parameters.get(name).cloned(),
        RequestField::Body(pointer) => resolve_pointer(&received.results.path("body.data")?, pointer),
    };
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.to_string()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_text()),
        _ => None,
    }
}

/// Resolves a JSON Pointer (RFC 6901).
fn resolve_pointer(value: &Value, pointer: &str) -> Option<Value> {
    pointer.split('/').skip(1).try_fold(value.clone(), |value, part| {
        let name = part.replace("~1", "/").replace("~0", "~");
        match &value {
            Value::Map(map) => Map::get(map, &name).cloned(),
            Value::List(_) => value.at(name.parse().ok()?).cloned(),
            _ => None,
        }
    })
}

/// A hash of all parts of a request.
fn content(payload: &WebhookPayload) -> [u8; 32] {
    hash_parts(&[
        payload.method.as_bytes(),
        payload.path_fragment.as_bytes(),
        payload.raw_query.as_bytes(),
        payload.body.content_type.as_bytes(),
        // The digest of an external body is recorded, so the body is not read again.
        &payload.body.data.digest(),
    ])
}

fn hash(parts: &[&str]) -> [u8; 32] {
    hash_parts(&parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>())
}

/// A hash of the parts, each prefixed with its length, so that moving a boundary between parts changes the hash.
fn hash_parts(parts: &[&[u8]]) -> [u8; 32] {
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

    const LIVE: DedupScope<'_> = DedupScope { trigger: &TriggerId::MAIN, is_test: false };

    use model::automation::Dedup;

    use super::*;
    use crate::webhook::{Request, receive, test_support};

    fn by(by: Option<DedupBy>) -> WebhookTrigger {
        let window = Duration::from_secs(60);
        WebhookTrigger { dedup: by.map(|by| Dedup { by, window }), ..test_support::trigger() }
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

    fn keys_of(trigger: &WebhookTrigger, request: Request, signed: Option<u8>) -> Vec<DedupKey> {
        let received = receive(trigger, request).expect("it is taken");
        dedup_keys(trigger, &received, signed.map(|byte| [byte; 32]), LIVE).expect("it has names")
    }

    #[test]
    fn requests_with_the_same_id_have_the_same_key() {
        let pointer = by(Some(DedupBy::Field(RequestField::Body(Cow::Borrowed("/event/0/id")))));
        let name = |body: &str| keys_of(&pointer, json(body, &[]), None).first().map(|sending| sending.key);
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
        let header = by(Some(DedupBy::Field(RequestField::Header(Cow::Borrowed("x-id")))));
        let name =
            |id: &str| keys_of(&header, json("{}", &[("X-Id", id)]), None).first().map(|sending| sending.key);
        assert_eq!((name("1"), name("")), (name("1"), None));
        assert_ne!(name("1"), name("2"));
    }

    #[test]
    fn equal_signed_content_has_the_same_key_per_address() {
        let signed = by(Some(DedupBy::Signed));
        let name = |hash| keys_of(&signed, json("{}", &[]), hash).first().map(|sending| sending.key);
        assert_eq!(name(Some(1)), name(Some(1)));
        assert_ne!(name(Some(1)), name(Some(2)));
        assert_eq!(name(None), None);
        let received = receive(&signed, json("{}", &[])).expect("it is taken");
        let [live, test] = [false, true].map(|test| {
            dedup_keys(&signed, &received, Some([1; 32]), DedupScope { is_test: test, ..LIVE })
                .expect("named")
        });
        assert_ne!(live, test);
    }

    #[test]
    fn an_idempotency_key_is_bound_to_one_request_content() {
        let plain = by(None);
        let name = |body: &str, key: &str| keys_of(&plain, json(body, &[("Idempotency-Key", key)]), None)[0];
        let (first, again, other) = (name("{}", "k"), name("{}", "k"), name("[]", "k"));
        assert_eq!(first, again);
        assert_eq!(first.key, other.key);
        assert_ne!(first.content, other.content);
        assert_ne!(first.key, name("{}", "l").key);
        assert!(keys_of(&plain, json("{}", &[]), None).is_empty());
        assert_eq!(keys_of(&plain, json("{}", &[("Idempotency-Key", &"k".repeat(255))]), None).len(), 1);
        let received = receive(&plain, json("{}", &[("Idempotency-Key", &"k".repeat(256))])).expect("taken");
        let refused = dedup_keys(&plain, &received, None, LIVE).expect_err("it is too long");
        assert_eq!((refused.status, refused.code), (400, "bad_idempotency_key"));
    }
}
