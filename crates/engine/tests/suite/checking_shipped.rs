//! Diagnostics of the shipped automations with one mistake, and of any text made from them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use authoring::{check_project, check_text};
use catalog::Catalog;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use text::Severity;

use crate::checking::{catalog, shipped};

/// Keys of the language that occur on a line of their own and are never names.
const KEYS: [&str; 18] = [
    "trigger",
    "webhook",
    "schedule",
    "mode",
    "steps",
    "action",
    "connection",
    "with",
    "forEach",
    "then",
    "else",
    "parallel",
    "respond",
    "onError",
    "retry",
    "concurrency",
    "outputs",
    "configVars",
];

#[test]
fn one_misspelt_key_is_one_error() {
    crate::common::workers();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = check_project(&root, &[]).expect("the connectors load").catalog;
    let mut tried = 0;
    for (path, text) in shipped() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let bare = line.trim_start().trim_start_matches("- ");
            let Some(key) = KEYS.into_iter().find(|key| bare.starts_with(&format!("{key}:"))) else {
                continue;
            };
            let (first, last) = key.split_at(key.len() - 2);
            let swapped: String = last.chars().rev().collect();
            let wrong = line.replacen(&format!("{key}:"), &format!("{first}{swapped}:"), 1);
            let mut changed = lines.clone();
            changed[at] = &wrong;
            let changed = changed.join("\n");
            let report = check_text(&catalog, "automations/changed.yaml", &changed);
            let errors: Vec<_> =
                report.entries().into_iter().filter(|e| e.severity == Severity::Error).collect();
            let codes: Vec<_> = errors
                .iter()
                .map(|error| (error.code.as_str(), error.line, error.nearest.as_deref()))
                .collect();
            let shown = format!("{}\n{}", path.display(), report.render(false));
            assert_eq!(codes, [("unknown-key", at + 1, Some(key))], "{shown}");
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn an_unreadable_value_causes_no_errors_elsewhere() {
    crate::common::workers();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = check_project(&root, &[]).expect("the connectors load").catalog;
    let mut tried = 0;
    // An error in code is reported where the code becomes inconsistent.
    for (path, text) in shipped().into_iter().filter(|(_, text)| !text.contains("code: |")) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((key, value)) = line.split_once(": ").filter(|(key, _)| !key.contains('#')) else {
                continue;
            };
            // A multi-line value does not end with its first line.
            if value.is_empty() || ["|", ">"].iter().any(|block| value.starts_with(block)) {
                continue;
            }
            for new in ["{q: 1}", "[1]", "5", "\"${{ a b }}\"", "''", "null"] {
                let wrong = format!("{key}: {new}");
                let mut changed = lines.clone();
                changed[at] = &wrong;
                let report = check_text(&catalog, "automations/changed.yaml", &changed.join("\n"));
                if report.diagnostics().iter().any(|found| found.code.starts_with("yaml")) {
                    continue;
                }
                let shown = format!("{}\n{wrong}\n{}", path.display(), report.render(false));
                // An error deep in an input is reported there; nothing reads the line any more.
                let deep = |code: &str| ["wrong-input", "unknown-input", "unused-value"].contains(&code);
                // If the line itself is valid, its readers may be wrong now.
                let right = !report.entries().iter().any(|entry| entry.line == at + 1);
                let follows = |code: &str| {
                    right
                        && [
                            "unknown-field",
                            "no-list",
                            "later-variable",
                            "missing-connection",
                            "never-equal",
                            "repeated-write",
                            "unknown-variable",
                        ]
                        .contains(&code)
                };
                let elsewhere = report
                    .entries()
                    .into_iter()
                    .find(|entry| entry.line != at + 1 && !deep(&entry.code) && !follows(&entry.code));
                assert_eq!(elsewhere, None, "{shown}");
                tried += report.error_count();
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// Generates a file of the repository with some lines deleted, duplicated, swapped or indented.
pub(crate) fn mutated() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8);
    let files = shipped();
    (any::<prop::sample::Index>(), prop::collection::vec(change, 1..5)).prop_map(move |(which, changes)| {
        let mut lines: Vec<String> = which.get(&files).1.lines().map(str::to_owned).collect();
        for (at, other, kind) in changes {
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match kind {
                0 if lines.len() > 1 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[other].clone()),
                2 => lines.swap(at, other),
                _ => lines[at].insert_str(0, "  "),
            }
        }
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_file_can_be_checked_without_duplicate_diagnostics(text in mutated()) {
        static CATALOG: LazyLock<Catalog> = LazyLock::new(catalog);
        let report = check_text(&CATALOG, "automations/test.yaml", &text);
        let mut told = HashSet::new();
        for found in report.diagnostics() {
            let is_new = told.insert((found.span, found.code, found.message.as_str()));
            prop_assert!(is_new, "{}\n{}", text, report.render(false));
        }
    }
}
