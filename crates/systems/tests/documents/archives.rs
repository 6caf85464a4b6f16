//! Archives.

use std::io::{Cursor, Write as _};

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use value::{Map, Value};
use zip::write::SimpleFileOptions;

use crate::support::{archive, bytes, call, fails, file, inputs};

fn packed(content: Vec<u8>, with: serde_json::Value) -> Map {
    inputs(with, &[("file", file("a.zip", content))])
}

fn names(result: &Value) -> Vec<String> {
    let files = result.get("files").expect("files");
    files
        .as_list()
        .expect("a list")
        .iter()
        .map(|file| file.get("filename").expect("a name").to_text())
        .collect()
}

#[tokio::test]
async fn packed_files_are_unpacked_again() {
    let files =
        json!({"files": [{"name": "2026/a.csv", "content": "1,2"}, {"name": "ü.txt", "content": "über"}]});
    let result = call("zip.pack", &inputs(files.clone(), &[])).await;
    let first = bytes(&result);
    assert_eq!(
        first,
        bytes(&call("zip.pack", &inputs(files, &[])).await),
        "the same files give the same bytes"
    );
    let result = call("zip.unpack", &packed(first.clone(), json!({}))).await;
    assert_eq!(names(&result), ["2026/a.csv", "ü.txt"]);
    let files = result.get("files").expect("files");
    let text = files.as_list().expect("a list")[1].as_file().expect("a file").data.in_memory();
    assert_eq!(text.expect("in memory").as_ref(), "über".as_bytes());
    let result = call("zip.unpack", &packed(first, json!({"match": "2026/*"}))).await;
    assert_eq!(names(&result), ["2026/a.csv"]);
}

#[tokio::test]
async fn a_name_that_leaves_the_archive_is_an_error_that_names_it() {
    for name in ["../a", "/a", "a/../../b", "C:\\a", "..\\a"] {
        let (kind, message) =
            fails("zip.unpack", &packed(archive(&[("ok", b"1"), (name, b"2")]), json!({}))).await;
        assert_eq!(kind, ErrorKind::Input);
        assert!(message.contains("its file 2 is called"), "{name}: {message}");
        let with = json!({"match": "ok"});
        let result = call("zip.unpack", &packed(archive(&[("ok", b"1"), (name, b"2")]), with)).await;
        assert_eq!(names(&result), ["ok"]);
    }
    let twice = json!({"files": [{"name": "a", "content": "1"}, {"name": "a", "content": "2"}]});
    let (_, message) = fails("zip.pack", &inputs(twice, &[])).await;
    assert!(message.contains("two files are called `a`"), "{message}");
    // The library refuses to write a second one, so its name is made equal afterwards.
    let twice = archive(&[("aaaa", b"1"), ("bbbb", b"2")]);
    let twice = String::from_utf8_lossy(&twice)
        .contains("bbbb")
        .then(|| replace(&twice, b"bbbb", b"aaaa"))
        .expect("it is there");
    let (_, message) = fails("zip.unpack", &packed(twice, json!({}))).await;
    assert!(message.contains("the same name"), "{message}");
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[tokio::test]
async fn a_message_names_the_file_that_is_wrong() {
    let good = json!({"name": "a", "content": "1"});
    for (wrong, words) in
        [("../x", "`files[2]` has the name `../x`"), ("a", "`files`: two files are called `a`")]
    {
        let files = json!({"files": [good, {"name": "b", "content": "2"}, {"name": wrong, "content": "3"}]});
        let (_, message) = fails("zip.pack", &inputs(files, &[])).await;
        assert!(message.contains(words), "{message}");
    }
    let sheet = |name: &str, value: serde_json::Value| json!({"name": name, "rows": [{"a": value}]});
    let sheets = json!({"sheets": [sheet("one", json!(1)), sheet("two", json!("x".repeat(40_000)))]});
    let (_, message) = fails("sheet.write", &inputs(sheets, &[])).await;
    assert!(message.contains("the sheet `two`"), "{message}");
}

#[tokio::test]
async fn a_link_and_an_encrypted_file_are_errors() {
    let mut linked = zip::ZipWriter::new(Cursor::new(Vec::new()));
    linked.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).expect("a link");
    let linked = linked.finish().expect("an archive").into_inner();
    let (_, message) = fails("zip.unpack", &packed(linked, json!({}))).await;
    assert!(message.contains("`link` is a link"), "{message}");
    let mut encrypted = archive(&[("secret", b"1")]);
    // The flag of the entry in the directory: 8 bytes after its signature.
    let at = encrypted.windows(4).position(|window| window == b"PK\x01\x02").expect("a directory");
    encrypted[at + 8] |= 1;
    let (_, message) = fails("zip.unpack", &packed(encrypted, json!({}))).await;
    assert!(message.contains("`secret` is encrypted"), "{message}");
}

#[tokio::test]
async fn a_bomb_is_an_error_of_the_kind_limit() {
    let bomb = archive(&[("zeros", &vec![0; 2 << 20])]);
    let (kind, message) = fails("zip.unpack", &packed(bomb.clone(), json!({}))).await;
    assert_eq!((kind, message.contains("more than 200 times")), (ErrorKind::Limit, true), "{message}");
    let (kind, _) = fails("sheet.read", &inputs(json!({}), &[("file", file("b.xlsx", bomb))])).await;
    assert_eq!(kind, ErrorKind::Limit);
    let many: Vec<(String, &[u8])> = (0..10_001).map(|number| (number.to_string(), &b""[..])).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, content)| (name.as_str(), *content)).collect();
    let (kind, message) = fails("zip.unpack", &packed(archive(&many), json!({}))).await;
    assert_eq!((kind, message.contains("10001 files")), (ErrorKind::Limit, true), "{message}");
}

#[tokio::test]
async fn gzip_is_packed_and_unpacked_in_all_its_parts() {
    let result = call("gzip.pack", &inputs(json!({}), &[("content", file("a.txt", "one"))])).await;
    assert_eq!(result.path("file.filename").expect("a name").to_text(), "a.txt.gz");
    let twice = [bytes(&result), bytes(&result)].concat();
    let result = call("gzip.unpack", &inputs(json!({}), &[("file", file("a.txt.gz", twice.clone()))])).await;
    assert_eq!(
        (bytes(&result), result.path("file.filename").expect("a name").to_text()),
        (b"oneone".to_vec(), "a.txt".to_owned())
    );
    let cut = twice[..twice.len() - 4].to_vec();
    let (kind, message) = fails("gzip.unpack", &inputs(json!({}), &[("file", file("a.gz", cut))])).await;
    assert_eq!((kind, message.contains("cannot be read")), (ErrorKind::Input, true), "{message}");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; 4 << 20]).expect("zeros");
    let bomb = encoder.finish().expect("a file");
    let (kind, _) = fails("gzip.unpack", &inputs(json!({}), &[("file", file("a.gz", bomb))])).await;
    assert_eq!(kind, ErrorKind::Limit);
}
