//! Resumable uploads: one session takes a file in pieces, whatever happens meanwhile.

use std::time::Duration;

use engine::Engine;
use model::execution::ExecutionId;

use crate::common::{Peer, Project, crash, end, manual, pass, start_with, stop};

const DEPOT: &str = r#"
connector: depot
title: Depot
version: "1"
inputs: {name: {type: text, required: true}, file: {type: file, required: true}}
connections:
  site:
    title: Site
    inputs: {address: {type: text, required: true}, key: {type: text, required: true, secret: true}}
    baseUrl: {input: address}
    auth: {bearer: key}
actions:
  upload:
    title: Upload
    request: POST /files
    inputs: {name: body name, file: upload}
    upload: {protocol: google, location: {header: Location}, chunk: 256KiB}
    results: {type: object, open: true, fields: {id: text}}
    example: {with: {name: a, file: x}, request: POST /files, body: {name: a}, answer: {id: f}}
"#;

/// The size of the file.
const SIZE: usize = 600_000;

async fn depot(connector: &str, more: &str) -> (Project, Peer) {
    let peer = Peer::new().await;
    let steps = format!(
        "  - {{id: up, action: depot.upload, connection: depot, with: {{name: a, file: \"${{{{ file(inputs.name, contentType='text/plain') }}}}\"}}{more}}}\n"
    );
    let project = Project::with(&manual(&steps));
    std::fs::create_dir_all(project.path("connectors")).expect("a folder");
    project.write("connectors/depot.yaml", connector);
    let connection = format!("type: depot.site\nwith: {{address: \"{}\", key: k}}\n", peer.base);
    project.write("connections/depot.yaml", &connection);
    (project, peer)
}

async fn start(engine: &Engine) -> ExecutionId {
    start_with(engine, &format!(r#"{{"name": "{}"}}"#, "a".repeat(SIZE))).await
}

/// Expects the request that begins a session, and answers with this address. Returns its key.
async fn session(peer: &mut Peer, location: &str) -> String {
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "POST /files");
    assert_eq!(asked.header("x-upload-content-length"), Some("600000"));
    assert_eq!(String::from_utf8_lossy(&asked.body), r#"{"name":"a"}"#);
    let base = if location.starts_with('/') { peer.base.as_str() } else { "" };
    let key = asked.header("idempotency-key").unwrap_or_default().to_owned();
    asked.answer_with(200, &format!("location: {base}{location}\r\n"), "").await;
    key
}

/// Expects a request to the session with this range, and answers that the service has the bytes before `has`.
async fn piece(peer: &mut Peer, range: &str, has: usize) {
    let asked = peer.next_request().await;
    assert_eq!((asked.line.as_str(), asked.header("content-range")), ("PUT /session/1?id=x", Some(range)));
    assert_eq!(asked.header("authorization"), Some("bearer k"));
    let received = if has == 0 { String::new() } else { format!("range: bytes=0-{}\r\n", has - 1) };
    asked.answer_with(308, &received, "").await;
}

async fn last(peer: &mut Peer, range: &str) {
    let asked = peer.next_request().await;
    assert_eq!(asked.header("content-range"), Some(range));
    asked.answer(201, r#"{"id": "f"}"#).await;
}

const QUESTION: &str = "bytes */600000";

#[tokio::test]
async fn an_upload_goes_on_after_a_crash_where_the_service_says() {
    let (project, mut peer) = depot(DEPOT, ", onInterrupt: fail").await;
    let engine = project.start().await;
    let id = start(&engine).await;
    session(&mut peer, "/session/1?id=x").await;
    piece(&mut peer, QUESTION, 0).await;
    piece(&mut peer, "bytes 0-262143/600000", 262_144).await;
    let cut = peer.next_request().await;
    assert_eq!((cut.header("content-range"), cut.body.len()), (Some("bytes 262144-524287/600000"), 262_144));
    crash(engine).await;
    drop(cut);
    let engine = project.start().await;
    piece(&mut peer, QUESTION, 300_000).await;
    piece(&mut peer, "bytes 300000-562143/600000", 562_144).await;
    last(&mut peer, "bytes 562144-599999/600000").await;
    assert_eq!(end(&engine, id).await, r#"{"id":"f"}"#);
    assert!(peer.pending_request().is_none());
    stop(engine).await;
}

#[tokio::test]
async fn the_address_of_an_upload_is_stored_encrypted() {
    let (project, mut peer) = depot(DEPOT, "").await;
    let engine = project.start().await;
    let id = start(&engine).await;
    let secret = tests::canary::secret("session");
    session(&mut peer, &format!("/session/1?id={secret}")).await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, format!("PUT /session/1?id={secret}"));
    crash(engine).await;
    drop(asked);
    let engine = project.start().await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, format!("PUT /session/1?id={secret}"));
    asked.answer(200, r#"{"id": "f"}"#).await;
    assert_eq!(end(&engine, id).await, r#"{"id":"f"}"#, "it had the file already");
    stop(engine).await;
}

#[tokio::test]
async fn a_cut_piece_is_asked_for_and_a_lost_session_is_begun_anew() {
    let (project, mut peer) = depot(DEPOT, ", retry: {max: 1, delay: 3s, on: [all]}").await;
    let engine = project.start().await;
    let id = start(&engine).await;
    session(&mut peer, "/session/1?id=x").await;
    piece(&mut peer, QUESTION, 0).await;
    // The next request follows after a pause of a second.
    drop(peer.next_request().await);
    piece(&mut peer, QUESTION, 100_000).await;
    let asked = peer.next_request().await;
    assert_eq!(asked.header("content-range"), Some("bytes 100000-362143/600000"));
    asked.answer(404, r#"{"message": "expired"}"#).await;
    assert_eq!(session(&mut peer, "/session/1?id=x").await, format!("{id}.up#2"));
    let asked = peer.next_request().await;
    assert_eq!(asked.header("content-range"), Some(QUESTION));
    asked.answer(410, r#"{"message": "expired again"}"#).await;
    pass(&project, Duration::from_secs(3)).await;
    assert_eq!(
        session(&mut peer, "/session/1?id=x").await,
        format!("{id}.up#3"),
        "an attempt begins it anew once"
    );
    piece(&mut peer, QUESTION, 599_999).await;
    last(&mut peer, "bytes 599999-599999/600000").await;
    assert_eq!(end(&engine, id).await, r#"{"id":"f"}"#);
    stop(engine).await;
}

#[tokio::test]
async fn a_file_goes_to_no_host_that_the_connector_does_not_name() {
    let (project, mut peer) = depot(DEPOT, "").await;
    let engine = project.start().await;
    let id = start(&engine).await;
    session(&mut peer, "http://169.254.169.254/session").await;
    let expected = "failed: Depot: the address of the upload is at `169.254.169.254`, which its connector does not name in `upload.hosts`";
    assert_eq!(end(&engine, id).await, expected);
    stop(engine).await;
}

#[tokio::test]
async fn an_upload_follows_the_ranges_that_microsoft_expects() {
    let own = DEPOT.replace(
        "{protocol: google, location: {header: Location}, chunk: 256KiB}",
        "{protocol: microsoft, location: {body: uploadUrl}, chunk: 320KiB}",
    );
    let (project, mut peer) = depot(&own, "").await;
    let engine = project.start().await;
    let id = start(&engine).await;
    let address = format!(r#"{{"uploadUrl": "{}/session"}}"#, peer.base);
    peer.next_request().await.answer(200, &address).await;
    let asked = peer.next_request().await;
    assert_eq!(asked.line, "GET /session");
    asked.answer(200, r#"{"nextExpectedRanges": ["0-"]}"#).await;
    let asked = peer.next_request().await;
    assert_eq!(asked.header("content-range"), Some("bytes 0-327679/600000"));
    asked.answer(202, r#"{"nextExpectedRanges": ["327680-599999"]}"#).await;
    last(&mut peer, "bytes 327680-599999/600000").await;
    assert_eq!(end(&engine, id).await, r#"{"id":"f"}"#);
    stop(engine).await;
}
