//! The schemas against the loader. That they agree on changed files is a property of the loader's tests.

use std::sync::Arc;

use super::*;
use crate::diagnostic::Source;
use crate::load::tests::corpus::{GOOD, GOOD_CONNECTIONS};
use crate::load::tests::load;
use crate::yaml::parse_text;

fn json(text: &str) -> Value {
    parse_text("test.yaml", text).unwrap_or_else(|report| panic!("{}", report.render(false))).to_json()
}

fn validator(schema: &Value) -> jsonschema::Validator {
    assert!(jsonschema::meta::is_valid(schema), "the schema is no schema");
    jsonschema::validator_for(schema).expect("the schema compiles")
}

#[test]
fn good_files_are_valid() {
    let automation = validator(&automation());
    for (name, text) in GOOD {
        let errors: Vec<String> =
            automation.iter_errors(&json(text)).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
    let connection = validator(&connection());
    for (name, text) in GOOD_CONNECTIONS {
        assert!(connection.is_valid(&json(text)), "{name}");
    }
}

#[test]
fn files_of_the_wrong_form_are_invalid_for_both() {
    let validator = validator(&automation());
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
    ] {
        assert!(!validator.is_valid(&json(text)), "the schema takes:\n{text}");
        assert!(load(text).value.is_none(), "the loader takes:\n{text}");
    }
}

/// What the loader says may stand where the unknown key `zzz` is.
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
    let schema = automation();
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
    check("/properties/inputs/additionalProperties", "inputs: {a: {zzz: 1}}");
    check("/properties/configVars/additionalProperties/then", "configVars: {a: {value: 1, zzz: 1}}");
    check("/properties/retry/anyOf/1", "retry: {max: 1, zzz: 1}");
    check("/properties/concurrency", "concurrency: {zzz: 1}");
    check("/properties/retention", "retention: {zzz: 1}");
    for row in VERBS {
        let marks: String = row.marks.iter().map(|mark| format!(", {mark}: x")).collect();
        check(&format!("/$defs/{}Step", row.word), &format!("steps: [{{zzz: 1{marks}}}]"));
    }
    check("/$defs/actionStep/properties/retry/anyOf/1", "steps: [{action: a.b, retry: {zzz: 1}}]");
    check("/$defs/respondStep/properties/respond", "steps: [{respond: {zzz: 1}}]");
    check("/$defs/stopStep/properties/stop", "steps: [{stop: {zzz: 1}}]");
}

#[test]
fn every_key_is_explained() {
    fn visit(schema: &Value, place: &str, bare: &mut Vec<String>) {
        let Some(map) = schema.as_object() else { return };
        for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let about = property.get("description").and_then(Value::as_str).unwrap_or_default();
            if about.len() < 8 || !about.ends_with(['.', '`']) {
                bare.push(format!("{place}.{name}"));
            }
        }
        for (name, inner) in map {
            match inner {
                Value::Array(items) => {
                    items.iter().for_each(|item| visit(item, &format!("{place}.{name}"), bare))
                }
                _ => visit(inner, &format!("{place}.{name}"), bare),
            }
        }
    }
    let mut bare = Vec::new();
    visit(&automation(), "automation", &mut bare);
    visit(&connection(), "connection", &mut bare);
    assert_eq!(bare, Vec::<String>::new());
}

#[test]
fn the_schemas_connection_is_the_loaders() {
    let source = Arc::new(Source::new("c.yaml", "type: a.b\nzzz: 1\n"));
    let report = crate::load::connection(source, "c").report;
    let schema = connection();
    let keys: Vec<&String> = schema["properties"].as_object().expect("it has keys").keys().collect();
    assert_eq!(keys, report.diagnostics()[0].allowed.iter().collect::<Vec<_>>());
}
