//! Documents that were made to do harm: each is an error or is read, within a time and within the memory of a worker.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use model::ErrorKind;
use serde_json::json;
use value::{Map, Value};

use crate::support::{archive, file, inputs, sheet, try_call_within, workbook};

/// The time of a step with one document, and how much later it may end on a busy machine.
const TIME: Duration = Duration::from_secs(8);
const LATE: Duration = Duration::from_secs(30);
/// The memory that this process may get for one document, in KiB, beside the bytes of the document and of the result.
const MAX_MEMORY: u64 = 96 << 10;

/// Calls an action with a document. Returns the kind of its error; `None` if the document was read.
async fn outcome(name: &str, action: &str, inputs: &Map) -> Option<ErrorKind> {
    // Resets the peak (proc(5)).
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak is reset");
    let (before, began) = (memory("VmRSS:"), Instant::now());
    let result = try_call_within(action, inputs, Some(TIME)).await;
    let (grown, took) = (memory("VmHWM:").saturating_sub(before), began.elapsed());
    assert!(took < TIME + LATE, "{name}: {took:?}");
    assert!(grown < MAX_MEMORY, "{name}: {grown} KiB");
    let error = result.err()?;
    assert!(
        [ErrorKind::Input, ErrorKind::Limit, ErrorKind::Timeout].contains(&error.kind),
        "{name}: {error:?}"
    );
    assert!(error.message.len() < 2_000, "{name}: {} bytes of message", error.message.len());
    Some(error.kind.clone())
}

fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn html(text: impl Into<Vec<u8>>, with: serde_json::Value) -> Map {
    inputs(with, &[("html", file("page.html", text))])
}

/// A comment that no packer makes small, so that a document does not look like a bomb.
fn noise(count: usize) -> String {
    (0..count as u64).fold(String::new(), |mut text, number| {
        let _ = write!(text, "{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        text
    })
}

#[tokio::test]
async fn a_hostile_workbook_is_an_error_or_is_read_within_bounds() {
    let row = |cells: &str| format!("<row r=\"1\">{cells}</row><!--{}-->", noise(20_000));
    let entities = "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\">]>";
    let deep =
        |name: &str, count: usize| format!("<{name}>").repeat(count) + &format!("</{name}>").repeat(count);
    for (name, rows) in [
        ("a million spaces in a tag", row(&format!("<c{}/>", " ".repeat(1_000_000)))),
        ("deep elements", row(&format!("<c r=\"A1\" t=\"inlineStr\"><is>{}</is></c>", deep("x", 200_000)))),
        ("deep elements around rows", deep("row", 200_000) + &row("")),
        ("deep elements that do not end", "<c><v>".repeat(200_000) + &noise(50_000)),
        ("entities of entities", format!("{entities}{}", row("<c r=\"A1\" t=\"str\"><v>&c;&c;&c;</v></c>"))),
        ("a cell outside of every sheet", row("<c r=\"ZZZZZZZZZ99999999999999999999\"><v>1</v></c>")),
        ("a row outside of every sheet", "<row r=\"99999999999999999999\"><c><v>1</v></c></row>".to_owned()),
        (
            "the last cell of the largest sheet",
            "<row r=\"1048576\"><c r=\"XFD1048576\"><v>1</v></c></row>".to_owned(),
        ),
        (
            "cells of no order",
            row("<c r=\"B1\"><v>1</v></c><c r=\"A1\"><v>2</v></c><c r=\"A1\"><v>3</v></c>"),
        ),
        (
            "dates that no calendar has",
            row(
                "<c r=\"A1\" s=\"1\"><v>1e308</v></c><c r=\"B1\" s=\"2\"><v>-1e18</v></c><c r=\"C1\" s=\"3\"><v>NaN</v></c>",
            ),
        ),
        ("a shared text that is not there", row("<c r=\"A1\" t=\"s\"><v>18446744073709551615</v></c>")),
        (
            "a text of many megabytes",
            row(&format!("<c r=\"A1\" t=\"inlineStr\"><is><t>{}</t></is></c>", noise(600_000))),
        ),
        ("a style that is not there", row("<c r=\"A1\" s=\"4294967295\"><v>1</v></c>")),
    ] {
        outcome(name, "sheet.read", &sheet(workbook(&rows, false), json!({"header": false}))).await;
    }
}

#[tokio::test]
async fn a_hostile_archive_is_an_error_that_writes_nothing_outside() {
    let bomb = vec![0; 3 << 20];
    let book = archive(&[("xl/workbook.xml", b"<workbook/>"), ("xl/sharedStrings.xml", &bomb)]);
    assert_eq!(
        outcome("a bomb in a workbook", "sheet.read", &sheet(book, json!({}))).await,
        Some(ErrorKind::Limit)
    );
    let packed = |content: Vec<u8>| inputs(json!({}), &[("file", file("a.zip", content))]);
    for name in ["../../etc/passwd", "/etc/passwd", "a/../../b", "..\\..\\b", "C:\\windows\\b", "a\0b"] {
        let found = outcome(name, "zip.unpack", &packed(archive(&[(name, b"x")]))).await;
        assert_eq!(found, Some(ErrorKind::Input), "{name:?}");
    }
    let long = "n".repeat(60_000);
    outcome("a name of 60,000 bytes", "zip.unpack", &packed(archive(&[(&long, b"x")]))).await;
    // The size of a file in the directory at the end, and that of the data before it.
    let lying = archive(&[("zeros", &bomb)]);
    let size = u32::try_from(bomb.len()).expect("a size").to_le_bytes();
    let lying: Vec<u8> = lying.windows(4).enumerate().fold(lying.clone(), |mut lying, (at, found)| {
        if found == size {
            lying[at..at + 4].copy_from_slice(&10_u32.to_le_bytes());
        }
        lying
    });
    let found = outcome("a size that lies", "zip.unpack", &packed(lying)).await;
    assert!(found.is_some(), "the file has more bytes than its size");
    let inner = archive(&[("zeros", &bomb)]);
    outcome("an archive in an archive", "zip.unpack", &packed(archive(&[("a.zip", &inner)]))).await;
    let one = GzEncoder::new(Vec::new(), Compression::fast()).finish().expect("a file");
    let many = inputs(json!({}), &[("file", file("a.gz", one.repeat(200_000)))]);
    outcome("200,000 empty parts", "gzip.unpack", &many).await;
    for cut in [0, 3, 21, 40, 100] {
        let whole = workbook("<row/>", false);
        let cut = whole[..whole.len() - cut.max(1)].to_vec();
        outcome("a cut workbook", "sheet.read", &sheet(cut, json!({}))).await;
    }
}

#[tokio::test]
async fn a_hostile_page_is_an_error_or_is_read_within_bounds() {
    let select = json!({"select": {"a": "div div div div a", "b": {"css": "*", "all": true, "attr": "x"}}});
    let deep = |open: &str, count: usize| open.repeat(count) + "deep";
    for (name, action, page, with) in [
        ("100,000 elements in each other", "html.text", deep("<div>", 100_000), json!({})),
        (
            "1,900 elements in each other, selected",
            "html.select",
            deep("<div>", 1_900) + &"<hr>".repeat(1_000),
            select,
        ),
        ("formats that are opened again", "html.text", deep("<b><p>", 5_000), json!({})),
        ("formats that do not nest", "html.text", "<a><b><i><u><p></a></b></i></u>".repeat(5_000), json!({})),
        ("tables in tables", "html.table", deep("<table><tr><td>", 450), json!({"css": "table"})),
        ("forms and selects", "html.text", deep("<form><select><option>", 5_000), json!({})),
        (
            "cells that span all",
            "html.table",
            format!("<table>{}</table>", "<tr><td rowspan=65534 colspan=1000>".repeat(400)),
            json!({"css": "table"}),
        ),
        (
            "an element with 100,000 attributes",
            "html.text",
            format!(
                "<a {}>",
                (0..100_000).fold(String::new(), |mut text, number| {
                    let _ = write!(text, "a{number}=b ");
                    text
                })
            ),
            json!({}),
        ),
        ("a tag that does not end", "html.text", format!("<a {}", "x".repeat(4 << 20)), json!({})),
        ("a million references", "html.text", "&lt;".repeat(1_000_000), json!({})),
        ("foreign elements", "html.text", deep("<svg><math><annotation-xml>", 5_000), json!({})),
    ] {
        outcome(name, action, &html(page, with)).await;
    }
}

#[tokio::test]
async fn a_hostile_csv_is_an_error_or_is_read_within_bounds() {
    let columns = |count: usize| {
        (0..count).fold(String::new(), |mut text, number| {
            let _ = write!(text, "c{number},");
            text
        })
    };
    let csv = |text: String, with: serde_json::Value| inputs(with, &[("data", file("rows.csv", text))]);
    for (name, text, with) in [
        ("a million columns", columns(1_000_000) + "\n1", json!({})),
        ("a million columns without a header", ",".repeat(1_000_000), json!({"header": false})),
        ("a million columns into a file", columns(1_000_000) + "\n1", json!({"as": "jsonLines"})),
        ("a quote that does not end", format!("a,b\n1,\"{}", "x\n".repeat(4 << 20)), json!({})),
        ("names that are all the same", "a,".repeat(100_000) + "\n", json!({})),
        ("a row of many megabytes", format!("a\n{}\n", "x".repeat(12 << 20)), json!({"as": "csv"})),
        ("nothing but line ends", "\n".repeat(8 << 20), json!({})),
        ("a million quotes", "\"".repeat(4_000_001), json!({})),
    ] {
        outcome(name, "data.parseCsv", &csv(text, with)).await;
    }
    let rows = file("rows.csv", columns(1_000_000) + "\n1");
    let sheet = Map::from_iter([("name", Value::from("A")), ("rows", rows), ("format", Value::from("csv"))]);
    let with = Map::from_iter([("sheets", Value::from_iter([Value::from(sheet)]))]);
    assert!(outcome("a sheet of a million columns", "sheet.write", &with).await.is_some());
}
