//! Payloads as a client writes them: whole ones with their `kind`, and short ones whose missing parts have defaults.

use std::collections::{HashMap, HashSet};

use catalog::Mount;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use model::Payload;
use model::automation::{StartForm, WebhookTrigger};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;
use text::diagnostic::nearest;
use trigger::webhook::Request;
use utoipa::ToSchema;
use value::instant::Instant;
use value::{Map, Value};

use crate::admin::Problem;

/// The characters that must be encoded in a path (RFC 3986, section 3.3).
const PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'<').add(b'>').add(b'?').add(b'`');

/// The parts of a request, with the names that saved payloads have for them.
const REQUEST: [&str; 7] = ["method", "headers", "query", "path", "body", "queryParameters", "pathFragment"];

/// The payload of a start, whole or in a short form: of a webhook `method`, `headers`, `query`, `path`, `body`; of a poll or
/// an event `data`; of a schedule `scheduledAt`; of a manual start `inputs`. Each part has a default. With `kind` it is a
/// whole payload as it was saved.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "the reader takes its parts by name")]
pub(crate) struct StartPayload {
    /// `webhook`, `schedule`, `poll` or `manual`, for a whole payload.
    kind: Option<String>,
    /// The HTTP method.
    method: Option<String>,
    /// The headers by name.
    headers: Option<HashMap<String, value::Json>>,
    /// The query: parameters by name, or a text as it is sent.
    query: Option<value::Json>,
    /// The path after the token.
    path: Option<String>,
    /// JSON, a text, or a file.
    body: Option<value::Json>,
    /// As `query`, in a saved payload.
    query_parameters: Option<value::Json>,
    /// The encoded query, in a saved payload.
    raw_query: Option<String>,
    /// As `path`, in a saved payload.
    path_fragment: Option<String>,
    /// The decision of the trigger's code, in a saved payload.
    decided: Option<value::Json>,
    /// The items that a poll found.
    data: Option<value::Json>,
    #[schema(format = DateTime)]
    polled_at: Option<String>,
    /// The instant of the schedule.
    #[schema(format = DateTime)]
    scheduled_at: Option<String>,
    #[schema(format = DateTime)]
    started_at: Option<String>,
    /// The IANA zone, in a saved payload.
    timezone: Option<String>,
    /// The inputs by name.
    inputs: Option<HashMap<String, value::Json>>,
}

/// The payload that `given` is for a start of this automation at `now`.
///
/// # Errors
/// 422 with all that is wrong with it.
pub(crate) fn read(given: Json, mount: &Mount, now: Timestamp) -> Result<Payload, Problem> {
    read_all(given, mount, now).map_err(|wrong| refused(&wrong))
}

/// As [`read`], with the errors one by one.
pub(crate) fn read_all(given: Json, mount: &Mount, now: Timestamp) -> Result<Payload, Vec<String>> {
    let mut wrong = Vec::new();
    if has_kept_file(&given) {
        let way =
            "leave it out to take that of the recorded payload, or give its `data` with `encoding: base64`";
        return Err(vec![format!("a file that is `kept` has no bytes here; {way}")]);
    }
    let payload = Reader { mount, now, wrong: &mut wrong }.payload(given);
    match payload {
        Some(payload) if wrong.is_empty() => Ok(payload),
        _ => Err(wrong),
    }
}

/// Returns true if a value has a file whose bytes are in the store of a daemon: a client can name none of them.
fn has_kept_file(given: &Json) -> bool {
    match given {
        Json::Array(items) => items.iter().any(has_kept_file),
        Json::Object(entries) => {
            entries.get("$file").is_some_and(|file| file["encoding"] == "kept")
                || entries.values().any(has_kept_file)
        }
        _ => false,
    }
}

fn refused(wrong: &[String]) -> Problem {
    let detail = format!("`payload` cannot start this automation: {}", wrong.join("; "));
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", detail)
}

struct Reader<'a> {
    mount: &'a Mount,
    now: Timestamp,
    wrong: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn payload(&mut self, given: Json) -> Option<Payload> {
        let mut parts = match given {
            Json::Object(parts) => parts,
            other => return self.no(format!("it is {}, not an object", kind(&other))),
        };
        if let Some(named) = parts.get("kind") {
            let whole = serde_json::from_value::<Payload>(Json::Object(parts.clone()));
            let is_short = named == "webhook" && (parts.contains_key("query") || parts.contains_key("path"));
            match whole {
                Ok(payload) if !is_short => return Some(payload),
                Err(error) if named != "webhook" => {
                    return self.no(format!("it is none that an execution could have: {error}"));
                }
                // A request with missing parts, or in the short form.
                _ => parts.remove("kind"),
            };
            return self.request(&parts, None);
        }
        match self.mount.on().start_form() {
            StartForm::Request(webhook) => self.request(&parts, Some(webhook)),
            StartForm::Data { or_request: true } if !parts.contains_key("data") && !parts.is_empty() => {
                self.request(&parts, None)
            }
            StartForm::Data { .. } => {
                self.only(&parts, &["data"]);
                let data = parts.remove("data").map(Value::from_serde).unwrap_or_default();
                Some(self.mount.on().data_payload(data, self.now))
            }
            StartForm::Instant => self.schedule(&parts),
            StartForm::Inputs => {
                self.only(&parts, &["inputs"]);
                match parts.remove("inputs") {
                    None => Some(Payload::manual(Map::new())),
                    Some(Json::Object(inputs)) => {
                        let inputs = inputs.into_iter().map(|(name, value)| (name, Value::from_serde(value)));
                        Some(Payload::manual(inputs.collect()))
                    }
                    Some(other) => self.no(format!("`inputs` is {}, not an object", kind(&other))),
                }
            }
        }
    }

    /// An instant of the schedule.
    fn schedule(&mut self, parts: &serde_json::Map<String, Json>) -> Option<Payload> {
        self.only(parts, &["scheduledAt"]);
        let at = match parts.get("scheduledAt") {
            None => self.now,
            Some(given) => match given.as_str().and_then(Instant::parse) {
                Some(at) => at.to_timestamp(),
                None => {
                    let example = "`2026-03-02T08:30:00Z`";
                    return self.no(format!("`scheduledAt` is no instant; write it as {example}"));
                }
            },
        };
        match self.mount.schedule() {
            Some(schedule) => Some(schedule.payload(at, self.now)),
            None => self.no("the schedule of the automation was not compiled".to_owned()),
        }
    }

    fn request(
        &mut self,
        parts: &serde_json::Map<String, Json>,
        webhook: Option<&WebhookTrigger>,
    ) -> Option<Payload> {
        self.only(parts, &REQUEST);
        let either = |one: &str, other: &str| parts.get(one).or_else(|| parts.get(other));
        let method = self.method(parts.get("method"), webhook);
        let fragment = self.fragment(either("path", "pathFragment"));
        let raw_query = self.query(either("query", "queryParameters"));
        let (body, content_type) = self.body(parts.get("body"));
        let mut headers = self.headers(parts.get("headers"));
        if let Some(content_type) = content_type
            && !headers.iter().any(|(name, _)| name == "content-type")
        {
            headers.push(("content-type".to_owned(), content_type.into_bytes()));
        }
        let request = Request { method, fragment, raw_query, headers, body };
        Some(Payload::Webhook(trigger::webhook::unchecked_payload(request)))
    }

    fn method(&mut self, given: Option<&Json>, webhook: Option<&WebhookTrigger>) -> String {
        let taken = webhook.map(|webhook| webhook.methods.as_slice()).unwrap_or_default();
        let usual = taken.iter().find(|method| *method == "POST").or(taken.first());
        let usual = || usual.map_or_else(|| "POST".to_owned(), Clone::clone);
        let Some(given) = given.filter(|given| !given.is_null()) else { return usual() };
        let method = given.as_str().map(str::to_ascii_uppercase);
        match method.filter(|method| !method.is_empty() && Method::from_bytes(method.as_bytes()).is_ok()) {
            Some(method) if taken.is_empty() || taken.contains(&method) => method,
            Some(method) => {
                let taken = taken.join(", ");
                self.wrong.push(format!("`method` is `{method}`, and the webhook takes {taken}"));
                usual()
            }
            None => {
                self.wrong.push("`method` is no method of HTTP, such as `POST`".to_owned());
                usual()
            }
        }
    }

    /// The encoded part of the path after the token.
    fn fragment(&mut self, given: Option<&Json>) -> String {
        match given {
            None | Some(Json::Null) => String::new(),
            Some(Json::String(path)) => {
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                format!("{slash}{}", utf8_percent_encode(path, PATH))
            }
            Some(other) => {
                self.wrong.push(format!("`path` is {}, not a text such as `/pages/17`", kind(other)));
                String::new()
            }
        }
    }

    /// The query, encoded: a list repeats its parameter.
    fn query(&mut self, given: Option<&Json>) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        match given {
            None | Some(Json::Null) => String::new(),
            Some(Json::String(raw)) => raw.trim_start_matches('?').to_owned(),
            Some(Json::Object(parameters)) => {
                let mut pairs = Vec::new();
                for (name, value) in parameters {
                    let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                    for value in values {
                        match text(value) {
                            Some(value) => pairs.push(format!("{}={}", encode(name), encode(&value))),
                            None => {
                                let found = kind(value);
                                self.wrong.push(format!(
                                    "`query.{name}` is {found}, not a text or a list of texts"
                                ));
                            }
                        }
                    }
                }
                pairs.join("&")
            }
            Some(other) => {
                self.wrong
                    .push(format!("`query` is {}, not an object or a text such as `a=1&b=2`", kind(other)));
                String::new()
            }
        }
    }

    fn headers(&mut self, given: Option<&Json>) -> Vec<(String, Vec<u8>)> {
        let headers = match given {
            None | Some(Json::Null) => return Vec::new(),
            Some(Json::Object(headers)) => headers,
            Some(other) => {
                self.wrong.push(format!("`headers` is {}, not an object", kind(other)));
                return Vec::new();
            }
        };
        let (mut read, mut names) = (Vec::new(), HashSet::new());
        for (name, value) in headers {
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                self.wrong.push(format!("`{}` is no name of a header", name.escape_debug()));
                continue;
            };
            if !names.insert(header.clone()) {
                self.wrong
                    .push(format!("`headers.{name}` is given twice; the case of a name does not matter"));
            }
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for value in values {
                match text(value).filter(|text| HeaderValue::from_bytes(text.as_bytes()).is_ok()) {
                    Some(text) => read.push((header.as_str().to_owned(), text.into_bytes())),
                    None => self.wrong.push(format!("`headers.{name}` is no text that a header can carry")),
                }
            }
        }
        read
    }

    /// The bytes of the body with their type: a text as it is, a file as its bytes, anything else as JSON.
    fn body(&mut self, given: Option<&Json>) -> (value::Data, Option<String>) {
        let value = match given {
            None | Some(Json::Null) => return (value::Data::default(), None),
            Some(Json::String(text)) => {
                return (text.as_bytes().to_vec().into(), Some("text/plain; charset=utf-8".to_owned()));
            }
            Some(value) => value,
        };
        if value.get("$file").is_some() {
            return match serde_json::from_value::<Value>(value.clone()) {
                Ok(Value::File(file)) => {
                    let content_type = Some(file.content_type.to_string()).filter(|kind| !kind.is_empty());
                    (file.data.clone(), content_type)
                }
                _ => {
                    let way = "it has `contentType`, `size`, `encoding` (`utf8` or `base64`) and `data`";
                    self.wrong.push(format!("`body.$file` is no file: {way}"));
                    (value::Data::default(), None)
                }
            };
        }
        (value.to_string().into_bytes().into(), Some("application/json".to_owned()))
    }

    /// Takes note of keys that mean nothing.
    fn only(&mut self, parts: &serde_json::Map<String, Json>, known: &[&str]) {
        for key in parts.keys().filter(|key| !known.contains(&key.as_str())) {
            let near = nearest(key, known.iter().copied().filter(|known| !parts.contains_key(*known)));
            let near = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
            let trigger = self.mount.on().keyword();
            // The names of saved payloads are taken, and need not be known.
            let shown: Vec<_> = known.iter().take(5).map(|name| format!("`{name}`")).collect();
            self.wrong.push(format!(
                "unknown key `{}`{near} A {trigger} takes {}",
                key.escape_debug(),
                shown.join(", ")
            ));
        }
    }

    fn no<T>(&mut self, wrong: String) -> Option<T> {
        self.wrong.push(wrong);
        None
    }
}

/// A scalar as a query or a header carries it.
fn text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(flag) => Some(flag.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use model::payload::WebhookPayload;
    use serde_json::json;

    use super::*;

    const HOOK: &str = "trigger: {webhook: {methods: [PUT, POST], verify: none}}\nsteps: [{set: {a: 1}}]\n";
    const TICK: &str = "trigger: {schedule: {every: 5m}}\nsteps: [{set: {a: 1}}]\n";
    const HELLO: &str =
        "trigger: {manual: {}}\ninputs: {name: {type: text, default: a}}\nsteps: [{set: {a: 1}}]\n";

    fn check(text: &str, given: Json) -> Result<Payload, String> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("automations")).expect("a folder");
        fs::write(folder.path().join("automations/a.yaml"), text).expect("a file");
        let checked = authoring::check_project(folder.path(), &[]).expect("it is checked");
        let mount = checked.catalog.automations().next().expect("one").mounts().next().expect("one");
        read(given, &mount, Timestamp::UNIX_EPOCH).map_err(|problem| problem.detail)
    }

    fn request(given: Json) -> WebhookPayload {
        match check(HOOK, given) {
            Ok(Payload::Webhook(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn missing_parts_of_a_request_have_defaults() {
        let empty = request(json!({}));
        assert_eq!((empty.method.as_str(), empty.path_fragment.as_str()), ("POST", ""));
        assert!(empty.headers.is_empty() && empty.query_parameters.is_empty() && empty.body.data.is_empty());
        let whole = request(json!({
            "method": "put", "path": "pages/1 2", "headers": {"X-Kind": "a", "x-count": 3},
            "query": {"tag": ["a&b", "c"], "page": 2}, "body": {"id": 7},
        }));
        assert_eq!((whole.method.as_str(), whole.path_fragment.as_str()), ("PUT", "pages/1 2"));
        assert_eq!(whole.headers["x-kind"], "a");
        assert_eq!(whole.headers["content-type"], "application/json");
        let query = serde_json::to_value(&whole.query_parameters).expect("JSON");
        assert_eq!(query, json!({"tag": ["a&b", "c"], "page": "2"}));
        assert_eq!(whole.body.data.in_memory().map(|bytes| &bytes[..]), Some(&b"{\"id\":7}"[..]));
        let text =
            request(json!({"query": "a=1&b=2", "body": "hi", "headers": {"Content-Type": "text/csv"}}));
        assert_eq!((&*text.body.content_type, text.raw_query.as_str()), ("text/csv", "a=1&b=2"));
    }

    #[test]
    fn a_saved_request_round_trips_even_without_optional_parts() {
        let saved = request(json!({"body": {"id": 7}, "path": "/x", "query": {"a": "1"}}));
        let json = serde_json::to_value(Payload::Webhook(saved.clone())).expect("JSON");
        assert_eq!(request(json.clone()), saved);
        let (mut some, mut short) = (json.clone(), json);
        let some_parts = some.as_object_mut().expect("an object");
        for part in ["headers", "rawQuery"] {
            some_parts.remove(part);
        }
        assert_eq!(request(some).body, saved.body);
        short["kind"] = "webhook".into();
        short["body"] = json!({"id": 8});
        short.as_object_mut().expect("an object").remove("rawQuery");
        assert_eq!(request(short).body.data.in_memory().map(|bytes| &bytes[..]), Some(&b"{\"id\":8}"[..]));
    }

    #[test]
    fn all_payload_errors_are_reported_together() {
        let wrong = check(
            HOOK,
            json!({"method": "DELETE", "boddy": {}, "query": {"a": {}}, "headers": {"a b": "1", "x": "1\n2"}, "path": 7}),
        );
        let wrong = wrong.expect_err("refused");
        for part in [
            "`DELETE`, and the webhook takes PUT, POST",
            "did you mean `body`?",
            "`query.a` is an object",
            "`a b` is no name of a header",
            "`headers.x`",
            "`path` is a number",
        ] {
            assert!(wrong.contains(part), "`{part}` is missing in: {wrong}");
        }
        assert!(check(HOOK, json!([])).expect_err("refused").contains("a list, not an object"));
        assert!(check(HOOK, json!({"kind": "manual"})).expect_err("refused").contains("inputs"));
    }

    #[test]
    fn other_triggers_accept_their_own_payload() {
        let Ok(Payload::Schedule { scheduled_at, .. }) =
            check(TICK, json!({"scheduledAt": "2026-03-02T08:30:00Z"}))
        else {
            panic!("no schedule")
        };
        assert_eq!(scheduled_at.to_string(), "2026-03-02T08:30:00Z");
        assert!(
            check(TICK, json!({"scheduledAt": 7, "at": 1}))
                .expect_err("refused")
                .contains("unknown key `at`")
        );
        let Ok(Payload::Manual { inputs }) = check(HELLO, json!({"inputs": {"name": "Ada"}})) else {
            panic!("no inputs")
        };
        assert_eq!(inputs.get("name"), Some(&Value::from("Ada")));
    }
}
