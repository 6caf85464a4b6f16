//! Sessions of browsers: the link, the cookie, the second secret.

use std::time::Duration;

use crate::support::{Answer, Daemon, daemon};

const JSON: &str = "content-type: application/json\r\n";

/// The token of a new login link.
async fn link(daemon: &Daemon) -> String {
    let answer = daemon.api("POST", "/api/v1/session/link", "", "").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let path = answer.json()["path"].as_str().unwrap().to_owned();
    path.strip_prefix("/login#").unwrap().to_owned()
}

async fn log_in(daemon: &Daemon, token: &str, fields: &str) -> Answer {
    let body = format!("{{\"token\": \"{token}\"}}");
    daemon.api_without_token("POST", "/api/v1/session", &format!("{JSON}{fields}"), &body).await
}

/// The `cookie` field and the field with the second secret of a new session.
pub(crate) async fn session(daemon: &Daemon) -> (String, String) {
    let answer = log_in(daemon, &link(daemon).await, "").await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
    let secret = answer.json()["secret"].as_str().unwrap().to_owned();
    (format!("cookie: other=1; {cookie}\r\n"), format!("x-cogwork-session: {secret}\r\n"))
}

#[tokio::test]
async fn a_login_link_starts_one_session_with_an_http_only_cookie() {
    let daemon = daemon(&[]).await;
    let token = link(&daemon).await;
    let answer = log_in(&daemon, &token, "").await;
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with(&format!("cogwork_{}=", daemon.admin.port())), "{cookie}");
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "it is plain HTTP: {cookie}");
    let again = log_in(&daemon, &token, "").await;
    assert_eq!((again.status, again.code().as_str()), (401, "link_over"));
    let wrong = log_in(&daemon, "AAAA", "").await;
    assert_eq!((wrong.status, wrong.code().as_str()), (401, "link_over"));
}

#[tokio::test]
async fn a_session_over_https_gets_a_secure_host_only_cookie() {
    let daemon = daemon(&[]).await;
    let origin = format!("origin: https://{}\r\n", daemon.admin);
    let answer = log_in(&daemon, &link(&daemon).await, &origin).await;
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-cogwork_") && cookie.ends_with("; Secure"), "{cookie}");
    let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
    let secret = format!("x-cogwork-session: {}\r\n", answer.json()["secret"].as_str().unwrap());
    let answer = daemon.api_without_token("GET", "/api/v1/status", &format!("{cookie}{secret}"), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn every_request_by_cookie_needs_the_session_header() {
    let daemon = daemon(&[]).await;
    let (cookie, secret) = session(&daemon).await;
    for (method, path) in crate::access::operations() {
        if crate::access::begins_session(&method, &path) {
            continue; // It needs no session.
        }
        let half = daemon.api_without_token(&method, &path, &cookie, "").await;
        assert_eq!((half.status, half.code().as_str()), (403, "session_header_missing"), "{method} {path}");
        let other = daemon.api_without_token(&method, &path, &secret, "").await;
        assert_eq!((other.status, other.code().as_str()), (401, "unauthorized"), "{method} {path}");
        let wrong = format!("{cookie}x-cogwork-session: AAAA\r\n");
        let wrong = daemon.api_without_token(&method, &path, &wrong, "").await;
        assert_eq!((wrong.status, wrong.code().as_str()), (401, "session_over"), "{method} {path}");
    }
    let whole = daemon.api_without_token("GET", "/api/v1/status", &format!("{cookie}{secret}"), "").await;
    assert_eq!(whole.status, 200, "{whole:?}");
}

#[tokio::test]
async fn a_session_rejects_cross_site_reads() {
    let daemon = daemon(&[]).await;
    let (cookie, secret) = session(&daemon).await;
    for site in ["sec-fetch-site: same-site\r\n", "origin: http://127.0.0.1:1\r\n"] {
        let fields = format!("{cookie}{secret}{site}");
        let answer = daemon.api_without_token("GET", "/api/v1/status", &fields, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "cross_site"), "{site}");
    }
}

#[tokio::test]
async fn a_session_is_renewed_by_use_and_ends_on_logout() {
    let daemon = daemon(&[]).await;
    let (cookie, secret) = session(&daemon).await;
    let both = format!("{cookie}{secret}");
    let shown = daemon.api_without_token("GET", "/api/v1/session", &both, "").await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let until: jiff::Timestamp = shown.json()["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!(until > daemon.engine.clock().now() + Duration::from_secs(11 * 3600));
    assert!(shown.header("set-cookie").unwrap().contains("Max-Age=43200"));
    assert!(shown.json().get("secret").is_none(), "it is given once");
    let ended = daemon.api_without_token("DELETE", "/api/v1/session", &both, "").await;
    assert_eq!(ended.status, 204, "{ended:?}");
    assert!(ended.header("set-cookie").unwrap().contains("Max-Age=0"));
    let after = daemon.api_without_token("GET", "/api/v1/session", &both, "").await;
    assert_eq!((after.status, after.code().as_str()), (401, "session_over"));
    let by_token = daemon.api("GET", "/api/v1/session", "", "").await;
    let shown = serde_json::json!({"name": "admin token", "scopes": ["admin"]});
    assert_eq!((by_token.status, by_token.json()), (200, shown), "it has no end and no secret");
}

#[tokio::test]
async fn the_files_of_the_ui_need_no_credential_and_have_a_strict_policy() {
    let daemon = daemon(&[]).await;
    for path in ["/", "/login", "/executions/0190a0a0", "/index.html"] {
        let answer = daemon.api_without_token("GET", path, "", "").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert_eq!(answer.header("cache-control"), Some("no-cache"), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("script-src 'self'") && policy.contains("require-trusted-types-for"),
            "{policy}"
        );
        let tag = answer.header("etag").unwrap();
        let known = daemon.api_without_token("GET", path, &format!("if-none-match: {tag}\r\n"), "").await;
        assert_eq!((known.status, known.body.as_str()), (304, ""));
    }
    for path in ["/assets/none.js", "/assets/", "/api"] {
        let answer = daemon.api("GET", path, "", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
    let posted = daemon.api("POST", "/", "", "").await;
    assert_eq!(posted.status, 404, "{posted:?}");
}
