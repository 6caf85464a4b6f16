//! Every code has a sentence and an example that gives it.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::CODES;
use super::load;

/// A text for each code that gives it. `S` stands for `trigger: {manual: {}}` and the key `steps`.
const EXAMPLES: &[(&str, &str)] = &[
    ("bare-expression", "S\n  - set: {a: execution.id}\n"),
    ("body-not-sent", "trigger: {webhook: {respond: {status: 204, body: x}}}\nsteps: []\n"),
    ("braces-without-dollar", "S\n  - set: {a: '{{ x }}'}\n"),
    ("comment-in-text", "S\n  - set:\n      a: Order #17 came\n"),
    ("conflicting-keys", "trigger: {manual: {}, webhook: {}}\nsteps: []\n"),
    ("constant-condition", "S\n  - {if: '1 == 2', action: log.info}\n"),
    ("date-format", "S\n  - set: {a: \"${{ formatDate(b, 'yyyy') }}\"}\n"),
    ("default-type", "trigger: {manual: {}}\ninputs: {a: {type: text, default: 1}}\nsteps: []\n"),
    ("duplicate-id", "S\n  - {id: a, action: log.info}\n  - {id: a, action: log.info}\n"),
    ("duplicate-value", "trigger: {webhook: {methods: [GET, GET]}}\nsteps: []\n"),
    ("empty-automation", "S []\n"),
    ("empty-list", "trigger: {webhook: {methods: []}}\nsteps: []\n"),
    ("empty-set", "S\n  - set: {}\n"),
    ("empty-steps", "S\n  - if: a\n    then: []\n"),
    ("empty-text", "S\n  - fail: ' '\n"),
    ("expression-in-key", "S\n  - set: {a: {'${{ b }}': 1}}\n"),
    ("expression-syntax", "S\n  - set: {a: '${{ b + }}'}\n"),
    ("expression-with-line-break", "S\n  - set:\n      a: |\n        ${{ b }}\n"),
    ("forbidden-header", "trigger: {webhook: {respond: {headers: {set-cookie: a}}}}\nsteps: []\n"),
    ("foreign-template", "S\n  - set: {a: 'of ${b}'}\n"),
    ("invalid-action", "S\n  - action: info\n"),
    ("invalid-content-type", "trigger: {webhook: {respond: {contentType: json, body: x}}}\nsteps: []\n"),
    ("invalid-duration", "S []\ntimeout: 5\n"),
    ("invalid-file", "S\n  - code: {file: ../x.js}\n"),
    ("invalid-id", "S\n  - {id: 2nd, action: log.info}\n"),
    ("invalid-instant", "tests: [{name: a, now: today}]\n"),
    (
        "invalid-json",
        "trigger: {webhook: {respond: {contentType: application/json, body: '{'}}}\nsteps: []\n",
    ),
    ("invalid-name", "S\n  - set: {a-b: 1}\n"),
    ("invalid-schema", "trigger: {webhook: {schema: {type: txt}}}\nsteps: []\n"),
    ("invalid-size", "trigger: {webhook: {maxBody: 5}}\nsteps: []\n"),
    ("invalid-time", "trigger: {schedule: {daily: {at: '25:00'}}}\nsteps: []\n"),
    ("invalid-type", "type: basic\n"),
    ("json-from-text", "S\n  - set: {a: '{\"b\": \"${{ execution.id }}\"}'}\n"),
    ("leaves-others", "S\n  - {forEach: a, concurrency: 2, steps: [{break: true}]}\n"),
    ("literal-credential", "S\n  - set: {a: 'https://ops:h3ad.Less@db.test'}\n"),
    ("missing-key", "steps: []\n"),
    ("never-runs", "S\n  - stop: {}\n  - action: log.info\n"),
    ("no-expression-here", "id: ${{ x }}\ntrigger: {manual: {}}\nsteps: []\n"),
    ("no-verb", "S\n  - id: a\n"),
    ("none-text", "S\n  - set: {a: none}\n"),
    ("number-form", "S\n  - set: {a: +4930123456}\n"),
    ("out-of-range", "S\n  - {action: log.info, retry: -1}\n"),
    ("outside-loop", "S\n  - break: true\n"),
    ("reserved-kind", "S\n  - fail: {message: a, kind: timeout}\n"),
    ("reserved-name", "S\n  - forEach: a\n    as: vars\n    steps: [{action: log.info}]\n"),
    ("respond-twice", "trigger: {webhook: {mode: sync}}\nsteps:\n  - respond: {}\n  - respond: {}\n"),
    ("respond-without-caller", "S\n  - respond: {}\n"),
    ("sync-only", "trigger: {webhook: {timeout: 5s}}\nsteps: []\n"),
    ("sync-queue", "trigger: {webhook: {mode: sync}}\nsteps: []\nconcurrency: {limit: 1, policy: queue}\n"),
    ("sync-retry", "trigger: {webhook: {mode: sync}}\nsteps: []\nretry: 1\n"),
    ("text-around-expression", "S\n  - {action: log.info, if: '${{ a }} == 1'}\n"),
    ("two-verbs", "S\n  - {action: log.info, set: {a: 1}}\n"),
    ("unanswered-path", "trigger: {webhook: {mode: sync}}\nsteps:\n  - {if: a, respond: {}}\n"),
    ("unclosed-expression", "S\n  - set: {a: '${{ b }'}\n"),
    ("unknown-function", "S\n  - set: {a: '${{ b | uper }}'}\n"),
    ("unknown-key", "S []\nname_: x\n"),
    ("unknown-keyword", "trigger: {webhook: {schema: {typ: text}}}\nsteps: []\n"),
    ("unknown-value", "trigger: {webhook: {mode: synchronous}}\nsteps: []\n"),
    ("unused-allow", "S [] # cogwork: allow(no-retry)\n"),
    ("unused-setting", "trigger: {webhook: {}}\ninputs: {a: {}}\nsteps: []\n"),
    ("unused-value", "S\n  - set: {a: 1}\n  - action: log.info\n"),
    ("unverified-webhook", "trigger: {webhook: {}}\nsteps: []\n"),
    ("wrong-type", "S {}\n"),
    ("yaml-alias-loop", "S\n  - set: &a {b: [*a]}\n"),
    ("yaml-directive", "%YAML 1.1\n---\nsteps: []\n"),
    ("yaml-documents", "S []\n---\na: 1\n"),
    ("yaml-duplicate-key", "S []\nsteps: []\n"),
    ("yaml-indentation", "S\n    - a: 1\n  - b: 2\n"),
    ("yaml-key", "S []\n1: x\n"),
    ("yaml-merge-key", "S []\n<<: {}\n"),
    ("yaml-number", "S\n  - set: {a: 99999999999999999999}\n"),
    ("yaml-surprise", "S\n  - set: {a: yes}\n"),
    ("yaml-syntax", "S - b\n"),
    ("yaml-tab", "S\n\t- a: 1\n"),
    ("yaml-tag", "S !mine []\n"),
    ("yaml-unclosed", "S []\nname: 'x\n"),
    ("yaml-unknown-anchor", "S []\nname: *nobody\n"),
    ("yaml-unquoted-expression", "S\n  - set: {a: ${{ b }}}\n"),
    ("yaml-unquoted-value", "S\n  - set: {a: @b}\n"),
];

fn gives(text: &str, code: &str) -> bool {
    let text = text.replacen('S', "trigger: {manual: {}}\nsteps:", usize::from(text.starts_with('S')));
    let source = || std::sync::Arc::new(text::Source::new("c.yaml", text.as_str()));
    let report = match code {
        "invalid-type" => super::super::connection(source(), "c").report,
        "invalid-instant" => super::super::test_suite(source(), "c").report,
        "unused-allow" => super::super::apply_allow_comments(load(&text).report),
        _ => load(&text).report,
    };
    report.diagnostics().iter().any(|diagnostic| diagnostic.code == code)
}

#[test]
fn every_code_has_an_example_that_reports_it() {
    for (code, text) in EXAMPLES {
        assert!(gives(text, code), "{code}:\n{text}\n{}", super::shown(text));
    }
    // Three limits take more than a line to reach.
    let many = format!("S\n{}", "  - action: log.info\n".repeat(1001));
    assert!(gives(&many, "too-many-steps"));
    let many: String = (0..21).map(|at| format!("  - {{id: t{at}, webhook: {{}}}}\n")).collect();
    assert!(gives(&format!("triggers:\n{many}steps: []\n"), "too-many-triggers"));
    assert!(gives(&"#".repeat(300 * 1024), "yaml-too-large"));

    let known: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    let mut shown: BTreeSet<&str> = EXAMPLES.iter().map(|(code, _)| *code).collect();
    shown.extend(["too-many-steps", "too-many-triggers", "yaml-too-large"]);
    assert_eq!(known, shown.into_iter().collect::<Vec<_>>(), "the table is in the order of the alphabet");
}

#[test]
fn every_code_in_the_source_is_in_the_table() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let known: BTreeSet<&str> = CODES.iter().map(|(code, _)| *code).collect();
    let mut unknown = BTreeSet::new();
    let mut found = 0;
    for folder in [
        "language/src/load",
        "language/src/load/lint",
        "language/src/load/steps",
        "language/src/load/steps/flow",
        "language/src/load/test_suite",
        "language/src/load/trigger",
        "text/src/yaml",
    ] {
        for entry in std::fs::read_dir(crates.join(folder)).expect("the folder is there").flatten() {
            if entry.path().extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(entry.path()).expect("the file can be read");
                for code in codes_in(&text) {
                    found += 1;
                    if !known.contains(code.as_str()) {
                        unknown.insert(code);
                    }
                }
            }
        }
    }
    assert!(found > 80, "only {found} uses were found: the test looks in the wrong place");
    assert_eq!(unknown, BTreeSet::new());
}

/// The first text that follows each call of `error(`, `warning(` and `hint(`, if it is a code.
fn codes_in(text: &str) -> Vec<String> {
    let calls = ["Diagnostic::error(", "Diagnostic::warning(", "Diagnostic::hint(", ".error("];
    let mut found = Vec::new();
    for call in calls {
        for (at, _) in text.match_indices(call) {
            let rest = text[at + call.len()..].trim_start();
            let Some(rest) = rest.strip_prefix('"') else { continue };
            found.extend(rest.split('"').next().map(str::to_owned));
        }
    }
    found
}
