//! A new automation for a payload that has come already.

use std::fmt::Write as _;

use catalog::Catalog;
use expression::Expression;
use model::AutomationId;
use model::payload::Payload;
use text::diagnostic::Span;
use value::{Map, Value};

use crate::test_suite::{is_pattern, start_of};

use super::{Kind, NewAutomation, new_automation};

/// The maximum number of fields of a payload that the first step of a new automation reads.
const MAX_FIELDS: usize = 20;

/// Writes the texts of a new automation for a payload that has come already: its first step reads the fields of the payload,
/// and its test starts with it, without credentials. `source` says in words where the payload comes from.
///
/// # Errors
/// The payload does not belong to this kind of trigger, or cannot be written in a test; with the reason.
pub fn automation_for_payload(
    catalog: &Catalog,
    (kind, id, name): (&Kind, &AutomationId, &str),
    source: &str,
    payload: &Payload,
) -> Result<NewAutomation, String> {
    let (key, mut start) = start_of(payload)?;
    let (root, data) = match (kind.name, payload) {
        ("webhook", Payload::Webhook(_)) => {
            let body = start.as_map().and_then(|parts| parts.get("body")).cloned();
            ("trigger.results.body.data", body.unwrap_or_default())
        }
        ("poll" | "event", Payload::Poll { data, .. }) => ("trigger.results.body.data", data.clone()),
        ("event" | "ownEvent" | "failure", Payload::Emitted(event)) => {
            ("trigger.results.body.data", event.data.clone())
        }
        ("manual", Payload::Manual { inputs }) => ("inputs", Value::from(inputs.clone())),
        _ => return Err(format!("this payload starts no automation with the trigger `{}`", kind.name)),
    };
    let mut new = new_automation(catalog, kind, id, name);
    let mut text = new.trigger_text().to_owned();
    if let Payload::Webhook(request) = payload {
        text = text.replacen("methods: [POST]", &format!("methods: [{}]", request.method), 1);
    }
    let fields = fields(root, &data);
    let mut values = Map::new();
    // Writing to a text cannot fail.
    if let Payload::Manual { .. } = payload
        && !fields.is_empty()
    {
        start = Value::from(fields.iter().cloned().collect::<Map>());
        text.push_str("\ninputs:\n");
        for (field, value) in &fields {
            let _ = writeln!(text, "  {field}: {{type: {}}}", input_type(value));
        }
    }
    let _ = write!(
        text,
        "\n# The fields of {source}. An expression in ${{{{ }}}} is evaluated when its step runs.\nsteps:\n  - id: received\n    set:\n"
    );
    for (field, value) in &fields {
        let _ = writeln!(text, "      {field}: ${{{{ {root}.{field} }}}}");
        values.insert(field.as_str(), value.clone());
    }
    if fields.is_empty() {
        let _ = writeln!(text, "      data: ${{{{ {root} }}}}");
        values.insert("data", data);
    }
    new.text = text;
    let result = Value::from(values);
    let expect = if is_pattern(&result) {
        format!("result: {}", result.to_json())
    } else {
        "outcome: succeeded".to_owned()
    };
    let head = new.test_head();
    let name = Value::from(format!("as in {source}")).to_json();
    new.test = format!(
        "{head}tests:\n  - name: {name}\n    {key}: {}\n    expect:\n      {expect}\n",
        start.to_json()
    );
    Ok(new)
}

/// The fields of a payload that a variable can be named after.
fn fields(root: &str, data: &Value) -> Vec<(String, Value)> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
            // A word that YAML reads as another value would have to be quoted.
            && !["true", "false", "null", "yes", "no", "on", "off"].contains(&name.to_lowercase().as_str())
            && Expression::compile(&format!("{root}.{name}"), Span::default()).is_ok()
    };
    let named = data.as_map().into_iter().flat_map(|map| map.iter()).filter(|(name, _)| is_name(name));
    named.take(MAX_FIELDS).map(|(name, value)| (name.to_string(), value.clone())).collect()
}

/// The type of an input that takes a value.
fn input_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::String(_) => "text",
        _ => "any",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_automation_for_a_payload_reads_its_fields_and_its_test_loads() {
        let checked =
            crate::check_project(tempfile::tempdir().expect("a folder").path(), &[]).expect("connectors");
        let id = AutomationId::parse("order-desk").expect("an id");
        let request = serde_json::json!({"kind": "webhook", "method": "PUT", "pathFragment": "a", "queryParameters": {},
            "headers": {"content-type": "application/json", "authorization": "canary", "x-kind": "b"},
            "body": {"$file": {"contentType": "application/json", "encoding": "utf8", "size": 35,
                "data": "{\"id\": 7, \"a b\": 1, \"true\": 2, \"if\": 3}"}}});
        let list = serde_json::json!({"kind": "poll", "data": [1, 2], "polledAt": "2026-03-02T08:00:00Z"});
        let inputs = serde_json::json!({"kind": "manual", "inputs": {"name": "Ada", "times": 3, "tags": [], "on": true}});
        for (kind, payload, expected) in [
            ("webhook", request, "id: ${{ trigger.results.body.data.id }}"),
            ("poll", list.clone(), "data: ${{ trigger.results.body.data }}"),
            ("manual", inputs, "times: ${{ inputs.times }}"),
            ("manual", serde_json::json!({"kind": "manual", "inputs": {}}), "data: ${{ inputs }}"),
        ] {
            let payload: Payload = serde_json::from_value(payload).expect("a payload");
            let kind = Kind::find(kind).expect("a kind");
            let new = automation_for_payload(&checked.catalog, (kind, &id, "Order"), "execution 1", &payload);
            let new = new.expect("it is written");
            assert!(new.text.contains(expected), "{}", new.text);
            assert!(!new.text.contains("canary") && !new.test.contains("canary"), "{}", new.test);
            let report = crate::check_text(&checked.catalog, "automations/order-desk.yaml", &new.text);
            assert!(report.is_empty(), "{}\n{}", new.text, report.render(false));
            let source = std::sync::Arc::new(text::Source::new("order-desk.test.yaml", new.test.as_str()));
            let loaded = language::load::test_suite(source, "order-desk");
            assert!(loaded.report.is_empty(), "{}\n{}", new.test, loaded.report.render(false));
        }
        let payload: Payload = serde_json::from_value(list).expect("a payload");
        let manual = Kind::find("manual").expect("a kind");
        assert!(automation_for_payload(&checked.catalog, (manual, &id, "Order"), "it", &payload).is_err());
    }
}
