//! Writing executions as JSON lines.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use model::DefinitionHash;
use store::{ExecutionFilter, ExecutionRow, Page, Store};
use value::{Blob, Data, ExternalBytes, collect_refs};

use super::{
    DefinitionLine, EndLine, ExecutionLine, FORMAT, FileLine, Header, Line, PART_BYTES, TransferError,
};

/// The number of rows read at once.
const PAGE: u32 = 200;
/// The number of log lines read at once.
const LOG_PAGE: u32 = 1000;

/// The result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The number of executions.
    pub executions: u64,
    /// The number of these that have not ended.
    pub unfinished: u64,
}

/// Writes the executions that match, newest first, with the definitions and files that they name. Executions that are accepted
/// meanwhile are left out.
///
/// # Errors
/// The store or the writer fails, or an execution is damaged.
pub async fn export_executions(
    store: &dyn Store,
    filter: &ExecutionFilter,
    release: &str,
    now: Timestamp,
    mut out: impl Write + Send,
) -> Result<Exported, TransferError> {
    let header = Header { cogwork_executions: FORMAT, release: release.to_owned(), exported_at: now };
    write_line(&mut out, &header)?;
    let mut exported = Exported::default();
    let mut definitions = HashSet::new();
    let mut before = None;
    loop {
        let rows = store.executions(filter, Page { before, limit: PAGE }).await?;
        let is_last = rows.len() < PAGE as usize;
        before = rows.last().map(|row| row.id);
        for row in rows {
            let Some(execution) = read(store, &row).await? else { continue };
            write_definition(store, row.definition, &mut definitions, &mut out).await?;
            write_execution(execution, &mut out)?;
            exported.executions += 1;
            exported.unfinished += u64::from(!row.status.is_terminal());
        }
        if is_last {
            break;
        }
    }
    write_line(&mut out, &Line::End(EndLine { executions: exported.executions }))?;
    out.flush()?;
    Ok(exported)
}

/// Reads an execution; `None` if retention has just deleted it.
async fn read(store: &dyn Store, row: &ExecutionRow) -> Result<Option<ExecutionLine>, TransferError> {
    let Some(events) = store.events(row.id).await? else { return Ok(None) };
    let mut logs = Vec::new();
    loop {
        let after = u32::try_from(logs.len()).unwrap_or(u32::MAX);
        let lines = store.logs(row.id, after, LOG_PAGE).await?;
        let is_last = lines.len() < LOG_PAGE as usize;
        logs.extend(lines);
        if is_last {
            return Ok(Some(ExecutionLine { id: row.id, status: row.status, events, logs }));
        }
    }
}

/// Writes a definition before the first execution that names it.
async fn write_definition(
    store: &dyn Store,
    hash: DefinitionHash,
    written: &mut HashSet<DefinitionHash>,
    out: &mut impl Write,
) -> Result<(), TransferError> {
    if !written.insert(hash) {
        return Ok(());
    }
    if let Some(definition) = store.definition(hash).await? {
        let line = DefinitionLine {
            hash,
            automation: definition.automation,
            path: definition.path.into(),
            text: definition.text.into(),
        };
        write_line(out, &Line::Definition(line))?;
    }
    Ok(())
}

fn write_execution(execution: ExecutionLine, out: &mut impl Write) -> Result<(), TransferError> {
    // Written twice: the text of values with shared parts may be much larger than they are.
    let line = Line::Execution(execution);
    let (text, files) = collect_refs(|| serde_json::to_writer(std::io::sink(), &line));
    text.map_err(std::io::Error::from)?;
    for file in files {
        write_file(file, out)?;
    }
    let (text, _) = collect_refs(|| write_line(out, &line));
    text
}

fn write_file(file: Arc<dyn Blob>, out: &mut impl Write) -> Result<(), TransferError> {
    let line = FileLine { sha256: hex::encode(file.digest()), size: file.length() };
    let (data, length) = (Data::from(ExternalBytes::new(file)), line.size);
    write_line(out, &Line::File(line))?;
    let (mut at, mut part) = (0, vec![0; PART_BYTES]);
    while at < length {
        let size = usize::try_from(length - at).unwrap_or(PART_BYTES).min(PART_BYTES);
        data.read_exact_at(at, &mut part[..size])?;
        write_line(out, &Line::Bytes(STANDARD.encode(&part[..size]).into()))?;
        at += size as u64;
    }
    Ok(())
}

fn write_line(out: &mut impl Write, line: &impl serde::Serialize) -> Result<(), TransferError> {
    serde_json::to_writer(&mut *out, line).map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}
