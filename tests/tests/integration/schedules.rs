//! An instant of a schedule runs once, whatever happens to the daemon (guarantee G10).

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tests::recorder::Recorder;

use crate::site::Site;

#[tokio::test]
async fn each_instant_is_one_execution_across_kills_and_restarts() {
    let recorder = Recorder::start().await.unwrap();
    let tick = format!(
        "trigger: {{schedule: {{every: 1s, overlap: allow}}}}\nsteps:\n  - action: http.request\n    with: {{url: \
         \"{}/tick\", method: POST, body: {{at: \"${{{{ trigger.results.scheduledAt }}}}\"}}}}\n",
        recorder.url()
    );
    let mut site = Site::serving(&[("tick", &tick)]).await;
    let mut seen = recorder.wait_for("/tick", 2).await.unwrap().len();
    site.kill().await;
    site.start().await;
    seen = recorder.wait_for("/tick", seen + 2).await.unwrap().len();
    assert!(site.stop().await.success());
    site.start().await;
    recorder.wait_for("/tick", seen + 2).await.unwrap();

    // The kill may have cut off a response; then the step is repeated with the same key.
    let mut executions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in recorder.requests_to("/tick") {
        let at = request.json()["at"].as_str().unwrap().to_owned();
        let keys = executions.entry(at).or_default();
        keys.push(request.idempotency_key.unwrap());
        keys.dedup();
    }
    for (at, keys) in &executions {
        assert_eq!(keys.len(), 1, "{at}: {keys:?}");
    }
    let listed = site.executions_of("tick").await;
    let mut instants: Vec<&str> =
        listed.iter().map(|row| row["origin"]["instant"].as_str().unwrap_or_default()).collect();
    let total = instants.len();
    instants.sort_unstable();
    instants.dedup();
    assert_eq!(instants.len(), total, "{listed:?}");
    assert!(total >= 4, "{total}");
}

#[tokio::test]
async fn the_next_instants_are_shown_and_follow_changes_of_the_file() {
    let site = Site::serving(&[(
        "daily",
        "trigger: {schedule: {daily: {at: \"08:30\"}, timezone: Europe/Berlin}}\nsteps: []\n",
    )]);
    let site = site.await;
    let next =
        async || -> Vec<Value> { site.automation("daily").await["nextFires"].as_array().unwrap().clone() };
    let first = next().await;
    assert_eq!(first.len(), 5);
    assert!(first.iter().all(|at| at.as_str().unwrap().contains(":30:00Z")), "{first:?}");
    let mut changes = site.events("/events").await;
    site.project.automation("daily", "trigger: {schedule: {daily: {at: \"08:45\"}}}\nsteps: []\n").unwrap();
    changes.next("catalog").await;
    assert!(next().await.iter().all(|at| at.as_str().unwrap().ends_with("T08:45:00Z")));
    let off = "enabled: false\ntrigger: {schedule: {daily: {at: \"08:45\"}}}\nsteps: []\n";
    site.project.replace("automations/daily.yaml", off).unwrap();
    changes.next("catalog").await;
    assert_eq!(next().await, Vec::<Value>::new());
    assert_eq!(site.automation("daily").await["state"], json!("disabled"));
}
