//! Checks the responses of the API against its description.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jiff::Timestamp;
use model::payload::{TriggerCodeLog, TriggerCodeResult, WebhookPayload};
use model::{LogLevel, Payload};
use serde_json::{Value, json};
use value::{File, Map};

type Object = serde_json::Map<String, Value>;

static API: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(server::openapi()).expect("JSON"));

/// Asserts that a response matches the description of its operation.
pub(crate) fn assert_described(method: &str, path: &str, status: u16, body: &str) {
    let path = path.split('?').next().unwrap_or_default();
    let Some(operation) = operation(&method.to_ascii_lowercase(), path) else { return };
    let responses = &operation["responses"];
    let response = match &responses[status.to_string()] {
        Value::Null => &responses["default"],
        response => response,
    };
    let content = response["content"].as_object().and_then(|content| content.iter().next());
    let Some((media_type, content)) = content.filter(|(media_type, _)| media_type.ends_with("json")) else {
        return;
    };
    // Some responses are a stream on request.
    let is_stream = response["content"].get("text/event-stream").is_some() && !body.starts_with('{');
    if is_stream {
        return;
    }
    let value: Value =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{media_type}: {error} in {body}"));
    assert_eq!(
        differences("", &content["schema"], &value),
        Vec::<String>::new(),
        "{method} {path} {status}: {body}"
    );
}

fn operation<'a>(method: &str, path: &str) -> Option<&'a Value> {
    let fits = |template: &str| {
        let (given, described) = (path.split('/'), template.split('/'));
        given.clone().count() == described.clone().count()
            && given.zip(described).all(|(part, described)| described.starts_with('{') || part == described)
    };
    // A literal segment precedes a variable one, as in the router.
    let paths = API["paths"].as_object()?.iter().filter(|(template, _)| fits(template));
    let (_, item) = paths.min_by_key(|(template, _)| template.matches('{').count())?;
    item.get(method)
}

/// The names of the parameters that an operation takes after the question mark.
pub(crate) fn parameters(method: &str, path: &str) -> Vec<&'static str> {
    let operation = operation(&method.to_ascii_lowercase(), path).expect("a described operation");
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let names = parameters.filter(|parameter| parameter["in"] == "query");
    names.filter_map(|parameter| parameter["name"].as_str()).collect()
}

/// The paths at which a value differs from the component of this name.
pub(crate) fn differs_from(component: &str, value: &Value) -> Vec<String> {
    differences("", &API["components"]["schemas"][component], value)
}

/// The paths at which a value differs from a schema: another type, a missing property, or an undescribed one.
fn differences(place: &str, schema: &Value, value: &Value) -> Vec<String> {
    let schema = resolved(schema);
    // A large value omitted by `large=cut` may occur anywhere.
    if value.get("$large").is_some() {
        return Vec::new();
    }
    if let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) {
        let found = alternatives.iter().map(|alternative| differences(place, alternative, value));
        return found.min_by_key(Vec::len).unwrap_or_default();
    }
    if !has_type(schema, value) {
        return vec![format!("{place}: {value} is not {schema}")];
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        return vec![format!("{place}: {value} is not one of {words:?}")];
    }
    match value {
        Value::Object(entries) => object(place, schema, entries),
        Value::Array(items) => {
            let kinds = schema.get("prefixItems").and_then(Value::as_array);
            let items = items.iter().enumerate().flat_map(|(index, item)| {
                let kind = kinds.and_then(|kinds| kinds.get(index)).unwrap_or(&schema["items"]);
                differences(&format!("{place}[{index}]"), kind, item)
            });
            items.collect()
        }
        _ => Vec::new(),
    }
}

fn object(place: &str, schema: &Value, entries: &Object) -> Vec<String> {
    let (mut properties, mut required, mut others) = (Object::new(), Vec::new(), None);
    gather(schema, &mut properties, &mut required, &mut others);
    if properties.is_empty() && others.is_none() {
        return Vec::new();
    }
    let missing = required.iter().filter(|name| !entries.contains_key(*name));
    let mut found: Vec<_> = missing.map(|name| format!("{place}: no `{name}`")).collect();
    for (name, value) in entries {
        let place = format!("{place}.{name}");
        match properties.get(name).or(others.as_ref()) {
            Some(schema) => found.extend(differences(&place, schema, value)),
            None => found.push(format!("{place} is not described")),
        }
    }
    found
}

/// Collects the properties of an object from all parts of its schema.
fn gather(schema: &Value, properties: &mut Object, required: &mut Vec<String>, others: &mut Option<Value>) {
    let schema = resolved(schema);
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        gather(part, properties, required, others);
    }
    if let Some(own) = schema.get("properties").and_then(Value::as_object) {
        properties.extend(own.clone());
    }
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    required.extend(names.filter_map(Value::as_str).map(str::to_owned));
    if let Some(kind) = schema.get("additionalProperties").filter(|kind| kind.is_object()) {
        *others = Some(kind.clone());
    }
}

fn resolved(schema: &Value) -> &Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => resolved(API.pointer(reference.trim_start_matches('#')).expect("a component")),
        None => schema,
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    };
    match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
    }
}

/// The paths of the description where a schema allows any object or any value without naming it.
fn untyped(place: &str, schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| untyped(place, item, found)),
        Value::Object(entries) => {
            let parts = ["properties", "additionalProperties", "allOf", "oneOf"];
            let is_object = entries
                .get("type")
                .is_some_and(|kind| kind == "object" || kind == &json!(["object", "null"]));
            if is_object && !parts.iter().any(|part| entries.contains_key(*part)) {
                found.push(place.to_owned());
            }
            for (key, inner) in entries {
                if matches!(key.as_str(), "schema" | "items" | "additionalProperties") && allows_all(inner) {
                    found.push(format!("{place}.{key}"));
                }
                untyped(&format!("{place}.{key}"), inner, found);
            }
        }
        _ => {}
    }
}

fn allows_all(schema: &Value) -> bool {
    schema.as_object().is_some_and(|entries| entries.keys().all(|key| key == "description"))
}

#[test]
fn no_operation_accepts_or_returns_an_untyped_object() {
    let mut found = Vec::new();
    untyped("", &API, &mut found);
    assert_eq!(found, Vec::<String>::new());
    let schemas = API["components"]["schemas"].as_object().expect("schemas").iter();
    let any: Vec<_> = schemas.filter(|(_, schema)| allows_all(schema)).map(|(name, _)| name).collect();
    assert_eq!(any, ["Json"]);
}

/// Two types of one name would share one description, so names must be unique.
#[test]
fn schema_names_are_unique() {
    let mut names = BTreeMap::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for path in
        sources(&crates).into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
    {
        let text = fs::read_to_string(&path).expect("a source");
        let mut add = |part: &str| {
            let name: String = part.chars().take_while(|char| char.is_alphanumeric()).collect();
            let before = names.insert(name.clone(), path.clone());
            assert_eq!(before, None, "{name} of {}", path.display());
        };
        let types = text
            .split("#[derive(")
            .skip(1)
            .filter(|part| part.split_once(")]").is_some_and(|(derived, _)| derived.contains("ToSchema")));
        for part in types {
            let declared = part.find("struct ").map(|at| at + 7);
            let declared =
                part.find("enum ").map(|at| at + 5).into_iter().chain(declared).min().expect("a type");
            let shown = part[..declared].find("as = ").map_or(declared, |at| at + 5);
            add(&part[shown..]);
        }
    }
    assert!(names.len() > 100, "{names:?}");
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn payloads_are_described_as_they_are_stored() {
    let (at, text) = (Timestamp::UNIX_EPOCH, || "text".to_owned());
    let log = TriggerCodeLog { level: LogLevel::Warn, message: text() };
    let decided = TriggerCodeResult {
        results: Some(value::Value::Null),
        declined: true,
        logs: vec![log],
        response: None,
    };
    let payloads = [
        Payload::Webhook(WebhookPayload {
            method: text(),
            path_fragment: text(),
            query_parameters: Map::new(),
            raw_query: text(),
            headers: std::iter::once((text(), text())).collect(),
            body: File { content_type: "text/plain".into(), filename: Some("a".into()), data: "hi".into() },
            code_result: Some(Box::new(decided)),
        }),
        Payload::Schedule { scheduled_at: at, started_at: at, timezone: text() },
        Payload::Poll { data: value::Value::Null, polled_at: at },
        Payload::manual(Map::new()),
    ];
    for payload in payloads {
        let stored = serde_json::to_value(&payload).expect("JSON");
        assert_eq!(differs_from("StoredPayload", &stored), Vec::<String>::new(), "{stored}");
    }
}
