//! Workbooks of openpyxl, a second implementation, and archives of Python.

use std::path::PathBuf;
use std::process::Command;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{archive, bytes, call, file, inputs, no_inputs, rows, sheet};

/// Python with openpyxl, as `make servers` installs it; `None`, with a line, if it is not there.
fn python() -> Option<PathBuf> {
    let python = servers::program("python")?;
    let is_there = Command::new(&python).args(["-c", "import openpyxl"]).output().expect("python runs");
    if is_there.status.success() {
        return Some(python);
    }
    assert!(std::env::var_os("COGWORK_REQUIRE_SERVERS").is_none(), "openpyxl is missing");
    eprintln!("skipped: openpyxl is not installed; `make servers` installs it");
    None
}

/// Runs a script with a folder as its argument.
fn run(python: &PathBuf, script: &str, folder: &std::path::Path) -> String {
    let output = Command::new(python).arg("-c").arg(script).arg(folder).output().expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a text")
}

#[tokio::test]
async fn openpyxl_writes_what_is_read() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = r#"
import sys, datetime, openpyxl
book = openpyxl.Workbook()
sheet = book.active
sheet.title = "Hidden"
sheet.sheet_state = "hidden"
sheet = book.create_sheet("Über")
sheet.append(["id", "day", "at", "sum", "flag", "note"])
sheet.append(["007", datetime.date(2026, 3, 1), datetime.datetime(2026, 3, 1, 8, 30), 9.5, True, "a,\"b\"\nc"])
sheet.append([17, datetime.time(8, 30), datetime.timedelta(hours=30), 3, False, None])
sheet["F3"].value = "merged"
sheet.merge_cells("F3:F4")
book.save(sys.argv[1] + "/a.xlsx")
"#;
    run(&python, script, folder.path());
    let book = std::fs::read(folder.path().join("a.xlsx")).expect("a workbook");
    let result = call("sheet.read", &sheet(book.clone(), no_inputs())).await;
    assert_eq!(
        rows(&result),
        r#"[{"id":"007","day":"2026-03-01","at":"2026-03-01T08:30:00","sum":9.5,"flag":true,"note":"a,\"b\"\nc"},{"id":17,"day":"08:30:00","at":"PT30H","sum":3,"flag":false,"note":"merged"}]"#
    );
    assert_eq!(result.get("sheet").expect("a name").to_text(), "Über");
    let result = call("sheet.read", &sheet(book, json!({"sheet": 1, "header": false}))).await;
    assert_eq!(rows(&result), "[]");
}

#[tokio::test]
async fn openpyxl_reads_what_is_written() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let with = json!({"sheets": [{"name": "Orders & more", "rows": [
        {"id": "007", "text": "=1+1", "day": "2026-03-01", "at": "2026-03-01T08:30:00", "amount": "9.50", "n": 3, "flag": true},
    ], "columns": [
        {"field": "id"}, {"field": "text", "width": 20}, {"field": "day", "format": "yyyy-mm-dd"},
        {"field": "at", "format": "yyyy-mm-dd hh:mm"}, {"field": "amount", "title": "Total", "format": "0.00"}, {"field": "n"}, {"field": "flag"},
    ]}]});
    let written = call("sheet.write", &inputs(with, &[])).await;
    std::fs::write(folder.path().join("a.xlsx"), bytes(&written)).expect("a file");
    let script = r#"
import sys, openpyxl
book = openpyxl.load_workbook(sys.argv[1] + "/a.xlsx")
sheet = book["Orders & more"]
print(sheet["A1"].font.bold, sheet.column_dimensions["B"].width)
for row in sheet.iter_rows():
    print([(repr(cell.value), cell.data_type, cell.number_format) for cell in row])
"#;
    let shown = run(&python, script, folder.path());
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "True 20.0");
    for expected in [
        r#"("'007'", 'inlineStr', 'General')"#,
        r#"("'=1+1'", 'inlineStr', 'General')"#,
        "('datetime.datetime(2026, 3, 1, 0, 0)', 'd', 'yyyy-mm-dd')",
        "('datetime.datetime(2026, 3, 1, 8, 30)', 'd', 'yyyy-mm-dd hh:mm')",
        "('9.5', 'n', '0.00')",
        "('3', 'n', 'General')",
        "('True', 'b', 'General')",
    ] {
        assert!(
            lines[2].replace("'s', 'General'", "'inlineStr', 'General'").contains(expected),
            "{expected}: {shown}"
        );
    }
}

#[tokio::test]
async fn python_unpacks_what_is_packed_and_packs_what_is_unpacked() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let files = json!({"files": [{"name": "2026/ü.csv", "content": "1,2"}, {"name": "b", "content": "x".repeat(100_000)}]});
    let packed = call("zip.pack", &inputs(files, &[])).await;
    std::fs::write(folder.path().join("a.zip"), bytes(&packed)).expect("a file");
    let script = r#"
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1] + "/a.zip")
assert archive.testzip() is None
print([(entry.filename, entry.file_size) for entry in archive.infolist()])
with zipfile.ZipFile(sys.argv[1] + "/b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("ordner/ä.txt", "über")
    archive.mkdir("leer")
"#;
    assert_eq!(run(&python, script, folder.path()).trim(), "[('2026/ü.csv', 3), ('b', 100000)]");
    let made = std::fs::read(folder.path().join("b.zip")).expect("an archive");
    let result = call("zip.unpack", &inputs(json!({}), &[("file", file("b.zip", made))])).await;
    let files = result.get("files").expect("files");
    let files = files.as_list().expect("a list");
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].get("filename").expect("a name").to_text(), "ordner/ä.txt");
    drop(archive(&[]));
}
