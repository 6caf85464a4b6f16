//! Errors of error responses, as records for people and programs.

use std::time::Duration;

use ::http::header::LOCATION;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use model::{ActionError, ErrorKind, RetryPolicy};
use value::Value;
use value::redact::{LengthLimit, Redactor};

use super::response::Response;

/// The length at which a message of the service is cut.
const MAX_MESSAGE: LengthLimit = LengthLimit::Bytes(400);
/// The length at which a body without a recognised message is cut.
const MAX_BODY_EXCERPT: LengthLimit = LengthLimit::Chars(200);
/// The largest number of errors that a message repeats from one response.
const MAX_ERRORS: i64 = 3;
/// The largest size, in bytes, of the response body in an error.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// The locations of error details in a service's responses. Of each list, the first that yields a non-empty text
/// counts.
#[derive(Clone, Debug)]
pub(crate) struct ErrorShape {
    /// Paths in the body to the message.
    pub message: Vec<String>,
    /// Paths in the body to a second sentence.
    pub detail: Vec<String>,
    /// Paths in the body to the error code.
    pub code: Vec<String>,
    /// Names of headers with the request id.
    pub request_id: Vec<String>,
    /// The mark of a refusal in a response with a good status; `None` if the status alone says it.
    pub when: Option<Mark>,
    /// The codes of temporary errors, whose calls may be repeated.
    pub retry: Vec<String>,
    /// The codes of failures in the middle of the work: a change may have happened, and a read may be repeated.
    pub unknown: Vec<String>,
    /// The path in the body to the wait in seconds that the service asks for.
    pub retry_after: Option<String>,
}

/// A mark in the body of a response, such as that of a refusal: `{"ok": false}`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// The path in the body.
    pub path: String,
    /// The values that the path may lead to; empty for any value but `null`.
    pub is: Vec<Value>,
}

impl Mark {
    /// True if the body has the mark.
    pub(crate) fn is_in(&self, body: &Value) -> bool {
        let found = value_at_path(body, &self.path);
        found
            .is_some_and(|found| if self.is.is_empty() { !found.is_null() } else { self.is.contains(&found) })
    }
}

impl Default for ErrorShape {
    /// Returns the most common locations.
    fn default() -> Self {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            message: list(&[
                "message",
                "error.message",
                "error_description",
                "errors.0.message",
                "errors.0.title",
                "errors.0.detail",
                "errors.0",
                "title",
                "detail",
                "error",
                "reason",
                "msg",
            ]),
            detail: list(&["errors.0.detail", "detail"]),
            code: list(&["code", "error.code", "errors.0.code", "error.type"]),
            request_id: list(&["x-request-id", "request-id", "x-correlation-id", "x-amzn-requestid"]),
            when: None,
            retry: Vec::new(),
            unknown: Vec::new(),
            retry_after: None,
        }
    }
}

/// The reason why a body is not valid JSON.
#[derive(Clone, Debug)]
pub(crate) struct NotJson(pub(crate) String);

impl ErrorShape {
    /// Returns the error of a response that refuses the call in spite of its good status; `None` if it does not.
    pub(crate) fn refusal(&self, subject: &str, response: &Response, now: Timestamp) -> Option<ActionError> {
        let mark = self.when.as_ref()?;
        let body = response.json().ok()?;
        mark.is_in(&body).then(|| {
            let mut error = self.status_error(subject, response, now);
            if error.kind == ErrorKind::Status {
                error.kind = ErrorKind::Response;
            }
            error
        })
    }

    /// Creates the error for a response with an error status. An error with a code of `retry` is temporary, of the kind `network`.
    pub(crate) fn status_error(&self, subject: &str, response: &Response, now: Timestamp) -> ActionError {
        let status = response.status.as_u16();
        let json = response.json().ok().filter(|value| matches!(value, Value::Map(_) | Value::List(_)));
        let code = json.as_ref().and_then(|body| first_text(body, &self.code));
        // A code that equals the status adds nothing.
        let code = code.filter(|code| *code != status.to_string());
        let name = code.clone().or_else(|| response.status.canonical_reason().map(str::to_owned));
        let mut message = format!("{subject} answered {status}");
        if let Some(name) = &name {
            message.push(' ');
            message.push_str(name);
        }
        if let Some(words) = self.message_suffix(json.as_ref(), code.as_deref(), response) {
            message.push_str(&words);
        }
        if let Some(target) = redirect_target(response) {
            let target = one_line(&target, &response.redactor);
            message.push_str(&format!("; it redirects to `{target}`, which only GET and HEAD follow"));
        }
        let wait = retry_after(response, now).or_else(|| self.wait_in(json.as_ref()?));
        if let Some(wait) = wait {
            message.push_str(&format!("; it asks to wait {}", text::units::format_duration(wait)));
            if wait > RetryPolicy::MAX_RETRY_AFTER {
                let most = text::units::format_duration(RetryPolicy::MAX_RETRY_AFTER);
                message.push_str(&format!("; the wait is limited to {most}"));
            }
        }
        let mut error = self.response_error(ErrorKind::Status, message, response);
        if let Some(code) = code {
            if self.retry.contains(&code) {
                error.kind = ErrorKind::Network;
            }
            error = error.with_code(code);
        }
        if let Some(wait) = wait {
            error = error.with_retry_after(wait.min(RetryPolicy::MAX_RETRY_AFTER));
        }
        error
    }

    /// Creates the error of an operation that has failed, as a response with a good status says. `message` names the operation.
    pub(crate) fn failed_operation(&self, message: &str, response: &Response) -> ActionError {
        let json = response.json().ok();
        let code = json.as_ref().and_then(|body| first_text(body, &self.code));
        let words = self.message_suffix(json.as_ref(), code.as_deref(), response).unwrap_or_default();
        let error = self.response_error(ErrorKind::Response, format!("{message}{words}"), response);
        code.into_iter().fold(error, ActionError::with_code)
    }

    /// Marks the error of a response whose code is one of `unknown`.
    pub(crate) fn marked(&self, mut error: ActionError, is_safe: bool) -> ActionError {
        if error.code.as_ref().is_some_and(|code| self.unknown.contains(code)) {
            match is_safe {
                true => error.kind = ErrorKind::Network,
                false => error.outcome_unknown = true,
            }
        }
        error
    }

    /// Creates the error for a response that is not JSON as expected.
    pub(crate) fn not_json(&self, subject: &str, response: &Response, reason: &NotJson) -> ActionError {
        let found = if is_html(response) {
            "an HTML page".to_owned()
        } else {
            format!("something else ({})", reason.0)
        };
        let message =
            format!("{subject} answered {} with {found} where JSON was expected", response.status.as_u16());
        self.response_error(ErrorKind::Response, message, response)
    }

    /// Creates an error with the status, the request id and the body of the response.
    pub(crate) fn response_error(
        &self,
        kind: ErrorKind,
        message: String,
        response: &Response,
    ) -> ActionError {
        let mut error = ActionError::new(kind, message).with_status(response.status.as_u16());
        if let Some(id) = self.request_id.iter().find_map(|name| response.header(name)) {
            error = error.with_request_id(id);
        }
        if response.body.is_empty() {
            return error;
        }
        let body = match response.json() {
            Ok(value) if response.body.len() <= MAX_ERROR_BODY => value,
            _ => Value::from(
                &*response.redactor.redact_excerpt(&response.text(), LengthLimit::Bytes(MAX_ERROR_BODY)),
            ),
        };
        error.with_body(body)
    }

    /// Returns the wait that the body asks for, rounded up to whole seconds.
    fn wait_in(&self, body: &Value) -> Option<Duration> {
        let seconds: f64 = value_at_path(body, self.retry_after.as_ref()?)?.to_text().parse().ok()?;
        Duration::try_from_secs_f64(seconds.ceil()).ok()
    }

    /// Returns the message of the service, as a suffix to the status. A message that only repeats the code adds nothing.
    fn message_suffix(
        &self,
        json: Option<&Value>,
        code: Option<&str>,
        response: &Response,
    ) -> Option<String> {
        let Some(body) = json else {
            if is_html(response) {
                return Some(" with an HTML page".to_owned());
            }
            let text = response.text();
            let text = text.trim();
            let readable = !text.is_empty() && std::str::from_utf8(&response.body).is_ok();
            return readable.then(|| format!(": {}", one_line(text, &response.redactor)));
        };
        let default = Self::default();
        let found = first_text_with_path(body, &self.message)
            .or_else(|| first_text_with_path(body, &default.message));
        let Some((path, message)) = found else { return body_excerpt(body, &response.redactor) };
        if Some(message.as_str()) == code {
            return None;
        }
        let detail = first_text(body, &self.detail).or_else(|| first_text(body, &default.detail));
        let detail = detail.filter(|detail| *detail != message);
        let detail =
            detail.map(|detail| format!(" ({})", one_line(&detail, &response.redactor))).unwrap_or_default();
        let more = further_errors(body, path, &response.redactor);
        Some(format!(": {}{detail}{more}", one_line(&message, &response.redactor)))
    }
}

/// Returns the value at a dotted path, in which numbers index lists. A key of the rest of the path counts before its first part: keys
/// such as `@odata.nextLink` contain dots.
pub(crate) fn value_at_path(value: &Value, path: &str) -> Option<Value> {
    let Some((key, rest)) = path.split_once('.') else { return member(value, path) };
    let whole = value.as_map().and_then(|map| map.get(path).cloned());
    whole.or_else(|| value_at_path(&member(value, key)?, rest))
}

fn member(value: &Value, key: &str) -> Option<Value> {
    match (value, key.parse::<i64>()) {
        (Value::List(_), Ok(index)) => value.at(index).cloned(),
        _ => value.get(key),
    }
}

fn first_text(body: &Value, paths: &[String]) -> Option<String> {
    first_text_with_path(body, paths).map(|(_, text)| text)
}

/// Returns the first path that leads to a text, with that text.
fn first_text_with_path<'a>(body: &Value, paths: &'a [String]) -> Option<(&'a str, String)> {
    paths.iter().find_map(|path| Some((path.as_str(), text_at(body, path)?)))
}

fn text_at(body: &Value, path: &str) -> Option<String> {
    match value_at_path(body, path)? {
        text @ (Value::String(_) | Value::Number(_)) => {
            Some(text.to_text()).filter(|text| !text.trim().is_empty())
        }
        _ => None,
    }
}

/// Returns the further errors of a list whose first entry `path` names: `errors.0.title`.
fn further_errors(body: &Value, path: &str, redactor: &Redactor) -> String {
    let Some(at) = path.split('.').position(|key| key == "0") else { return String::new() };
    let keys: Vec<&str> = path.split('.').collect();
    let list = value_at_path(body, &keys[..at].join("."));
    let count = list.as_ref().and_then(Value::as_list).map_or(0, <[Value]>::len);
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut words = String::new();
    for index in 1..count.min(MAX_ERRORS) {
        let index = index.to_string();
        let mut keys = keys.clone();
        keys[at] = &index;
        if let Some(text) = text_at(body, &keys.join(".")) {
            words.push_str("; ");
            words.push_str(&one_line(&text, redactor));
        }
    }
    if count > MAX_ERRORS {
        words.push_str(&format!("; and {} more", count - MAX_ERRORS));
    }
    words
}

/// Returns the text_prefix of a body without a recognised message.
fn body_excerpt(body: &Value, redactor: &Redactor) -> Option<String> {
    let is_empty = match body {
        Value::Map(map) => map.is_empty(),
        Value::List(list) => list.0.is_empty(),
        _ => false,
    };
    // Secrets are hidden in the values, before JSON escapes could change them.
    let text = redactor.redact_value(body.clone()).to_json();
    (!is_empty).then(|| format!(": {}", redactor.redact_excerpt(&text, MAX_BODY_EXCERPT)))
}

/// Returns the address that a redirect names; `None` for other responses.
fn redirect_target(response: &Response) -> Option<String> {
    let location = response.headers.get(LOCATION).filter(|_| response.status.is_redirection())?;
    let location = std::str::from_utf8(location.as_bytes()).ok()?;
    Some(response.url.join(location).map_or_else(|_| location.to_owned(), String::from))
}

fn is_html(response: &Response) -> bool {
    response.media_type() == "text/html" || response.body.trim_ascii_start().starts_with(b"<!")
}

/// Joins a text to one line and cuts it. Secrets are hidden first, because they may contain white space.
fn one_line(text: &str, redactor: &Redactor) -> String {
    let text = redactor.redact_text(text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    redactor.redact_excerpt(&line, MAX_MESSAGE).into_owned()
}

/// Returns the wait that a response requests (RFC 9110, 10.2.3): whole seconds, or a date relative to the `Date`
/// of the response, which makes clock differences irrelevant. Callers wait at most [`RetryPolicy::MAX_RETRY_AFTER`].
pub(super) fn retry_after(response: &Response, now: Timestamp) -> Option<Duration> {
    let text = response.header("retry-after")?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = http_date(text)?;
            let since = response.header("date").and_then(http_date).unwrap_or(now);
            Duration::try_from(until.duration_since(since)).unwrap_or_default()
        }
    };
    Some(wait)
}

fn http_date(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

/// True if a request answered with this status may have been executed: the server failed at an unknown point.
#[must_use]
pub fn may_have_acted(status: u16) -> bool {
    // 501 and 505 mean that the server did not begin.
    matches!(status, 500..=599) && !matches!(status, 501 | 505)
}

#[cfg(test)]
mod tests {
    use ::http::{HeaderMap, HeaderValue, StatusCode};
    use bytes::Bytes;
    use pretty_assertions::assert_eq;
    use url::Url;

    use super::*;

    fn response(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> Response {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        Response {
            parsed: None,
            status: StatusCode::from_u16(status).expect("a status"),
            headers: map,
            body: Bytes::from_static(body.as_bytes()),
            url: Url::parse("https://x.example/").expect("a URL"),
            redactor: Redactor::default(),
        }
    }

    fn error(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> ActionError {
        let now = "2026-11-21T08:00:00Z".parse().expect("a time");
        ErrorShape::default().status_error("the wiki", &response(status, headers, body), now)
    }

    fn check(status: u16, headers: &[(&'static str, &'static str)], body: &'static str, expected: &str) {
        assert_eq!(error(status, headers, body).message, expected);
    }

    #[test]
    fn the_error_message_is_taken_from_the_response_body() {
        let v2 = r#"{"errors":[{"status":404,"code":"NOT_FOUND","title":"Not Found","detail":null}]}"#;
        check(404, &[], v2, "the wiki answered 404 NOT_FOUND: Not Found");
        let cursor = r#"{"errors":[{"code":"BAD","title":"wrong cursor","detail":"start again"}]}"#;
        check(400, &[], cursor, "the wiki answered 400 BAD: wrong cursor (start again)");
        check(
            401,
            &[],
            r#"{"code":401,"message":"Unauthorized"}"#,
            "the wiki answered 401 Unauthorized: Unauthorized",
        );
        let oauth = r#"{"error":"access_denied","error_description":"no"}"#;
        check(403, &[], oauth, "the wiki answered 403 Forbidden: no");
        check(401, &[], "  plain\n text ", "the wiki answered 401 Unauthorized: plain text");
        let html = &[("content-type", "text/html")];
        check(502, html, "<html>", "the wiki answered 502 Bad Gateway with an HTML page");
        check(599, &[], "", "the wiki answered 599");
    }

    #[test]
    fn error_bodies_of_unknown_shape_are_shown() {
        let problem = &[("content-type", "application/problem+json")];
        check(
            422,
            problem,
            r#"{"type":"about:blank","title":"Invalid","detail":"the title is too long","status":422}"#,
            "the wiki answered 422 Unprocessable Entity: Invalid (the title is too long)",
        );
        check(400, &[], r#"{"reason":"bad title"}"#, "the wiki answered 400 Bad Request: bad title");
        check(
            400,
            &[],
            r#"{"fault":[1,{"x":2}]}"#,
            r#"the wiki answered 400 Bad Request: {"fault":[1,{"x":2}]}"#,
        );
        check(400, &[], r#"["no"]"#, r#"the wiki answered 400 Bad Request: ["no"]"#);
        check(400, &[], "{}", "the wiki answered 400 Bad Request");
        let long = error(400, &[], Box::leak(format!("{{\"x\":\"{}\"}}", "é".repeat(999)).into_boxed_str()));
        assert!((200..260).contains(&long.message.chars().count()), "{}", long.message);
        let several = r#"{"errors":[{"title":"a"},{"title":"b"},{"title":"c"},{"title":"d"},{"title":"e"}]}"#;
        check(400, &[], several, "the wiki answered 400 Bad Request: a; b; c; and 2 more");
        check(400, &[], r#"{"errors":["a","b"]}"#, "the wiki answered 400 Bad Request: a; b");
    }

    #[test]
    fn declared_error_paths_are_tried_before_the_common_ones() {
        let own = ErrorShape {
            message: vec!["oops.text".to_owned()],
            detail: Vec::new(),
            code: Vec::new(),
            request_id: Vec::new(),
            ..ErrorShape::default()
        };
        let message =
            |body| own.status_error("it", &response(400, &[], body), Timestamp::UNIX_EPOCH).message.clone();
        assert_eq!(
            message(r#"{"oops":{"text":"own"},"message":"usual"}"#),
            "it answered 400 Bad Request: own"
        );
        assert_eq!(message(r#"{"message":"usual"}"#), "it answered 400 Bad Request: usual");
    }

    #[test]
    fn a_retry_after_over_the_cap_is_reported_as_requested() {
        let error = error(429, &[("retry-after", "18000")], "");
        let expected =
            "the wiki answered 429 Too Many Requests; it asks to wait 5h; the wait is limited to 1h";
        assert_eq!(error.message, expected);
        assert_eq!(error.retry_after_ms, Some(3_600_000));
    }

    #[test]
    fn secrets_are_redacted_in_error_bodies_of_unknown_shape() {
        let redactor = Redactor::default();
        redactor.add_secret(SECRET);
        let body = format!(r#"{{"x": {{"y": "{SECRET}"}}}}"#);
        let error =
            ErrorShape::default().status_error("it", &response_with(&body, &redactor), Timestamp::UNIX_EPOCH);
        assert_eq!(error.message, r#"it answered 500 Internal Server Error: {"x":{"y":"***"}}"#);
    }

    const SECRET: &str = "canary-0042-lantern";

    /// Asserts that no part of the secret is left in the result of `cut`, at any position of the secret relative to
    /// `limit`.
    fn check_cut(limit: usize, cut: impl Fn(&str, &Redactor) -> String) {
        let redactor = Redactor::default();
        redactor.add_secret(SECRET);
        for before in limit - SECRET.len() - 2..=limit + 2 {
            let text = format!("{}{SECRET}{}", "q".repeat(before), "z".repeat(40));
            let cut = cut(&text, &redactor);
            assert!(!cut.contains("can"), "{before}: …{}", &cut[cut.len() - 60..]);
        }
    }

    fn response_with(body: &str, redactor: &Redactor) -> Response {
        Response {
            body: Bytes::copy_from_slice(body.as_bytes()),
            redactor: redactor.clone(),
            parsed: None,
            ..response(500, &[], "")
        }
    }

    #[test]
    fn error_messages_are_redacted_before_they_are_truncated() {
        let error = |body: &str, redactor: &Redactor| {
            let error = ErrorShape::default().status_error(
                "it",
                &response_with(body, redactor),
                Timestamp::UNIX_EPOCH,
            );
            error.message.clone()
        };
        check_cut(400, error);
        check_cut(400, |text, redactor| error(&format!(r#"{{"message": "{text}"}}"#), redactor));
        check_cut(400, |text, redactor| {
            error(&format!(r#"{{"errors": [{{"title": "no", "detail": "{text}"}}]}}"#), redactor)
        });
    }

    #[test]
    fn error_bodies_are_redacted_before_they_are_truncated() {
        check_cut(MAX_ERROR_BODY, |text, redactor| {
            let error = ErrorShape::default().response_error(
                ErrorKind::Status,
                String::new(),
                &response_with(text, redactor),
            );
            let body = error.body.as_ref().map(Value::to_text).expect("a body");
            assert!(body.len() < MAX_ERROR_BODY + 10);
            body.to_string()
        });
    }

    #[test]
    fn whitespace_is_collapsed_only_after_redaction() {
        let redactor = Redactor::default();
        redactor.add_secret("two  words\nand more");
        let error = ErrorShape::default().status_error(
            "it",
            &response_with("not with two  words\nand more", &redactor),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(error.message, "it answered 500 Internal Server Error: not with ***");
    }

    #[test]
    fn the_error_carries_code_request_id_and_body() {
        let body = r#"{"errors":[{"code":"CONFLICT","title":"t"}]}"#;
        let error = error(409, &[("x-request-id", "r-1")], body);
        assert_eq!(
            (error.kind.clone(), error.status, error.code.as_deref(), error.request_id.as_deref()),
            (ErrorKind::Status, Some(409), Some("CONFLICT"), Some("r-1"))
        );
        assert_eq!(error.body.as_ref().map(Value::to_json).as_deref(), Some(body));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_capped_at_an_hour() {
        let wait = |headers: &[(&'static str, &'static str)]| error(429, headers, "").retry_after_ms;
        assert_eq!(wait(&[("retry-after", "7")]), Some(7_000));
        assert_eq!(wait(&[("retry-after", "999999999")]), Some(3_600_000));
        assert_eq!(wait(&[("retry-after", "Sat, 21 Nov 2026 08:00:30 GMT")]), Some(30_000));
        let own_date = ("date", "Sat, 21 Nov 2026 08:00:20 GMT");
        assert_eq!(wait(&[("retry-after", "Sat, 21 Nov 2026 08:00:30 GMT"), own_date]), Some(10_000));
        assert_eq!(wait(&[("retry-after", "Sat, 21 Nov 2020 08:00:30 GMT")]), Some(0));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[]), None);
        check(
            429,
            &[("retry-after", "90")],
            "",
            "the wiki answered 429 Too Many Requests; it asks to wait 1m30s",
        );
    }

    #[test]
    fn a_path_walks_maps_and_lists() {
        let value = Value::from_serde(serde_json::json!({"a": [{"b": 1}], "0": "zero"}));
        assert_eq!(value_at_path(&value, "a.0.b"), Some(Value::from(1_i64)));
        assert_eq!(value_at_path(&value, "0"), Some(Value::from("zero")));
        assert_eq!(value_at_path(&value, "a.1.b"), None);
    }
}
