//! Calls of the actions.

use std::io::{Cursor, Write as _};
use std::sync::{Arc, Once};
use std::time::Duration;

use connector::{Call, FileAccess, Http, HttpOptions, LogSink, Registry, UncountedAnswers, check_inputs};
use model::{ActionError, ErrorKind, LogLevel};
use serde_json::json;
use value::{Data, File, JsonLimits, Map, MemoryFiles, Reserved, Value};
use zip::write::SimpleFileOptions;

struct NoLines;

impl LogSink for NoLines {
    fn line(&self, _: LogLevel, _: &str) {}
}

/// A map of JSON, in which `file` puts a file.
pub(crate) fn inputs(value: serde_json::Value, files: &[(&str, Value)]) -> Map {
    let value = Value::from_json(value.to_string().as_bytes(), JsonLimits::default()).expect("JSON");
    let mut map = value.as_map().cloned().expect("a map");
    for (name, file) in files {
        map.insert(*name, file.clone());
    }
    map
}

pub(crate) fn file(name: &str, bytes: impl Into<Vec<u8>>) -> Value {
    let (content_type, filename) = ("application/octet-stream".into(), Some(name.into()));
    Value::from(File { content_type, filename, data: Data::from(bytes.into()) })
}

pub(crate) async fn try_call_within(
    action: &str,
    inputs: &Map,
    time_left: Option<Duration>,
) -> Result<Value, ActionError> {
    static SET: Once = Once::new();
    SET.call_once(|| script::set_worker_program(env!("CARGO_BIN_EXE_systems-worker").into(), Vec::new()));
    let builtin = Registry::builtin().unwrap_or_else(|_| panic!("the manifests are good"));
    let registry = systems::register(builtin).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let action = registry.action(action).expect("an action");
    let inputs = check_inputs(action.spec(), inputs, &Reserved::nothing())?;
    let http = Http::new(HttpOptions::default()).expect("a client");
    let result = action
        .call(Call {
            inputs: &inputs,
            connection: None,
            idempotency_key: "execution.step",
            may_repeat: false,
            memory: &Reserved::nothing(),
            answers: &UncountedAnswers,
            http: &http,
            debug: false,
            log: &NoLines,
            trace: None,
            files: FileAccess { storage: Arc::new(MemoryFiles), dir: None },
            time_left,
        })
        .await?;
    let spec = action.spec();
    assert_eq!(spec.results.type_mismatches(&result), Vec::<String>::new(), "{}", spec.name);
    Ok(result)
}

pub(crate) async fn call(action: &str, inputs: &Map) -> Value {
    match try_call_within(action, inputs, None).await {
        Ok(value) => value,
        Err(error) => panic!("{action}: {error:?}"),
    }
}

/// The kind and the message of an error.
pub(crate) async fn fails(action: &str, inputs: &Map) -> (ErrorKind, String) {
    match try_call_within(action, inputs, None).await {
        Ok(value) => panic!("{action} gave {}", value.to_json()),
        Err(error) => (error.kind.clone(), error.to_string()),
    }
}

/// The rows of a result as JSON.
pub(crate) fn rows(result: &Value) -> String {
    result.get("rows").expect("rows").to_json()
}

/// The bytes of the file of a result.
pub(crate) fn bytes(result: &Value) -> Vec<u8> {
    let file = result.get("file").expect("a file");
    file.as_file().expect("a file").data.in_memory().expect("in memory").to_vec()
}

/// An archive.
pub(crate) fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        archive.start_file(*name, SimpleFileOptions::default()).expect("an entry");
        archive.write_all(content).expect("its content");
    }
    archive.finish().expect("an archive").into_inner()
}

/// A workbook with one sheet of this XML below `<sheetData>`, and the date system.
pub(crate) fn workbook(rows: &str, is_1904: bool) -> Vec<u8> {
    let package = "http://schemas.openxmlformats.org/package/2006";
    let office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let relation = |kind: &str, target: &str, id: u8| {
        format!(r#"<Relationship Id="rId{id}" Type="{office}/{kind}" Target="{target}"/>"#)
    };
    let relations =
        |all: String| format!(r#"<Relationships xmlns="{package}/relationships">{all}</Relationships>"#);
    let styles = format!(
        r#"<styleSheet xmlns="{main}"><numFmts count="1"><numFmt numFmtId="164" formatCode="[h]:mm"/></numFmts><cellXfs count="4"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="164"/></cellXfs></styleSheet>"#
    );
    let book = format!(
        r#"<workbook xmlns="{main}" xmlns:r="{office}"><workbookPr date1904="{is_1904}"/><sheets><sheet name="Data" sheetId="1" r:id="rId1"/></sheets></workbook>"#
    );
    let sheet = format!(r#"<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>"#);
    archive(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("_rels/.rels", relations(relation("officeDocument", "xl/workbook.xml", 1)).as_bytes()),
        ("xl/workbook.xml", book.as_bytes()),
        (
            "xl/_rels/workbook.xml.rels",
            relations(
                relation("worksheet", "worksheets/sheet1.xml", 1) + &relation("styles", "styles.xml", 2),
            )
            .as_bytes(),
        ),
        ("xl/styles.xml", styles.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}

/// Reads a sheet of a workbook.
pub(crate) fn sheet(book: Vec<u8>, with: serde_json::Value) -> Map {
    inputs(with, &[("file", file("book.xlsx", book))])
}

pub(crate) fn no_inputs() -> serde_json::Value {
    json!({})
}
