//! The daemon is killed at critical points; after the next start every accepted execution ends (guarantees G1, G4, G5,
//! G7).

use std::collections::BTreeMap;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use tests::recorder::Recorder;

use crate::site::{Site, post_step, posts};

/// Formats an automation with a webhook and these steps.
fn hook(steps: &str) -> String {
    format!("trigger: {{webhook: {{}}}}\nsteps:\n{steps}")
}

#[tokio::test]
async fn after_a_kill_finished_steps_are_not_repeated_and_the_one_in_flight_keeps_its_key() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/three");
    let mut site =
        Site::serving(&[("work", &hook(&posts(&recorder, &["one", "two", "three", "four"])))]).await;
    let id = site.post("work", &json!({"order": 17})).await.execution();
    recorder.wait_for("/three", 1).await.unwrap();
    site.kill().await;
    recorder.release();
    assert_eq!(recorder.paths(), ["/one", "/two", "/three"]);

    site.start().await;
    let end = site.end_of(&id).await;
    assert_eq!(end["status"], json!("succeeded"));
    assert_eq!(recorder.paths(), ["/one", "/two", "/three", "/three", "/four"]);
    let keys: Vec<_> =
        recorder.requests().into_iter().map(|request| request.idempotency_key.unwrap()).collect();
    assert_eq!(keys[2], keys[3], "both tries of the third step are one effect");
    for (index, step) in ["one", "two", "three", "three", "four"].iter().enumerate() {
        assert_eq!(keys[index], format!("{id}.{step}"));
    }
    assert_eq!(end["payload"]["kind"], json!("webhook"));
    assert_eq!(site.executions_of("work").await.len(), 1);
}

#[tokio::test]
async fn an_execution_survives_several_kills_in_a_row() {
    let recorder = Recorder::start().await.unwrap();
    let names = ["one", "two", "three"];
    let mut site = Site::new(&[("work", &hook(&posts(&recorder, &names)))]);
    site.start().await;
    recorder.hold("/one");
    let id = site.post("work", &json!({})).await.execution();
    for (index, name) in names.iter().enumerate() {
        recorder.wait_for(&format!("/{name}"), 1).await.unwrap();
        site.kill().await;
        recorder.release();
        names.get(index + 1).inspect(|next| recorder.hold(&format!("/{next}")));
        site.start().await;
    }
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    assert_eq!(recorder.paths(), ["/one", "/one", "/two", "/two", "/three", "/three"]);
}

#[tokio::test]
async fn a_pending_retry_continues_after_a_kill_with_its_attempt_count() {
    let recorder = Recorder::start().await.unwrap();
    recorder.answer("/flaky", 503, 2);
    let flaky = format!("{}    retry: {{max: 2, delay: 1s, backoff: 1}}\n", post_step(&recorder, "flaky"));
    let steps = format!("{}{flaky}{}", posts(&recorder, &["first"]), posts(&recorder, &["last"]));
    let mut site = Site::serving(&[("work", &hook(&steps))]).await;
    let id = site.post("work", &json!({})).await.execution();
    // The retry is published once it is committed.
    let mut events = site.events(&format!("/executions/{id}/events")).await;
    while events.next("event").await["event"] != json!("stepRetry") {}
    site.kill().await;
    assert_eq!(recorder.paths(), ["/first", "/flaky"]);

    site.start().await;
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    assert_eq!(recorder.paths(), ["/first", "/flaky", "/flaky", "/flaky", "/last"]);
    let tries = recorder.requests_to("/flaky");
    assert!(tries.iter().all(|request| request.idempotency_key == tries[0].idempotency_key));
}

#[tokio::test]
async fn after_a_kill_only_unfinished_branches_of_a_graph_run_again() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/b");
    recorder.hold("/c");
    let alone = |name: &str| post_step(&recorder, name) + "    needs: []\n";
    let last = post_step(&recorder, "d") + "    needs: [a, b, c]\n";
    let steps = [alone("a"), alone("b"), alone("c"), last].concat();
    let mut site = Site::serving(&[("work", &hook(&steps))]).await;
    let id = site.post("work", &json!({})).await.execution();
    // The commit of the first branch is certain once its end is published with a position in the log.
    let mut events = site.events(&format!("/executions/{id}/events")).await;
    recorder.wait_for("/b", 1).await.unwrap();
    recorder.wait_for("/c", 1).await.unwrap();
    recorder.wait_for("/a", 1).await.unwrap();
    let mut finished = json!(null);
    while finished["event"] != json!("stepFinished") {
        finished = events.next("event").await;
    }
    site.kill().await;
    recorder.release();
    site.start().await;
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    let count = |path: &str| recorder.requests_to(path).len();
    assert_eq!([count("/a"), count("/b"), count("/c"), count("/d")], [1, 2, 2, 1]);
}

#[tokio::test]
async fn after_a_kill_a_loop_resumes_at_its_current_iteration() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/turn/3");
    let steps = format!(
        "  - id: loop\n    forEach: range(1, 6) | list\n    steps:\n      - id: turn\n        action: http.request\n        \
         with: {{url: \"{}/turn/${{{{ item }}}}\", method: POST}}\n      - set: {{seen: \"${{{{ item }}}}\"}}\n",
        recorder.url()
    );
    let mut site = Site::serving(&[("work", &hook(&steps))]).await;
    let id = site.post("work", &json!({})).await.execution();
    recorder.wait_for("/turn/3", 1).await.unwrap();
    site.kill().await;
    recorder.release();
    site.start().await;
    let end = site.end_of(&id).await;
    let results: Vec<_> = (1..6).map(|turn| json!({"seen": turn})).collect();
    assert_eq!(end["outcome"]["result"], json!(results));
    assert_eq!(recorder.paths(), ["/turn/1", "/turn/2", "/turn/3", "/turn/3", "/turn/4", "/turn/5"]);
    let mut keys: Vec<_> = recorder.requests().into_iter().map(|request| request.idempotency_key).collect();
    keys.dedup();
    assert_eq!(keys.len(), 5, "each turn is an effect of its own: {keys:?}");
}

#[tokio::test]
async fn a_running_execution_survives_the_removal_of_its_file() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/one");
    let mut site = Site::serving(&[("work", &hook(&posts(&recorder, &["one", "two"])))]).await;
    let id = site.post("work", &json!({})).await.execution();
    recorder.wait_for("/one", 1).await.unwrap();
    site.kill().await;
    recorder.release();
    site.project.remove("automations/work.yaml").unwrap();
    site.start().await;
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
    assert_eq!(recorder.paths(), ["/one", "/one", "/two"]);
}

#[tokio::test]
async fn a_call_in_flight_survives_any_number_of_crashes() {
    let recorder = Recorder::start().await.unwrap();
    let mut site = Site::serving(&[("work", &hook(&posts(&recorder, &["slow"])))]).await;
    recorder.hold("/slow");
    let id = site.post("work", &json!({})).await.execution();
    // More crashes than a computing execution may survive: this one waits for the network each time.
    for time in 1..=7 {
        recorder.wait_for("/slow", time).await.unwrap();
        site.kill().await;
        site.start().await;
    }
    recorder.wait_for("/slow", 8).await.unwrap();
    recorder.release();
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
}

#[tokio::test]
async fn a_pending_retry_survives_any_number_of_kills() {
    let recorder = Recorder::start().await.unwrap();
    recorder.answer("/down", 503, 1);
    let down = format!("{}    retry: {{max: 1, delay: 1h}}\n", post_step(&recorder, "down"));
    let mut site = Site::serving(&[("work", &hook(&down))]).await;
    let id = site.post("work", &json!({})).await.execution();
    let mut events = site.events(&format!("/executions/{id}/events")).await;
    while events.next("event").await["event"] != json!("stepRetry") {}
    for _ in 0..7 {
        site.kill().await;
        site.start().await;
    }
    let waiting = site.ask(&format!("/executions/{id}")).await;
    // It has suspended again, or is about to.
    assert!([json!("waiting"), json!("running")].contains(&waiting["status"]), "{waiting}");
    assert_eq!(waiting["outcome"], Value::Null);
    assert_eq!(recorder.requests().len(), 1);
}

/// Guarantee G1: an acknowledged execution survives a kill at any time.
#[tokio::test]
async fn every_acknowledged_execution_survives_a_kill() {
    const CALLS: usize = 200;
    let work = "trigger: {webhook: {}}\nsteps: [{set: {n: \"${{ trigger.results.body.data.n }}\"}}]\n";
    let mut site = Site::serving(&[("work", work)]).await;
    let url = site.url("work").await;
    let mut heard = BTreeMap::new();
    let call = |n: usize| {
        let request = site.request(Method::POST, &url).json(&json!({"n": n}));
        async move {
            // After a broken connection the execution may exist or not.
            let answer: Value = request.send().await.ok()?.json().await.ok()?;
            Some((answer["executionId"].as_str()?.to_owned(), n))
        }
    };
    let mut calls: FuturesUnordered<_> = (0..CALLS).map(call).collect();
    while heard.len() < CALLS / 4 {
        heard.extend(calls.next().await.flatten());
    }
    site.kill().await;
    while let Some(answer) = calls.next().await {
        heard.extend(answer);
    }
    site.start().await;
    for (id, n) in &heard {
        let end = site.end_of(id).await;
        assert_eq!(end["outcome"]["result"], json!({"n": n}));
    }
    assert!(site.executions_of("work").await.len() >= heard.len());
}
