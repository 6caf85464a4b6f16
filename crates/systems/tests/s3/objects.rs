use pretty_assertions::assert_eq;
use serde_json::json;
use value::Value;

use crate::store::{Store, at, bytes_of, content, map};

fn text(value: &Value, path: &str) -> String {
    value.path(path).map(|value| value.to_text()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_comes_back_as_it_was_written() {
    let Some(store) = Store::weed().await else { return };
    for key in ["a.txt", "a b/ü+&=?#%.txt", "deep/er/and/deeper/x", "trailing/~!*'()"] {
        let put = store
            .call("put", json!({"key": key, "content": "hällo", "contentType": "text/x-own", "metadata": {"order": "17"}}))
            .await;
        assert_eq!((text(&put, "key"), text(&put, "size")), (key.to_owned(), "6".to_owned()));
        let got = store.call("get", json!({"key": key})).await;
        assert_eq!(bytes_of(&got), "hällo".as_bytes(), "{key}");
        assert_eq!(text(&got, "etag"), text(&put, "etag"));
        assert_eq!(text(&got, "contentType"), "text/x-own");
        assert_eq!(text(&got, "metadata.order"), "17");
        assert!(text(&got, "modified").ends_with('Z'), "{}", got.to_json());
        let head = store.call("head", json!({"key": key})).await;
        assert_eq!((text(&head, "size"), text(&head, "etag")), ("6".to_owned(), text(&put, "etag")));
        let copy = store.call("copy", json!({"from": key, "to": format!("copy/{key}")})).await;
        assert_eq!(text(&copy, "etag"), text(&put, "etag"));
        assert_eq!(
            bytes_of(&store.call("get", json!({"key": format!("copy/{key}")})).await),
            "hällo".as_bytes()
        );
        store.call("delete", json!({"key": key})).await;
        assert_eq!(store.fails("get", json!({"key": key})).await.code.as_deref(), Some("NoSuchKey"));
    }
    // A key that is not there is deleted as well.
    store.call("delete", json!({"key": "never"})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_object_is_an_object() {
    let Some(store) = Store::weed().await else { return };
    store.call("put", json!({"key": "empty", "content": ""})).await;
    let got = store.call("get", json!({"key": "empty"})).await;
    assert_eq!((bytes_of(&got).len(), text(&got, "size").as_str()), (0, "0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_and_a_known_etag_save_bytes() {
    let Some(store) = Store::weed().await else { return };
    let put = store.call("put", json!({"key": "r", "content": "0123456789"})).await;
    for (range, expected) in [("2-4", "234"), ("7-", "789"), ("-2", "89")] {
        let got = store.call("get", json!({"key": "r", "range": range})).await;
        assert_eq!(bytes_of(&got), expected.as_bytes(), "{range}");
        assert_eq!(text(&got, "size"), expected.len().to_string());
    }
    let known = store.call("get", json!({"key": "r", "ifNoneMatch": text(&put, "etag")})).await;
    assert_eq!((known.get("file"), text(&known, "notModified").as_str()), (Some(Value::Null), "true"));
    let other = store.call("get", json!({"key": "r", "ifNoneMatch": "other"})).await;
    assert_eq!(bytes_of(&other).len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_to_its_end_or_page_by_page() {
    let Some(store) = Store::weed().await else { return };
    for index in 0..25 {
        store.call("put", json!({"key": format!("l/{index:02}/x"), "content": "x"})).await;
    }
    let keys = |value: &Value| -> Vec<String> {
        let list = value.get("results").expect("a list");
        list.as_list().expect("a list").iter().map(|object| text(object, "key")).collect()
    };
    let all = store.call("list", json!({"prefix": "l/", "fetchAll": true})).await;
    let expected: Vec<String> = (0..25).map(|index| format!("l/{index:02}/x")).collect();
    assert_eq!((keys(&all), all.get("nextCursor")), (expected.clone(), Some(Value::Null)));
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut with = json!({"prefix": "l/", "maxItems": 10});
        if !cursor.is_empty() {
            with["cursor"] = cursor.clone().into();
        }
        let page = store.call("list", with).await;
        found.extend(keys(&page));
        cursor = text(&page, "nextCursor");
        if page.get("nextCursor") == Some(Value::Null) {
            break;
        }
    }
    assert_eq!(found, expected);
    let folders = store.call("list", json!({"prefix": "l/", "delimiter": "/", "fetchAll": true})).await;
    assert_eq!(at(&folders, "prefixes.24").map(|prefix| prefix.to_text()).as_deref(), Some("l/24/"));
    assert_eq!(keys(&folders), Vec::<String>::new());
    let deleted = store.call("delete", json!({"keys": expected})).await;
    assert_eq!(text(&deleted, "deleted"), "25");
    assert_eq!(keys(&store.call("list", json!({"prefix": "l/"})).await), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn white_space_at_the_ends_of_a_key_is_part_of_it() {
    let Some(store) = Store::weed().await else { return };
    store.call("put", json!({"key": "w/ a ", "content": "x"})).await;
    let found = store.call("list", json!({"prefix": "w/"})).await;
    assert_eq!(at(&found, "results.0.key").map(|key| key.to_text()).as_deref(), Some("w/ a "));
    store.call("put", json!({"key": " b", "content": "x"})).await;
    let found = store.call("list", json!({"prefix": " "})).await;
    assert_eq!(at(&found, "results.0.key").map(|key| key.to_text()).as_deref(), Some(" b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_object_is_never_replaced_and_a_repeated_step_is_no_error() {
    let Some(store) = Store::weed().await else { return };
    for content in ["small".to_owned(), "x".repeat(17 << 20)] {
        let key = format!("once/{}", content.len());
        let inputs = map(json!({"key": key, "content": content, "create": true}));
        let first = store.try_with(&store.connection, "put", &inputs, "one.step").await.expect("created");
        let again = store.try_with(&store.connection, "put", &inputs, "one.step").await.expect("repeated");
        assert_eq!((text(&first, "repeated").as_str(), text(&again, "repeated").as_str()), ("false", "true"));
        assert_eq!(text(&first, "etag"), text(&again, "etag"));
        let other =
            store.try_with(&store.connection, "put", &inputs, "other.step").await.expect_err("exists");
        assert_eq!(other.code.as_deref(), Some("PreconditionFailed"), "{other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_a_signature_reads_and_writes_one_object() {
    let Some(store) = Store::weed().await else { return };
    store.call("put", json!({"key": "p q/ü.txt", "content": "signed"})).await;
    let made = store.call("presign", json!({"key": "p q/ü.txt", "expires": "10m"})).await;
    assert_eq!(fetch(&text(&made, "url"), &[]), "signed");
    let put = store.call("presign", json!({"key": "p/new", "method": "PUT"})).await;
    fetch(&text(&put, "url"), &["-X", "PUT", "--data-binary", "by others"]);
    assert_eq!(bytes_of(&store.call("get", json!({"key": "p/new"})).await), b"by others");
    let changed = text(&made, "url").replace("p%20q", "other");
    assert!(fetch(&changed, &[]).contains("SignatureDoesNotMatch"), "it is good for another object");
    assert!(!text(&made, "url").contains("canary"));
}

fn fetch(url: &str, arguments: &[&str]) -> String {
    let done = std::process::Command::new("curl").arg("-s").args(arguments).arg(url).output().expect("curl");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bucket_is_in_the_path_or_before_the_host() {
    let Some(store) = Store::weed().await else { return };
    let port = store.endpoint.rsplit(':').next().expect("a port");
    let mut with = Store::login(&format!("http://store.localhost:{port}"), "tests");
    with.insert("style", "host");
    let connection = store.connect("s3.keys", &with);
    let inputs = map(json!({"key": "host style", "content": "x"}));
    store.try_with(&connection, "put", &inputs, "").await.expect("written");
    assert_eq!(bytes_of(&store.call("get", json!({"key": "host style"})).await), b"x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_and_read_without_being_in_memory() {
    let Some(store) = Store::weed().await else { return };
    let bytes = content(5 << 20);
    let path = store.files.0.path().join("source");
    std::fs::write(&path, &bytes).expect("written");
    let put = store.put("file", crate::store::on_disk(&path).expect("a file")).await;
    assert_eq!(text(&put, "size"), bytes.len().to_string());
    let got = store.call("get", json!({"key": "file"})).await;
    let Some(Value::File(file)) = got.get("file") else { panic!("a file") };
    assert!(file.data.is_external(), "it is in memory");
    assert_eq!(file.filename.as_deref(), Some("file"));
    assert_eq!(file.content_type.as_ref(), "application/pdf");
    assert!(bytes_of(&got) == bytes, "other bytes");
    // A file from one store goes to another place as it is.
    store.put("again", file.data.clone()).await;
    assert!(bytes_of(&store.call("get", json!({"key": "again"})).await) == bytes, "other bytes");
}

#[tokio::test]
async fn inputs_that_cannot_work_are_refused_before_a_request() {
    let registry = crate::store::registry();
    let connection = registry.connection_type("s3.keys").expect("a type");
    let connection = connection.resolve("files", &Store::login("http://127.0.0.1:9", "tests")).expect("one");
    for (action, with, words) in [
        ("get", json!({"key": "a/../b"}), "the part `..`"),
        ("get", json!({"key": ""}), "is empty"),
        ("get", json!({"key": "x".repeat(1025)}), "1025 bytes"),
        ("get", json!({"key": "a", "range": "bytes=0-1"}), "write it like"),
        ("put", json!({"key": "a", "content": [1]}), "takes a text or a file"),
        ("put", json!({"key": "a", "content": "x", "metadata": {"name": "ü"}}), "beyond ASCII"),
        ("delete", json!({}), "either `key` or `keys`"),
        ("delete", json!({"keys": []}), "from 1 to 1000"),
        ("delete", json!({"key": "a", "keys": ["b"]}), "beside `key`"),
        ("copy", json!({"from": "./a", "to": "b"}), "the part `.`"),
        ("presign", json!({"key": "a", "expires": "8d"}), "from 1s to 7d"),
        ("listChanged", json!({"after": "yesterday"}), "not an instant"),
        ("listChanged", json!({"cursor": "x"}), "not one that this action has given"),
    ] {
        let error =
            crate::store::once(&registry, &connection, action, with, None).await.expect_err("refused");
        assert_eq!(error.kind, model::ErrorKind::Input, "{error:?}");
        assert!(error.message.contains(words), "{words}: {}", error.message);
    }
}
