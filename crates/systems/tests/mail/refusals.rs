use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use connector::oauth::TokenSource;
use model::ActionError;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::dovecot::{Server, USER};
use value::Secret;

use crate::account::{Account, Client, PASSWORD, login, map};

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
        .args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=other -keyout /dev/null"
                .split(' '),
        )
        .output()
        .expect("openssl");
    let other = String::from_utf8(other.stdout).expect("a certificate");
    for (name, value, kind, words) in [
        (
            "password",
            json!("canary-wrong"),
            "connection",
            "refuses the login of `ada@example.com`: AUTHENTICATIONFAILED",
        ),
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
async fn a_port_without_tls_or_of_another_protocol_is_told_with_the_key_to_change() {
    let Some(account) = Account::start() else { return };
    let mut with = login(&account.server);
    with["port"] = json!(account.server.port);
    let error = Client::new(with.clone()).fails("search", json!({})).await;
    let cause = "; it takes no TLS at this port: give `port` the one with TLS, or set `security: starttls`";
    assert!(error.message.ends_with(cause), "{}", error.message);
    let greets = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    with["port"] = json!(greets.local_addr().expect("an address").port());
    std::thread::spawn(move || {
        for stream in greets.incoming().take(8).filter_map(Result::ok) {
            let mut stream = stream;
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    for security in ["none", "tls"] {
        with["security"] = json!(security);
        let error = Client::new(with.clone()).fails("search", json!({})).await;
        let cause = "; a server of SSH answers at this port: correct `port`";
        assert!(error.message.ends_with(cause), "{security}: {}", error.message);
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

/// Tokens of a provider: the first is refused.
struct Tokens(String);

#[async_trait::async_trait]
impl TokenSource for Tokens {
    async fn token(&self) -> Result<Secret, ActionError> {
        Ok(Secret::new("canary-withdrawn"))
    }

    async fn replacement(&self, rejected: &Secret) -> Result<Option<Secret>, ActionError> {
        Ok((rejected.expose() == "canary-withdrawn").then(|| Secret::new(self.0.clone())))
    }
}

/// A token that a server with this key takes (RFC 7519).
fn token(key: &str, user: &str) -> String {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let body = [
        r#"{"alg":"HS256","typ":"JWT"}"#.to_owned(),
        json!({"sub": user, "exp": 4_000_000_000_u64}).to_string(),
    ];
    let body = body.map(|part| encode(part.as_bytes())).join(".");
    let mut sign = std::process::Command::new("openssl");
    sign.args(["dgst", "-sha256", "-hmac", key, "-binary"]);
    let mut sign = sign.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("openssl");
    sign.stdin.take().expect("a pipe").write_all(body.as_bytes()).expect("written");
    format!("{body}.{}", encode(&sign.wait_with_output().expect("openssl").stdout))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_logs_in_and_a_refused_one_is_replaced_once() {
    let key = "key-of-the-provider";
    let more = "auth_mechanisms = plain xoauth2\npassdb {\n  driver = oauth2\n  mechanisms = xoauth2\n  args = {folder}/oauth.conf\n}\n";
    let prepare = |folder: &Path| {
        let dir = folder.join("keys/default/HS256");
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join("default"), STANDARD.encode(key))?;
        let path = folder.display();
        let conf = format!(
            "introspection_mode = local\nlocal_validation_key_dict = fs:posix:prefix={path}/keys/\nusername_attribute = sub\n"
        );
        std::fs::write(folder.join("oauth.conf"), conf)
    };
    let Some(server) = Server::start_prepared(PASSWORD, more, prepare) else { return };
    let mut with = login(&server);
    with.as_object_mut().expect("a map").remove("password");
    for (name, value) in [
        ("authorizeUrl", "https://id.example.com/a"),
        ("tokenUrl", "https://id.example.com/t"),
        ("clientId", "c"),
        ("clientSecret", "canary-client"),
    ] {
        with[name] = json!(value);
    }
    for (user, is_good) in [(USER, true), ("other@example.com", false)] {
        let tokens = Arc::new(Tokens(token(key, user)));
        let mut client = Client::new(login(&server));
        let kind = client.registry.connection_type("mail.imapOauth").expect("a type");
        client.connection =
            kind.resolve("box", &map(with.clone())).expect("a connection").with_tokens(tokens, None);
        if is_good {
            client.call("search", json!({})).await;
        } else {
            let error = client.fails("search", json!({})).await;
            assert_eq!(error.kind.to_string(), "connection", "{error:?}");
        }
    }
}
