//! Code that runs ahead of its step has no visible effect on an execution.

use model::LogLevel;
use pretty_assertions::assert_eq;

use crate::common::{Project, show, soon, start_with, steps_of, stop};

/// The visible results of an execution of these steps: its outcome, the outcomes of its steps, its log. `$IF` in their
/// text becomes a condition that always holds, or a comment: a guarded code step runs only when its turn comes.
async fn seen(
    head: &str,
    steps: &str,
    guard: &str,
) -> (String, Vec<String>, Vec<(LogLevel, Option<String>, String)>) {
    let steps = steps.replace("$IF", guard);
    let project = Project::with(&format!("trigger: {{manual: {{}}}}\n{head}steps:\n{steps}"));
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    project.write("secrets/deskKey", "canary-4471-kettle7");
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
    let steps = steps_of(&engine, id).await;
    let lines = engine.store().logs(id, 0, 1000).await.expect("the log is read");
    let lines = lines.into_iter().map(|line| (line.level, line.step, line.message));
    // Results that stay in the worker are not checked for integers that JavaScript rounds.
    let lines = lines.filter(|(_, _, message)| !message.contains("of which JavaScript keeps")).collect();
    stop(engine).await;
    (show(&outcome), steps, lines)
}

/// Asserts that the steps have the same results with and without running ahead. Returns the outcome.
async fn same(head: &str, steps: &str) -> String {
    let together = seen(head, steps, "# no guard").await;
    let apart = seen(head, steps, "if: 1 == 1").await;
    assert_eq!(together, apart);
    together.0
}

/// Formats a step with this code and further keys.
fn step(id: &str, keys: &str, code: &str) -> String {
    format!("  - id: {id}\n    $IF\n{keys}    code: |\n      {code}\n")
}

#[tokio::test]
async fn code_run_ahead_reads_earlier_results_in_the_same_order() {
    let all = "export default (c, all) => ({ data: Object.entries(all).map(([id, one]) => `${id} ${JSON.stringify(one)}`) });";
    let steps = [
        step("zero", "", "export default () => ({ data: { list: [1, 2], '2': null, '1': 2 ** 53 } });"),
        step("nothing", "", "export default ({ logger }) => { logger.warn('on my way') };"),
        step("one", "", "export default (c, { zero }) => ({ data: zero.results.list.map((n) => n + 1) });"),
        step(
            "two",
            "",
            "export default (c, { one, zero, nothing }) => [one.results, zero.error, nothing?.results];",
        ),
        step(
            "context",
            "",
            "export default (context) => ({ data: [context.stepId, context.configVars._who, Object.keys(context)] });",
        ),
        step("bytes", "", "export default () => new Uint8Array([1, 2, 3]);"),
        step("large", "", "export default () => ({ data: 2n ** 60n });"),
        step("read", "", "export default (c, { bytes, large }) => [...bytes.results.data, large.results];"),
        step("all", "", all),
    ];
    let end = same("configVars: {_who: Ada}\n", &steps.concat()).await;
    assert!(end.contains("zero") && end.contains("trigger"), "{end}");
}

#[tokio::test]
async fn code_run_ahead_in_a_loop_sees_its_own_iteration() {
    let inner = [
        step("first", "", "export default (c, { each }) => ({ data: each.currentItem * 10 + each.index });"),
        step(
            "second",
            "",
            "export default (c, { first, each }) => ({ data: `${first.results}/${each.currentItem}/${each.index}` });",
        ),
    ];
    let inner = inner.concat().replace("\n", "\n    ");
    let steps = format!("  - id: each\n    forEach: [1, 2, 3]\n    steps:\n    {}\n", inner.trim_end());
    assert_eq!(same("", &steps).await, r#"["10/1/0","21/2/1","32/3/2"]"#);
}

#[tokio::test]
async fn no_code_runs_ahead_of_an_error_and_handled_errors_continue() {
    let fail = "export default ({ logger }, { good }) => { logger.info('before'); throw new Error(`no ${good.results}`); };";
    let steps = [
        step("good", "", "export default () => ({ data: 1 });"),
        step("bad", "    onError: continue\n", fail),
        step(
            "after",
            "",
            "export default ({ logger }, { bad }) => { logger.info('after'); return { data: bad.error.message }; };",
        ),
        step("worse", "", fail),
        step("never", "", "export default ({ logger }) => { logger.info('never') };"),
    ];
    assert_eq!(same("", &steps.concat()).await, "failed: no 1");
}

#[tokio::test]
async fn code_with_a_retry_or_a_timeout_may_run_ahead() {
    let steps = [
        step("good", "", "export default () => ({ data: 1 });"),
        step(
            "bad",
            "    retry: {max: 2, delay: 0s}\n    onError: continue\n",
            "export default () => { throw new Error('no') };",
        ),
        step("other", "", "export default () => ({ data: 2 });"),
        step(
            "endless",
            "    timeout: 100ms\n    onError: continue\n",
            "export default ({ logger }) => { logger.info('begun'); for (;;) {} };",
        ),
        step("last", "", "export default (c, { endless }) => ({ data: endless.error.kind });"),
    ];
    assert_eq!(same("", &steps.concat()).await, r#""timeout""#);
}

#[tokio::test]
async fn code_run_ahead_reads_state_written_by_earlier_code() {
    let count = "export default ({ state }) => { const n = (state.get('n') ?? 0) + 1; state.set('n', n); return { data: n }; };";
    let steps = [
        step("one", "", "export default () => ({ data: 1 });"),
        step("two", "", count),
        step("three", "", count),
        step(
            "four",
            "",
            "export default ({ state }, { three }) => ({ data: [state.get('n'), three.results] });",
        ),
    ];
    assert_eq!(same("", &steps.concat()).await, "[2,2]");
}

#[tokio::test]
async fn code_run_ahead_reads_earlier_results_with_secrets_masked() {
    let head = "configVars:\n  key: {value: \"${{ secrets.deskKey }}\", secret: true}\n";
    let steps = [
        step("one", "", "export default ({ configVars }) => ({ data: `<${configVars.key}>` });"),
        step("two", "", "export default (c, { one }) => ({ data: [one.results, one.results.length] });"),
    ];
    assert_eq!(same(head, &steps.concat()).await, r#"["<***>",5]"#);
}

#[tokio::test]
async fn a_group_timeout_ends_the_code_step_that_is_running() {
    let inner = [
        step("one", "", "export default () => ({ data: 1 });"),
        step("two", "", "export default () => { for (;;) {} };"),
        step("three", "", "export default () => ({ data: 3 });"),
    ];
    let inner = inner.concat().replace("\n", "\n    ");
    let steps = format!("  - id: around\n    timeout: 300ms\n    steps:\n    {}\n", inner.trim_end());
    let end = same("", &steps).await;
    assert!(end.starts_with("failed: "), "{end}");
}
