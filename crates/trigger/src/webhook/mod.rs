//! The universal webhook: from a request to a payload, and to what steps read of it.
//!
//! Two stages, since a signature is checked between them: [`admit`] looks at no byte of the body and keeps the request
//! as it came; [`results`] reads the body by the content type that was decided once. [`receive`] is both.

mod body;
mod content_type;
mod disposition;
mod fields;
mod inflate;
mod multipart;
#[cfg(test)]
mod outside;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::automation::WebhookTrigger;
use model::budget::Budget;
use model::json_schema::CheckError;
use model::payload::WebhookPayload;
use model::value::Data;
use model::{File, HttpResponse, Map, Value};

use crate::{Rejection, response};

use inflate::Encoding;

pub use content_type::MOST_PARSED;
pub use inflate::is_compressed;

/// The methods that run an Automation where its trigger names none.
pub const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];

/// Headers that belong to one connection (RFC 9110, section 7.6.1) and say nothing about the request.
const CONNECTION_LEVEL: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request as it came, in plain values.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, as sent.
    pub method: String,
    /// What follows the token in the path, still encoded, with its leading slash if there is one.
    pub fragment: String,
    /// What follows the question mark, still encoded; empty if there is none.
    pub raw_query: String,
    /// The headers in the order they came; one that was repeated comes as often.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The bytes of the body as received, in memory or kept outside of it.
    pub body: Data,
}

/// A request that starts an execution: what is stored, and what steps read of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// What is stored.
    pub payload: WebhookPayload,
    /// `trigger.results`; [`results`] of the payload gives the same again.
    pub results: Value,
}

/// When a caller may try again whose body could not be read.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Whether a large body has to be in memory to be read: JSON, a form and text have, a file and a form of files have not.
/// `start` is how it begins; it decides where no content type was sent.
#[must_use]
pub fn is_read_whole(headers: &[(String, Vec<u8>)], start: &[u8]) -> bool {
    let content_types = values(headers, "content-type");
    body::is_read_whole(content_types.first().map_or("", |value| value.trim()), start)
}

/// Checks a request and reads it whole. The schema may take some tenths of a second of a large body.
///
/// # Errors
/// Those of [`read`], then those of [`check_body`].
pub fn receive(trigger: &WebhookTrigger, request: Request) -> Result<Received, Rejection> {
    let received = read(trigger, request)?;
    check_body(trigger, &received.results, &Budget::default())?;
    Ok(received)
}

/// Reads a request whole, and leaves its schema to [`check_body`].
///
/// # Errors
/// Those of [`admit`], then those of [`results`].
pub fn read(trigger: &WebhookTrigger, request: Request) -> Result<Received, Rejection> {
    let payload = admit(trigger, request)?;
    let results = results(&payload)?;
    Ok(Received { payload, results })
}

/// The answer to a request that only asks about the address: `HEAD` 200, `OPTIONS` 204 with `Allow`. It starts nothing.
#[must_use]
pub fn probe(trigger: &WebhookTrigger, method: &str) -> Option<HttpResponse> {
    let status = match method {
        "HEAD" if !methods(trigger).any(|taken| taken == "HEAD") => 200,
        "OPTIONS" if !methods(trigger).any(|taken| taken == "OPTIONS") => 204,
        _ => return None,
    };
    let answer = HttpResponse { status, headers: Vec::new(), body: Data::default() };
    Some(response::sealed(answer.with_header("allow", allow(trigger))))
}

/// Checks a request without reading its body, and keeps it as it came; a body in gzip is inflated.
///
/// Order: size, method, encoding, content type. Decoded here: the path fragment (percent-decoded once, except encoded
/// slashes, so splitting on `/` stays safe), the query (`+` and `%XX`; a repeated name is a list, `a[]` stays literal) and
/// the headers (lower-case names, repeated ones joined with `, `, those of the connection left out).
///
/// # Errors
/// 413 for more bytes than `max_body`, 405 for a method that is not taken, 415 for any content encoding but `identity` and
/// `gzip`, 400 for a body that is not the gzip it should be, for two different content types, or a query of more fields than JSON may have.
pub fn admit(trigger: &WebhookTrigger, request: Request) -> Result<WebhookPayload, Rejection> {
    if request.body.len() > trigger.max_body {
        return Err(Rejection::payload_too_large(trigger.max_body));
    }
    if !methods(trigger).any(|taken| taken == request.method) {
        return Err(Rejection::method_not_allowed(&request.method, allow(trigger)));
    }
    let mut request = request;
    match inflate::encoding(&request.headers) {
        Encoding::Identity => {}
        Encoding::Gzip => {
            request.body = inflate::inflate(&request.body, trigger.max_body)?;
            // It says something of the bytes that came, not of those that are kept.
            request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-encoding"));
        }
        Encoding::Other => return Err(Rejection::unsupported_encoding()),
    }
    let content_types = values(&request.headers, "content-type");
    if content_types.windows(2).any(|pair| pair[0].trim() != pair[1].trim()) {
        return Err(Rejection::bad_request("bad_content_type", "request has more than one content-type"));
    }
    let Some(query_parameters) = fields::decode(request.raw_query.as_bytes()) else {
        return Err(Rejection::bad_request("bad_query", "query has too many parameters"));
    };
    let content_type = content_types.first().map_or("", |value| value.trim()).into();
    Ok(kept(request, query_parameters, content_type))
}

/// A request to look at, whether or not a trigger would take it. A query that cannot be taken apart is kept as it came alone.
#[must_use]
pub fn as_it_came(request: Request) -> WebhookPayload {
    let query_parameters = fields::decode(request.raw_query.as_bytes()).unwrap_or_default();
    let content_types = values(&request.headers, "content-type");
    let content_type = content_types.first().map_or("", |value| value.trim()).into();
    kept(request, query_parameters, content_type)
}

fn kept(request: Request, query_parameters: Map, content_type: Arc<str>) -> WebhookPayload {
    WebhookPayload {
        path_fragment: fields::path_fragment(&request.fragment),
        query_parameters,
        raw_query: request.raw_query,
        headers: fold(request.headers),
        body: File { content_type, filename: None, data: request.body },
        method: request.method,
        decided: None,
    }
}

/// What `trigger.results` is for a request: `body.data`, `body.contentType`, `rawBody`, `headers`, `pathFragment`,
/// `queryParameters`, `rawQuery`, `method`.
///
/// `body.data` by content type:
/// * JSON (`application/json`, any `+json`): the value, scalars and lists too; a byte order mark is allowed.
/// * a form: a map of its fields, a repeated one a list.
/// * multipart: a map of its parts, a file among them a stretch of the body. A JSON part is `{data, contentType}` with the parsed value, a plain field
///   `{data, contentType}` with its text, a file part a file; a repeated name is a list.
/// * text, XML, CSV: the text, decoded by its charset (UTF-8 where it names none).
/// * anything else: a file. Without a content type: JSON if it begins with `{` or `[` and parses, else a file.
/// * an empty body: `null`, whatever its type.
///
/// `body.contentType` is the header as sent, `null` if there was none. `rawBody` is always the exact bytes, as a file.
/// Look-up in `headers` ignores case.
///
/// # Errors
/// 400: the body is not what its content type says, or larger than the limits of JSON (`bad_json`, `json_too_large`,
/// `bad_form`, `bad_multipart`).
pub fn results(payload: &WebhookPayload) -> Result<Value, Rejection> {
    let sent = &payload.body.content_type;
    let mut raw = payload.body.clone();
    if raw.content_type.is_empty() {
        raw.content_type = content_type::UNKNOWN.into();
    }
    let raw = Value::from(raw);
    let data = body::parse(&payload.body, &raw)?;
    let content_type = if sent.is_empty() { Value::Null } else { Value::from(sent.clone()) };
    let body: Map = [("data", data), ("contentType", content_type)].into_iter().collect();
    let mut headers = Map::headers();
    for (name, value) in &payload.headers {
        headers.insert(name.as_str(), value.as_str());
    }
    let mut results = Map::with_capacity(7);
    results.insert("body", body);
    results.insert("rawBody", raw);
    results.insert("headers", headers);
    results.insert("pathFragment", payload.path_fragment.as_str());
    results.insert("queryParameters", payload.query_parameters.clone());
    results.insert("rawQuery", payload.raw_query.as_str());
    results.insert("method", payload.method.as_str());
    Ok(Value::from(results))
}

/// Decides if the body fits the trigger's schema, within the budget of a thread of the runtime; false where it does not,
/// or where that takes more. [`check_body`] then gives the reason.
#[must_use]
pub fn fits_at_once(trigger: &WebhookTrigger, results: &Value) -> bool {
    trigger.schema.as_ref().is_none_or(|schema| {
        schema.is_valid(&results.path("body.data").unwrap_or_default(), &Budget::inline()).unwrap_or(false)
    })
}

/// Checks the body against the trigger's schema, if it has one.
///
/// # Errors
/// 400: the body does not fit, with the first place where it does not (`schema_mismatch`), or the check takes more than
/// the budget (`schema_too_costly`).
pub fn check_body(trigger: &WebhookTrigger, results: &Value, budget: &Budget) -> Result<(), Rejection> {
    let Some(schema) = &trigger.schema else { return Ok(()) };
    let data = results.path("body.data").unwrap_or_default();
    schema.check(&data, budget).map_err(|error| match error {
        CheckError::Invalid(error) => {
            let place =
                if error.pointer.is_empty() { String::new() } else { format!(" at `{}`", error.pointer) };
            let message = format!("request body does not fit its schema{place}: {error}");
            Rejection::bad_request("schema_mismatch", message)
        }
        CheckError::TooCostly(limit) => Rejection::schema_too_costly(&limit),
    })
}

fn methods(trigger: &WebhookTrigger) -> impl Iterator<Item = &str> {
    let all: &[&str] = if trigger.methods.is_empty() { &METHODS } else { &[] };
    trigger.methods.iter().map(String::as_str).chain(all.iter().copied())
}

fn allow(trigger: &WebhookTrigger) -> String {
    methods(trigger).collect::<Vec<_>>().join(", ")
}

fn values(headers: &[(String, Vec<u8>)], name: &str) -> Vec<String> {
    headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| text(value)).collect()
}

/// Folds headers into one value a name.
fn fold(headers: Vec<(String, Vec<u8>)>) -> BTreeMap<String, String> {
    // A sender may declare further headers to be the connection's own (RFC 9110, section 7.6.1).
    let connection = values(&headers, "connection").join(",").to_ascii_lowercase();
    let is_declared = |name: &str| connection.split(',').any(|declared| declared.trim() == name);
    let mut folded: BTreeMap<String, String> = BTreeMap::new();
    for (mut name, value) in headers {
        name.make_ascii_lowercase();
        if CONNECTION_LEVEL.contains(&name.as_str()) || is_declared(&name) {
            continue;
        }
        // The pairs of a cookie are joined as one header of them would be (RFC 9113, section 8.2.3).
        let glue = if name == "cookie" { "; " } else { ", " };
        let value = String::from_utf8(value).unwrap_or_else(|error| text(error.as_bytes()));
        folded
            .entry(name)
            .and_modify(|before| {
                before.push_str(glue);
                before.push_str(&value);
            })
            .or_insert(value);
    }
    folded
}

/// The text of a header's value: UTF-8 if it is, else Latin-1, which every sequence of bytes is.
fn text(value: &[u8]) -> String {
    std::str::from_utf8(value).map_or_else(|_| value.iter().copied().map(char::from).collect(), str::to_owned)
}
