//! The hook listener with an engine behind it.

use model::Outcome;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{ASYNC, Answer, ECHO, GATED, Gate, daemon, request, rest};

#[tokio::test]
async fn an_asynchronous_webhook_returns_its_execution_id() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let answer =
        daemon.hook("POST", &daemon.path("a"), "content-type: application/json\r\n", b"{\"a\":1}").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let id = answer.execution();
    assert_eq!(answer.json(), json!({ "executionId": id }));
    assert_eq!(answer.header("x-execution-id"), Some(id.to_string().as_str()));
    assert_eq!(
        daemon.engine.runtime().wait(id).await.unwrap(),
        Outcome::Succeeded { result: value::Value::from(1) }
    );
}

#[tokio::test]
async fn a_synchronous_webhook_receives_path_query_headers_and_body() {
    let daemon = daemon(&[("a", ECHO)]).await;
    let path = format!("{}//x%2Fy/%20?a=1&a=2&b=%C3%A9", daemon.path("a"));
    let fields = "content-type: application/json\r\nX-Shop: 7\r\nx-shop: 8\r\n";
    let answer = daemon.hook("POST", &path, fields, b"{\"big\":12345678901234567890}").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert_eq!(body["fragment"], "/x%2Fy/ ");
    assert_eq!(body["query"], json!({"a": ["1", "2"], "b": "é"}));
    assert_eq!(body["headers"]["x-shop"], "7, 8");
    assert!(answer.body.contains("12345678901234567890"));
}

#[tokio::test]
async fn a_body_in_many_chunks_arrives_whole() {
    let daemon = daemon(&[("a", ECHO)]).await;
    let text = "0123456789abcdef".repeat(40_000);
    let fields = "content-type: text/plain\r\n";
    let answer = daemon.hook("POST", &daemon.path("a"), fields, text.as_bytes()).await;
    assert_eq!(answer.json()["data"], text);
    let mut bytes = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}transfer-encoding: chunked\r\n\r\n",
        daemon.path("a")
    );
    for chunk in text.as_bytes().chunks(9999) {
        bytes += &format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk));
    }
    let answer = Answer::parse(&daemon.hook_bytes(format!("{bytes}0\r\n\r\n").as_bytes()).await);
    assert_eq!(answer.json()["data"], text);
}

#[tokio::test]
async fn unknown_and_disabled_addresses_get_404_and_wrong_methods_405() {
    let disabled = format!("enabled: false\n{ASYNC}");
    let daemon = daemon(&[("off", &disabled), ("a", ECHO)]).await;
    for path in ["/trigger/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "/trigger/", "/trigger/x/y"] {
        let answer = daemon.hook("POST", path, "", b"{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_trigger"));
    }
    let answer = daemon.hook("POST", &daemon.path("off"), "", b"{}").await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "automation_disabled"));
    let answer = daemon.hook("DELETE", &daemon.path("a"), "", b"").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, GET")));
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn head_and_options_requests_start_nothing() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let (path, unknown) = (daemon.path("a"), "/trigger/unknown");
    assert_eq!(daemon.hook("HEAD", &path, "", b"").await.status, 200);
    assert_eq!(daemon.hook("OPTIONS", &path, "", b"").await.status, 204);
    for method in ["HEAD", "OPTIONS"] {
        let answer = daemon.hook(method, unknown, "", b"").await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.body.is_empty(), method == "HEAD");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn health_and_readiness_are_separate() {
    let daemon = daemon(&[]).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(daemon.hook("GET", path, "", b"").await.status, 200);
        assert_eq!(daemon.hook("HEAD", path, "", b"").await.body, "");
        assert_eq!(daemon.hook("POST", path, "", b"").await.status, 405);
    }
    daemon.engine.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(daemon.hook("GET", "/healthz", "", b"").await.status, 200);
    assert_eq!(daemon.hook("GET", "/readyz", "", b"").await.status, 503);
}

#[tokio::test]
async fn the_hooks_listener_serves_no_admin_routes() {
    let daemon = daemon(&[]).await;
    for path in ["/", "/api/v1/status", "/api/openapi.json", "/metrics", "/trigger"] {
        let answer = daemon.hook("GET", path, "", b"").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_caller_that_closed_its_sending_side_gets_the_response() {
    let daemon = daemon(&[("a", GATED)]).await;
    let gate = Gate::new().await;
    let body = json!({"url": gate.url()}).to_string();
    let fields = "content-type: application/json\r\n";
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream
        .write_all(&request(daemon.hooks, "POST", &daemon.path("a"), fields, body.as_bytes()))
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    gate.arrival().await.let_through().await;
    let answer = Answer::parse(&rest(&mut stream).await);
    assert_eq!((answer.status, &answer.json()["body"]), (200, &json!("open")), "{answer:?}");
}

#[tokio::test]
async fn an_execution_continues_when_its_caller_disconnects() {
    let daemon = daemon(&[("a", GATED)]).await;
    let gate = Gate::new().await;
    let body = json!({"url": gate.url()}).to_string();
    let fields = "content-type: application/json\r\n";
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream
        .write_all(&request(daemon.hooks, "POST", &daemon.path("a"), fields, body.as_bytes()))
        .await
        .unwrap();
    let visitor = gate.arrival().await;
    drop(stream);
    visitor.let_through().await;
    let page = store::Page { before: None, limit: 1 };
    let rows = daemon.engine.store().executions(&store::ExecutionFilter::default(), page).await.unwrap();
    let outcome = daemon.engine.runtime().wait(rows[0].id).await.unwrap();
    assert_eq!(outcome.status(), model::Status::Succeeded, "{outcome:?}");
}

/// Answers with the file that it was sent, as what its sender says it is.
const FILE: &str = "trigger:
  webhook: {mode: sync, verify: none, maxBody: 25MiB}
steps:
  - respond:
      status: 200
      contentType: ${{ trigger.results.queryParameters.type }}
      file: ${{ trigger.results.body.data.upload }}
";

fn multipart(file: &str) -> String {
    let head = "--x\r\ncontent-disposition: form-data; name=\"upload\"; filename=\"../a.bin\"\r\n\
                content-type: application/octet-stream\r\n\r\n";
    format!("{head}{file}\r\n--x--\r\n")
}

#[tokio::test]
async fn a_large_file_is_spooled_to_disk_and_returned_unchanged() {
    let daemon = daemon(&[("a", FILE)]).await;
    let file = "0123456789abcdef".repeat(1 << 19);
    let fields = "content-type: multipart/form-data; boundary=x\r\n";
    let path = format!("{}?type=application/pdf", daemon.path("a"));
    let answer = daemon.hook("POST", &path, fields, multipart(&file).as_bytes()).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/pdf")));
    assert_eq!(answer.header("content-length"), Some(file.len().to_string().as_str()));
    assert!(answer.body == file, "not a byte is lost");
    let unnamed = daemon.folder.path().join(".cogwork/blobs/unnamed");
    assert_eq!(std::fs::read_dir(unnamed).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn active_content_in_responses_is_sandboxed() {
    let daemon = daemon(&[("a", FILE)]).await;
    let fields = "content-type: multipart/form-data; boundary=x\r\n";
    for (kind, policy) in [
        ("text/html", Some("sandbox")),
        ("image/svg%2Bxml", Some("sandbox")),
        ("text/xml", Some("sandbox")),
        ("image/png", None),
    ] {
        let path = format!("{}?type={kind}", daemon.path("a"));
        let answer = daemon.hook("POST", &path, fields, multipart("<script>1</script>").as_bytes()).await;
        assert_eq!(answer.header("content-security-policy"), policy, "{kind}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{kind}");
    }
}

#[tokio::test]
async fn rejected_requests_are_counted_by_automation() {
    let daemon = daemon(&[("a", "trigger:\n  webhook: {maxBody: 1KiB}\nsteps: []\n"), ("b", ASYNC)]).await;
    daemon.hook("POST", &daemon.path("a"), "", &[b' '; 2000]).await;
    daemon.hook("POST", &daemon.path("a"), "content-type: application/json\r\n", b"{").await;
    daemon.hook("POST", "/trigger/nobody", "", b"{}").await;
    let shown = async |id: &str| daemon.api("GET", &format!("/api/v1/automations/{id}"), "", "").await.json();
    assert_eq!(shown("a").await["refused"], json!({"bad_json": 1, "payload_too_large": 1}));
    assert_eq!(shown("b").await["refused"], json!({}));
    let all = daemon.api("GET", "/api/v1/status", "", "").await.json();
    assert_eq!(all["refused"], json!({"bad_json": 1, "payload_too_large": 1, "unknown_trigger": 1}));
}
