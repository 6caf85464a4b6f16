//! Native actions: operations that a manifest cannot describe, one file each. The registry lists them.

pub(crate) mod data;
pub(crate) mod graphql;
pub(crate) mod hash;
pub(crate) mod http_request;
pub(crate) mod log;
pub(crate) mod mail;
pub(crate) mod raw_request;
pub(crate) mod text;

mod pages;
mod pure;
mod retry;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use ::text::units;
use model::action::{ObjectType, ResultField};
use model::{ActionError, ActionSpec, Effect, ErrorKind, InputSpec, InputType, ResultType};
use value::{Key, Map, Value};

use crate::connection::ResolvedConnection;
use crate::http::{MAX_TIMEOUT, Request};
use crate::manifest::{Head, empty_filter};
use crate::static_inputs::{InputProblem, StaticInputs};

/// Returns the spec of an optional input.
fn optional(name: &str, kind: InputType, description: &str) -> InputSpec {
    let description = Some(description.to_owned());
    InputSpec { name: name.to_owned(), kind, required: false, default: None, description }
}

/// Returns the spec of a required input.
fn required(name: &str, kind: InputType, description: &str) -> InputSpec {
    InputSpec { required: true, ..optional(name, kind, description) }
}

/// Returns the spec of an input with a default.
fn defaulted(name: &str, kind: InputType, default: impl Into<Value>, description: &str) -> InputSpec {
    InputSpec { default: Some(default.into()), ..optional(name, kind, description) }
}

fn choice(options: &[&str]) -> InputType {
    InputType::Choice { options: options.iter().map(|option| (*option).to_owned()).collect() }
}

fn map_of(values: InputType) -> InputType {
    InputType::Map { values: Box::new(values) }
}

/// Returns the spec of a native action in a connector with connections.
pub(crate) fn spec_for(head: &Arc<Head>, name: &str, title: &str) -> ActionSpec {
    ActionSpec {
        name: format!("{}.{name}", head.name),
        title: title.to_owned(),
        description: None,
        effect: Effect::Write,
        connections: head.connection_types.clone(),
        connection_required: head.connection_required,
        inputs: Vec::new(),
        result: None,
        results: ResultType::Any,
        example: Value::Null,
    }
}

/// Returns the spec of a pure action, which uses only its inputs.
fn pure_spec(name: &str, title: &str, inputs: Vec<InputSpec>, example: Value) -> ActionSpec {
    ActionSpec {
        name: name.to_owned(),
        title: title.to_owned(),
        description: None,
        effect: Effect::Pure,
        connections: Vec::new(),
        connection_required: false,
        inputs,
        result: None,
        results: ResultType::Any,
        example,
    }
}

/// Returns the type of [`Response::envelope`](crate::http::Response::envelope).
fn envelope() -> ResultType {
    let fields = [
        ResultField::new("statusCode", ResultType::Integer).with_description("The HTTP status, 200 to 299."),
        ResultField::new("headers", ResultType::map(ResultType::Any)).with_description(
            "The headers, names in lower case; a repeated one joined with commas, cookies as a list.",
        ),
        ResultField::new("body", ResultType::Any).with_description("The body, by `responseType`."),
    ];
    ResultType::Object(Arc::new(ObjectType { fields: fields.into(), ..ObjectType::default() }))
}

/// Returns the effect of a request: safe methods only read (RFC 9110, 9.2.1).
fn effect_of(method: Option<&str>) -> Effect {
    match method {
        Some("GET" | "HEAD" | "OPTIONS" | "TRACE") => Effect::Read,
        _ => Effect::Write,
    }
}

fn input_error(message: impl Into<String>) -> ActionError {
    ActionError::new(ErrorKind::Input, message)
}

/// Returns the text of an input; empty if it is not set.
fn text_of<'a>(inputs: &'a Map, name: &str) -> &'a str {
    inputs.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the entries of an input that is a map; none if it is not set.
fn entries_of<'a>(inputs: &'a Map, name: &str) -> impl Iterator<Item = (&'a Key, &'a Value)> {
    inputs.get(name).and_then(Value::as_map).into_iter().flat_map(Map::iter)
}

/// The meaning of a duration without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BareNumber {
    Refused,
    Milliseconds,
}

/// Parses the input `timeout`, a duration such as `30s`, of at most [`MAX_TIMEOUT`].
fn timeout_of(inputs: &Map, bare: BareNumber) -> Result<Option<Duration>, ActionError> {
    let text = text_of(inputs, "timeout");
    if text.is_empty() {
        return Ok(None);
    }
    let is_bare = bare == BareNumber::Milliseconds && text.bytes().all(|byte| byte.is_ascii_digit());
    let with_unit = if is_bare { Cow::Owned(format!("{text}ms")) } else { Cow::Borrowed(text) };
    let timeout =
        units::parse_fixed_period(&with_unit).map_err(|error| input_error(format!("`timeout`: {error}")))?;
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        let most = units::format_duration(MAX_TIMEOUT);
        return Err(input_error(format!("`timeout` must be over 0s and at most {most}")));
    }
    Ok(Some(timeout))
}

/// Returns the problems that any request may have: in its timeout, its headers, its query and its body.
fn request_problems(
    inputs: &StaticInputs<'_>,
    query: &str,
    body: &str,
    bare: BareNumber,
) -> Vec<InputProblem> {
    let mut found = Vec::from_iter(body_problem(inputs, body));
    if let Err(error) = timeout_of(&inputs.literal_text("timeout"), bare) {
        let help = "write how long with its unit, such as `500ms` or `30s`";
        let problem = InputProblem::new("timeout", error.into_message(), help);
        let text = inputs.text_prefix("timeout").map(|(text, _)| text).unwrap_or_default();
        // A duration that is out of bounds means nothing else.
        found.push(if units::parse_fixed_period(text).is_ok() {
            problem
        } else {
            problem.with_duration(text)
        });
    }
    let mut probe = Request::new(::http::Method::GET, nowhere());
    let known = inputs.literal_entries("headers");
    for name in inputs.keys("headers").unwrap_or_default() {
        let value = known.get(name).cloned().unwrap_or_else(|| Value::from("computed"));
        if let Err(error) = probe.set_header(name, &value) {
            let help = "leave it out, or correct its name or value";
            found.push(InputProblem::new("headers", error.into_message(), help));
        }
    }
    if let Some(problem) = empty_filter(query, &inputs.literal_entries(query)) {
        found.push(InputProblem::new(query, problem, EMPTY_FILTER));
    }
    found
}

/// Compares a body with the media type that the headers state for it.
fn body_problem(inputs: &StaticInputs<'_>, body: &str) -> Option<InputProblem> {
    let headers = inputs.literal_entries("headers");
    let mut content_types = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = content_types.next()?.1.as_str()?;
    if value::mime::is_json(content_type) {
        let (text, is_whole) = inputs.text_prefix(body)?;
        let error = value::mime::json_error(text, is_whole)?;
        let message = format!("the header says `{content_type}`, but this text is not JSON: {error}");
        let help = "write the value itself, as YAML: it is sent as JSON; or correct the text or the header";
        return Some(InputProblem::new(body, message, help).into_warning("invalid-json"));
    }
    let essence = value::mime::essence(content_type);
    if !essence.contains('/') {
        let message = format!("`content-type` is `{essence}`, which is no media type");
        let help = "write a type and a subtype, such as `application/json`";
        return Some(InputProblem::new("headers", message, help).into_warning("invalid-content-type"));
    }
    let is_form = FORM_TYPES.contains(&essence.as_str());
    (is_form && inputs.is_structure(body)).then(|| {
        let message = format!("the header says `{essence}`, but `{body}` is sent as JSON");
        let help = match body {
            "body" => {
                "write the fields under `form`, or `multipart`, instead of `body`, and leave the header out"
            }
            _ => "leave the header out, or write the body as a text",
        };
        let problem = InputProblem::new("headers", message, help);
        let is_urlencoded = body == "body" && essence == FORM_TYPES[0];
        if is_urlencoded { problem.with_renamed(body, "form") } else { problem }
    })
}

/// The media types of forms.
const FORM_TYPES: [&str; 2] = ["application/x-www-form-urlencoded", "multipart/form-data"];

/// The help text for an empty list in the query.
const EMPTY_FILTER: &str = "leave the parameter out, or give null, where nothing is to be filtered";

/// Rejects query parameters with an empty list: the request would have no such filter, which the author does not
/// intend.
fn check_query(inputs: &Map, name: &str) -> Result<(), ActionError> {
    let parameters = inputs.get(name).and_then(Value::as_map);
    match parameters.and_then(|parameters| empty_filter(name, parameters)) {
        Some(problem) => Err(input_error(format!("{problem}; {EMPTY_FILTER}"))),
        None => Ok(()),
    }
}

/// Returns a placeholder address for checks that need no real one.
fn nowhere() -> url::Url {
    url::Url::parse("https://example.invalid/").unwrap_or_else(|_| unreachable!("a constant address"))
}

/// Adds the headers that the author set.
fn add_headers(request: &mut Request, inputs: &Map) -> Result<(), ActionError> {
    entries_of(inputs, "headers").try_for_each(|(name, value)| request.set_header(name, value))
}

/// Rejects a header of the author that the connection's credentials would silently replace.
fn check_credentials(request: &Request, connection: Option<&ResolvedConnection>) -> Result<(), ActionError> {
    let Some(connection) = connection else { return Ok(()) };
    match request.headers.keys().find(|name| connection.sends_header(name)) {
        Some(name) => Err(input_error(format!(
            "the header `{name}` comes from the connection `{}`; leave it out",
            connection.name
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
