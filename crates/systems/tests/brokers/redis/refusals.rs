//! Connections that are refused: by the guard, by TLS, by the login.

use model::ActionError;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::redis::Server;

use super::broker::inputs;
use crate::support::{PASSWORD, call, certificates, connect, http, registry};

async fn fails(with: serde_json::Value, allowed: &[&str]) -> ActionError {
    let event = ("redis.message", inputs());
    crate::support::fails("redis.server", (with, allowed), event, "redis.serverInfo").await
}

#[tokio::test]
async fn an_address_that_the_guard_refuses_is_not_dialled() {
    for host in ["127.0.0.1", "169.254.169.254", "localhost", "10.0.0.1"] {
        let error = fails(json!({"host": host, "tls": "none", "password": PASSWORD}), &[]).await;
        assert_eq!(error.kind.to_string(), "blocked", "{host}: {error:?}");
    }
}

#[tokio::test]
async fn a_refused_login_is_an_error_of_the_connection() {
    let users = "user default on >canary-8f2c-password ~* &* +@all\nuser ada on >lovelace ~* &* +@all";
    let Some(server) = Server::start_with(users) else { return };
    let with = |user: Option<&str>, password: Option<&str>| {
        let mut with = super::broker::with(server.port);
        for (name, value) in [("user", user), ("password", password)] {
            if let Some(value) = value {
                with[name] = json!(value);
            }
        }
        with
    };
    let refused = "the connection `bus` cannot be used: the Redis server refuses the login";
    let missing = "the Redis server says: NOAUTH Authentication required.";
    let incomplete = "the connection `bus` cannot be used: `user` needs `password`";
    for (user, password, code, message) in [
        (None, Some("wrong-9d1b"), Some("WRONGPASS"), refused),
        (Some("ada"), Some(PASSWORD), Some("WRONGPASS"), refused),
        (Some("nobody"), Some(PASSWORD), Some("WRONGPASS"), refused),
        (Some("ada"), None, None, incomplete),
    ] {
        let error = fails(with(user, password), &["127.0.0.1"]).await;
        assert_eq!((error.kind.to_string().as_str(), error.code.as_deref()), ("connection", code));
        assert_eq!(error.message, message);
        assert!(!error.message.contains("wrong-9d1b"));
    }
    let error = fails(with(None, None), &["127.0.0.1"]).await;
    assert_eq!((error.kind.to_string().as_str(), error.code.as_deref()), ("connection", Some("NOAUTH")));
    assert!(error.message.ends_with(missing), "{error:?}");
    let registry = registry();
    for (user, password) in [(None, PASSWORD), (Some("ada"), "lovelace")] {
        let connection = connect(&registry, "redis.server", with(user, Some(password)));
        let (http, inputs) = (http(&["127.0.0.1"]), (json!({}), ""));
        let info = call(&registry, &http, &connection, "redis.serverInfo", inputs).await;
        info.expect("the login is right");
    }
    let mut far = with(None, Some(PASSWORD));
    far["database"] = json!(999);
    let error = fails(far, &["127.0.0.1"]).await;
    assert_eq!(error.kind.to_string(), "connection");
    assert!(error.message.contains("its database 999: the Redis server says: ERR DB index"), "{error:?}");
}

#[tokio::test]
async fn an_account_needs_no_rights_but_the_ones_of_its_commands() {
    let users =
        "user shop on >lovelace ~orders +xreadgroup +xack +xpending +xautoclaim +xclaim +xrange +xinfo";
    let Some(server) = Server::start_with(users) else { return };
    let mut client = server.client();
    client.get(&["XGROUP", "CREATE", "orders", "shop", "0", "MKSTREAM"]);
    client.add("orders", b"one");
    let mut with = super::broker::with(server.port);
    with["user"] = json!("shop");
    with["password"] = json!("lovelace");
    let (registry, http) = (registry(), http(&["127.0.0.1"]));
    let connection = connect(&registry, "redis.server", with);
    let source = crate::support::open(&registry, &http, &connection, ("redis.message", inputs())).await;
    let mut source = source.expect("the group is there");
    assert_eq!(&*crate::support::take(&mut *source, 1).await[0].body, b"one");
    let error = call(&registry, &http, &connection, "redis.get", (json!({"key": "orders"}), "")).await;
    let error = error.expect_err("the account may not");
    assert_eq!((error.kind.to_string().as_str(), error.code.as_deref()), ("response", Some("NOPERM")));
}

#[tokio::test]
async fn the_certificate_of_the_server_is_checked_for_the_name_of_the_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path());
    let path = folder.path().display();
    let tls = format!(
        "tls-port {{tls}}\ntls-cert-file \"{path}/server.pem\"\ntls-key-file \"{path}/server.key\"\n\
         tls-ca-cert-file \"{path}/ca.pem\"\ntls-auth-clients optional"
    );
    let Some(server) = Server::start_with(&tls) else { return };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    let with = |host: &str, more: &[(&str, String)]| {
        let mut with = json!({"host": host, "port": server.tls_port});
        for (name, value) in more {
            with[*name] = json!(value);
        }
        with
    };
    let allowed = ["127.0.0.1", "localhost", "::1"];
    let ca = ("ca", read("ca.pem"));
    let registry = registry();
    let info = async |more: &[(&str, String)]| {
        let connection = connect(&registry, "redis.server", with("localhost", more));
        call(&registry, &http(&allowed), &connection, "redis.serverInfo", (json!({}), "")).await
    };
    info(std::slice::from_ref(&ca)).await.expect("the certificate is for this name");
    // Another name, and an authority that the system does not know.
    for with in [with("127.0.0.1", std::slice::from_ref(&ca)), with("localhost", &[])] {
        let error = fails(with, &allowed).await;
        assert!(error.message.contains("certificate"), "{error:?}");
    }
    server.client().get(&["CONFIG", "SET", "tls-auth-clients", "yes"]);
    fails(with("localhost", std::slice::from_ref(&ca)), &allowed).await;
    let own = [ca, ("clientCert", read("server.pem")), ("clientKey", read("server.key"))];
    info(&own).await.expect("the client has a certificate");
}
