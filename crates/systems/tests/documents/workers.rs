//! The processes that read documents.

use std::time::Duration;

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{fails, inputs, no_inputs, sheet, try_call_within, workbook};

#[tokio::test]
async fn a_document_that_needs_too_much_memory_is_an_error_of_the_kind_limit() {
    // A cell of 16,000 copies, which the reader of this format has in memory one by one.
    let corners = r#"<table:table-row><table:table-cell office:value-type="string" table:number-columns-repeated="16000"><text:p>x</text:p></table:table-cell></table:table-row>"#;
    let content = format!(
        r#"<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x"><office:body><office:spreadsheet><table:table table:name="A">{}</table:table></office:spreadsheet></office:body></office:document-content>"#,
        corners.repeat(2_000)
    );
    let noise: Vec<u8> =
        (0..2_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let book = crate::support::archive(&[
        ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", b"<m/>"),
        ("content.xml", content.as_bytes()),
        ("noise", &noise),
    ]);
    let (kind, message) = fails("sheet.read", &sheet(book, no_inputs())).await;
    assert_eq!((kind, message.contains("192MiB of memory")), (ErrorKind::Limit, true), "{message}");
}

#[tokio::test]
async fn a_step_that_is_over_ends_its_worker() {
    let html = format!("{}{}", "<a b=c><i>".repeat(60_000), "</a>");
    let with = inputs(json!({"html": html, "select": {"a": "b c d e f g"}}), &[]);
    let started = std::time::Instant::now();
    let result = try_call_within("html.select", &with, Some(Duration::from_millis(1))).await;
    let error = result.expect_err("it takes longer");
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_sheet_has_a_limit_of_cells() {
    // The comments keep the sheet from looking like a bomb.
    let cells = "<c/>".repeat(100);
    let noise = |row: u32| u64::from(row).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let row = |row: u32| format!("<row><!--{:016x}-->{cells}</row>", noise(row));
    let rows: String = (0..20_001).map(row).collect();
    let (kind, message) =
        fails("sheet.read", &sheet(workbook(&rows, false), json!({"range": "XFD:XFD"}))).await;
    assert_eq!((kind, message.contains("more than 2000000 cells")), (ErrorKind::Limit, true), "{message}");
}
