//! The routes behind the page of one execution: versions, large values, turns, inputs, events, the caller's answer, the export.

use serde_json::{Value, json};

use crate::support::{ASYNC, Daemon, ECHO, daemon, write};

const LOOP: &str = "trigger: {manual: {}}
inputs: {items: {type: list, required: true}}
steps:
  - id: before
    set: {base: 10}
  - id: each
    forEach: inputs.items
    steps:
      - id: sum
        set: {total: \"${{ vars.base + item }}\", position: \"${{ index }}\"}
      - id: say
        action: log.info
        with: {message: \"${{ steps.sum.results.total }} of ${{ inputs.items | length }}\"}
  - id: after
    stop: {result: \"${{ inputs.items }}\"}
";

async fn get(daemon: &Daemon, path: &str) -> Value {
    daemon.client().get(path).await.unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Starts an automation, waits for its end, and returns the path of the execution.
async fn run(daemon: &Daemon, id: &str, body: &Value) -> String {
    let path = format!("/api/v1/automations/{id}/run?wait=true");
    let found: Value = daemon.client().post(&path, body).await.unwrap();
    format!("/api/v1/executions/{}", found["executionId"].as_str().unwrap())
}

#[tokio::test]
async fn an_execution_keeps_the_source_and_graph_of_its_version() {
    let first = "trigger: {manual: {}}\nsteps:\n  - {id: a, stop: {result: 1}}\n";
    let daemon = daemon(&[("m", first)]).await;
    let path = run(&daemon, "m", &json!({})).await;
    let second = "# a line more\ntrigger: {manual: {}}\nsteps:\n  - {id: a, stop: {result: 2}}\n";
    write(daemon.folder.path(), "automations/m.yaml", second);
    daemon.api("POST", "/api/v1/reload", "", "").await;
    let hash = get(&daemon, &path).await["definition"].as_str().unwrap().to_owned();
    let old = get(&daemon, &format!("/api/v1/definitions/{hash}")).await;
    assert_eq!((&old["source"], &old["inForce"]), (&json!(first), &json!(false)));
    let span = json!({"line": 3, "column": 5, "endLine": 3, "endColumn": 31});
    assert_eq!(old["graph"]["steps"][0]["span"], span);
    let versions = get(&daemon, "/api/v1/automations/m/versions").await["versions"].clone();
    let found: Vec<_> =
        versions.as_array().unwrap().iter().map(|one| (&one["inForce"], &one["executions"])).collect();
    assert_eq!(found, [(&json!(true), &json!(0)), (&json!(false), &json!(1))]);
    assert_eq!(
        get(&daemon, &format!("/api/v1/definitions/{}", versions[0]["hash"].as_str().unwrap())).await["source"],
        second
    );
    let unknown = daemon.api("GET", &format!("/api/v1/definitions/{}", "0".repeat(64)), "", "").await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_definition"));
}

#[tokio::test]
async fn a_large_payload_is_omitted_until_requested() {
    let daemon = daemon(&[("echo", ECHO)]).await;
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(5 << 20));
    let fields = "content-type: application/json\r\n";
    let answer = daemon.hook("POST", &daemon.path("echo"), fields, body.as_bytes()).await;
    let id = answer.header("x-execution-id").unwrap_or_else(|| panic!("{}", answer.head)).to_owned();
    let path = format!("/api/v1/executions/{id}");
    let cut = daemon.api("GET", &format!("{path}?large=cut"), "", "").await;
    assert!(cut.body.len() < 200 << 10, "{} bytes", cut.body.len());
    let large = cut.json()["payload"]["body"]["$large"].clone();
    assert_eq!(large["contentType"], "application/json");
    let at = large["at"].as_str().unwrap_or_else(|| panic!("{}", cut.json()["payload"])).to_owned();
    let slice = get(&daemon, &format!("{path}/values?at={at}&from=0&to=9")).await;
    assert_eq!((&slice["type"], &slice["value"]["data"]), (&json!("file"), &json!("{\"text\":\"")));
    let whole = get(&daemon, &format!("{path}/values?at={at}")).await;
    assert_eq!(whole["value"]["data"].as_str().map(str::len), Some(body.len()));
    // Without the parameter nothing is left out.
    assert!(daemon.api("GET", &path, "", "").await.body.len() > 5 << 20);
    let events = daemon.api("GET", &format!("{path}/events?limit=100"), "", "").await;
    assert!(events.body.len() < 200 << 10, "{} bytes", events.body.len());
    let nothing = daemon.api("GET", &format!("{path}/values?at=/payload/nothing"), "", "").await;
    assert_eq!((nothing.status, nothing.code().as_str()), (404, "unknown_value"));
}

#[tokio::test]
async fn loop_iterations_are_paginated() {
    let daemon = daemon(&[("loop", LOOP)]).await;
    let items: Vec<i32> = (0..300).collect();
    let path = run(&daemon, "loop", &json!({"inputs": {"items": items}})).await;
    let cut = get(&daemon, &format!("{path}?large=cut")).await;
    assert_eq!(cut["turns"][0]["count"], 300);
    assert_eq!(cut["steps"].as_array().map(Vec::len), Some(2 * 20 + 3));
    let page = get(&daemon, &format!("{path}/turns?step=sum&from=290&limit=5")).await;
    assert_eq!((&page["total"], &page["next"]), (&json!(300), &json!(295)));
    assert_eq!(page["steps"][0]["step"], "sum[290]");
    assert_eq!(get(&daemon, &path).await["steps"].as_array().map(Vec::len), Some(603));
}

#[tokio::test]
async fn the_input_of_a_step_is_reevaluated_in_its_iteration() {
    let daemon = daemon(&[("loop", LOOP)]).await;
    let path = run(&daemon, "loop", &json!({"inputs": {"items": [1, 2, 3]}})).await;
    let input = async |step: &str| get(&daemon, &format!("{path}/input?step={step}")).await;
    let said = input("say[1]").await;
    assert_eq!((&said["input"]["message"], &said["derived"]), (&json!("12 of 3"), &json!(true)), "{said}");
    assert_eq!(input("sum[2]").await["input"], json!({"total": 13, "position": 2}));
    assert_eq!(input("each").await["input"], json!({"forEach": [1, 2, 3]}));
    let nothing = input("nothing").await;
    assert_eq!((&nothing["input"], &nothing["missing"][0]["source"]), (&Value::Null, &json!("notStarted")));
}

#[tokio::test]
async fn secrets_are_masked_in_the_input_of_a_step() {
    let text = "trigger: {manual: {}}
configVars:
  key: {value: \"${{ secrets.apiKey }}\", secret: true}
steps:
  - id: say
    action: log.info
    with: {message: \"the key is ${{ configVars.key }}\"}
";
    let daemon = daemon(&[("m", text)]).await;
    daemon
        .api(
            "PUT",
            "/api/v1/secrets/apiKey",
            "content-type: application/json\r\n",
            "{\"value\":\"open-sesame-7\"}",
        )
        .await;
    let path = run(&daemon, "m", &json!({})).await;
    let said = get(&daemon, &format!("{path}/input?step=say")).await;
    assert_eq!(said["input"]["message"], "the key is ***", "{said}");
    let sources: Vec<_> = said["missing"].as_array().unwrap().iter().map(|one| &one["source"]).collect();
    assert_eq!(sources, ["configVars", "secrets"]);
    let export = daemon.api("GET", &format!("{path}/export?format=json"), "", "").await.body;
    assert!(!export.contains("open-sesame"));
}

#[tokio::test]
async fn events_are_returned_as_a_json_page_on_request() {
    let daemon = daemon(&[("loop", LOOP)]).await;
    let path = run(&daemon, "loop", &json!({"inputs": {"items": [1]}})).await;
    let page = get(&daemon, &format!("{path}/events?after=1&limit=2")).await;
    let total = page["total"].as_u64().unwrap();
    assert_eq!((page["events"].as_array().map(Vec::len), &page["next"]), (Some(2), &json!(3)));
    assert_eq!(
        (&page["events"][0]["index"], &page["events"][0]["event"]),
        (&json!(1), &json!("stepFinished"))
    );
    let rest = get(&daemon, &format!("{path}/events?after=3")).await;
    assert_eq!(
        (rest["events"].as_array().map(Vec::len), &rest["next"]),
        (usize::try_from(total - 3).ok(), &Value::Null)
    );
    let accepted = daemon.api("GET", &format!("{path}/events"), "accept: application/json\r\n", "").await;
    assert_eq!(accepted.json()["events"][0]["event"], "started");
    let stream = daemon.api("GET", &format!("{path}/events"), "", "").await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
}

#[tokio::test]
async fn the_recorded_response_is_the_one_the_caller_received() {
    let daemon = daemon(&[("async", ASYNC), ("echo", ECHO)]).await;
    for (id, by) in [("async", "accepted"), ("echo", "result")] {
        let answer = daemon.hook("POST", &daemon.path(id), "content-type: application/json\r\n", b"{}").await;
        let execution = answer.header("x-execution-id").unwrap().parse().unwrap();
        daemon.engine.runtime().wait(execution).await.unwrap();
        let found = get(&daemon, &format!("/api/v1/executions/{execution}")).await["caller"].clone();
        assert_eq!((&found["state"], &found["answer"]["by"]), (&json!("answered"), &json!(by)));
        assert_eq!(found["answer"]["status"], answer.status);
        assert_eq!(found["answer"]["body"]["data"], answer.body.as_str());
    }
    let path = run(&daemon, "echo", &json!({"payload": {"body": {}}})).await;
    assert!(get(&daemon, &path).await["caller"].is_null(), "nobody called");
}

#[tokio::test]
async fn a_slice_of_a_response_contains_large_values_in_full() {
    let daemon = daemon(&[("echo", ECHO)]).await;
    let body = json!({"a": "x".repeat(6000), "b": (0..3000).collect::<Vec<u32>>()}).to_string();
    let fields = "content-type: application/json\r\n";
    let answer = daemon.hook("POST", &daemon.path("echo"), fields, body.as_bytes()).await;
    let execution = answer.header("x-execution-id").unwrap();
    daemon.engine.runtime().wait(execution.parse().unwrap()).await.unwrap();
    let path = format!("/api/v1/executions/{execution}");
    let total = answer.body.chars().count();
    let (from, to) = (total - 9000, total - 8900);
    let slice = &answer.body[from..to];
    for (at, data) in [("/caller/answer/body", "/value/data"), ("/caller/answer/body/data", "/value")] {
        let found = get(&daemon, &format!("{path}/values?at={at}&from={from}&to={to}")).await;
        assert_eq!(found.pointer(data), Some(&json!(slice)), "{at}");
        assert_eq!(found["total"], total, "{at}");
    }
    let large =
        get(&daemon, &format!("{path}?large=cut")).await["caller"]["answer"]["body"]["$large"].clone();
    assert_eq!((&large["bytes"], &large["size"]), (&json!(total), &json!(total)));
}

#[tokio::test]
async fn an_export_is_one_static_page_with_escaped_text() {
    let daemon = daemon(&[("echo", ECHO)]).await;
    let hostile = "{\"a\":\"<script>alert(1)</script><img src=x onerror=alert(1)>\"}";
    let fields = "content-type: application/json\r\n";
    let answer = daemon.hook("POST", &daemon.path("echo"), fields, hostile.as_bytes()).await;
    let path = format!("/api/v1/executions/{}", answer.header("x-execution-id").unwrap());
    let page = daemon.api("GET", &format!("{path}/export"), "", "").await;
    assert!(page.header("content-disposition").is_some_and(|kind| kind.starts_with("attachment")));
    assert!(page.body.starts_with("<!DOCTYPE html>") && page.body.contains("Timeline"), "{}", page.body);
    assert!(
        page.body.contains("&lt;script&gt;") && !page.body.contains("<script") && !page.body.contains("<img")
    );
    let export = daemon.api("GET", &format!("{path}/export?format=json"), "", "").await.json();
    assert_eq!(
        (&export["definition"]["source"], &export["execution"]["status"]),
        (&json!(ECHO), &json!("succeeded"))
    );
}
