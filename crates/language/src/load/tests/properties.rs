//! Properties that hold for any text.

use proptest::prelude::*;
use text::diagnostic::{Diagnostics, Source};

use super::corpus::GOOD;
use super::load;
use crate::schema;

/// The codes of errors that the schema reports too; all others come from the loader alone.
const OF_FORM: [&str; 10] = [
    "unknown-key",
    "missing-key",
    "no-verb",
    "two-verbs",
    "unknown-value",
    "wrong-type",
    "empty-set",
    "empty-steps",
    "invalid-action",
    "conflicting-keys",
];

/// A file has a checked form or an error, never neither nor both; its partial can be checked further; and what loads is
/// valid by the schema.
fn check(text: &str, validator: &jsonschema::Validator) {
    let loaded = load(text);
    let shown = || format!("{text}\n{}", loaded.report.render(false));
    assert_eq!(loaded.value.is_some(), !loaded.report.has_errors(), "{}", shown());
    if let Some(partial) = &loaded.partial {
        assert!(loaded.report.has_errors(), "what is whole is no partial\n{}", shown());
        // Steps are found by their ids, also in what could not be read whole.
        let mut ids = std::collections::HashSet::new();
        partial.value.walk(&mut |step| assert!(ids.insert(step.id.clone()), "{}\n{}", step.id, shown()));
    }

    let diagnostics = Diagnostics::new(Source::new("test.yaml", text));
    let node = text::yaml::parse(&diagnostics);
    let Some(node) = node.filter(|_| diagnostics.error_count() == 0) else { return };
    let valid = validator.is_valid(&node.to_json());
    if loaded.value.is_some() {
        let errors: Vec<String> =
            validator.iter_errors(&node.to_json()).map(|error| error.to_string()).collect();
        assert!(valid, "it loads, but the schema says: {errors:?}\n{}", shown());
    }
    let of_form = loaded.report.diagnostics().iter().find(|diagnostic| {
        diagnostic.severity == text::Severity::Error
            && OF_FORM.contains(&diagnostic.code)
            // The schema cannot tell a missing value from `null`, which some keys allow.
            && !diagnostic.message.ends_with("found nothing")
    });
    if let Some(diagnostic) = of_form {
        assert!(!valid, "the schema does not see {}\n{}", diagnostic.code, shown());
    }
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&schema::automation(&schema::ProjectContext::default()))
        .expect("the schema is one")
}

/// A good file with some of its lines deleted, doubled, swapped, indented or with another value.
fn mutated() -> impl Strategy<Value = String> {
    let values = prop::sample::select(vec![
        "1", "-5", "true", "[]", "{}", "''", "x", "", "${{ x }}", "'${{'", "10s", "[1, a]", "{a: 1}", "a.b",
        "1.5",
    ]);
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..5_u8, values);
    (0..GOOD.len(), prop::collection::vec(change, 1..4)).prop_map(|(which, changes)| {
        let mut lines: Vec<String> = GOOD[which].1.lines().map(str::to_owned).collect();
        for (at, other, kind, value) in changes {
            if lines.is_empty() {
                break;
            }
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match kind {
                0 => {
                    lines.remove(at);
                }
                1 => lines.insert(at, lines[at].clone()),
                2 => lines.swap(at, other),
                3 => lines[at].insert_str(0, "  "),
                _ => {
                    if let Some((key, _)) = lines[at].clone().split_once(':') {
                        lines[at] = format!("{key}: {value}");
                    }
                }
            }
        }
        lines.join("\n")
    })
}

#[test]
fn a_file_with_a_removed_or_repeated_line_is_valid_or_reported() {
    let validator = validator();
    for (_, text) in GOOD {
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(at);
            check(&fewer.join("\n"), &validator);
            let mut more = lines.clone();
            more.insert(at, lines[at]);
            check(&more.join("\n"), &validator);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_change_of_a_valid_file_is_valid_or_reported(text in mutated()) {
        use std::sync::LazyLock;
        static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(validator);
        check(&text, &VALIDATOR);
    }

    #[test]
    fn no_text_makes_the_loader_panic(text in prop_oneof!["(?s).{0,200}", "[a-z:\\[\\]{}$ \"'\n|>-]{0,200}"]) {
        let loaded = load(&text);
        prop_assert_eq!(loaded.value.is_some(), !loaded.report.has_errors());
        let _ = loaded.report.render(true);
    }

    #[test]
    fn no_value_of_a_step_makes_the_loader_panic(value in "(?s)[ -~\n]{0,60}") {
        let quoted = serde_json::to_string(&value).unwrap_or_default();
        for step in ["action: log.info\n    if: V", "set: {a: V}", "forEach: V\n    steps: [{fail: V}]", "name: V\n    respond: {status: V, contentType: V, body: V, headers: {a: V}}"] {
            let text = format!("trigger: {{webhook: {{mode: sync}}}}\nsteps:\n  - {}\n", step.replace('V', &quoted));
            let loaded = load(&text);
            prop_assert_eq!(loaded.value.is_some(), !loaded.report.has_errors());
            let _ = loaded.report.render(false);
        }
    }
}
