//! `switch`, `repeat`, groups, `break` and `continue`.

use crate::common::{Project, end, outcome_of, outcome_with, soon, start_with, steps_of, stop};

fn manual(steps: &str) -> String {
    format!("trigger: {{manual: {{}}}}\ninputs: {{kind: {{}}}}\nsteps:\n{steps}")
}

#[tokio::test]
async fn a_switch_takes_the_case_equal_to_the_value_as_text_or_the_default() {
    let steps = "  - switch: inputs.kind\n    cases:\n      paid: [{set: {x: p}}]\n      '3': [{set: {x: three}}]\n      'true': [{set: {x: yes}}]\n      'null': [{set: {x: none}}]\n    default: [{set: {x: other}}]\n";
    for (kind, expected) in [
        ("\"paid\"", r#"{"x":"p"}"#),
        ("3", r#"{"x":"three"}"#),
        ("\"3\"", r#"{"x":"three"}"#),
        ("true", r#"{"x":"yes"}"#),
        ("null", r#"{"x":"none"}"#),
        ("[3]", r#"{"x":"other"}"#),
        ("\"PAID\"", r#"{"x":"other"}"#),
    ] {
        assert_eq!(outcome_with(&manual(steps), &format!("{{\"kind\": {kind}}}")).await, expected, "{kind}");
    }
    let none = "  - {id: a, set: {x: 1}}\n  - switch: inputs.kind\n    cases: {x: [{set: {y: 1}}]}\n";
    assert_eq!(outcome_with(&manual(none), r#"{"kind": "y"}"#).await, "null", "no case, no default");
}

#[tokio::test]
async fn a_switch_of_conditions_runs_the_first_true_case_and_evaluates_none_behind_it() {
    let steps = manual(
        "  - switch:\n      - {if: inputs.kind == 'a', then: [{set: {x: first}}]}\n      - {name: second, if: \"inputs.kind in ['a', 'b']\", then: [{set: {x: second}}]}\n      - {if: inputs.kind.deep, then: [{set: {x: third}}]}\n    default: [{set: {x: other}}]\n",
    );
    for (kind, expected) in [
        ("\"a\"", r#"{"x":"first"}"#),
        ("\"b\"", r#"{"x":"second"}"#),
        (r#"{"deep": true}"#, r#"{"x":"third"}"#),
        (r#"{"deep": false}"#, r#"{"x":"other"}"#),
    ] {
        assert_eq!(outcome_with(&steps, &format!("{{\"kind\": {kind}}}")).await, expected, "{kind}");
    }
    let failed = outcome_with(&steps, r#"{"kind": {}}"#).await;
    assert!(failed.starts_with("failed: ") && failed.contains("deep"), "{failed}");
}

#[tokio::test]
async fn a_repeat_ends_once_until_holds_and_fails_if_it_never_does() {
    let steps = |max: u32| {
        manual(&format!(
            "  - set: {{sum: 0}}\n  - repeat: {{until: vars.sum >= 6, max: {max}}}\n    steps:\n      - set: {{sum: \"${{{{ vars.sum + index }}}}\"}}\n"
        ))
    };
    assert_eq!(outcome_of(&steps(10)).await, r#"{"sum":6}"#);
    assert_eq!(outcome_of(&steps(4)).await, r#"{"sum":6}"#, "it holds after the last iteration");
    assert_eq!(outcome_of(&steps(3)).await, "failed: `until` was still false after 3 iterations");
    let counted = manual("  - repeat: {max: 3}\n    steps:\n      - set: {n: \"${{ index }}\"}\n");
    assert_eq!(outcome_of(&counted).await, r#"{"n":2}"#, "without `until` there are `max` iterations");
}

#[tokio::test]
async fn a_break_ends_the_loop_and_a_continue_the_iteration() {
    let loops = |way: &str| {
        manual(&format!(
            "  - forEach: [1, 2, 3, 4]\n    steps:\n      - if: item == 3\n        then:\n          - {way}: true\n      - set: {{x: \"${{{{ item }}}}\"}}\n"
        ))
    };
    assert_eq!(outcome_of(&loops("break")).await, r#"[{"x":1},{"x":2}]"#, "the iteration leaves no result");
    assert_eq!(outcome_of(&loops("continue")).await, r#"[{"x":1},{"x":2},null,{"x":4}]"#);
    let repeat = manual(
        "  - repeat: {max: 9}\n    steps:\n      - {if: index == 2, break: true}\n      - set: {x: \"${{ index }}\"}\n",
    );
    assert_eq!(outcome_of(&repeat).await, r#"{"x":1}"#, "the last complete iteration counts");
    let nested = manual(
        "  - forEach: [a, b]\n    as: outer\n    steps:\n      - forEach: [1, 2, 3]\n        as: inner\n        steps:\n          - {if: inner == 2, break: true}\n          - set: {x: \"${{ outer ~ inner }}\"}\n",
    );
    assert_eq!(outcome_of(&nested).await, r#"[[{"x":"a1"}],[{"x":"b1"}]]"#, "only the inner loop ends");
}

#[tokio::test]
async fn a_continue_in_a_concurrent_loop_leaves_null_in_its_place() {
    let steps = manual(
        "  - forEach: [1, 2, 3]\n    concurrency: 3\n    steps:\n      - {if: item == 2, continue: true}\n      - set: {x: \"${{ item }}\"}\n",
    );
    assert_eq!(outcome_of(&steps).await, r#"[{"x":1},null,{"x":3}]"#);
}

#[tokio::test]
async fn a_continue_gives_the_iteration_its_result() {
    let each = |rest: &str| {
        manual(&format!(
            "  - forEach: [1, 2, 3]\n{rest}    steps:\n      - steps: [{{if: item == 2, continue: {{result: \"${{{{ item * 10 }}}}\"}}}}]\n      - set: {{x: \"${{{{ item }}}}\"}}\n"
        ))
    };
    let expected = r#"[{"x":1},20,{"x":3}]"#;
    assert_eq!(outcome_of(&each("")).await, expected);
    assert_eq!(outcome_of(&each("    concurrency: 3\n")).await, expected);
    let repeat = manual("  - repeat: {max: 2}\n    steps:\n      - continue: {result: \"${{ index }}\"}\n");
    assert_eq!(outcome_of(&repeat).await, "1");
}

#[tokio::test]
async fn steps_around_a_break_are_recorded_as_left_by_it() {
    let project = Project::with(&manual(
        "  - id: loop\n    forEach: [1, 2]\n    steps:\n      - id: group\n        steps:\n          - {id: out, break: true}\n",
    ));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, "[]");
    let ends = steps_of(&engine, id).await;
    assert_eq!(ends, ["out[0] left by break", "group[0] left by break", "loop=[]"]);
    stop(engine).await;
}

#[tokio::test]
async fn a_group_shares_its_if_and_on_error_and_returns_its_last_result() {
    let steps = manual(
        "  - steps: [{set: {a: 1}}, {set: {b: 2}}]\n  - id: guarded\n    if: false\n    steps: [{fail: never}]\n  - id: handled\n    steps: [{set: {c: 3}}, {fail: oh}]\n    onError: [{set: {said: \"${{ error.message }}\"}}]\n",
    );
    assert_eq!(outcome_of(&steps).await, r#"{"said":"oh"}"#);
    assert_eq!(outcome_of(&manual("  - steps: [{set: {a: 1}}, {set: {b: 2}}]\n")).await, r#"{"b":2}"#);
}

#[tokio::test]
async fn uuid_differs_in_each_call_and_now_is_constant_within_a_step() {
    let project = Project::with(&manual(
        "  - set: {a: \"${{ uuid() }}\", b: \"${{ uuid() }}\", t: \"${{ now() == now() }}\", n: \"${{ now() }}\"}\n",
    ));
    let engine = project.start().await;
    let first = start_with(&engine, "{}").await;
    let first = soon(engine.admission().wait(first)).await.expect("it ends");
    let second = start_with(&engine, "{}").await;
    let second = soon(engine.admission().wait(second)).await.expect("it ends");
    let value = |outcome: &model::Outcome, name: &str| match outcome {
        model::Outcome::Succeeded { result } => result.path(name).expect("it is set").to_text(),
        other => panic!("{other:?}"),
    };
    assert_eq!(value(&first, "t"), "true");
    assert_eq!(value(&first, "n"), "2026-03-02T08:00:00.000Z");
    let all = ["a", "b"].map(|name| [value(&first, name), value(&second, name)]).concat();
    let distinct: std::collections::HashSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), 4, "{all:?}");
    stop(engine).await;
}
