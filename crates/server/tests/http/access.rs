//! Every route of the admin listener, under every access rule.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::described::parameters;
use crate::sessions::session;
use crate::support::{ASYNC, Answer, Daemon, MANUAL, daemon, request, talk};

/// The HTTP methods that a router could handle.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Each operation of the API description, with values for its path parameters.
pub(crate) fn operations() -> Vec<(String, String)> {
    let api: Value = serde_json::from_str(server::openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let path = path
                .replace("{id}", "0190a0a0-0000-7000-8000-000000000000")
                .replace("{name}", "nobody")
                .replace("{path}", "automations%2Fnone.yaml");
            operations.push((method.to_uppercase(), path));
        }
    }
    assert!(operations.len() >= 16, "{operations:?}");
    operations
}

/// True for the routes that start a session, which need no credential.
pub(crate) fn begins_session(method: &str, path: &str) -> bool {
    match path {
        "/api/v1/session" | "/api/v1/session/provider/return" => method == "POST",
        "/api/v1/session/provider" => matches!(method, "GET" | "POST"),
        _ => false,
    }
}

fn secured(answer: &Answer) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    assert!(
        answer
            .header("content-security-policy")
            .is_some_and(|policy| policy.starts_with("default-src 'none'"))
    );
    assert!(!answer.head.to_ascii_lowercase().contains("access-control-"), "{answer:?}");
}

fn refused(answer: &Answer, status: u16, code: &str) {
    secured(answer);
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    assert_eq!(problem["type"], format!("urn:cogwork:problem:{code}"));
    assert!(problem["title"].is_string() && problem["detail"].is_string());
}

#[tokio::test]
async fn no_route_responds_without_the_token() {
    let daemon = daemon(&[]).await;
    let mut operations = operations();
    operations.extend([
        ("GET".to_owned(), "/metrics".to_owned()),
        ("POST".to_owned(), "/api/v1/nothing".to_owned()),
    ]);
    operations.retain(|(method, path)| !begins_session(method, path));
    for (method, path) in operations {
        for fields in ["", "authorization: Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n"] {
            let answer = daemon.api_without_token(&method, &path, fields, "").await;
            refused(&answer, 401, "unauthorized");
            assert!(answer.header("www-authenticate").is_some_and(|scheme| scheme.starts_with("Bearer")));
        }
    }
}

/// The status of the response to a request by any method.
async fn status(daemon: &Daemon, method: &str, path: &str, fields: &str) -> u16 {
    Answer::parse(&talk(daemon.admin, &request(daemon.admin, method, path, fields, b"")).await).status
}

/// A test beside the table of routes checks that each path of the router is described.
#[tokio::test]
async fn every_path_rejects_every_method_without_complete_credentials() {
    let daemon = daemon(&[]).await;
    let (cookie, secret) = session(&daemon).await;
    let wrong = format!("{cookie}x-cogwork-session: AAAA\r\n");
    let mut paths: BTreeSet<String> = operations().into_iter().map(|(_, path)| path).collect();
    assert!(paths.contains("/metrics") && paths.contains("/api/v1/stream"), "{paths:?}");
    paths.extend(["/api", "/api/v1", "/api/v1/nothing", "/api/v2/status", "/metrics/all"].map(str::to_owned));
    // The pages and the manual are public, since they contain no data and accept nothing.
    let pages = ["/", "/executions", "/login", "/assets/none.js", "/manual", "/manual/", "/manual/none.html"];
    let is_public = |method: &str, path: &str| {
        begins_session(method, path) || (pages.contains(&path) && matches!(method, "GET" | "HEAD"))
    };
    let mut refused = 0;
    for path in paths.iter().map(String::as_str).chain(pages) {
        for method in METHODS.into_iter().filter(|method| !is_public(method, path)) {
            for (shown, fields, expected) in [
                ("nothing", "", 401),
                ("a cookie", &cookie, 403),
                ("a secret", &secret, 401),
                ("a wrong secret", &wrong, 401),
            ] {
                let found = status(&daemon, method, path, fields).await;
                assert_eq!(found, expected, "{method} {path} with {shown}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1500, "{refused}");
    for path in pages.into_iter().filter(|path| !path.contains("none")) {
        assert!(matches!(status(&daemon, "GET", path, "").await, 200 | 308), "{path}");
    }
}

#[tokio::test]
async fn no_route_responds_under_an_unknown_host() {
    let daemon = daemon(&[]).await;
    for (method, path) in operations().into_iter().chain([("GET".to_owned(), "/".to_owned())]) {
        refused(&daemon.api(&method, &path, "host: rebound.example\r\n", "").await, 421, "unknown_host");
    }
}

#[tokio::test]
async fn no_route_accepts_changes_from_another_site() {
    let daemon = daemon(&[]).await;
    for (method, path) in operations().into_iter().filter(|(method, _)| method != "GET") {
        for fields in ["origin: null\r\n", "origin: http://evil.example\r\n", "sec-fetch-site: same-site\r\n"]
        {
            refused(&daemon.api(&method, &path, fields, "").await, 403, "cross_site");
        }
    }
    let preflight = daemon.api("OPTIONS", "/api/v1/reload", "origin: http://evil.example\r\n", "").await;
    refused(&preflight, 405, "method_not_allowed");
    assert_eq!(preflight.header("allow"), Some("POST"));
}

#[tokio::test]
async fn every_described_operation_exists() {
    let daemon = daemon(&[]).await;
    for (method, path) in operations() {
        if path.ends_with("/events") && !path.contains("executions") {
            continue; // It never ends, which the streams' own tests look at.
        }
        let answer = daemon.api(&method, &path, "", "").await;
        assert_ne!(answer.status, 405, "{method} {path}");
        assert!(answer.status != 404 || answer.code() != "not_found", "{method} {path}");
        secured(&answer);
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problem_responses() {
    let daemon = daemon(&[]).await;
    for path in ["/api", "/api/v1", "/api/v1/status/", "/assets/x.js"] {
        refused(&daemon.api("GET", path, "", "").await, 404, "not_found");
    }
    refused(&daemon.api("POST", "/trigger/x", "", "").await, 404, "not_found");
    refused(&daemon.api("DELETE", "/api/v1/status", "", "").await, 405, "method_not_allowed");
    refused(&daemon.api("GET", "/api/v1/automations/%ff", "", "").await, 400, "bad_path");
}

async fn post(daemon: &Daemon, fields: &str, body: &str) -> Answer {
    daemon.api("POST", "/api/v1/automations/m/run", fields, body).await
}

#[tokio::test]
async fn a_body_must_be_json_of_the_right_schema_and_size() {
    let daemon = daemon(&[("m", MANUAL)]).await;
    let json = "content-type: application/json; charset=utf-8\r\n";
    refused(&post(&daemon, "content-type: text/plain\r\n", "{}").await, 415, "unsupported_media_type");
    refused(&post(&daemon, "", "{}").await, 415, "unsupported_media_type");
    refused(&post(&daemon, json, "{").await, 400, "bad_json");
    refused(&post(&daemon, json, &"[".repeat(10_000)).await, 400, "bad_json");
    refused(&post(&daemon, json, "{\"input\":{}}").await, 422, "bad_body");
    refused(&post(&daemon, json, "[]").await, 422, "bad_body");
    refused(&post(&daemon, json, &" ".repeat((1 << 20) + 1)).await, 413, "payload_too_large");
    assert_eq!(post(&daemon, json, "{\"inputs\":{\"name\":\"Ada\"}}").await.status, 202);
}

#[tokio::test]
async fn every_operation_refuses_unknown_parameters_and_takes_its_own() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    for (method, path) in operations() {
        let names = parameters(&method, &path);
        let refused = daemon.api(&method, &format!("{path}?nonsense=1"), "", "").await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "bad_query"), "{method} {path}");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("no parameter `nonsense`"), "{method} {path}: {detail}");
        assert!(!names.is_empty() || detail.ends_with("takes no parameters"), "{method} {path}: {detail}");
        for name in names {
            assert!(detail.contains(&format!("`{name}`")), "{method} {path}: {detail}");
            let own = daemon.api(&method, &format!("{path}?{name}=1"), "", "").await;
            assert!(!own.body.contains("there is no parameter"), "{method} {path}: {own:?}");
        }
    }
}

#[tokio::test]
async fn a_misspelt_parameter_gets_the_nearest_name_and_no_credential_learns_nothing() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let detail = async |path: &str| {
        let answer = daemon.api("GET", path, "", "").await;
        answer.json()["detail"].as_str().unwrap_or_default().to_owned()
    };
    let takes = "there is no parameter `automation` at this address, which takes no parameters";
    assert_eq!(detail("/api/v1/messages?automation=a").await, takes);
    let found = detail("/api/v1/audit?limit=1&Since=2026-01-01").await;
    assert!(
        found.starts_with("there is no parameter `Since` at this address, which takes `since`,"),
        "{found}"
    );
    assert!(found.ends_with("; did you mean `since`?"), "{found}");
    let head = daemon.api("HEAD", "/api/v1/audit?limits=1", "", "").await;
    assert_eq!(head.status, 400);
    for path in ["/api/v1/messages?", "/api/v1/audit?&limit=1&"] {
        assert_eq!(daemon.api("GET", path, "", "").await.status, 200, "{path}");
    }
    let stranger = daemon.api_without_token("GET", "/api/v1/messages?automation=a", "", "").await;
    assert_eq!(stranger.status, 401);
}
