//! Large files: from the connection to disk, from there to whoever wants them.

use std::path::Path;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{Answer, Daemon, daemon};

/// More than a body in memory may have.
const LARGE: usize = 300 << 10;

const UPLOAD: &str = "
trigger: {webhook: {mode: sync, verify: none, maxBody: 64MiB}}
steps: []
outputs:
  name: ${{ trigger.results.body.data.upload.filename }}
  size: ${{ trigger.results.body.data.upload.size }}
  sha256: ${{ trigger.results.body.data.upload.sha256 }}
  note: ${{ trigger.results.body.data.note.data | default('') }}
";

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from((at / 253 + at * 7) % 251).unwrap()).collect()
}

/// A form with a file and a field.
fn form(file: &[u8]) -> Vec<u8> {
    let head = "--x\r\ncontent-disposition: form-data; name=\"upload\"; filename=\"a.bin\"\r\n\
                content-type: application/octet-stream\r\n\r\n";
    let tail = "\r\n--x\r\ncontent-disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--x--\r\n";
    [head.as_bytes(), file, tail.as_bytes()].concat()
}

async fn post(daemon: &Daemon, id: &str, fields: &str, body: &[u8]) -> Answer {
    daemon.hook("POST", &daemon.path(id), fields, body).await
}

async fn post_form(daemon: &Daemon, id: &str, more: &str, body: &[u8]) -> Answer {
    post(daemon, id, &format!("content-type: multipart/form-data; boundary=x\r\n{more}"), body).await
}

/// How many files there are that have a name, and how many that have none.
fn files(daemon: &Daemon) -> (usize, usize) {
    let count = |path: &Path| std::fs::read_dir(path).map_or(0, Iterator::count);
    let blobs = daemon.folder.path().join(".cogwork/blobs");
    let parts = std::fs::read_dir(&blobs).into_iter().flatten().map(|part| part.unwrap().path());
    let named = parts.filter(|part| !part.ends_with("unnamed")).map(|part| count(&part)).sum();
    (named, count(&blobs.join("unnamed")))
}

#[tokio::test]
async fn an_uploaded_file_has_size_and_hash_and_is_stored_once() {
    let daemon = daemon(&[("a", UPLOAD)]).await;
    let file = bytes(LARGE);
    for _ in 0..2 {
        let answer = post_form(&daemon, "a", "", &form(&file)).await;
        let sha256: String = Sha256::digest(&file).iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = json!({"name": "a.bin", "size": LARGE, "sha256": sha256, "note": "hello"});
        assert_eq!((answer.status, answer.json()), (200, expected));
    }
    assert_eq!(files(&daemon), (1, 0));
    let execution = daemon.api("GET", "/api/v1/executions?limit=1", "", "").await.json();
    let id = execution["executions"][0]["id"].as_str().unwrap().to_owned();
    let shown = daemon.api("GET", &format!("/api/v1/executions/{id}"), "", "").await.json();
    let body = &shown["payload"]["body"];
    assert_eq!((&body["encoding"], &body["data"]), (&json!("kept"), &json!(null)), "{shown}");
}

#[tokio::test]
async fn a_signature_over_a_file_is_verified_and_a_rejected_file_is_deleted() {
    let signed = UPLOAD.replace("verify: none", "verify: {secret: s3cret-1234}");
    let daemon = daemon(&[("a", &signed)]).await;
    let body = form(&bytes(LARGE));
    let mac = hmac_hex(b"s3cret-1234", &body);
    let answer = post_form(&daemon, "a", &format!("x-hmac-hash: {mac}\r\n"), &body).await;
    assert_eq!((answer.status, &answer.json()["size"]), (200, &json!(LARGE)));
    let mut changed = body.clone();
    changed[LARGE / 2] ^= 1;
    let answer = post_form(&daemon, "a", &format!("x-hmac-hash: {mac}\r\n"), &changed).await;
    assert_eq!(answer.status, 401);
    assert_eq!((files(&daemon), daemon.executions().await), ((1, 0), 1));
}

/// HMAC-SHA256 by its definition (RFC 2104).
fn hmac_hex(key: &[u8], message: &[u8]) -> String {
    let pad =
        |byte: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or_default() ^ byte).collect() };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    let outer = Sha256::digest([&pad(0x5c)[..], &inner].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_resent_large_file_is_a_duplicate_and_another_one_a_conflict() {
    let daemon = daemon(&[("a", UPLOAD)]).await;
    let send = async |body: &[u8]| post_form(&daemon, "a", "idempotency-key: one\r\n", body).await;
    let first = send(&form(&bytes(LARGE))).await;
    let again = send(&form(&bytes(LARGE))).await;
    assert_eq!((again.status, again.header("x-duplicate"), &again.body), (200, Some("true"), &first.body));
    assert_eq!(send(&form(&bytes(LARGE + 1))).await.status, 422);
    assert_eq!((files(&daemon), daemon.executions().await), ((1, 0), 1));
}

#[tokio::test]
async fn a_json_document_of_any_size_up_to_its_limit_is_parsed() {
    let echo = "trigger: {webhook: {mode: sync, verify: none, maxBody: 64MiB}}\nsteps: []\n\
                outputs: ${{ trigger.results.body.data.a | length }}\n";
    let daemon = daemon(&[("a", echo)]).await;
    let json = format!("{{\"a\": \"{}\"}}", "x".repeat(LARGE));
    for fields in ["content-type: application/json\r\n", ""] {
        let answer = post(&daemon, "a", fields, json.as_bytes()).await;
        assert_eq!((answer.status, answer.json()), (200, json!(LARGE)));
    }
    let answer = post(&daemon, "a", "content-type: text/plain\r\n", &vec![b'x'; (25 << 20) + 1]).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
    assert_eq!(files(&daemon).1, 0);
}

#[tokio::test]
async fn bytes_needed_in_memory_are_loaded_up_to_a_limit_named_in_the_error() {
    let text = "trigger: {webhook: {mode: sync, verify: none, maxBody: 64MiB}}\nsteps:\n  \
                - set: {text: \"<${{ trigger.results.rawBody }}>\"}\noutputs: ${{ vars.text | length }}\n";
    let daemon = daemon(&[("text", text)]).await;
    let fields = "content-type: application/octet-stream\r\n";
    let answer = post(&daemon, "text", fields, &vec![b'x'; LARGE]).await;
    assert_eq!((answer.status, answer.json()), (200, json!(LARGE + 2)));
    let answer = post(&daemon, "text", fields, &vec![b'x'; (16 << 20) + 1]).await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("at most 16MiB of a file can be loaded into memory"), "{}", answer.body);
}
