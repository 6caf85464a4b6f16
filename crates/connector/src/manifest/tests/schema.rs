//! Tests that compare the schema of manifests with their reader.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use pretty_assertions::assert_eq;
use serde_json::Value;
use text::diagnostic::Source;

use super::{GET, LIST, manifest};
use crate::manifest::read::read;

static SCHEMA: LazyLock<Value> = LazyLock::new(crate::manifest_schema);

static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    assert!(jsonschema::meta::is_valid(&SCHEMA), "the schema is no schema");
    jsonschema::validator_for(&SCHEMA).expect("the schema compiles")
});

fn objections(text: &str) -> Vec<String> {
    let json = text::yaml::parse_text("shop.yaml", text).expect("YAML").to_json();
    VALIDATOR.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn manifests_that_the_parser_accepts_match_the_schema() {
    let own = [include_str!("../../../manifests/wiki.yaml"), include_str!("../../../manifests/http.yaml")];
    let page = include_str!("../../../../../docs/src/connector-manifests.md");
    let shop = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the example");
    for text in own.into_iter().chain([shop]) {
        assert_eq!(objections(text), Vec::<String>::new());
    }
    for action in [GET, LIST] {
        assert_eq!(objections(&manifest(action)), Vec::<String>::new());
    }
}

#[test]
fn malformed_manifests_do_not_match_the_schema() {
    let good = manifest(GET);
    for (right, wrong) in [
        ("connector: shop", "connector: Shop"),
        ("title: Shop", "titel: Shop"),
        ("paging:\n  input: cursor", "paging:\n  inputs: cursor"),
        ("{type: list, items: text}", "{type: list}"),
        ("{type: text}", "{type: txt}"),
        ("request: GET /items", "request: items"),
        ("tags: query tag", "tags: nowhere tag"),
        ("example: {with", "exampel: {with"),
    ] {
        assert!(good.contains(right), "{right}");
        assert_ne!(objections(&good.replacen(right, wrong, 1)), Vec::<String>::new(), "{wrong}");
    }
}

/// Returns the keys that the reader offers in place of the unknown key `zzz`.
fn allowed(text: &str) -> BTreeSet<String> {
    let natives: &crate::manifest::Natives = &[("request", &|_, _| Err("no".to_owned()))];
    let (_, report) = read(Arc::new(Source::new("shop.yaml", text)), natives);
    let found = report
        .diagnostics()
        .iter()
        .find(|found| found.code == "unknown-key" && found.message.contains("`zzz`"));
    found.unwrap_or_else(|| panic!("{text}\n{}", report.render(false))).allowed.iter().cloned().collect()
}

#[test]
fn the_reader_allows_exactly_the_keys_of_the_schema() {
    let check = |pointer: &str, texts: &[&str]| {
        let keys = SCHEMA.pointer(&format!("{pointer}/properties")).and_then(Value::as_object);
        let keys: BTreeSet<String> = keys.unwrap_or_else(|| panic!("{pointer}")).keys().cloned().collect();
        let allowed: BTreeSet<String> = texts.iter().flat_map(|text| allowed(text)).collect();
        assert_eq!(keys, allowed, "{pointer}");
    };
    let typed = |text: &str| {
        let kinds = ["integer", "choice", "list", "map", "object", "text"];
        kinds.map(|kind| text.replace("TYPE", kind)).to_vec()
    };
    let check_typed = |pointer: &str, text: &str| {
        let texts = typed(text);
        check(pointer, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    };
    check("", &["zzz: 1"]);
    check("/$defs/connection", &["connections: {a: {zzz: 1}}"]);
    check("/$defs/connection/properties/baseUrl", &["connections: {a: {baseUrl: {zzz: 1}}}"]);
    check("/$defs/connection/properties/auth", &["connections: {a: {baseUrl: {input: a}, auth: {zzz: 1}}}"]);
    check(
        "/$defs/connection/properties/auth/properties/basic",
        &["connections: {a: {auth: {basic: {zzz: 1}}}}"],
    );
    check(
        "/$defs/connection/properties/auth/properties/path",
        &["connections: {a: {auth: {path: {zzz: 1}}}}"],
    );
    check(
        "/$defs/connection/properties/auth/properties/sigv4",
        &["connections: {a: {auth: {sigv4: {zzz: 1}}}}"],
    );
    let session = "/$defs/connection/properties/auth/properties/session";
    check(session, &["connections: {a: {auth: {session: {zzz: 1}}}}"]);
    for key in ["token", "send"] {
        let text = format!("connections: {{a: {{auth: {{session: {{{key}: {{zzz: 1}}}}}}}}}}");
        check(&format!("{session}/properties/{key}"), &[&text]);
    }
    check("/$defs/credentialField", &["connections: {a: {auth: {header: [{zzz: 1}]}}}"]);
    check("/$defs/credentialField", &["connections: {a: {auth: {query: {zzz: 1}}}}"]);
    check_typed("/$defs/connectionInput", "connections: {a: {inputs: {b: {type: TYPE, zzz: 1}}}}");
    check_typed("/$defs/declaredInput", "inputs: {b: {type: TYPE, zzz: 1}}");
    check_typed("/$defs/field", "inputs: {b: {type: object, fields: {c: {type: TYPE, zzz: 1}}}}");
    check_typed("/$defs/type/anyOf/1", "types: {B: {type: TYPE, zzz: 1}}");
    check_typed(
        "/$defs/resultField/anyOf/1",
        "types: {B: {type: object, fields: {c: {type: TYPE, zzz: 1}}}}",
    );
    check("/properties/paging", &["paging: {zzz: 1}", "paging: {style: page, zzz: 1}"]);
    check(
        "/$defs/action/properties/paging/anyOf/1",
        &["paging: {input: a, next: []}\nactions: {a: {paging: {zzz: 1}}}"],
    );
    check("/properties/paging/properties/next/items", &["paging: {next: [{zzz: 1}]}"]);
    check("/properties/errors", &["errors: {zzz: 1}"]);
    check("/properties/errors/properties/when", &["errors: {when: {zzz: 1}}"]);
    check("/properties/idempotency/anyOf/1", &["idempotency: {zzz: 1}"]);
    check("/properties/rate", &["rate: {zzz: 1}"]);
    check("/properties/proof", &["proof: {zzz: 1}"]);
    check("/$defs/action/properties/encoding/anyOf/1", &["actions: {a: {encoding: {zzz: 1}}}"]);
    check("/$defs/action/properties/graphql", &["actions: {a: {graphql: {zzz: 1}}}"]);
    check("/$defs/action/properties/redirect", &["actions: {a: {redirect: {zzz: 1}}}"]);
    check("/$defs/action", &["actions: {a: {zzz: 1}}"]);
    check(
        "/$defs/action/properties/inputs/additionalProperties/anyOf/1",
        &["actions: {a: {inputs: {b: {zzz: 1}}}}"],
    );
    check("/$defs/example", &["actions: {a: {example: {zzz: 1}}}"]);
    check("/properties/natives/properties/request", &["natives: {request: {zzz: 1}}"]);
}
