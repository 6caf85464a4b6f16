use std::net::IpAddr;

use async_trait::async_trait;
use pretty_assertions::assert_eq;
use tokio::net::TcpListener;

use super::*;
use crate::http::testing::{Lines, http, local};
use crate::http::{HttpOptions, Lookup, Transport};

/// Resolves every name to these addresses.
struct Fixed(Vec<IpAddr>);

#[async_trait]
impl Lookup for Fixed {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.0.clone())
    }
}

fn to(host: &str, port: u16) -> Endpoint<'_> {
    Endpoint { host, port, subject: "the database", connection: Some("books") }
}

async fn dial(options: HttpOptions, host: &str, port: u16) -> Result<Dialed, ActionError> {
    Dialer(&http(options)).dial(&to(host, port), &Lines::default()).await
}

#[tokio::test]
async fn a_name_that_resolves_to_a_closed_address_is_not_dialled() {
    for address in ["169.254.169.254", "127.0.0.1", "10.1.2.3", "::1"] {
        let addresses =
            vec!["93.184.216.34".parse().expect("an address"), address.parse().expect("an address")];
        let options = HttpOptions { lookup: Arc::new(Fixed(addresses)), ..HttpOptions::default() };
        let error = dial(options, "db.example", 5432).await.expect_err("blocked");
        assert_eq!((error.kind.clone(), error.not_sent), (ErrorKind::Blocked, true), "{address}");
    }
}

#[tokio::test]
async fn an_own_listener_is_not_dialled_although_the_network_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let own = listener.local_addr().expect("an address");
    let options = HttpOptions { blocked_own: vec![own], ..local() };
    let error = dial(options, "127.0.0.1", own.port()).await.expect_err("blocked");
    assert_eq!(error.kind, ErrorKind::Blocked);
}

#[tokio::test]
async fn the_next_address_is_tried_if_one_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    let lookup = Arc::new(Fixed(vec![[127, 0, 0, 2].into(), [127, 0, 0, 1].into()]));
    let allow = crate::http::AllowList::parse(["db.example"]).expect("an entry");
    let dialed = dial(HttpOptions { lookup, allow, ..HttpOptions::default() }, "db.example", port).await;
    let route = dialed.expect("a connection").route;
    assert_eq!(route.address(), ([127, 0, 0, 1], port).into());
    assert!(route.is_allowed());
    assert!(route.again().await.is_ok());
}

#[tokio::test]
async fn failures_open_the_circuit_of_the_host_and_port() {
    let http = http(local());
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    for _ in 0..crate::http::FAILURES_TO_OPEN {
        let error = Dialer(&http).dial(&to("127.0.0.1", port), &Lines::default()).await.expect_err("refused");
        assert!(error.message.contains("cannot be reached"), "{}", error.message);
    }
    let error = Dialer(&http).dial(&to("127.0.0.1", port), &Lines::default()).await.expect_err("open");
    assert!(error.message.contains("is not called until"), "{}", error.message);
    let health = http.health();
    assert_eq!(health[0].host, format!("tcp://127.0.0.1:{port}"));
}

#[tokio::test]
async fn nothing_is_dialled_where_requests_are_disabled() {
    let options = HttpOptions { transport: Transport::Disabled, ..local() };
    let error = dial(options, "127.0.0.1", 1).await.expect_err("disabled");
    assert_eq!(error.kind, ErrorKind::Blocked);
}

#[test]
fn a_wrong_certificate_or_key_is_named_and_not_shown() {
    let error = |files| tls_config(files).map(|_| ()).expect_err("wrong");
    assert!(error(TlsFiles { authorities: Some("canary"), client: None }).starts_with("`ca` has no"));
    let pem = error(TlsFiles { authorities: None, client: Some(("canary", "canary")) });
    assert!(pem.starts_with("`clientCert`") && !pem.contains("canary"), "{pem}");
}
