//! Nothing takes for ever, and nothing takes everything.

use std::time::Duration;

use server::ServerOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{ASYNC, Answer, daemon, daemon_with, rest, until};

const SHORT: Duration = Duration::from_millis(30);

#[tokio::test]
async fn a_head_that_misses_its_deadline_closes_the_connection() {
    let daemon = daemon_with(&[], |options| options.deadlines.head = SHORT).await;
    let mut silent = TcpStream::connect(daemon.hooks).await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    let mut slow = TcpStream::connect(daemon.hooks).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nx: ").await.unwrap();
    assert_eq!(rest(&mut slow).await, "");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let daemon = daemon_with(&[], |options| options.deadlines.keep_alive = SHORT).await;
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

async fn slow_body(change: impl FnOnce(&mut ServerOptions), body: &[u8]) -> Answer {
    let daemon = daemon_with(&[("a", ASYNC)], change).await;
    let head = format!("POST {} HTTP/1.1\r\nhost: a\r\ncontent-length: 5000\r\n\r\n", daemon.path("a"));
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let answer = Answer::parse(&rest(&mut stream).await);
    assert_eq!(daemon.executions().await, 0);
    answer
}

#[tokio::test]
async fn a_body_that_misses_its_deadline_gets_408() {
    let answer = slow_body(|options| options.deadlines.body = SHORT, b"{").await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_too_slow"));
    assert_eq!(answer.header("connection"), Some("close"));
}

#[tokio::test]
async fn a_body_below_the_minimum_throughput_gets_408() {
    let pace = |options: &mut ServerOptions| {
        options.deadlines.body_grace = SHORT;
        options.deadlines.body_pace = 1 << 20;
    };
    let answer = slow_body(pace, &[b' '; 4000]).await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_too_slow"));
}

const SMALL: &str = "trigger:\n  webhook:\n    maxBody: 1KiB\nsteps:\n  - stop:\n      result: 1\n";

#[tokio::test]
async fn a_declared_length_over_the_limit_gets_413_before_the_body_is_read() {
    let daemon = daemon(&[("a", SMALL)]).await;
    let fields = "expect: 100-continue\r\ncontent-length: 1025\r\n";
    let head = format!("POST {} HTTP/1.1\r\nhost: a\r\n{fields}\r\n", daemon.path("a"));
    // Not a byte of the body is sent: the answer comes all the same, and no `100 Continue` before it.
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = Answer::parse(&until(&mut stream, "}").await);
    assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
}

#[tokio::test]
async fn a_chunked_body_over_the_limit_gets_413() {
    let daemon = daemon(&[("a", SMALL)]).await;
    let chunk = format!("200\r\n{}\r\n", " ".repeat(0x200));
    let head = format!("POST {} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n", daemon.path("a"));
    let answer = Answer::parse(&daemon.hook_bytes(format!("{head}{}", chunk.repeat(3)).as_bytes()).await);
    assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
    assert_eq!(daemon.executions().await, 0);
}

#[tokio::test]
async fn a_client_that_sends_too_much_still_receives_the_413_response() {
    let daemon = daemon(&[("a", SMALL)]).await;
    let answer = daemon.hook("POST", &daemon.path("a"), "", &vec![b' '; 8 << 20]).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
}

#[tokio::test]
async fn expect_continue_is_honoured() {
    let daemon = daemon(&[("a", ASYNC)]).await;
    let fields = "expect: 100-continue\r\nconnection: close\r\ncontent-length: 2\r\n";
    let head = format!("POST {} HTTP/1.1\r\nhost: a\r\n{fields}\r\n", daemon.path("a"));
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(until(&mut stream, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{}").await.unwrap();
    let answer = Answer::parse(&rest(&mut stream).await);
    assert_eq!(answer.status, 200);
    answer.execution();
}

#[tokio::test]
async fn bodies_share_a_memory_budget() {
    let daemon = daemon_with(&[("a", ASYNC)], |options| options.body_budget = 100).await;
    let path = daemon.path("a");
    let mut first = TcpStream::connect(daemon.hooks).await.unwrap();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 80\r\n\r\n");
    first.write_all(head.as_bytes()).await.unwrap();
    until(&mut first, "\r\n\r\n").await;
    let text = "content-type: text/plain\r\n";
    let answer = daemon.hook("POST", &path, text, &[b' '; 101]).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "busy"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    // Bytes that have not arrived do not count: a large declared length locks nobody out.
    assert_eq!(daemon.hook("POST", &path, text, &[b' '; 100]).await.status, 200);
    assert_eq!(daemon.hook("POST", &path, text, &[b' '; 100]).await.status, 200, "the budget is given back");
    // A file stays where it is.
    assert_eq!(daemon.hook("POST", &path, "content-type: image/png\r\n", &[b' '; 101]).await.status, 200);
}

#[tokio::test]
async fn a_dropped_connection_frees_its_slot() {
    let daemon = daemon_with(&[], |options| {
        options.hook_limits.connections = 1;
        options.deadlines.keep_alive = Duration::from_secs(3600);
    });
    let daemon = daemon.await;
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    until(&mut stream, "}").await;
    drop(stream);
    let next = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    while !daemon.hook_bytes(next).await.starts_with("HTTP/1.1 200") {}
}

async fn third_connection(change: impl FnOnce(&mut ServerOptions)) -> String {
    let daemon = daemon_with(&[], change).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        until(&mut stream, "}").await;
        held.push(stream);
    }
    let mut third = TcpStream::connect(daemon.hooks).await.unwrap();
    let refused = rest(&mut third).await;
    // A place that is given back can be taken again.
    let first = &mut held[0];
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    rest(first).await;
    loop {
        // The other side notices that it has closed a little after we do.
        let answer =
            daemon.hook_bytes(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 200") {
            return refused;
        }
    }
}

#[tokio::test]
async fn connections_over_the_limit_get_503() {
    let refused = third_connection(|options| options.hook_limits.connections = 2).await;
    assert_eq!(Answer::parse(&refused).status, 503);
    let refused = third_connection(|options| {
        options.hook_limits.connections_per_peer = 2;
        options.hook_limits.loopback_exempt = false;
    });
    assert_eq!(Answer::parse(&refused.await).code(), "connections");
}

/// Sends bytes and gives the beginning of what comes back.
async fn first_bytes(stream: &mut TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    String::from_utf8_lossy(&start).into_owned()
}

#[tokio::test]
async fn unauthenticated_connections_never_block_authenticated_ones() {
    let daemon = daemon(&[]).await;
    let known = format!(
        "GET /api/v1/automations HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        daemon.admin, daemon.token
    );
    let mut idle = TcpStream::connect(daemon.admin).await.unwrap();
    assert_eq!(first_bytes(&mut idle, known.as_bytes()).await, "HTTP/1.1 200");
    let mut strangers = Vec::new();
    for _ in 0..130 {
        strangers.push(TcpStream::connect(daemon.admin).await.unwrap());
    }
    // Its connection is that of a stranger until it shows the token.
    assert_eq!(daemon.api("GET", "/api/v1/automations", "", "").await.status, 200);
    for stranger in &mut strangers[..3] {
        assert_eq!(rest(stranger).await, "", "the oldest were closed");
    }
    let open = strangers[3..].iter().filter(|stranger| stranger.try_read(&mut [0]).is_err());
    assert_eq!(open.count(), 127);
    // A client with the token keeps its connection, whatever strangers do; the rest of the first response comes first.
    idle.write_all(known.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    assert!(rest(&mut idle).await.contains("HTTP/1.1 200 OK"));
}
