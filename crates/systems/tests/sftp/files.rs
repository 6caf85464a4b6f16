use std::fs;
use std::sync::atomic::Ordering;

use pretty_assertions::assert_eq;
use serde_json::json;
use value::{File, Map, Value};

use crate::server::{Server, bytes_of, on_disk};

fn text(value: &Value, path: &str) -> String {
    value.path(path).map(|value| value.to_text()).unwrap_or_default()
}

/// The names in the folder of the account, hidden ones too.
fn names(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.home("")).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_comes_back_as_it_was_written() {
    let Some(server) = Server::start().await else { return };
    for name in ["a.txt", "ü & b.txt", "-rf", "*"] {
        let put = server.call("put", json!({"path": name, "content": "hällo"})).await;
        assert_eq!((text(&put, "size"), text(&put, "repeated")), ("6".to_owned(), "false".to_owned()));
        assert_eq!(fs::read(server.home(name)).expect("a file"), "hällo".as_bytes());
        let got = server.call("get", json!({"path": name})).await;
        assert_eq!(bytes_of(&got), "hällo".as_bytes());
        assert_eq!((text(&got, "name").as_str(), text(&got, "kind").as_str()), (name, "file"));
        assert!(text(&got, "modified").ends_with('Z'));
    }
    server.call("put", json!({"path": "a.txt", "content": ""})).await;
    assert_eq!(bytes_of(&server.call("get", json!({"path": "a.txt"})).await), b"");
    assert_eq!(names(&server), ["*", "-rf", "a.txt", "ü & b.txt"], "no part is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_goes_from_disk_to_disk() {
    let Some(server) = Server::start().await else { return };
    let bytes: Vec<u8> = (0..(9 << 20) + 77).map(|index: usize| (index / 3 + index / 4099) as u8).collect();
    let source = server.openssh.folder().join("source");
    fs::write(&source, &bytes).expect("written");
    let file = File { content_type: "text/csv".into(), filename: None, data: on_disk(&source) };
    let inputs = Map::from_iter([("path", Value::from("large")), ("content", Value::from(file))]);
    server.try_map("put", &inputs).await.expect("written");
    assert!(fs::read(server.home("large")).expect("a file") == bytes, "other bytes");
    let got = server.call("get", json!({"path": "large"})).await;
    let Some(Value::File(file)) = got.get("file") else { panic!("a file") };
    assert!(file.data.is_external(), "it is in memory");
    assert!(bytes_of(&got) == bytes, "other bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_exists_is_replaced_only_if_it_may_be() {
    let Some(server) = Server::start().await else { return };
    server.call("put", json!({"path": "a", "content": "one"})).await;
    server.call("put", json!({"path": "a", "content": "two"})).await;
    assert_eq!(fs::read(server.home("a")).expect("a file"), b"two");
    let refused = server.fails("put", json!({"path": "a", "content": "new", "replace": false})).await;
    assert_eq!(refused.code.as_deref(), Some("SSH_FX_FAILURE"), "{refused:?}");
    assert!(refused.message.contains("`a` exists: replace it with `replace: true`"), "{}", refused.message);
    let again = server.call("put", json!({"path": "a", "content": "two", "replace": false})).await;
    assert_eq!(text(&again, "repeated"), "true");
    server.call("put", json!({"path": "b", "content": "bee"})).await;
    let refused = server.fails("move", json!({"from": "b", "to": "a"})).await;
    assert!(refused.message.contains("replace: true"), "{}", refused.message);
    server.call("move", json!({"from": "b", "to": "a", "replace": true})).await;
    assert_eq!(
        (fs::read(server.home("a")).expect("a file"), names(&server)),
        (b"bee".to_vec(), vec!["a".to_owned()])
    );
    let missing = server.fails("move", json!({"from": "b", "to": "c"})).await;
    assert_eq!(missing.code.as_deref(), Some("SSH_FX_NO_SUCH_FILE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_repeated_only_if_an_earlier_attempt_has_made_it() {
    let Some(server) = Server::start().await else { return };
    for (name, content) in [("a", "one"), ("target", "another")] {
        server.call("put", json!({"path": name, "content": content})).await;
    }
    let inputs = crate::server::map(json!({"from": "a", "to": "b"}));
    let wrong = crate::server::map(json!({"from": "typo", "to": "target"}));
    let attempt = |inputs, key| server.try_with(&server.connection, "move", inputs, (key, None));
    let first = attempt(&inputs, "k1").await.expect("moved");
    assert_eq!(text(&first, "repeated"), "false");
    let error = attempt(&wrong, "k2").await.expect_err("it never existed");
    assert_eq!(error.code.as_deref(), Some("SSH_FX_NO_SUCH_FILE"));
    assert!(
        error.message.contains("`target` exists, but this step has not moved it there"),
        "{}",
        error.message
    );
    server.repeats.store(true, Ordering::Relaxed);
    assert_eq!(text(&attempt(&inputs, "k1").await.expect("moved before"), "repeated"), "true");
    attempt(&wrong, "k2").await.expect_err("no attempt has found it");
    // After a restart nothing is known of the source.
    assert_eq!(text(&attempt(&inputs, "k3").await.expect("moved before"), "repeated"), "true");
    server.call("put", json!({"path": "b", "content": "of another size"})).await;
    attempt(&inputs, "k1").await.expect_err("another file took its place");
    for (from, to) in [("b", "./b"), ("/tmp/x/", "/tmp//x")] {
        let error = server.fails("move", json!({"from": from, "to": to, "replace": true})).await;
        assert_eq!(error.kind, model::ErrorKind::Input);
        assert!(error.message.contains("the same path"), "{}", error.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_renames_over_nothing_loses_no_file() {
    let Some(server) = Server::start_with("-P posix-rename").await else { return };
    server.call("put", json!({"path": "a", "content": "one"})).await;
    server.call("put", json!({"path": "a", "content": "two"})).await;
    assert_eq!(fs::read(server.home("a")).expect("a file"), b"two");
    assert_eq!(names(&server), ["a"]);
    // A folder cannot be moved into itself, whatever is there.
    server.call("makeFolder", json!({"path": "f"})).await;
    server.call("put", json!({"path": "f/x", "content": "kept"})).await;
    let refused = server.fails("move", json!({"from": "f", "to": "f/x", "replace": true})).await;
    assert!(refused.code.is_some() && !refused.outcome_unknown, "{refused:?}");
    assert_eq!(fs::read(server.home("f/x")).expect("a file"), b"kept");
    let refused = server.fails("put", json!({"path": "f", "content": "no folder"})).await;
    assert_eq!(refused.code.as_deref(), Some("SSH_FX_FAILURE"), "{refused:?}");
    assert!(server.home("f/x").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_made_listed_and_deleted() {
    let Some(server) = Server::start().await else { return };
    let made = server.call("makeFolder", json!({"path": "in/2026/03"})).await;
    assert_eq!(text(&made, "created"), "true");
    let again = server.call("makeFolder", json!({"path": "in/2026/03/"})).await;
    assert_eq!(text(&again, "created"), "false");
    for name in ["in/b.csv", "in/a.csv", "in/2026/c.csv", "in/2026/03/d.txt"] {
        server.call("put", json!({"path": name, "content": "x"})).await;
    }
    std::os::unix::fs::symlink("..", server.home("in/2026/loop")).expect("a link");
    let paths = |value: Value| -> Vec<String> {
        let list = value.get("results").expect("a list");
        list.as_list().expect("a list").iter().map(|entry| text(entry, "path")).collect()
    };
    let flat = server.call("list", json!({"path": "in"})).await;
    assert_eq!(paths(flat), ["in/2026", "in/a.csv", "in/b.csv"]);
    let deep = server.call("list", json!({"path": "in", "match": "*.csv", "recursive": true})).await;
    assert_eq!(paths(deep), ["in/2026/c.csv", "in/a.csv", "in/b.csv"]);
    let full = server.fails("delete", json!({"path": "in/2026"})).await;
    assert_eq!(full.code.as_deref(), Some("SSH_FX_FAILURE"));
    for (path, deleted) in
        [("in/a.csv", "true"), ("in/a.csv", "false"), ("in/2026/03/d.txt", "true"), ("in/2026/03", "true")]
    {
        assert_eq!(text(&server.call("delete", json!({"path": path})).await, "deleted"), deleted, "{path}");
    }
    let file = server.fails("makeFolder", json!({"path": "in/b.csv/x"})).await;
    assert!(file.message.contains("is a file"), "{}", file.message);
    let folder = server.fails("get", json!({"path": "in"})).await;
    assert!(folder.message.contains("is a folder"), "{}", folder.message);
    assert_eq!(text(&server.call("stat", json!({"path": "in"})).await, "kind"), "folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_attempt_leaves_nothing_behind() {
    let Some(server) = Server::start().await else { return };
    let inputs = crate::server::map(json!({"path": "a", "content": "whole"}));
    // The part of an attempt that was killed.
    server.try_with(&server.connection, "put", &inputs, ("one", None)).await.expect("written");
    let hash: String = {
        use sha2::Digest as _;
        sha2::Sha256::digest("one").iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    };
    fs::write(server.home(&format!(".a.{hash}.part")), "half of something longer").expect("written");
    server.try_with(&server.connection, "put", &inputs, ("one", None)).await.expect("written");
    assert_eq!(
        (fs::read(server.home("a")).expect("a file"), names(&server)),
        (b"whole".to_vec(), vec!["a".to_owned()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_more_files_than_are_read_is_an_error() {
    let Some(server) = Server::start().await else { return };
    for index in 0..=10_000 {
        fs::File::create(server.home(&format!("{index}"))).expect("a file");
    }
    let error = server.fails("list", json!({"path": "."})).await;
    assert_eq!(error.kind, model::ErrorKind::Limit, "{error:?}");
    fs::remove_file(server.home("0")).expect("deleted");
    let all = server.call("list", json!({"path": "."})).await;
    assert_eq!(all.path("results").and_then(|list| list.as_list().map(<[Value]>::len)), Some(10_000));
    fs::create_dir_all(server.home(&"d/".repeat(34))).expect("folders");
    let error = server.fails("list", json!({"path": "d", "recursive": true})).await;
    assert!(error.message.contains("deeper than 32"), "{}", error.message);
}
