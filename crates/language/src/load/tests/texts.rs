//! Lints of texts that are probably meant as something else, with correct texts close to them.

use text::diagnostic::Severity;

use super::{entries, load, shown};

/// Checks the texts at the places of the diagnostics with a code, and the file after the fix of the first.
#[track_caller]
fn check(code: &str, text: &str, expected: &[&str], fixed: Option<&str>) {
    let loaded = load(text);
    let report = &loaded.report;
    let found: Vec<_> = report.diagnostics().iter().filter(|found| found.code == code).collect();
    let places: Vec<&str> = found.iter().map(|found| report.source().slice(found.span)).collect();
    assert_eq!(places, expected, "\n{text}\n{}", report.render(false));
    let fix = found.first().and_then(|found| found.replacement.as_ref());
    let after = fix.map(|fix| {
        let mut after = text.to_owned();
        after.replace_range(fix.span.range(), &fix.text);
        after
    });
    let line = after.as_ref().map(|after| {
        let changed = after.lines().zip(text.lines()).find(|(after, before)| after != before);
        changed.map_or(String::new(), |(after, _)| after.trim().to_owned())
    });
    assert_eq!(line.as_deref(), fixed, "\n{text}\n{}", report.render(false));
    if let Some(after) = after {
        let left = entries(&after).iter().filter(|entry| entry.code == code).count();
        assert_eq!(left + 1, places.len(), "\n{after}\n{}", shown(&after));
    }
}

const HEAD: &str = "trigger: {webhook: {verify: none}}\ninputs: {name: {type: text}, count: {type: integer}}\nconfigVars: {folder: docs}\nsteps:\n  - {id: a, set: {total: 1}}\n";

#[track_caller]
fn check_value(code: &str, value: &str, expected: &[&str], fixed: Option<&str>) {
    check(code, &format!("{HEAD}  - set:\n      b: {value}\n"), expected, fixed);
}

#[test]
fn a_bare_expression_as_a_value_is_reported() {
    let check = |value: &str, place: &str, fixed: &str| {
        check_value("bare-expression", value, &[place], Some(&format!("b: {fixed}")));
    };
    check("inputs.name", "inputs.name", "${{ inputs.name }}");
    check("'inputs.name'", "inputs.name", "\"${{ inputs.name }}\"");
    check("{c: inputs.name}", "inputs.name", "{c: \"${{ inputs.name }}\"}");
    check("vars.total", "vars.total", "${{ vars.total }}");
    check("configVars.folder", "configVars.folder", "${{ configVars.folder }}");
    check("steps.a.results.total", "steps.a.results.total", "${{ steps.a.results.total }}");
    check(
        "trigger.results.body.data.id",
        "trigger.results.body.data.id",
        "${{ trigger.results.body.data.id }}",
    );
    check("headers['x-id']", "headers['x-id']", "${{ trigger.results.headers['x-id'] }}");
    check("inputs.count + 1", "inputs.count + 1", "${{ inputs.count + 1 }}");
    check("inputs.name | default('x')", "inputs.name | default('x')", "${{ inputs.name | default('x') }}");
    check("execution.resumeUrl", "execution.resumeUrl", "${{ execution.resumeUrl }}");
}

#[test]
fn a_bare_expression_within_a_result_or_the_inputs_of_a_trigger_is_reported() {
    let check_one = |text: &str, fixed: &str| {
        check("bare-expression", text, &["inputs.name"], Some(fixed));
    };
    let head = "trigger: {manual: {}}\ninputs: {name: {type: text}}\nsteps:\n";
    check_one(&format!("{head}  - {{set: {{a: 1}}}}\noutputs:\n  x: inputs.name\n"), "x: ${{ inputs.name }}");
    check_one(&format!("{head}  - stop:\n      result:\n        x: inputs.name\n"), "x: ${{ inputs.name }}");
    let fail = format!("{head}  - fail:\n      message: a\n      data:\n        x: inputs.name\n");
    check_one(&fail, "x: ${{ inputs.name }}");
    let turn = "  - forEach: \"[1]\"\n    steps:\n      - continue:\n          result: {x: inputs.name}\n";
    check_one(&format!("{head}{turn}"), "result: {x: \"${{ inputs.name }}\"}");
    let started = "trigger:\n  webhook: {verify: none}\n  inputs:\n    name: trigger.results.body.data.id\ninputs: {name: {type: text}}\nsteps:\n  - {set: {a: 1}}\n";
    let fixed = "name: ${{ trigger.results.body.data.id }}";
    check("bare-expression", started, &["trigger.results.body.data.id"], Some(fixed));
    // Declared data and inputs are no values.
    let declared = "trigger: {event: order.paid, data: {order: {type: text, description: inputs.name}}}\ninputs: {name: {type: text, description: inputs.name}}\nsteps: [{set: {a: 1}}]\n";
    check("bare-expression", declared, &[], None);
}

#[test]
fn the_word_error_that_a_handler_fails_with_is_reported() {
    let handler = |fail: &str| format!("{HEAD}onError:\n  - fail: {fail}\n");
    check("bare-expression", &handler("error"), &["error"], Some("- fail: \"${{ error }}\""));
    for other in ["\"${{ error }}\"", "an error", "errors"] {
        check("bare-expression", &handler(other), &[], None);
    }
    check("bare-expression", &format!("{HEAD}  - fail: error\n"), &[], None);
}

#[test]
fn a_text_that_names_no_value_is_not_reported() {
    for value in [
        "inputs.md",
        "steps.md",
        "steps.a",
        "steps.b.results",
        "vars.other",
        "secrets.json",
        "env.example.com",
        "item.created",
        "trigger.happy",
        "headers.txt",
        "body.weight",
        "see inputs.name",
        "inputs.name is required",
        "inputs.name/docs",
        "state.changed",
        "error.message",
        "automation.yaml",
        "execution.log",
        "${{ inputs.name }}",
        "inputs",
    ] {
        check_value("bare-expression", value, &[], None);
    }
    let text = "trigger: {manual: {}}\ndescription: inputs.name\ninputs: {name: {type: text}}\nsteps:\n  - if: inputs.name\n    description: x\n    action: log.info\n";
    check("bare-expression", &text.replace("    description: x\n", ""), &[], None);
}

#[test]
fn a_bare_expression_within_a_text_without_spaces_is_reported() {
    let check = |value: &str, place: &str, fixed: Option<&str>| {
        let fixed = fixed.map(|fixed| format!("b: {fixed}"));
        check_value("bare-expression", value, &[place], fixed.as_deref());
    };
    check("customer-inputs.name", "inputs.name", Some("customer-${{ inputs.name }}"));
    check(
        "'https://example.com/inputs.name/x'",
        "inputs.name",
        Some("'https://example.com/${{ inputs.name }}/x'"),
    );
    check("\"?n=vars.total&m=1\"", "vars.total", Some("\"?n=${{ vars.total }}&m=1\""));
    check("{c: a/inputs.name}", "inputs.name", None);
    check("https://example.com/?k=secrets.key", "secrets.key", None);
    for value in ["https://inputs.name", "a.inputs.name", "x@inputs.name", "my_inputs.name", "docs/inputs.md"]
    {
        check_value("bare-expression", value, &[], None);
    }
}

#[test]
fn a_secret_name_in_place_of_its_expression_is_an_error() {
    let secret = |text: &str| {
        let loaded = load(text);
        let found = loaded.report.diagnostics().iter().find(|found| found.code == "bare-expression");
        assert_eq!(
            found.map(|found| found.severity),
            Some(Severity::Error),
            "{text}\n{}",
            loaded.report.render(false)
        );
        assert!(loaded.value.is_none(), "{text}");
    };
    secret("trigger: {webhook: {verify: {preset: sharedToken, secret: secrets.hook}}}\nsteps: []\n");
    secret("trigger: {webhook: {verify: {preset: basic, user: ops, password: secrets.hook}}}\nsteps: []\n");
    secret("trigger: {manual: {}}\nconfigVars: {key: {value: secrets.key, secret: true}}\nsteps: []\n");
    secret(
        "trigger: {manual: {}}\nsteps:\n  - {action: http.request, with: {headers: {authorization: Bearer secrets.key}}}\n",
    );
    let source = text::diagnostic::Source::new(
        "a.yaml",
        "type: http.bearer\nwith: {baseUrl: https://a.test, token: secrets.shop}\n",
    );
    let loaded = crate::load::connection(source.into(), "a");
    assert!(loaded.value.is_none(), "{}", loaded.report.render(false));
}

#[test]
fn the_text_none_is_reported_if_it_is_compared_with_none() {
    let loop_steps = "  - repeat: {until: vars.b is not none, max: 2}\n    steps: [{set: {b: 1}}]\n";
    let text = |value: &str| format!("{HEAD}  - set:\n      b: {value}\n{loop_steps}");
    check("none-text", &text("none"), &["none"], Some("b: null"));
    check("none-text", &text("\"none\""), &[], None);
    check("none-text", &text("null"), &[], None);
    check_value("none-text", "{border: none}", &[], None);
    let hint = load(&format!("{HEAD}  - set: {{b: none}}\n"));
    let found = hint.report.diagnostics().iter().find(|found| found.code == "none-text");
    assert_eq!(found.map(|found| found.severity), Some(Severity::Hint));
    check("none-text", "trigger: {webhook: {verify: none}}\nsteps: []\n", &[], None);
}

#[test]
fn json_with_an_expression_inside_quotes_is_reported() {
    let request = |body: &str| format!("{HEAD}  - action: http.request\n    with:\n      body: {body}\n");
    check(
        "json-from-text",
        &request("'{\"text\": \"${{ inputs.name }}\"}'"),
        &["inputs.name"],
        Some("body: {\"text\": \"${{ inputs.name }}\"}"),
    );
    check(
        "json-from-text",
        &request("'[\"a ${{ inputs.name }}\", 1]'"),
        &["inputs.name"],
        Some("body: [\"a ${{ inputs.name }}\", 1]"),
    );
    for fine in [
        "'{\"text\": ${{ inputs.name | tojson }}}'",
        "{text: \"${{ inputs.name }}\"}",
        "'{\"text\": \"fixed\"}'",
        "'{ ${{ inputs.name }} \"}'",
        "'say \"${{ inputs.name }}\"'",
    ] {
        check("json-from-text", &request(fine), &[], None);
    }
    check_value("json-from-text", "'{\"text\": \"${{ inputs.name }}\"}'", &["inputs.name"], None);
    // The body of a raw request is its input `data`.
    let raw = |action: &str| {
        format!(
            "{HEAD}  - action: {action}\n    with:\n      data: '{{\"text\": \"${{{{ inputs.name }}}}\"}}'\n"
        )
    };
    check(
        "json-from-text",
        &raw("wiki.rawRequest"),
        &["inputs.name"],
        Some("data: {\"text\": \"${{ inputs.name }}\"}"),
    );
    check("json-from-text", &raw("events.emit"), &["inputs.name"], None);
}

#[test]
fn an_unquoted_text_in_json_is_reported() {
    let told = |value: &str, expression: &str| {
        let fixed = format!("b: '{{\"x\": ${{{{ {expression} | tojson }}}}}}'");
        check_value("json-from-text", value, &[expression], Some(&fixed));
    };
    told("'{\"x\": ${{ inputs.name }}}'", "inputs.name");
    told("'{\"x\": ${{ inputs.count | upper }}}'", "inputs.count | upper");
    told("'{\"x\": ${{ trigger.results.queryParameters.n }}}'", "trigger.results.queryParameters.n");
    for fine in [
        "'{\"x\": ${{ inputs.count }}}'",
        "'{\"x\": ${{ inputs.name | tojson }}}'",
        "'{\"x\": ${{ steps.a.results.total }}}'",
        "'{\"x\": [${{ vars.total | join(\", \") }}]}'",
        "'{${{ inputs.name }}}'",
    ] {
        check_value("json-from-text", fine, &[], None);
    }
}

#[test]
fn json_in_quotes_under_a_json_key_is_reported() {
    let answer = |key: &str, value: &str| {
        format!(
            "trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n  - respond:\n      {key}: {value}\n"
        )
    };
    check(
        "json-from-text",
        &answer("json", "'{\"ok\": true}'"),
        &["'{\"ok\": true}'"],
        Some("json: {\"ok\": true}"),
    );
    for (key, value) in
        [("body", "'{\"ok\": true}'"), ("json", "'{ok}'"), ("json", "done"), ("json", "{ok: true}")]
    {
        check("json-from-text", &answer(key, value), &[], None);
    }
}

#[test]
fn a_response_without_location_or_content_type_is_reported() {
    let answer = |keys: &str| {
        format!("trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n  - respond: {{{keys}}}\n")
    };
    check("missing-key", &answer("status: 302"), &["status"], None);
    check("missing-key", &answer("status: 307, headers: {x-a: b}"), &["status"], None);
    check("missing-key", &answer("body: '<!DOCTYPE html><p>hi</p>'"), &["body"], None);
    for fine in [
        "status: 304",
        "status: 302, headers: {Location: https://a.test}",
        "status: 302, headers: '${{ vars.h }}'",
        "body: '<html></html>', contentType: text/html",
        "body: see <html>",
    ] {
        check("missing-key", &answer(fine), &[], None);
    }
    let fixed = "trigger: {webhook: {verify: none, respond: {status: 301}}}\nsteps: []\n";
    check("missing-key", fixed, &["status"], None);
}

#[test]
fn a_constant_concurrency_key_is_reported() {
    let key = |key: &str| {
        format!(
            "trigger: {{webhook: {{verify: none}}}}\nconcurrency: {{limit: 1, key: {key}}}\nsteps: [{{action: log.info}}]\n"
        )
    };
    check("unused-setting", &key("customer"), &["customer"], None);
    check("unused-setting", &key("'${{ trigger.results.pathFragment }}'"), &[], None);
    check("unused-setting", &key("trigger.results.pathFragment"), &[], None);
}

#[test]
fn a_quoted_path_as_a_condition_gets_a_suggestion() {
    let step = |condition: &str| shown(&format!("{HEAD}  - {{if: \"{condition}\", action: log.info}}\n"));
    assert!(step("'inputs.name'").contains("write it without the quotes: `inputs.name`"));
    assert!(!step("'see inputs.name'").contains("without the quotes"));
}

#[test]
fn an_unquoted_date_gets_a_fix() {
    let text = |until: &str| format!("{HEAD}  - wait: {{until: {until}}}\n");
    let fixed = "- wait: {until: \"'2030-03-01T09:00:00Z'\"}";
    check("expression-syntax", &text("2030-03-01T09:00:00Z"), &["T09"], Some(fixed));
}

#[test]
fn a_comment_that_truncates_a_text_is_reported() {
    check_value(
        "comment-in-text",
        "Order #${{ inputs.name }} came",
        &["#${{ inputs.name }} came"],
        Some("b: \"Order #${{ inputs.name }} came\""),
    );
    check_value("comment-in-text", "Order #17", &["#17"], Some("b: \"Order #17\""));
    check_value("comment-in-text", "#ff0000", &["#ff0000"], Some("b: \"#ff0000\""));
    for fine in [
        "Order # a comment",
        "Order ## part",
        "\"Order #17\"",
        "Order#17",
        "17 #pieces",
        "Order #",
        "Order # ← here",
    ] {
        check_value("comment-in-text", fine, &[], None);
    }
}

#[test]
fn a_number_that_changes_its_notation_is_reported() {
    check_value("number-form", "+4930123456", &["+4930123456"], Some("b: \"+4930123456\""));
    check_value("number-form", "1.10", &["1.10"], Some("b: \"1.10\""));
    for fine in ["1.1", "1.0", "+12", "4930123456", "\"1.10\"", "0.25", "1.105"] {
        check_value("number-form", fine, &[], None);
    }
    let severity = |key: &str| {
        let loaded = load(&format!("{HEAD}  - set: {{{key}: 1.10}}\n"));
        let found = loaded.report.diagnostics().iter().find(|found| found.code == "number-form");
        found.map(|found| found.severity)
    };
    assert_eq!(severity("version"), Some(Severity::Warning));
    assert_eq!(severity("price"), Some(Severity::Hint));
}

#[test]
fn a_retry_of_anything_but_an_action_covers_every_error() {
    let loaded = load(
        "trigger: {manual: {}}\nsteps:\n  - {retry: 2, steps: [{fail: x}]}\n  - {retry: 2, action: a.b}\n  - {retry: {max: 2, on: 5xx}, call: x}\n",
    );
    let automation = loaded.value.expect("the file loads");
    let on = |at: usize| {
        let retry = automation.steps.steps[at].retry.as_ref().expect("a retry");
        retry.only_policy().expect("one policy").on.clone()
    };
    use model::retry::RetryOn::{All, Network, ServerError, TooManyRequests};
    assert_eq!(on(0), [All]);
    assert_eq!(on(1), [Network, ServerError, TooManyRequests]);
    assert_eq!(on(2), [ServerError]);
}
