//! Operations on many executions over the API.

use serde_json::{Value, json};

use crate::replays::{post, run};
use crate::support::{Answer, Daemon, MANUAL, daemon};

const PATH: &str = "/api/v1/executions/bulk";
/// Waits for an hour.
const WAITS: &str = "trigger: {manual: {}}\nsteps:\n  - {id: rest, wait: 1h}\n";

async fn begin(daemon: &Daemon, body: Value) -> Answer {
    post(daemon, PATH, body).await
}

/// The progress of an operation, once it has ended.
async fn ended(daemon: &Daemon, begun: &Answer) -> Value {
    assert_eq!(begun.status, 202, "{begun:?}");
    let path = format!("{PATH}/{}", begun.json()["id"].as_str().unwrap());
    loop {
        let found = daemon.api("GET", &path, "", "").await;
        assert_eq!(found.status, 200, "{found:?}");
        if found.json()["state"] != "running" {
            return found.json();
        }
        tokio::task::yield_now().await;
    }
}

/// Enough executions to keep an operation busy for half a minute at one a second.
const MANY: u64 = 30;

async fn many(daemon: &Daemon) {
    for index in 0..MANY {
        run(daemon, "m", json!({"name": format!("{index}")})).await;
    }
}

fn refusal(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

#[tokio::test]
async fn a_dry_run_counts_by_automation_and_starts_nothing() {
    let daemon = daemon(&[("m", MANUAL), ("waits", WAITS)]).await;
    for name in ["a", "b"] {
        run(&daemon, "m", json!({ "name": name })).await;
    }
    post(&daemon, "/api/v1/automations/waits/run", json!({})).await.execution();
    let body = |action: &str| json!({"action": action, "filter": {}, "dryRun": true});
    let replays = begin(&daemon, body("replay")).await;
    assert_eq!(replays.status, 200, "{replays:?}");
    let replays = replays.json();
    assert_eq!(
        (&replays["state"], &replays["total"], &replays["skipped"]),
        (&json!("planned"), &json!(2), &json!(1))
    );
    assert_eq!((&replays["automations"], &replays["calling"]), (&json!({"m": 2}), &json!(0)));
    assert_eq!((&replays["id"], daemon.executions().await), (&Value::Null, 3));
    let cancellations = begin(&daemon, body("cancel")).await.json();
    assert_eq!((&cancellations["total"], &cancellations["skipped"]), (&json!(1), &json!(2)));
    let none =
        begin(&daemon, json!({"action": "cancel", "filter": {"automation": "m"}, "dryRun": true})).await;
    assert_eq!(none.json()["total"], 0);
}

#[tokio::test]
async fn a_bulk_replay_replays_the_selection_and_lists_the_new_executions() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(run(&daemon, "m", json!({ "name": name })).await);
    }
    // An id that is named twice is replayed once.
    let body = json!({"action": "replay", "ids": [ids[0], ids[1], ids[0]], "perSecond": 100, "test": true});
    let done = ended(&daemon, &begin(&daemon, body).await).await;
    assert_eq!(
        (&done["state"], &done["total"], &done["done"], &done["failed"]),
        (&json!("finished"), &json!(2), &json!(2), &json!(0))
    );
    assert!(done["finishedAt"].is_string(), "{done}");
    let started = done["started"].as_array().unwrap();
    for (new, old) in started.iter().zip(&ids) {
        let path = format!("/api/v1/executions/{}", new.as_str().unwrap());
        let origin = daemon.api("GET", &path, "", "").await.json()["origin"].clone();
        assert_eq!((&origin["of"], &origin["test"]), (&json!(old), &json!(true)));
    }
    assert_eq!((started.len(), daemon.executions().await), (2, 5));
    let listed = daemon.api("GET", PATH, "", "").await.json();
    assert_eq!(listed["operations"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_bulk_cancellation_cancels_the_matching_executions_with_its_reason() {
    let daemon = daemon(&[("waits", WAITS), ("others", WAITS)]).await;
    let cancelled = post(&daemon, "/api/v1/automations/waits/run", json!({})).await.execution();
    let other = post(&daemon, "/api/v1/automations/others/run", json!({})).await.execution();
    let body = json!({"action": "cancel", "filter": {"automation": "waits"}, "reason": "no need"});
    let done = ended(&daemon, &begin(&daemon, body).await).await;
    assert_eq!((&done["done"], &done["failed"]), (&json!(1), &json!(0)), "{done}");
    daemon.engine.runtime().wait(cancelled).await.unwrap();
    let show = async |id| daemon.api("GET", &format!("/api/v1/executions/{id}"), "", "").await.json();
    let found = show(cancelled).await;
    assert_eq!((&found["status"], &found["outcome"]["reason"]), (&json!("cancelled"), &json!("no need")));
    assert!(show(other).await["finishedAt"].is_null());
}

#[tokio::test]
async fn a_stopped_operation_leaves_the_remaining_executions_unchanged() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    many(&daemon).await;
    // One a second: the stop arrives long before the last.
    let begun = begin(&daemon, json!({"action": "replay", "filter": {}, "perSecond": 1})).await;
    let path = format!("{PATH}/{}", begun.json()["id"].as_str().unwrap());
    let stopped = daemon.api("DELETE", &path, "", "").await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
    let done = ended(&daemon, &begun).await;
    assert_eq!((&done["state"], &done["total"]), (&json!("stopped"), &json!(MANY)));
    let made = done["done"].as_u64().unwrap();
    assert!(made < MANY, "{done}");
    assert_eq!(daemon.executions().await as u64, MANY + made);
}

#[tokio::test]
async fn an_invalid_or_too_large_selection_is_rejected() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = run(&daemon, "m", json!({"name": "a"})).await;
    let many = vec!["01a204ee-9cac-7000-99f7-9b490872defa"; 10_001];
    let replay = |rest: Value| {
        let mut body = json!({"action": "replay"});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        body
    };
    for (body, expected) in [
        (replay(json!({})), (422, "bad_body")),
        (replay(json!({"ids": [id], "filter": {}})), (422, "bad_body")),
        (replay(json!({"ids": ["latest"]})), (422, "bad_body")),
        (replay(json!({"ids": [id], "perSecond": 0})), (422, "bad_body")),
        (replay(json!({"ids": [id], "perSecond": 101})), (422, "bad_body")),
        (replay(json!({"filter": {"colour": "red"}})), (422, "bad_body")),
        (json!({"action": "delete", "filter": {}}), (422, "bad_body")),
        (replay(json!({"filter": {"status": ["over"]}})), (400, "bad_query")),
        (replay(json!({"ids": many})), (422, "bad_input")),
        (replay(json!({"ids": [many[0]]})), (404, "unknown_execution")),
    ] {
        let answer = begin(&daemon, body).await;
        assert_eq!(refusal(&answer), (expected.0, expected.1.to_owned()), "{answer:?}");
    }
    for method in ["GET", "DELETE"] {
        let answer = daemon.api(method, &format!("{PATH}/none"), "", "").await;
        assert_eq!(refusal(&answer), (404, "unknown_operation".to_owned()));
    }
    assert_eq!(daemon.executions().await, 1);
}

#[tokio::test]
async fn four_bulk_operations_run_concurrently_and_a_fifth_gets_503() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    many(&daemon).await;
    let body = json!({"action": "replay", "filter": {}, "perSecond": 1});
    for _ in 0..4 {
        assert_eq!(begin(&daemon, body.clone()).await.status, 202);
    }
    let fifth = begin(&daemon, body).await;
    assert_eq!((refusal(&fifth), fifth.header("retry-after")), ((503, "busy".to_owned()), Some("1")));
}

#[tokio::test]
async fn the_last_fifty_bulk_operations_are_listed() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = run(&daemon, "m", json!({"name": "a"})).await;
    let mut begun = Vec::new();
    for _ in 0..51 {
        let operation = begin(&daemon, json!({"action": "replay", "ids": [id]})).await;
        ended(&daemon, &operation).await;
        begun.push(operation.json()["id"].clone());
    }
    let listed = daemon.api("GET", PATH, "", "").await.json();
    let listed: Vec<&Value> =
        listed["operations"].as_array().unwrap().iter().map(|operation| &operation["id"]).collect();
    assert_eq!(listed.len(), 50);
    assert!(!listed.contains(&&begun[0]) && listed.contains(&&begun[1]) && listed.contains(&&begun[50]));
}
