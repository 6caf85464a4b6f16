use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use servers::dovecot::USER;

use crate::account::{Account, Client, PASSWORD, login};

#[tokio::test(flavor = "multi_thread")]
async fn each_encryption_reaches_the_server() {
    let Some(account) = Account::start() else { return };
    let server = &account.server;
    for (security, port) in [("tls", server.tls_port), ("starttls", server.port), ("none", server.port)] {
        let mut with = login(server);
        with["security"] = json!(security);
        with["port"] = json!(port);
        let client = Client::new(with);
        client.call("search", json!({"limit": 1})).await;
        let lines = client.lines.0.lock().expect("not poisoned").join("\n");
        assert_eq!(lines.contains("is not encrypted"), security == "none", "{security}: {lines}");
        assert!(!lines.contains("canary"), "{lines}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_cannot_be_used_has_its_kind_and_no_secret() {
    let Some(account) = Account::start() else { return };
    let other = std::process::Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=other -keyout /dev/null".split(' '))
        .output()
        .expect("openssl");
    let other = String::from_utf8(other.stdout).expect("a certificate");
    for (name, value, kind, words) in [
        ("password", json!("canary-wrong"), "connection", "refuses the login of `ada@example.com`: AUTHENTICATIONFAILED"),
        ("password", json!("canary-ü\r\nx LOGOUT"), "connection", "refuses the login"),
        ("username", json!("nobody\" x"), "connection", "refuses the login"),
        ("ca", json!("canary"), "connection", "`ca` has no certificate"),
        ("ca", json!(other), "network", "cannot be encrypted"),
        ("host", json!("localhost"), "network", "cannot be encrypted"),
        ("host", json!("10.1.2.3"), "blocked", ""),
        ("host", json!("169.254.169.254"), "blocked", ""),
    ] {
        let mut with = login(&account.server);
        with[name] = value;
        let client = Client::allowed(with, &["127.0.0.1", "localhost"]);
        let error = client.fails("search", json!({})).await;
        assert_eq!(error.kind.to_string(), kind, "{name}: {error:?}");
        assert!(error.message.contains(words), "{name}: {}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_goes_in_clear_text_to_an_allowed_server_only() {
    let with = json!({"host": "one.one.one.one", "security": "none", "username": USER, "password": PASSWORD});
    let error = Client::allowed(with, &[]).fails("search", json!({})).await;
    // Without a network the name has no address.
    assert!(["connection", "network", "timeout"].contains(&error.kind.to_string().as_str()), "{error:?}");
    let with = json!({"host": "127.0.0.1", "security": "none", "username": USER, "password": PASSWORD});
    let error = Client::allowed(with, &[]).fails("search", json!({})).await;
    assert_eq!(error.kind.to_string(), "blocked", "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up_at_the_end_of_the_step() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = silent.local_addr().expect("an address").port();
    for security in ["tls", "starttls", "none"] {
        let with = json!({"host": "127.0.0.1", "port": port, "security": security, "username": USER, "password": PASSWORD});
        let client = Client::new(with);
        let limit = Some(Duration::from_millis(200));
        let error = client.try_with("search", &Default::default(), ("", limit)).await.expect_err("silent");
        assert_eq!(error.kind.to_string(), "timeout", "{error:?}");
    }
}
