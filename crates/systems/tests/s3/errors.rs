use std::time::Duration;

use connector::{AllowList, Http, HttpOptions};
use model::ErrorKind;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::store::{SECRET, Store, map};

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_its_kind_and_its_code_and_no_secret() {
    let Some(store) = Store::weed().await else { return };
    let get = map(json!({"key": "none"}));
    for (name, value, kind, code) in [
        ("bucket", "tests", ErrorKind::Response, Some("NoSuchKey")),
        ("bucket", "nowhere", ErrorKind::Response, Some("NoSuchBucket")),
        ("bucket", "a/b", ErrorKind::Connection, None),
        ("secretKey", "canary-77aa-wrong", ErrorKind::Connection, Some("SignatureDoesNotMatch")),
        ("accessKey", "AKNOBODY", ErrorKind::Connection, Some("InvalidAccessKeyId")),
        ("endpoint", "http://10.1.2.3", ErrorKind::Blocked, None),
        ("endpoint", "http://169.254.169.254", ErrorKind::Blocked, None),
        ("endpoint", "http://user:canary@store.example", ErrorKind::Connection, None),
        ("endpoint", "http://127.0.0.1:1", ErrorKind::Network, None),
    ] {
        let mut with = Store::login(&store.endpoint, "tests");
        with.insert(name, value);
        let connection = store.connect("s3.keys", &with);
        let error = store.try_with(&connection, "get", &get, "").await.expect_err("refused");
        assert_eq!((&error.kind, error.code.as_deref()), (&kind, code), "{name} {value}: {error:?}");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
    let lines = store.lines.0.lock().expect("not poisoned").join("\n");
    assert!(lines.contains("GET http://127.0.0.1") && !lines.contains("canary"), "{lines}");
    assert!(!lines.contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_aws_is_understood() {
    let Some(store) = Store::moto().await else { return };
    let missing = store.fails("get", json!({"key": "none"})).await;
    assert_eq!((missing.code.as_deref(), missing.status), (Some("NoSuchKey"), Some(404)));
    assert!(missing.message.contains("the object store answered 404 NoSuchKey"), "{}", missing.message);
    let head = store.fails("head", json!({"key": "none"})).await;
    assert_eq!((head.kind.clone(), head.status), (ErrorKind::Response, Some(404)));
    store.call("put", json!({"key": "a", "content": "x", "create": true})).await;
    let other = store.fails("put", json!({"key": "a", "content": "x", "create": true})).await;
    assert_eq!(other.code.as_deref(), Some("PreconditionFailed"));
    let copy = store.fails("copy", json!({"from": "none", "to": "b"})).await;
    assert_eq!(copy.code.as_deref(), Some("NoSuchKey"));
    let range = store.fails("get", json!({"key": "a", "range": "10-20"})).await;
    assert_eq!((range.code.as_deref(), range.status), (Some("InvalidRange"), Some(416)));
}

/// A server that answers each request with these bytes, and then does nothing, or ends the connection.
async fn saying(answer: &'static str, ends: bool) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            if !ends {
                open.push(stream);
            }
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_of_an_object_gives_an_error_and_no_file() {
    let begin = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf";
    for (answer, ends, kind) in [
        (begin, true, ErrorKind::Network),
        (begin, false, ErrorKind::Timeout),
        ("", true, ErrorKind::Network),
        ("", false, ErrorKind::Timeout),
        (
            "HTTP/1.1 503 Slow Down\r\ncontent-length: 35\r\n\r\n<Error><Code>SlowDown</Code></Error>",
            true,
            ErrorKind::Network,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx-amz-checksum-sha256: eA==\r\n\r\nhalf",
            true,
            ErrorKind::Network,
        ),
    ] {
        let endpoint = saying(answer, ends).await;
        let registry = crate::store::registry();
        let kind_of = registry.connection_type("s3.keys").expect("a type");
        let connection = kind_of.resolve("files", &Store::login(&endpoint, "tests")).expect("a connection");
        let limit = Some(Duration::from_millis(700));
        let error = crate::store::once(&registry, &connection, "get", json!({"key": "a"}), limit).await;
        let error = error.expect_err("no object");
        assert_eq!(error.kind, kind, "{answer}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_killed_or_is_frozen_is_an_error_and_the_next_attempt_works() {
    let Some(store) = Store::weed().await else { return };
    store.call("put", json!({"key": "a", "content": "x"})).await;
    store.signal("STOP");
    let allow = AllowList::parse(["127.0.0.0/8"]).expect("entries");
    let timeout = Duration::from_millis(500);
    let http = Http::new(HttpOptions { allow, timeout, ..HttpOptions::default() }).expect("a client");
    let list = map(json!({}));
    let frozen = store.try_over(&http, &store.connection, "list", &list, "").await.expect_err("frozen");
    assert_eq!(frozen.kind, ErrorKind::Timeout, "{frozen:?}");
    store.signal("CONT");
    store.try_with(&store.connection, "list", &list, "").await.expect("it goes on");
    store.signal("KILL");
    let killed = store.try_with(&store.connection, "list", &list, "").await.expect_err("killed");
    assert_eq!(killed.kind, ErrorKind::Network, "{killed:?}");
}
