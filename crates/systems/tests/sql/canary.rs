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

#[tokio::test]
async fn a_certificate_is_checked() {
    let Some(database) = Database::postgres() else { return };
    let server = database.server.as_ref().expect("a server");
    let dir = database.files();
    let run = |arguments: &str| {
        let arguments = arguments.split(' ');
        let done =
            std::process::Command::new("openssl").args(arguments).current_dir(dir).output().expect("openssl");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    for name in ["ca", "other"] {
        run(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ));
    }
    run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=db -keyout db.key -out db.csr");
    std::fs::write(dir.join("ext"), format!("subjectAltName=IP:{}", database.address)).expect("written");
    run("x509 -req -in db.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out db.pem");
    for name in ["db.pem", "db.key"] {
        let to = server.folder().join("data").join(name);
        std::fs::copy(dir.join(name), &to).expect("copied");
        let owner = std::fs::metadata(server.folder().join("data")).expect("a folder");
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        std::os::unix::fs::chown(&to, Some(owner.uid()), Some(owner.gid())).expect("owned");
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).expect("private");
    }
    for setting in ["ssl_cert_file = 'db.pem'", "ssl_key_file = 'db.key'", "ssl = on"] {
        server.sql(&format!("alter system set {setting}")).expect("set");
    }
    server.sql("select pg_reload_conf()").expect("reloaded");
    server.until("select setting = 'on' from pg_settings where name = 'ssl'").expect("encrypted");
    let query = map(json!({"sql": "select ssl from pg_stat_ssl where pid = pg_backend_pid()"}));
    for (ca, is_good) in [("ca.pem", true), ("other.pem", false)] {
        let mut with = Database::login(&database.address, PASSWORD);
        with.insert("tls", "verify");
        with.insert("ca", std::fs::read_to_string(dir.join(ca)).expect("a certificate"));
        let connection = database.connect(&with).expect("a connection");
        let result = database.try_with(&connection, "query", &query, ("", None)).await;
        match result {
            Ok(result) => assert!(is_good && result.path("row.ssl") == Some(true.into())),
            Err(error) => assert!(!is_good && error.kind == ErrorKind::Connection, "{ca}: {error:?}"),
        }
    }
}
