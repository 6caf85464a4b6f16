//! Tests of resumable uploads.

use model::{ErrorKind, InputType};
use pretty_assertions::assert_eq;
use value::{JsonLimits, Map, Value};

use super::read_text;
use super::service::{Double, manifest_with, ok};
use crate::http::testing;
use crate::input::convert_value;
use crate::stages::Progress;

const ACTION: &str = "  make:
    title: Make
    request: POST /items
    inputs: {file: {required: true, to: upload}}
    upload: {protocol: google, location: {header: Location}, chunk: 256KiB}
    results: {type: object, fields: {id: text}}
    example:
      with: {file: a}
      request: POST /items
";

fn manifest(action: &str) -> String {
    manifest_with("", "{bearer: key}", action)
        .replace("  id: {type: text}\n", "  id: {type: text}\n  file: {type: file}\n")
}

#[test]
fn an_upload_is_checked_where_it_is_read() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(ACTION.contains(from), "{from}");
        let (_, errors) = read_text(&manifest(&ACTION.replace(from, to)));
        assert_eq!(errors, expected, "{to}");
    };
    check("256KiB", "60MiB", "");
    let piece = "a piece of an upload is a multiple of 256KiB, and has at most 60MiB";
    check("256KiB", "61MiB", &format!("24:62: {piece}\n"));
    check("256KiB", "300KiB", &format!("24:62: {piece}\n"));
    check(", chunk: 256KiB", "", "");
    check("{required: true, to: upload}", "upload", "23:14: an upload sends a file that is required\n");
    check(
        "    upload: {protocol: google, location: {header: Location}, chunk: 256KiB}\n",
        "",
        "23:14: the action has no `upload` for this input\n",
    );
}

fn file(size: usize) -> value::File {
    let inputs = Value::from_json(format!("\"{}\"", "a".repeat(size)).as_bytes(), JsonLimits::default());
    let text = convert_value(&InputType::File, &inputs.expect("JSON")).expect("a file");
    value::File::clone(text.as_file().expect("a file"))
}

fn range(request: &str) -> &str {
    request.lines().find_map(|line| line.strip_prefix("content-range: ")).unwrap_or_default()
}

#[tokio::test]
async fn an_upload_that_makes_no_progress_gives_up_after_five_failures() {
    let double = Double::start(&manifest(ACTION), |count, _| match count {
        0 => testing::reply("308 Resume", b""),
        1 => testing::reply("308 Resume\r\nrange: bytes=0-99", b""),
        _ => testing::reply("503 Unavailable", b""),
    })
    .await;
    let error = double.send_file(file(1000), "/v1/session").await.expect_err("it gives up");
    assert!(matches!(error.kind, ErrorKind::Status | ErrorKind::Network), "{error:?}");
    let requests = double.requests();
    let ranges: Vec<&str> = requests.iter().map(|request| range(request)).collect();
    let question = "bytes */1000";
    assert_eq!(ranges[..3], [question, "bytes 0-999/1000", "bytes 100-999/1000"]);
    // A host that fails may be left alone for a while, so that not every question is sent.
    assert!(ranges.len() <= 7 && ranges[3..].iter().all(|range| *range == question), "{ranges:?}");
}

#[tokio::test]
async fn an_empty_file_and_a_whole_one_end_with_the_first_answer() {
    for size in [0, 5] {
        let double = Double::start(&manifest(ACTION), |_, _| ok(r#"{"id": "f"}"#)).await;
        let sent = double.send_file(file(size), "/v1/session").await.expect("it is sent");
        assert_eq!(sent, Progress::Ended(Value::from(Map::from_iter([("id", Value::from("f"))]))));
        assert_eq!(range(&double.requests()[0]), format!("bytes */{size}"));
    }
}
