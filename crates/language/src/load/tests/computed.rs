//! Settings that expressions compute.

use std::time::Duration;

use model::automation::{NameSetting, Setting, Verb};
use pretty_assertions::assert_eq;

use super::{check_step, check_steps, good, shown};

fn steps(steps: &str) -> String {
    format!("trigger: {{manual: {{}}}}\ninputs: {{limit: {{type: text}}}}\nsteps:\n{steps}\n")
}

#[test]
fn each_computed_setting_keeps_its_expression_and_literals_stay_literals() {
    let automation = good(&steps(
        "- {wait: 1s, timeout: '${{ inputs.limit }}', retry: {max: '${{ 1 + 1 }}', delay: '${{ inputs.limit }}'}}\n- {repeat: {max: '${{ index }}', delay: 5s}, steps: [{wait: 1s}]}\n- {forEach: [1], concurrency: '${{ 3 }}', steps: [{wait: 1s}]}",
    ));
    let [wait, repeat, each] = automation.steps.steps.as_slice() else { panic!("three steps") };
    let texts = |step: &model::Step| -> Vec<String> {
        step.computed_settings().into_iter().map(|found| found.text().to_owned()).collect()
    };
    assert_eq!(texts(wait), ["inputs.limit", "1 + 1", "inputs.limit"]);
    assert_eq!((texts(repeat), texts(each)), (vec!["index".to_owned()], vec!["3".to_owned()]));
    let Verb::Repeat(repeat) = &repeat.verb else { panic!("a repeat") };
    assert_eq!(repeat.delay, Setting::Literal(Duration::from_secs(5)));
    let policy = wait.retry.as_ref().and_then(|retry| retry.only_policy()).expect("a policy");
    assert_eq!((policy.max, policy.delay), (100, Duration::ZERO));
}

#[test]
fn each_policy_of_a_list_has_its_own_computed_settings() {
    let automation = good(&steps(
        "- {wait: 1s, retry: [{max: '${{ 1 + 1 }}', on: network}, {max: 100, if: error.code == 'a', delay: '${{ inputs.limit }}'}]}",
    ));
    let step = &automation.steps.steps[0];
    let texts: Vec<&str> = step.computed_settings().into_iter().map(|found| found.text()).collect();
    assert_eq!(texts, ["1 + 1", "inputs.limit"]);
    let retry = step.retry.as_ref().expect("policies");
    assert!(retry.has_computed_max());
    let computed: Vec<bool> = retry.rules.iter().map(|rule| rule.policy.has_computed_max()).collect();
    assert_eq!(computed, [true, false]);
    check_steps(
        "- {wait: 1s, retry: [{max: '${{ 1 + 1 }}', on: network}, {max: 60}, {max: 41}]}",
        &["unused-setting 1:14", "out-of-range 1:23"],
    );
}

#[test]
fn a_name_is_literal_or_selected_from_a_list() {
    let automation = good(&steps(
        "- {action: a.b, connection: {name: '${{ inputs.limit }}', of: [one, two]}}\n- {call: {id: '${{ inputs.limit }}', of: other}}\n- {call: other}",
    ));
    let names = |setting: &NameSetting| setting.to_string();
    let found: Vec<String> = automation
        .steps
        .steps
        .iter()
        .map(|step| match &step.verb {
            Verb::Action(call) => call.connection.as_ref().map(names).unwrap_or_default(),
            Verb::Call(call) => names(&call.automation),
            verb => verb.keyword().to_owned(),
        })
        .collect();
    assert_eq!(found, ["one or two", "other", "other"]);
}

#[test]
fn a_selection_has_at_most_a_hundred_names() {
    let of = |count: usize| (0..count).map(|number| format!("c{number}")).collect::<Vec<_>>().join(", ");
    let step = |count| format!("{{call: {{id: '${{{{ inputs.limit }}}}', of: [{}]}}}}", of(count));
    check_step(&step(100), &[]);
    check_step(&step(101), &["out-of-range 1:43"]);
}

#[test]
fn a_selection_without_its_list_is_refused_with_the_way_out() {
    check_step("{action: a.b, connection: {name: '${{ inputs.limit }}'}}", &["missing-key 1:30"]);
    check_step("{call: {id: '${{ inputs.limit }}', of: []}}", &["empty-list 1:42"]);
    check_step("{call: {of: [a]}}", &["missing-key 1:11"]);
    check_step(
        "{action: a.b, connection: {name: '${{ inputs.limit }}', of: [c], to: 1}}",
        &["unknown-key 1:68"],
    );
    for (step, help) in [
        (
            "{action: a.b, connection: '${{ inputs.limit }}'}",
            "connection: {name: \"${{ inputs.limit }}\", of: [NAME, …]}",
        ),
        ("{call: '${{ inputs.limit }}'}", "call: {id: \"${{ inputs.limit }}\", of: [NAME, …]}"),
        ("{action: a.b, connection: {name: '${{ inputs.limit }}'}}", "of: [NAME, …]"),
        ("{action: a.b, connection: {name: crm, of: [crm]}}", "or name it alone: `connection: crm`"),
    ] {
        let text = shown(&steps(&format!("- {step}")));
        assert!(text.contains(help), "{step}\n{text}");
    }
    let many: Vec<String> = (0..=NameSetting::MAX_NAMES).map(|number| format!("c{number}")).collect();
    let step = format!(
        "{{action: a.b, connection: {{name: '${{{{ inputs.limit }}}}', of: [{}]}}}}",
        many.join(", ")
    );
    check_step(&step, &["out-of-range 1:64"]);
}

#[test]
fn a_path_without_braces_is_an_error_with_its_correction() {
    for step in [
        "{wait: 1s, timeout: inputs.limit}",
        "{wait: 1s, retry: {max: inputs.limit}}",
        "{repeat: {max: inputs.limit}, steps: [{wait: 1s}]}",
        "{forEach: [1], concurrency: inputs.limit, steps: [{wait: 1s}]}",
        "{call: {id: inputs.limit, of: [a]}}",
        "{action: a.b, connection: {name: inputs.limit, of: [a]}}",
    ] {
        let text = shown(&steps(&format!("- {step}")));
        assert!(text.contains("error[bare-expression]"), "{step}\n{text}");
        assert!(text.contains("write `${{ inputs.limit }}`"), "{step}\n{text}");
        assert_eq!(text.matches("[bare-expression]").count(), 1, "{text}");
    }
}

#[test]
fn a_text_around_the_expression_of_a_setting_is_refused() {
    let text = |step: &str| shown(&steps(&format!("- {step}")));
    let joined = text("{wait: 1s, timeout: '${{ inputs.limit }}s'}");
    assert!(joined.contains("write `timeout: ${{ inputs.limit ~ 's' }}`"), "{joined}");
    let number = text("{repeat: {max: '${{ inputs.limit }}0'}, steps: [{wait: 1s}]}");
    assert!(number.contains("write the whole value in one expression"), "{number}");
}

#[test]
fn only_settings_of_steps_and_the_concurrency_limit_can_be_computed() {
    let file = |top: &str| format!("trigger: {{manual: {{}}}}\n{top}\nsteps: [{{wait: 1s}}]\n");
    for (top, code) in [
        ("timeout: '${{ 1 }}'", "wrong-type"),
        ("retry: {max: '${{ 1 }}'}", "wrong-type"),
        ("defaults: {timeout: '${{ 1 }}'}", "wrong-type"),
        ("defaults: {retry: {max: '${{ 1 }}'}}", "wrong-type"),
        ("defaults: {retry: '${{ 1 }}'}", "wrong-type"),
        ("concurrency: {limit: 0}", "out-of-range"),
    ] {
        let text = shown(&file(top));
        assert!(text.contains(&format!("error[{code}]")), "{top}\n{text}");
    }
    good(&file("concurrency: {limit: '${{ trigger.results.n }}'}"));
    check_steps("- {wait: 1s, retry: '${{ 1 }}'}", &["wrong-type 1:21"]);
}
