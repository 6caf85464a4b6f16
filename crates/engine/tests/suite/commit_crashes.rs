//! Words of the language over a crash at each commit: what was confirmed ends as without the crash, and each change of a value counts once.

use engine::Engine;
use model::AutomationId;
use model::automation::{TriggerId, TriggerKey};
use model::execution::Origin;
use model::payload::Payload;
use runtime::{ManualStart, StateScope};

use crate::common::{Project, end, json, rows, stop, until_async};
use crate::crashes::at_each_commit;

/// A step that adds one to a value.
fn count(id: &str, key: &str) -> String {
    format!("{{id: {id}, action: state.increment, with: {{key: {key}}}}}")
}

async fn value(engine: &Engine, key: &str) -> String {
    let scope = StateScope::parse("test", false).expect("a scope");
    let found = engine.context().read_state(&scope, key).await.expect("it is read");
    found.map_or_else(|| "0".to_owned(), |found| found.value.to_text())
}

/// Starts an automation by one of its triggers, with a crash at each commit. An execution that was accepted has the outcome and counted
/// these values so often.
async fn check(rest: &str, trigger: &str, outcome: &str, values: &[(&str, u64)]) {
    at_each_commit(async |at| {
        let project = Project::with(rest);
        let crashing = at.start(&project).await;
        crashing.arm();
        let engine = &crashing.engine;
        let key = TriggerKey::new(
            AutomationId::parse("test").expect("an id"),
            TriggerId::parse(trigger).expect("an id"),
        );
        let inputs = json(r#"{"n": 3}"#).as_map().expect("a map").clone();
        let start = ManualStart::new(Payload::manual(inputs), Origin::Manual);
        let accepted = engine.ingress().start(&key, start).await;
        let has_crashed = crashing
            .run_until(async || {
                let open = engine.store().unfinished_count().await;
                open.is_ok_and(|count| count == 0) && rows(engine).await.len() == 1
            })
            .await;
        crashing.end().await;
        let engine = project.start().await;
        until_async(async || engine.store().unfinished_count().await.expect("counted") == 0).await;
        let started = rows(&engine).await;
        assert!(started.len() == 1 || accepted.is_err(), "{accepted:?} after {at:?}");
        for row in &started {
            assert_eq!(row.trigger.as_str(), trigger, "after {at:?}");
            assert_eq!(end(&engine, row.id).await, outcome, "after {at:?}");
        }
        for (key, times) in values {
            let expected = (times * started.len() as u64).to_string();
            assert_eq!(value(&engine, key).await, expected, "{key} after {at:?}");
        }
        stop(engine).await;
        has_crashed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trigger_and_its_inputs_stay_over_a_crash_at_any_commit() {
    let text = format!(
        "inputs: {{n: integer}}\ntriggers:\n  - {{id: one, manual: {{}}}}\n  - {{id: two, schedule: {{every: 1h}}, inputs: {{n: 7}}}}\nsteps:\n  - {}\noutputs: \"${{{{ [trigger.id, inputs.n] }}}}\"\n",
        count("a", "a")
    );
    check(&text, "one", r#"["one",3]"#, &[("a", 1)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_and_computed_settings_stay_over_a_crash_at_any_commit() {
    let text = format!(
        "inputs: {{n: integer}}\ntrigger: {{manual: {{}}}}\ndefaults: {{timeout: 30s, retry: {{max: 2, delay: 0s}}}}\nsteps:\n  - id: turns\n    repeat: {{max: \"${{{{ inputs.n }}}}\"}}\n    steps:\n      - {}\n  - id: items\n    forEach: [1, 2]\n    concurrency: \"${{{{ inputs.n - 1 }}}}\"\n    steps:\n      - {}\noutputs: \"${{{{ inputs.n }}}}\"\n",
        count("a", "turns"),
        count("b", "items")
    );
    check(&text, "main", "3", &[("turns", 3), ("items", 2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_begun_step_is_undone_once_over_a_crash_at_any_commit() {
    let text = format!(
        "inputs: {{n: integer}}\ntrigger: {{manual: {{}}}}\nsteps:\n  - id: book\n    action: state.increment\n    with: {{key: booked}}\n    undo: {{when: begun, steps: [{}]}}\n    finally: [{}]\n  - {{id: pay, fail: {{message: no money, kind: noMoney, data: {{of: \"${{{{ inputs.n }}}}\"}}}}}}\nonError: [{}]\nfinally: [{}]\n",
        count("unbook", "unbooked"),
        count("close", "closed"),
        count("told", "told"),
        count("last", "last")
    );
    let values = [("booked", 1), ("unbooked", 1), ("closed", 1), ("told", 1), ("last", 1)];
    check(&text, "main", "failed: no money", &values).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_and_ends_stay_over_a_crash_at_any_commit() {
    let text = format!(
        "inputs: {{n: integer}}\ntrigger: {{manual: {{}}}}\nsteps:\n  - id: items\n    forEach: [1, 2, 3]\n    steps:\n      - {}\n      - {{id: skip, if: item == 2, continue: {{result: left}}}}\n      - id: choose\n        switch:\n          - {{if: item == 1, then: [{}]}}\n          - {{name: other, if: item > 1, then: [{}]}}\n  - id: race\n    parallel: {{a: [{}], b: [{}]}}\n    enough: 2\n  - {{id: over, if: inputs.n == 3, stop: {{result: \"${{{{ steps.items.results[1] }}}}\"}}}}\n  - {}\n",
        count("turn", "turns"),
        count("first", "first"),
        count("second", "second"),
        count("left", "raced"),
        count("right", "raced"),
        count("never", "never")
    );
    let values = [("turns", 3), ("first", 1), ("second", 1), ("raced", 2), ("never", 0)];
    check(&text, "main", r#""left""#, &values).await;
}
