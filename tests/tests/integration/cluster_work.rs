//! Several daemons on one database: a daemon without a free slot hands waiting executions to one with free slots.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use tests::recorder::Recorder;

use crate::cluster::Cluster;
use crate::site::{Answer, Site, posts, send};

/// Starts two daemons with one slot and `slots` slots. Each execution posts to `/work`.
async fn saturated(recorder: &Recorder, slots: usize) -> Cluster {
    let work = format!("trigger: {{webhook: {{}}}}\nsteps:\n{}", posts(recorder, &["work"]));
    let sites = [1, slots].map(|slots| {
        let site = Site::new(&[("work", &work)]);
        site.project.write("cogwork.yaml", &format!("limits: {{inFlight: {slots}}}\n")).unwrap();
        site
    });
    Cluster::of(sites.into()).await
}

async fn post_once(site: &Site, key: &str) -> Answer {
    let url = site.url("work").await;
    send(site.request(Method::POST, &url).header("Idempotency-Key", key).json(&json!({}))).await
}

/// Returns the numbers of unfinished executions of the daemons, in the order in which they joined.
fn owned(cluster: &Cluster) -> String {
    cluster.sql("SELECT string_agg(c::text, ' ') FROM (SELECT count(*) AS c FROM @.live GROUP BY owner ORDER BY owner) o")
}

fn keys(recorder: &Recorder) -> BTreeSet<Option<String>> {
    recorder.requests_to("/work").into_iter().map(|request| request.idempotency_key).collect()
}

#[tokio::test]
async fn executions_of_a_saturated_daemon_start_once_at_one_with_free_slots() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/work");
    let cluster = saturated(&recorder, 100).await;
    let mut ids = Vec::new();
    for turn in 0..10 {
        ids.push(post_once(&cluster.sites[0], &turn.to_string()).await.execution());
    }
    recorder.wait_for("/work", 10).await.unwrap();
    assert_eq!(owned(&cluster), "1 9", "each daemon owns the executions that it runs");
    for site in &cluster.sites {
        let again = post_once(site, "9").await;
        assert_eq!((again.header("x-duplicate"), again.execution()), ("true", ids[9].clone()));
    }
    recorder.release();
    for id in &ids {
        assert_eq!(cluster.sites[0].end_of(id).await["status"], json!("succeeded"));
    }
    assert_eq!((recorder.requests_to("/work").len(), keys(&recorder).len()), (10, 10));
    cluster.stop().await;
}

#[tokio::test]
async fn executions_handed_to_a_daemon_resume_at_the_other_when_it_dies() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/work");
    let mut cluster = saturated(&recorder, 100).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(cluster.sites[0].post("work", &json!({})).await.execution());
    }
    recorder.wait_for("/work", 4).await.unwrap();
    cluster.sites[1].kill().await;
    cluster.sites.pop();
    recorder.release();
    for id in &ids {
        assert_eq!(cluster.sites[0].end_of(id).await["status"], json!("succeeded"));
    }
    assert_eq!(keys(&recorder).len(), 4, "a repeated request is the same effect");
    cluster.stop().await;
}

#[tokio::test]
async fn an_execution_without_a_free_slot_is_shown_and_cancelled_through_any_daemon() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/work");
    let cluster = saturated(&recorder, 1).await;
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    let first = here.post("work", &json!({})).await.execution();
    let second = here.post("work", &json!({})).await.execution();
    recorder.wait_for("/work", 2).await.unwrap();
    let third = here.post("work", &json!({})).await.execution();
    for site in [here, there] {
        let shown: Value = site.ask(&format!("/executions/{third}")).await;
        assert_eq!(shown["status"], json!("queued"), "{shown}");
    }
    let ended = send(there.api(Method::POST, &format!("/executions/{third}/cancel"))).await;
    assert!(ended.status < 300, "{}", ended.text);
    assert_eq!(here.end_of(&third).await["status"], json!("cancelled"));
    recorder.release();
    for id in [&first, &second] {
        assert_eq!(there.end_of(id).await["status"], json!("succeeded"));
    }
    assert_eq!(recorder.requests_to("/work").len(), 2);
    cluster.stop().await;
}
