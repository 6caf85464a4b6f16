//! Sheets of other programs, and written ones.

use model::ErrorKind;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{archive, bytes, call, fails, file, inputs, no_inputs, rows, sheet, workbook};

const HEADER: &str = r#"<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c><c r="B1" t="inlineStr"><is><t>amount</t></is></c></row>"#;

fn with_header(rows: &str) -> Vec<u8> {
    workbook(&format!("{HEADER}{rows}"), false)
}

#[tokio::test]
async fn cells_are_the_values_that_the_sheet_shows() {
    let row = r#"<row r="2"><c r="A2" t="inlineStr"><is><t>007</t></is></c><c r="B2"><v>17</v></c></row>
        <row r="3"><c r="A3" t="b"><v>1</v></c><c r="B3"><v>0.5</v></c></row>
        <row r="5"><c r="A5" s="1"><v>46082</v></c><c r="B5" s="2"><v>46082.5</v></c></row>
        <row r="6"><c r="A6" s="3"><v>1.25</v></c><c r="B6"><f>1+1</f><v>2</v></c></row>"#;
    let result = call("sheet.read", &sheet(with_header(row), no_inputs())).await;
    assert_eq!(
        rows(&result),
        r#"[{"id":"007","amount":17},{"id":true,"amount":0.5},{"id":"2026-03-01","amount":"2026-03-01T12:00:00"},{"id":"PT30H","amount":2}]"#
    );
    assert_eq!(result.get("sheet").expect("a name").to_text(), "Data");
    let old = workbook(r#"<row r="1"><c r="A1" s="1"><v>44620</v></c></row>"#, true);
    let result = call("sheet.read", &sheet(old, json!({"header": false}))).await;
    assert_eq!(rows(&result), r#"[{"A":"2026-03-01"}]"#);
}

#[tokio::test]
async fn a_cell_without_a_value_is_an_error_that_names_it() {
    let error = r#"<row r="2"><c r="A2"><v>1</v></c><c r="B2" t="e"><v>#DIV/0!</v></c></row>"#;
    let (kind, message) = fails("sheet.read", &sheet(with_header(error), no_inputs())).await;
    assert_eq!(kind, ErrorKind::Input);
    assert!(message.contains("`Data`!B2 is the error #DIV/0!"), "{message}");
    let uncomputed = r#"<row r="2"><c r="A2"><v>1</v></c><c r="B2"><f>A2*2</f></c></row>"#;
    let (_, message) = fails("sheet.read", &sheet(with_header(uncomputed), no_inputs())).await;
    assert!(message.contains("`Data`!B2 has a formula without a stored value"), "{message}");
    for (errors, expected) in [("null", "null"), ("text", r##""#DIV/0!""##)] {
        let result = call("sheet.read", &sheet(with_header(error), json!({"errors": errors}))).await;
        assert_eq!(rows(&result), format!(r#"[{{"id":1,"amount":{expected}}}]"#));
    }
}

/// A workbook of the format ods with one sheet of this XML.
fn ods(rows: &str) -> Vec<u8> {
    let content = format!(
        r#"<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" xmlns:calcext="c"><office:body><office:spreadsheet><table:table table:name="Tabelle">{rows}</table:table></office:spreadsheet></office:body></office:document-content>"#
    );
    archive(&[
        ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", b"<m/>"),
        ("content.xml", content.as_bytes()),
    ])
}

#[tokio::test]
async fn a_sheet_of_another_office_has_the_same_values() {
    let header = r#"<table:table-row><table:table-cell office:value-type="string"><text:p>id</text:p></table:table-cell><table:table-cell office:value-type="string"><text:p>day</text:p></table:table-cell><table:table-cell office:value-type="string"><text:p>n</text:p></table:table-cell></table:table-row>"#;
    let row = r#"<table:table-row><table:table-cell office:value-type="string"><text:p>007</text:p></table:table-cell><table:table-cell office:value-type="date" office:date-value="2026-03-01"><text:p>1.3.26</text:p></table:table-cell><table:table-cell office:value-type="float" office:value="9.5"><text:p>9,50</text:p></table:table-cell></table:table-row>
        <table:table-row><table:table-cell office:value-type="boolean" office:boolean-value="true"/><table:table-cell office:value-type="time" office:time-value="PT30H00M00S"/><table:table-cell office:value-type="percentage" office:value="0.5"/></table:table-row>"#;
    let result = call("sheet.read", &sheet(ods(&format!("{header}{row}")), no_inputs())).await;
    assert_eq!(
        rows(&result),
        r#"[{"id":"007","day":"2026-03-01","n":9.5},{"id":true,"day":"PT30H","n":0.5}]"#
    );
    let error = r##"<table:table-row><table:table-cell table:formula="of:=1/0" office:value-type="string" office:string-value="" calcext:value-type="error"><text:p>#DIV/0!</text:p></table:table-cell></table:table-row>"##;
    let (_, message) = fails("sheet.read", &sheet(ods(&format!("{header}{error}")), no_inputs())).await;
    assert!(message.contains("`Tabelle`!A2 is the error #DIV/0!"), "{message}");
}

#[tokio::test]
async fn a_type_is_kept_or_an_error_names_the_cell() {
    let row = r#"<row r="2"><c r="A2"><v>7</v></c><c r="B2" t="inlineStr"><is><t>9.50</t></is></c></row>"#;
    let types = json!({"types": {"id": "text", "amount": "number"}});
    let result = call("sheet.read", &sheet(with_header(row), types)).await;
    assert_eq!(rows(&result), r#"[{"id":"7","amount":9.5}]"#);
    let (_, message) =
        fails("sheet.read", &sheet(with_header(row), json!({"types": {"amount": "integer"}}))).await;
    assert!(message.contains("`Data`!B2 (`amount`) is `9.50`, not a whole number"), "{message}");
    let (_, message) =
        fails("sheet.read", &sheet(with_header(row), json!({"types": {"amuont": "text"}}))).await;
    assert!(message.contains("`types.amuont` is no column; there are `id`, `amount`"), "{message}");
}

#[tokio::test]
async fn a_header_names_each_column_once() {
    let twice = r#"<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c><c r="C1" t="inlineStr"><is><t>id</t></is></c></row>"#;
    let (_, message) = fails("sheet.read", &sheet(workbook(twice, false), no_inputs())).await;
    assert!(message.contains("`Data`!A1 and `Data`!C1 are both named `id`"), "{message}");
    let nameless = r#"<row r="2"><c r="A2"><v>1</v></c><c r="C2"><v>3</v></c></row>"#;
    let (_, message) = fails("sheet.read", &sheet(with_header(nameless), no_inputs())).await;
    assert!(message.contains("`Data`!C2 has a value, and its column has no name"), "{message}");
    let named = json!({"range": "A2", "header": false, "columns": ["a", "b", "c"]});
    let result = call("sheet.read", &sheet(with_header(nameless), named)).await;
    assert_eq!(rows(&result), r#"[{"a":1,"b":null,"c":3}]"#);
    let some = json!({"columns": ["amount"]});
    let row = r#"<row r="2"><c r="A2"><v>1</v></c><c r="B2"><v>2</v></c></row>"#;
    let result = call("sheet.read", &sheet(with_header(row), some)).await;
    assert_eq!(rows(&result), r#"[{"amount":2}]"#);
}

#[tokio::test]
async fn a_range_leaves_out_what_is_around_it() {
    let row = |number: u32| {
        let cell = |column: char| format!(r#"<c r="{column}{number}"><v>{number}</v></c>"#);
        format!(r#"<row r="{number}">{}</row>"#, "ABC".chars().map(cell).collect::<String>())
    };
    let book = workbook(&(1..=4).map(row).collect::<String>(), false);
    let with = json!({"range": "B2:C3", "header": false});
    let result = call("sheet.read", &sheet(book.clone(), with)).await;
    assert_eq!(rows(&result), r#"[{"B":2,"C":2},{"B":3,"C":3}]"#);
    let result = call("sheet.read", &sheet(book, json!({"header": false, "maxRows": 3}))).await;
    assert_eq!(result.get("truncated").expect("it says so").to_json(), "true");
}

#[tokio::test]
async fn a_file_that_is_no_workbook_says_what_reads_it() {
    for (content, expected) in [
        (&b"<html><table></table></html>"[..], "read it with `html.table`"),
        (b"id;amount\n1;2\n", "is read with `data.parseCsv`"),
        (b"", "it is empty"),
        (b"PK\x03\x04 and no archive", "no ZIP archive"),
        (b"\xD0\xCF\x11\xE0 and no sheet", "damaged, or no workbook"),
    ] {
        let (kind, message) = fails("sheet.read", &sheet(content.to_vec(), no_inputs())).await;
        assert_eq!(kind, ErrorKind::Input, "{message}");
        assert!(message.starts_with("`file` (book.xlsx): ") && message.contains(expected), "{message}");
    }
    let (_, message) = fails("sheet.read", &sheet(with_header(""), json!({"sheet": "Dta"}))).await;
    assert!(message.contains("it has no sheet `Dta`; it has `Data`"), "{message}");
}

#[tokio::test]
async fn a_written_workbook_is_read_again_as_it_was() {
    let with = json!({"sheets": [
        {"name": "Ünïcode & <x>", "rows": [
            {"id": "007", "text": "=1+1", "day": "2026-03-01", "amount": "9.50", "flag": true, "long": 12345678901234567_i64},
            {"id": "a\"b<c>&\u{1}_x0041_", "text": " two\nlines ", "day": null, "amount": 12, "flag": false, "long": 5},
        ], "columns": [
            {"field": "id"}, {"field": "text", "title": "Text", "width": 20},
            {"field": "day", "format": "yyyy-mm-dd"}, {"field": "amount", "format": "0.00"}, {"field": "flag"}, {"field": "long"},
        ]},
        {"name": "Second", "rows": []},
    ]});
    let written = call("sheet.write", &inputs(with, &[])).await;
    let result = call("sheet.read", &sheet(bytes(&written), no_inputs())).await;
    assert_eq!(
        rows(&result),
        "[{\"id\":\"007\",\"Text\":\"=1+1\",\"day\":\"2026-03-01\",\"amount\":9.5,\"flag\":true,\"long\":\"12345678901234567\"},\
         {\"id\":\"a\\\"b<c>&\\u0001_x0041_\",\"Text\":\" two\\nlines \",\"day\":null,\"amount\":12,\"flag\":false,\"long\":5}]"
    );
    let result = call("sheet.read", &sheet(bytes(&written), json!({"sheet": 2}))).await;
    assert_eq!(
        (rows(&result).as_str(), result.get("sheet").expect("a name").to_text().as_str()),
        ("[]", "Second")
    );
}

#[tokio::test]
async fn rows_of_a_file_become_a_sheet_and_a_sheet_becomes_a_file() {
    let csv = file("rows.csv", "id,total\n0017,9.50\n0018,12\n");
    let with = inputs(json!({"sheets": [{"name": "A", "rows": "", "format": "csv"}]}), &[]);
    let mut sheet_map =
        with.get("sheets").expect("sheets").as_list().expect("a list")[0].as_map().cloned().expect("a map");
    sheet_map.insert("rows", csv);
    let mut with = with;
    with.insert("sheets", vec![value::Value::from(sheet_map)]);
    let written = call("sheet.write", &with).await;
    let result = call("sheet.read", &sheet(bytes(&written), json!({"as": "csv"}))).await;
    assert_eq!(String::from_utf8(bytes(&result)).expect("a text"), "id,total\n0017,9.50\n0018,12\n");
    let result = call("sheet.read", &sheet(bytes(&written), json!({"as": "jsonLines"}))).await;
    assert_eq!(
        String::from_utf8(bytes(&result)).expect("a text"),
        "{\"id\":\"0017\",\"total\":\"9.50\"}\n{\"id\":\"0018\",\"total\":\"12\"}\n"
    );
}

#[tokio::test]
async fn a_sheet_that_cannot_be_written_names_its_cell() {
    for (sheet, expected) in [
        (json!({"name": "A/B", "rows": []}), "`A/B` is no name of a sheet"),
        (
            json!({"name": "A", "rows": [{"n": "nine"}], "columns": [{"field": "n", "format": "0"}]}),
            "A2 is `nine`, not a number",
        ),
        (
            json!({"name": "A", "rows": [{"d": "1.3.2026"}], "columns": [{"field": "d", "format": "yyyy"}]}),
            "A2 is `1.3.2026`, not a date",
        ),
        (json!({"name": "A", "rows": [{"t": "x".repeat(32_768)}]}), "A2 has more than 32767 characters"),
        (json!({"name": "A", "rows": ["x"]}), "the sheet `A`: row 1 is a"),
    ] {
        let (_, message) = fails("sheet.write", &inputs(json!({"sheets": [sheet]}), &[])).await;
        assert!(message.contains(expected), "{message}");
    }
}
