//! Connections that are refused: by the guard, by TLS, by the login.

use model::ActionError;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::nats::Server;

use crate::support::{PASSWORD, call, certificates, connect, http, registry};

async fn fails(with: serde_json::Value, allowed: &[&str]) -> ActionError {
    let event = ("nats.message", json!({"stream": "ORDERS", "consumer": "c"}));
    crate::support::fails("nats.server", (with, allowed), event, "nats.serverInfo").await
}

#[tokio::test]
async fn an_address_that_the_guard_refuses_is_not_dialled() {
    for host in ["127.0.0.1", "169.254.169.254", "localhost", "10.0.0.1"] {
        let error = fails(json!({"host": host, "tls": "none"}), &[]).await;
        assert_eq!(error.kind.to_string(), "blocked", "{host}: {error:?}");
    }
}

#[tokio::test]
async fn a_refused_login_is_an_error_of_the_connection() {
    let login = format!("authorization {{ user: ada, password: \"{PASSWORD}\" }}");
    let Some(server) = Server::start_with(&login) else { return };
    let with = |password: &str| json!({"host": "127.0.0.1", "port": server.port, "tls": "none", "user": "ada", "password": password});
    let error = fails(with("wrong"), &["127.0.0.1"]).await;
    assert_eq!(error.kind.to_string(), "connection");
    let expected = "the connection `bus` cannot be used: the NATS server refuses the login";
    assert_eq!(error.message, expected);
    let registry = registry();
    let connection = connect(&registry, "nats.server", with(PASSWORD));
    let info = call(&registry, &http(&["127.0.0.1"]), &connection, "nats.serverInfo", (json!({}), "")).await;
    info.expect("the login is right");
}

#[tokio::test]
async fn several_ways_to_log_in_are_refused_before_anything_is_sent() {
    let with = json!({"host": "127.0.0.1", "tls": "none", "user": "ada", "token": PASSWORD});
    let error = fails(with, &["127.0.0.1"]).await;
    assert!(
        error.message.contains("give one of `user` with `password`, `token` and `credentials`"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_server_without_tls_is_told_with_the_key_to_change() {
    let Some(server) = Server::start() else { return };
    let error = fails(json!({"host": "127.0.0.1", "port": server.port}), &["127.0.0.1"]).await;
    let cause = "; it takes no TLS at this port: give `port` the one with TLS, or set `tls: none`";
    assert!(error.message.ends_with(cause), "{}", error.message);
}

#[tokio::test]
async fn the_certificate_of_the_server_is_checked_for_the_name_of_the_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path());
    let path = folder.path().display();
    let tls = format!("tls {{ cert_file: \"{path}/server.pem\", key_file: \"{path}/server.key\" }}");
    let Some(server) = Server::start_with(&tls) else { return };
    let ca = std::fs::read_to_string(folder.path().join("ca.pem")).expect("a file");
    let with = |host: &str, ca: Option<&str>| {
        let mut with = json!({"host": host, "port": server.port});
        if let Some(ca) = ca {
            with["ca"] = json!(ca);
        }
        with
    };
    let allowed = ["127.0.0.1", "localhost", "::1"];
    let registry = registry();
    let connection = connect(&registry, "nats.server", with("localhost", Some(&ca)));
    let info = call(&registry, &http(&allowed), &connection, "nats.serverInfo", (json!({}), "")).await;
    info.expect("the certificate is for this name");
    // Another name, and an authority that the system does not know.
    for with in [with("127.0.0.1", Some(&ca)), with("localhost", None)] {
        let error = fails(with, &allowed).await;
        assert!(error.message.contains("certificate"), "{error:?}");
    }
}
