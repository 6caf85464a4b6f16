//! Files of the project over the API: read, replaced, created, deleted.

use crate::support::{Answer, Daemon, MANUAL, daemon, daemon_with, write};

const PATH: &str = "/api/v1/files/automations%2Fm.yaml";
const JSON: &str = "content-type: application/json\r\n";

async fn put(daemon: &Daemon, path: &str, condition: &str, text: &str) -> Answer {
    let body = serde_json::json!({ "text": text }).to_string();
    daemon.api("PUT", path, &format!("{JSON}{condition}\r\n"), &body).await
}

#[tokio::test]
async fn a_file_is_replaced_by_etag_and_deployed_before_the_response() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let read = daemon.api("GET", PATH, "", "").await;
    assert_eq!((read.status, read.json()["text"].as_str()), (200, Some(MANUAL)), "{read:?}");
    let etag = read.header("etag").unwrap().to_owned();
    assert_eq!(read.json()["etag"], etag);
    let text = MANUAL.replace("Hello", "Goodbye");
    let written = put(&daemon, PATH, &format!("if-match: {etag}"), &text).await;
    assert_eq!(written.status, 200, "{written:?}");
    assert_ne!(written.header("etag"), Some(&*etag));
    let shown = daemon.api("GET", "/api/v1/automations/m", "", "").await;
    assert!(shown.json()["source"].as_str().unwrap().contains("Goodbye"));
    let late = put(&daemon, PATH, &format!("if-match: {etag}"), MANUAL).await;
    assert_eq!((late.status, late.code().as_str()), (412, "file_changed"));
    assert_eq!(late.json()["current"]["text"], text);
    let none = put(&daemon, PATH, "x-nothing: 1", MANUAL).await;
    assert_eq!((none.status, none.code().as_str()), (428, "version_required"));
}

#[tokio::test]
async fn a_text_with_errors_is_written_only_on_request() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let etag = daemon.api("GET", PATH, "", "").await.header("etag").unwrap().to_owned();
    let wrong = MANUAL.replace("steps:", "stepz:");
    let refused = put(&daemon, PATH, &format!("if-match: {etag}"), &wrong).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "file_has_errors"));
    assert_eq!(refused.json()["diagnostics"][0]["code"], "unknown-key");
    let path = format!("{PATH}?withErrors=true");
    let written = put(&daemon, &path, &format!("if-match: {etag}"), &wrong).await;
    assert_eq!(written.status, 200, "{written:?}");
    let shown = daemon.api("GET", "/api/v1/automations/m", "", "").await.json();
    assert_eq!(shown["state"], "stale", "the last good version stays in force");
    let on_disk = daemon.api("GET", PATH, "", "").await;
    assert_eq!(on_disk.json()["text"], wrong, "the text on disk can be read");
}

#[tokio::test]
async fn a_file_is_created_once_and_deleted_by_etag() {
    let daemon = daemon(&[]).await;
    let path = "/api/v1/files/automations%2Fsub%2Fnew.yaml";
    let created = put(&daemon, path, "if-none-match: *", MANUAL).await;
    assert_eq!(created.status, 200, "{created:?}");
    let again = put(&daemon, path, "if-none-match: *", MANUAL).await;
    assert_eq!(again.status, 412);
    let listed = daemon.api("GET", "/api/v1/files", "", "").await.json();
    assert_eq!(listed["files"], serde_json::json!(["automations/sub/new.yaml"]));
    let etag = created.header("etag").unwrap();
    let deleted = daemon.api("DELETE", path, &format!("if-match: {etag}\r\n"), "").await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    let gone = daemon.api("GET", path, "", "").await;
    assert_eq!((gone.status, gone.code().as_str()), (404, "unknown_file"));
}

#[tokio::test]
async fn nothing_outside_the_project_files_is_read_or_written() {
    let daemon = daemon(&[]).await;
    write(daemon.folder.path(), "secrets/key", "hidden");
    for path in [
        "secrets%2Fkey",
        ".cogwork%2Fadmin-token",
        "automations%2F..%2Fsecrets%2Fkey",
        "%2Fetc%2Fpasswd",
        "cogwork.yaml",
    ] {
        let path = format!("/api/v1/files/{path}");
        let read = daemon.api("GET", &path, "", "").await;
        assert_eq!((read.status, read.code().as_str()), (400, "bad_file_path"), "{path}");
        let written = put(&daemon, &format!("{path}?withErrors=true"), "if-none-match: *", "x").await;
        assert_eq!((written.status, written.code().as_str()), (400, "bad_file_path"), "{path}");
    }
}

#[tokio::test]
async fn a_read_only_daemon_rejects_file_changes_with_a_reason() {
    let daemon = daemon_with(&[("m", MANUAL)], |options| options.read_only = true).await;
    assert_eq!(daemon.api("GET", "/api/v1/status", "", "").await.json()["readOnly"], true);
    let etag = daemon.api("GET", PATH, "", "").await.header("etag").unwrap().to_owned();
    let changed = MANUAL.replace("Hello", "Goodbye");
    let written = put(&daemon, PATH, &format!("if-match: {etag}"), &changed).await;
    let deleted = daemon.api("DELETE", PATH, &format!("if-match: {etag}\r\n"), "").await;
    let disabled = daemon.api("POST", "/api/v1/automations/m/disable", "", "").await;
    let created = put(&daemon, "/api/v1/files/automations%2Fnew.yaml", "if-none-match: *", MANUAL).await;
    for refused in [written, deleted, disabled, created] {
        assert_eq!((refused.status, refused.code().as_str()), (403, "read_only"));
    }
    // Saved payloads are files of the project too.
    write(daemon.folder.path(), "payloads/m/first.json", r#"{"kind": "manual", "inputs": {"name": "Ada"}}"#);
    let payloads = "/api/v1/automations/m/payloads";
    let first = format!("{payloads}/first");
    for (method, path, body) in [
        ("POST", payloads, r#"{"name": "new", "payload": {"inputs": {"name": "Eve"}}}"#),
        ("PUT", &first, r#"{"inputs": {"name": "Eve"}}"#),
        ("POST", &format!("{first}/rename"), r#"{"to": "new"}"#),
        ("DELETE", &first, ""),
    ] {
        let refused = daemon.api(method, path, JSON, body).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "read_only"), "{method} {path}");
    }
    let payloads = std::fs::read_dir(daemon.folder.path().join("payloads/m")).unwrap();
    assert_eq!(payloads.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["first.json"]);
    assert_eq!(daemon.api("GET", PATH, "", "").await.json()["text"], MANUAL);
}
