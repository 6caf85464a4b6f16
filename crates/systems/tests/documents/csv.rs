//! `data.parseCsv` and `data.toCsv`.

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use value::{Data, File, Value};

use crate::support::{bytes, call, fails, file, inputs};

async fn parsed(with: serde_json::Value) -> String {
    call("data.parseCsv", &inputs(with, &[])).await.to_json()
}

async fn refused(with: serde_json::Value) -> String {
    let (kind, message) = fails("data.parseCsv", &inputs(with, &[])).await;
    assert_eq!(kind, ErrorKind::Input, "{message}");
    message
}

#[tokio::test]
async fn cells_are_texts_unless_their_column_has_a_type() {
    let with = json!({"data": "id,n,day\n007,2,2026-03-01\n\"a,\"\"b\"\"\nc\",,\n", "types": {"n": "integer", "day": "date"}});
    assert_eq!(
        parsed(with).await,
        r#"[{"id":"007","n":2,"day":"2026-03-01"},{"id":"a,\"b\"\nc","n":null,"day":null}]"#
    );
    let wrong = json!({"data": "id,n\n1,2\n2,x\n", "types": {"n": "integer"}});
    let message = refused(wrong).await;
    assert!(message.contains("cell 2 of line 3 (`n`) is `x`"), "{message}");
}

#[tokio::test]
async fn separators_quotes_preambles_and_headers_are_as_named() {
    let with =
        json!({"data": "export\nof today\nid;n\n17;'2;5'\n", "delimiter": ";", "quote": "'", "skip": 2});
    assert_eq!(parsed(with).await, r#"[{"id":"17","n":"2;5"}]"#);
    let with = json!({"data": "a\tb\"c\n", "delimiter": "\t", "quote": "", "header": false});
    assert_eq!(parsed(with).await, r#"[["a","b\"c"]]"#);
    let with = json!({"data": "1,2\n3,4\n", "header": false, "columns": ["a", "b"]});
    assert_eq!(parsed(with).await, r#"[{"a":"1","b":"2"},{"a":"3","b":"4"}]"#);
    let with = json!({"data": "\u{feff}a,b,c\r\n1,2,3\r\n", "columns": ["c", "a"]});
    assert_eq!(parsed(with).await, r#"[{"c":"3","a":"1"}]"#);
    let trailing = json!({"data": "a,b,\n1,2,\n"});
    assert_eq!(parsed(trailing).await, r#"[{"a":"1","b":"2"}]"#);
}

#[tokio::test]
async fn a_row_that_cannot_be_meant_is_an_error_that_names_its_line() {
    for (data, expected) in [
        ("a,b\n1\n", "the row in line 2 has 1 cells, the header 2"),
        ("a,b\n1,2,3\n", "the row in line 2 has 3 cells, the header 2"),
        ("a,a\n1,2\n", "column 1 and column 2 are both named `a`"),
        ("a,\n1,2\n", "cell 2 of line 2 has a value, and its column has no name"),
        ("a\n\"x\n\n", "the quote that opens a cell in line 2 is never closed"),
        ("a\n\"x\"y\n", "in line 2 goes on after its closing quote"),
        ("a\n1\n\u{0}2\n", "line 3 has a zero byte"),
    ] {
        let message = refused(json!({"data": data})).await;
        assert!(message.contains(expected), "{data:?}: {message}");
    }
    let with = json!({"data": "1,2\n", "header": false, "columns": ["a", "b", "c"]});
    let message = refused(with).await;
    assert!(message.contains("`columns` names 3 columns, and the first row has 2 cells"), "{message}");
    let wide = refused(json!({"data": ",".repeat(16_384), "header": false})).await;
    assert!(wide.contains("the row in line 1 has more than 16384 cells"), "{wide}");
    let message = refused(json!({"data": "a\n1\n", "delimiter": ";;"})).await;
    assert!(message.contains("`delimiter` is not one character"), "{message}");
    let message = refused(json!({"data": "a\nü\n", "encoding": "windows-1252"})).await;
    assert!(message.contains("`encoding` is for a file, and `data` is a text"), "{message}");
    let message = refused(json!({"data": "a\n1\n", "columns": ["b"]})).await;
    assert!(message.contains("`columns` has `b`, which the header has not; it has `a`"), "{message}");
}

fn text_file(content_type: &str, bytes: &[u8]) -> Value {
    Value::from(File { content_type: content_type.into(), filename: None, data: Data::from(bytes.to_vec()) })
}

#[tokio::test]
async fn a_file_is_read_in_its_encoding_or_names_the_line_that_is_not() {
    for (content_type, bytes, with) in [
        ("text/csv", &b"a\n\xC3\xBC\n"[..], json!({})),
        ("text/csv", b"\xEF\xBB\xBFa\n\xC3\xBC\n", json!({"encoding": "windows-1252"})),
        ("text/csv; charset=windows-1252", b"a\n\xFC\n", json!({})),
        ("text/csv", b"a\n\xFC\n", json!({"encoding": "windows-1252"})),
        ("text/csv", b"\xFF\xFEa\0\n\0\xFC\0\n\0", json!({})),
        ("text/csv", b"a\0\n\0\xFC\0\n\0", json!({"encoding": "utf-16le"})),
    ] {
        let result = call("data.parseCsv", &inputs(with, &[("data", text_file(content_type, bytes))])).await;
        assert_eq!(result.to_json(), r#"[{"a":"ü"}]"#, "{content_type} {bytes:?}");
    }
    let wrong = inputs(json!({}), &[("data", text_file("text/csv", b"a\n1\n\xFC\n"))]);
    let (_, message) = fails("data.parseCsv", &wrong).await;
    assert!(message.contains("line 3 is not in UTF-8; name the encoding"), "{message}");
}

#[tokio::test]
async fn a_file_becomes_a_file_of_the_same_rows() {
    let csv = file("a.csv", "id;n\n007;\"2;5\"\n18;\n");
    let with = inputs(json!({"delimiter": ";", "as": "jsonLines"}), &[("data", csv)]);
    let result = call("data.parseCsv", &with).await;
    assert_eq!(
        String::from_utf8(bytes(&result)).expect("a text"),
        "{\"id\":\"007\",\"n\":\"2;5\"}\n{\"id\":\"18\",\"n\":\"\"}\n"
    );
    assert_eq!(result.get("count").expect("a count").to_text(), "2");
    let with = inputs(
        json!({"delimiter": ";", "as": "file", "encoding": "windows-1252", "columns": ["n", "id"]}),
        &[("rows", result.get("file").expect("a file"))],
    );
    let result = call("data.toCsv", &with).await;
    let written = result.as_file().expect("a file").data.in_memory().expect("in memory").to_vec();
    assert_eq!(String::from_utf8(written).expect("a text"), "n;id\n\"2;5\";007\n;18\n");
    assert_eq!(result.path("contentType").expect("a type").to_text(), "text/csv; charset=windows-1252");
}

#[tokio::test]
async fn rows_are_written_in_the_encoding_that_their_reader_wants() {
    let rows = json!([{"a": "ü", "b": 1}, {"b": null, "c": "x,\"y\""}]);
    let text = call("data.toCsv", &inputs(json!({"rows": rows}), &[])).await;
    assert_eq!(text.to_text(), "a,b,c\nü,1,\n,,\"x,\"\"y\"\"\"\n");
    let marked =
        call("data.toCsv", &inputs(json!({"rows": [{"a": "ü"}], "as": "file", "mark": true}), &[])).await;
    assert_eq!(
        marked.as_file().expect("a file").data.in_memory().expect("in memory").as_ref(),
        "\u{feff}a\nü\n".as_bytes()
    );
    let wide = call(
        "data.toCsv",
        &inputs(json!({"rows": [{"a": "ü"}], "as": "file", "mark": true, "encoding": "utf-16le"}), &[]),
    )
    .await;
    assert_eq!(
        wide.as_file().expect("a file").data.in_memory().expect("in memory").as_ref(),
        b"\xFF\xFEa\0\n\0\xFC\0\n\0"
    );
    let (_, message) = fails(
        "data.toCsv",
        &inputs(json!({"rows": [{"a": "日"}], "as": "file", "encoding": "windows-1252"}), &[]),
    )
    .await;
    assert!(message.contains("has `日`, which windows-1252 has not"), "{message}");
    let (_, message) = fails("data.toCsv", &inputs(json!({"rows": [{"a": "1"}, ["2"]]}), &[])).await;
    assert!(
        message.contains("row 2 is a list, not a map") || message.contains("row 2 is list, not a map"),
        "{message}"
    );
    for (with, expected) in [
        (json!({"rows": [["1"]], "columns": ["a", "b"]}), "row 1 has 1 cells, and there are 2 columns"),
        (json!({"rows": [["", "1"], [""]], "quote": ""}), "row 2 has the cell ``, which needs a quote"),
    ] {
        let (_, message) = fails("data.toCsv", &inputs(with, &[])).await;
        assert!(message.contains(expected), "{message}");
    }
    let (_, message) = fails("data.toCsv", &inputs(json!({"rows": [], "encoding": "latin1"}), &[])).await;
    assert!(message.contains("`encoding` is for a file"), "{message}");
}
