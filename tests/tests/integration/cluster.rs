//! Several daemons on one database: each execution has one owner, and every daemon can serve every request.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use store::conformance::PostgresServer;
use tests::recorder::Recorder;

use crate::site::{Site, posts, send};

/// Daemons on one database, each with its own project folder with the same files.
pub(crate) struct Cluster {
    // Dropped before the server, which they need to leave the cluster.
    pub(crate) sites: Vec<Site>,
    pub(crate) url: String,
    schema: String,
    server: PostgresServer,
}

impl Cluster {
    pub(crate) async fn start(count: usize, automations: &[(&str, &str)]) -> Self {
        Self::of((0..count).map(|_| Site::new(automations)).collect()).await
    }

    /// Starts the daemons of these sites.
    pub(crate) async fn of(mut sites: Vec<Site>) -> Self {
        let server = PostgresServer::start();
        let space = server.space();
        let (url, schema) = (space.url(), space.schema().to_owned());
        for site in &mut sites {
            site.start_with(&["--store", &url]).await;
        }
        let cluster = Self { sites, url, schema, server };
        cluster.until(0, |nodes| nodes.iter().all(|node| node["shards"].as_u64() > Some(0))).await;
        cluster
    }

    /// Waits until the nodes that this daemon lists meet a condition.
    pub(crate) async fn until(&self, site: usize, expected: impl Fn(&[Value]) -> bool) {
        loop {
            let nodes = self.sites[site].ask("/nodes").await;
            let nodes = nodes["nodes"].as_array().unwrap();
            if expected(nodes) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Runs SQL, in which `@` stands for the schema of the store. Returns the output.
    pub(crate) fn sql(&self, sql: &str) -> String {
        self.server.run(&sql.replace('@', &self.schema))
    }

    pub(crate) async fn stop(mut self) {
        for site in &mut self.sites {
            assert!(site.stop().await.success());
        }
    }
}

fn hook(steps: &str) -> String {
    format!("trigger: {{webhook: {{}}}}\nsteps:\n{steps}")
}

fn times(recorder: &Recorder, path: &str) -> usize {
    recorder.paths().iter().filter(|found| *found == path).count()
}

async fn status_of(site: &Site, execution: &str) -> Value {
    site.ask(&format!("/executions/{execution}")).await["status"].clone()
}

#[tokio::test]
async fn all_daemons_serve_the_same_address_and_share_the_shards() {
    let cluster = Cluster::start(3, &[("work", &hook("  - wait: 1h\n"))]).await;
    let mut urls = BTreeSet::new();
    for site in &cluster.sites {
        urls.insert(site.token("work").await);
    }
    assert_eq!(urls.len(), 1, "all daemons have the same address");
    let sum = |nodes: &[Value]| nodes.iter().filter_map(|node| node["shards"].as_u64()).sum::<u64>();
    cluster.until(0, |nodes| nodes.len() == 3 && sum(nodes) == 128).await;
    cluster.stop().await;
}

#[tokio::test]
async fn executions_of_a_killed_daemon_resume_at_their_step_on_another() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/two");
    let work = hook(&posts(&recorder, &["one", "two", "three"]));
    let wait = "trigger: {manual: {}}\nsteps:\n  - {id: go, waitFor: {approval: {message: Go?, options: [send, stop]}}}\n";
    let mut cluster = Cluster::start(2, &[("work", &work), ("wait", wait)]).await;
    let id = cluster.sites[0].post("work", &json!({"order": 17})).await.execution();
    let waiting = cluster.sites[0].run("wait").await;
    recorder.wait_for("/two", 1).await.unwrap();
    while status_of(&cluster.sites[1], &waiting).await != json!("waiting") {}
    cluster.sites[0].kill().await;
    recorder.release();
    let end = cluster.sites[1].end_of(&id).await;
    assert_eq!(end["status"], json!("succeeded"));
    assert_eq!(
        (times(&recorder, "/one"), times(&recorder, "/three")),
        (1, 1),
        "recorded results are not repeated"
    );
    // A suspended execution resumes too.
    let path = format!("/executions/{waiting}/signal");
    let answer = send(cluster.sites[1].api(Method::POST, &path).json(&json!({"option": "send"}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(cluster.sites[1].end_of(&waiting).await["status"], json!("succeeded"));
    cluster.until(1, |nodes| nodes.len() == 1).await;
    cluster.sites.remove(0);
    cluster.stop().await;
}

#[tokio::test]
async fn a_caller_gets_its_response_wherever_the_execution_runs() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/slow");
    let work = format!(
        "trigger: {{webhook: {{mode: sync, timeout: 25s}}}}\nsteps:\n{}  - respond: {{status: 201, body: {{done: true}}}}\n",
        posts(&recorder, &["slow"])
    );
    let cluster = Cluster::start(2, &[("work", &work)]).await;
    let call = |site: usize| {
        let cluster = &cluster;
        async move {
            let site = &cluster.sites[site];
            let url = site.url("work").await;
            send(site.request(Method::POST, &url).header("Idempotency-Key", "one").json(&json!({}))).await
        }
    };
    let first = call(0);
    let second = async {
        recorder.wait_for("/slow", 1).await.unwrap();
        let attached = call(1);
        tokio::pin!(attached);
        // The caller waits, since the execution has not ended.
        assert!(futures_util::poll!(&mut attached).is_pending());
        recorder.release();
        attached.await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status, second.status), (201, 201), "{} {}", first.text, second.text);
    assert_eq!(first.text, second.text);
    assert_eq!(times(&recorder, "/slow"), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn answers_events_and_cancellations_reach_an_execution_through_any_daemon() {
    let approval = "trigger: {manual: {}}\nsteps:\n  - {id: go, waitFor: {approval: {message: Go?, options: [send, stop]}}}\n  - {id: out, set: {chosen: \"${{ steps.go.results.option }}\"}}\n";
    let event = "trigger: {manual: {}}\nsteps:\n  - {id: paid, waitFor: {event: paid}}\n";
    let wait = "trigger: {manual: {}}\nsteps:\n  - wait: 1h\n";
    let cluster = Cluster::start(2, &[("approval", approval), ("event", event), ("wait", wait)]).await;
    let [here, there] = [&cluster.sites[0], &cluster.sites[1]];
    let (approved, paid, cancelled) =
        (here.run("approval").await, here.run("event").await, here.run("wait").await);
    for id in [&approved, &paid, &cancelled] {
        while status_of(there, id).await != json!("waiting") {}
    }
    let path = format!("/executions/{approved}/signal");
    let answer = send(there.api(Method::POST, &path).json(&json!({"option": "send"}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let again = send(there.api(Method::POST, &path).json(&json!({"option": "stop"}))).await;
    assert_ne!(again.status, 200, "the first answer counts: {}", again.text);
    let sent =
        send(there.api(Method::POST, "/events").json(&json!({"name": "paid", "data": {"id": 7}}))).await;
    assert_eq!((sent.status, sent.json()["delivered"].as_u64()), (200, Some(1)), "{}", sent.text);
    let ended = send(there.api(Method::POST, &format!("/executions/{cancelled}/cancel"))).await;
    assert!(ended.status < 300, "{}", ended.text);
    let approved = there.end_of(&approved).await.to_string();
    assert!(approved.contains(r#""chosen":"send""#), "{approved}");
    assert_eq!(there.end_of(&paid).await["status"], json!("succeeded"));
    assert_eq!(there.end_of(&cancelled).await["status"], json!("cancelled"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_concurrency_limit_holds_across_all_daemons() {
    let recorder = Recorder::start().await.unwrap();
    let work = format!(
        "concurrency: {{limit: 1}}\ntrigger: {{webhook: {{}}}}\nsteps:\n{}",
        posts(&recorder, &["begin", "end"])
    );
    let cluster = Cluster::start(3, &[("work", &work)]).await;
    let mut ids = Vec::new();
    for turn in 0..12 {
        ids.push(cluster.sites[turn % 3].post("work", &json!({"turn": turn})).await.execution());
    }
    for id in &ids {
        assert_eq!(cluster.sites[0].end_of(id).await["status"], json!("succeeded"));
    }
    let expected: Vec<&str> = (0..12).flat_map(|_| ["/begin", "/end"]).collect();
    assert_eq!(recorder.paths(), expected, "one after the other");
    cluster.stop().await;
}

#[tokio::test]
async fn state_increments_add_up_across_all_daemons() {
    let work = "trigger: {webhook: {mode: sync}}\nsteps:\n  - {id: count, action: state.increment, with: {key: count}}\n";
    let cluster = Cluster::start(3, &[("work", work)]).await;
    let body = json!({});
    let calls = (0..30).map(|turn| cluster.sites[turn % 3].post("work", &body));
    let answers = futures_util::future::join_all(calls).await;
    let statuses: BTreeSet<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200].into_iter().collect(), "{answers:?}");
    let state = cluster.sites[0].ask("/state/work").await.to_string();
    assert!(state.contains("30"), "{state}");
    cluster.stop().await;
}

#[tokio::test]
async fn a_schedule_instant_starts_one_execution_even_if_its_owner_dies() {
    let tick = "trigger: {schedule: {every: 1s}}\nsteps: []\n";
    let mut cluster = Cluster::start(2, &[("tick", tick)]).await;
    while cluster.sites[0].executions_of("tick").await.len() < 2 {}
    let before = cluster.sites[1].executions_of("tick").await.len();
    cluster.sites[0].kill().await;
    cluster.sites.remove(0);
    while cluster.sites[0].executions_of("tick").await.len() < before + 2 {}
    let executions = cluster.sites[0].executions_of("tick").await;
    let instants: BTreeSet<String> =
        executions.iter().map(|execution| execution["origin"]["instant"].to_string()).collect();
    assert_eq!(instants.len(), executions.len(), "each instant once: {executions:?}");
    cluster.stop().await;
}

#[tokio::test]
async fn a_stopping_daemon_hands_its_executions_to_the_others() {
    let wait =
        "trigger: {manual: {}}\nsteps:\n  - {id: go, waitFor: {approval: {message: Go?, options: [send]}}}\n";
    let mut cluster = Cluster::start(2, &[("wait", wait)]).await;
    let id = cluster.sites[0].run("wait").await;
    while status_of(&cluster.sites[1], &id).await != json!("waiting") {}
    assert!(cluster.sites[0].stop().await.success());
    cluster.sites.remove(0);
    let path = format!("/executions/{id}/signal");
    let answer = send(cluster.sites[0].api(Method::POST, &path).json(&json!({"option": "send"}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(cluster.sites[0].end_of(&id).await["status"], json!("succeeded"));
    let mut again = Site::new(&[("wait", wait)]);
    again.start_with(&["--store", &cluster.url]).await;
    assert_eq!(status_of(&again, &id).await, json!("succeeded"));
    cluster.sites.push(again);
    cluster.stop().await;
}

#[tokio::test]
async fn a_frozen_daemon_is_taken_over_and_writes_nothing_after_it_thaws() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/two");
    let work = hook(&posts(&recorder, &["one", "two", "three"]));
    let mut cluster = Cluster::start(2, &[("work", &work)]).await;
    let id = cluster.sites[0].post("work", &json!({})).await.execution();
    recorder.wait_for("/two", 1).await.unwrap();
    cluster.sites[0].daemon().freeze().unwrap();
    recorder.wait_for("/two", 2).await.unwrap();
    recorder.release();
    assert_eq!(cluster.sites[1].end_of(&id).await["status"], json!("succeeded"));
    // It gets the response to its own request, and cannot record it.
    cluster.sites[0].daemon().thaw().unwrap();
    assert_eq!(cluster.sites[0].ended().await.code(), Some(3), "it asks to be restarted");
    assert_eq!((times(&recorder, "/one"), times(&recorder, "/three")), (1, 1));
    let keys: BTreeSet<_> = recorder
        .requests()
        .into_iter()
        .filter(|request| request.path == "/two")
        .map(|request| request.idempotency_key)
        .collect();
    assert_eq!(keys.len(), 1, "both requests of the step are one effect");
    cluster.sites[0].start_with(&["--store", &cluster.url]).await;
    assert_eq!(status_of(&cluster.sites[0], &id).await, json!("succeeded"));
    cluster.stop().await;
}
