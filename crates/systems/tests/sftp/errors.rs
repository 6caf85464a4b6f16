use std::time::Duration;

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use servers::openssh::PASSPHRASE;
use tokio::io::AsyncWriteExt as _;

use crate::server::{Server, map};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_another_key_gets_nothing() {
    let Some(server) = Server::start().await else { return };
    let stat = map(json!({"path": "."}));
    let fingerprint = |name: &str| {
        let done = std::process::Command::new("ssh-keygen")
            .args(["-lf", name])
            .current_dir(server.openssh.folder())
            .output();
        let line = String::from_utf8_lossy(&done.expect("ssh-keygen").stdout).into_owned();
        line.split(' ').nth(1).expect("a fingerprint").to_owned()
    };
    for (key, is_good) in [
        (server.read("host.pub"), true),
        (format!("[127.0.0.1]:{} {}", server.openssh.port, server.read("host.pub")), true),
        (fingerprint("host.pub"), true),
        // The server shows the RSA key if the connection names that key.
        (server.read("host_rsa.pub"), true),
        (server.read("stranger.pub"), false),
        (fingerprint("stranger.pub"), false),
        ("unknown".to_owned(), false),
    ] {
        let mut with = server.login();
        with.insert("hostKey", key.as_str());
        let connection = server.connect("sftp.key", &with);
        match server.try_with(&connection, "stat", &stat, ("", None)).await {
            Ok(_) => assert!(is_good, "{key}"),
            Err(error) => {
                assert!(!is_good, "{key}: {error:?}");
                assert_eq!(error.kind, ErrorKind::Connection, "{error:?}");
                assert!(error.message.contains(&fingerprint("host.pub")), "{}", error.message);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_another_protocol_is_told_with_the_key_to_change() {
    let Some(server) = Server::start().await else { return };
    let greets = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut with = server.login();
    with.insert("port", i64::from(greets.local_addr().expect("an address").port()));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = greets.accept().await {
            let _ = stream.write_all(b"220 ftp.example.com ready\r\n").await;
        }
    });
    let connection = server.connect("sftp.key", &with);
    let stat = map(json!({"path": "."}));
    let error = server.try_with(&connection, "stat", &stat, ("", None)).await.expect_err("no SSH");
    let cause = "; a server of SMTP or FTP answers at this port: correct `port`";
    assert!(error.message.ends_with(cause), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_has_its_kind_and_no_secret() {
    let Some(server) = Server::start().await else { return };
    let stat = map(json!({"path": "."}));
    for (name, value, kind, words) in [
        ("privateKey", server.read("stranger"), ErrorKind::Connection, "refuses the login"),
        ("privateKey", server.read("user_rsa"), ErrorKind::Connection, "ssh-keygen -t ed25519"),
        ("privateKey", "canary-key".to_owned(), ErrorKind::Connection, "`privateKey` is not"),
        ("passphrase", "canary-wrong".to_owned(), ErrorKind::Connection, "`passphrase` does not open"),
        ("user", "nobody-there".to_owned(), ErrorKind::Connection, "refuses the login"),
        ("hostKey", "MD5:00".to_owned(), ErrorKind::Connection, "neither a fingerprint"),
        ("host", "10.1.2.3".to_owned(), ErrorKind::Blocked, ""),
        ("host", "169.254.169.254".to_owned(), ErrorKind::Blocked, ""),
    ] {
        let mut with = server.login();
        with.insert(name, value.as_str());
        if name == "passphrase" {
            with.insert("privateKey", server.read("locked").as_str());
        }
        let connection = server.connect("sftp.key", &with);
        let error = server.try_with(&connection, "stat", &stat, ("", None)).await.expect_err("refused");
        assert_eq!(error.kind, kind, "{name}: {error:?}");
        assert!(error.message.contains(words), "{name}: {}", error.message);
        assert!(!format!("{error:?}").contains("canary"), "{name}: {error:?}");
    }
    let mut password =
        map(json!({"password": "canary-password", "host": "127.0.0.1", "port": server.openssh.port}));
    password.insert("user", "root");
    password.insert("hostKey", server.read("host.pub").as_str());
    let connection = server.connect("sftp.password", &password);
    let error = server.try_with(&connection, "stat", &stat, ("", None)).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Connection, "{error:?}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    for key in ["user_ecdsa", "locked"] {
        let mut with = server.login();
        with.insert("privateKey", server.read(key).as_str());
        with.insert("passphrase", PASSPHRASE);
        let connection = server.connect("sftp.key", &with);
        server.try_with(&connection, "stat", &stat, ("", None)).await.expect("the key is good");
    }
    let lines = server.lines.0.lock().expect("not poisoned").join("\n");
    assert!(!lines.contains(PASSPHRASE) && !lines.contains("canary"), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_the_path_and_the_status() {
    let Some(server) = Server::start().await else { return };
    for (action, with, code) in [
        ("get", json!({"path": "none"}), "SSH_FX_NO_SUCH_FILE"),
        ("stat", json!({"path": "none"}), "SSH_FX_NO_SUCH_FILE"),
        ("list", json!({"path": "none"}), "SSH_FX_NO_SUCH_FILE"),
        ("put", json!({"path": "none/a", "content": "x"}), "SSH_FX_NO_SUCH_FILE"),
    ] {
        let error = server.fails(action, with).await;
        assert_eq!((&error.kind, error.code.as_deref()), (&ErrorKind::Response, Some(code)), "{error:?}");
        assert!(error.message.contains("none"), "{}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up_at_the_end_of_the_step() {
    let Some(server) = Server::start().await else { return };
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut with = server.login();
    with.insert("port", i64::from(silent.local_addr().expect("an address").port()));
    let connection = server.connect("sftp.key", &with);
    let limit = Some(Duration::from_millis(300));
    let stat = map(json!({"path": "."}));
    let error = server.try_with(&connection, "stat", &stat, ("", limit)).await.expect_err("silent");
    assert_eq!(error.kind, ErrorKind::Timeout, "{error:?}");
    drop(silent);
    let error = server.try_with(&connection, "stat", &stat, ("", limit)).await.expect_err("gone");
    assert_eq!(error.kind, ErrorKind::Network, "{error:?}");
}
