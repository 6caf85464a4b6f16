//! Tests of comparisons with known words, of the types of errors, and of what events bring.

use std::sync::Arc;

use language::load::Unreadable;
use pretty_assertions::assert_eq;
use text::diagnostic::Source;

use super::tests::{REGISTRY, alone, check};
use crate::check::{NameKind, Spelling};

/// Checks the condition of a step in the `onError` of `call`, after `own`, which fails with the kind `outOfStock`.
#[track_caller]
fn check_error(condition: &str, expected: &[&str]) {
    let text = format!(
        "trigger: {{manual: {{}}}}
steps:
  - {{id: own, fail: {{message: no, kind: outOfStock}}, onError: continue}}
  - id: call
    action: http.request
    with: {{url: 'https://example.com'}}
    onError: [{{if: \"{condition}\", set: {{a: 1}}}}]
"
    );
    check(&text, expected);
}

#[test]
fn a_misspelt_kind_of_an_error_is_reported_with_the_kind_that_it_resembles() {
    check_error("error.kind == 'time-out'", &["never-equal time-out (timeout)"]);
    check_error("'netwrk' != error.kind", &["never-equal netwrk (network)"]);
    check_error("error.kind in ['network', 'time-out', 'mine']", &["never-equal time-out (timeout)"]);
    check_error("error.kind not in ['Status']", &["never-equal Status (status)"]);
    check_error("error.kind is eq 'conection'", &["never-equal conection (connection)"]);
    check_error("steps.own.error.kind == 'outOfStok'", &["never-equal outOfStok (outOfStock)"]);
    check_error("error.step == 'cal'", &["never-equal cal (call)"]);
    for fine in [
        "error.kind == 'timeout'",
        "error.kind in ['network', 'outOfStock']",
        // Another file may give it.
        "error.kind == 'soldOut'",
        "error.kind == null",
        "'time-out' in error.message",
        "error.step == 'elsewhere'",
        "error.data.kind == 'time-out'",
    ] {
        check_error(fine, &[]);
    }
}

/// Checks a condition after `each`, a loop whose iterations may fail, in a loop over the results of it; `why` is an error's kind.
#[track_caller]
fn check_failures(condition: &str, expected: &[&str]) {
    let text = format!(
        "trigger: {{manual: {{}}}}
steps:
  - id: each
    forEach: [1, 2]
    failFast: false
    steps:
      - {{id: page, action: wiki.getPage, connection: w, with: {{pageId: '1'}}}}
  - {{id: call, action: http.request, with: {{url: 'https://example.com'}}, onError: continue}}
  - set: {{why: '${{{{ steps.call.error.kind }}}}', last: '${{{{ steps.call.error }}}}', any: '${{{{ steps.call.results.body }}}}'}}
  - forEach: ${{{{ steps.each.results }}}}
    steps:
      - {{if: \"{condition}\", set: {{a: 1}}}}
"
    );
    check(&text, expected);
}

#[test]
fn the_kind_of_an_error_in_a_list_or_a_variable_is_one_of_the_known_words() {
    let misspelt = ["never-equal timeuot (timeout)"];
    for wrong in [
        "item.error.kind == 'timeuot'",
        "item.error.kind in ['network', 'timeuot']",
        "item.error.lostAttempt.kind == 'timeuot'",
        "vars.last.kind == 'timeuot'",
        "vars.why == 'timeuot'",
        "vars.why is sameas 'timeuot'",
        "steps.call.error.kind | default('none') == 'timeuot'",
        "coalesce(steps.call.error.kind, 'none') != 'timeuot'",
        "{'timeuot': true}[vars.why]",
        "vars.why in {'timeuot': 1}",
        "steps.each.results | selectattr('error.kind', 'equalto', 'timeuot')",
        "steps.each.results | rejectattr('error.kind', 'in', ['network', 'timeuot'])",
        "steps.each.results | map(attribute='error.kind') | select('equalto', 'timeuot') | list",
        "steps.each.results | map(by=item.error.kind) | reject('ne', 'timeuot') | list",
        "'timeuot' in steps.each.results | map(attribute='error.kind')",
        "steps.each.results | select(by=item.error.kind == 'timeuot')",
        "steps.each.results | sort(by=item.error.kind != 'timeuot')",
        "steps.each.results | takeWhile(by=item.error.kind == 'timeuot')",
        "steps.each.results | groupby(by=item.error.kind == 'timeuot')",
        "(steps.each.results | first).error.kind == 'timeuot'",
    ] {
        check_failures(wrong, &misspelt);
    }
    for fine in [
        "item.error.kind == 'timeout'",
        "item.error.kind == 'soldOut'",
        "steps.call.error.kind | default('timeuots') == 'timeuots'",
        "steps.each.results | selectattr('error.kind', 'equalto', 'timeout')",
        // The types of these are unknown.
        "vars.any.kind == 'timeuot'",
        "vars.any | selectattr('error.kind', 'equalto', 'timeuot')",
        "vars.any | select('in', ['timeuot'])",
        "'timeuot' in vars.any | map(attribute='kind')",
        "'timeuot' in item.error.kind",
        "{'timeuot': 1}[vars.any]",
    ] {
        check_failures(fine, &[]);
    }
}

#[test]
fn a_switch_on_the_kind_of_an_error_of_an_iteration_is_checked() {
    let text = |case: &str| {
        format!(
            "trigger: {{manual: {{}}}}
steps:
  - {{id: each, forEach: [1], failFast: false, steps: [{{action: wiki.listPages, connection: w}}]}}
  - forEach: ${{{{ steps.each.results }}}}
    steps: [{{switch: item.error.kind, cases: {{{case}: [{{set: {{a: 1}}}}]}}}}]
"
        )
    };
    check(&text("timeuot"), &["unreachable-case timeuot (timeout)"]);
    check(&text("timeout"), &[]);
}

#[test]
fn a_field_that_an_error_does_not_have_is_reported_wherever_the_error_stands() {
    check_failures("item.error.knd == 'timeout'", &["unknown-field knd (kind)"]);
    check_failures("vars.last.mesage == ''", &["unknown-field mesage (message)"]);
    check_failures("steps.call.error.statu == 404", &["unknown-field statu (status)"]);
    check_failures("item.error.data.anything == 1 and item.error.body.x == 1", &[]);
}

#[test]
fn a_member_of_an_error_is_compared_with_its_type() {
    check_error("error.status == '404'", &["never-equal error.status == '404'"]);
    check_error("error.code == 23505", &["never-equal error.code == 23505"]);
    check_error("error.outcomeUnknown == 'true'", &["never-equal error.outcomeUnknown == 'true'"]);
    for fine in ["error.status == 404", "error.status in [404, 410]", "error.code == '23505'"] {
        check_error(fine, &[]);
    }
}

#[test]
fn a_kind_that_another_file_gives_is_known_and_so_is_its_other_spelling() {
    let text = |kind: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nsteps: []\nonError: [{{if: error.kind == '{kind}', set: {{a: 1}}}}]\n"
        )
    };
    let found = |kind: &str| {
        let text = text(kind);
        let loaded = language::load::automation(Arc::new(Source::new("test.yaml", text.as_str())), "test");
        let automation = loaded.value.expect("it loads");
        let given = |kind: NameKind, folded: &str| {
            let is_it = kind == NameKind::GivenKind && ["inputs", "outofstock"].contains(&folded);
            let name = if folded == "inputs" { "inputs" } else { "outOfStock" };
            let spelling = || Spelling { name: name.into(), path: "automations/other.yaml".into() };
            is_it.then(spelling).into_iter().collect()
        };
        let surroundings = super::Surroundings { spellings: &given, ..alone() };
        let found = super::check(&automation, Unreadable::NONE, &REGISTRY, surroundings);
        found.into_iter().map(|found| found.nearest.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(found("inputs"), [""; 0]);
    assert_eq!(found("input"), [""; 0]);
    assert_eq!(found("inpt"), ["input"]);
    assert_eq!(found("out_of_stock"), ["outOfStock"]);
}

#[test]
fn a_misspelt_status_is_reported_also_beside_right_ones() {
    let closing = |condition: &str| {
        format!("trigger: {{manual: {{}}}}\nsteps: []\nfinally: [{{if: \"{condition}\", set: {{a: 1}}}}]\n")
    };
    check(&closing("outcome.status == 'faild'"), &["never-equal faild (failed)"]);
    check(&closing("outcome.status == 'canceled'"), &["never-equal canceled (cancelled)"]);
    check(&closing("outcome.status == 'broken'"), &["never-equal outcome.status == 'broken'"]);
    check(&closing("outcome.status in ['failed', 'faild', 'broken']"), &["never-equal faild (failed)"]);
    check(&closing("outcome.error.kind == 'canceled'"), &["never-equal canceled (cancelled)"]);
    check(&closing("outcome.status in ['failed', 'cancelled']"), &[]);
}

#[test]
fn a_case_of_a_switch_that_the_value_never_has_is_reported() {
    let switch = |value: &str, case: &str| {
        format!(
            "trigger: {{manual: {{}}}}\nsteps: []\nfinally: [{{switch: {value}, cases: {{{case}: [{{set: {{a: 1}}}}]}}}}]\n"
        )
    };
    check(&switch("outcome.status", "faild"), &["unreachable-case faild (failed)"]);
    check(&switch("outcome.error.kind", "time-out"), &["unreachable-case time-out (timeout)"]);
    check(&switch("outcome.error.kind", "soldOut"), &[]);
    check(&switch("outcome.error.kind", "timeout"), &[]);
    check(&switch("outcome.error.kind", "default"), &["unreachable-case default"]);
}

#[test]
fn an_own_event_has_the_name_of_its_trigger() {
    let text = "trigger: {event: order.paid, data: {n: integer}, if: \"event.name == 'order.payd'\"}\nsteps: [{if: \"trigger.results.event.name == 'order.paid'\", set: {a: 1}}]\n";
    check(text, &["never-equal order.payd (order.paid)"]);
}
