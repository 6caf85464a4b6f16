//! `s3.get`, `s3.head` and `s3.presign`.

use std::time::Duration;

use connector::FileBody;
use connector::http::{Method, Request, Response};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use model::{ActionError, ErrorKind};
use value::{File, Map, Value};

use super::bucket::{Bucket, result};
use super::document::etag;
use super::input_error;
use crate::spec::period_of;

/// The longest life of an address with a signature.
const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The start of the names of headers with texts of the author.
pub(super) const METADATA: &str = "x-amz-meta-";

/// `s3.get`.
pub(super) async fn get(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let key = bucket.text("key");
    let request = selected(bucket, Method::GET, key)?;
    let sink = FileBody::new(bucket.call.file_sink("the object"));
    let response = bucket.exchange(&request, Some(&sink)).await?;
    let mut described = described(bucket, key, &response)?;
    let is_new = response.status.is_success();
    let file = if is_new { Some(sink.finish().await?) } else { None };
    if let Some(data) = &file {
        check_whole(bucket, &response, data)?;
        described.insert("size", i64::try_from(data.len()).unwrap_or(i64::MAX));
    }
    let name = key.rsplit('/').next().filter(|name| !name.is_empty());
    let content_type = response.header("content-type").unwrap_or("application/octet-stream").into();
    let file = file.map(|data| Value::from(File { content_type, filename: name.map(Into::into), data }));
    described.insert("file", file.unwrap_or_default());
    Ok(Value::from(described))
}

/// Compares the file with the checksum that the store has of the object.
fn check_whole(bucket: &Bucket<'_>, response: &Response, data: &value::Data) -> Result<(), ActionError> {
    let length = response.header("content-length").and_then(|length| length.parse::<usize>().ok());
    // A part of an object has no checksum, nor has an object that was sent in parts, nor the start of one in a recording.
    let is_whole = response.status.as_u16() == 200 && length == Some(data.len());
    let expected = response.header("x-amz-checksum-sha256").filter(|sum| is_whole && !sum.contains('-'));
    match expected {
        Some(expected) if expected != super::write::base64(&data.digest()) => {
            let message =
                format!("the object that {} sent does not have the checksum that it names", bucket.subject);
            Err(ActionError::new(ErrorKind::Network, message))
        }
        _ => Ok(()),
    }
}

/// `s3.head`.
pub(super) async fn head(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let key = bucket.text("key");
    let response = bucket.exchange(&selected(bucket, Method::HEAD, key)?, None).await?;
    described(bucket, key, &response).map(Value::from)
}

/// A request with the inputs that select an object.
fn selected(bucket: &Bucket<'_>, method: Method, key: &str) -> Result<Request, ActionError> {
    let mut request = bucket.request(method, "key", key)?;
    // The bytes come as they are stored.
    request.set_header("accept-encoding", &"identity".into())?;
    if !bucket.text("version").is_empty() {
        request.add_query("versionId", &bucket.text("version").into());
    }
    match range_of(bucket.call.inputs)? {
        "" => request.set_header("x-amz-checksum-mode", &"ENABLED".into())?,
        range => request.set_header("range", &format!("bytes={range}").into())?,
    }
    let known = bucket.text("ifNoneMatch");
    if !known.is_empty() {
        let quoted =
            if known.starts_with(['"', 'W', '*']) { known.to_owned() } else { format!("\"{known}\"") };
        request.set_header("if-none-match", &quoted.into())?;
    }
    Ok(request)
}

/// The range of bytes in `range`; empty for all.
pub(super) fn range_of(inputs: &Map) -> Result<&str, ActionError> {
    let range = inputs.get("range").and_then(Value::as_str).unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let is_range = match range.split_once('-') {
        Some((from, "")) => is_number(from),
        Some(("", to)) => is_number(to),
        Some((from, to)) => is_number(from) && is_number(to) && number(from) <= number(to),
        None => range.is_empty(),
    };
    let wrong = || input_error(format!("`range` is `{range}`; write it like `0-99`, `100-` or `-100`"));
    if is_range { Ok(range) } else { Err(wrong()) }
}

/// The result of an answer that describes an object.
fn described(bucket: &Bucket<'_>, key: &str, response: &Response) -> Result<Map, ActionError> {
    let is_known = response.status.as_u16() == 304;
    if !response.status.is_success() && !is_known {
        return Err(bucket.failure(response, None));
    }
    let header = |name: &str| response.header(name).filter(|text| !text.is_empty());
    let text = |name: &str| header(name).map_or(Value::Null, Value::from);
    let size = header("content-length").and_then(|size| size.parse::<i64>().ok()).unwrap_or(0);
    let modified = header("last-modified").and_then(|text| DateTimeParser::new().parse_timestamp(text).ok());
    let metadata = response.headers.keys().filter_map(|name| {
        let own = name.as_str().strip_prefix(METADATA)?;
        Some((own, Value::from(response.header(name.as_str())?)))
    });
    let entries = [
        ("key", Value::from(key)),
        ("size", Value::from(size)),
        ("etag", Value::from(etag(header("etag").unwrap_or_default()))),
        ("version", text("x-amz-version-id")),
        ("modified", modified.map_or(Value::Null, |at| Value::from(at.to_string()))),
        ("contentType", text("content-type")),
        ("metadata", Value::from(metadata.collect::<Map>())),
        ("notModified", Value::from(is_known)),
    ];
    Ok(Map::from_iter(entries))
}

/// `s3.presign`.
pub(super) fn presign(bucket: &Bucket<'_>) -> Result<Value, ActionError> {
    let method = if bucket.text("method") == "PUT" { Method::PUT } else { Method::GET };
    // A signature has whole seconds.
    let now = bucket.call.http.timer().now();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    // An address ends with the keys that have signed it.
    let most = bucket.keys_end.map(|end| Duration::try_from(end.duration_since(now)).unwrap_or_default());
    let expires = lifetime(bucket.call.inputs)?.min(most.unwrap_or(MAX_LIFETIME));
    let expires = Duration::from_secs(expires.as_secs());
    let url = bucket.url_of("key", bucket.text("key"))?;
    let url = bucket.presigned(&method, &url, expires, now);
    let url =
        url.ok_or_else(|| ActionError::new(ErrorKind::Internal, "the address is not that of the bucket"))?;
    let end = now + expires;
    Ok(result([("url", Value::from(url.as_str())), ("expiresAt", Value::from(end.to_string()))]))
}

/// Reads the life of an address, which is the longest one if it is not known.
pub(super) fn lifetime(inputs: &Map) -> Result<Duration, ActionError> {
    match period_of(inputs, "expires")?.unwrap_or(MAX_LIFETIME) {
        time if time < Duration::from_secs(1) || time > MAX_LIFETIME => {
            Err(input_error("`expires` must be from 1s to 7d"))
        }
        time => Ok(time),
    }
}
