//! Start and shutdown of a server.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use server::{Client, Daemon, Error, Server, ServerOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{self, Answer, GATED, Gate, daemon, daemon_with, request, rest};

async fn gated_request(daemon: &support::Daemon, gate: &Gate) -> TcpStream {
    let body = json!({"url": gate.url()}).to_string();
    let fields = "content-type: application/json\r\n";
    let mut stream = TcpStream::connect(daemon.hooks).await.unwrap();
    stream
        .write_all(&request(daemon.hooks, "POST", &daemon.path("a"), fields, body.as_bytes()))
        .await
        .unwrap();
    stream
}

#[tokio::test]
async fn responses_in_progress_finish_during_shutdown() {
    let mut daemon = daemon(&[("a", GATED)]).await;
    let gate = Gate::new().await;
    let mut caller = gated_request(&daemon, &gate).await;
    let visitor = gate.arrival().await;
    // An idle connection does not delay the shutdown, whether it has sent a request or not.
    let mut silent = TcpStream::connect(daemon.hooks).await.unwrap();
    let mut idle = TcpStream::connect(daemon.hooks).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    support::until(&mut idle, "}").await;
    let hooks = daemon.hooks;
    let (answer, ()) = tokio::join!(
        async {
            assert_eq!(rest(&mut idle).await, "");
            assert_eq!(rest(&mut silent).await, "");
            // Both are closed, so nothing is accepted any more, while the first caller still waits.
            assert!(TcpStream::connect(hooks).await.is_err());
            visitor.let_through().await;
            Answer::parse(&rest(&mut caller).await)
        },
        daemon.shutdown(),
    );
    assert_eq!((answer.status, &answer.json()["body"]), (200, &json!("open")), "{answer:?}");
}

#[tokio::test]
async fn connections_open_after_the_grace_period_are_closed() {
    let mut daemon = daemon_with(&[("a", GATED)], |options| options.grace = Duration::from_millis(20)).await;
    let gate = Gate::new().await;
    let mut caller = gated_request(&daemon, &gate).await;
    let _visitor = gate.arrival().await;
    daemon.shutdown().await;
    assert_eq!(rest(&mut caller).await, "");
}

#[tokio::test]
async fn a_daemon_can_be_found_while_it_runs() {
    let mut daemon = daemon(&[]).await;
    let data = daemon.folder.path().join(".cogwork");
    let found = Daemon::find(&data).unwrap().unwrap();
    assert_eq!((found.pid, found.admin, found.hooks), (std::process::id(), daemon.admin, daemon.hooks));
    let client = Client::of_folder(&data, None).unwrap().unwrap();
    let status: serde_json::Value = client.get("/api/v1/status").await.unwrap();
    assert_eq!(status["accepting"], true);
    daemon.shutdown().await;
    assert_eq!(Daemon::find(&data).unwrap(), None);
    let gone = client.get::<serde_json::Value>("/api/v1/status").await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable { .. }), "{gone}");
}

#[tokio::test]
async fn listeners_are_bound_before_anything_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = ServerOptions { hooks: any, admin: any, ..ServerOptions::new(folder.path()) };
    let bound = Server::bind(options.clone()).await.unwrap();
    let addresses = bound.addresses();
    assert!(addresses.hooks.port() != 0 && addresses.admin.port() != 0 && addresses.hooks != addresses.admin);
    assert!(TcpStream::connect(addresses.hooks).await.is_ok(), "connections wait in the queue");
    let taken = Server::bind(ServerOptions { hooks: addresses.hooks, ..options }).await.unwrap_err();
    assert!(matches!(taken, Error::Bind { address, .. } if address == addresses.hooks), "{taken}");
    let told = taken.to_string();
    assert!(
        told.starts_with(&format!("cannot listen on {}, the setting `hooks`: ", addresses.hooks)),
        "{told}"
    );
    assert!(told.ends_with("another daemon, or set `hooks` to another port"), "{told}");
}

#[tokio::test]
async fn a_configured_admin_token_replaces_the_stored_one() {
    let given = value::Secret::new("given-given-given");
    let daemon = daemon_with(&[], |options| options.admin_token = Some(given)).await;
    assert_eq!(daemon.token, "given-given-given");
    assert_eq!(daemon.api("GET", "/api/v1/status", "", "").await.status, 200);
    assert!(!daemon.folder.path().join(".cogwork/admin-token").exists());
}
