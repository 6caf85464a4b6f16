//! Starting, listing, looking at and ending executions over the API.

use std::time::Duration;

use serde_json::{Value, json};
use server::Error;

use crate::support::{ASYNC, Daemon, GATED, Gate, MANUAL, MANUAL_GATED, daemon, daemon_with};

async fn run(daemon: &Daemon, id: &str, query: &str, body: Value) -> Result<Value, Error> {
    daemon.client().post(&format!("/api/v1/automations/{id}/run{query}"), &body).await
}

fn refused(result: Result<Value, Error>) -> (u16, String, String) {
    match result {
        Err(Error::Refused(problem)) => (problem.status, problem.code.clone(), problem.detail),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_run_with_wait_returns_its_outcome() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let inputs = json!({"inputs": {"name": "Ada"}});
    let found = run(&daemon, "m", "?wait=true", inputs.clone()).await.unwrap();
    assert_eq!(found["status"], "succeeded");
    assert_eq!(found["outcome"], json!({"outcome": "succeeded", "result": {"greeting": "Hello Ada"}}));
    let accepted = run(&daemon, "m", "", inputs).await.unwrap();
    assert_eq!(accepted.as_object().unwrap().len(), 1);
    assert_ne!(accepted["executionId"], found["executionId"]);
}

#[tokio::test]
async fn a_run_that_outlasts_the_wait_continues() {
    let daemon =
        daemon_with(&[("m", MANUAL_GATED)], |options| options.wait = Duration::from_millis(20)).await;
    let gate = Gate::new().await;
    let found = run(&daemon, "m", "?wait=true", json!({"inputs": {"url": gate.url()}})).await.unwrap();
    assert!(found["outcome"].is_null());
    gate.arrival().await.let_through().await;
    let id = found["executionId"].as_str().unwrap().parse().unwrap();
    assert_eq!(daemon.engine.runtime().wait(id).await.unwrap().status(), model::Status::Succeeded);
}

#[tokio::test]
async fn an_invalid_start_is_rejected_with_an_explanation() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let (status, code, detail) = refused(run(&daemon, "m", "", json!({})).await);
    assert_eq!((status, code.as_str()), (422, "bad_input"));
    assert!(detail.contains("name"), "{detail}");
    let (status, code, detail) = refused(run(&daemon, "mm", "", json!({})).await);
    assert_eq!((status, code.as_str()), (404, "unknown_automation"));
    assert!(detail.contains("did you mean `m`?"), "{detail}");
    let both = json!({"inputs": {}, "payload": {"kind": "manual", "inputs": {}}});
    assert_eq!(refused(run(&daemon, "m", "", both).await).1, "bad_body");
    assert_eq!(refused(run(&daemon, "m", "", json!({"payload": {"kind": "odd"}})).await).1, "bad_body");
    assert_eq!(refused(run(&daemon, "m", "?wait=perhaps", json!({})).await).1, "bad_query");
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn a_webhook_payload_may_be_given_in_short_form() {
    let daemon = daemon(&[("echo", crate::support::ECHO)]).await;
    let payload = json!({"payload": {"path": "a", "query": {"page": 2}, "headers": {"X-Kind": "b"}, "body": {"id": 7}}});
    let found = run(&daemon, "echo", "?wait=true", payload).await.unwrap();
    let result = &found["outcome"]["result"];
    assert_eq!((&result["data"], &result["query"]), (&json!({"id": 7}), &json!({"page": "2"})));
    assert_eq!((&result["fragment"], &result["headers"]["x-kind"]), (&json!("a"), &json!("b")));
    assert_eq!(
        run(&daemon, "echo", "?wait=true", json!({"payload": {}})).await.unwrap()["status"],
        "succeeded"
    );
    let wrong = json!({"payload": {"method": "DELETE", "boddy": 1, "path": 7}});
    let (status, code, detail) = refused(run(&daemon, "echo", "", wrong).await);
    assert_eq!((status, code.as_str()), (422, "bad_body"));
    for part in ["`DELETE`", "did you mean `body`?", "`path` is a number"] {
        assert!(detail.contains(part), "`{part}` is missing in: {detail}");
    }
}

#[tokio::test]
async fn a_saved_payload_is_stored_read_run_and_deleted() {
    let daemon = daemon(&[("echo", crate::support::ECHO)]).await;
    let (client, path) = (daemon.client(), "/api/v1/automations/echo/payloads/first");
    let saved: Value = client.put(path, &json!({"body": {"id": 7}})).await.unwrap();
    assert_eq!(saved["path"], "payloads/echo/first.json");
    client.put::<Value>(path, &json!({"body": {"id": 8}})).await.unwrap();
    let read: Value = client.get(path).await.unwrap();
    assert_eq!((&read["kind"], &read["method"]), (&json!("webhook"), &json!("POST")));
    assert_eq!(client.put::<Value>(path, &read).await.unwrap()["name"], "first");
    let found = run(&daemon, "echo", "?wait=true", json!({"saved": "first"})).await.unwrap();
    assert_eq!(found["outcome"]["result"]["data"], json!({"id": 8}));
    assert_eq!(refused(client.put(path, &json!({"boddy": 1})).await).1, "bad_body");
    assert_eq!(refused(client.put("/api/v1/automations/echo/payloads/..x", &json!({})).await).1, "bad_name");
    assert_eq!(client.delete::<Value>(path).await.unwrap(), json!({"deleted": true}));
    assert_eq!(client.delete::<Value>(path).await.unwrap(), json!({"deleted": false}));
    assert_eq!(refused(client.get(path).await).0, 404);
}

#[tokio::test]
async fn payloads_are_listed_as_summaries_and_read_with_an_etag() {
    let daemon = daemon(&[("echo", crate::support::ECHO)]).await;
    let (client, base) = (daemon.client(), "/api/v1/automations/echo/payloads");
    let body = json!({"name": "first", "payload": {"method": "GET", "body": "text"}});
    client.post::<Value>(base, &body).await.unwrap();
    let listed: Value = client.get(base).await.unwrap();
    let first = &listed["payloads"][0];
    assert_eq!(
        (&first["kind"], &first["method"], &first["contentType"]),
        (&json!("webhook"), &json!("GET"), &json!("text/plain; charset=utf-8"))
    );
    assert!(first["savedAt"].as_str().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok()), "{first}");
    let read = daemon.api("GET", &format!("{base}/first"), "", "").await;
    let etag = read.header("etag").unwrap().to_owned();
    let fields = format!("content-type: application/json\r\nif-match: {etag}\r\n");
    let put = daemon.api("PUT", &format!("{base}/first"), &fields, "{}").await;
    assert_eq!(put.status, 200, "{put:?}");
    let late = daemon.api("PUT", &format!("{base}/first"), &fields, "{}").await;
    assert_eq!((late.status, late.code().as_str()), (412, "payload_changed"));
    let renamed: Value =
        client.post(&format!("{base}/first/rename"), &json!({"to": "preview"})).await.unwrap();
    assert_eq!(renamed["path"], "payloads/echo/preview.json");
    assert_eq!(client.get::<Value>(&format!("{base}/preview")).await.unwrap()["kind"], "webhook");
    let bad = client.post(&format!("{base}/preview/rename"), &json!({"to": "../x"})).await;
    assert_eq!(refused(bad).1, "bad_name");
}

#[tokio::test]
async fn a_preview_shows_results_and_all_problems_and_starts_nothing() {
    let schema = "trigger:
  if: trigger.results.body.data.n > 1
  webhook: {verify: none, methods: [POST], schema: {type: object, required: [n]}}
steps: [{set: {a: 1}}]
";
    let daemon = daemon(&[("strict", schema)]).await;
    let path = "/api/v1/automations/strict/preview-payload";
    let show = async |body: Value| daemon.client().post::<Value>(path, &body).await.unwrap();
    let codes = |found: &Value| -> Vec<String> {
        let problems = found["problems"].as_array().unwrap().iter();
        problems.map(|one| one["code"].as_str().unwrap().to_owned()).collect()
    };
    let good = show(json!({"payload": {"path": "a/b", "query": {"x": "1"}, "body": {"n": 2}}})).await;
    assert_eq!((codes(&good), &good["condition"]), (vec![], &json!(true)));
    assert_eq!(good["results"]["body"]["data"], json!({"n": 2}));
    assert_eq!(good["results"]["pathFragment"], "a/b");
    let other = show(json!({"payload": {"body": {"m": 1}}})).await;
    assert_eq!(codes(&other), ["schema_mismatch", "condition_failed"], "{other}");
    let json = json!({"payload": {"headers": {"content-type": "application/json"}, "body": "{"}});
    assert_eq!(codes(&show(json).await), ["bad_json"]);
    let shape = show(json!({"payload": {"method": "DELETE", "boddy": 1, "path": 7}})).await;
    assert_eq!(codes(&shape), ["bad_payload"; 3], "{shape}");
    assert!(shape.get("results").is_none());
    daemon
        .client()
        .put::<Value>("/api/v1/automations/strict/payloads/low", &json!({"body": {"n": 1}}))
        .await
        .unwrap();
    assert_eq!(show(json!({"saved": "low"})).await["condition"], false);
    assert_eq!(refused(daemon.client().post(path, &json!({})).await).1, "bad_body");
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn a_capture_shows_its_verdict_results_and_response() {
    let daemon = daemon(&[("echo", crate::support::ECHO)]).await;
    let base = "/api/v1/automations/echo";
    let test =
        |found: &Value| found["testUrl"].as_str().unwrap().split_once("/trigger/").unwrap().1.to_owned();
    let begun: Value = daemon.client().post(&format!("{base}/listen"), &json!({})).await.unwrap();
    let send = async |token: String, body: &str| {
        let fields = "content-type: application/json\r\nauthorization: Bearer x\r\n";
        daemon.hook("POST", &format!("/trigger/{token}/a?x=1"), fields, body.as_bytes()).await.status
    };
    assert_eq!(send(test(&begun), r#"{"n": 1}"#).await, 200);
    assert_eq!(send(test(&begun), "{").await, 400);
    let found: Value = daemon.client().get(&format!("{base}/listen")).await.unwrap();
    let [good, bad] = found["captures"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!((&good["verdict"], &good["bytes"]), (&json!("accepted"), &json!(8)));
    assert_eq!(good["results"]["body"]["data"], json!({"n": 1}));
    assert_eq!(good["answer"]["status"], 200);
    assert_eq!(good["answer"]["body"]["data"], r#"{"captured":true}"#);
    assert_eq!((&bad["verdict"], &bad["refused"]), (&json!("refused"), &json!("bad_json")));
    assert_eq!((&bad["answer"]["status"], bad.get("results")), (&json!(400), None));
    let rotated: Value =
        daemon.client().post(&format!("{base}/rotate-token"), &json!({"address": "test"})).await.unwrap();
    assert_eq!(send(test(&begun), "{}").await, 404, "the previous address leads nowhere");
    assert_eq!(send(test(&rotated), "{}").await, 200);
}

#[tokio::test]
async fn an_execution_is_addressed_by_an_unambiguous_id_prefix() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let found = run(&daemon, "m", "?wait=true", json!({"inputs": {"name": "Ada"}})).await.unwrap();
        ids.push(found["executionId"].as_str().unwrap().to_owned());
    }
    let same = ids[0].bytes().zip(ids[1].bytes()).take_while(|(one, other)| one == other).count();
    let show = |id: &str| {
        let (client, path) = (daemon.client(), format!("/api/v1/executions/{id}"));
        async move { client.get::<Value>(&path).await }
    };
    let found = show(&ids[1][..=same]).await.unwrap();
    assert_eq!(found["id"].as_str(), Some(ids[1].as_str()));
    let (status, code, detail) = refused(show(&ids[0][..same.min(4)]).await);
    assert_eq!((status, code.as_str()), (409, "ambiguous_id"));
    assert!(ids.iter().all(|id| detail.contains(id)), "{detail}");
    assert_eq!(refused(show("ffff").await).0, 404);
    assert_eq!(refused(show("first").await).0, 404);
}

#[tokio::test]
async fn files_of_another_folder_are_planned_and_not_deployed() {
    let daemon = daemon(&[("m", MANUAL), ("a", ASYNC)]).await;
    let files = json!({"files": [
        {"path": "automations/m.yaml", "text": MANUAL.replace("id: out", "id: last")},
        {"path": "automations/b.yaml", "problem": "the file cannot be read: no rights"},
    ]});
    let planned: Value = daemon.client().post("/api/v1/plan", &files).await.unwrap();
    let effects: Vec<_> =
        planned["changes"].as_array().unwrap().iter().map(|one| (&one["id"], &one["effect"])).collect();
    assert_eq!(
        effects,
        [(&json!("a"), &json!("removed")), (&json!("b"), &json!("broken")), (&json!("m"), &json!("changed"))]
    );
    assert!(planned["rendered"].as_str().unwrap().contains("no rights"), "{planned}");
    let outside = json!({"files": [{"path": "automations/../x.yaml", "text": ""}]});
    assert_eq!(refused(daemon.client().post("/api/v1/plan", &outside).await).1, "bad_input");
    assert_eq!(daemon.client().get::<Value>("/api/v1/plan").await.unwrap()["changes"], json!([]));
}

#[tokio::test]
async fn a_plan_and_an_import_take_bodies_up_to_their_documented_size() {
    let daemon = daemon(&[]).await;
    let text = format!("{MANUAL}# {}\n", "x".repeat(400_000));
    let files = |count: u32| {
        let file = |index| json!({"path": format!("automations/m{index}.yaml"), "text": text});
        json!({"files": (0..count).map(file).collect::<Vec<_>>()})
    };
    let planned: Value = daemon.client().post("/api/v1/plan", &files(60)).await.unwrap();
    assert_eq!(planned["changes"].as_array().map(Vec::len), Some(60));
    // The reason for a refusal comes through, though the daemon reads no more of the body.
    let (status, code, detail) = refused(daemon.client().post("/api/v1/plan", &files(90)).await);
    assert_eq!((status, code.as_str()), (413, "payload_too_large"));
    assert!(detail.contains(&(32 << 20).to_string()), "{detail}");
    let lines = vec![b' '; 31 << 20];
    let imported = daemon.client().post_lines("/api/v1/executions/import", lines).await;
    assert_eq!(refused(imported).1, "bad_export");
    let lines = vec![b' '; 33 << 20];
    let imported = daemon.client().post_lines("/api/v1/executions/import", lines).await;
    assert_eq!(refused(imported).1, "payload_too_large");
}

#[tokio::test]
async fn a_recorded_payload_can_start_another_execution() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let payload = json!({"payload": {"kind": "manual", "inputs": {"name": "Eve"}}});
    let found = run(&daemon, "m", "?wait=true", payload).await.unwrap();
    assert_eq!(found["outcome"]["result"]["greeting"], "Hello Eve");
}

#[tokio::test]
async fn an_execution_is_shown_with_origin_payload_and_steps() {
    let daemon = daemon(&[("a", GATED)]).await;
    let gate = Gate::new().await;
    let body = json!({"url": gate.url()}).to_string();
    let fields = "content-type: application/json\r\nauthorization: Bearer canary\r\n";
    let path = daemon.path("a");
    let (answer, ()) = tokio::join!(daemon.hook("POST", &path, fields, body.as_bytes()), async {
        gate.arrival().await.let_through().await;
    });
    let id = answer.header("x-execution-id").unwrap().to_owned();
    let found: Value = daemon.client().get(&format!("/api/v1/executions/{id}")).await.unwrap();
    assert_eq!(
        (&found["id"], &found["status"], &found["automation"]),
        (&json!(id), &json!("succeeded"), &json!("a"))
    );
    assert_eq!(found["origin"], json!({"kind": "webhook"}));
    assert_eq!(found["payload"]["headers"]["authorization"], "***");
    assert_eq!(found["payload"]["body"]["data"], body);
    let step = &found["steps"][0];
    assert_eq!(
        (&step["step"], &step["status"], &step["attempts"]),
        (&json!("call"), &json!("succeeded"), &json!(1))
    );
    assert_eq!(step["result"]["statusCode"], 200);
    assert_eq!(found["outcome"]["result"]["body"], "open");
    assert!(!found.to_string().contains("canary"));
}

#[tokio::test]
async fn an_unknown_execution_is_404() {
    let daemon = daemon(&[]).await;
    for id in ["x", "0190a0a0-0000-7000-8000-000000000000"] {
        for (method, rest) in [("GET", ""), ("GET", "/logs"), ("GET", "/events"), ("POST", "/cancel")] {
            let answer = daemon.api(method, &format!("/api/v1/executions/{id}{rest}"), "", "").await;
            assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_execution"), "{id}{rest}");
        }
    }
}

#[tokio::test]
async fn executions_are_listed_newest_first_in_pages() {
    let daemon = daemon(&[("a", ASYNC), ("m", MANUAL)]).await;
    let mut started = Vec::new();
    for _ in 0..5 {
        let id = daemon.hook("POST", &daemon.path("a"), "", b"").await.execution();
        daemon.engine.runtime().wait(id).await.unwrap();
        started.push(id.to_string());
    }
    started.reverse();
    let (mut found, mut path) = (Vec::new(), "/api/v1/executions?automation=a&limit=2".to_owned());
    loop {
        let page: Value = daemon.client().get(&path).await.unwrap();
        found.push(page["executions"].as_array().unwrap().len());
        for execution in page["executions"].as_array().unwrap() {
            assert_eq!(execution["id"], started.remove(0));
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/executions?automation=a&limit=2&cursor={next}");
    }
    assert_eq!(found, [2, 2, 1]);
    let count = async |query: &str| {
        let page: Value = daemon.client().get(&format!("/api/v1/executions?{query}")).await.unwrap();
        page["executions"].as_array().unwrap().len()
    };
    assert_eq!(count("automation=m").await, 0);
    assert_eq!(count("status=succeeded,failed").await, 5);
    assert_eq!(count("status=failed").await, 0);
    assert_eq!(count("test=true").await, 0);
    assert_eq!(count("since=2020-01-01T00:00:00Z").await, 5);
    assert_eq!(count("until=2020-01-01T00:00:00Z").await, 0);
    for query in ["limit=0", "status=done", "cursor=x", "since=yesterday", "colour=red"] {
        let answer = daemon.api("GET", &format!("/api/v1/executions?{query}"), "", "").await;
        assert_eq!(answer.status, 400, "{query}");
    }
}

#[tokio::test]
async fn log_lines_are_read_in_order() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let found = run(&daemon, "m", "?wait=true", json!({"inputs": {"name": "Ada"}})).await.unwrap();
    let path = format!("/api/v1/executions/{}/logs", found["executionId"].as_str().unwrap());
    let logs: Value = daemon.client().get(&path).await.unwrap();
    let line = &logs["logs"][0];
    assert_eq!(
        (&line["message"], &line["level"], &line["step"]),
        (&json!("Hello Ada"), &json!("info"), &json!("greet"))
    );
    let after: Value = daemon.client().get(&format!("{path}?after=1&limit=1")).await.unwrap();
    assert_eq!(after, json!({"logs": []}));
}

#[tokio::test]
async fn an_execution_is_cancelled_once() {
    let daemon = daemon(&[("m", MANUAL_GATED)]).await;
    let gate = Gate::new().await;
    let started = run(&daemon, "m", "", json!({"inputs": {"url": gate.url()}})).await.unwrap();
    let id = started["executionId"].as_str().unwrap();
    let _visitor = gate.arrival().await;
    let path = format!("/api/v1/executions/{id}/cancel");
    let first: Value = daemon.client().post(&path, &json!({"reason": "not today"})).await.unwrap();
    assert_eq!(first, json!({"cancelled": true}));
    let outcome = daemon.engine.runtime().wait(id.parse().unwrap()).await.unwrap();
    assert_eq!(outcome.message(), Some("not today"));
    let second: Value = daemon.client().post(&path, &json!({})).await.unwrap();
    assert_eq!(second, json!({"cancelled": false}));
}

#[tokio::test]
async fn a_capture_with_a_large_body_is_listed_without_its_results() {
    let daemon = daemon(&[("echo", crate::support::ECHO)]).await;
    let base = "/api/v1/automations/echo";
    let begun: Value = daemon.client().post(&format!("{base}/listen"), &json!({})).await.unwrap();
    let address = begun["testUrl"].as_str().unwrap();
    let path = format!("/trigger/{}", address.split_once("/trigger/").unwrap().1);
    for bytes in [256 << 10, (256 << 10) + 1] {
        let body = format!("\"{}\"", "x".repeat(bytes - 2));
        let answer = daemon.hook("POST", &path, "content-type: application/json\r\n", body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let found: Value = daemon.client().get(&format!("{base}/listen")).await.unwrap();
    let has_results = |capture: &Value| capture.get("results").is_some_and(|results| !results.is_null());
    let captures = found["captures"].as_array().unwrap();
    assert_eq!(captures.iter().map(has_results).collect::<Vec<_>>(), [true, false]);
}
