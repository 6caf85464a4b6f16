//! The memory of executions whose triggers have large data.

use reqwest::Method;
use serde_json::json;
use tests::recorder::Recorder;

use crate::site::{Site, post_step, send};

/// A body with values of some 7 MB: two of them take nearly half of 32 MiB.
fn large() -> String {
    serde_json::to_string(&vec![7; 200_000]).unwrap()
}

/// Counts the executions of an automation with a status.
async fn count(site: &Site, automation: &str, status: &str) -> usize {
    site.executions_of(automation).await.iter().filter(|row| row["status"] == status).count()
}

fn automation(recorder: &Recorder, more: &str) -> String {
    format!("{more}trigger: {{webhook: {{verify: none}}}}\nsteps:\n{}", post_step(recorder, "slow"))
}

#[tokio::test]
async fn executions_with_large_data_wait_for_memory_and_block_no_small_ones() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/slow");
    let mut site = Site::new(&[("work", &automation(&recorder, ""))]);
    site.start_with(&["--limits-memory", "32MiB"]).await;
    let url = site.url("work").await;
    let mut accepted = Vec::new();
    for _ in 0..6 {
        let sent = site.request(Method::POST, &url).header("content-type", "application/json").body(large());
        accepted.push(send(sent).await.execution());
    }
    recorder.wait_for("/slow", 2).await.unwrap();
    let small = site.post("work", &json!({"small": true})).await.execution();
    recorder.wait_for("/slow", 3).await.unwrap();
    let last = site.ask(&format!("/executions/{}", accepted[5])).await;
    let waiting = &last["waiting"];
    assert_eq!((&waiting["queuedBehind"], &waiting["forMemory"]), (&json!(3), &json!(true)), "{last}");
    // A waiting execution is accepted, so it survives the daemon.
    site.kill().await;
    recorder.release();
    site.start_with(&["--limits-memory", "32MiB"]).await;
    for id in accepted.iter().chain([&small]) {
        assert_eq!(site.end_of(id).await["status"], json!("succeeded"));
    }
    assert_eq!(count(&site, "work", "succeeded").await, 7);
}

#[tokio::test]
async fn an_execution_with_large_data_starts_in_the_order_of_acceptance() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/slow");
    let mut site = Site::new(&[
        ("filler", &automation(&recorder, "")),
        ("queue", &automation(&recorder, "concurrency: {limit: 1}\n")),
    ]);
    site.start_with(&["--limits-memory", "16MiB"]).await;
    let post = async |automation: &str, body: String| {
        let url = site.url(automation).await;
        send(site.request(Method::POST, &url).header("content-type", "application/json").body(body))
            .await
            .execution()
    };
    let filler = post("filler", large()).await;
    recorder.wait_for("/slow", 1).await.unwrap();
    let first = post("queue", large()).await;
    let second = post("queue", json!({"small": true}).to_string()).await;
    let turn = site.ask(&format!("/executions/{second}")).await;
    assert_eq!(turn["waiting"]["turn"]["holders"], json!([first]), "it waits behind the large one: {turn}");
    site.api(Method::POST, &format!("/executions/{filler}/cancel")).send().await.unwrap();
    recorder.release();
    for id in [&first, &second] {
        assert_eq!(site.end_of(id).await["status"], json!("succeeded"));
    }
}
