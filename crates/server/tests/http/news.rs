//! The routes behind lists: the shared stream, statistics, rejections, searches, and compressed or unchanged responses.

use serde_json::{Value, json};
use server::{Events, ServerEvent};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{ASYNC, Daemon, MANUAL, daemon, request, until, write};

const FAILING: &str = "trigger:\n  manual: {}\nsteps:\n  - id: broken\n    fail: Out of paper\n";
const CHECKED: &str =
    "trigger:\n  webhook: {}\n  if: trigger.results.body.data.ok\nsteps:\n  - stop:\n      result: 1\n";

async fn run(daemon: &Daemon, id: &str, inputs: Value) -> String {
    let body = json!({ "inputs": inputs });
    let path = format!("/api/v1/automations/{id}/run?wait=true");
    let started: Value = daemon.client().post(&path, &body).await.unwrap();
    started["executionId"].as_str().unwrap().to_owned()
}

async fn next(events: &mut Events, name: &str) -> ServerEvent {
    loop {
        let event = events.next().await.unwrap().expect("the stream goes on");
        if event.name == name {
            return event;
        }
    }
}

fn data(event: &ServerEvent) -> Value {
    serde_json::from_str(&event.data).unwrap()
}

#[tokio::test]
async fn one_stream_delivers_the_events_of_its_topics() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let mut events = daemon.client().events("/api/v1/stream?topics=catalog,executions").await.unwrap();
    next(&mut events, "open").await;
    let id = run(&daemon, "m", json!({"name": "Ada"})).await;
    let mut seen = 0;
    let succeeded = loop {
        let news = data(&next(&mut events, "executions").await);
        seen += 1;
        let found = news["executions"].as_array().unwrap().iter().any(|one| one["id"] == id.as_str());
        if found && news["statuses"]["succeeded"] == 1 {
            break news;
        }
    };
    assert!(seen <= 2 && succeeded["more"] == 0 && succeeded["uncounted"] == false, "{succeeded}");
    write(daemon.folder.path(), "automations/n.yaml", MANUAL);
    daemon.engine.reload().await;
    assert_eq!(data(&next(&mut events, "catalog").await), json!({"generation": 2}));
}

/// The first events of a stream that is resumed after this id, up to `end`.
async fn reopened(daemon: &Daemon, id: &str, end: &str) -> String {
    let fields = format!("authorization: Bearer {}\r\nlast-event-id: {id}\r\n", daemon.token);
    let bytes = request(daemon.admin, "GET", "/api/v1/stream?topics=catalog", &fields, b"");
    let mut stream = TcpStream::connect(daemon.admin).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    until(&mut stream, end).await
}

#[tokio::test]
async fn a_stream_resumes_after_the_last_event_id_or_asks_for_a_resync() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let fields = format!("authorization: Bearer {}\r\n", daemon.token);
    let bytes = request(daemon.admin, "GET", "/api/v1/stream?topics=catalog", &fields, b"");
    let mut stream = TcpStream::connect(daemon.admin).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    let opened = until(&mut stream, "\n\n").await;
    let id = opened.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id").to_owned();
    drop(stream);
    write(daemon.folder.path(), "automations/n.yaml", MANUAL);
    daemon.engine.reload().await;
    let missed = reopened(&daemon, &id, "\"generation\":2}").await;
    assert!(!missed.contains("resync") && !missed.contains("event: open"), "{missed}");
    let unknown = reopened(&daemon, "00000000-1", "\n\n").await;
    assert!(unknown.contains("event: resync"), "{unknown}");
}

#[tokio::test]
async fn captures_are_published_on_their_listen_topic() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    daemon.api("POST", "/api/v1/automations/a/listen", "", "").await;
    let mut events = daemon.client().events("/api/v1/stream?topics=listen:a").await.unwrap();
    next(&mut events, "open").await;
    let path = daemon.engine.catalog().find("a").unwrap().mounts().next().unwrap().test_url("").unwrap();
    // The first sample is the baseline for later ones: before it is taken, requests publish no event.
    let news = loop {
        daemon.hook("POST", &path, "content-type: application/json\r\n", b"{}").await;
        let wait = std::time::Duration::from_secs(1);
        if let Ok(news) = tokio::time::timeout(wait, next(&mut events, "listen")).await {
            break news;
        }
    };
    assert_eq!(data(&news), json!({"automation": "a"}));
}

#[tokio::test]
async fn bulk_operation_progress_is_published_until_the_end() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    for name in ["Ada", "Bob"] {
        run(&daemon, "m", json!({"name": name})).await;
    }
    let body = json!({"action": "replay", "filter": {"automation": "m"}, "perSecond": 2});
    let begun: Value = daemon.client().post("/api/v1/executions/bulk", &body).await.unwrap();
    let id = begun["id"].as_str().unwrap();
    let mut events = daemon.client().events(&format!("/api/v1/stream?topics=bulk:{id}")).await.unwrap();
    next(&mut events, "open").await;
    loop {
        let news = next(&mut events, "bulk").await;
        assert_eq!(data(&news), json!({ "id": id }));
        let now: Value = daemon.client().get(&format!("/api/v1/executions/bulk/{id}")).await.unwrap();
        if now["state"] == "finished" {
            assert_eq!(now["done"], 2);
            break;
        }
    }
}

#[tokio::test]
async fn a_stream_with_unknown_topics_is_rejected() {
    let daemon = daemon(&[]).await;
    for topics in ["", "nonsense", "execution:x", "bulk:"] {
        let answer = daemon.api("GET", &format!("/api/v1/stream?topics={topics}"), "", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_topic"), "{topics}");
    }
}

#[tokio::test]
async fn statistics_count_outcomes_and_exclude_tests() {
    let daemon = daemon(&[("m", MANUAL), ("f", FAILING)]).await;
    run(&daemon, "m", json!({"name": "Ada"})).await;
    run(&daemon, "m", json!({"name": "Bob"})).await;
    run(&daemon, "f", json!({})).await;
    let test = r#"{"inputs": {"name": "Eve"}, "test": true}"#;
    let json = "content-type: application/json\r\n";
    daemon.api("POST", "/api/v1/automations/m/run?wait=true", json, test).await;
    let answer = daemon.api("GET", "/api/v1/stats?window=2h&buckets=2", "", "").await.json();
    let of = |id: &str| {
        answer["automations"].as_array().unwrap().iter().find(|one| one["automation"] == id).cloned().unwrap()
    };
    assert_eq!((&of("m")["succeeded"], &of("m")["failed"]), (&json!(2), &json!(0)));
    assert_eq!((&of("f")["succeeded"], &of("f")["failed"]), (&json!(0), &json!(1)));
    let parts: u64 =
        of("m")["succeededByBucket"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!((parts, of("m")["failedByBucket"].as_array().unwrap().len()), (2, 2));
    assert!(of("m")["p95Ms"].as_f64().unwrap() >= of("m")["p50Ms"].as_f64().unwrap());
    assert_eq!(daemon.api("GET", "/api/v1/stats?window=90m", "", "").await.code(), "bad_query");
}

#[tokio::test]
async fn rejected_requests_are_recorded_without_body_and_headers() {
    let daemon = daemon(&[("c", CHECKED)]).await;
    let (path, json) = (daemon.path("c"), "content-type: application/json\r\nx-secret: canary\r\n");
    daemon.hook("POST", &format!("{path}/orders"), json, b"{canary").await;
    daemon.hook("POST", &path, json, br#"{"ok": false, "x": "canary"}"#).await;
    daemon.hook("POST", &path, json, br#"{"ok": true}"#).await;
    let answer = daemon.api("GET", "/api/v1/automations/c/refusals", "", "").await;
    let refusals = answer.json()["refusals"].as_array().unwrap().clone();
    let reasons: Vec<_> = refusals
        .iter()
        .map(|one| (one["reason"].as_str().unwrap(), one["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(reasons, [("filtered", 200), ("bad_json", 400)]);
    assert_eq!((&refusals[1]["fragment"], &refusals[1]["bytes"]), (&json!("/orders"), &json!(7)));
    assert_eq!(refusals[1]["contentType"], "application/json");
    assert!(!answer.body.contains("canary"), "{}", answer.body);
}

#[tokio::test]
async fn executions_are_searched_by_content_and_errors() {
    let daemon = daemon(&[("m", MANUAL), ("f", FAILING)]).await;
    let greeted = run(&daemon, "m", json!({"name": "Grace Hopper"})).await;
    let failed = run(&daemon, "f", json!({})).await;
    let find = async |query: &str| -> Vec<String> {
        let answer = daemon.api("GET", &format!("/api/v1/executions?{query}"), "", "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let found = answer.json()["executions"].as_array().unwrap().clone();
        found.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(find("text=grace%20hopper").await, [greeted.as_str()]);
    assert_eq!(find("text=out%20of%20PAPER").await, [failed.as_str()]);
    assert_eq!(find("failedStep=broken").await, [failed.as_str()]);
    assert_eq!(find("failedStep=brok").await, Vec::<String>::new());
    assert_eq!(find("origin=manual").await.len(), 2);
    assert_eq!((find("origin=webhook").await.len(), find("minTook=1h").await.len()), (0, 0));
    assert_eq!(find("waitingFor=approval").await.len(), 0);
    let first = daemon.api("GET", "/api/v1/executions?origin=manual&limit=1", "", "").await.json();
    let next = first["next"].as_str().expect("another page");
    assert_eq!(find(&format!("origin=manual&limit=1&cursor={next}")).await, [greeted.as_str()]);
    for wrong in ["origin=nonsense", "waitingFor=x", "minTook=long"] {
        assert_eq!(
            daemon.api("GET", &format!("/api/v1/executions?{wrong}"), "", "").await.code(),
            "bad_query"
        );
    }
}

#[tokio::test]
async fn a_list_includes_the_total_and_the_failed_attempt_on_request() {
    const RETRIED: &str = "trigger: {manual: {}}\nsteps:\n  - {forEach: '[1]', steps: [{id: get, retry: {max: 2, delay: 1ms, on: [all]}, fail: no}]}\n";
    let daemon = daemon(&[("m", MANUAL), ("f", FAILING), ("r", RETRIED)]).await;
    for (automation, inputs) in [("m", json!({"name": "Ada"})), ("m", json!({"name": "Bob"}))] {
        run(&daemon, automation, inputs).await;
    }
    for automation in ["f", "r"] {
        run(&daemon, automation, json!({})).await;
    }
    let list =
        async |query: &str| daemon.api("GET", &format!("/api/v1/executions?{query}"), "", "").await.json();
    let counted = list("count=true&limit=1&automation=m").await;
    assert_eq!(counted["total"], json!({"count": 2, "isAtLeast": false}));
    assert_eq!(list("automation=m").await.get("total"), None);
    assert_eq!(list("count=true&origin=manual").await.get("total"), None, "a search is not counted");
    let attempt = async |query: &str| list(query).await["executions"][0].get("stepAttempt").cloned();
    let last = json!({"step": "get[0]", "attempt": 3, "of": 3});
    assert_eq!(attempt("attempts=true&automation=r").await, Some(last));
    assert_eq!(attempt("automation=r").await, None);
    assert_eq!(attempt("attempts=true&automation=f").await, None, "a step without a retry policy");
}

#[tokio::test]
async fn an_unchanged_response_is_304_for_its_etag() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let tag = daemon.api("GET", "/api/v1/automations", "", "").await.header("etag").unwrap().to_owned();
    let fields = format!("if-none-match: {tag}\r\n");
    let answer = daemon.api("GET", "/api/v1/automations", &fields, "").await;
    assert_eq!((answer.status, answer.body.as_str()), (304, ""));
    write(daemon.folder.path(), "automations/n.yaml", MANUAL);
    daemon.engine.reload().await;
    assert_eq!(daemon.api("GET", "/api/v1/automations", &fields, "").await.status, 200);
}

#[tokio::test]
async fn large_responses_are_compressed_if_the_client_accepts_gzip() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let head = async |path: &str| {
        let fields = format!("authorization: Bearer {}\r\naccept-encoding: gzip\r\n", daemon.token);
        let mut stream = TcpStream::connect(daemon.admin).await.unwrap();
        stream.write_all(&request(daemon.admin, "GET", path, &fields, b"")).await.unwrap();
        let head = until(&mut stream, "\r\n\r\n").await.to_ascii_lowercase();
        let mut body = Vec::new();
        let _ = stream.read_to_end(&mut body).await;
        (head, body.len())
    };
    let (compressed, bytes) = head("/api/openapi.json").await;
    assert!(compressed.contains("content-encoding: gzip") && bytes < 100_000, "{bytes} {compressed}");
    let (small, _) = head("/api/v1/polls").await;
    assert!(!small.contains("content-encoding"), "{small}");
    let plain = daemon.api("GET", "/api/openapi.json", "", "").await;
    assert_eq!((plain.header("content-encoding"), plain.body.len() > 100_000), (None, true));
}

#[tokio::test]
async fn statistics_list_and_detail_show_the_same_duration() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    for _ in 0..5 {
        run(&daemon, "m", json!({"name": "Ada"})).await;
    }
    let list = daemon.api("GET", "/api/v1/executions", "", "").await.json();
    let mut durations = Vec::new();
    for row in list["executions"].as_array().unwrap() {
        let instant = |name: &str| row[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let took = instant("finishedAt").duration_since(instant("startedAt")).as_micros() as f64 / 1000.0;
        assert_eq!(row["tookMs"].as_f64(), Some(took));
        durations.push(took);
    }
    durations.sort_by(f64::total_cmp);
    let stats = daemon.api("GET", "/api/v1/stats", "", "").await.json();
    for (name, took) in [("p50Ms", durations[2]), ("p95Ms", durations[4])] {
        let shown = stats["automations"][0][name].as_f64().unwrap();
        assert!((shown / took - 1.0).abs() < 0.05, "{name} is {shown} for {took}");
    }
}

#[tokio::test]
async fn the_latest_execution_is_found_behind_many_of_other_automations() {
    let daemon = daemon(&[("m", MANUAL), ("f", FAILING), ("never", FAILING)]).await;
    run(&daemon, "f", json!({})).await;
    for _ in 0..210 {
        run(&daemon, "m", json!({"name": "Ada"})).await;
    }
    let path = "/api/v1/executions/latest?automations=f,never,m";
    let found = daemon.api("GET", path, "", "").await.json();
    let latest = found["executions"].as_array().unwrap();
    let shown: Vec<_> = latest.iter().map(|row| (&row["automation"], &row["status"])).collect();
    assert_eq!(shown, [(&json!("f"), &json!("failed")), (&json!("m"), &json!("succeeded"))]);
    let newest = daemon.api("GET", "/api/v1/executions?limit=1", "", "").await.json();
    assert_eq!(latest[1]["id"], newest["executions"][0]["id"]);
    let many = vec!["a"; 201].join(",");
    for wrong in ["A%20b", &many] {
        let answer =
            daemon.api("GET", &format!("/api/v1/executions/latest?automations={wrong}"), "", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_query"), "{wrong}");
    }
}
