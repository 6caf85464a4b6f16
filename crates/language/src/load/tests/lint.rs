//! Lints: readable but probably unintended content.

use text::diagnostic::{Diagnostic, Severity};

use super::{check, check_step, check_steps, load, shown};

/// The places that look like credentials, as they stand in the file.
#[track_caller]
fn credentials(text: &str, expected: &[&str]) {
    let loaded = load(text);
    let report = &loaded.report;
    let found = report.diagnostics().iter().filter(|found| found.code == "literal-credential");
    let found: Vec<&str> = found.map(|found| report.source().slice(found.span)).collect();
    assert_eq!(found, expected, "\n{text}\n{}", report.render(false));
}

#[track_caller]
fn credential(step: &str, expected: &str) {
    credentials(&format!("trigger: {{manual: {{}}}}\nsteps:\n  - {step}\n"), &[expected]);
}

#[track_caller]
fn no_credential(step: &str) {
    credentials(&format!("trigger: {{manual: {{}}}}\nsteps:\n  - {step}\n"), &[]);
}

// Put together here, so that no scanner of repositories takes this file for a leak.
const GITHUB: &str = concat!("ghp", "_x7Lq2VbN8sKd4RtYw9ZcE1mPfGhJ3uAo5Ti6");
const STRIPE: &str = concat!("sk", "_live_4eC39HqLyjWDarjtT1zdp7dc");
const AWS: &str = concat!("AKI", "AQX4NEDGE7LM2RBTY");
const JWT: &str =
    concat!("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiI4NzIzOTEifQ.", "dBjftJeZ4CVPmB92K27uhbUJU1p1r");

#[test]
fn a_token_of_a_known_format_is_found_anywhere() {
    credential(&format!("set: {{a: {GITHUB}}}"), GITHUB);
    credential(&format!("set: {{a: [{{b: '{STRIPE}'}}]}}"), STRIPE);
    credential(&format!("action: log.info # with {AWS}"), AWS);
    credential(&format!("set:\n      a: |\n        curl -H 'x: {GITHUB}' x\n"), GITHUB);
    credential(&format!("set: {{a: '{JWT}'}}"), JWT);
    credential("set: {a: 'Bearer x7Lq2VbN8sKd4RtYw9Zc'}", "x7Lq2VbN8sKd4RtYw9Zc");
    credential("set: {a: 'https://ops:h3ad.Less@db.test/x'}", "h3ad.Less");
    credential("set: {a: 'https://api.test/x?page=2&api_key=x7Lq2VbN8sKd'}", "x7Lq2VbN8sKd");
    let key = "-----BEGIN RSA PRIVATE KEY-----\n        MIIEpAIBAAKCAQEA7\n        ";
    credential(&format!("set:\n      a: |\n        {key}-----END RSA PRIVATE KEY-----\n"), key);
}

#[test]
fn random_text_under_a_credential_key_is_reported() {
    credential("set: {password: 'Tr0ub4dor&3x'}", "Tr0ub4dor&3x");
    credential("action: http.request\n    with: {headers: {x-api-key: 9f8a7c21bd40e6}}", "9f8a7c21bd40e6");
    credential(
        "set: {clientSecret: \"8f14e45f-ceea-467a-9575-2b1dd07a9f1c\"}",
        "8f14e45f-ceea-467a-9575-2b1dd07a9f1c",
    );
    credential(&format!("set: {{apiToken: {GITHUB}}}"), GITHUB);
}

#[test]
fn placeholders_and_expressions_are_not_reported_as_credentials() {
    for value in [
        "changeme",
        "your-api-token-1",
        "xxxxxxxx-xxxx-1",
        "example123XYZ",
        "${{ configVars.key }}",
        "abcdef123456",
        "0123456789abcdef",
        "mainWikiToken",
        "main-wiki-token",
        "none",
        "hunter2",
        "'<the token 1>'",
        "12345678",
        "correct horse battery 1",
        "/run/secrets/wiki1",
        "https://login.test/oauth2/token",
    ] {
        no_credential(&format!("set: {{password: {value}, api_token: {value}}}"));
    }
    no_credential(
        "set: {nextPageToken: x7Lq2VbN8sKd4R, tokenUrl: x7Lq2VbN8sKd4R, hash: 9f8a7c21bd40e69f8a7c21bd40e6}",
    );
    no_credential("set: {a: ghp_exampleexampleexampleexampleexample1}");
    no_credential(
        "set: {a: 'https://user:password@host.test', b: 'https://user:${{ configVars.p }}@host.test'}",
    );
    no_credential("set: {a: 'sk-circle-animation-with-a-very-long-name-2'}");
    no_credential("set: {a: 'Bearer ${{ configVars.token }}', b: Bearer is a word, c: 'x@y.test://a:b'}");
}

#[test]
fn a_credential_is_reported_once_and_never_shown() {
    let text = format!("trigger: {{manual: {{}}}}\nsteps:\n  - set: {{token: {GITHUB}, zzz: ' '}}\n");
    check(&text, &["literal-credential 3:18"]);
    assert!(!shown(&text).contains(GITHUB), "{}", shown(&text));
    assert!(shown(&text).contains("in step `step1`"), "{}", shown(&text));
}

#[test]
fn yaml_1_1_scalars_are_reported_in_values_and_keys() {
    check_steps(
        "- set: {a: yes, b: [off, 012], c: {d: 12:30}}\n",
        &["yaml-surprise 1:12", "yaml-surprise 1:21", "yaml-surprise 1:26", "yaml-surprise 1:39"],
    );
    check_steps("- set: {a: {no: 1, 2026-01-31: 2, y: 3}}\n", &["yaml-surprise 1:13", "yaml-surprise 1:20"]);
    check_steps("- set:\n    a: 'yes'\n    b: \"012\"\n    c: |-\n      12:30\n", &[]);
}

#[test]
fn a_scalar_that_is_already_an_error_is_not_reported_again() {
    check("trigger: {manual: {}}\nenabled: yes\nsteps: [{action: log.info}]\n", &["wrong-type 2:10"]);
    check_steps("- {action: log.info, retry: {max: 1, on: [network]}}\n", &[]);
}

#[test]
fn an_aliased_scalar_is_reported_once() {
    check_steps("- set: {a: &x {b: yes}, c: *x, d: *x}\n", &["yaml-surprise 1:19"]);
}

#[test]
fn an_unused_name_is_reported() {
    check_steps("- set: {a: 1, b: 2}\n- {if: vars.b == 2, action: log.info}\n", &["unused-value 1:9"]);
    check_steps("- id: x\n  set: {a: 1}\n- action: log.info\n", &["unused-value 2:9"]);
    let file = |lines: &str| format!("{lines}\ntrigger: {{manual: {{}}}}\nsteps: [{{action: log.info}}]\n");
    check(&file("configVars: {a: 1, b: {value: x}}"), &["unused-value 1:14", "unused-value 1:20"]);
    check(&file("inputs: {a: {type: text}}"), &["unused-value 1:10"]);
    check(&file("inputs: {a: {}, b: {}}\noutputs: ${{ inputs.b }}"), &["unused-value 1:10"]);
}

#[test]
fn a_possibly_used_name_is_not_reported() {
    let read = |expression: &str| {
        let steps = format!(
            "- id: x\n  set: {{a: 1}}\n- action: log.info\n  with: {{message: \"${{{{ {expression} }}}}\"}}\n"
        );
        check_steps(&steps, &[]);
    };
    read("vars.a");
    read("vars['a'] | default(1)");
    read("vars");
    read("vars[execution.id]");
    read("$.vars.a");
    read("$..a");
    read("$.steps[?@.results.b == $.vars.a]");
    read("steps.x.results.a");
    read("steps");
    // A name that is read may be a misspelling of it.
    read("vars.aa");
    check_steps("- action: log.info\n- set: {a: 1}\n", &[]);
    check_steps("- if: execution.id\n  then: [{set: {a: 1}}]\n- action: log.info\n", &[]);
    check_steps("- set: {_a: 1}\n- action: log.info\n", &[]);
    let file = |expression: &str| {
        let steps = format!("[{{action: log.info, with: {{message: '${{{{ {expression} }}}}'}}}}]");
        check(&format!("inputs: {{a: {{}}}}\ntrigger: {{manual: {{}}}}\nsteps: {steps}\n"), &[]);
    };
    file("inputs.a");
    file("trigger.results.inputs.a");
    file("trigger.results.body.data.a");
    file("trigger.results.body");
    file("trigger | tojson");
}

#[test]
fn unused_names_are_not_reported_for_files_with_errors() {
    check_steps(
        "- set: {a: 1}\n- {action: log.info, wiht: {message: '${{ vars.a }}'}}\n",
        &["unknown-key 2:22"],
    );
    check_steps("- set: {a: 1}\n- {if: vars.a +, action: log.info}\n", &["expression-syntax 2:15"]);
}

#[test]
fn a_constant_condition_is_reported() {
    check_step("if: \"'a' == 'b'\"\naction: log.info", &["constant-condition 1:8"]);
    check_step("if: ${{ 1 > 2 }}\naction: log.info", &["constant-condition 1:11"]);
    check_step("if: true\nthen: [{action: log.info}]", &["constant-condition 1:7"]);
    check("trigger: {manual: {}, if: not ''}\nsteps: [{action: log.info}]\n", &["constant-condition 1:27"]);
    let severity = |value: &str| {
        let text = format!("trigger: {{manual: {{}}}}\nsteps: [{{action: log.info, if: {value}}}]\n");
        load(&text).report.diagnostics()[0].severity
    };
    assert_eq!((severity("false"), severity("1 == 2")), (Severity::Hint, Severity::Warning));
}

#[test]
fn a_constant_operand_is_reported_at_its_position() {
    check_step("if: execution.id == 'a' or 'b'\naction: log.info", &["constant-condition 1:30"]);
    check_step("if: |-\n  execution.id != 'a'\n    and 'b'\naction: log.info", &["constant-condition 3:11"]);
    check_step("if: execution.id in ['a', 'b']\naction: log.info", &[]);
    check_step("forEach: [1, 2]\nsteps: [{action: log.info}]", &[]);
}

#[test]
fn an_unverified_webhook_is_reported() {
    let told = |webhook: &str| {
        let report = load(&format!("trigger: {{webhook: {webhook}}}\nsteps: []\n")).report;
        let told = |found: &&Diagnostic| found.code == "unverified-webhook";
        report.diagnostics().iter().filter(told).count()
    };
    assert_eq!((told("{}"), told(""), told("{mode: sync}")), (1, 1, 1));
    assert_eq!(told("{verify: none}"), 0);
    // A key that means nothing may be meant as the one that is missing.
    assert_eq!((told("{verfy: none}"), told("{verify: nobody}")), (0, 0));
}

#[test]
fn a_setting_without_effect_is_reported() {
    check_step("set: {_a: 1}\nretry: 3", &["unused-setting 2:3"]);
    check_step("set: {_a: 1}\nonInterrupt: fail", &["unused-setting 2:3"]);
    check_step("fail: x\nundo: [{action: log.info}]", &["unused-setting 2:3"]);
    let undone = "{action: log.info, undo: [{action: log.info, undo: [{action: log.info}]}]}";
    check_steps(&format!("- {undone}\n"), &["unused-setting 1:48"]);
    let text = "trigger: {manual: {}}\nsteps: [{action: log.info}]\nfinally: [{action: log.info, undo: [{action: log.info}]}]\n";
    check(text, &["unused-setting 3:30"]);
}

#[test]
fn a_setting_that_may_take_effect_is_not_reported() {
    check_step("action: http.request\nretry: 3\nonInterrupt: fail", &[]);
    check_step("steps: [{action: log.info}]\nretry: 3\nundo: [{action: log.info}]", &[]);
}
