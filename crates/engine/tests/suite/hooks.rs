//! Requests to the address of a webhook and their responses.

use std::time::Duration;

use bytes::Bytes;
use engine::Engine;
use model::payload::HttpResponse;
use trigger::webhook::Request;

use crate::common::{Peer, Project, call, crash, end, rows, soon, stop, workers};

pub(crate) fn post(body: &str) -> Request {
    Request {
        method: "POST".to_owned(),
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: body.to_owned().into(),
        ..Request::default()
    }
}

pub(crate) fn tokens(engine: &Engine) -> (String, String) {
    let catalog = engine.catalog();
    let deployment = catalog.find("test").expect("it is in force");
    let address = deployment.mounted[0].address.as_ref().expect("it has an address");
    (address.live.clone(), address.test.clone())
}

pub(crate) fn text(response: &HttpResponse) -> String {
    format!("{} {}", response.status, String::from_utf8_lossy(&response.body.for_display()))
}

#[tokio::test]
async fn an_asynchronous_start_returns_only_the_execution_id() {
    let project = Project::with(
        "trigger: {webhook: {}}\nsteps:\n  - set: {got: \"${{ trigger.results.body.data.n }}\"}\n",
    );
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    assert_eq!(live.len(), 43, "256 bits as base64url");
    let answer = soon(engine.ingress().receive(&live, post(r#"{"n": 7}"#))).await;
    let id = answer.header("x-execution-id").expect("it names the execution").to_owned();
    assert_eq!(text(&answer), format!(r#"200 {{"executionId":"{id}"}}"#));
    let outcome = soon(engine.admission().wait(id.parse().expect("an id"))).await.expect("it ends");
    assert_eq!(crate::common::show(&outcome), r#"{"got":7}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_body_that_does_not_fit_the_schema_starts_nothing() {
    let yaml = "trigger: {webhook: {mode: sync, verify: none, schema: {type: object, required: [n], properties: {n: {type: integer}}}}}\nsteps:\n  - set: {got: \"${{ trigger.results.body.data.n }}\"}\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let (live, test) = tokens(&engine);
    assert_eq!(text(&soon(engine.ingress().receive(&live, post(r#"{"n": 7}"#))).await), r#"200 {"got":7}"#);
    for address in [&live, &test] {
        let answer = soon(engine.ingress().receive(address, post(r#"{"n": "7"}"#))).await;
        let expected = r#"400 {"error":"request body does not match its schema at `/n`: must be integer, found string","code":"schema_mismatch"}"#;
        assert_eq!(text(&answer), expected);
        assert_eq!(answer.header("x-execution-id"), None);
    }
    assert_eq!(rows(&engine).await.len(), 1, "only the valid request");
    stop(engine).await;
}

#[tokio::test]
async fn schema_validation_is_linear_for_recursive_schemas_and_has_a_budget() {
    let variant = |name: &str| {
        format!(
            "{{type: object, properties: {{type: {{const: {name}}}, children: {{items: {{$ref: '#/$defs/node'}}}}}}}}"
        )
    };
    let variants = ["a", "b", "c"].map(variant).join(", ");
    let yaml = format!(
        "trigger: {{webhook: {{mode: sync, verify: none, schema: {{$ref: '#/$defs/node', $defs: {{node: {{oneOf: [{variants}]}}}}}}}}}}\nsteps:\n  - set: {{got: 1}}\n"
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let deep = (0..25)
        .fold(r#"{"type":"z"}"#.to_owned(), |inner, _| format!(r#"{{"type":"a","children":[{inner}]}}"#));
    let answer = soon(engine.ingress().receive(&live, post(&deep))).await;
    let place = "/children/0".repeat(25);
    let expected = format!(
        r#"400 {{"error":"request body does not match its schema at `{place}/type`: value must be 'a'","code":"schema_mismatch"}}"#
    );
    assert_eq!(text(&answer), expected);
    stop(engine).await;

    let texts = |last: usize| format!("{}{last:03}", "x".repeat(1_000));
    let options: Vec<String> = (0..200).map(texts).collect();
    let yaml = format!(
        "trigger: {{webhook: {{verify: none, schema: {{items: {{enum: [{}]}}}}}}}}\nsteps:\n  - set: {{got: 1}}\n",
        options.join(", ")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let body = format!("[{}]", vec![format!("\"{}\"", texts(199)); 3_000].join(","));
    let answer = soon(engine.ingress().receive(&live, post(&body))).await;
    let answer = text(&answer);
    assert!(answer.starts_with("400 ") && answer.contains(r#""code":"schema_too_costly""#), "{answer}");
    assert_eq!(engine.status().refused.get("schema_too_costly"), Some(&1));
    stop(engine).await;
}

#[tokio::test]
async fn a_synchronous_start_is_answered_with_the_last_result_or_the_failure() {
    let yaml = "trigger: {webhook: {mode: sync}}\nsteps:\n  - set: {got: \"${{ trigger.results.body.data.n + 1 }}\"}\n";
    let project = Project::with(yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post(r#"{"n": 7}"#))).await;
    assert_eq!(text(&answer), r#"200 {"got":8}"#);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!(answer.status, 500);
    assert!(
        text(&answer).contains("executionId")
            && text(&answer).contains("`trigger.results.body.data.n` is missing")
    );
    stop(engine).await;
}

#[tokio::test]
async fn respond_answers_the_caller_and_later_steps_continue() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{webhook: {{mode: sync}}}}\nsteps:\n  - respond: {{status: 201, headers: {{x-page: \"7\"}}, json: {{ok: true}}}}\n{}",
        call("after", &peer.base, "/after")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!(text(&answer), r#"201 {"ok":true}"#);
    assert_eq!(answer.header("x-page"), Some("7"));
    let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    peer.next_request().await.answer(200, "1").await;
    soon(engine.admission().wait(id)).await.expect("it ends");
    stop(engine).await;
}

#[tokio::test]
async fn a_stop_with_respond_answers_the_caller_before_the_closing_steps_and_ends_the_execution() {
    let mut peer = Peer::new().await;
    let yaml = format!(
        "trigger: {{webhook: {{mode: sync}}}}\nfinally:\n{}steps:\n  - {{id: end, stop: {{result: early, respond: {{status: 400, json: {{error: short}}}}}}}}\n",
        call("last", &peer.base, "/last")
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let answer = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!(text(&answer), r#"400 {"error":"short"}"#);
    let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
    let held = peer.next_request().await;
    crash(engine).await;
    drop(held);
    let engine = project.start().await;
    peer.next_request().await.answer(200, "1").await;
    assert_eq!(end(&engine, id).await, "\"early\"", "after a restart it answers no second time");
    stop(engine).await;
}

#[tokio::test]
async fn a_synchronous_caller_gets_504_after_its_timeout_and_the_execution_continues() {
    for (timeout, seconds) in [("", 30), (", timeout: 10s", 10)] {
        let mut peer = Peer::new().await;
        let steps = call("a", &peer.base, "/a");
        let project =
            Project::with(&format!("trigger: {{webhook: {{mode: sync{timeout}}}}}\nsteps:\n{steps}"));
        let engine = project.start().await;
        let (live, _) = tokens(&engine);
        let time = Duration::from_secs(seconds);
        let due = engine.clock().now() + time;
        let waiting = tokio::spawn({
            let engine = engine.clone();
            async move { engine.ingress().receive(&live, post("{}")).await }
        });
        let held = peer.next_request().await;
        soon(project.clock.somebody_sleeps_until(due)).await;
        project.clock.advance(time);
        let answer = soon(waiting).await.expect("it answers");
        assert_eq!(answer.status, 504);
        let id = answer.header("x-execution-id").expect("it names the execution").parse().expect("an id");
        held.answer(200, "1").await;
        let outcome = soon(engine.admission().wait(id)).await.expect("it ends");
        assert!(matches!(outcome, model::Outcome::Succeeded { .. }));
        stop(engine).await;
    }
}

#[tokio::test]
async fn a_refused_request_starts_nothing_and_gets_the_reason() {
    let project = Project::with("trigger: {webhook: {methods: [POST], maxBody: 1KiB}}\nsteps: []\n");
    project.write("automations/off.yaml", "enabled: false\ntrigger: {webhook: {}}\nsteps: []\n");
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let off = engine.catalog().find("off").expect("in force").mounted[0].address.clone().expect("an address");
    let large = "x".repeat(2000);
    for (token, request, expected) in [
        ("nobody", post("{}"), "404 unknown_trigger"),
        (off.live.as_str(), post("{}"), "404 automation_disabled"),
        (live.as_str(), post("{"), "400 bad_json"),
        (live.as_str(), post(&large), "413 payload_too_large"),
        (live.as_str(), Request { method: "PUT".to_owned(), ..post("{}") }, "405 method_not_allowed"),
    ] {
        let answer = soon(engine.ingress().receive(token, request)).await;
        let code = expected.split(' ').next_back().expect("a code");
        assert!(
            text(&answer).starts_with(&expected[..3]) && text(&answer).contains(code),
            "{expected}: {}",
            text(&answer)
        );
    }
    assert!(rows(&engine).await.is_empty(), "nothing was started");
    assert_eq!(
        soon(engine.ingress().receive(&live, Request { method: "HEAD".to_owned(), ..post("") })).await.status,
        200
    );
    // The test address answers although the automation is disabled, and marks its executions.
    let answer = soon(engine.ingress().receive(&off.test, post("{}"))).await;
    assert_eq!(answer.status, 200);
    let id = answer.header("x-execution-id").expect("named").parse().expect("an id");
    assert!(engine.store().execution(id).await.expect("read").expect("exists").origin.is_test());
    stop(engine).await;
}

#[tokio::test]
async fn a_false_trigger_condition_starts_nothing_and_is_counted() {
    let project =
        Project::with("trigger:\n  webhook: {}\n  if: trigger.results.body.data.n > 1\nsteps: []\n");
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    assert!(
        soon(engine.ingress().receive(&live, post(r#"{"n": 1}"#))).await.header("x-execution-id").is_none()
    );
    assert!(
        soon(engine.ingress().receive(&live, post(r#"{"n": 2}"#))).await.header("x-execution-id").is_some()
    );
    assert_eq!(engine.status().refused.get("filtered"), Some(&1));
    stop(engine).await;
}

#[tokio::test]
async fn a_caller_over_the_limits_is_refused_before_acceptance() {
    let mut peer = Peer::new().await;
    let steps = call("a", &peer.base, "/a");
    let mut project = Project::with(&format!("trigger: {{webhook: {{}}}}\nsteps:\n{steps}"));
    project.write("automations/sync.yaml", &format!("trigger: {{webhook: {{mode: sync}}}}\nsteps:\n{steps}"));
    project.settings.limits.in_flight = 1;
    project.settings.limits.queue = 1;
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let sync = engine.catalog().find("sync").expect("in force").mounted[0]
        .address
        .clone()
        .expect("an address")
        .live
        .clone();
    let first = soon(engine.ingress().receive(&live, post("{}"))).await;
    assert_eq!(first.status, 200);
    let held = peer.next_request().await;
    let answer = soon(engine.ingress().receive(&sync, post("{}"))).await;
    assert_eq!(answer.status, 429);
    assert!(answer.header("retry-after").is_some());
    // The queue has room for one. The dispatcher may have taken it already, so a second may fit too.
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(soon(engine.ingress().receive(&live, post("{}"))).await.status);
    }
    assert_eq!(statuses[0], 200);
    assert_eq!(statuses[2], 503);
    held.answer(200, "1").await;
    for _ in 0..statuses.iter().filter(|status| **status == 200).count() {
        peer.next_request().await.answer(200, "1").await;
    }
    stop(engine).await;
}

#[tokio::test]
async fn an_empty_password_authenticates_nobody() {
    let project = Project::with(
        "trigger: {webhook: {mode: sync, verify: {preset: basic, user: u, password: '${{ secrets.pw }}'}}}\nsteps: [{set: {a: 1}}]\n",
    );
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    let engine = project.start().await;
    let catalog = engine.catalog();
    let address =
        catalog.find("test").expect("it is in force").mounted[0].address.clone().expect("it has one");
    let live = &address.live;
    let with = |credentials: &str| {
        let mut request = post("{}");
        request.headers.push(("authorization".to_owned(), format!("Basic {credentials}").into_bytes()));
        request
    };
    for empty in ["", "\n"] {
        project.write("secrets/pw", empty);
        // `u:` and `:`.
        for credentials in ["dTo=", "Og=="] {
            assert_eq!(engine.ingress().receive(live, with(credentials)).await.status, 401, "{credentials}");
        }
    }
    project.write("secrets/pw", "p");
    assert_eq!(engine.ingress().receive(live, with("dTpw")).await.status, 200, "`u:p`");
    stop(engine).await;
}

#[tokio::test]
async fn the_signature_is_verified_on_both_addresses_before_the_body_is_parsed() {
    let project = Project::with(
        "trigger: {webhook: {mode: sync, verify: {secret: '${{ secrets.hook }}'}}}\nsteps: [{set: {a: 1}}]\n",
    );
    std::fs::create_dir(project.path("secrets")).expect("a folder");
    let engine = project.start().await;
    let catalog = engine.catalog();
    let address =
        catalog.find("test").expect("it is in force").mounted[0].address.clone().expect("it has one");
    let signed = |signature: &str| {
        let mut request = post("{\"a\": 1}");
        request.headers.push(("X-Hmac-Hash".to_owned(), signature.as_bytes().to_vec()));
        request
    };
    let right = signature("hook secret", "{\"a\": 1}");
    let answer = engine.ingress().receive(&address.live, signed(&right)).await;
    assert_eq!(answer.status, 401, "without its secret no request is accepted");
    project.write("secrets/hook", "hook secret\n");
    for token in [&address.live, &address.test] {
        let wrong = engine.ingress().receive(token, signed("00")).await;
        assert_eq!(wrong.status, 401);
        let mut broken = signed("00");
        broken.body = "{".into();
        assert_eq!(
            engine.ingress().receive(token, broken).await.status,
            401,
            "the body is not parsed before"
        );
        assert_eq!(engine.ingress().receive(token, signed(&right)).await.status, 200);
    }
    assert_eq!(engine.ingress().receive(&address.live, post("{\"a\": 1}")).await.status, 401);
    assert_eq!(rows(&engine).await.len(), 2, "refused requests leave no trace");
    let id = engine.catalog().find("test").expect("in force").automation.id.clone();
    let used: Vec<_> = engine.ingress().keys_used(&id.clone().into()).into_iter().collect();
    assert_eq!(used, [(0, engine.clock().now())], "the key that verified is recorded");
    stop(engine).await;
}

/// The HMAC-SHA-256 of a text in hex.
pub(crate) fn signature(key: &str, text: &str) -> String {
    use hmac::{KeyInit as _, Mac as _};
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(key.as_bytes()).expect("a key");
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

#[test]
fn only_near_misses_of_saved_payload_fields_are_reported() {
    let project = Project::new();
    std::fs::create_dir_all(project.path("payloads/test")).expect("a folder");
    let saved: model::Payload = {
        let body = value::File {
            content_type: "application/json".into(),
            filename: None,
            data: Bytes::from_static(br#"{"orderId": 7, "lines": [{"sku": "a"}]}"#).into(),
        };
        model::Payload::Webhook(model::payload::WebhookPayload {
            method: "POST".to_owned(),
            path_fragment: String::new(),
            query_parameters: value::Map::new(),
            raw_query: String::new(),
            headers: std::collections::BTreeMap::new(),
            body,
            code_result: None,
        })
    };
    project.write("payloads/test/first.json", &serde_json::to_string(&saved).expect("JSON"));
    let told = |expression: &str| {
        project.write(
            "automations/test.yaml",
            &format!("trigger: {{webhook: {{verify: none}}}}\nsteps:\n  - set: {{_x: \"${{{{ {expression} }}}}\"}}\n"),
        );
        let checked = authoring::check_project(project.dir.path(), &[]).expect("checked");
        let entries: Vec<_> = checked.reports.iter().flat_map(|report| report.entries()).collect();
        entries
            .iter()
            .map(|entry| format!("{} {:?}", entry.code, entry.nearest))
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(told("trigger.results.body.data.orderId"), "");
    assert_eq!(told("trigger.results.body.data.note | default('')"), "", "a body may have further fields");
    assert_eq!(told("trigger.results.body.data.orderid"), r#"unknown-field Some("orderId")"#);
    assert_eq!(told("trigger.results.body.data.lines[0].skuu"), r#"unknown-field Some("sku")"#);
}

#[tokio::test]
async fn credentials_in_headers_and_in_the_query_are_masked_by_their_names() {
    let project = Project::with(
        "trigger:\n  if: \"${{ trigger.results.queryParameters.token == 'raw-1' }}\"\n  webhook: {mode: sync, verify: none}\n\
         steps:\n  - set: {query: \"${{ trigger.results.queryParameters }}\", raw: \"${{ trigger.results.rawQuery }}\", \
         headers: \"${{ trigger.results.headers }}\"}\n",
    );
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    let mut request = post("{}");
    request.raw_query = "page=1&token=raw-1&api_key=raw-2&api_key=raw-3&issueKey=A-1".to_owned();
    for (name, value) in [
        ("X-Auth", "raw-4"),
        ("ApiKey", "raw-5"),
        ("Php-Auth-Pw", "raw-6"),
        ("X-Session-Id", "raw-7"),
        ("Ocp-Apim-Subscription-Key", "raw-8"),
        ("X-Amz-Credential", "raw-9"),
        ("X-Password", "raw-0"),
        ("Idempotency-Key", "kept-1"),
        ("X-Event-Key", "kept-2"),
        ("X-Request-Id", "kept-3"),
    ] {
        request.headers.push((name.to_owned(), value.as_bytes().to_vec()));
    }
    let answer = soon(engine.ingress().receive(&live, request)).await;
    assert_eq!(answer.status, 200, "the trigger's `if` reads the query as it came");
    let told: serde_json::Value = serde_json::from_slice(&answer.body.for_display()).expect("JSON");
    let query =
        serde_json::json!({"page": "1", "token": "***", "api_key": ["***", "***"], "issueKey": "A-1"});
    assert_eq!(told["query"], query);
    assert_eq!(told["raw"], "page=1&token=***&api_key=***&api_key=***&issueKey=A-1");
    assert_eq!(told["headers"]["x-auth"], "***");
    assert_eq!(told["headers"]["idempotency-key"], "kept-1");
    assert_eq!(told["headers"]["x-event-key"], "kept-2");
    let id = answer.header("x-execution-id").expect("named").parse().expect("an id");
    let events = engine.store().events(id).await.expect("events").expect("it exists");
    assert!(!format!("{events:?} {told}").contains("raw-"), "{events:?}");
    stop(engine).await;
}

#[tokio::test]
async fn trigger_code_of_a_synchronous_webhook_decides_if_steps_run() {
    workers();
    let code = "export default (context, { body: { data } }) => ({\n        payload: { body: { data: { n: data.n + 1 } } },\n        response: { statusCode: 401, contentType: 'text/plain', body: 'no' },\n        run: data.n > 0,\n      });\n";
    let yaml = format!(
        "trigger:\n  webhook:\n    mode: sync\n    verify: none\n    code: |\n      {code}steps:\n  - set: {{got: \"${{{{ trigger.results.body.data.n }}}}\"}}\n"
    );
    let project = Project::with(&yaml);
    let engine = project.start().await;
    let (live, _) = tokens(&engine);
    assert_eq!(text(&soon(engine.ingress().receive(&live, post(r#"{"n": 0}"#))).await), "401 no");
    let answer = soon(engine.ingress().receive(&live, post(r#"{"n": 6}"#))).await;
    assert_eq!(text(&answer), r#"200 {"got":7}"#, "an accepted caller gets the result of the steps");
    let id = answer.header("x-execution-id").expect("named").parse().expect("an id");
    let lines = engine.store().logs(id, 0, 10).await.expect("read");
    assert!(lines.iter().any(|line| line.message.contains("is not sent")), "{lines:?}");
    stop(engine).await;
}
