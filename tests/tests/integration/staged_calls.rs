//! Calls in stages over kills of the daemon: the first request of an operation is sent once, and an upload goes on where the service says.

use pretty_assertions::assert_eq;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::site::{PATIENCE, Site, send};

const DEPOT: &str = r#"
connector: depot
title: Depot
version: "1"
inputs: {file: {type: file, required: true}}
connections:
  site:
    title: Site
    inputs: {address: {type: text, required: true}}
    baseUrl: {input: address}
    auth: {none: true}
actions:
  export:
    title: Export
    request: POST /exports
    operation: {status: "GET /exports/{id}", id: id, done: {path: state, is: done}, result: rows, every: 1s, atMost: 1h}
    results: {type: list, items: integer}
    example:
      with: {}
      request: POST /exports
      answer: {id: 7, state: new}
      status: {request: GET /exports/7, answer: {state: done, rows: [1]}}
  upload:
    title: Upload
    request: POST /files
    inputs: {file: upload}
    upload: {protocol: google, location: {header: Location}, chunk: 256KiB}
    results: {type: object, open: true, fields: {id: text}}
    example: {with: {file: x}, request: POST /files, answer: {id: f}}
"#;
/// The size of the file.
const SIZE: usize = 600_000;

/// A service whose answers the test gives.
struct Service {
    url: String,
    requests: mpsc::Receiver<Request>,
}

/// A request that waits for its answer.
struct Request {
    line: String,
    /// Lower case.
    head: String,
    stream: TcpStream,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    if let Some(request) = Request::read(stream).await {
                        let _ = sender.send(request).await;
                    }
                });
            }
        });
        Self { url, requests }
    }

    /// Waits for the next request, which has this line.
    async fn expect(&mut self, line: &str) -> Request {
        let next = tokio::time::timeout(PATIENCE, self.requests.recv()).await;
        let request = next.unwrap_or_else(|_| panic!("no `{line}`")).unwrap();
        assert_eq!(request.line, line);
        request
    }

    /// Expects a piece of the file, and answers that the bytes before `has` are there.
    async fn piece(&mut self, range: &str, has: usize) {
        let request = self.expect("PUT /session").await;
        assert_eq!(request.header("content-range"), range);
        let received = if has == 0 { String::new() } else { format!("range: bytes=0-{}\r\n", has - 1) };
        request.answer(308, &received, "").await;
    }
}

impl Request {
    async fn read(mut stream: TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let line = text.lines().next()?.rsplit_once(' ')?.0.to_owned();
        let request = Self { line, head: text.to_ascii_lowercase(), stream };
        let mut left = request.header("content-length").parse().unwrap_or(0) + head - bytes.len();
        let mut stream = request.stream;
        let mut part = vec![0; 64 << 10];
        while left > 0 {
            match stream.read(&mut part).await.ok()? {
                0 => return None,
                size => left = left.saturating_sub(size),
            }
        }
        Some(Self { stream, ..request })
    }

    fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_default()
    }

    async fn answer(mut self, status: u16, headers: &str, body: &str) {
        let answer = format!(
            "HTTP/1.1 {status} X\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = self.stream.write_all(answer.as_bytes()).await;
        let _ = self.stream.shutdown().await;
    }
}

/// A daemon whose automation `work` calls an action of the service.
async fn site(service: &Service, step: &str) -> Site {
    let work = format!(
        "trigger: {{webhook: {{verify: none}}}}\nsteps:\n  - {{id: call, connection: depot, {step}}}\n"
    );
    let mut site = Site::new(&[("work", &work)]);
    std::fs::create_dir(site.project.path().join("connectors")).unwrap();
    site.project.write("connectors/depot.yaml", DEPOT).unwrap();
    let connection = format!("type: depot.site\nwith: {{address: \"{}\"}}\n", service.url);
    site.project.connection("depot", &connection).unwrap();
    site.start().await;
    site
}

/// Kills the daemon, and starts another one.
async fn replace(site: &mut Site) {
    site.kill().await;
    site.start().await;
}

/// Waits until the execution is suspended after this number of looks.
async fn until_looks(site: &Site, execution: &str, looks: u64) {
    let waits = async {
        loop {
            let found = site.ask(&format!("/executions/{execution}")).await;
            if found["waiting"]["pauses"][0]["on"]["looks"] == json!(looks) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("it waits for the operation");
}

async fn end_of(site: &Site, execution: &str) -> Value {
    site.end_of(execution).await["outcome"]["result"].clone()
}

#[tokio::test]
async fn kills_after_the_first_request_and_between_looks_send_it_once() {
    let mut service = Service::start().await;
    let mut site = site(&service, "action: depot.export").await;
    let execution = site.post("work", &json!({})).await.execution();
    service.expect("POST /exports").await.answer(200, "", r#"{"id": 7, "state": "new"}"#).await;
    until_looks(&site, &execution, 0).await;
    replace(&mut site).await;
    service.expect("GET /exports/7").await.answer(200, "", r#"{"state": "running"}"#).await;
    until_looks(&site, &execution, 1).await;
    replace(&mut site).await;
    // In the middle of a look.
    let look = service.expect("GET /exports/7").await;
    replace(&mut site).await;
    drop(look);
    service.expect("GET /exports/7").await.answer(200, "", r#"{"state": "done", "rows": [1, 2]}"#).await;
    assert_eq!(end_of(&site, &execution).await, json!([1, 2]));
    assert!(service.requests.try_recv().is_err(), "nothing else was sent");
}

#[tokio::test]
async fn a_kill_before_the_first_answer_repeats_the_request_with_its_key() {
    let mut service = Service::start().await;
    let mut site = site(&service, "action: depot.export").await;
    let execution = site.post("work", &json!({})).await.execution();
    let first = service.expect("POST /exports").await;
    site.kill().await;
    let key = first.header("idempotency-key").to_owned();
    drop(first);
    site.start().await;
    let again = service.expect("POST /exports").await;
    assert_eq!((again.header("idempotency-key"), key.is_empty()), (key.as_str(), false));
    again.answer(200, "", r#"{"id": 7, "state": "done", "rows": [3]}"#).await;
    assert_eq!(end_of(&site, &execution).await, json!([3]));
}

#[tokio::test]
async fn a_kill_between_the_pieces_of_an_upload_goes_on_at_the_position_of_the_service() {
    let mut service = Service::start().await;
    let step = "action: depot.upload, onInterrupt: fail, with: {file: \"${{ trigger.results.body.data }}\"}";
    let mut site = site(&service, step).await;
    let url = site.url("work").await;
    let file = site.request(Method::POST, &url).header("content-type", "application/octet-stream");
    let execution = send(file.body("a".repeat(SIZE))).await.execution();
    let session = format!("location: {}/session\r\n", service.url);
    service.expect("POST /files").await.answer(200, &session, "").await;
    service.piece("bytes */600000", 0).await;
    service.piece("bytes 0-262143/600000", 262_144).await;
    let cut = service.expect("PUT /session").await;
    assert_eq!(cut.header("content-range"), "bytes 262144-524287/600000");
    replace(&mut site).await;
    drop(cut);
    service.piece("bytes */600000", 300_000).await;
    service.piece("bytes 300000-562143/600000", 562_144).await;
    let last = service.expect("PUT /session").await;
    assert_eq!(last.header("content-range"), "bytes 562144-599999/600000");
    last.answer(201, "", r#"{"id": "f"}"#).await;
    assert_eq!(end_of(&site, &execution).await, json!({"id": "f"}));
    assert!(service.requests.try_recv().is_err(), "there is one session");
}
