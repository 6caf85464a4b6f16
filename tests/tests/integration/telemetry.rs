//! Traces and logs that a real daemon sends to a collector.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::json;
use tests::canary;
use tests::collector::{Collector, Received, ReceivedSpan};
use tests::daemon::cogwork;
use tests::recorder::Recorder;

use crate::site::{Site, post_step, send};

const HOOK: &str = "trigger: {webhook: {verify: none}}\nsteps:\n";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SENDER: &str = "00f067aa0ba902b7";

/// Returns the variables of a daemon that sends to `collector` over HTTP without delay.
fn over_http(collector: &Collector) -> [(&'static str, &str); 3] {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http()),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "1"),
    ]
}

/// Starts a site with these automations that sends to `collector`.
async fn traced(collector: &Collector, automations: &[(&str, &str)]) -> Site {
    let mut site = Site::new(automations);
    site.start_in(&over_http(collector)).await;
    site
}

/// Waits for the spans of an execution, and returns them.
async fn spans_of(collector: &Collector, execution: &str) -> Vec<ReceivedSpan> {
    let is_its = |span: &ReceivedSpan| span.attribute("cogwork.execution") == execution;
    let received = collector.wait_for(|received| received.spans.iter().any(is_its)).await;
    let spans = received.unwrap_or_else(|received| panic!("no span of {execution}: {received:#?}")).spans;
    let root = spans.iter().find(|span| is_its(span)).unwrap().clone();
    spans.into_iter().filter(|span| span.trace == root.trace).collect()
}

/// Returns the only span with this name, below `parent` if given.
#[track_caller]
fn one<'s>(spans: &'s [ReceivedSpan], name: &str, parent: Option<&ReceivedSpan>) -> &'s ReceivedSpan {
    let is_it =
        |span: &&ReceivedSpan| span.name == name && parent.is_none_or(|parent| span.parent == parent.id);
    let found: Vec<_> = spans.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "`{name}` in {spans:#?}");
    found[0]
}

/// Returns the id of the trace that belongs to an execution.
fn own_trace(execution: &str) -> String {
    execution.replace('-', "")
}

#[tokio::test]
async fn an_execution_its_steps_and_their_attempts_are_spans_of_the_trace_of_its_request() {
    let (collector, recorder) = (Collector::start().await.unwrap(), Recorder::start().await.unwrap());
    let orders = format!(
        "{HOOK}  - {{id: prepare, set: {{n: 1}}}}\n  - id: each\n    forEach: [7]\n    as: item\n    steps:\n      - id: flaky\n        action: http.request\n        with: {{url: \"{}/flaky?key=1\", method: PUT}}\n        retry: {{max: 2, delay: 1ms}}\n  - {{id: never, if: \"${{{{ false }}}}\", set: {{n: 2}}}}\n",
        recorder.url()
    );
    recorder.answer("/flaky?key=1", 503, 1);
    let site = traced(&collector, &[("orders", &orders)]).await;
    let request = site.request(Method::POST, &site.url("orders").await).json(&json!({}));
    let header = format!("00-{TRACE}-{SENDER}-01");
    let execution = send(request.header("traceparent", &header)).await.execution();
    assert_eq!(site.end_of(&execution).await["status"], json!("succeeded"));
    let spans = spans_of(&collector, &execution).await;

    let root = one(&spans, "orders", None);
    assert_eq!((root.trace.as_str(), root.parent.as_str()), (TRACE, SENDER));
    assert_eq!((root.kind.as_str(), root.is_error), ("Server", false));
    assert_eq!(root.attribute("cogwork.status"), "succeeded");
    assert_eq!(root.attribute("cogwork.origin"), "webhook");
    assert_eq!(root.resource.get("service.name").map(String::as_str), Some("cogwork"));

    let each = one(&spans, "each", Some(root));
    let flaky = one(&spans, "flaky", Some(each));
    assert_eq!(flaky.attribute("cogwork.step"), "flaky[0]");
    assert_eq!(flaky.attribute("cogwork.action"), "http.request");
    assert_eq!(one(&spans, "prepare", Some(root)).attribute("cogwork.verb"), "set");
    assert_eq!(one(&spans, "never", Some(root)).attribute("cogwork.status"), "skipped");

    let attempts: Vec<_> =
        spans.iter().filter(|span| span.name == "attempt" && span.parent == flaky.id).collect();
    let seen: Vec<_> = attempts
        .iter()
        .map(|span| {
            (span.attribute("cogwork.attempt"), span.is_error, span.attribute("http.response.status_code"))
        })
        .collect();
    assert_eq!(seen, [("1", true, "503"), ("2", false, "")]);
    assert_eq!(attempts[0].attribute("url.full"), format!("{}/flaky", recorder.url()));
    assert_eq!((attempts[0].kind.as_str(), attempts[0].attribute("http.request.method")), ("Client", "PUT"));
    assert!(spans.iter().all(|span| span.start <= span.end && root.start <= span.start), "{spans:#?}");

    let sent: Vec<_> = recorder.requests().into_iter().map(|request| request.traceparent.unwrap()).collect();
    let of_attempts: Vec<_> = attempts.iter().map(|span| format!("00-{TRACE}-{}-01", span.id)).collect();
    assert_eq!(sent, of_attempts, "each request names the span of its attempt");
}

#[tokio::test]
async fn a_failure_marks_the_spans_of_the_step_and_the_execution_as_errors() {
    let collector = Collector::start().await.unwrap();
    let site = traced(&collector, &[("bad", &format!("{HOOK}  - {{id: stop, fail: \"no stock\"}}\n"))]).await;
    let request = site.request(Method::POST, &site.url("bad").await).json(&json!({}));
    // Malformed, so it is ignored.
    let execution = send(request.header("traceparent", format!("00-{TRACE}-{SENDER}"))).await.execution();
    let spans = spans_of(&collector, &execution).await;
    let root = one(&spans, "bad", None);
    assert_eq!((root.trace.clone(), root.parent.as_str()), (own_trace(&execution), ""));
    for span in [root, one(&spans, "stop", Some(root))] {
        assert!(span.is_error && span.message.contains("no stock"), "{span:#?}");
        assert!(!span.attribute("error.type").is_empty());
    }
}

#[tokio::test]
async fn spans_and_logs_are_sent_over_grpc_with_headers_and_resource_from_variables() {
    let collector = Collector::start().await.unwrap();
    let mut site = Site::new(&[("hello", &format!("{HOOK}  - {{id: a, set: {{n: 1}}}}\n"))]);
    site.start_in(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.grpc()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=payments"),
        ("OTEL_SERVICE_NAME", "flows"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "1"),
    ])
    .await;
    let execution = site.post("hello", &json!({})).await.execution();
    let spans = spans_of(&collector, &execution).await;
    let resource = &one(&spans, "hello", None).resource;
    assert_eq!(resource.get("service.name").map(String::as_str), Some("flows"));
    assert_eq!(resource.get("deployment.environment.name").map(String::as_str), Some("staging"));
    let has_logs =
        |received: &Received| received.logs.iter().any(|log| log.body.contains("loaded the project"));
    let received = collector.wait_for(has_logs).await.unwrap();
    assert!(received.teams.iter().all(|team| team.as_deref() == Some("payments")), "{:?}", received.teams);
}

#[tokio::test]
async fn a_called_execution_has_its_own_trace_linked_with_its_caller() {
    let collector = Collector::start().await.unwrap();
    let child = "trigger: {manual: {}}\nsteps:\n  - {id: work, set: {n: 1}}\n";
    let caller = format!("{HOOK}  - {{id: sub, call: child}}\n");
    let site = traced(&collector, &[("child", child), ("caller", &caller)]).await;
    let execution = site.post("caller", &json!({})).await.execution();
    let spans = spans_of(&collector, &execution).await;
    let calling = one(&spans, "sub", None);
    let called = site.executions_of("child").await[0]["id"].as_str().unwrap().to_owned();
    let of_child = spans_of(&collector, &called).await;
    let root = one(&of_child, "child", None);
    assert_eq!(root.trace, own_trace(&called));
    assert_eq!(calling.links, [(root.trace.clone(), root.id.clone(), "call".to_owned())]);
    assert_eq!(root.links, [(calling.trace.clone(), calling.id.clone(), "call".to_owned())]);
}

#[tokio::test]
async fn a_step_that_received_an_event_is_linked_to_the_step_that_sent_it() {
    let collector = Collector::start().await.unwrap();
    let waits = format!("{HOOK}  - {{id: paid, waitFor: {{event: paid}}}}\n");
    let pays = format!("{HOOK}  - {{id: pay, action: events.emit, with: {{name: paid}}}}\n");
    let site = traced(&collector, &[("waits", &waits), ("pays", &pays)]).await;
    let waiting = site.post("waits", &json!({})).await.execution();
    let request = site.request(Method::POST, &site.url("pays").await).json(&json!({}));
    let paying = send(request.header("traceparent", format!("00-{TRACE}-{SENDER}-01"))).await.execution();
    let sent = spans_of(&collector, &paying).await;
    let sent = one(&sent, "pay", None);
    assert_eq!(sent.trace, TRACE);
    let spans = spans_of(&collector, &waiting).await;
    let waited = one(&spans, "paid", None);
    assert_eq!(waited.links, [(TRACE.to_owned(), sent.id.clone(), "event".to_owned())]);
    assert!(waited.events.contains(&"signalled".to_owned()), "{waited:#?}");
}

#[tokio::test]
async fn a_redirect_of_the_collector_is_not_followed_to_another_host() {
    let (collector, other) = (Collector::start().await.unwrap(), Collector::start().await.unwrap());
    collector.redirect(&format!("{}/v1/traces", other.http()));
    let mut site = traced(&collector, &[("work", &format!("{HOOK}  - {{set: {{n: 1}}}}\n"))]).await;
    let execution = site.post("work", &json!({})).await.execution();
    assert_eq!(site.end_of(&execution).await["status"], json!("succeeded"));
    // The daemon sends its remaining spans before it ends.
    assert!(site.stop().await.success());
    assert!(collector.requests() > 0);
    assert_eq!((other.requests(), other.received().spans.len()), (0, 0));
}

#[tokio::test]
async fn a_killed_execution_has_all_its_spans_and_links_across_the_restart() {
    let (collector, recorder) = (Collector::start().await.unwrap(), Recorder::start().await.unwrap());
    recorder.hold("/second");
    let work = format!("{HOOK}{}{}", post_step(&recorder, "first"), post_step(&recorder, "second"));
    let mut site = traced(&collector, &[("work", &work)]).await;
    let request = site.request(Method::POST, &site.url("work").await).json(&json!({}));
    let execution = send(request.header("traceparent", format!("00-{TRACE}-{SENDER}-01"))).await.execution();
    recorder.wait_for("/second", 1).await.unwrap();
    site.kill().await;
    recorder.release();
    site.start_in(&over_http(&collector)).await;
    assert_eq!(site.end_of(&execution).await["status"], json!("succeeded"));
    let spans = spans_of(&collector, &execution).await;

    let root = one(&spans, "work", None);
    assert_eq!((root.trace.as_str(), root.parent.as_str()), (TRACE, SENDER), "it is read from the log");
    one(&spans, "first", Some(root));
    let mut runs: Vec<_> = spans.iter().filter(|span| span.name == "run").collect();
    runs.sort_by_key(|run| run.start);
    assert_eq!(runs.iter().map(|run| run.is_error).collect::<Vec<_>>(), [true, false]);
    assert_eq!(runs[1].links, [(TRACE.to_owned(), runs[0].id.clone(), "restart".to_owned())]);

    let second = one(&spans, "second", Some(root));
    let attempts: Vec<_> = spans.iter().filter(|span| span.parent == second.id).collect();
    let last = attempts.iter().find(|attempt| !attempt.is_error).unwrap();
    let sent = recorder.requests_to("/second");
    let header = |span: &ReceivedSpan| Some(format!("00-{TRACE}-{}-01", span.id));
    assert_eq!(sent.last().unwrap().traceparent, header(last), "{attempts:#?}");
    // The start of the first attempt was not committed before its call, unless a later commit included it.
    for interrupted in attempts.iter().filter(|attempt| attempt.is_error) {
        assert_eq!(sent[0].traceparent, header(interrupted));
        assert_eq!(last.links, [(TRACE.to_owned(), interrupted.id.clone(), "restart".to_owned())]);
    }
}

#[tokio::test]
async fn log_lines_are_exported_with_their_trace_and_without_secrets() {
    let collector = Collector::start().await.unwrap();
    let log =
        "  - {id: note, action: log.warn, with: {message: \"stock of ${{ configVars.shelf }} is low\"}}\n";
    let vars = "configVars: {shelf: {value: \"${{ secrets.shelf }}\", secret: true}}\n";
    let mut site = Site::new(&[("stock", &format!("{vars}{HOOK}{log}"))]);
    let shelf = canary::secret("shelf");
    site.project.secret("shelf", &shelf).unwrap();
    site.start_in(&over_http(&collector)).await;
    let request = site.request(Method::POST, &site.url("stock").await).json(&json!({}));
    let execution = send(request.header("traceparent", format!("00-{TRACE}-{SENDER}-01"))).await.execution();
    let note = |received: &Received| received.logs.iter().find(|log| log.body.contains("is low")).cloned();
    let received = collector.wait_for(|received| note(received).is_some()).await.unwrap();
    let line = note(&received).unwrap();
    assert_eq!((line.body.as_str(), line.severity.as_str()), ("stock of *** is low", "WARN"));
    assert_eq!(line.attributes.get("cogwork.execution"), Some(&execution));
    let spans = spans_of(&collector, &execution).await;
    let step = one(&spans, "note", None);
    assert_eq!((line.trace, line.span), (TRACE.to_owned(), step.id.clone()));
    let all = format!("{:?}", collector.received());
    assert!(!all.contains(&*shelf), "{all}");
    let of_daemon = received.logs.iter().find(|log| log.body == "loaded the project").unwrap();
    assert_eq!(of_daemon.attributes.get("automations").map(String::as_str), Some("1"));
}

#[tokio::test]
async fn without_an_endpoint_no_connection_is_made_and_no_header_is_sent() {
    let (collector, recorder) = (Collector::start().await.unwrap(), Recorder::start().await.unwrap());
    let work = format!("{HOOK}{}", post_step(&recorder, "plain"));
    let own = format!(
        "{HOOK}  - action: http.request\n    with: {{url: \"{}/own\", method: POST, headers: {{traceparent: mine}}}}\n",
        recorder.url()
    );
    for variables in [
        vec![("OTEL_SERVICE_NAME", "x")],
        vec![("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http()), ("OTEL_SDK_DISABLED", "true")],
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http()),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_LOGS_EXPORTER", "none"),
        ],
    ] {
        let mut site = Site::new(&[("work", &work), ("own", &own)]);
        site.start_in(&variables).await;
        let execution = site.post("work", &json!({})).await.execution();
        site.end_of(&execution).await;
        assert!(site.stop().await.success());
    }
    assert_eq!(recorder.requests_to("/plain").len(), 3);
    assert!(recorder.requests_to("/plain").iter().all(|request| request.traceparent.is_none()));
    assert_eq!(collector.requests(), 0);

    // With an endpoint, a header set by the author is kept.
    let site = traced(&collector, &[("own", &own)]).await;
    let execution = site.post("own", &json!({})).await.execution();
    site.end_of(&execution).await;
    assert_eq!(recorder.requests_to("/own")[0].traceparent.as_deref(), Some("mine"));
}

#[tokio::test]
async fn a_stop_sends_the_remaining_spans() {
    let collector = Collector::start().await.unwrap();
    let mut site = Site::new(&[("hello", &format!("{HOOK}  - {{id: a, set: {{n: 1}}}}\n"))]);
    site.start_in(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http()),
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ])
    .await;
    let execution = site.post("hello", &json!({})).await.execution();
    site.end_of(&execution).await;
    assert_eq!(collector.requests(), 0, "the batch waits for others");
    assert!(site.stop().await.success());
    let spans = collector.received().spans;
    assert_eq!(one(&spans, "hello", None).attribute("cogwork.execution"), execution);
}

#[tokio::test]
async fn refused_exports_are_counted_and_delay_nothing() {
    let collector = Collector::start().await.unwrap();
    collector.answer(400);
    let site = traced(&collector, &[("hello", &format!("{HOOK}  - {{id: a, set: {{n: 1}}}}\n"))]).await;
    let execution = site.post("hello", &json!({})).await.execution();
    assert_eq!(site.end_of(&execution).await["status"], json!("succeeded"));
    site.daemon().wait_for_output("the OpenTelemetry collector does not accept").await.unwrap();
    let url = format!("{}/metrics", site.daemon().admin_url());
    let token = site.daemon().admin_token().unwrap();
    let dropped = async {
        loop {
            let text = send(site.request(Method::GET, &url).bearer_auth(&token)).await.text;
            let line = |item: &str| format!("cogwork_telemetry_dropped_total{{item=\"{item}\"}} ");
            let count = |item: &str| {
                let found = text.lines().find_map(|text| text.strip_prefix(&line(item)));
                found.unwrap_or_else(|| panic!("{text}")).parse::<u64>().unwrap()
            };
            if count("span") == 2 && count("log") > 0 {
                return text;
            }
        }
    };
    let text = tokio::time::timeout(crate::site::PATIENCE, dropped).await.unwrap();
    assert!(text.contains("cogwork_telemetry_sent_total{item=\"span\"} 0"), "{text}");
}

#[tokio::test]
async fn the_configured_sampler_decides_and_a_sender_cannot_overrule_it() {
    let (collector, recorder) = (Collector::start().await.unwrap(), Recorder::start().await.unwrap());
    let work = format!("{HOOK}{}", post_step(&recorder, "call"));
    let mut site = Site::new(&[("work", &work)]);
    let mut variables = over_http(&collector).to_vec();
    variables.push(("OTEL_TRACES_SAMPLER", "parentbased_always_off"));
    site.start_in(&variables).await;
    let request = site.request(Method::POST, &site.url("work").await).json(&json!({}));
    let execution = send(request.header("traceparent", format!("00-{TRACE}-{SENDER}-01"))).await.execution();
    site.end_of(&execution).await;
    let sent = recorder.requests()[0].traceparent.clone().unwrap();
    assert!(sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-00"), "{sent}");
    assert!(site.stop().await.success());
    assert_eq!(collector.received().spans, []);
}

#[tokio::test]
async fn an_invalid_otel_variable_fails_the_start_with_the_valid_values() {
    let site = Site::new(&[]);
    let output = cogwork(&site.project)
        .unwrap()
        .args(["serve", "--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .output()
        .await
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("use `http/protobuf` or `grpc`"), "{words}");
}

#[tokio::test]
async fn no_value_of_a_trigger_a_step_or_the_state_reaches_the_collector() {
    const VALUE: &str = "value-8843";
    let (collector, recorder) = (Collector::start().await.unwrap(), Recorder::start().await.unwrap());
    let url = recorder.url();
    let value = "${{ trigger.results.body.data.value }}";
    let take = format!(
        r#"trigger: {{webhook: {{mode: sync, verify: none}}}}
steps:
  - {{id: keep, action: state.set, with: {{key: kept, value: "{value}"}}}}
  - {{id: copy, set: {{copied: "{value}"}}}}
  - id: each
    forEach: "${{{{ [vars.copied] }}}}"
    steps: [{{id: turn, set: {{turned: "${{{{ item }}}}"}}}}]
  - {{id: ask, action: http.request, with: {{method: POST, url: "{url}/echo/ask?value={value}", headers: {{x-value: "{value}"}}, body: {{value: "{value}"}}}}}}
  - {{id: code, code: "export default (context, all) => ({{ data: all.copy.results }})"}}
  - {{id: child, call: child, with: {{text: "{value}"}}}}
  - {{id: emit, action: events.emit, with: {{name: noted, data: {{value: "{value}"}}}}}}
  - {{id: chosen, if: vars.copied == 'x', set: {{a: "{value}"}}}}
  - {{id: lost, action: http.request, onError: continue, with: {{method: POST, url: "http://127.0.0.1:1/", body: {{value: "{value}"}}}}}}
outputs: {{all: "{value}"}}
"#
    );
    let child = "trigger: {manual: {}}\ninputs: {text: {type: text}}\nsteps: [{id: inner, set: {got: \"${{ inputs.text }}\"}}]\n";
    let site = traced(&collector, &[("take", &take), ("child", child)]).await;
    let address = format!("{}/{VALUE}?value={VALUE}", site.url("take").await);
    let request =
        site.request(Method::POST, &address).header("x-value", VALUE).json(&json!({"value": VALUE}));
    let answer = send(request).await;
    assert!(answer.status == 200 && answer.text.contains(VALUE), "{}", answer.text);
    let execution = answer.header("x-execution-id").to_owned();
    let history = send(site.api(Method::GET, &format!("/executions/{execution}"))).await.text;
    assert!(history.contains(VALUE), "the history has them");
    let spans = spans_of(&collector, &execution).await;
    for step in ["keep", "copy", "turn", "ask", "code", "child", "emit", "chosen", "lost"] {
        one(&spans, step, None);
    }
    collector
        .wait_for(|received| received.spans.iter().any(|span| span.name == "inner"))
        .await
        .unwrap_or_else(|received| panic!("no span of the child: {received:#?}"));
    let all = format!("{:?}", collector.received());
    assert!(!all.contains(VALUE), "{all}");
}
