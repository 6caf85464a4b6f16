//! Literal inputs of actions that can never work: errors when the file is loaded.

use authoring::check_text;
use pretty_assertions::assert_eq;

use crate::checking::{catalog, check_steps};

/// Formats a Raw Request step with these inputs and `onError: continue`.
fn raw(inputs: &str) -> String {
    format!(
        "- {{action: wiki.rawRequest, connection: mainWiki, onError: continue, with: {{method: POST, {inputs}}}}}\n"
    )
}

#[test]
fn literal_inputs_of_a_raw_request_that_can_never_work_are_errors() {
    let bad = |inputs: &str, expected: &str| check_steps(&raw(inputs), &[expected]);
    let good = |inputs: &str| check_steps(&raw(inputs), &[]);
    good("url: /x, timeout: 1000");
    bad("url: /x, timeout: -1", "wrong-input timeout");
    bad("url: /x, timeout: soon", "wrong-input timeout");
    bad("url: /x, timeout: 0s", "wrong-input timeout");
    good("url: /x, timeout: 30s");
    good("url: /x, timeout: '${{ execution.id }}'");
    bad("url: 'https://evil.example.com/x'", "wrong-input url");
    bad("url: '//evil.example.com/x'", "wrong-input url");
    bad("url: 'https://evil.example.com/${{ execution.id }}'", "wrong-input url");
    bad("url: /a/../b", "wrong-input url");
    good("url: '/x/${{ execution.id }}'");
    good("url: '${{ execution.id }}/x'");
    bad("url: /x, data: {a: 1}, formData: {b: 2}", "wrong-input data");
    bad("url: /x, data: {a: '${{ execution.id }}'}, fileData: {b: x}", "wrong-input data");
    good("url: /x, data: '${{ execution.id }}', formData: {b: 2}");
    good("url: /x, data: null, formData: {b: 2}");
    bad("url: /x, fileDataFileNames: {a: a.txt}", "wrong-input fileDataFileNames");
    bad("url: /x, fileData: {b: x}, fileDataFileNames: {a: a.txt}", "wrong-input fileDataFileNames");
    good("url: /x, fileData: {a: '${{ execution.id }}'}, fileDataFileNames: {a: '${{ execution.id }}.txt'}");
    bad("url: /x, headers: {host: other}", "wrong-input headers");
    bad("url: /x, headers: {'a b': '${{ execution.id }}'}", "wrong-input headers");
    bad("url: /x, queryParameters: {keys: []}", "wrong-input queryParameters");
    bad("url: [1]", "wrong-input [1]");
}

#[test]
fn literal_inputs_of_an_http_request_that_can_never_work_are_errors() {
    let check = |inputs: &str, expected: &[&str]| {
        check_steps(
            &format!("- {{action: http.request, onError: continue, with: {{{inputs}}}}}\n"),
            expected,
        );
    };
    check("url: /x", &["wrong-input url"]);
    check("url: 'https://x.test', timeout: 5", &["wrong-input timeout"]);
    check("url: 'https://x.test', method: POST, body: a, form: {b: 1}", &["wrong-input form"]);
    check("url: 'https://x.test', method: POST, paging: {style: page}", &["wrong-input paging"]);
    check("url: 'https://x.test', paging: {style: page}", &[]);
    check("url: '${{ execution.id }}', body: '${{ execution.id }}', form: {b: 1}", &[]);
}

#[test]
fn an_invalid_literal_input_is_reported_at_its_position_with_the_fix() {
    let report = check_text(
        &catalog(),
        "automations/test.yaml",
        &format!("trigger: {{manual: {{}}}}\nsteps:\n{}", raw("url: /x, timeout: soon")),
    );
    let found = report.entries();
    let entry = &found[0];
    assert_eq!((entry.line, entry.column), (3, 100));
    assert!(entry.message.contains("input `timeout`: "), "{}", entry.message);
    let shown = report.render(false);
    assert!(shown.contains("write how long with its unit, such as `500ms` or `30s`"), "{shown}");
}

#[test]
fn a_literal_empty_filter_is_an_error() {
    let list = |inputs: &str, expected: &[&str]| {
        let step = format!(
            "- {{action: wiki.listPages, connection: mainWiki, onError: continue, with: {{{inputs}}}}}\n"
        );
        check_steps(&step, expected);
    };
    list("id: []", &["wrong-input id"]);
    list("spaceId: ''", &["wrong-input spaceId"]);
    list("title: ''", &["wrong-input title"]);
    list("id: null, status: [current]", &[]);
    list("id: '${{ [execution.id] }}'", &[]);
}

#[test]
fn a_draft_needs_no_title_and_a_published_page_does() {
    let create = |inputs: &str, expected: &[&str]| {
        let with = format!("{{spaceId: '1', body: {{value: a}}{inputs}}}");
        let step =
            format!("- {{action: wiki.createPage, connection: mainWiki, onError: continue, with: {with}}}\n");
        check_steps(&step, expected);
    };
    create("", &["missing-input with"]);
    create(", status: current", &["missing-input with"]);
    create(", status: draft", &[]);
    create(", status: '${{ execution.id }}'", &[]);
    create(", status: current, title: ''", &["wrong-input title"]);
    create(", title: '${{ execution.id }}'", &[]);
}
