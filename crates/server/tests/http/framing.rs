//! Requests that two readers could take differently are answered 400, and their connection ends there.

use crate::support::{ASYNC, Answer, Daemon, daemon, daemon_with, request};

/// `fields` end with a line end each.
async fn check(daemon: &Daemon, head: &str, rest: &str, status: u16, code: &str) {
    let answer = daemon.hook_bytes(format!("{head}\r\n{rest}").as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head:?}: {answer}");
    let answer = Answer::parse(&answer);
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{head:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{head:?}");
}

#[tokio::test]
async fn content_length_with_chunked_encoding_starts_and_smuggles_nothing() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let path = daemon.path("a");
    let second = format!("POST {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    for fields in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{fields}");
        check(&daemon, &head, &format!("0\r\n\r\n{second}"), 400, "bad_framing").await;
    }
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn ambiguous_framing_headers_are_rejected() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let path = daemon.path("a");
    for fields in [
        "content-length: 2\r\ncontent-length: 2\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, chunked\r\n",
    ] {
        check(&daemon, &format!("POST {path} HTTP/1.1\r\nhost: a\r\n{fields}"), "{}", 400, "bad_framing")
            .await;
    }
    check(&daemon, &format!("GET {path} HTTP/1.1\r\nhost: a\nx: y\r\n"), "", 400, "bad_framing").await;
    let repeated = format!("GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: x\r\nauthorization: y\r\n");
    check(&daemon, &repeated, "", 400, "repeated_header").await;
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn a_request_that_the_http_parser_rejects_closes_the_connection() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let path = daemon.path("a");
    for head in [
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"),
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\n"),
        format!("POST {path} HTTP/1.1\r\nhost: a\r\nx: y\r\n folded\r\n\r\n"),
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length : 2\r\n\r\n{{}}"),
        format!("POST {path} HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        "\0\0\0\0\r\n\r\n".to_owned(),
    ] {
        let answer = daemon.hook_bytes(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer:?}");
    }
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn malformed_hosts_and_targets_are_rejected() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let path = daemon.path("a");
    check(&daemon, &format!("GET {path} HTTP/1.1\r\n"), "", 400, "bad_host").await;
    check(&daemon, &format!("GET {path} HTTP/1.1\r\nhost: a b\r\n"), "", 400, "bad_host").await;
    check(&daemon, &format!("GET {path} HTTP/1.1\r\nhost: a\r\nhost: a\r\n"), "", 400, "repeated_header")
        .await;
    check(&daemon, &format!("GET http://a{path} HTTP/1.1\r\nhost: a\r\n"), "", 400, "bad_target").await;
    check(&daemon, "CONNECT a:80 HTTP/1.1\r\nhost: a\r\n", "", 400, "bad_target").await;
    check(&daemon, "OPTIONS * HTTP/1.1\r\nhost: a\r\n", "", 400, "bad_target").await;
    check(&daemon, &format!("GET {path}/é HTTP/1.1\r\nhost: a\r\n"), "", 400, "bad_target").await;
    for path in
        ["/trigger/..", "/trigger/%00", "/trigger/a%2fb", "/trigger/a%5Cb", "/./trigger/x", "/%74rigger/x"]
    {
        check(&daemon, &format!("GET {path} HTTP/1.1\r\nhost: a\r\n"), "", 400, "bad_path").await;
    }
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn request_heads_are_limited_in_size() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let path = daemon.path("a");
    let (long, longer) = ("a".repeat(8 << 10), "a".repeat(16 << 10));
    check(&daemon, &format!("GET {path}/{long} HTTP/1.1\r\nhost: a\r\n"), "", 414, "target_too_long").await;
    check(
        &daemon,
        &format!("GET {path} HTTP/1.1\r\nhost: a\r\nx: {longer}\r\n"),
        "",
        431,
        "header_too_large",
    )
    .await;
    let many = "x: y\r\n".repeat(64);
    check(&daemon, &format!("GET {path} HTTP/1.1\r\nhost: a\r\n{many}"), "", 431, "header_too_large").await;
    let endless = format!("GET {path} HTTP/1.1\r\nhost: a\r\nx: {}", "a".repeat(1 << 20));
    assert!(daemon.hook_bytes(endless.as_bytes()).await.starts_with("HTTP/1.1 431 "));
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn valid_requests_can_be_pipelined_on_one_connection() {
    let daemon = daemon_with(&[("a", ASYNC)], |_| ()).await;
    let path = daemon.path("a");
    let chunked = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\n{{}}\r\n0\r\nt: v\r\n\r\n"
    );
    let mut bytes = format!("{chunked}{chunked}").into_bytes();
    bytes.extend_from_slice(&request(
        daemon.hooks,
        "POST",
        &path,
        "",
        b"[\"HTTP/1.1 200 is only text here\r\n\r\n\"]",
    ));
    let answers = daemon.hook_bytes(&bytes).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
    // The third is no JSON text but needs none: it has no content type.
    assert_eq!(answers.matches("executionId").count(), 3, "{answers}");
}

#[tokio::test]
async fn the_admin_listener_has_the_same_framing_checks() {
    let daemon = daemon(&[]).await;
    let head = "POST /api/v1/reload HTTP/1.1\r\nhost: localhost\r\n";
    for (fields, code) in [
        ("content-length: 2\r\ncontent-length: 2\r\n", "bad_framing"),
        ("host: localhost\r\n", "repeated_header"),
    ] {
        let bytes = format!("{head}{fields}\r\n{{}}");
        let answer = Answer::parse(&crate::support::talk(daemon.admin, bytes.as_bytes()).await);
        assert_eq!((answer.status, answer.code().as_str()), (400, code));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("connection"), Some("close"));
    }
}
