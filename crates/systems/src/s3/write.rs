//! `s3.put`, `s3.delete` and `s3.copy`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use connector::http::{Method, Request, Response};
use md5::{Digest as _, Md5};
use model::{ActionError, ErrorKind};
use sha2::Sha256;
use value::{Data, Key, Map, Value};

use super::bucket::{Bucket, encoded_key, result};
use super::document::{escaped, etag, items, parse, text_at};
use super::failure::Refusal;
use super::read::METADATA;
use super::spec::MAX_KEYS;
use super::{input_error, parts};
use crate::spec::content_of;

/// The size above which an object is sent in parts, in bytes.
pub(super) const MAX_WHOLE: usize = 16 << 20;
/// The metadata by which an object that a step created is known.
const MARK: &str = "cogwork-step";

/// The content that `s3.put` writes.
pub(super) struct Content {
    pub data: Data,
    media_type: String,
}

/// `s3.put`.
pub(super) async fn put(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let (key, content) = (bucket.text("key"), content(bucket)?);
    let size = i64::try_from(content.data.len()).unwrap_or(i64::MAX);
    let sent = match content.data.len() > MAX_WHOLE {
        true => parts::send(bucket, key, &content).await,
        false => whole(bucket, key, &content).await,
    };
    let (etag, version, is_repeated) = match sent {
        Ok((etag, version)) => (etag, version, false),
        Err(error) if bucket.flag("create") && error.code.as_deref() == Some("PreconditionFailed") => {
            let (etag, version) = created_before(bucket, key, error).await?;
            (etag, version, true)
        }
        Err(error) => return Err(error),
    };
    Ok(result([
        ("key", Value::from(key)),
        ("etag", Value::from(etag)),
        ("version", version),
        ("size", Value::from(size)),
        ("repeated", Value::from(is_repeated)),
    ]))
}

fn content(bucket: &Bucket<'_>) -> Result<Content, ActionError> {
    let file = content_of(bucket.call.inputs, "content")?;
    let own = bucket.text("contentType");
    let media_type = if own.is_empty() { file.content_type.to_string() } else { own.to_owned() };
    Ok(Content { data: file.data, media_type })
}

async fn whole(bucket: &Bucket<'_>, key: &str, content: &Content) -> Result<(String, Value), ActionError> {
    let mut request = bucket.request(Method::PUT, "key", key)?;
    describe(bucket, &mut request, content)?;
    refuse_existing(bucket, &mut request)?;
    request.set_header("x-amz-checksum-sha256", &base64(&content.data.digest()).into())?;
    request.set_bytes(&content.media_type, content.data.clone());
    let response = bucket.send(&request).await?;
    Ok((etag(response.header("etag").unwrap_or_default()), version(&response)))
}

/// Adds the media type, the metadata, and the mark of the step.
pub(super) fn describe(
    bucket: &Bucket<'_>,
    request: &mut Request,
    content: &Content,
) -> Result<(), ActionError> {
    request.set_header("content-type", &content.media_type.as_str().into())?;
    check_metadata(bucket.call.inputs)?;
    for (name, value) in metadata(bucket.call.inputs) {
        request.set_header(&format!("{METADATA}{name}"), value)?;
    }
    if bucket.flag("create") {
        request.set_header(&format!("{METADATA}{MARK}"), &mark(bucket).into())?;
    }
    Ok(())
}

fn metadata(inputs: &Map) -> impl Iterator<Item = (&Key, &Value)> {
    inputs.get("metadata").and_then(Value::as_map).into_iter().flat_map(Map::iter)
}

/// Checks the metadata, which is sent as headers.
pub(super) fn check_metadata(inputs: &Map) -> Result<(), ActionError> {
    let is_name = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?={}".contains(c);
    for (name, value) in metadata(inputs) {
        let wrong = |words: &str| Err(input_error(format!("`metadata.{name}` {words}")));
        if name.is_empty() || !name.chars().all(is_name) {
            return wrong("is no name, which has letters, digits and signs such as `-`");
        }
        if !value.to_text().is_ascii() {
            return wrong("has characters beyond ASCII, which no store takes");
        }
    }
    Ok(())
}

/// With `create`, lets the store refuse a key that exists.
pub(super) fn refuse_existing(bucket: &Bucket<'_>, request: &mut Request) -> Result<(), ActionError> {
    if bucket.flag("create") { request.set_header("if-none-match", &"*".into()) } else { Ok(()) }
}

/// The mark of the step, which is the same in each attempt.
fn mark(bucket: &Bucket<'_>) -> String {
    base64(&Sha256::digest(bucket.call.idempotency_key))
}

/// Returns the object if an earlier attempt of the step has created it, whose answer was lost; else the error.
async fn created_before(
    bucket: &Bucket<'_>,
    key: &str,
    error: ActionError,
) -> Result<(String, Value), ActionError> {
    let response = bucket.send(&bucket.request(Method::HEAD, "key", key)?).await?;
    if response.header(&format!("{METADATA}{MARK}")) != Some(&mark(bucket)) {
        return Err(error);
    }
    Ok((etag(response.header("etag").unwrap_or_default()), version(&response)))
}

pub(super) fn version(response: &Response) -> Value {
    response.header("x-amz-version-id").map_or(Value::Null, Value::from)
}

/// Sends a request whose answer has a document, which tells of an error even if the status is good.
pub(super) async fn send_for_document(
    bucket: &Bucket<'_>,
    request: &Request,
) -> Result<(Value, Response), ActionError> {
    let response = bucket.send(request).await?;
    match Refusal::of(&response) {
        Some(refusal) => Err(bucket.failure(&response, Some(refusal))),
        None => Ok((parse(&response, bucket.subject)?, response)),
    }
}

/// `s3.delete`.
pub(super) async fn delete(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let keys = bucket.call.inputs.get("keys").and_then(Value::as_list);
    let count = match (bucket.text("key"), keys) {
        ("", None) => return Err(input_error("either `key` or `keys` must be given")),
        ("", Some(keys)) => {
            delete_several(bucket, keys).await?;
            keys.len()
        }
        (_, Some(_)) => return Err(input_error("`keys` is given beside `key`; give one of them")),
        (key, None) => {
            bucket.send(&bucket.request(Method::DELETE, "key", key)?).await?;
            1
        }
    };
    Ok(result([("deleted", Value::from(i64::try_from(count).unwrap_or(i64::MAX)))]))
}

pub(super) fn check_keys(keys: &[Value]) -> Result<(), ActionError> {
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(input_error(format!("`keys` has {} keys; it takes from 1 to {MAX_KEYS}", keys.len())));
    }
    match keys.iter().any(|key| key.to_text().is_empty()) {
        true => Err(input_error("`keys` has an empty key")),
        false => Ok(()),
    }
}

async fn delete_several(bucket: &Bucket<'_>, keys: &[Value]) -> Result<(), ActionError> {
    check_keys(keys)?;
    let objects = keys.iter().map(|key| format!("<Object><Key>{}</Key></Object>", escaped(&key.to_text())));
    let body = format!("<Delete><Quiet>true</Quiet>{}</Delete>", objects.collect::<String>());
    let mut request = bucket.bucket_request(Method::POST);
    request.add_query("delete", &"".into());
    request.set_header("content-md5", &base64(&Md5::digest(&body)).into())?;
    request.set_bytes("application/xml", body.into_bytes());
    let (document, response) = send_for_document(bucket, &request).await?;
    let refused = items(&document, "DeleteResult.Error");
    let Some(first) = refused.first() else { return Ok(()) };
    let words = format!(
        "{} of {} keys were not deleted; `{}`: {}",
        refused.len(),
        keys.len(),
        text_at(first, "Key"),
        text_at(first, "Message")
    );
    Err(bucket.failure(&response, Some(Refusal::for_key(text_at(first, "Code"), words))))
}

/// `s3.copy`.
pub(super) async fn copy(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let (from, to) = (bucket.text("from"), bucket.text("to"));
    // The address proves that the key can be in one.
    bucket.url_of("from", from)?;
    let mut request = bucket.request(Method::PUT, "to", to)?;
    request.set_header("x-amz-copy-source", &format!("/{}/{}", bucket.name, encoded_key(from)).into())?;
    let (document, _) = send_for_document(bucket, &request).await?;
    let etag = etag(&text_at(&document, "CopyObjectResult.ETag"));
    if etag.is_empty() {
        let message = format!("{} gave an answer without the ETag of the copy", bucket.subject);
        return Err(ActionError::new(ErrorKind::Response, message).with_outcome_unknown());
    }
    Ok(result([("key", Value::from(to)), ("etag", Value::from(etag))]))
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
