//! Connections that are refused: by the guard, by TLS, by the login.

use model::ActionError;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::rabbitmq;

use super::broker::Broker;
use crate::support::{PASSWORD, call, certificates, connect, http, registry};

async fn fails(with: serde_json::Value, allowed: &[&str]) -> ActionError {
    let event = ("amqp.message", json!({"queue": "orders"}));
    crate::support::fails("amqp.server", (with, allowed), event, "amqp.serverInfo").await
}

#[tokio::test]
async fn an_address_that_the_guard_refuses_is_not_dialled() {
    for host in ["127.0.0.1", "169.254.169.254", "localhost", "10.0.0.1"] {
        let with = json!({"host": host, "tls": "none", "user": "ada", "password": PASSWORD});
        let error = fails(with, &[]).await;
        assert_eq!(error.kind.to_string(), "blocked", "{host}: {error:?}");
    }
}

pub(super) async fn a_refused_login_is_an_error_of_the_connection(broker: &Broker, _: &str) {
    let with = |user: &str, vhost: &str, password: &str| {
        json!({
            "host": "127.0.0.1", "port": broker.server.port, "tls": "none", "user": user, "password": password, "vhost": vhost
        })
    };
    let error = fails(with("guest", "/", PASSWORD), &["127.0.0.1"]).await;
    assert_eq!(error.kind.to_string(), "connection");
    assert_eq!(error.message, "the connection `bus` cannot be used: the AMQP server refuses the login");
    let error = fails(with("guest", "elsewhere", rabbitmq::PASSWORD), &["127.0.0.1"]).await;
    assert_eq!(error.kind.to_string(), "connection");
    assert!(error.message.contains("NOT_ALLOWED - vhost elsewhere not found"), "{error:?}");
}

#[tokio::test]
async fn the_certificate_of_the_server_is_checked_for_the_name_of_the_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path());
    let path = folder.path().display();
    let tls = format!(
        "listeners.ssl.1 = 127.0.0.1:{{tls}}\nssl_options.cacertfile = {path}/ca.pem\nssl_options.certfile = {path}/server.pem\n\
         ssl_options.keyfile = {path}/server.key\nssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false"
    );
    let Some(broker) = Broker::start_with(&tls) else { return };
    let ca = std::fs::read_to_string(folder.path().join("ca.pem")).expect("a file");
    let with = |host: &str, ca: Option<&str>| {
        let mut with = json!({
            "host": host, "port": broker.server.tls_port, "user": rabbitmq::USER, "password": rabbitmq::PASSWORD
        });
        if let Some(ca) = ca {
            with["ca"] = json!(ca);
        }
        with
    };
    let allowed = ["127.0.0.1", "localhost", "::1"];
    let registry = registry();
    let connection = connect(&registry, "amqp.server", with("localhost", Some(&ca)));
    let info = call(&registry, &http(&allowed), &connection, "amqp.serverInfo", (json!({}), "")).await;
    info.expect("the certificate is for this name");
    // One side only with TLS.
    let mut plain = with("localhost", None);
    plain["port"] = json!(broker.server.port);
    let error = fails(plain.clone(), &allowed).await;
    let cause = "; it seems to take no TLS at this port: give `port` the one with TLS, or set `tls: none`";
    assert!(error.message.ends_with(cause), "{}", error.message);
    plain["port"] = json!(broker.server.tls_port);
    plain["tls"] = json!("none");
    let error = fails(plain, &allowed).await;
    let cause = "; it takes TLS at this port: remove `tls: none`, or correct `port`";
    assert!(error.message.ends_with(cause), "{}", error.message);
    // Another name, and an authority that the system does not know.
    for with in [with("127.0.0.1", Some(&ca)), with("localhost", None)] {
        let error = fails(with, &allowed).await;
        assert!(error.message.contains("certificate"), "{error:?}");
    }
}
