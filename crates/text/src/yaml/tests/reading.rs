//! Tests of the reader: types, missing and unknown keys, and their messages.

use super::super::{MapReader, parse};
use crate::diagnostic::{Diagnostics, Report, Source};
use std::time::Duration;

/// Reads a text with `reading`; returns its result and the report.
fn read<T>(text: &str, reading: impl FnOnce(&mut MapReader<'_, '_>) -> T) -> (T, Report) {
    let diagnostics = Diagnostics::new(Source::new("test.yaml", text));
    let node = parse(&diagnostics).unwrap_or_else(|| panic!("no tree"));
    let mut reader = MapReader::new(&node, "a step", &diagnostics).unwrap_or_else(|| panic!("no mapping"));
    let made = reading(&mut reader);
    reader.finish();
    (made, diagnostics.into_report())
}

fn messages(report: &Report) -> Vec<String> {
    report.entries().iter().map(|e| format!("{}:{} {}: {}", e.line, e.column, e.code, e.message)).collect()
}

#[test]
fn values_of_the_expected_type_are_read() {
    let text =
        "id: x\nmax: 3\non: true\ndelay: 1h30m\nlimit: 6MiB\nmode: sync\ntags: [a, b]\none: z\nratio: 1\n";
    let (_, report) = read(text, |reader| {
        assert_eq!(reader.required("id").name(), Some("x"));
        assert_eq!(reader.take("max").integer(0..=10), Some(3));
        assert_eq!(reader.take("on").bool(), Some(true));
        assert_eq!(reader.take("delay").duration(), Some(Duration::from_secs(5_400)));
        assert_eq!(reader.take("limit").size(), Some(6 * 1024 * 1024));
        assert_eq!(reader.take("mode").one_of(&[("async", 1), ("sync", 2)]), Some(2));
        assert_eq!(reader.take("tags").strings(), Some(vec!["a", "b"]));
        assert_eq!(reader.take("one").one_or_more().map(|items| items.len()), Some(1));
        assert_eq!(reader.take("ratio").number(), Some(1.0));
        assert_eq!(reader.take("missing").string(), None);
    });
    assert!(report.is_empty(), "{}", report.render(false));
}

#[test]
fn a_wrong_type_is_reported_with_the_actual_value() {
    let text = "id: 007.5\nmax: many\non: yes\ndelay: 10\nlimit: big\nmode: synk\ntags: [a, 1]\nwith: [x]\n\
                far: 99\nname: \" \"\nexpr: ${{ x }}\nquoted: \"5\"\n";
    let (_, report) = read(text, |reader| {
        assert_eq!(reader.take("id").string(), None);
        assert_eq!(reader.take("max").integer(0..=10), None);
        assert_eq!(reader.take("on").bool(), None);
        assert_eq!(reader.take("delay").duration(), None);
        assert_eq!(reader.take("limit").size(), None);
        // A misspelt word is read as the suggested one, and its consequences are checked in the same run.
        assert_eq!(reader.take("mode").choice(&["async", "sync"]), Some("sync"));
        assert_eq!(reader.take("tags").strings(), Some(vec!["a"]));
        assert!(reader.take("with").map("the inputs").is_none());
        assert_eq!(reader.take("far").integer(0..=10), None);
        assert_eq!(reader.take("name").name(), None);
        assert_eq!(reader.take("expr").duration(), None);
        assert_eq!(reader.take("quoted").integer(0..=10), None);
    });
    insta::assert_snapshot!(messages(&report).join("\n"), @r#"
    1:5 wrong-type: expected text for `id`, found the number `007.5`
    2:6 wrong-type: expected a whole number for `max`, found the text `many`
    3:5 wrong-type: expected `true` or `false` for `on`, found the text `yes`
    4:8 invalid-duration: `delay` must be a duration
    5:8 invalid-size: `limit` must be a size
    6:7 unknown-value: unknown value `synk` for `mode`
    7:11 wrong-type: expected text for an item of `tags`, found the number `1`
    8:8 wrong-type: expected a mapping for the inputs, found a list
    9:6 out-of-range: `far` must be from 0 to 10, found 99
    10:7 empty-text: `name` must not be empty
    11:7 wrong-type: expected a duration for `expr`, found an expression
    12:9 wrong-type: expected a whole number for `quoted`, found the text `5`
    "#);
}

#[test]
fn an_unknown_key_is_reported_with_the_nearest_unused_one() {
    let (_, report) = read("id: x\nspace_id: 1\nidd: 2\n", |reader| reader.allow(&["id", "name", "spaceId"]));
    insta::assert_snapshot!(report.render(false), @r#"
    error[unknown-key]: unknown key `space_id` in a step
     --> test.yaml:2:1
      |
    2 | space_id: 1
      | ^^^^^^^^ not a key of a step
      |
      = note: allowed: `id`, `name`, `spaceId`
    help: did you mean `spaceId`?
      |
    2 - space_id: 1
    2 + spaceId: 1
      |

    error[unknown-key]: unknown key `idd` in a step
     --> test.yaml:3:1
      |
    3 | idd: 2
      | ^^^ not a key of a step
      |
      = note: allowed: `id`, `name`, `spaceId`
    "#);
}

#[test]
fn a_missing_key_is_reported_at_the_start_of_the_mapping() {
    let (_, report) = read("name: x\n", |reader| reader.required("id").string().map(str::to_owned));
    assert_eq!(
        messages(&report),
        ["1:1 missing-key: a step needs the key `id`", "1:1 unknown-key: unknown key `name` in a step"]
    );
}

#[test]
fn exactly_one_key_of_a_choice_is_required() {
    let verbs = ["action", "code", "set"];
    let (one, report) = read("id: x\ncode: y\n", |reader| {
        reader.allow(&["id"]);
        reader.exactly_one_of(&verbs).map(str::to_owned)
    });
    assert_eq!((one.as_deref(), report.is_empty()), (Some("code"), true));
    let (one, report) = read("set: x\ncode: y\n", |reader| reader.exactly_one_of(&verbs).map(str::to_owned));
    assert_eq!(one.as_deref(), Some("set"));
    assert_eq!(messages(&report), ["2:1 conflicting-keys: a step cannot have both `set` and `code`"]);
    let (one, report) = read("id: x\n", |reader| {
        reader.allow(&["id"]);
        reader.exactly_one_of(&verbs).map(str::to_owned)
    });
    assert_eq!(one, None);
    assert_eq!(messages(&report), ["1:1 missing-key: a step needs one of `action`, `code` or `set`"]);
}

#[test]
fn anything_but_a_mapping_is_reported() {
    for (text, found) in [("", "nothing"), ("[a]", "a list"), ("x", "the text `x`"), ("5", "the number `5`")]
    {
        let diagnostics = Diagnostics::new(Source::new("test.yaml", text));
        let node = parse(&diagnostics).unwrap_or_else(|| panic!("no tree"));
        assert!(MapReader::new(&node, "an automation", &diagnostics).is_none());
        let report = diagnostics.into_report();
        assert_eq!(
            report.entries()[0].message,
            format!("expected a mapping for an automation, found {found}")
        );
    }
}

#[test]
fn undeclared_entries_are_left_to_the_author() {
    let diagnostics = Diagnostics::new(Source::new("test.yaml", "limit: 1\nx: 2\ny: 3\n"));
    let node = parse(&diagnostics).unwrap_or_else(|| panic!("no tree"));
    let mut reader = MapReader::new(&node, "values", &diagnostics).unwrap_or_else(|| panic!("no mapping"));
    let _limit = reader.take("limit").integer(1..=9);
    let rest: Vec<_> = reader.undeclared_entries().map(|entry| entry.key.as_str()).collect();
    assert_eq!(rest, ["x", "y"]);
    reader.finish_open();
    assert!(diagnostics.into_report().is_empty());
}

#[test]
fn a_misspelt_key_is_reported_and_read_as_the_nearest_one() {
    let text = "tiemout: 5s\nretri: 3\nretry_: 4\nxy: 1\nlater: 2\nname: a\nnames: b\n";
    let (_, report) = read(text, |reader| {
        reader.allow(&["timeout", "retry", "at", "name"]);
        reader.correct_keys(|key| key == "later");
        assert_eq!(reader.take("timeout").duration(), Some(Duration::from_secs(5)));
        // The first of two similar keys is corrected; a present key is never replaced.
        assert_eq!(reader.take("retry").integer(0..=9), Some(3));
        assert_eq!(reader.take("name").string(), Some("a"));
        // A short key is similar to too many to be corrected, and `skip` excludes others.
        assert!(!reader.take("at").is_present());
        let unknown_entries: Vec<_> = reader.unknown_entries().map(|entry| entry.key.as_str()).collect();
        assert_eq!(unknown_entries, ["retry_", "xy", "later", "names"]);
        assert_eq!(reader.required("timeout").span(), reader.take("timeout").span());
        assert!(reader.has("timeout") && reader.exactly_one_of(&["timeout", "none"]) == Some("timeout"));
    });
    let reported: Vec<_> = report.diagnostics().iter().map(|d| (d.code, d.nearest.as_deref())).collect();
    assert_eq!(reported[..2], [("unknown-key", Some("timeout")), ("unknown-key", Some("retry"))]);
    assert_eq!(reported.len(), 6, "each unknown key is reported once: {}", report.render(false));
}

#[test]
fn a_reader_takes_each_key_once_and_reports_the_rest() {
    let diagnostics = Diagnostics::new(Source::new("retry.yaml", "max: 3\ndelay: 5\nbackof: 2\n"));
    let node = parse(&diagnostics).expect("a tree");
    let mut reader = MapReader::new(&node, "a retry", &diagnostics).expect("a map");
    let max = reader.required("max").integer(1..=100);
    let delay = reader.take("delay").duration();
    let backoff = reader.take("backoff").integer(1..=10);
    reader.finish();
    assert_eq!((max, delay, backoff), (Some(3), None, None));
    // `delay` has no unit, and `backof` is unknown: both are reported with a suggestion.
    assert_eq!(diagnostics.into_report().error_count(), 2);
}
