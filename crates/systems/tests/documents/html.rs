//! Pages.

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;
use value::{Data, File, Value};

use crate::support::{call, fails, inputs, rows};

#[tokio::test]
async fn parts_of_a_page_are_texts_attributes_and_lists() {
    let html =
        "<title>T</title><h1> Tea \n<b>and</b> ink<script>no()</script></h1><a href='/a'>A</a><a>B</a>";
    let select = json!({
        "title": "h1", "none": "h2", "links": {"css": "a", "attr": "href", "all": true}, "inner": {"css": "h1 b", "html": true},
    });
    let result = call("html.select", &inputs(json!({"html": html, "select": select}), &[])).await;
    assert_eq!(result.to_json(), r#"{"title":"Tea and ink","none":null,"links":["/a",null],"inner":"and"}"#);
    let (_, message) = fails("html.select", &inputs(json!({"html": html, "select": {"a": "b["}}), &[])).await;
    assert!(message.contains("`select.a`: `b[` is not a CSS selector: at character 2, `[`, "), "{message}");
}

#[tokio::test]
async fn a_table_has_spans_and_no_rows_of_tables_inside() {
    let html = "<table><tr><th>a<th>b<th>c<tr><td rowspan=2>1<td colspan=2>x<tr><td>y<td><table><tr><td>in<td>ner</table></table>";
    let result = call("html.table", &inputs(json!({"html": html}), &[])).await;
    assert_eq!(rows(&result), r#"[{"a":"1","b":"x","c":"x"},{"a":"1","b":"y","c":"in ner"}]"#);
    let prices = "<table><tr><th>Name<th>Price<tr><td>Tea<td>9.50</table>";
    let with = json!({"html": prices, "types": {"Price": "number"}});
    assert_eq!(rows(&call("html.table", &inputs(with, &[])).await), r#"[{"Name":"Tea","Price":9.5}]"#);
    let with = json!({"html": prices, "types": {"Name": "number"}});
    let (_, message) = fails("html.table", &inputs(with, &[])).await;
    assert!(message.contains("cell A2 of the table (`Name`) is `Tea`, not a number"), "{message}");
    let (_, message) = fails("html.table", &inputs(json!({"html": "<p>none"}), &[])).await;
    assert!(message.contains("it has no element `table`"), "{message}");
}

#[tokio::test]
async fn the_text_of_a_page_has_a_line_for_each_block() {
    let html = "<head><title>no</title></head><h1>Tea</h1><p>one<br>two <i>three</i><table><tr><td>a<td>b</table><style>x</style>";
    let result = call("html.text", &inputs(json!({"html": html}), &[])).await;
    assert_eq!(result.to_text(), "Tea\none\ntwo three\na b");
}

#[tokio::test]
async fn a_page_is_read_in_the_encoding_that_it_names() {
    for (content_type, bytes) in [
        ("text/html; charset=windows-1252", &b"<p>\xFCber"[..]),
        ("text/html", b"<meta charset='iso-8859-1'><p>\xFCber"),
        ("text/html", b"<meta http-equiv=Content-Type content=\"text/html; charset=iso-8859-1\"><p>\xFCber"),
        ("text/html", b"<p>\xFCber"),
        ("text/html", b"<p>\xC3\xBCber"),
        ("text/html", b"\xFF\xFE<\0p\0>\0\xFC\0b\0e\0r\0"),
    ] {
        let page =
            File { content_type: content_type.into(), filename: None, data: Data::from(bytes.to_vec()) };
        let result = call("html.text", &inputs(json!({}), &[("html", Value::from(page))])).await;
        assert_eq!(result.to_text(), "über", "{content_type}");
    }
}

#[tokio::test]
async fn a_page_has_a_limit_of_nodes_and_of_depth() {
    let (kind, message) = fails("html.text", &inputs(json!({"html": "<b>".repeat(500_001)}), &[])).await;
    assert_eq!((kind, message.contains("more than 500000")), (ErrorKind::Limit, true), "{message}");
    // The document itself, `html` and `body` count too.
    let deep = |count: usize| inputs(json!({"html": "<div>".repeat(count) + "deep"}), &[]);
    assert_eq!(call("html.text", &deep(1_997)).await.to_text(), "deep");
    for count in [1_998, 100_000] {
        let (kind, message) = fails("html.text", &deep(count)).await;
        assert_eq!(
            (kind, message.contains("more than 2000 elements one inside")),
            (ErrorKind::Limit, true),
            "{message}"
        );
    }
    // A comment behind the end is not deep, whatever is still open.
    let hidden = ("<div>".repeat(500) + "</body><!-- -->").repeat(200);
    let (kind, _) = fails("html.text", &inputs(json!({"html": hidden}), &[])).await;
    assert_eq!(kind, ErrorKind::Limit);
}
