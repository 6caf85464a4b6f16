//! References to `trigger` in automations with several triggers.

use super::check;

/// Checks steps under a schedule `nightly` and a webhook `changed`.
#[track_caller]
fn check_of_two(steps: &str, expected: &[&str]) {
    let triggers =
        "triggers:\n  - {id: nightly, schedule: {every: 5m}}\n  - {id: changed, webhook: {verify: none}}\n";
    check(&format!("{triggers}steps:\n{steps}"), expected);
}

#[test]
fn a_read_that_one_trigger_lacks_is_a_warning_unless_a_condition_names_the_trigger() {
    let read = "set: {a: \"${{ trigger.results.body.data }}\"}";
    check_of_two(&format!("  - {read}\n"), &["trigger-may-differ data"]);
    for condition in [
        "trigger.id == 'changed'",
        "'changed' == trigger.id",
        "trigger.id != 'nightly'",
        "trigger.id in ['changed']",
    ] {
        check_of_two(&format!("  - if: \"{condition}\"\n    {read}\n"), &[]);
        check_of_two(&format!("  - if: \"{condition}\"\n    then: [{{{read}}}]\n"), &[]);
    }
    check_of_two(
        &format!("  - if: trigger.id == 'nightly'\n    then: [{{set: {{a: 1}}}}]\n    else: [{{{read}}}]\n"),
        &[],
    );
    check_of_two(
        &format!(
            "  - switch: trigger.id\n    cases: {{changed: [{{{read}}}], nightly: [{{set: {{a: 1}}}}]}}\n"
        ),
        &[],
    );
    check_of_two("  - set: {a: \"${{ trigger.results.body.data | default(1) }}\"}\n", &[]);
    check_of_two("  - set: {a: \"${{ trigger.results.nothing }}\"}\n", &["unknown-member nothing"]);
}

#[test]
fn a_comparison_with_the_id_of_no_trigger_is_an_error() {
    check_of_two("  - {if: trigger.id == 'change', set: {a: 1}}\n", &["unknown-trigger change"]);
    check_of_two("  - {if: \"trigger.id in ['changed', 'paid']\", set: {a: 1}}\n", &["unknown-trigger paid"]);
}
