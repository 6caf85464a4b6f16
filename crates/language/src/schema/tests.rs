//! The schemas against the loader. That they agree on changed files is a property of the loader's tests.

use std::sync::Arc;

use model::action::InputType;
use text::diagnostic::Source;
use text::yaml::parse_text;

use super::*;
use crate::load::tests::corpus::{GOOD, GOOD_CONNECTIONS};
use crate::load::tests::load;

fn json(text: &str) -> Value {
    parse_text("test.yaml", text).unwrap_or_else(|report| panic!("{}", report.render(false))).to_json()
}

fn validator(schema: &Value) -> jsonschema::Validator {
    assert!(jsonschema::meta::is_valid(schema), "the schema is no schema");
    jsonschema::validator_for(schema).expect("the schema compiles")
}

#[test]
fn valid_files_match_the_schema() {
    let automation = validator(&automation(&ProjectContext::default()));
    for (name, text) in GOOD {
        let errors: Vec<String> =
            automation.iter_errors(&json(text)).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
    let connection = validator(&connection(&ProjectContext::default()));
    for (name, text) in GOOD_CONNECTIONS {
        assert!(connection.is_valid(&json(text)), "{name}");
    }
}

#[test]
fn malformed_files_are_rejected_by_schema_and_loader() {
    let validator = validator(&automation(&ProjectContext::default()));
    for text in [
        "steps: []",
        "trigger: {manual: {}}",
        "trigger: {}\nsteps: []",
        "trigger: {manual: {}, webhook: {}}\nsteps: []",
        "trigger: {manual: {}}\nsteps: [{}]",
        "trigger: {manual: {}}\nsteps: [{if: a}]",
        "trigger: {manual: {}}\nsteps: [{action: log}]",
        "trigger: {manual: {}}\nsteps: [{action: a.b, set: {c: 1}}]",
        "trigger: {manual: {}}\nsteps: [{action: a.b, retry: {}}]",
        "trigger: {manual: {}}\nsteps: [{action: a.b, onError: []}]",
        "trigger: {manual: {}}\nsteps: [{if: a, then: []}]",
        "trigger: {manual: {}}\nsteps: [{then: [{action: a.b}]}]",
        "trigger: {manual: {}}\nsteps: [{stop: }]",
        "trigger: {manual: {}}\nsteps: [{set: {}}]",
        "trigger: {manual: {}}\nsteps: []\nconfigVars: {a: {secret: true}}",
        "trigger: {manual: {}}\nsteps: []\nconfigVars: {a: {value: 1, secert: true}}",
        "trigger: {manual: {}}\nsteps: []\ntimeout: 5",
        "trigger: {webhook: {respond: {status: 99}}}\nsteps: []",
        "trigger: {webhook: {mode: sync}}\nsteps: [{respond: {body: 1, file: '${{ a }}'}}]",
        "trigger: {schedule: {every: 5m, cron: '* * * * *'}}\nsteps: []",
        "trigger: {schedule: {daily: {at: '24:00'}}}\nsteps: []",
        "id: A\ntrigger: {manual: {}}\nsteps: []",
        "trigger: {event: order.paid, data: {a: string}}\nsteps: []",
        "trigger: {manual: {}}\ninputs: {a: choice}\nsteps: []",
    ] {
        assert!(!validator.is_valid(&json(text)), "the schema takes:\n{text}");
        assert!(load(text).value.is_none(), "the loader takes:\n{text}");
    }
}

/// The keys that the loader suggests in place of the unknown key `zzz`.
fn allowed(text: &str) -> Vec<String> {
    let report = load(text).report;
    let found = report
        .diagnostics()
        .iter()
        .find(|found| found.code == "unknown-key" && found.message.contains("`zzz`"));
    found.unwrap_or_else(|| panic!("{text}\n{}", report.render(false))).allowed.clone()
}

#[test]
fn the_loader_allows_exactly_the_keys_of_the_schema() {
    let schema = automation(&ProjectContext::default());
    let keys = |pointer: &str| {
        let properties =
            schema.pointer(pointer).and_then(|found| found.get("properties")).and_then(Value::as_object);
        let mut keys: Vec<String> =
            properties.unwrap_or_else(|| panic!("{pointer}")).keys().cloned().collect();
        keys.sort();
        keys
    };
    let check = |pointer: &str, text: &str| {
        let mut allowed = allowed(text);
        allowed.sort();
        assert_eq!(keys(pointer), allowed, "{pointer}");
    };
    check("", "zzz: 1");
    check("/properties/trigger", "trigger: {zzz: 1}");
    check("/properties/trigger/properties/webhook/anyOf/0", "trigger: {webhook: {zzz: 1}}");
    check(
        "/properties/trigger/properties/webhook/anyOf/0/properties/respond",
        "trigger: {webhook: {respond: {zzz: 1}}}",
    );
    check("/properties/trigger/properties/schedule", "trigger: {schedule: {zzz: 1}}");
    for cadence in ["hourly", "daily", "weekly"] {
        let pointer = format!("/properties/trigger/properties/schedule/properties/{cadence}");
        check(&pointer, &format!("trigger: {{schedule: {{{cadence}: {{zzz: 1}}}}}}"));
    }
    check("/properties/inputs/additionalProperties/anyOf/1", "inputs: {a: {zzz: 1}}");
    check(
        "/properties/trigger/properties/data/additionalProperties/anyOf/1",
        "trigger: {event: order.paid, data: {a: {zzz: 1}}}",
    );
    check("/properties/configVars/additionalProperties/then", "configVars: {a: {value: 1, zzz: 1}}");
    check("/properties/retry/anyOf/1", "retry: {max: 1, zzz: 1}");
    check("/properties/concurrency", "concurrency: {zzz: 1}");
    check("/properties/retention", "retention: {zzz: 1}");
    for row in VERBS {
        let marks: String = row.marks.iter().map(|mark| format!(", {mark}: x")).collect();
        check(&format!("/$defs/{}Step", row.word), &format!("steps: [{{zzz: 1{marks}}}]"));
    }
    check("/$defs/every.retry/anyOf/1", "steps: [{action: a.b, retry: {zzz: 1}}]");
    check("/$defs/respondStep/properties/respond", "steps: [{respond: {zzz: 1}}]");
    check("/$defs/stopStep/properties/stop", "steps: [{stop: {zzz: 1}}]");
}

/// The keys of a schema without a sentence that says what they mean, by their place.
fn unexplained(schema: &Value, title: &str) -> Vec<String> {
    fn visit(root: &Value, schema: &Value, place: &str, bare: &mut Vec<String>) {
        let Some(map) = schema.as_object() else { return };
        for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let own = property.get("description").is_some();
            let target = property.get("$ref").filter(|_| !own).and_then(Value::as_str);
            let target = target.and_then(|to| to.strip_prefix('#'));
            let property = target.and_then(|pointer| root.pointer(pointer)).unwrap_or(property);
            let about = property.get("description").and_then(Value::as_str).unwrap_or_default();
            // The inputs of an action are described where its schema is assembled.
            let plain = property.get("const").is_none() && *property != json!(false);
            if plain && (about.len() < 8 || !about.ends_with(['.', '`', ')'])) {
                bare.push(format!("{place}.{name}"));
            }
        }
        for (name, inner) in map {
            match inner {
                Value::Array(items) => {
                    items.iter().for_each(|item| visit(root, item, &format!("{place}.{name}"), bare))
                }
                _ => visit(root, inner, &format!("{place}.{name}"), bare),
            }
        }
    }
    let mut bare = Vec::new();
    visit(schema, schema, title, &mut bare);
    bare
}

#[test]
fn every_key_has_a_description() {
    let (action, input) = (create(), spec("host", InputType::Text));
    let around = ProjectContext {
        actions: vec![&action],
        connection_types: vec![ConnectionType {
            name: "shop.key",
            title: "API key",
            description: None,
            inputs: vec![&input],
        }],
        connections: vec![("mainShop", "shop.key"), ("other", "wiki.basic")],
    };
    assert_eq!(unexplained(&automation(&around), "automation"), Vec::<String>::new());
    assert_eq!(unexplained(&connection(&around), "connection"), Vec::<String>::new());
}

fn spec(name: &str, kind: InputType) -> InputSpec {
    let description = Some(format!("The {name} of the order."));
    InputSpec { name: name.into(), kind, required: false, default: None, description }
}

/// An action with an input of every type.
fn create() -> ActionSpec {
    let words = || InputType::Choice { options: ["open".to_owned(), "2".to_owned()].into() };
    let amount =
        InputSpec { required: true, ..spec("amount", InputType::Integer { min: Some(1), max: Some(9) }) };
    let inputs = vec![
        InputSpec { required: true, ..spec("title", InputType::Text) },
        InputSpec {
            default: Some(value::Value::from(5)),
            ..spec("limit", InputType::Integer { min: None, max: Some(250) })
        },
        spec("state", words()),
        spec("states", InputType::List { items: Box::new(words()) }),
        spec("ids", InputType::List { items: Box::new(InputType::Text) }),
        spec("line", InputType::Object { fields: vec![amount, spec("note", InputType::Text)] }),
        spec("labels", InputType::Map { values: Box::new(InputType::Text) }),
        spec("urgent", InputType::Boolean),
        spec("total", InputType::Number),
        spec("scan", InputType::File),
        spec("data", InputType::Any),
    ];
    ActionSpec {
        name: "shop.create".into(),
        title: "Create an order".into(),
        description: None,
        effect: model::Effect::Write,
        connections: vec!["shop.key".into()],
        connection_required: true,
        inputs,
        result: None,
        results: model::ResultType::Any,
        example: value::Value::Null,
    }
}

#[test]
fn the_inputs_of_a_step_are_those_of_its_action() {
    let action = create();
    let around = ProjectContext { actions: vec![&action], ..ProjectContext::default() };
    let validator = validator(&automation(&around));
    let check = |step: &str, fine: bool| {
        let text = format!("trigger: {{manual: {{}}}}\nsteps: [{step}]");
        let errors: Vec<String> =
            validator.iter_errors(&json(&text)).map(|error| error.to_string()).collect();
        assert_eq!(errors.is_empty(), fine, "{step}: {errors:?}");
    };
    let with = |with: &str, fine: bool| {
        check(&format!("{{action: shop.create, connection: a, with: {{title: x, {with}}}}}"), fine)
    };
    for fine in [
        "limit: 250",
        "limit: '7'",
        "limit: '${{ inputs.n }}'",
        "limit: null",
        "state: open",
        "state: 2",
        "state: '${{ a }}'",
        "states: [open, 2]",
        "states: open",
        "states: 'open,2'",
        "ids: [a, 1]",
        "ids: 1",
        "line: {amount: 1}",
        "line: {amount: '${{ a }}', note: b}",
        "line: '${{ a }}'",
        "labels: {a: b, c: 1}",
        "urgent: true",
        "urgent: '${{ a }}'",
        "total: 1.5",
        "total: '1.5'",
        "scan: text",
        "data: {any: [thing]}",
    ] {
        with(fine, true);
    }
    for wrong in [
        "limit: 251",
        "limit: many",
        "limit: true",
        "state: closed",
        "states: {a: 1}",
        "ids: {a: 1}",
        "line: {}",
        "line: {amount: 10}",
        "line: {amount: 1, more: 2}",
        "line: 1",
        "labels: [a]",
        "labels: {a: [b]}",
        "urgent: 'true'",
        "total: much",
        "scan: 1",
        "titel: x",
    ] {
        with(wrong, false);
    }
    check("{action: shop.create, connection: a}", false);
    // `defaults` may have the connection.
    check("{action: shop.create, with: {title: x}}", true);
    check("{action: shop.creat, connection: a, with: {title: x}}", false);
    check("{action: other.create, with: {whatever: 1}}", true);
}

#[test]
fn the_loader_allows_exactly_the_connection_keys_of_the_schema() {
    let source = Arc::new(Source::new("c.yaml", "type: a.b\nzzz: 1\n"));
    let report = crate::load::connection(source, "c").report;
    let schema = connection(&ProjectContext::default());
    let keys: Vec<&String> = schema["properties"].as_object().expect("it has keys").keys().collect();
    assert_eq!(keys, report.diagnostics()[0].allowed.iter().collect::<Vec<_>>());
}
