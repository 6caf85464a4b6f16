//! Long evaluations and large values.

use std::time::Duration;

use model::Status;

use crate::common::{Peer, Project, call, end, json, manual, pass, soon, start_with, stop};
use crate::hooks::{post, text, tokens};

/// An expression that uses a good part of its evaluation budget.
const LONG: &str = "('a' * 4000000) | replace('a', 'b') | replace('b', 'c') | replace('c', 'd') | length";

/// Formats `count` steps with a long evaluation and `onError: continue`.
fn long(count: usize) -> String {
    format!("  - onError: continue\n    set: {{x: \"${{{{ {LONG} }}}}\"}}\n").repeat(count)
}

#[tokio::test]
async fn the_timeout_of_a_step_ends_its_evaluation() {
    let steps = format!("  - timeout: 5s\n    forEach: range(50)\n    steps:\n{}", indented(&long(1)));
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    pass(&project, Duration::from_secs(5)).await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("longer than its timeout of 5s"), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn the_timeout_of_a_file_ends_an_evaluation() {
    let project = Project::with(&manual(&long(50)).replace("steps:", "timeout: 1m\nsteps:"));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    pass(&project, Duration::from_secs(60)).await;
    let outcome = end(&engine, id).await;
    assert!(outcome.contains("longer than its timeout of 1m"), "{outcome}");
    stop(engine).await;
}

#[tokio::test]
async fn a_cancellation_ends_an_evaluation() {
    let project = Project::with(&manual(&long(50)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert!(engine.admission().cancel(id, "enough").await.expect("it is known"));
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn the_end_of_the_grace_period_ends_an_evaluation_but_not_its_execution() {
    let project = Project::with(&manual(&long(50)));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    soon(engine.shutdown(Duration::ZERO)).await;
    let status = engine.store().execution(id).await.expect("it is read").expect("it exists").status;
    assert_eq!(status, Status::Running);
    engine.store().close().await.expect("the store closes");
}

#[tokio::test]
async fn an_asynchronous_request_is_answered_before_its_pure_steps_end() {
    let yaml = format!("trigger: {{webhook: {{verify: none}}}}\nsteps:\n{}", long(50));
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    let status = engine.store().execution(id).await.expect("it is read").expect("it exists").status;
    assert_eq!(status, Status::Running);
    assert!(engine.admission().cancel(id, "enough").await.expect("it is known"));
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn many_short_steps_yield_to_other_tasks() {
    // The test and the engine share one thread: without yields, the cancellation would come after the loop.
    let step = "  - set: {x: \"${{ item + 1 }}\"}\n";
    let inner = format!("  - forEach: range(1000)\n    steps:\n{}", indented(step));
    let steps = format!("  - forEach: range(1000)\n    steps:\n{}", indented(&inner));
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert!(engine.admission().cancel(id, "enough").await.expect("it is known"));
    assert_eq!(end(&engine, id).await, "cancelled: enough");
    stop(engine).await;
}

#[tokio::test]
async fn a_trigger_condition_over_its_budget_gets_400_condition_too_costly() {
    let yaml = "trigger:\n  webhook: {verify: none}\n  if: \"(trigger.results.body.data.t * 30000000) | replace('a', 'bb') == ''\"\nsteps:\n  - set: {x: 1}\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = text(&soon(engine.ingress().receive(&live, post(r#"{"t": "a"}"#))).await);
    assert!(answer.starts_with("400 ") && answer.contains(r#""code":"condition_too_costly""#), "{answer}");
    assert_eq!(engine.status().refused.get("condition_too_costly"), Some(&1));
    let answer = text(&soon(engine.ingress().receive(&live, post(r#"{"t": ""}"#))).await);
    assert!(answer.starts_with("200 "), "{answer}");
    stop(engine).await;
}

/// Formats an expression that returns a text of this many bytes.
fn made(bytes: usize) -> String {
    format!("\"${{{{ 'a' * {bytes} }}}}\"")
}

#[tokio::test]
async fn variables_larger_than_four_result_limits_fail_the_step() {
    let set = |name: &str| format!("  - set: {{{name}: {}}}\n", made(90_000));
    let mut project = Project::with(&manual(&["a", "b", "c", "d", "e"].map(set).concat()));
    project.settings.limits.result_bytes = 100 << 10;
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = end(&engine, id).await;
    assert_eq!(outcome, "failed: with `e` the variables of the execution take more than 400KiB");
    stop(engine).await;
}

#[tokio::test]
async fn overwriting_a_variable_releases_its_memory() {
    let steps = format!(
        "  - forEach: range(20)\n    steps:\n      - set: {{a: {}}}\n      - set: {{done: true}}\n  - set: {{n: \"${{{{ vars.a | length }}}}\"}}\n",
        made(90_000)
    );
    let mut project = Project::with(&manual(&steps));
    project.settings.limits.result_bytes = 100 << 10;
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    assert_eq!(end(&engine, id).await, r#"{"n":90000}"#);
    stop(engine).await;
}

#[tokio::test]
async fn the_collected_results_of_a_loop_obey_the_result_limit() {
    let steps = format!("  - forEach: range(20)\n    steps:\n      - set: {{a: {}}}\n", made(9_000));
    let mut project = Project::with(&manual(&steps));
    project.settings.limits.result_bytes = 100 << 10;
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = end(&engine, id).await;
    assert!(outcome.starts_with("failed: ") && outcome.contains("100KiB"), "{outcome}");
    stop(engine).await;
}

/// Starts three executions whose values fit into memory once. Each requests `/large` if there is a `large` response, then `/a`,
/// and has the result `expected`.
async fn with_room_for_one(engine: engine::Engine, peer: &mut Peer, large: Option<&str>, expected: &str) {
    let start = async |peer: &mut Peer| {
        let id = start_with(&engine, "{}").await;
        if let Some(large) = large {
            peer.next_request().await.answer(200, large).await;
        }
        id
    };
    let first = start(peer).await;
    let asked = peer.next_request().await;
    let second = start(peer).await;
    // One execution at a time may continue without memory.
    let other = peer.next_request().await;
    let third = start(peer).await;
    let ended = async |id| end(&engine, id).await;
    assert!(peer.pending_request().is_none());
    asked.answer(200, "{}").await;
    assert_eq!(ended(first).await, expected);
    peer.next_request().await.answer(200, "{}").await;
    assert_eq!(ended(third).await, expected);
    other.answer(200, "{}").await;
    assert_eq!(ended(second).await, expected);
    stop(engine).await;
}

#[tokio::test]
async fn an_execution_waits_for_memory_for_its_large_values() {
    let mut peer = Peer::new().await;
    let steps = "  - set: {big: \"${{ range(100000) | map('string') | list | join(',') }}\"}\n".to_owned()
        + &call("a", &peer.base, "/a")
        + "  - set: {n: \"${{ vars.big | length }}\"}\n";
    let mut project = Project::with(&manual(&steps));
    project.settings.limits.result_bytes = 1 << 20;
    project.settings.limits.memory = 2 << 20;
    with_room_for_one(project.start().await, &mut peer, None, r#"{"n":588889}"#).await;
}

#[tokio::test]
async fn an_execution_waits_for_memory_for_a_large_response() {
    let mut peer = Peer::new().await;
    let steps = call("large", &peer.base, "/large")
        + &call("a", &peer.base, "/a")
        + "  - set: {n: \"${{ steps.large.results.body | length }}\"}\n";
    let mut project = Project::with(&manual(&steps));
    // Half of it is for values; the response takes some 2 MB as a value.
    project.settings.limits.memory = 2 << 20;
    let large = format!("[{}0]", "\"a text of 20 letters\",".repeat(30_000));
    with_room_for_one(project.start().await, &mut peer, Some(&large), r#"{"n":30001}"#).await;
}

/// Indents the lines by four columns.
fn indented(steps: &str) -> String {
    steps.lines().map(|line| format!("    {line}\n")).collect()
}

#[tokio::test]
async fn the_result_of_an_expression_is_never_evaluated_again() {
    const TEXT: &str = "${{ 1 + 1 }} {{ 1 + 1 }} $${{ x }} $.vars {% if %} ${{ secrets.deskKey }}";
    let mut peer = Peer::new().await;
    let given = "${{ trigger.results.body.data.text }}";
    let yaml = format!(
        r#"trigger: {{webhook: {{mode: sync, verify: none}}}}
steps:
  - {{id: copy, set: {{copied: "{given}", list: ["{given}"], turned: none yet}}}}
  - id: each
    forEach: "${{{{ vars.list }}}}"
    steps: [{{id: turn, set: {{turned: "${{{{ item }}}}"}}}}]
  - {{id: keep, action: state.set, with: {{key: kept, value: "${{{{ vars.copied }}}}"}}}}
  - {{id: read, set: {{read: "${{{{ state.kept }}}}"}}}}
  - {{id: child, call: child, with: {{text: "${{{{ vars.read }}}}"}}}}
  - {{id: ask, action: http.request, with: {{method: POST, url: "{}/ask", body: {{text: "${{{{ steps.child.results }}}}"}}}}}}
  - {{id: again, set: {{again: "${{{{ steps.ask.results.body.text }}}}"}}}}
outputs: ["${{{{ vars.copied }}}}", "${{{{ vars.list[0] }}}}", "${{{{ vars.turned }}}}", "${{{{ vars.read }}}}", "${{{{ vars.again }}}}"]
"#,
        peer.base
    );
    let project = Project::with(&yaml);
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/deskKey", "canary-4471-kettle7");
    project.write(
        "automations/child.yaml",
        "trigger: {manual: {}}\ninputs: {text: {type: text, required: true}}\nsteps: []\noutputs: ${{ inputs.text }}\n",
    );
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let body = format!(r#"{{"text": "{TEXT}"}}"#);
    let calling = tokio::spawn({
        let engine = engine.clone();
        async move { engine.ingress().receive(&live, post(&body)).await }
    });
    let asked = peer.next_request().await;
    let sent = String::from_utf8(asked.body.clone()).expect("text");
    assert_eq!(sent, format!(r#"{{"text":"{TEXT}"}}"#));
    asked.answer(200, &sent).await;
    let answer = text(&soon(calling).await.expect("it answers"));
    let results = json(&format!("[{}]", [format!("\"{TEXT}\"").as_str(); 5].join(",")));
    assert_eq!(answer, format!("200 {}", results.to_json()));
    stop(engine).await;
}
