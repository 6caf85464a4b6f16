//! Tests of data races on variables.

use super::check_steps;

const READ: &str = "- {if: vars.x, action: log.info}\n";

#[test]
fn concurrent_branches_that_set_one_variable_race() {
    let both = |right: &str| {
        format!("- parallel:\n    left: [{{set: {{x: '${{{{ execution.id }}}}'}}}}]\n    right: [{right}]\n")
    };
    check_steps(&format!("{}{READ}", both("{set: {x: 2}}")), &["racing-variable x"]);
    check_steps(
        &format!("{}{READ}", both("{if: execution.id, then: [{set: {x: 2}}]}")),
        &["racing-variable x"],
    );
    check_steps(&format!("{}{READ}", both("{set: {y: 2}}")), &[]);
    // Each strand reads its own value, and no step reads the merged one.
    check_steps(&both("{set: {x: 2}}, {if: vars.x == 2, action: log.info}"), &[]);
    // A later step overwrites the value.
    check_steps(&format!("{}- set: {{x: 3}}\n{READ}", both("{set: {x: 2}}")), &[]);
    check_steps(
        &format!("{}- {{if: execution.id, set: {{x: 3}}}}\n{READ}", both("{set: {x: 2}}")),
        &["racing-variable x"],
    );
}

#[test]
fn setting_the_same_literal_concurrently_is_no_race() {
    let both = "- set: {x: false}\n- parallel:\n    left: [{if: execution.id, set: {x: true}}]\n    right: [{set: {x: true}}]\n";
    check_steps(&format!("{both}{READ}"), &[]);
    check_steps(
        "- set: {x: false}\n- forEach: [1, 2]\n  concurrency: 2\n  steps: [{if: item == 1, set: {x: true}}]\n- {if: vars.x, action: log.info}\n",
        &[],
    );
}

#[test]
fn unordered_setters_race() {
    let graph = |read: &str| {
        format!(
            "- {{id: a, needs: [], set: {{x: 1}}}}\n- {{id: b, needs: [], set: {{x: 2}}}}\n- {{id: c, needs: {read}, if: vars.x, action: log.info}}\n"
        )
    };
    check_steps(&graph("[a, b]"), &["racing-variable x"]);
    // The reader waits for one of the two setters; the other may have run earlier.
    check_steps(&graph("[a]"), &["racing-variable x"]);
    check_steps(
        "- {id: a, needs: [], set: {x: 1}}\n- {id: b, needs: [a], set: {x: 2}}\n- {id: c, needs: [b], if: vars.x, action: log.info}\n",
        &[],
    );
    // The reader's own value is not affected by the other strand.
    check_steps(
        "- {id: a, needs: [], set: {x: 1}}\n- id: b\n  needs: []\n  steps: [{set: {x: 2}}, {if: vars.x, action: log.info}]\n",
        &[],
    );
}

#[test]
fn a_sum_over_parallel_iterations_loses_updates() {
    let sum = |concurrency: u8, turn: &str| {
        format!(
            "- set: {{x: 0}}\n- id: each\n  forEach: [1, 2]\n  concurrency: {concurrency}\n  steps:\n    {turn}- set: {{x: '${{{{ vars.x + item }}}}'}}\n"
        )
    };
    check_steps(&sum(2, ""), &["racing-variable x"]);
    check_steps(&sum(1, ""), &[]);
    // A sum within the iteration.
    check_steps(&sum(2, "- set: {x: 0}\n    "), &[]);
}

#[test]
fn an_iteration_reads_its_own_value() {
    check_steps(
        "- forEach: [1, 2]\n  concurrency: 2\n  steps:\n    - set: {x: '${{ item }}'}\n    - {if: vars.x, action: log.info}\n",
        &[],
    );
    // An outer value is read and then replaced for the rest of the iteration.
    check_steps(
        "- set: {x: 0}\n- forEach: [1, 2]\n  concurrency: 2\n  steps:\n    - {if: vars.x, action: log.info}\n    - set: {x: '${{ item }}'}\n",
        &[],
    );
}

#[test]
fn a_variable_of_parallel_iterations_is_uncertain_after_the_loop() {
    let each = "- id: each\n  forEach: [1, 2]\n  concurrency: 2\n  steps: [{set: {x: '${{ item }}'}}]\n";
    check_steps(&format!("{each}{READ}"), &["racing-variable x"]);
    check_steps(&format!("{each}- set: {{x: 1}}\n{READ}"), &[]);
    check_steps(&format!("{}{READ}", each.replace("concurrency: 2", "concurrency: 1")), &[]);
}

#[test]
fn the_number_of_compared_setters_is_bounded() {
    use std::fmt::Write as _;
    let mut steps = String::new();
    for number in 0..300 {
        let _ = writeln!(steps, "- {{id: a{number}, needs: [], set: {{x: {number}}}}}");
    }
    let all: Vec<String> = (0..300).map(|number| format!("a{number}")).collect();
    let _ = writeln!(steps, "- {{id: all, needs: [{}], action: log.info}}", all.join(", "));
    for _ in 0..600 {
        steps.push_str("- {if: vars.x, action: log.info}\n");
    }
    let found = super::report(&format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}"));
    assert!(found.has_errors());
}
