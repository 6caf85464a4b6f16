//! TLS with certificates of an authority of the tests.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use model::ErrorKind;
use serde_json::json;

use crate::database::{Database, PASSWORD, json as map};

/// An address that no server of the tests has.
const ELSEWHERE: &str = "127.9.9.9";

/// Writes two authorities, `ca` and `other`, and two certificates of the first: `right` for `address`, and `wrong` for another address.
fn write_certificates(dir: &Path, address: &str) {
    let run = |arguments: &str| {
        let arguments = arguments.split(' ');
        let done =
            std::process::Command::new("openssl").args(arguments).current_dir(dir).output().expect("openssl");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for name in ["ca", "other"] {
        run(&format!("req -x509 {key} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"));
    }
    for (name, address) in [("right", address), ("wrong", ELSEWHERE)] {
        run(&format!("req {key} -subj /CN=db -keyout {name}.key -out {name}.csr"));
        std::fs::write(dir.join("ext"), format!("subjectAltName=IP:{address}")).expect("written");
        run(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out {name}.pem"
        ));
    }
}

/// Connects with TLS and the certificate of an authority, and compares the outcome.
async fn check(database: &Database, authority: &Path, is_good: bool, question: &str) {
    let mut with = Database::login(&database.address, PASSWORD);
    with.insert("tls", "verify");
    with.insert("ca", std::fs::read_to_string(authority).expect("a certificate"));
    let connection = database.connect(&with).expect("a connection");
    let query = map(json!({"sql": question}));
    let result = database.try_with(&connection, "query", &query, ("", None)).await;
    match result {
        Ok(result) => {
            let row = result.get("row").expect("a row");
            assert!(is_good, "{} {authority:?}: {}", database.name, row.to_json());
            let encrypted = row.get("encrypted").expect("a column").to_text();
            assert!(!["", "false"].contains(&encrypted.as_str()), "{}: not encrypted", database.name);
        }
        Err(error) => {
            assert!(
                !is_good && error.kind == ErrorKind::Connection,
                "{} {authority:?}: {error:?}",
                database.name
            );
            assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_told_with_the_key_to_change() {
    let Some(database) = Database::postgres() else { return };
    let mut with = Database::login(&database.address, PASSWORD);
    with.insert("tls", "verify");
    let connection = database.connect(&with).expect("a connection");
    let query = map(json!({"sql": "select 1 as x"}));
    let error = database.try_with(&connection, "query", &query, ("", None)).await.expect_err("no TLS");
    assert_eq!(error.kind, ErrorKind::Connection, "{error:?}");
    assert!(error.message.ends_with("does not support TLS; set `tls: none` if that is right"), "{error:?}");
}

#[tokio::test]
async fn a_certificate_of_postgres_is_checked_with_its_name() {
    let Some(database) = Database::postgres() else { return };
    let server = database.server.as_ref().expect("a server");
    let dir = database.files();
    write_certificates(dir, &database.address);
    let question = "select ssl as encrypted from pg_stat_ssl where pid = pg_backend_pid()";
    for (name, authority, is_good) in
        [("right", "ca.pem", true), ("right", "other.pem", false), ("wrong", "ca.pem", false)]
    {
        let data = server.folder().join("data");
        let owner = std::fs::metadata(&data).expect("a folder");
        for file in ["pem", "key"] {
            let to = data.join(format!("{name}.{file}"));
            std::fs::copy(dir.join(format!("{name}.{file}")), &to).expect("copied");
            std::os::unix::fs::chown(&to, Some(owner.uid()), Some(owner.gid())).expect("owned");
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).expect("private");
        }
        for setting in [
            format!("ssl_cert_file = '{name}.pem'"),
            format!("ssl_key_file = '{name}.key'"),
            "ssl = on".to_owned(),
        ] {
            server.sql(&format!("alter system set {setting}")).expect("set");
        }
        server.sql("select pg_reload_conf()").expect("reloaded");
        let loaded = format!(
            "select count(*) = 2 from pg_settings where setting = 'on' and name = 'ssl' or setting = '{name}.pem'"
        );
        server.until(&loaded).expect("encrypted");
        check(&database, &dir.join(authority), is_good, question).await;
    }
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_certificate_of_mysql_is_checked_with_its_name() {
    for name in ["right", "wrong"] {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("readable");
        let Some(database) = Database::mysql_with(|address| {
            write_certificates(dir.path(), address);
            let key = dir.path().join(format!("{name}.key"));
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("readable");
            ["cert", "key"]
                .map(|option| {
                    let file = if option == "cert" { "pem" } else { "key" };
                    format!("--ssl-{option}={}", dir.path().join(format!("{name}.{file}")).display())
                })
                .into()
        }) else {
            return;
        };
        let question = "select variable_value as encrypted from information_schema.session_status where variable_name = 'ssl_cipher'";
        for (authority, is_good) in [("ca.pem", name == "right"), ("other.pem", false)] {
            check(&database, &dir.path().join(authority), is_good, question).await;
        }
    }
}
