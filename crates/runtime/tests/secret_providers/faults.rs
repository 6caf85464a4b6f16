//! Providers that are killed, frozen, slow, or answer nonsense. No read waits without a limit, and no message has a value.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::servers::Server;
use super::{Credential, Fixture, VaultLogin, found, vault};

#[tokio::test]
async fn a_killed_provider_leaves_its_values_in_use_until_the_limit_and_is_used_again_when_it_is_back() {
    let Some(server) = Server::openbao(None).await else { return };
    let port = server.port;
    server.put("token", json!({"value": "kept-canary"})).await;
    let fixture = Fixture::root(&server);
    assert_eq!(fixture.read("token").await, found("kept-canary"));
    drop(server);
    fixture.clock.advance(Duration::from_secs(600));
    assert_eq!(fixture.read("token").await, found("kept-canary"), "it is used while the provider fails");
    let listed = fixture.listed("token").expect("it is listed");
    assert!(listed.readable && listed.error.is_some_and(|error| error.contains("vault:corp")));
    fixture.clock.advance(Duration::from_secs(3001));
    let error = fixture.read("token").await.expect_err("an hour is over");
    assert!(error.contains("vault:corp") && !error.contains("canary"), "{error}");
    let Some(server) = Server::openbao(Some(port)).await else { return };
    server.put("token", json!({"value": "back-canary"})).await;
    assert!(fixture.read("token").await.is_err(), "it was asked a moment ago");
    fixture.clock.advance(Duration::from_secs(6));
    assert_eq!(fixture.read("token").await, found("back-canary"));
    assert_eq!(fixture.listed("token").and_then(|listed| listed.error), None);
}

#[tokio::test]
async fn a_frozen_provider_costs_one_time_limit_and_not_one_for_each_reader() {
    let Some(server) = Server::openbao(None).await else { return };
    server.put("token", json!({"value": "canary"})).await;
    let fixture = Fixture::root(&server);
    server.freeze(true);
    let began = Instant::now();
    let reads = futures_util::future::join_all((0..50).map(|_| fixture.read("token"))).await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert!(reads.iter().all(|read| read.as_ref().is_err_and(|error| error.contains("vault:corp"))));
    let began = Instant::now();
    assert!(fixture.read("token").await.is_err());
    assert!(began.elapsed() < Duration::from_secs(1), "it is not asked again at once");
    server.freeze(false);
    fixture.clock.advance(Duration::from_secs(6));
    assert_eq!(fixture.read("token").await, found("canary"));
}

/// Answers every request with these bytes. Returns its address.
async fn nonsense(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 8192]).await;
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn nonsense_is_an_error_that_repeats_nothing_of_it() {
    let large = "canary-answer".repeat(800_000);
    let json =
        r#"{"data": {"data": "canary-answer", "metadata": {"version": 1}}, "lease_duration": "canary"}"#;
    for (name, body, head) in [
        ("10 MiB", large.as_str(), "200 OK"),
        ("garbage", "\u{0}\u{1}canary-answer", "200 OK"),
        ("wrong types", json, "200 OK"),
        ("a page of a proxy", "<html>canary-answer</html>", "502 Bad Gateway"),
        ("a refusal", r#"{"errors": ["canary-answer"]}"#, "403 Forbidden"),
        ("no JSON at all", "canary-answer", "404 Found Nothing"),
    ] {
        let answer =
            format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let login = VaultLogin::Token(Credential::Secret("bootstrapToken".to_owned()));
        let settings = vault(&nonsense(answer.into_bytes()).await, "secret/data/cogwork", login);
        let fixture = Fixture::new("vault:corp", settings, &[("bootstrapToken", "token-canary")]);
        match fixture.read("a").await {
            Err(error) => {
                assert!(error.contains("vault:corp") && !error.contains("canary"), "{name}: {error}")
            }
            // As long as the status says so, there is no such secret.
            Ok(found) => assert_eq!((found, head), (None, "404 Found Nothing"), "{name}"),
        }
    }
    let cut = nonsense(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"data\": \"canary".to_vec()).await;
    let login = VaultLogin::Token(Credential::Secret("bootstrapToken".to_owned()));
    let fixture =
        Fixture::new("vault:corp", vault(&cut, "secret/data/cogwork", login), &[("bootstrapToken", "t")]);
    let error = fixture.read("a").await.expect_err("it is cut off");
    assert!(error.contains("vault:corp") && !error.contains("canary"), "{error}");
}
