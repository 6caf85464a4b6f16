//! The example of an action, and the check that the action sends the request that the example shows.

use ::http::HeaderValue;
use ::http::header::CONTENT_TYPE;
use model::ActionError;
use value::{Data, Map, Reserved, Value};

use crate::action::Action;
use crate::connection::BaseUrl;
use crate::http::{Body, Request, decode};
use crate::input::check_inputs;
use crate::stages::StatusExample;

/// The address of examples if the connector has none.
const EXAMPLE_HOST: &str = "https://example.invalid";

/// The inputs of a step, and the request that must result.
#[derive(Debug)]
pub(crate) struct Example {
    pub with: Map,
    /// The request line: method, path and query, with parameters in any order.
    pub request: String,
    /// The body; `None` for a request without body.
    pub body: Option<Value>,
    /// Headers that the request must contain.
    pub headers: Map,
    /// The response of the service.
    pub answer: Option<Value>,
    /// The last look at the operation that the request starts.
    pub status: Option<StatusExample>,
}

/// A difference between an example and the actual request.
#[derive(Debug, PartialEq)]
pub(crate) enum Mismatch {
    /// The inputs are invalid.
    With(String),
    /// The request line differs.
    Request(String),
    /// The body differs.
    Body(String),
    /// A header differs.
    Headers(String),
}

/// Builds the request of `action` without sending it, and compares it with the example.
pub(crate) fn check(action: &dyn Action, example: &Example) -> Result<(), Mismatch> {
    let base = base();
    let inputs = check_inputs(action.spec(), &example.with, &Reserved::nothing())
        .map_err(|error| Mismatch::With(error.into_message()))?;
    let Some(prepared) = action.prepare(&inputs, base.as_ref()) else { return Ok(()) };
    let request = prepared.and_then(|request| request.encoded());
    let request = request.map_err(|error| Mismatch::With(error.into_message()))?;
    let line = line_of(&request);
    if normal(&line) != normal(&example.request) {
        return Err(Mismatch::Request(format!("the request is `{line}`")));
    }
    let body = body_of(&request);
    let expected = example.body.clone().map(|body| if is_form(&request) { form_of(body) } else { body });
    if body != expected {
        let shown = body.map_or_else(|| "none".to_owned(), |body| format!("`{}`", body.to_json()));
        return Err(Mismatch::Body(format!("the body is {shown}")));
    }
    for (name, expected) in example.headers.iter() {
        let found = request.headers.get(name.as_str()).map(|value| String::from_utf8_lossy(value.as_bytes()));
        if found.as_deref() != Some(expected.to_text().as_str()) {
            let found = found.as_deref().unwrap_or("not sent");
            return Err(Mismatch::Headers(format!("the header `{name}` is `{found}`")));
        }
    }
    Ok(())
}

/// Compares a request without a body with the request line of an example. Returns its own line if it differs.
pub(super) fn line_mismatch(request: &Request, expected: &str) -> Option<String> {
    let line = request.encoded().map(|request| line_of(&request)).ok()?;
    (normal(&line) != normal(expected)).then_some(line)
}

/// Returns the address of examples.
pub(super) fn base() -> Option<BaseUrl> {
    BaseUrl::parse(EXAMPLE_HOST, None).ok()
}

/// The request of a call in the form of examples.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The request line: method, path and query.
    pub request: String,
    /// The body; `None` for a request without body.
    pub body: Option<Value>,
    /// The headers that are no credentials, in lower case.
    pub headers: Map,
}

/// Builds the request of `action` for the inputs of its example; `None` for an action that sends no request.
///
/// # Errors
/// Returns a message if the inputs are invalid.
pub fn show(action: &dyn Action) -> Option<Result<Shown, String>> {
    let spec = action.spec();
    let with = spec.example.as_map().cloned().unwrap_or_default();
    let base = base();
    let inputs = match check_inputs(spec, &with, &Reserved::nothing()) {
        Ok(inputs) => inputs,
        Err(error) => return Some(Err(error.into_message())),
    };
    let prepared = action.prepare(&inputs, base.as_ref())?;
    let shown = |request: Request| {
        let request = request.encoded()?;
        Ok(Shown { request: line_of(&request), body: body_of(&request), headers: headers_of(&request) })
    };
    Some(prepared.and_then(shown).map_err(ActionError::into_message))
}

fn headers_of(request: &Request<Data>) -> Map {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    request.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

/// Formats the request line as in examples.
fn line_of(request: &Request<Data>) -> String {
    let query = request.url.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{} {}{query}", request.method, request.url.path())
}

/// Normalises a request line: parameters are decoded and sorted, so that encoding and order do not matter.
fn normal(line: &str) -> (String, Vec<(String, String)>) {
    let (path, query) = line.split_once('?').unwrap_or((line, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect();
    pairs.sort();
    (path.split_whitespace().collect::<Vec<_>>().join(" "), pairs)
}

fn is_form(request: &Request<Data>) -> bool {
    let media_type = request.headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    media_type == Some(b"application/x-www-form-urlencoded")
}

/// Returns a form as a map of texts, in which a repeated field is a list. An example may also write it as it is sent.
fn form_of(form: Value) -> Value {
    let mut map = Map::new();
    let mut add = |name: &str, text: Value| {
        let value = match map.get(name) {
            None => text,
            Some(Value::List(list)) => list.0.iter().cloned().chain([text]).collect(),
            Some(first) => Value::from(vec![first.clone(), text]),
        };
        map.insert(name, value);
    };
    match &form {
        Value::String(text) => {
            for pair in text.split('&').filter(|pair| !pair.is_empty()) {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                add(&decode(name), Value::from(decode(value)));
            }
        }
        Value::Map(fields) => {
            for (name, value) in fields.iter() {
                for item in value.as_list().unwrap_or(std::slice::from_ref(value)) {
                    add(name, Value::from(item.to_text()));
                }
            }
        }
        _ => return form,
    }
    Value::from(map)
}

/// Formats the body as in examples: JSON as it is, a form as a map, files by their names, any other body as text.
fn body_of(request: &Request<Data>) -> Option<Value> {
    match &request.body {
        Body::Empty => None,
        Body::Whole(data) if is_form(request) => {
            Some(form_of(Value::from(String::from_utf8_lossy(&data.for_display()).into_owned())))
        }
        Body::Whole(data) => {
            let json = Value::from_json(&data.for_display(), value::JsonLimits::default()).ok();
            Some(
                json.unwrap_or_else(|| {
                    Value::from(String::from_utf8_lossy(&data.for_display()).into_owned())
                }),
            )
        }
        Body::Multipart(parts) => {
            let parts = parts.iter().map(|part| {
                let text = String::from_utf8_lossy(&part.content.for_display()).into_owned();
                (part.name.as_str(), Value::from(part.file_name.clone().unwrap_or(text)))
            });
            Some(Value::from(parts.collect::<Map>()))
        }
    }
}
