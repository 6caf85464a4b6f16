//! Webhooks: from a request to the payload, and to the results that steps read.
//!
//! There are two stages, with signature verification between them: [`admit`] does not read the body and keeps the request
//! unchanged; [`results`] parses the body by the content type that [`admit`] chose. [`receive`] does both.

mod body;
mod content_type;
#[cfg(test)]
mod external_body_tests;
mod inflate;
mod multipart;
#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod tests;
mod urlencoded;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use expression::json_schema::CheckError;
use model::HttpResponse;
use model::automation::WebhookTrigger;
use model::payload::WebhookPayload;
use value::budget::Budget;
use value::mime::header_text;
use value::{Data, File, Map, Value};

use crate::{Rejection, response};

use inflate::Encoding;

pub use content_type::MAX_PARSED_BYTES;
pub use inflate::{inflates_within, is_compressed};

/// The methods that a trigger without a list of methods allows.
pub const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];

/// Hop-by-hop headers (RFC 9110, section 7.6.1), which do not describe the request.
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

/// A request as received, in plain values.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, as sent.
    pub method: String,
    /// The encoded path after the token, with its leading slash if there is one.
    pub fragment: String,
    /// The encoded query after the question mark; empty if there is none.
    pub raw_query: String,
    /// The headers in order of arrival, repeated ones included.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body as received, in memory or external.
    pub body: Data,
}

/// An accepted request: the stored payload and the results.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedRequest {
    /// The stored payload.
    pub payload: WebhookPayload,
    /// `trigger.results`; [`results`] of the payload returns the same value.
    pub results: Value,
}

/// The retry delay after a body could not be read.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// True if a large body must be in memory to be parsed: JSON, a form and text must, a file and a multipart form need not.
/// `start` is the beginning of the body; it decides if there is no content type.
#[must_use]
pub fn must_load(headers: &[(String, Vec<u8>)], start: &[u8]) -> bool {
    let content_types = header_values(headers, "content-type");
    body::must_load(content_types.first().map_or("", |value| value.trim()), start)
}

/// Checks and parses a request. Checking the schema of a large body may take some tenths of a second.
///
/// # Errors
/// The errors of [`parse`], then those of [`check_body`].
pub fn receive(trigger: &WebhookTrigger, request: Request) -> Result<ReceivedRequest, Rejection> {
    let received = parse(trigger, request)?;
    check_body(trigger, &received.results, &Budget::default())?;
    Ok(received)
}

/// Parses a request without checking its schema; see [`check_body`].
///
/// # Errors
/// The errors of [`admit`], then those of [`results`].
pub fn parse(trigger: &WebhookTrigger, request: Request) -> Result<ReceivedRequest, Rejection> {
    let payload = admit(trigger, request)?;
    let results = results(&payload)?;
    Ok(ReceivedRequest { payload, results })
}

/// The response to a probe of the address: `HEAD` 200, `OPTIONS` 204 with `Allow`. `None` for other requests.
#[must_use]
pub fn probe(trigger: &WebhookTrigger, method: &str) -> Option<HttpResponse> {
    let status = match method {
        "HEAD" if !methods(trigger).any(|taken| taken == "HEAD") => 200,
        "OPTIONS" if !methods(trigger).any(|taken| taken == "OPTIONS") => 204,
        _ => return None,
    };
    let answer = HttpResponse { status, headers: Vec::new(), body: Data::default() };
    Some(response::seal(answer.with_header("allow", allowed_methods(trigger))))
}

/// Checks a request without parsing its body, and converts it to a payload; a gzip body is inflated.
///
/// Checks in order: size, method, encoding, content type. Decodes the path fragment (percent-decoded once, except encoded
/// slashes, so that splitting on `/` stays safe), the query (`+` and `%XX`; a repeated name is a list, `a[]` is literal) and the
/// headers (lower-case names, repeated ones joined with `, `, hop-by-hop headers removed).
///
/// # Errors
/// 413 if the body exceeds `max_body`, 405 for a method that is not allowed, 415 for a content encoding other than `identity`
/// and `gzip`, 400 for an invalid gzip body, two different content types, or a query of more fields than JSON may have.
pub fn admit(trigger: &WebhookTrigger, request: Request) -> Result<WebhookPayload, Rejection> {
    if request.body.len() > trigger.max_body {
        return Err(Rejection::payload_too_large(trigger.max_body));
    }
    if !methods(trigger).any(|taken| taken == request.method) {
        return Err(Rejection::method_not_allowed(&request.method, allowed_methods(trigger)));
    }
    let mut request = request;
    match inflate::encoding(&request.headers) {
        Encoding::Identity => {}
        Encoding::Gzip => {
            request.body = inflate::inflate(&request.body, trigger.max_body)?;
            // The header describes the received bytes, not the inflated ones.
            request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-encoding"));
        }
        Encoding::Other => return Err(Rejection::unsupported_encoding()),
    }
    let content_types = header_values(&request.headers, "content-type");
    if content_types.windows(2).any(|pair| pair[0].trim() != pair[1].trim()) {
        return Err(Rejection::bad_request("bad_content_type", "request has more than one content-type"));
    }
    let Some(query_parameters) = urlencoded::decode(request.raw_query.as_bytes(), None) else {
        return Err(Rejection::bad_request("bad_query", "query has too many parameters"));
    };
    let content_type = content_types.first().map_or("", |value| value.trim()).into();
    Ok(into_payload(request, query_parameters, content_type))
}

/// Converts a request to a payload for inspection, without any check. A query that cannot be decoded is kept in raw form only.
#[must_use]
pub fn unchecked_payload(request: Request) -> WebhookPayload {
    let query_parameters = urlencoded::decode(request.raw_query.as_bytes(), None).unwrap_or_default();
    let content_types = header_values(&request.headers, "content-type");
    let content_type = content_types.first().map_or("", |value| value.trim()).into();
    into_payload(request, query_parameters, content_type)
}

fn into_payload(request: Request, query_parameters: Map, content_type: Arc<str>) -> WebhookPayload {
    WebhookPayload {
        path_fragment: urlencoded::path_fragment(&request.fragment),
        query_parameters,
        raw_query: request.raw_query,
        headers: fold_headers(request.headers),
        body: File { content_type, filename: None, data: request.body },
        method: request.method,
        code_result: None,
    }
}

/// Computes `trigger.results` of a request: `body.data`, `body.contentType`, `rawBody`, `headers`, `pathFragment`,
/// `queryParameters`, `rawQuery`, `method`.
///
/// `body.data` by content type:
/// * JSON (`application/json`, `text/json`, any `+json`): the value, including scalars and lists.
/// * a form: a map of its fields, a repeated one a list.
/// * multipart: a map of its parts. A JSON part is `{data, contentType}` with the parsed value, a plain field
///   `{data, contentType}` with its text, a file part a file that is a range of the body; a repeated name is a list.
/// * text, XML, CSV: the text.
/// * anything else: a file. Without a content type: JSON if it begins with `{` or `[` and parses, else a file.
/// * an empty body: `null`, for every type.
///
/// All of them are decoded by their byte-order mark, else their charset, else as UTF-8. The charset of a form may also be the value
/// of its field `_charset_`.
///
/// `body.contentType` is the header as sent, `null` if it is missing. `rawBody` is always the exact bytes, as a file.
/// Look-up in `headers` ignores case.
///
/// # Errors
/// 400 if the body does not match its content type, or exceeds the limits of JSON (`bad_json`, `json_too_large`,
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

/// Returns true if the body matches the trigger's schema, checked with the budget of a runtime thread. Returns false if it does
/// not match or the check exceeds the budget; [`check_body`] then returns the reason.
#[must_use]
pub fn fits_inline(trigger: &WebhookTrigger, results: &Value) -> bool {
    trigger.schema.as_ref().is_none_or(|schema| {
        schema.is_valid(&results.path("body.data").unwrap_or_default(), &Budget::inline()).unwrap_or(false)
    })
}

/// Checks the body against the trigger's schema, if it has one.
///
/// # Errors
/// 400 if the body does not match, with the first mismatch (`schema_mismatch`), or the check exceeds the budget
/// (`schema_too_costly`).
pub fn check_body(trigger: &WebhookTrigger, results: &Value, budget: &Budget) -> Result<(), Rejection> {
    let Some(schema) = &trigger.schema else { return Ok(()) };
    let data = results.path("body.data").unwrap_or_default();
    schema.check(&data, budget).map_err(|error| match error {
        CheckError::Invalid(error) => {
            let place =
                if error.pointer.is_empty() { String::new() } else { format!(" at `{}`", error.pointer) };
            let message = format!("request body does not match its schema{place}: {error}");
            Rejection::bad_request("schema_mismatch", message)
        }
        CheckError::TooCostly(limit) => Rejection::schema_too_costly(&limit),
    })
}

fn methods(trigger: &WebhookTrigger) -> impl Iterator<Item = &str> {
    let all: &[&str] = if trigger.methods.is_empty() { &METHODS } else { &[] };
    trigger.methods.iter().map(String::as_str).chain(all.iter().copied())
}

fn allowed_methods(trigger: &WebhookTrigger) -> String {
    methods(trigger).collect::<Vec<_>>().join(", ")
}

fn header_values(headers: &[(String, Vec<u8>)], name: &str) -> Vec<String> {
    headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| header_text(value, None))
        .collect()
}

/// Folds headers to one value per name.
fn fold_headers(headers: Vec<(String, Vec<u8>)>) -> BTreeMap<String, String> {
    // A sender may declare further hop-by-hop headers (RFC 9110, section 7.6.1).
    let connection = header_values(&headers, "connection").join(",").to_ascii_lowercase();
    let is_declared = |name: &str| connection.split(',').any(|declared| declared.trim() == name);
    let mut folded: BTreeMap<String, String> = BTreeMap::new();
    for (mut name, value) in headers {
        name.make_ascii_lowercase();
        if CONNECTION_LEVEL.contains(&name.as_str()) || is_declared(&name) {
            continue;
        }
        // Cookie pairs are joined by the separator of a cookie header (RFC 9113, section 8.2.3).
        let glue = if name == "cookie" { "; " } else { ", " };
        let value = String::from_utf8(value).unwrap_or_else(|error| header_text(error.as_bytes(), None));
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
