//! Servers that break the protocol, or send without end.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{PASSWORD, PATIENCE, fails};

/// Answers each connection with these bytes, again and again if `repeats` is true, and then reads until they end.
fn server(bytes: Vec<u8>, repeats: bool) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Else the end of the connection could overtake the answer.
            let mut greeting = [0; 8];
            if stream.read_exact(&mut greeting).is_ok() {
                while stream.write_all(&bytes).is_ok() && repeats {}
                drop(std::io::copy(&mut stream, &mut std::io::sink()));
            }
        }
    });
    port
}

/// Checks the error of a server whose answer to the login is `bytes`.
async fn answers(bytes: &[u8], repeats: bool, expected: &str) {
    let port = server(bytes.to_vec(), repeats);
    let with = json!({"host": "127.0.0.1", "port": port, "tls": "none", "password": PASSWORD});
    let event = ("redis.message", super::broker::inputs());
    let failed = fails("redis.server", (with, &["127.0.0.1"]), event, "redis.serverInfo");
    let error = tokio::time::timeout(PATIENCE * 3, failed).await.expect("it ends");
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn a_server_of_another_protocol_is_refused() {
    let expected = "the connection to the Redis server failed: it does not speak the protocol of Redis";
    answers(b"HTTP/1.1 400 Bad Request\r\n\r\n", false, expected).await;
    answers(b"AMQP\x00\x00\x09\x01", false, expected).await;
    answers(b"$five\r\n", false, expected).await;
}

#[tokio::test]
async fn sizes_and_depths_without_a_limit_are_not_awaited() {
    let failed = |reason: &str| format!("the connection to the Redis server failed: {reason}");
    answers(b"$9223372036854775807\r\n", false, &failed("a value is larger than 1 GiB")).await;
    let lists = failed("a reply has too many values, or too deep lists");
    answers(b"*2147483647\r\n", false, &lists).await;
    answers(&b"*1\r\n".repeat(100_000), false, &lists).await;
}

#[tokio::test]
async fn an_answer_without_an_end_ends_within_its_limits() {
    let line = "the connection to the Redis server failed: a line of its reply is longer than 64 KiB";
    answers(&[b'+'; 4096], true, line).await;
    let many = "the connection to the Redis server failed: a reply has too many values";
    answers(b"*80000\r\n*80000\r\n", true, &format!("{many}, or too deep lists")).await;
    answers(&[b"*1\r\n*5000000\r\n".as_slice(), &b":1\r\n".repeat(4000)].concat(), true, many).await;
}

#[tokio::test]
async fn a_value_that_comes_slowly_and_never_whole_holds_little_memory() {
    // The server announces 1 GiB and sends 256 MiB of it; all but the first 8 MiB is dropped as it comes.
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            drop(stream.write_all(b"$1073741824\r\n"));
            let chunk = vec![b'x'; 1 << 20];
            for _ in 0..256 {
                if stream.write_all(&chunk).is_err() {
                    break;
                }
            }
            drop(std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    let before = peak();
    let with = json!({"host": "127.0.0.1", "port": port, "tls": "none", "password": PASSWORD});
    let event = ("redis.message", super::broker::inputs());
    let failed = fails("redis.server", (with, &["127.0.0.1"]), event, "redis.serverInfo");
    let error = tokio::time::timeout(Duration::from_secs(60), failed).await.expect("it ends");
    assert_eq!(error.kind.to_string(), "timeout", "{error:?}");
    // The other tests of this process run beside it, if they run in one process.
    assert!(peak() - before < 96 << 10, "{} KiB", peak() - before);
}

#[tokio::test]
async fn a_refusal_that_repeats_the_password_hides_it() {
    let words = format!("-WRONGPASS no account with {PASSWORD}\r\n");
    let expected = "the connection `bus` cannot be used: the Redis server refuses the login";
    answers(words.as_bytes(), false, expected).await;
}

/// The largest memory of this process so far, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a file");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).expect("a size")
}
