//! Tokens with scopes on every route, sessions that inherit them, and the audit log.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Answer, Daemon, MANUAL, daemon};

const JSON: &str = "content-type: application/json\r\n";
const SCOPES: [&str; 6] = ["metrics", "read", "run", "write", "secrets", "admin"];

async fn create(daemon: &Daemon, name: &str, scopes: &[&str]) -> Answer {
    let body = json!({"name": name, "scopes": scopes}).to_string();
    daemon.api("POST", "/api/v1/tokens", JSON, &body).await
}

/// A new token with these scopes, as a header field.
async fn token(daemon: &Daemon, name: &str, scopes: &[&str]) -> String {
    let answer = create(daemon, name, scopes).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    format!("authorization: Bearer {}\r\n", answer.json()["token"].as_str().unwrap())
}

/// Each operation of the description with the scope that it needs; empty if every credential suffices.
fn operations() -> Vec<(String, String, String)> {
    let api: Value = serde_json::from_str(server::openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
            let security = operation["security"][0].as_object().unwrap();
            let Some(scopes) = security.get("token") else { continue };
            let path = path
                .replace("{id}", "0190a0a0-0000-7000-8000-000000000000")
                .replace("{path}", "automations%2Fnone.yaml")
                .replace(['{', '}'], "");
            let scope = scopes[0].as_str().unwrap_or_default().to_owned();
            operations.push((method.to_uppercase(), path, scope));
        }
    }
    operations
}

#[tokio::test]
async fn every_route_is_granted_only_to_its_scope_and_admin() {
    let daemon = daemon(&[]).await;
    let mut by_scope = BTreeMap::new();
    for scope in SCOPES {
        by_scope.insert(scope, token(&daemon, scope, &[scope]).await);
    }
    let operations = operations();
    assert!(operations.len() > 50, "{}", operations.len());
    for needed in SCOPES {
        assert!(operations.iter().any(|(_, _, scope)| scope == needed), "no route needs `{needed}`");
    }
    for (method, path, needed) in &operations {
        for (scope, field) in &by_scope {
            let allowed = needed.is_empty()
                || scope == needed
                || *scope == "admin"
                || (*scope == "read" && needed == "metrics");
            // A stream never ends, and the tokens themselves must stay until the end.
            if allowed && (path.ends_with("/events") || path.ends_with("/stream") || path.contains("/tokens"))
            {
                continue;
            }
            let answer = daemon.api_without_token(method, path, field, "").await;
            let refused = answer.status == 403 && answer.code() == "scope_missing";
            assert_eq!(refused, !allowed, "{method} {path} with {scope}: {answer:?}");
            assert_ne!(answer.status, 401, "{method} {path} with {scope}");
        }
    }
}

#[tokio::test]
async fn a_token_is_listed_without_its_secret_and_rejected_once_revoked() {
    let daemon = daemon(&[]).await;
    let field = token(&daemon, "ci", &["read", "run"]).await;
    assert_eq!(daemon.api_without_token("GET", "/api/v1/status", &field, "").await.status, 200);
    let again = create(&daemon, "ci", &["read"]).await;
    assert_eq!((again.status, again.code().as_str()), (409, "token_exists"));
    for (name, scopes) in [("", &["read"][..]), ("a\u{202e}b", &["read"]), ("none", &[])] {
        let wrong = create(&daemon, name, scopes).await;
        assert_eq!((wrong.status, wrong.code().as_str()), (422, "bad_token"), "{wrong:?}");
    }
    assert_eq!(create(&daemon, "x", &["everything"]).await.status, 422);
    let listed = daemon.api("GET", "/api/v1/tokens", "", "").await;
    let secret = field.trim().rsplit(' ').next().unwrap();
    assert!(!listed.body.contains(secret) && secret.starts_with("cogwork_"), "{listed:?}");
    let entry = &listed.json()["tokens"][0];
    assert_eq!((&entry["name"], &entry["scopes"]), (&json!("ci"), &json!(["read", "run"])));
    assert_eq!(entry["createdBy"], "admin token");
    assert!(entry["usedAt"].is_string() && entry["expiresAt"].is_string(), "{entry}");
    // Nor is it anywhere in the data folder.
    for file in std::fs::read_dir(daemon.folder.path().join(".cogwork")).unwrap().flatten() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let is_in = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!is_in, "{:?} has the token", file.path());
    }
    assert_eq!(daemon.api("DELETE", "/api/v1/tokens/ci", "", "").await.status, 200);
    let over = daemon.api_without_token("GET", "/api/v1/status", &field, "").await;
    assert_eq!((over.status, over.code().as_str()), (401, "unauthorized"));
    assert_eq!(daemon.api("DELETE", "/api/v1/tokens/ci", "", "").await.status, 404);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the daemon of a test has the clock of the system")]
async fn a_token_expires() {
    let daemon = daemon(&[]).await;
    for valid_for in [0, -1, 4000 * 24 * 3600] {
        let body = json!({"name": "x", "scopes": ["read"], "validFor": valid_for}).to_string();
        assert_eq!(daemon.api("POST", "/api/v1/tokens", JSON, &body).await.code(), "bad_token");
    }
    let body = json!({"name": "short", "scopes": ["read"], "validFor": 1}).to_string();
    let created = daemon.api("POST", "/api/v1/tokens", JSON, &body).await.json();
    let field = format!("authorization: Bearer {}\r\n", created["token"].as_str().unwrap());
    let until: jiff::Timestamp = created["expiresAt"].as_str().unwrap().parse().unwrap();
    let deadline = until.checked_add(jiff::SignedDuration::from_secs(20)).unwrap();
    // It is valid until then and not after it: the requests themselves advance the time.
    loop {
        let before = jiff::Timestamp::now();
        let answer = daemon.api_without_token("GET", "/api/v1/status", &field, "").await;
        match answer.status {
            200 => assert!(before < until),
            401 => break assert!(jiff::Timestamp::now() >= until),
            status => panic!("{status}"),
        }
        assert!(before < deadline);
    }
}

/// The header fields of a session started with a link of this credential.
async fn session(daemon: &Daemon, field: &str, body: &str) -> String {
    let fields = if body.is_empty() { field.to_owned() } else { format!("{field}{JSON}") };
    let link = daemon.api_without_token("POST", "/api/v1/session/link", &fields, body).await;
    assert_eq!(link.status, 201, "{link:?}");
    let path = link.json()["path"].as_str().unwrap().to_owned();
    let login = json!({"token": path.strip_prefix("/login#").unwrap()}).to_string();
    let begun = daemon.api_without_token("POST", "/api/v1/session", JSON, &login).await;
    let cookie = begun.header("set-cookie").unwrap().split(';').next().unwrap();
    let secret = begun.json()["secret"].as_str().unwrap().to_owned();
    format!("cookie: {cookie}\r\nx-cogwork-session: {secret}\r\n")
}

#[tokio::test]
async fn a_session_has_the_scopes_of_its_token_and_ends_with_it() {
    let daemon = daemon(&[]).await;
    let reader = token(&daemon, "reader", &["read"]).await;
    let fields = session(&daemon, &reader, "").await;
    let shown = daemon.api_without_token("GET", "/api/v1/session", &fields, "").await;
    assert_eq!(shown.json()["scopes"], json!(["read"]));
    let get = |path: &'static str| daemon.api_without_token("GET", path, &fields, "");
    assert_eq!(get("/api/v1/status").await.status, 200);
    assert_eq!(get("/api/v1/secrets").await.code(), "scope_missing");
    let reload = daemon.api_without_token("POST", "/api/v1/reload", &fields, "").await;
    assert_eq!((reload.status, reload.code().as_str()), (403, "scope_missing"));
    let more = daemon
        .api_without_token(
            "POST",
            "/api/v1/session/link",
            &format!("{reader}{JSON}"),
            r#"{"scopes": ["admin"]}"#,
        )
        .await;
    assert_eq!(more.code(), "scope_missing");
    let admin = format!("authorization: Bearer {}\r\n", daemon.token);
    let fewer = session(&daemon, &admin, r#"{"scopes": ["run"]}"#).await;
    assert_eq!(daemon.api_without_token("GET", "/api/v1/status", &fewer, "").await.code(), "scope_missing");
    assert_eq!(daemon.api("DELETE", "/api/v1/tokens/reader", "", "").await.status, 200);
    assert_eq!(get("/api/v1/status").await.code(), "session_over");
}

#[tokio::test]
async fn the_audit_log_records_changes_and_no_reads_or_bodies() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let runner = token(&daemon, "runner", &["run", "read"]).await;
    let started = daemon
        .api_without_token(
            "POST",
            "/api/v1/automations/m/run",
            &format!("{runner}{JSON}"),
            r#"{"inputs": {"name": "canary-body"}}"#,
        )
        .await;
    assert_eq!(started.status, 202);
    let execution = started.execution().to_string();
    assert_eq!(started.header("location"), Some(format!("/api/v1/executions/{execution}").as_str()));
    daemon.api_without_token("GET", "/api/v1/status", &runner, "").await;
    daemon.api_without_token("POST", "/api/v1/reload", &runner, "").await;
    daemon.api("PUT", "/api/v1/secrets/wiki", JSON, r#"{"value": "canary-secret"}"#).await;
    daemon.api("POST", "/api/v1/validate", JSON, r#"{"path": "a.yaml", "text": ""}"#).await;
    let answer = daemon.api("GET", "/api/v1/audit", "", "").await;
    assert!(!answer.body.contains("canary"), "{answer:?}");
    let audit = answer.json();
    let entries: Vec<_> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            assert_eq!(entry["address"], "127.0.0.1");
            let line = [
                text("by"),
                text("action"),
                text("method"),
                text("path"),
                entry["status"].to_string(),
                text("execution"),
            ];
            line.join(" ").trim().to_owned()
        })
        .collect();
    assert_eq!(
        entries,
        [
            "admin token setSecret PUT /api/v1/secrets/wiki 200",
            "token runner reload POST /api/v1/reload 403",
            &format!("token runner start POST /api/v1/automations/m/run 202 {execution}"),
            "admin token createToken POST /api/v1/tokens 201",
        ]
    );
    let page = daemon.api("GET", "/api/v1/audit?limit=1", "", "").await.json();
    let next = page["next"].as_str().unwrap();
    let second = daemon.api("GET", &format!("/api/v1/audit?limit=1&until={next}"), "", "").await.json();
    assert_eq!(second["entries"][0], audit["entries"][1]);
}

/// The entries of the audit log, newest first, each as `by action status`.
async fn audited(daemon: &Daemon, query: &str) -> Vec<String> {
    let audit = daemon.api("GET", &format!("/api/v1/audit?{query}"), "", "").await.json();
    let line = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("by"), text("action"), entry["status"])
    };
    audit["entries"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn the_audit_log_records_logins_and_no_unauthenticated_request() {
    let daemon = daemon(&[]).await;
    let admin = format!("authorization: Bearer {}\r\n", daemon.token);
    let fields = session(&daemon, &admin, "").await;
    let failed = daemon.api_without_token("POST", "/api/v1/session", JSON, r#"{"token": "wrong"}"#).await;
    assert_eq!(failed.status, 401);
    assert_eq!(daemon.api_without_token("POST", "/api/v1/reload", "", "").await.status, 401);
    let forwarded = format!("{fields}x-forwarded-for: 203.0.113.9\r\n");
    assert_eq!(daemon.api_without_token("DELETE", "/api/v1/session", &forwarded, "").await.status, 204);
    assert_eq!(
        audited(&daemon, "").await,
        [
            "admin token in a browser logOut 204",
            "admin token in a browser logIn 201",
            "admin token createLink 201"
        ]
    );
    assert_eq!(audited(&daemon, "action=logIn&by=browser&about=session").await.len(), 1);
    assert_eq!(audited(&daemon, "action=logIn&by=ci").await.len(), 0);
    let newest = daemon.api("GET", "/api/v1/audit?limit=1", "", "").await.json();
    assert_eq!(newest["entries"][0]["forwardedFor"], "203.0.113.9");
}

#[tokio::test]
async fn the_audit_log_records_replays_cancellations_and_answers_but_no_dry_runs() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let run = |id: &'static str, body: &'static str| daemon.api("POST", id, JSON, body);
    let first = run("/api/v1/automations/m/run?wait=true", r#"{"inputs": {"name": "x"}}"#).await;
    assert_eq!(first.status, 200, "{first:?}");
    let replay = format!("/api/v1/executions/{}/replay", first.execution());
    assert_eq!(daemon.api("POST", &replay, JSON, r#"{"dryRun": true}"#).await.status, 200);
    let replayed = daemon.api("POST", &replay, JSON, "{}").await;
    let bulk = format!(r#"{{"action": "replay", "ids": ["{}"], "dryRun": true}}"#, first.execution());
    assert_eq!(daemon.api("POST", "/api/v1/executions/bulk", JSON, &bulk).await.status, 200);
    let cancel = format!("/api/v1/executions/{}/cancel", first.execution());
    let cancelled = daemon.api("POST", &cancel, "", "").await.status;
    let found = audited(&daemon, "").await;
    assert_eq!(
        found,
        [
            format!("admin token cancel {cancelled}"),
            "admin token replay 202".to_owned(),
            "admin token start 200".to_owned(),
        ]
    );
    let about = audited(&daemon, &format!("about={}", replayed.execution())).await;
    assert_eq!(about, ["admin token replay 202"], "the entry names the execution that the replay started");
}

#[tokio::test]
async fn webhook_addresses_are_hidden_from_credentials_without_run() {
    let daemon = daemon(&[("hook", crate::support::ASYNC)]).await;
    let reader = token(&daemon, "reader", &["read"]).await;
    let runner = token(&daemon, "runner", &["read", "run"]).await;
    for path in ["/api/v1/automations/hook", "/api/v1/automations"] {
        let hidden = daemon.api_without_token("GET", path, &reader, "").await;
        assert!(hidden.status == 200 && !hidden.body.contains("/trigger/"), "{hidden:?}");
        let shown = daemon.api_without_token("GET", path, &runner, "").await;
        assert!(shown.body.contains("/trigger/"), "{shown:?}");
    }
    assert_eq!(daemon.api("POST", "/api/v1/automations/hook/listen", "", "").await.status, 200);
    let listening = daemon.api_without_token("GET", "/api/v1/automations/hook/listen", &reader, "").await;
    assert!(listening.status == 200 && !listening.body.contains("/trigger/"), "{listening:?}");
}

#[tokio::test]
async fn an_open_stream_ends_when_its_token_is_revoked() {
    let daemon = daemon(&[]).await;
    let reader = token(&daemon, "reader", &["read"]).await;
    let bytes =
        crate::support::request(daemon.admin, "GET", "/api/v1/stream?topics=executions", &reader, b"");
    let mut stream = tokio::net::TcpStream::connect(daemon.admin).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes).await.unwrap();
    let head = crate::support::until(&mut stream, "\r\n\r\n").await;
    assert!(head.contains("text/event-stream"), "{head}");
    assert_eq!(daemon.api("DELETE", "/api/v1/tokens/reader", "", "").await.status, 200);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(10), crate::support::rest(&mut stream));
    ended.await.expect("the stream ends before its credential is checked again by time");
}

#[tokio::test]
async fn concurrent_requests_create_one_token_per_name() {
    let daemon = daemon(&[]).await;
    let (one, other) = tokio::join!(create(&daemon, "ci", &["read"]), create(&daemon, "ci", &["read"]));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
}

/// Waits for an answer.
const QUESTION: &str = "trigger: {manual: {}}
steps:
  - {id: ask, waitFor: {approval: {message: Ship it?}}, timeout: 1h}
";

#[tokio::test]
async fn a_resume_address_is_hidden_without_run_and_absent_from_the_audit_log() {
    let daemon = daemon(&[("question", QUESTION)]).await;
    let reader = token(&daemon, "reader", &["read"]).await;
    let mut notices = daemon.engine.subscribe();
    let started = daemon.api("POST", "/api/v1/automations/question/run", "", "").await;
    let path = format!("/api/v1/executions/{}", started.execution());
    let url = loop {
        let shown = daemon.api("GET", &path, "", "").await.json();
        if let Some(url) = shown["waiting"]["resumeUrl"].as_str() {
            break url.to_owned();
        }
        notices.recv().await.unwrap();
    };
    let hidden = daemon.api_without_token("GET", &path, &reader, "").await;
    assert!(hidden.json()["waiting"]["pauses"].is_array() && !hidden.body.contains("/resume/"), "{hidden:?}");
    let address = url.split_once("/resume/").map(|(_, token)| format!("/resume/{token}")).unwrap();
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    let answer = daemon.hook("POST", &address, form, b"option=approve").await;
    assert!(answer.status < 400, "{answer:?}");
    assert_eq!(daemon.hook("POST", "/resume/guessed", form, b"option=approve").await.status, 404);
    let audit = daemon.api("GET", "/api/v1/audit?action=answer", "", "").await;
    let entries = audit.json()["entries"].as_array().unwrap().clone();
    assert_eq!(entries.len(), 1, "{audit:?}");
    assert_eq!((&entries[0]["by"], &entries[0]["address"]), (&json!("resume address"), &json!("127.0.0.1")));
    assert_eq!(entries[0]["path"], format!("{path}/signal"));
    assert!(!audit.body.contains(&address), "{audit:?}");
}

#[tokio::test]
async fn the_number_of_tokens_is_bounded() {
    const SCOPE: &str = "tokens:";
    let daemon = daemon(&[]).await;
    assert_eq!(create(&daemon, "first", &["read"]).await.status, 201);
    let store = daemon.engine.store();
    let first = store.list_state(SCOPE, None, 1).await.unwrap().remove(0);
    // The others are stored like the first one.
    let other = |number: u32| store::StateWrite {
        scope: SCOPE.to_owned(),
        key: format!("other-{number}"),
        expected: None,
        value: Some(first.entry.value.clone()),
        expires_at: first.entry.expires_at,
    };
    store.write_state((2..500).map(other).collect()).await.unwrap();
    assert_eq!(create(&daemon, "last", &["read"]).await.status, 201);
    let refused = create(&daemon, "further", &["read"]).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "too_many_tokens"));
}
