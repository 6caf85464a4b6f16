//! Limits at the values of the manual: an execution at a limit passes, and one above it fails as documented.

use std::time::Duration;

use engine::{Search, TrialRequest};
use model::AutomationId;
use model::execution::{CallRecord, Event, Origin};
use model::payload::Payload;
use runtime::ReplayRequest;
use store::{ExecutionFilter, Page};
use value::Map;

use crate::common::{
    Peer, Project, call, crash, end, json, manual, outcome_of, soon, start_with, steps_of, stop, until,
    until_suspended,
};
use crate::hooks::{post, text, tokens};

/// Runs an automation whose call is never answered until `limit` is over. Returns the outcome and the steps.
async fn unanswered_for(limit: Duration, yaml: impl Fn(&str) -> String) -> (String, Vec<String>) {
    let mut peer = Peer::new().await;
    let project = Project::with(&yaml(&peer.base));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let due = engine.clock().now() + limit;
    let held = peer.next_request().await;
    soon(project.clock.somebody_sleeps_until(due)).await;
    project.clock.advance(limit);
    let found = (end(&engine, id).await, steps_of(&engine, id).await);
    drop(held);
    stop(engine).await;
    found
}

#[tokio::test]
async fn the_default_execution_timeout_is_15_minutes() {
    let limit = Duration::from_secs(15 * 60);
    let (outcome, _) = unanswered_for(limit, |base| manual(&call("a", base, "/a"))).await;
    assert!(outcome.contains("longer than its timeout of 15m"), "{outcome}");
}

#[tokio::test]
async fn finally_steps_time_out_after_five_minutes() {
    let yaml = |base: &str| {
        let call = call("ask", base, "/a");
        format!("trigger: {{manual: {{}}}}\nfinally:\n{call}steps:\n  - set: {{a: 1}}\n")
    };
    let (_, steps) = unanswered_for(Duration::from_secs(5 * 60), yaml).await;
    assert!(steps.iter().all(|step| !step.starts_with("ask=")), "{steps:?}");
}

#[tokio::test]
async fn a_loop_has_a_maximum_of_iterations() {
    let outcome = async |count: usize| {
        let steps = format!("  - forEach: range({count})\n    steps: [{{set: {{a: 1}}}}]\n");
        let mut project = Project::with(&manual(&steps));
        project.settings.limits.loop_turns = 3;
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let outcome = end(&engine, id).await;
        stop(engine).await;
        outcome
    };
    let outcomes = [outcome(3).await, outcome(4).await];
    assert!(!outcomes[0].starts_with("failed"), "{outcomes:?}");
    assert!(outcomes[1].contains("beyond the limit of 3 iterations"), "{outcomes:?}");
}

#[tokio::test]
async fn calls_nest_32_levels_deep() {
    let outcome = async |depth: usize| {
        let project = Project::with(&manual("  - call: c1\n"));
        for number in 1..depth {
            let text = format!("trigger: {{manual: {{}}}}\nsteps: [{{call: c{}}}]\n", number + 1);
            project.write(&format!("automations/c{number}.yaml"), &text);
        }
        let last = "trigger: {manual: {}}\nsteps: [{set: {a: 1}}]\n";
        project.write(&format!("automations/c{depth}.yaml"), last);
        let engine = project.start().await;
        let id = start_with(&engine, "{}").await;
        let outcome = end(&engine, id).await;
        stop(engine).await;
        outcome
    };
    let outcomes = [outcome(32).await, outcome(33).await];
    assert!(!outcomes[0].starts_with("failed"), "{outcomes:?}");
    assert!(outcomes[1].contains("more than 32"), "{outcomes:?}");
}

#[tokio::test]
async fn a_url_in_the_history_is_truncated_to_300_characters() {
    let mut peer = Peer::new().await;
    // With the slash before them.
    let path = |peer: &Peer, characters: usize| "p".repeat(characters - peer.base.len() - 1);
    let steps = call("a", &peer.base, &format!("/{}", path(&peer, 300)))
        + &call("b", &peer.base, &format!("/{}", path(&peer, 301)));
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    for _ in 0..2 {
        peer.next_request().await.answer(200, "1").await;
    }
    end(&engine, id).await;
    let events = engine.store().events(id).await.expect("they are read").expect("it exists");
    let addresses = events.into_iter().filter_map(|event| match event {
        Event::StepCalled { call: CallRecord::Request { url, .. }, .. } => Some(url),
        _ => None,
    });
    let whole = format!("{}/{}", peer.base, path(&peer, 300));
    assert_eq!(addresses.collect::<Vec<_>>(), [whole.clone(), format!("{whole}…")]);
    stop(engine).await;
}

#[tokio::test]
async fn a_concurrency_key_has_the_budget_of_a_short_evaluation() {
    let yaml = |length: usize| {
        let key = format!("${{{{ ('a' * {length}) | replace('a', 'b') | length }}}}");
        manual("  - set: {a: 1}\n")
            .replace("steps:", &format!("concurrency: {{limit: 1, key: \"{key}\", policy: queue}}\nsteps:"))
    };
    assert_eq!(outcome_of(&yaml(1000)).await, r#"{"a":1}"#);
    let outcome = outcome_of(&yaml(4_000_000)).await;
    assert!(outcome.contains("more than 200000 units of work"), "{outcome}");
}

#[tokio::test]
async fn a_trigger_condition_times_out_after_one_second() {
    let long = "('a' * 4000000) | replace('a', 'b') | replace('b', 'c') | replace('c', 'd') | length";
    let yaml = format!("trigger:\n  webhook: {{verify: none}}\n  if: \"({long}) > 0\"\nsteps: []\n");
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let due = engine.clock().now() + Duration::from_secs(1);
    let late = async {
        project.clock.somebody_sleeps_until(due).await;
        project.clock.advance(Duration::from_secs(1));
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = soon(engine.ingress().receive(&live, post("{}"))) => text(&answer),
        () = late => panic!("it never ends"),
    };
    assert!(answer.starts_with("400 ") && answer.contains(r#""code":"condition_too_costly""#), "{answer}");
    stop(engine).await;
}

/// True if an event with a text of `bytes` bytes is kept for a step that waits for it later.
async fn is_kept(bytes: usize) -> bool {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a") + "  - {id: paid, waitFor: {event: paid}}\n";
    let project = Project::with(&manual(&steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    let held = peer.next_request().await;
    let data = json(&format!("\"{}\"", "x".repeat(bytes)));
    engine.admission().emit("paid", data, None).await.expect("it is sent");
    held.answer(200, "1").await;
    let kept = tokio::select! {
        ended = engine.admission().wait(id) => ended.is_ok(),
        () = until_suspended(&engine) => false,
    };
    stop(engine).await;
    kept
}

#[tokio::test]
async fn only_an_event_below_a_mebibyte_is_kept_for_later_waits() {
    assert!(is_kept((1 << 20) - (16 << 10)).await);
    assert!(!is_kept(1 << 20).await);
}

#[tokio::test]
async fn a_search_ends_at_its_time_limit() {
    let project = Project::with(&manual("  - set: {a: 1}\n"));
    let engine = project.start().await;
    for _ in 0..2 {
        let id = start_with(&engine, "{}").await;
        end(&engine, id).await;
    }
    for (time, is_timed_out) in [(Duration::ZERO, true), (Duration::from_secs(1), false)] {
        let search = Search { text: Some("not there".to_owned()), ..Search::default() };
        let page = Page { before: None, limit: 10 };
        let (store, clock) = (engine.store(), engine.clock());
        let found = search.run(&**store, &**clock, ExecutionFilter::default(), page, time, None).await;
        assert_eq!(found.expect("it is read").is_timed_out, is_timed_out, "{time:?}");
    }
    stop(engine).await;
}

#[tokio::test]
async fn a_replay_from_a_step_and_a_trial_have_a_maximum_of_events() {
    let steps =
        "  - {id: each, forEach: range(10000), steps: [{set: {a: 1}}]}\n  - {id: last, set: {b: 1}}\n";
    let project = Project::with(&manual(steps));
    let engine = project.start().await;
    let id = start_with(&engine, "{}").await;
    end(&engine, id).await;
    let request = ReplayRequest { from: Some("last".to_owned()), ..ReplayRequest::default() };
    let refused = engine.records().plan_replay(id, request).await.err().expect("it is refused").to_string();
    assert!(refused.contains("more than the 10000 that a replay keeps"), "{refused}");
    let request = TrialRequest {
        path: "automations/test.yaml".to_owned(),
        text: manual(steps),
        executions: vec![id],
        ..TrialRequest::default()
    };
    let trials = engine.try_draft(request).await.expect("it is taken");
    let refused = trials.executions.into_iter().next().and_then(|trial| trial.trial.err());
    assert_eq!(refused.as_deref(), Some("it has more than 10000 events"));
    stop(engine).await;
}

#[tokio::test]
async fn an_automation_has_a_maximum_of_saved_payloads() {
    let project = Project::with(&manual("  - set: {a: 1}\n"));
    let folder = project.path("payloads/test");
    std::fs::create_dir_all(&folder).expect("a folder");
    for number in 1..1000 {
        std::fs::write(folder.join(format!("p{number}.json")), "{}").expect("written");
    }
    let engine = project.start().await;
    let id = AutomationId::parse("test").expect("an id");
    let payload = || Payload::manual(Map::new());
    let save =
        async |name: &str| engine.ingress().save_payload(&id.clone().into(), name, payload(), None).await;
    save("last").await.expect("it is the thousandth");
    let refused = save("further").await.expect_err("it is refused").to_string();
    assert!(refused.contains("there are 1000 payloads"), "{refused}");
    let start = runtime::ManualStart::new(payload(), Origin::Manual);
    let run = engine.ingress().start(&id.clone().into(), start).await.expect("it starts");
    end(&engine, run).await;
    stop(engine).await;
}

#[tokio::test]
async fn a_thousand_executions_run_at_once_and_another_synchronous_one_gets_429() {
    let peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a");
    let project = Project::with(&format!("trigger: {{webhook: {{verify: none}}}}\nsteps:\n{steps}"));
    project.write(
        "automations/sync.yaml",
        "trigger: {webhook: {mode: sync, verify: none}}\nsteps: [{set: {a: 1}}]\n",
    );
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let sync = engine.catalog().find("sync").expect("it is in force").mounted[0]
        .address
        .clone()
        .expect("an address");
    for _ in 0..999 {
        assert_eq!(soon(engine.ingress().receive(&live, post("{}"))).await.status, 200);
    }
    assert_eq!(soon(engine.ingress().receive(&sync.live, post("{}"))).await.status, 200);
    until(|| engine.status().in_flight <= 999).await;
    assert_eq!(soon(engine.ingress().receive(&live, post("{}"))).await.status, 200);
    assert_eq!(engine.status().in_flight, 1000);
    let refused = soon(engine.ingress().receive(&sync.live, post("{}"))).await;
    assert_eq!(refused.status, 429, "{}", text(&refused));
    assert_eq!(soon(engine.ingress().receive(&live, post("{}"))).await.status, 200, "it waits");
    crash(engine).await;
}

#[tokio::test]
async fn a_result_has_at_most_16_mib_and_the_variables_together_64_mib() {
    // The quotes and the key count for the result.
    const MAX_BYTES: usize = (16 << 20) - 16;
    let set = |name: &str, bytes: usize| format!("  - set: {{{name}: \"${{{{ 'a' * {bytes} }}}}\"}}\n");
    let steps: String = ["a", "b", "c"].map(|name| set(name, MAX_BYTES)).concat();
    let fits = outcome_of(&manual(&format!("{steps}  - set: {{n: \"${{{{ vars.a | length }}}}\"}}\n"))).await;
    assert_eq!(fits, format!(r#"{{"n":{MAX_BYTES}}}"#));
    let above = outcome_of(&manual(&set("a", (16 << 20) + 1))).await;
    assert!(above.starts_with("failed: ") && above.contains("16MiB"), "{above}");
    let together = ["d", "e"].map(|name| set(name, MAX_BYTES)).concat();
    let above = outcome_of(&manual(&(steps + &together))).await;
    assert!(above.contains("with `e` the variables of the execution take more than 64MiB"), "{above}");
}
