//! Errors with data of the author, and whether a step succeeded.

use std::time::Duration;

use crate::checking::check_steps;
use crate::common::{
    Peer, Project, call, crash, end, manual, outcome_of, outcome_with, pass, soon, start_with, steps_of, stop,
};
use crate::hooks::{post, text, tokens};

#[tokio::test]
async fn a_fail_with_keys_gives_the_error_its_fields() {
    let fail = |keys: &str, reads: &str| {
        manual(&format!(
            "  - steps: [{{fail: {{message: \"no ${{{{ inputs.name }}}}\", {keys}}}}}]\n    onError: [{{set: {{z: \"${{{{ {reads} }}}}\"}}}}]\n"
        ))
    };
    let long = "x".repeat(65 << 10);
    for (keys, reads, expected) in [
        (
            "kind: outOfStock, data: {sku: [1]}",
            "[error.kind, error.message, error.data]",
            r#"["outOfStock","no a",{"sku":[1]}]"#,
        ),
        (
            "status: '${{ 400 + 9 }}', code: gone",
            "[error.kind, error.status, error.code]",
            r#"["failed",409,"gone"]"#,
        ),
        ("status: 503", "[error.status, error.data is defined]", "[503,false]"),
        (
            "status: \"${{ 'x' }}\"",
            "error.kind ~ ' ' ~ error.message",
            r#""input fail.status: expected a number from 100 to 599, found x""#,
        ),
        (
            "data: LONG",
            "error.kind ~ ' ' ~ error.message",
            r#""limit fail.data: the data of an error are larger than 64KiB""#,
        ),
    ] {
        let yaml = fail(&keys.replace("LONG", &long), reads);
        assert_eq!(
            outcome_with(&yaml, r#"{"name": "a"}"#).await,
            format!("{{\"z\":{expected}}}"),
            "{keys:.60}"
        );
    }
}

#[tokio::test]
async fn a_fail_in_on_error_keeps_the_fields_that_it_does_not_name() {
    let passed = |fail: &str| {
        manual(&format!(
            "  - steps:\n      - steps: [{{fail: {{message: a, kind: first, code: x, data: 1}}}}]\n        onError: [{{fail: {fail}}}]\n    onError: [{{set: {{z: \"${{{{ [error.message, error.kind, error.code, error.data] }}}}\"}}}}]\n"
        ))
    };
    for (fail, expected) in [
        ("b", r#"["b","first","x",1]"#),
        ("\"${{ error }}\"", r#"["a","first","x",1]"#),
        ("{message: b, data: 2}", r#"["b","first","x",2]"#),
        ("{message: \"${{ error }}\", kind: second}", r#"["a","second","x",1]"#),
    ] {
        assert_eq!(outcome_of(&passed(fail)).await, format!("{{\"z\":{expected}}}"), "{fail}");
    }
}

#[tokio::test]
async fn an_error_with_data_passes_through_a_call() {
    let project = Project::with(&manual(
        "  - id: a\n    call: child\n    onError: [{set: {z: \"${{ [error.kind, error.data.sku] }}\"}}]\n",
    ));
    let child = "trigger: {manual: {}}\nsteps: [{fail: {message: a, kind: outOfStock, data: {sku: 7}}}]\n";
    project.write("automations/child.yaml", child);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"z":["outOfStock",7]}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_fail_with_respond_answers_the_caller_once_in_place_of_500() {
    let fail = "fail: {message: no, respond: {status: 409, json: {error: gone}}}";
    for steps in [
        format!("  - {fail}\n"),
        format!("  - {fail}\n    onError: continue\n  - set: {{a: 1}}\n"),
        format!("  - retry: {{max: 1, delay: 0s}}\n    steps: [{{{fail}}}]\n"),
    ] {
        let project =
            Project::with(&format!("trigger: {{webhook: {{mode: sync, verify: none}}}}\nsteps:\n{steps}"));
        let engine = project.start().await;
        let (live, _) = tokens(&engine);
        let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
        assert_eq!(text(&answer), r#"409 {"error":"gone"}"#, "{steps}");
        let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
        let expected = if steps.contains("continue") { r#"{"a":1}"# } else { "failed: no" };
        assert_eq!(end(&engine, id).await, expected, "{steps}");
        stop(engine).await;
    }
}

/// A list that tells of these steps if they succeeded.
fn tells(ids: &str) -> String {
    let reads: Vec<String> = ids.split(' ').map(|id| format!("steps.{id}.ok")).collect();
    format!("{{id: tell, set: {{z: \"${{{{ [{}] }}}}\"}}}}", reads.join(", "))
}

#[tokio::test]
async fn ok_is_true_only_for_a_step_that_succeeded() {
    let steps = format!(
        "  - {{id: a, set: {{x: 1}}}}\n  - {{id: b, fail: no, onError: continue}}\n  - {{id: c, fail: no, onError: [{{set: {{x: 1}}}}]}}\n  - {{id: d, if: inputs.name == 'd', set: {{x: 1}}}}\n  - if: inputs.name == 'e'\n    then: [{{id: e, set: {{x: 1}}}}]\n  - {}\n",
        tells("a b c d e")
    );
    for (name, expected) in [
        ("a", "[true,false,false,false,false]"),
        ("d", "[true,false,false,true,false]"),
        ("e", "[true,false,false,false,true]"),
    ] {
        let outcome = outcome_with(&manual(&steps), &format!("{{\"name\": \"{name}\"}}")).await;
        assert_eq!(outcome, format!("{{\"z\":{expected}}}"), "{name}");
    }
}

#[tokio::test]
async fn ok_is_false_for_a_wait_that_timed_out() {
    let project = Project::with(&manual(&format!(
        "  - {{id: a, waitFor: {{event: x}}, timeout: 10s, onTimeout: continue}}\n  - {}\n",
        tells("a")
    )));
    let engine = project.start().await;
    let id = crate::common::start_and_suspend(&engine, "{}").await;
    pass(&project, Duration::from_secs(10)).await;
    assert_eq!(end(&engine, id).await, r#"{"z":[false]}"#);
    stop(engine).await;
}

#[tokio::test]
async fn closing_lists_know_which_steps_succeeded_even_in_branches_that_were_cut_off_and_after_a_restart() {
    let mut peer = Peer::new().await;
    let yaml = manual(&format!(
        "  - id: each\n    forEach: [1, 2]\n    steps: [{{id: turn, if: item == 1, fail: no, onError: continue}}, {{id: last, if: item == 1, set: {{x: 1}}}}, {{id: bad, if: item == 2, fail: no}}]\n    onError: continue\n  - id: both\n    parallel:\n      left: [{{id: a, set: {{x: 1}}}}, {{id: b, fail: no}}]\n      right: [{{id: c, waitFor: {{event: never}}, timeout: 1h}}]\nfinally:\n{}  - {}\n",
        call("held", &peer.base, "/held"),
        tells("turn last bad both a b c")
    ));
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    peer.next_request().await.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, "failed: no");
    let steps = steps_of(&engine, id).await;
    assert_eq!(steps.last().expect("a step"), r#"tell={"z":[false,false,false,false,true,false,false]}"#);
    stop(engine).await;
}

#[test]
fn ok_may_be_read_wherever_the_step_may_have_run() {
    let nested = "- if: execution.attempt == 1\n  then: [{id: a, set: {x: 1}}]\n";
    check_steps(&format!("{nested}- set: {{z: \"${{{{ steps.a.ok }}}}\"}}\n"), &[]);
    check_steps(
        &format!("{nested}- {{if: steps.a.ok, set: {{z: \"${{{{ steps.a.results.x }}}}\"}}}}\n"),
        &[],
    );
    check_steps("- set: {z: \"${{ steps.b.ok }}\"}\n- {id: b, set: {z: 1}}\n", &["later-step b"]);
    check_steps("- {id: b, set: {z: 1}}\n- set: {z: \"${{ steps.b.okay }}\"}\n", &["unknown-member okay"]);
    check_steps(
        "- {id: b, set: {z: 1}}\n- {if: steps.b.ok == 'yes', set: {z: 1}}\n",
        &["never-equal steps.b.ok == 'yes'"],
    );
}

#[tokio::test]
async fn the_first_policy_that_covers_an_error_counts_its_own_tries_also_after_a_restart() {
    let mut peer = Peer::new().await;
    let retry = "    retry: [{on: 429, max: 2, delay: 10s, backoff: 1}, {if: \"error.status == 409 and error.body == 'a'\", max: 1, delay: 1m}]\n";
    let project = Project::with(&manual(&(call("a", &peer.base, "/a") + retry)));
    let mut engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for (status, body, wait) in [(429, "{}", 10), (409, "\"a\"", 60), (429, "{}", 10)] {
        peer.next_request().await.answer(status, body).await;
        crate::common::until_suspended(&engine).await;
        crash(engine).await;
        engine = project.start().await;
        pass(&project, Duration::from_secs(wait)).await;
    }
    // Its policy has no further try, and the other one does not cover it.
    peer.next_request().await.answer(409, "\"a\"").await;
    assert!(end(&engine, id).await.contains("409"));
    assert!(peer.pending_request().is_none());
    let events = engine.store().events(id).await.expect("the events are read").expect("it exists");
    let policies: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            model::Event::StepRetry { policy, .. } => *policy,
            _ => None,
        })
        .collect();
    assert_eq!(policies, [1, 2, 1]);
    stop(engine).await;
}

#[tokio::test]
async fn a_condition_of_a_retry_selects_errors_and_one_that_fails_grants_none() {
    let steps = |condition: &str| {
        manual(&format!(
            "  - set: {{n: 0}}\n  - retry: {{max: 3, delay: 0s, if: \"{condition}\"}}\n    steps:\n      - {{id: up, action: state.increment, with: {{key: n}}}}\n      - {{if: steps.up.ok, fail: {{message: no, kind: outOfStock, data: 1}}}}\n    onError: [{{set: {{z: \"${{{{ error.kind }}}}\"}}}}]\n"
        ))
    };
    for (condition, tries) in [
        ("error.kind == 'outOfStock' and error.data == 1", 4),
        ("error.kind == 'other'", 1),
        ("error.data.deep", 1),
    ] {
        let project = Project::with(&steps(condition));
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        assert_eq!(end(&engine, id).await, r#"{"z":"outOfStock"}"#, "{condition}");
        let events = engine.store().events(id).await.expect("the events are read").expect("it exists");
        let retries = events.iter().filter(|event| matches!(event, model::Event::StepRetry { .. })).count();
        assert_eq!(retries + 1, tries, "{condition}");
        stop(engine).await;
    }
}

#[test]
fn a_policy_of_a_list_that_covers_nothing_gets_a_hint() {
    let call = |retry: &str| {
        format!("- {{action: http.request, with: {{url: 'https://x.test'}}, retry: {retry}}}\n")
    };
    check_steps(&call("[{on: 429, max: 2}, {on: all, max: 1}]"), &[]);
    check_steps(&call("[{if: error.code == 'a', max: 2}, {on: all, max: 1}]"), &[]);
    let hint = "retry-covers-nothing retry";
    check_steps(&call("[{on: all, max: 2}, {on: 429, max: 1}]"), &[hint]);
    check_steps(&call("[{on: [network, 429], max: 2}, {on: 429, max: 1}]"), &[hint]);
    check_steps(&call("[{on: all, max: 2}, {if: error.code == 'a', max: 1}]"), &[hint]);
    check_steps(
        "- {action: events.emit, with: {name: a}, retry: [{on: 5xx, max: 1}, {on: all, max: 1}]}\n",
        &[hint],
    );
    check_steps(&call("{if: error.knd == 'a', max: 2}"), &["unknown-member knd (kind)"]);
}
