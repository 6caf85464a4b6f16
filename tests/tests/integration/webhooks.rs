//! The webhook contract: the response of a caller and its time.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use tests::recorder::Recorder;

use crate::site::{Site, posts, send};

#[tokio::test]
async fn an_asynchronous_start_returns_only_the_execution_id_and_is_listed() {
    let hook = "trigger: {webhook: {}}\nsteps:\n  - set: {got: \"${{ trigger.results.body.data.n }}\"}\n";
    let site = Site::serving(&[("hook", hook)]).await;
    let answer = site.post("hook", &json!({"n": 9_007_199_254_740_993_i64})).await;
    let id = answer.execution();
    assert_eq!(answer.text, format!(r#"{{"executionId":"{id}"}}"#));
    assert_eq!(answer.header("content-type"), "application/json");
    let end = site.end_of(&id).await;
    assert_eq!(end["status"], json!("succeeded"));
    assert_eq!(end["outcome"]["result"], json!({"got": 9_007_199_254_740_993_i64}));

    let listed = site.cogwork(&["executions", "list", "--json"]).await;
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let row = &listed["executions"][0];
    assert_eq!(
        (&row["id"], &row["automation"], &row["status"]),
        (&json!(id), &json!("hook"), &json!("succeeded"))
    );
    let text = site.cogwork(&["executions", "list"]).await;
    assert!(String::from_utf8_lossy(&text.stdout).contains(&id));
}

#[tokio::test]
async fn an_asynchronous_caller_does_not_wait_for_the_steps() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/slow");
    let hook = format!("trigger: {{webhook: {{}}}}\nsteps:\n{}", posts(&recorder, &["slow"]));
    let site = Site::serving(&[("hook", &hook)]).await;
    let id = site.post("hook", &json!({})).await.execution();
    recorder.wait_for("/slow", 1).await.unwrap();
    let under_way = site.ask(&format!("/executions/{id}")).await;
    assert_eq!(under_way["outcome"], Value::Null, "{under_way}");
    recorder.release();
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
}

#[tokio::test]
async fn a_static_response_replaces_the_execution_id() {
    let hook = "
trigger:
  webhook: {methods: [POST], respond: {status: 202, contentType: text/xml, headers: {x-a: b}, body: <ok/>}}
steps: [{set: {a: 1}}]
";
    let site = Site::serving(&[("hook", hook)]).await;
    let answer = site.post("hook", &json!({})).await;
    assert_eq!((answer.status, answer.text.as_str()), (202, "<ok/>"));
    assert_eq!((answer.header("content-type"), answer.header("x-a")), ("text/xml", "b"));
    assert_eq!(site.end_of(answer.header("x-execution-id")).await["status"], json!("succeeded"));
}

#[tokio::test]
async fn a_synchronous_start_is_answered_with_the_last_result() {
    let json =
        "trigger: {webhook: {mode: sync}}\nsteps: [{set: {a: 1}}, {set: {b: \"${{ vars.a + 1 }}\"}}]\n";
    let text = "trigger: {webhook: {mode: sync}}\nsteps: [{set: {a: 1}}]\noutputs: plain ${{ vars.a }}\n";
    let file = "trigger: {webhook: {mode: sync}}\nsteps: []\noutputs: ${{ trigger.results.rawBody }}\n";
    let site = Site::serving(&[("json", json), ("text", text), ("file", file)]).await;
    let answer = site.post("json", &json!({})).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, r#"{"b":2}"#));
    assert_eq!(answer.header("content-type"), "application/json");
    let answer = site.post("text", &json!({})).await;
    assert_eq!(
        (answer.text.as_str(), answer.header("content-type")),
        ("plain 1", "text/plain; charset=utf-8")
    );
    let url = site.url("file").await;
    let sent = site.request(Method::PUT, &url).header("content-type", "image/png").body("\u{89}PNG");
    let answer = send(sent).await;
    assert_eq!((answer.text.as_str(), answer.header("content-type")), ("\u{89}PNG", "image/png"));
}

#[tokio::test]
async fn respond_answers_at_once_and_later_steps_continue() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/after");
    let hook = format!(
        "trigger: {{webhook: {{mode: sync}}}}\nsteps:\n  - set: {{id: 7}}\n  - respond:\n      status: 201\n      \
         headers: {{x-page: \"${{{{ vars.id }}}}\"}}\n      json: {{page: \"${{{{ vars.id }}}}\"}}\n{}",
        posts(&recorder, &["after"])
    );
    let site = Site::serving(&[("hook", &hook)]).await;
    let answer = site.post("hook", &json!({})).await;
    assert_eq!((answer.status, answer.json(), answer.header("x-page")), (201, json!({"page": 7}), "7"));
    recorder.wait_for("/after", 1).await.unwrap();
    recorder.release();
    let end = site.end_of(answer.header("x-execution-id")).await;
    assert_eq!((&end["status"], &end["response"]["status"]), (&json!("succeeded"), &json!(201)));
}

#[tokio::test]
async fn a_synchronous_caller_gets_504_and_the_execution_continues() {
    let recorder = Recorder::start().await.unwrap();
    recorder.hold("/slow");
    let hook =
        format!("trigger: {{webhook: {{mode: sync, timeout: 1s}}}}\nsteps:\n{}", posts(&recorder, &["slow"]));
    let site = Site::serving(&[("hook", &hook)]).await;
    let answer = site.post("hook", &json!({})).await;
    assert_eq!(answer.refusal(), (504, "timeout".to_owned()));
    recorder.release();
    let id = answer.json()["executionId"].as_str().unwrap().to_owned();
    assert_eq!(site.end_of(&id).await["status"], json!("succeeded"));
}

/// Specification 6.2: the parts of a request that an automation can read, over a real connection.
#[tokio::test]
async fn every_part_of_a_request_can_be_read() {
    let echo = "
trigger: {webhook: {mode: sync}}
steps: []
outputs:
  data: ${{ trigger.results.body.data }}
  raw: ${{ trigger.results.rawBody }}!
  header: ${{ trigger.results.headers['X-Kind'] | default('none') }}
  path: ${{ trigger.results.pathFragment }}
  query: ${{ trigger.results.queryParameters }}
  method: ${{ trigger.results.method }}
";
    let site = Site::serving(&[("echo", echo)]).await;
    let url = site.url("echo").await;
    let check = async |request: reqwest::RequestBuilder, expected: Value| {
        let found = send(request).await.json();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name}");
        }
    };
    let request = site.request(Method::POST, &format!("{url}/a/b%20c?x=1&y=2&x=3"));
    let expected = json!({"data": {"k": [1]}, "raw": r#"{"k": [1]}!"#, "header": "order", "path": "a/b c",
        "query": {"x": ["1", "3"], "y": "2"}, "method": "POST"});
    check(
        request.header("content-type", "application/json").header("x-kind", "order").body(r#"{"k": [1]}"#),
        expected,
    )
    .await;
    let xml = site.request(Method::PUT, &url).header("content-type", "application/xml").body("<a>1</a>");
    check(
        xml,
        json!({"data": "<a>1</a>", "raw": "<a>1</a>!", "header": "none", "path": "", "method": "PUT"}),
    )
    .await;
    let form = site.request(Method::POST, &url).form(&[("a", "1"), ("b", "x y")]);
    check(form, json!({"data": {"a": "1", "b": "x y"}})).await;
    check(site.request(Method::GET, &url), json!({"data": null, "query": {}})).await;

    let part = |text: &'static str, kind: &str| reqwest::multipart::Part::text(text).mime_str(kind).unwrap();
    let parts = reqwest::multipart::Form::new()
        .part("meta", part(r#"{"id": 5}"#, "application/json"))
        .part("picture", part("bytes", "image/png").file_name("p.png"));
    let found = send(site.request(Method::POST, &url).multipart(parts)).await.json();
    assert_eq!(found["data"]["meta"]["data"], json!({"id": 5}));
    assert_eq!(found["data"]["picture"]["filename"], json!("p.png"));
    assert_eq!(found["data"]["picture"]["contentType"], json!("image/png"));
}

#[tokio::test]
async fn the_test_address_starts_a_test() {
    let hook = "trigger: {webhook: {}}\nenabled: false\nsteps: []\n";
    let site = Site::serving(&[("hook", hook)]).await;
    let url = site.automation("hook").await["testUrl"].as_str().unwrap().to_owned();
    let answer = send(site.request(Method::POST, &url)).await;
    assert_eq!(site.end_of(&answer.execution()).await["origin"]["kind"], json!("test"));
}

#[tokio::test]
async fn head_options_and_disallowed_methods_start_nothing() {
    let hook = "trigger: {webhook: {methods: [POST, PUT]}}\nsteps: []\n";
    let site = Site::serving(&[("hook", hook)]).await;
    let url = site.url("hook").await;
    assert_eq!(send(site.request(Method::HEAD, &url)).await.status, 200);
    let options = send(site.request(Method::OPTIONS, &url)).await;
    assert_eq!((options.status, options.header("allow")), (204, "POST, PUT"));
    let get = send(site.request(Method::GET, &url)).await;
    assert_eq!((get.refusal(), get.header("allow")), ((405, "method_not_allowed".to_owned()), "POST, PUT"));
    let health = send(site.request(Method::GET, &format!("{}/healthz", site.daemon().hooks_url()))).await;
    assert_eq!(health.status, 200);
    assert_eq!(site.executions_of("hook").await.len(), 0);
}

#[tokio::test]
async fn concurrent_callers_each_get_their_own_execution() {
    let hook = "trigger: {webhook: {}}\nsteps: [{set: {n: \"${{ trigger.results.body.data.n }}\"}}]\n";
    let site = Site::serving(&[("hook", hook)]).await;
    let url = site.url("hook").await;
    let calls = (0..100).map(|n| send(site.request(Method::POST, &url).json(&json!({"n": n}))));
    let mut ids: Vec<String> =
        futures_util::future::join_all(calls).await.iter().map(|answer| answer.execution()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
    for id in &ids {
        assert_eq!(site.end_of(id).await["status"], json!("succeeded"));
    }
}
