//! Replays over the API: what they do, what they keep of the record, and what is refused.

use serde_json::{Value, json};

use crate::support::{Answer, Daemon, ECHO, Gate, MANUAL, daemon, daemon_with, write};

const JSON: &str = "content-type: application/json\r\n";

/// Calls the same address twice.
const TWO_CALLS: &str = "trigger:
  manual: {}
inputs:
  url: {type: text, required: true}
steps:
  - id: load
    action: http.request
    with: {method: POST, url: \"${{ inputs.url }}load\"}
  - id: save
    action: http.request
    with: {method: POST, url: \"${{ inputs.url }}save\"}
";

pub(crate) async fn post(daemon: &Daemon, path: &str, body: Value) -> Answer {
    daemon.api("POST", path, JSON, &body.to_string()).await
}

/// Starts an automation by hand, waits for its end and returns its id.
pub(crate) async fn run(daemon: &Daemon, id: &str, inputs: Value) -> String {
    let path = format!("/api/v1/automations/{id}/run?wait=true");
    let answer = post(daemon, &path, json!({ "inputs": inputs })).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["executionId"].as_str().unwrap().to_owned()
}

async fn replay(daemon: &Daemon, id: &str, body: Value) -> Answer {
    post(daemon, &format!("/api/v1/executions/{id}/replay"), body).await
}

/// The execution that a replay has started, once it has ended.
async fn ended(daemon: &Daemon, answer: &Answer) -> Value {
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.execution();
    daemon.engine.runtime().wait(id).await.unwrap();
    daemon.api("GET", &format!("/api/v1/executions/{id}"), "", "").await.json()
}

fn refusal(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

#[tokio::test]
async fn a_replay_returns_its_plan_and_links_both_executions() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let answer = replay(&daemon, &id, json!({})).await;
    let new = ended(&daemon, &answer).await;
    let plan = answer.json();
    assert_eq!(
        (&plan["replayOf"], &plan["automation"], &plan["test"]),
        (&json!(id), &json!("m"), &json!(false))
    );
    assert_eq!((&plan["keptSteps"], &plan["calls"]), (&json!(0), &json!([])));
    assert_eq!(new["outcome"]["result"], json!({"greeting": "Hello Ada"}));
    assert_eq!((&new["origin"]["kind"], &new["origin"]["of"]), (&json!("replay"), &json!(id)));
    let old = daemon.api("GET", &format!("/api/v1/executions/{id}"), "", "").await.json();
    assert_eq!(old["replays"], json!([new["id"]]));
    let without_body = daemon.api("POST", &format!("/api/v1/executions/{id}/replay"), "", "").await;
    assert_eq!(without_body.status, 202, "{without_body:?}");
}

#[tokio::test]
async fn a_dry_run_lists_the_calls_from_the_step_and_starts_nothing() {
    let daemon = daemon(&[("two", TWO_CALLS)]).await;
    let gate = Gate::new().await;
    let body = json!({"inputs": {"url": gate.url()}});
    let id = post(&daemon, "/api/v1/automations/two/run", body).await.execution();
    gate.arrival().await.let_through().await;
    gate.arrival().await.let_through().await;
    daemon.engine.runtime().wait(id).await.unwrap();
    let id = id.to_string();
    let plan = replay(&daemon, &id, json!({"from": "save", "dryRun": true})).await;
    assert_eq!(plan.status, 200, "{plan:?}");
    let plan = plan.json();
    assert_eq!(
        (&plan["from"], &plan["keptSteps"], &plan["executionId"]),
        (&json!("save"), &json!(1), &Value::Null)
    );
    assert_eq!(plan["kept"], json!(["load"]));
    let save =
        json!({"step": "save", "action": "http.request", "writes": true, "list": "steps", "called": true});
    assert_eq!(plan["calls"], json!([save]));
    assert_eq!(daemon.executions().await, 1);
    let begun = replay(&daemon, &id, json!({"from": "save"})).await;
    // The step before it is not called: the only request is that of `save`.
    gate.arrival().await.let_through().await;
    let new = ended(&daemon, &begun).await;
    let kept = |step: usize| new["steps"][step]["kept"] == json!(true);
    assert_eq!((kept(0), kept(1)), (true, false), "{new}");
}

#[tokio::test]
async fn an_edited_request_keeps_the_recorded_parts_that_it_does_not_name() {
    let daemon = daemon(&[("echo", ECHO)]).await;
    let path = format!("{}/a/b?x=1", daemon.path("echo"));
    let fields = "content-type: application/json\r\nx-kind: first\r\nx-other: same\r\n";
    let answer = daemon.hook("POST", &path, fields, b"{\"id\": 1}").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let listed = daemon.api("GET", "/api/v1/executions", "", "").await.json();
    let id = listed["executions"][0]["id"].as_str().unwrap().to_owned();
    let result = async |payload: Value| {
        let new = ended(&daemon, &replay(&daemon, &id, json!({ "payload": payload })).await).await;
        new["outcome"]["result"].clone()
    };
    let body = result(json!({"body": {"id": 2}})).await;
    assert_eq!(
        (&body["data"], &body["fragment"], &body["query"]),
        (&json!({"id": 2}), &json!("a/b"), &json!({"x": "1"}))
    );
    assert_eq!(body["headers"]["x-kind"], "first");
    let query = result(json!({"query": {"x": "2"}, "path": "c"})).await;
    assert_eq!(
        (&query["data"], &query["fragment"], &query["query"]),
        (&json!({"id": 1}), &json!("c"), &json!({"x": "2"}))
    );
    // Clients see credentials masked; a mask that they send back means the recorded value.
    let headers = result(json!({"headers": {"x-kind": "***", "x-new": "1"}})).await["headers"].clone();
    assert_eq!(
        (&headers["x-kind"], &headers["x-new"], &headers["x-other"]),
        (&json!("first"), &json!("1"), &Value::Null)
    );
}

#[tokio::test]
async fn a_replay_runs_on_the_requested_version_and_as_a_test_on_request() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    write(
        daemon.folder.path(),
        "automations/m.yaml",
        &MANUAL.replace("greeting: Hello", "greeting: Goodbye"),
    );
    daemon.engine.reload().await;
    let result = async |body: Value| {
        let new = ended(&daemon, &replay(&daemon, &id, body).await).await;
        (new["outcome"]["result"]["greeting"].clone(), new["origin"]["test"].clone())
    };
    assert_eq!(result(json!({})).await.0, "Goodbye Ada");
    assert_eq!(result(json!({"definition": "original"})).await.0, "Hello Ada");
    assert_eq!(result(json!({"test": true})).await.1, json!(true));
}

#[tokio::test]
async fn an_impossible_replay_is_rejected_with_the_reason_and_starts_nothing() {
    let daemon =
        daemon(&[("m", MANUAL), ("waits", "trigger: {manual: {}}\nsteps:\n  - {id: rest, wait: 1h}\n")])
            .await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let unknown = replay(&daemon, "01a204ee-9cac-7000-99f7-9b490872defa", json!({})).await;
    assert_eq!(refusal(&unknown), (404, "unknown_execution".to_owned()));
    let step = replay(&daemon, &id, json!({"from": "grete"})).await;
    assert_eq!(refusal(&step), (409, "not_replayable".to_owned()));
    assert!(step.json()["detail"].as_str().unwrap().contains("did you mean `greet`?"), "{step:?}");
    let waiting = post(&daemon, "/api/v1/automations/waits/run", json!({})).await.execution().to_string();
    let early = replay(&daemon, &waiting, json!({"from": "rest"})).await;
    assert_eq!(refusal(&early), (409, "not_replayable".to_owned()));
    for body in [
        json!({"from": 7}),
        json!({"definition": "newest"}),
        json!({"fron": "greet"}),
        json!({"payload": {"kind": "odd"}}),
    ] {
        let answer = replay(&daemon, &id, body.clone()).await;
        assert_eq!(refusal(&answer), (422, "bad_body".to_owned()), "{body}");
    }
    let inputs = replay(&daemon, &id, json!({"payload": {"inputs": {}}})).await;
    assert_eq!(refusal(&inputs), (422, "bad_input".to_owned()));
    std::fs::remove_file(daemon.folder.path().join("automations/m.yaml")).unwrap();
    daemon.engine.reload().await;
    assert_eq!(refusal(&replay(&daemon, &id, json!({})).await), (404, "unknown_automation".to_owned()));
    assert_eq!(daemon.executions().await, 2);
}

#[tokio::test]
async fn a_replay_needs_the_token_and_works_on_a_read_only_daemon() {
    let daemon = daemon_with(&[("m", MANUAL)], |options| options.read_only = true).await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let path = format!("/api/v1/executions/{id}/replay");
    for (path, body) in [
        (path.as_str(), json!({})),
        ("/api/v1/executions/bulk", json!({"action": "replay", "filter": {}})),
        ("/api/v1/trials", json!({"path": "automations/m.yaml", "text": MANUAL, "executions": [id]})),
    ] {
        let answer = daemon.api_without_token("POST", path, JSON, &body.to_string()).await;
        assert_eq!(refusal(&answer), (401, "unauthorized".to_owned()), "{path}");
    }
    assert_eq!(daemon.executions().await, 1);
    // The setting is about files: a replay changes none.
    ended(&daemon, &replay(&daemon, &id, json!({})).await).await;
}
