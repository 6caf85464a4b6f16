//! Compares the schemas for editors with the checker, for all actions.

use std::path::Path;
use std::sync::LazyLock;

use authoring::{check_project, check_text};
use catalog::Catalog;
use proptest::prelude::*;

use crate::checking::shipped;
use crate::checking_shipped::mutated;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    crate::common::workers();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    check_project(&root, &[]).expect("the connectors load").catalog
});

static AUTOMATION: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema = language::schema::automation(&catalog::schema_context(&CATALOG));
    assert!(jsonschema::meta::is_valid(&schema), "the schema is no schema");
    jsonschema::validator_for(&schema).expect("the schema compiles")
});

/// Returns the schema errors of a text, or none if it does not parse.
fn objections(text: &str) -> Vec<String> {
    let Ok(node) = text::yaml::parse_text("test.yaml", text) else { return Vec::new() };
    AUTOMATION
        .iter_errors(&node.to_json())
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn the_examples_are_valid_by_their_schema() {
    for (path, text) in shipped() {
        assert_eq!(objections(&text), Vec::<String>::new(), "{}", path.display());
    }
}

#[test]
fn the_connection_schema_agrees_with_the_checker() {
    let schema = language::schema::connection(&catalog::schema_context(&CATALOG));
    assert!(jsonschema::meta::is_valid(&schema), "the schema is no schema");
    let validator = jsonschema::validator_for(&schema).expect("the schema compiles");
    let check = |text: &str, fine: bool| {
        let json = text::yaml::parse_text("c.yaml", text).expect("YAML").to_json();
        let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
        assert_eq!(errors.is_empty(), fine, "{text}: {errors:?}");
        assert_eq!(!check_text(&CATALOG, "connections/c.yaml", text).has_errors(), fine, "{text}");
    };
    check("type: wiki.basic\nwith: {email: a@b.example, host: h, apiToken: '${{ secrets.t }}'}", true);
    check("type: wiki.basic\nwith: {email: a@b.example}", false);
    check(
        "type: wiki.basic\nwith: {email: a@b.example, host: h, apiToken: '${{ secrets.t }}', hots: h}",
        false,
    );
    check("type: wiki.basci\nwith: {}", false);
    check("type: http.bearer\nwith: {baseUrl: 'https://a.example', token: '${{ secrets.t }}'}", true);
}

#[test]
fn a_value_accepted_by_the_checker_is_valid_by_the_schema() {
    let mut taken = 0;
    for (path, text) in shipped() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((key, _)) = line.split_once(": ").filter(|(key, _)| !key.contains('#')) else {
                continue;
            };
            for value in ["{q: '${{ automation.id }}'}", "[a, b]", "'5'", "null"] {
                let changed = format!("{key}: {value}");
                let mut lines = lines.clone();
                lines[at] = &changed;
                let text = lines.join("\n");
                if !check_text(&CATALOG, "automations/test.yaml", &text).has_errors() {
                    taken += 1;
                    assert_eq!(objections(&text), Vec::<String>::new(), "{}\n{changed}", path.display());
                }
            }
        }
    }
    assert!(taken > 100, "{taken}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_file_without_errors_is_valid_by_its_schema(text in mutated()) {
        if !check_text(&CATALOG, "automations/test.yaml", &text).has_errors() {
            prop_assert_eq!(objections(&text), Vec::<String>::new(), "{}", text);
        }
    }
}
