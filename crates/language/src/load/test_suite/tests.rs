use std::sync::Arc;
use std::time::Duration;

use model::test_suite::{Case, RequestBody, Start, StimulusKind, StubOutcome, Suite, Target};
use pretty_assertions::assert_eq;
use text::diagnostic::Source;
use value::{JsonLimits, Value};

use crate::load::Loaded;

fn load(text: &str) -> Loaded<Suite> {
    super::super::test_suite(Arc::new(Source::new("automations/order.test.yaml", text)), "order")
}

/// The one test of a file whose tests are this one, given by its lines.
#[track_caller]
fn case(lines: &str) -> Case {
    let text = file(lines);
    let loaded = load(&text);
    let shown = loaded.report.render(false);
    let mut suite = loaded.value.unwrap_or_else(|| panic!("{text}\n{shown}"));
    suite.cases.remove(0)
}

fn file(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("tests:\n  - name: it works\n{lines}")
}

/// The diagnostics of a file: `code line:column`.
fn said(text: &str) -> Vec<String> {
    let entries = load(text).report.entries();
    entries.iter().map(|entry| format!("{} {}:{}", entry.code, entry.line, entry.column)).collect()
}

/// The diagnostics of a test, with lines relative to the one after its name.
#[track_caller]
fn check(lines: &str, expected: &[&str]) {
    let text = file(lines);
    let entries = load(&text).report.entries();
    let found: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} {}:{}", entry.code, entry.line as i64 - 2, entry.column as i64 - 4))
        .collect();
    assert_eq!(found, expected, "\n{text}\n{}", load(&text).report.render(false));
}

fn json(text: &str) -> Value {
    Value::from_json(text.as_bytes(), JsonLimits::default()).expect("JSON")
}

/// The mismatches of `expect: {result: …}` with a result.
#[track_caller]
fn compare(pattern: &str, found: &str, expected: &[&str]) {
    let case = case(&format!("expect:\n  result: {pattern}"));
    let mismatches = case.expect.result.expect("a pattern").compare("result", Some(&json(found)));
    let told: Vec<String> = mismatches
        .iter()
        .map(|mismatch| format!("{}: {}, not {}", mismatch.path, mismatch.expected, mismatch.found))
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn settings_of_a_test_file_are_defaults_for_its_tests() {
    let text = "now: 2026-03-01T09:00:00Z\nsecrets: {a: one, b: two}\nstate: {count: 1}\ndoubles:\n  wiki.getPage: {result: 1}\n  \
                wiki.createPage: {result: 2}\ntests:\n  - {name: first}\n  - name: second\n    now: 2026-03-02T09:00:00+01:00\n    \
                secrets: {b: three}\n    state: {count: 2}\n    doubles: {wiki.getPage: {error: {status: 404}}}\n";
    let suite = load(text).value.expect("it loads");
    assert_eq!(suite.automation.name, "order");
    let [first, second] = suite.cases.as_slice() else { panic!("two tests") };
    assert_eq!(first.now.to_string(), "2026-03-01T09:00:00Z");
    assert_eq!(second.now.to_string(), "2026-03-02T08:00:00Z");
    let secrets: Vec<_> = second.secrets.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(secrets, ["a=one", "b=three"]);
    assert_eq!(second.state.iter().map(|(_, value)| value.to_json()).collect::<Vec<_>>(), ["2"]);
    let doubles: Vec<_> = second.doubles.iter().map(|double| (double.target.name(), double.own)).collect();
    assert_eq!(doubles, [("wiki.getPage", true), ("wiki.createPage", false)]);
    assert!(
        matches!(second.doubles[0].answers[0].reply, StubOutcome::Error(ref error) if error.status == Some(404))
    );
}

#[test]
fn a_test_with_a_recording_ignores_the_stubs_of_the_file() {
    let text = "doubles: {a.b: {result: 1}}\ntests:\n  - {name: a}\n  - {name: b, cassette: b.yaml, doubles: {c: {result: 1}}}\n";
    let suite = load(text).value.expect("it loads");
    let doubles = |index: usize| -> Vec<&str> {
        suite.cases[index].doubles.iter().map(|double| double.target.name()).collect()
    };
    assert_eq!((doubles(0), doubles(1)), (vec!["a.b"], vec!["c"]));
}

#[test]
fn a_test_starts_with_inputs_a_time_a_request_or_the_default() {
    assert!(matches!(case("").start, Start::Default));
    assert!(matches!(case("inputs: {a: 1}").start, Start::Inputs(inputs) if inputs.len() == 1));
    let due = case("scheduledAt: 2026-01-16T01:30:00Z");
    assert!(matches!(due.start, Start::ScheduledAt(_)));
    assert_eq!(due.now.to_string(), "2026-01-16T01:30:00Z");
    let Start::Request(request) = case("payload: {method: PUT, body: {id: 7}}").start else {
        panic!("a request")
    };
    assert_eq!(request.method.map(|method| method.name).as_deref(), Some("PUT"));
    assert!(matches!(request.body, RequestBody::Value(value) if value.to_json() == r#"{"id":7}"#));
    let Start::Request(request) = case("payload: {bodyBase64: \"/w==\"}").start else { panic!("a request") };
    assert!(matches!(request.body, RequestBody::Bytes(bytes) if bytes.as_ref() == [0xff]));
    check("payload: {}\ninputs: {}", &["conflicting-keys 2:1"]);
    check("payload: {body: a, bodyFile: b}", &["conflicting-keys 1:20"]);
}

#[test]
fn a_stub_in_a_list_answers_one_call_and_a_rule_all_that_match() {
    let case = case(
        "doubles:\n  a.b:\n    - {result: 1}\n    - {result: 2, when: {x: 1}}\n    - {result: 3, times: 2}\n  step: {result: 4, takes: 2s}",
    );
    let times: Vec<_> = case.doubles[0].answers.iter().map(|answer| answer.times).collect();
    assert_eq!(times, [Some(1), None, Some(2)]);
    assert_eq!(case.doubles[1].target, Target::Step("step".to_owned()));
    assert_eq!(case.doubles[1].answers[0].times, None);
    assert_eq!(case.doubles[1].answers[0].takes, Duration::from_secs(2));
}

#[test]
fn stimuli_occur_after_a_delay_or_once_a_step_waits() {
    let case = case(
        "events:\n  - {name: order.paid, data: {id: 7}, after: 5m}\napprovals:\n  - {step: ask, option: approve}\ncancel: {after: 1h}",
    );
    let [event, approval, cancel] = case.stimuli.as_slice() else { panic!("three") };
    assert_eq!(event.after, Some(Duration::from_secs(300)));
    assert!(matches!(&event.what, StimulusKind::Event { name, .. } if name.name == "order.paid"));
    assert_eq!(approval.after, None);
    assert!(matches!(&cancel.what, StimulusKind::Cancel { reason } if reason == "cancelled by the test"));
}

#[test]
fn an_error_in_a_test_file_is_reported_at_its_position() {
    check("expects: {}", &["unknown-key 1:1"]);
    check("now: tomorrow", &["invalid-instant 1:6"]);
    check("doubles: {a.b: {}}", &["missing-key 1:16"]);
    check("doubles: {a.b: []}", &["empty-list 1:16"]);
    check("doubles: {a.b: {results: 1}}", &["unknown-key 1:17"]);
    check("doubles: {a.b: {error: {kind: network, status: 1000}}}", &["out-of-range 1:48"]);
    check("expect: {outcome: success}", &["unknown-value 1:19"]);
    check("expect: {steps: {a: run}}", &["unknown-value 1:21"]);
    check("expect: {result: {$contain: a}}", &["unknown-key 1:19"]);
    check("expect: {result: {$type: text, id: 1}}", &["conflicting-keys 1:32"]);
    check("expect: {result: {$type: string}}", &["unknown-value 1:26"]);
    check("expect: {result: \"${{ a }}\"}", &["no-expression-here 1:19"]);
    check("expect: {calls: [{with: {}}]}", &["missing-key 1:19"]);
    check("expect: {error: {mesage: a}}", &["unknown-key 1:18"]);
    check("expect: {logs: [1]}", &["wrong-type 1:17"]);
    check("expect: {logs: {a: 1}}", &["wrong-type 1:17"]);
    check("expect: {logs: {$contains: {message: a}, $length: 2}}", &[]);
    check("expect: {that: result.id ==}", &["expression-syntax 1:26"]);
    check("cassette: ../secret.yaml", &["invalid-name 1:11"]);
    assert_eq!(said("tests: []\n"), ["empty-list 1:8"]);
    assert_eq!(said("automation: My Order\ntests: [{name: a}]\n"), ["invalid-id 1:13"]);
    assert_eq!(said("tests:\n  - {name: a}\n  - {name: a}\n"), ["duplicate-id 3:12"]);
    assert_eq!(said("{}\n"), ["missing-key 1:1"]);
}

#[test]
fn contradicting_expectations_are_rejected() {
    check("expect: {started: false, response: {status: 404}}", &[]);
    check("expect: {started: false, outcome: failed}", &["conflicting-keys 1:26"]);
    check("expect: {outcome: succeeded, error: nope}", &["conflicting-keys 1:30"]);
    check("expect: {outcome: failed, result: 1}", &["conflicting-keys 1:27"]);
    check("expect: {error: nope, result: 1}", &["conflicting-keys 1:23"]);
}

#[test]
fn maps_match_partially_and_lists_exactly() {
    compare("{id: 1}", r#"{"id": 1, "title": "a"}"#, &[]);
    compare("[{id: 1}, {id: 2}]", r#"[{"id": 1, "x": 0}, {"id": 3}]"#, &["result[1].id: 2, not 3"]);
    compare("[1]", "[1, 2]", &["result: a list of 1, not one of 2: [1,2]"]);
    compare("{a: {b: [x]}}", r#"{"a": {"b": ["y"]}}"#, &[r#"result.a.b[0]: "x", not "y""#]);
    compare("{a-b: 1}", r#"{"a-b": 2}"#, &[r#"result["a-b"]: 1, not 2"#]);
    compare("{a: 1}", "[1]", &["result: a map, not [1]"]);
}

#[test]
fn a_missing_entry_is_reported_with_the_nearest_one() {
    compare("{titel: a}", r#"{"title": "a"}"#, &[r#"result.titel: "a", not nothing, but there is `title`"#]);
    compare("{page: 1}", r#"{"id": 1, "x": 2}"#, &["result.page: 1, not nothing; there is `id`, `x`"]);
    compare("{page: 1}", "{}", &["result.page: 1, not an empty map"]);
}

#[test]
fn a_number_does_not_equal_its_text() {
    compare("5", "5.0", &[]);
    compare("5", r#""5""#, &[r#"result: 5, not the text "5""#]);
    compare("\"5\"", "5", &[r#"result: "5", not the number 5"#]);
    compare("null", "0", &["result: null, not 0"]);
}

#[test]
fn matcher_rules_check_types_prefixes_and_absence() {
    compare("{$type: text, $startsWith: ab}", r#""abc""#, &[]);
    compare("{$type: text}", "1", &["result: a value of the type text, not 1"]);
    compare("{$type: any}", "null", &[]);
    compare("{a: {$type: any}}", "{}", &["result.a: any value, not an empty map"]);
    compare("{$contains: bc}", r#""abcd""#, &[]);
    compare("{$contains: {id: 2}}", r#"[{"id": 1}, {"id": 2, "x": 1}]"#, &[]);
    compare("{$contains: 3}", "[1, 2]", &["result: something with 3, not [1,2]"]);
    compare("{$length: 2}", "[1, 2]", &[]);
    compare("{$length: 1}", r#"{"a": 1, "b": 2}"#, &[r#"result: the length 1, not 2: {"a":1,"b":2}"#]);
    compare("{$exactly: {a: 1}}", r#"{"a": 1}"#, &[]);
    compare(
        "{$exactly: {a: 1}}",
        r#"{"a": 1, "b": 2}"#,
        &[r#"result: exactly {"a":1}, not `b` beside it: {"a":1,"b":2}"#],
    );
    compare("{$not: {$contains: x}}", r#""abc""#, &[]);
    compare("{$not: abc}", r#""abc""#, &[r#"result: anything but "abc", not "abc""#]);
    compare("{a: {$absent: true}, b: {$not: 1}}", r#"{"c": 1}"#, &[]);
    compare("{a: {$absent: true}}", r#"{"a": null}"#, &["result.a: nothing, not null"]);
}

#[test]
fn the_tests_of_the_examples_match_the_schema() {
    let validator = jsonschema::validator_for(&crate::schema::test_suite()).expect("the schema compiles");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../automations");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the examples").flatten() {
        let path = entry.path().display().to_string();
        let Some(stem) = model::test_suite::suite_stem(&path) else { continue };
        let text = std::fs::read_to_string(entry.path()).expect("the file is read");
        let loaded = super::super::test_suite(Arc::new(Source::new(path.as_str(), text.as_str())), stem);
        assert!(loaded.value.is_some(), "{}", loaded.report.render(false));
        let tree = text::yaml::parse_text(&path, &text).expect("it is YAML").to_json();
        let errors: Vec<String> = validator.iter_errors(&tree).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{path}");
        count += 1;
    }
    assert!(count > 10, "the test looks in the wrong place");
}

#[test]
fn the_loader_rejects_what_the_schema_rejects() {
    let validator = jsonschema::validator_for(&crate::schema::test_suite()).expect("the schema compiles");
    for lines in [
        "expects: {}",
        "doubles: {a.b: {}}",
        "doubles: {a.b: {result: 1, error: {}}}",
        "payload: {method: FETCH}",
        "payload: {}\ninputs: {}",
        "expect: {outcome: done}",
        "expect: {steps: {a: run}}",
        "expect: {calls: [{with: {}}]}",
        "expect: {duration: soon}",
        "cassette: ../a.yaml",
        "events: [{data: 1}]",
        "skip: true",
    ] {
        let text = file(lines);
        assert!(load(&text).value.is_none(), "{text}");
        let tree = text::yaml::parse_text("a.yaml", &text).expect("it is YAML").to_json();
        assert!(!validator.is_valid(&tree), "{text}");
    }
}

#[test]
fn the_number_of_tests_of_a_file_is_bounded() {
    let tests = |count: usize| -> String {
        let test = |number| format!("  - {{name: t{number}, expect: {{outcome: succeeded}}}}\n");
        format!("tests:\n{}", (0..count).map(test).collect::<String>())
    };
    assert_eq!(said(&tests(1000)), Vec::<String>::new());
    let above = said(&tests(1001));
    assert!(above.len() == 1 && above[0].starts_with("out-of-range "), "{above:?}");
}
