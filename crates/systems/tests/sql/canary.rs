use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::database::{Database, PASSWORD, json as map};

#[tokio::test]
async fn a_password_is_in_no_error_and_no_line() {
    let Some(database) = Database::postgres() else { return };
    let wrong = "canary-1b7e-wrong";
    let query = map(json!({"sql": "select 1 as a"}));
    for (name, value, kind) in [
        ("password", json!(wrong), ErrorKind::Connection),
        ("user", json!("nobody"), ErrorKind::Connection),
        ("database", json!("nowhere"), ErrorKind::Connection),
        ("port", json!(1), ErrorKind::Network),
        ("tls", json!("verify"), ErrorKind::Connection),
        ("host", json!(format!("cogwork:{PASSWORD}@db.example")), ErrorKind::Connection),
        ("host", json!("10.1.2.3"), ErrorKind::Blocked),
        ("ca", json!(PASSWORD), ErrorKind::Connection),
    ] {
        let mut with = Database::login(&database.address, PASSWORD);
        for (name, value) in map(json!({name: value})).iter() {
            with.insert(name.clone(), value.clone());
        }
        if name == "ca" {
            with.insert("tls", "verify");
        }
        let connection = database.connect(&with).expect("a connection");
        let error = database.try_with(&connection, "query", &query, ("", None)).await.expect_err("refused");
        let shown = format!("{error:?}");
        assert_eq!(error.kind, kind, "{name}: {}", error.message);
        assert!(!shown.contains("canary"), "{name}: {shown}");
    }
    database.try_with(&database.connection, "query", &query, ("", None)).await.expect("a result");
    let lines = database.lines.0.lock().expect("not poisoned").join("\n");
    assert!(lines.contains("is not encrypted") && !lines.contains("canary"), "{lines}");
}

#[tokio::test]
async fn a_password_goes_over_no_open_network() {
    let Some(mut database) = Database::postgres() else { return };
    // The address is public for the guard, and nobody has allowed it.
    struct Public;
    #[async_trait::async_trait]
    impl connector::Lookup for Public {
        async fn lookup(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
            Ok(vec![[127, 0, 0, 1].into()])
        }
    }
    let options =
        connector::HttpOptions { lookup: std::sync::Arc::new(Public), ..connector::HttpOptions::default() };
    database.http = connector::Http::new(options).expect("a client");
    let mut with = Database::login(&database.address, PASSWORD);
    with.insert("host", "db.example");
    let connection = database.connect(&with).expect("a connection");
    let query = map(json!({"sql": "select 1 as a"}));
    let error = database.try_with(&connection, "query", &query, ("", None)).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::Blocked, "{}", error.message);
}
