//! The jobs of the actions, and their results.

use std::collections::HashSet;

use connector::{Call, FileSink, InputProblem, MAX_IN_MEMORY, StaticInputs};
use language::load::PathSegment;
use model::{ActionError, ActionSpec, ErrorKind};
use value::{Data, File, Map, Value, mime};

use super::host::{Input, Part, Parts};
use super::job::{
    CellErrors, InputInfo, Job, MAX_ENTRIES, Pick, Range, SheetName, SheetRead, SheetWrite, TableOptions,
    WriteColumn,
};
use super::selector;
use super::worker::{checked_name, shown};
use crate::convert::{Types, input_error, text_of, texts_of};
use crate::csv::decode::document;
use crate::csv::write::columns_of;
use crate::spec::{check_content, content_of, literal_problems};
use crate::sql::rows::{Form, RowSink};
use crate::sql::spec::USUAL_ROWS;

/// The type of a workbook.
const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
/// The longest name of a sheet, in characters.
const MAX_SHEET_NAME: usize = 31;

/// Runs an action.
pub(super) async fn run(spec: &ActionSpec, call: &Call<'_>) -> Result<Value, ActionError> {
    let inputs = call.inputs;
    match &*spec.name {
        "sheet.read" => {
            let job = Job::SheetRead(sheet_read(inputs)?);
            table(call, job, vec![file_input(inputs, "file")?]).await
        }
        "sheet.write" => {
            let (sheets, files) = sheets(inputs)?;
            let name = text_of(inputs, "filename").unwrap_or("workbook.xlsx");
            one_file(call, Job::SheetWrite(sheets), files, name, XLSX).await
        }
        "html.select" => value(call, Job::HtmlSelect(picks(inputs)?), html_input(inputs)?).await,
        "html.text" => value(call, Job::HtmlText { css: css(inputs, "body") }, html_input(inputs)?).await,
        "html.table" => {
            let job = Job::HtmlTable { css: css(inputs, "table"), table: table_options(inputs)? };
            table(call, job, vec![html_input(inputs)?]).await
        }
        "zip.pack" => {
            let (names, files) = entries(inputs)?;
            let name = text_of(inputs, "filename").unwrap_or("archive.zip");
            one_file(call, Job::ZipPack(names), files, name, "application/zip").await
        }
        "zip.unpack" => {
            let pattern = text_of(inputs, "match").map(str::to_owned);
            let mut parts = start(call, Job::ZipUnpack(pattern), vec![file_input(inputs, "file")?]).await?;
            let files: Vec<Value> = files(call, &mut parts).await?.into_iter().map(Value::from).collect();
            Ok(Map::from_iter([("files", Value::from(files))]).into())
        }
        "gzip.pack" => {
            let file = content_of(inputs, "content")?;
            let name = format!("{}.gz", file.filename.as_deref().unwrap_or("file"));
            one_file(call, Job::GzipPack, vec![input_of(file, "`content`")], &name, "application/gzip").await
        }
        _ => {
            let input = file_input(inputs, "file")?;
            let packed = inputs.get("file").and_then(Value::as_file).and_then(|file| file.filename.clone());
            let name = packed.as_deref().and_then(|name| name.strip_suffix(".gz")).unwrap_or("file");
            one_file(call, Job::GzipUnpack, vec![input], name, "application/octet-stream").await
        }
    }
}

/// Problems of the literal inputs.
pub(super) fn check(spec: &ActionSpec, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
    let list = |known: &Map, name: &str| known.get(name).and_then(Value::as_list).map(<[Value]>::to_vec);
    let mut found = literal_problems(&spec.inputs, inputs, |known| match &*spec.name {
        "sheet.read" => sheet_read(known).map(drop),
        "sheet.write" => list(known, "sheets").map_or(Ok(()), |sheets| check_sheets(&sheets)),
        "zip.pack" => list(known, "files").map_or(Ok(()), |files| check_entries(&files)),
        "gzip.pack" => check_content(known, "content"),
        "html.select" => check_content(known, "html"),
        "html.table" | "html.text" => {
            check_content(known, "html")?;
            css_is_valid("`css`", &css(known, "table"))
        }
        _ => Ok(()),
    });
    if spec.name == "html.select" {
        let select = inputs.literal_entries("select");
        found.extend(select.iter().filter_map(|(name, part)| wrong_pick(name, part)));
    }
    found
}

/// The problem of a selector that is written out, at its place.
fn wrong_pick(name: &str, part: &Value) -> Option<InputProblem> {
    let message = pick(name, part).err()?.into_message();
    let css = part.as_map().and_then(|map| map.get("css")).map(|_| PathSegment::Entry("css".to_owned()));
    let path = [PathSegment::Entry(name.to_owned())].into_iter().chain(css);
    Some(InputProblem::new("select", message, "correct the selector").at(path.collect()))
}

fn table_options(inputs: &Map) -> Result<TableOptions, ActionError> {
    Ok(TableOptions {
        has_header: inputs.get("header").and_then(Value::as_bool).unwrap_or(true),
        columns: texts_of(inputs, "columns"),
        types: Types::of(inputs)?,
    })
}

fn sheet_read(inputs: &Map) -> Result<SheetRead, ActionError> {
    let sheet = match inputs.get("sheet") {
        None | Some(Value::Null) => SheetName::FirstVisible,
        Some(number @ Value::Number(_)) => {
            let number = number.as_i64().and_then(|number| usize::try_from(number).ok());
            let number = number.filter(|number| *number > 0);
            SheetName::Number(
                number.ok_or_else(|| input_error("`sheet` is no number of a sheet: they count from 1"))?,
            )
        }
        Some(Value::String(name)) => SheetName::Name(name.to_string()),
        Some(other) => {
            return Err(input_error(format!("`sheet` is a {}; it is a name or a number", other.kind())));
        }
    };
    let range = match text_of(inputs, "range") {
        None => Range::ALL,
        Some(text) => Range::parse(text).ok_or_else(|| {
            input_error(format!("`range` is `{text}`, not cells such as `B3:F200`, `B:F` or `B3`"))
        })?,
    };
    let errors = match text_of(inputs, "errors") {
        Some("null") => CellErrors::Null,
        Some("text") => CellErrors::Text,
        _ => CellErrors::Fail,
    };
    Ok(SheetRead { sheet, range, errors, table: table_options(inputs)? })
}

fn css(inputs: &Map, usual: &str) -> String {
    text_of(inputs, "css").unwrap_or(usual).to_owned()
}

fn css_is_valid(name: &str, css: &str) -> Result<(), ActionError> {
    selector::parse(css).map(drop).map_err(|problem| input_error(format!("{name}: {problem}")))
}

fn picks(inputs: &Map) -> Result<Vec<(String, Pick)>, ActionError> {
    let select = inputs.get("select").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    select.map(|(name, part)| pick(name, part).map(|pick| (name.to_string(), pick))).collect()
}

fn pick(name: &str, part: &Value) -> Result<Pick, ActionError> {
    let wrong = |words: &str| input_error(format!("`select.{name}` {words}"));
    let pick = match part {
        Value::String(css) => Pick { css: css.to_string(), attr: None, html: false, all: false },
        Value::Map(map) => {
            let known = ["css", "attr", "html", "all"];
            if let Some(other) = map.keys().find(|key| !known.contains(key)) {
                return Err(wrong(&format!("has the key `{other}`; it takes css, attr, html, all")));
            }
            let flag = |key: &str| match map.get(key) {
                None => Ok(false),
                Some(Value::Bool(flag)) => Ok(*flag),
                Some(_) => Err(wrong(&format!("has a `{key}` that is neither true nor false"))),
            };
            let css =
                map.get("css").and_then(Value::as_str).ok_or_else(|| wrong("needs a `css`"))?.to_owned();
            let attr = map.get("attr").map(Value::to_text);
            let (html, all) = (flag("html")?, flag("all")?);
            if attr.is_some() && html {
                return Err(wrong("has `attr` and `html`; take one of them"));
            }
            Pick { css, attr, html, all }
        }
        other => return Err(wrong(&format!("is a {}, not a CSS selector", other.kind()))),
    };
    css_is_valid(&format!("`select.{name}`"), &pick.css)?;
    Ok(pick)
}

fn html_input(inputs: &Map) -> Result<Input, ActionError> {
    Ok(input_of(content_of(inputs, "html")?, "`html`"))
}

fn file_input(inputs: &Map, name: &str) -> Result<Input, ActionError> {
    let file = inputs.get(name).and_then(Value::as_file);
    let file = file.ok_or_else(|| input_error(format!("`{name}` is not a file")))?;
    let shown = match &file.filename {
        Some(filename) => format!("`{name}` ({filename})"),
        None => format!("`{name}`"),
    };
    Ok(input_of(File::clone(file), &shown))
}

fn input_of(file: File, name: &str) -> Input {
    let charset = mime::charset(&file.content_type).map(|encoding| encoding.name().to_owned());
    let info = InputInfo { size: file.data.len() as u64, charset, name: name.to_owned() };
    Input { data: file.data, info }
}

/// The sheets to write, each with its rows as an input.
fn sheets(inputs: &Map) -> Result<(Vec<SheetWrite>, Vec<Input>), ActionError> {
    let list = inputs.get("sheets").and_then(Value::as_list).unwrap_or_default();
    check_sheets(list)?;
    let (mut sheets, mut files): (Vec<SheetWrite>, Vec<Input>) = (Vec::new(), Vec::new());
    for sheet in list.iter().filter_map(Value::as_map) {
        let name = text_of(sheet, "name").unwrap_or_default().to_owned();
        let (data, is_csv) = match sheet.get("rows") {
            Some(Value::File(file)) => (file.data.clone(), text_of(sheet, "format") == Some("csv")),
            Some(Value::List(rows)) => (json_lines(&name, &rows.0)?, false),
            _ => (Data::default(), false),
        };
        let columns = sheet.get("columns").and_then(Value::as_list);
        let columns = match (columns, sheet.get("rows")) {
            (Some(columns), _) => Some(columns.iter().filter_map(Value::as_map).map(write_column).collect()),
            (None, Some(Value::List(rows))) => {
                columns_of(None, &rows.0).map(|names| names.into_iter().map(WriteColumn::named).collect())
            }
            (None, _) => None,
        };
        let info = InputInfo { size: data.len() as u64, charset: None, name: format!("the sheet `{name}`") };
        files.push(Input { data, info });
        sheets.push(SheetWrite { name, is_csv, columns });
    }
    Ok((sheets, files))
}

/// Checks the names of sheets and the kinds of their rows, as far as they are known.
fn check_sheets(list: &[Value]) -> Result<(), ActionError> {
    if list.is_empty() {
        return Err(input_error("`sheets` is empty; a workbook has a sheet at least"));
    }
    let mut names: Vec<&str> = Vec::new();
    for sheet in list.iter().filter_map(Value::as_map) {
        let Some(name) = text_of(sheet, "name") else { continue };
        check_sheet_name(name)?;
        if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(input_error(format!("`sheets`: two sheets are called `{name}`")));
        }
        if !matches!(sheet.get("rows"), None | Some(Value::File(_) | Value::List(_))) {
            return Err(input_error(format!("`sheets`: the rows of `{name}` are neither a list nor a file")));
        }
        names.push(name);
    }
    Ok(())
}

fn check_sheet_name(name: &str) -> Result<(), ActionError> {
    let is_forbidden =
        |letter: char| matches!(letter, '[' | ']' | ':' | '*' | '?' | '/' | '\\') || letter.is_control();
    let wrong = if name.is_empty() || name.encode_utf16().count() > MAX_SHEET_NAME {
        "has 1 to 31 characters"
    } else if name.contains(is_forbidden) {
        "has none of `[ ] : * ? / \\`"
    } else if name.starts_with('\'') || name.ends_with('\'') {
        "neither begins nor ends with `'`"
    } else {
        return Ok(());
    };
    Err(input_error(format!("`sheets`: `{name}` is no name of a sheet, which {wrong}")))
}

fn json_lines(sheet: &str, rows: &[Value]) -> Result<Data, ActionError> {
    let mut lines = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if row.as_map().is_none() {
            let (number, kind) = (at + 1, row.kind());
            return Err(input_error(format!("the sheet `{sheet}`: row {number} is a {kind}, not a map")));
        }
        lines.extend_from_slice(row.to_json().as_bytes());
        lines.push(b'\n');
    }
    Ok(Data::from(lines))
}

fn write_column(column: &Map) -> WriteColumn {
    let field = text_of(column, "field").unwrap_or_default().to_owned();
    WriteColumn {
        title: text_of(column, "title").unwrap_or(&field).to_owned(),
        format: text_of(column, "format").map(str::to_owned),
        width: column.get("width").and_then(Value::as_i64).and_then(|width| u32::try_from(width).ok()),
        field,
    }
}

/// The files of an archive, with their names in it.
fn entries(inputs: &Map) -> Result<(Vec<String>, Vec<Input>), ActionError> {
    let list = inputs.get("files").and_then(Value::as_list).unwrap_or_default();
    if list.len() > MAX_ENTRIES {
        let message = format!("`files` has {} items; an archive takes {MAX_ENTRIES}", list.len());
        return Err(ActionError::new(ErrorKind::Limit, message));
    }
    check_entries(list)?;
    let (mut names, mut files): (Vec<String>, Vec<Input>) = (Vec::new(), Vec::new());
    for (at, item) in list.iter().enumerate() {
        let wrong = |words: &str| input_error(format!("`files[{at}]` {words}"));
        let (name, file) = match item {
            Value::File(file) => (file.filename.as_deref().map(str::to_owned), Some(File::clone(file))),
            Value::Map(map) => {
                (text_of(map, "name").map(str::to_owned), map.get("content").and_then(document))
            }
            _ => (None, None),
        };
        let name = name.ok_or_else(|| wrong("has no name; give it as `{name, content}`"))?;
        let file = file.ok_or_else(|| wrong("has no `content` that is a file or a text"))?;
        names.push(name);
        files.push(input_of(file, &format!("`files[{at}]`")));
    }
    Ok((names, files))
}

/// Checks the names of the files of an archive, as far as they are known.
fn check_entries(list: &[Value]) -> Result<(), ActionError> {
    let mut names = HashSet::new();
    for (at, item) in list.iter().enumerate() {
        let wrong = |words: &str| Err(input_error(format!("`files[{at}]` {words}")));
        let name = match item {
            Value::Map(map) => text_of(map, "name"),
            Value::File(file) => file.filename.as_deref(),
            other => {
                return wrong(&format!("is a {}, not a file or `{{name, content}}`", other.kind()));
            }
        };
        let Some(name) = name else { continue };
        if let Err(reason) = checked_name(name) {
            return wrong(&format!("has the name `{}`, which {reason}", shown(name)));
        }
        if !names.insert(name) {
            return Err(input_error(format!(
                "`files`: two files are called `{name}`; give one another name"
            )));
        }
    }
    Ok(())
}

async fn start(call: &Call<'_>, job: Job, inputs: Vec<Input>) -> Result<Parts, ActionError> {
    Parts::start(job, inputs, call.time_left).await
}

async fn value(call: &Call<'_>, job: Job, input: Input) -> Result<Value, ActionError> {
    match start(call, job, vec![input]).await?.next().await? {
        Part::Done(value) => Ok(value),
        _ => Err(unexpected()),
    }
}

/// The rows of a table, in the form that `as` names.
async fn table(call: &Call<'_>, job: Job, inputs: Vec<Input>) -> Result<Value, ActionError> {
    let max = call.inputs.get("maxRows").and_then(Value::as_i64).unwrap_or(USUAL_ROWS);
    let form = match text_of(call.inputs, "as") {
        Some("csv") => Form::Csv(call.file_sink("the rows")),
        Some("jsonLines") => Form::JsonLines(call.file_sink("the rows")),
        _ => Form::Rows { max: usize::try_from(max).unwrap_or_default() },
    };
    let mut sink = RowSink::new(form, call.http.options().max_response, call.answers);
    let mut parts = start(call, job, inputs).await?;
    let mut name = None;
    loop {
        match parts.next().await? {
            Part::Table(batch, sheet) => {
                name = name.or(sheet);
                if !batch.into_sink(&mut sink).await? {
                    break;
                }
            }
            Part::Done(_) => break,
            _ => return Err(unexpected()),
        }
    }
    let result = sink.into_result().await?;
    let Some(name) = name else { return Ok(result) };
    let mut result = result.as_map().cloned().unwrap_or_default();
    result.insert("sheet", name);
    Ok(result.into())
}

async fn one_file(
    call: &Call<'_>,
    job: Job,
    inputs: Vec<Input>,
    name: &str,
    content_type: &str,
) -> Result<Value, ActionError> {
    let mut parts = start(call, job, inputs).await?;
    let file = files(call, &mut parts).await?.pop().ok_or_else(unexpected)?;
    let file = File { filename: Some(name.into()), content_type: content_type.into(), ..file };
    Ok(Map::from_iter([("file", Value::from(file))]).into())
}

/// The files of a result. All of them together have the memory of one.
async fn files(call: &Call<'_>, parts: &mut Parts) -> Result<Vec<File>, ActionError> {
    let mut files = Vec::new();
    let mut memory = MAX_IN_MEMORY;
    let mut open: Option<(File, FileSink)> = None;
    loop {
        let part = parts.next().await?;
        if matches!(part, Part::File { .. } | Part::Done(_))
            && let Some((file, sink)) = open.take()
        {
            let data = sink.finish().await?;
            memory = memory.saturating_sub(data.in_memory().map_or(0, |bytes| bytes.len()));
            files.push(File { data, ..file });
        }
        match part {
            Part::File { name, content_type } => {
                let filename = name.map(Into::into);
                let file = File { content_type: content_type.into(), filename, data: Data::default() };
                open = Some((file, call.file_sink("the files").with_memory(memory)));
            }
            Part::Bytes(bytes) => {
                let (_, sink) = open.as_mut().ok_or_else(unexpected)?;
                sink.push(&bytes).await?;
            }
            Part::Done(_) => return Ok(files),
            Part::Table(..) => return Err(unexpected()),
        }
    }
}

fn unexpected() -> ActionError {
    ActionError::new(ErrorKind::Internal, "the document worker sent another result than the action has")
}
