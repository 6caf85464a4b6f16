//! Reading executions from JSON lines into a store.

use std::io::{BufRead, Read as _};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use model::{DefinitionHash, Event, ExecutionId, History, Origin, Outcome};
use store::{Accept, AcceptOutcome, Definition, InitialEvents, NewExecution, Store};
use tokio::task::JoinSet;
use value::redact::Redactor;
use value::with_source;

use super::import_files::ImportFiles;
use super::{DefinitionLine, ExecutionLine, FORMAT, Header, Line, MAX_LINE_BYTES, TransferError};

/// Maximum number of executions that are written at the same time; they share commits.
const AT_ONCE: usize = 64;
/// The bytes of lines that are written at the same time; a longer line is written alone.
const AT_ONCE_BYTES: usize = 8 << 20;
/// The refusals that are named.
const NAMED: usize = 20;
/// Maximum difference between the time in an id and the time of the first event. The trigger's code and a wait for memory lie between
/// the two, and the wall clock can be set meanwhile.
const MAX_ID_SKEW: Duration = Duration::from_secs(3600);
/// The reason of the end of an execution that had not ended.
const NOT_ENDED: &str = "imported: it had not ended when it was exported";

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The number of imported executions.
    pub executions: u64,
    /// The number of these that had not ended. They are cancelled.
    pub cancelled: u64,
    /// The number of executions that were refused.
    pub refused: u64,
    /// The first 20 of these, with the reason.
    pub refusals: Vec<(ExecutionId, String)>,
    /// The time of the earliest end of an imported execution.
    pub earliest_end: Option<Timestamp>,
}

/// Reads executions that [`super::export_executions`] wrote, and stores each in one transaction, marked as imported at `now`.
/// None of them ever runs: one that had not ended is cancelled. An execution whose id exists is refused, like one that is not
/// valid; the others are imported.
///
/// # Errors
/// The file is no export, a line of it is damaged, it is cut off, or the store fails. The executions before it stay imported.
pub async fn import_executions(
    store: &Arc<dyn Store>,
    now: Timestamp,
    input: impl BufRead,
) -> Result<Imported, TransferError> {
    let mut lines = Lines::new(input);
    read_header(&mut lines)?;
    let mut import = Import {
        store: store.clone(),
        now,
        files: ImportFiles::new(store.files()),
        writing: JoinSet::new(),
        bytes: 0,
        imported: Imported::default(),
    };
    while lines.next()? {
        if lines.text.len() > AT_ONCE_BYTES {
            import.finish_writing().await?;
        }
        // An execution is read twice, with its files; every other line once.
        if is_execution(&lines.text) {
            import.execution(&lines.text).await.map_err(|problem| problem.at(lines.number))?;
            continue;
        }
        let line = serde_json::from_slice(&lines.text).map_err(|error| lines.error(error))?;
        match line {
            Line::Definition(line) => {
                import.definition(line).await.map_err(|problem| problem.at(lines.number))?;
            }
            Line::File(line) => import.files.begin(&line).map_err(|reason| lines.error(reason))?,
            Line::Bytes(text) => {
                let bytes = STANDARD.decode(text.as_bytes()).map_err(|error| lines.error(error))?;
                import.files.append(&bytes).map_err(|reason| lines.error(reason))?;
            }
            Line::Execution(_) => return Err(lines.error("`execution` must be the first key of its line")),
            Line::End(_) => {
                import.finish_writing().await?;
                return Ok(import.imported);
            }
        }
    }
    import.finish_writing().await?;
    Err(TransferError::CutOff)
}

/// The lines of a file, one in memory at a time.
pub(super) struct Lines<R> {
    input: R,
    number: u64,
    text: Vec<u8>,
    /// Maximum number of bytes of a line.
    most: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0, text: Vec::new(), most: MAX_LINE_BYTES }
    }

    /// The line that was read last, with its line end.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Reads the next line; returns false at the end.
    pub(super) fn next(&mut self) -> Result<bool, TransferError> {
        self.text.clear();
        self.number += 1;
        let mut bounded = (&mut self.input).take(self.most as u64 + 1);
        bounded.read_until(b'\n', &mut self.text)?;
        if self.text.len() > self.most {
            return Err(self.error(format_args!("it has more than {} bytes", self.most)));
        }
        Ok(!self.text.is_empty())
    }

    pub(super) fn error(&self, reason: impl ToString) -> TransferError {
        TransferError::Line { line: self.number, reason: reason.to_string() }
    }
}

pub(super) fn read_header(lines: &mut Lines<impl BufRead>) -> Result<(), TransferError> {
    lines.next()?;
    let header: Header = serde_json::from_slice(&lines.text).map_err(|_| TransferError::NoExport)?;
    if header.cogwork_executions > FORMAT {
        return Err(TransferError::Newer { release: header.release, found: header.cogwork_executions });
    }
    Ok(())
}

pub(super) fn is_execution(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"execution\""))
}

/// A problem of a line, or a failure of the store.
enum Problem {
    Line(String),
    Store(store::Error),
}

impl Problem {
    fn at(self, line: u64) -> TransferError {
        match self {
            Self::Line(reason) => TransferError::Line { line, reason },
            Self::Store(error) => TransferError::Store(error),
        }
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// The result of storing one execution: its id, its end, and true if it was cancelled by the import.
type Written = (ExecutionId, Timestamp, bool, Result<Vec<AcceptOutcome>, store::Error>);

/// The state of an import.
struct Import {
    store: Arc<dyn Store>,
    now: Timestamp,
    files: ImportFiles,
    writing: JoinSet<Written>,
    /// The bytes of the lines that are being written.
    bytes: usize,
    imported: Imported,
}

impl Import {
    async fn definition(&mut self, line: DefinitionLine<'_>) -> Result<(), Problem> {
        let text = line.text.into_owned();
        if DefinitionHash::compute(&line.automation, &text) != line.hash {
            return Err(Problem::Line("the `hash` of the definition does not match its text".to_owned()));
        }
        if self.store.definition(line.hash).await?.is_none() {
            let path = line.path.into_owned();
            let definition = Definition { hash: line.hash, automation: line.automation, path, text };
            self.store.put_definition(definition).await?;
        }
        Ok(())
    }

    async fn execution(&mut self, line: &[u8]) -> Result<(), Problem> {
        let files = self.files.take();
        let parsed = with_source(files.clone(), || serde_json::from_slice(line));
        let Line::Execution(execution) = parsed.map_err(|error| Problem::Line(error.to_string()))? else {
            return Err(Problem::Line("a line has one key".to_owned()));
        };
        let id = execution.id;
        if let Some(missing) = files.missing() {
            self.refuse(id, format!("the file with the SHA-256 {missing} is missing"));
            return Ok(());
        }
        if self.store.execution(id).await?.is_some() {
            self.refuse(id, "there is an execution with this id already".to_owned());
            return Ok(());
        }
        let (new, ended, cancelled) = match prepare(execution, self.now) {
            Ok(prepared) => prepared,
            Err(reason) => {
                self.refuse(id, reason);
                return Ok(());
            }
        };
        if self.writing.len() >= AT_ONCE || self.bytes + line.len() > AT_ONCE_BYTES {
            self.finish_writing().await.map_err(|error| match error {
                TransferError::Store(error) => Problem::Store(error),
                other => Problem::Line(other.to_string()),
            })?;
        }
        self.bytes += line.len();
        let store = self.store.clone();
        self.writing.spawn(async move {
            let accept = Accept { executions: vec![new], ..Accept::default() };
            (id, ended, cancelled, store.accept(&accept).await)
        });
        Ok(())
    }

    /// Waits until everything is stored.
    async fn finish_writing(&mut self) -> Result<(), TransferError> {
        while let Some(written) = self.writing.join_next().await {
            let (id, ended, cancelled, result) = written.map_err(std::io::Error::other)?;
            match result {
                Ok(_) => {
                    self.imported.executions += 1;
                    self.imported.cancelled += u64::from(cancelled);
                    let earliest = self.imported.earliest_end.map_or(ended, |earliest| earliest.min(ended));
                    self.imported.earliest_end = Some(earliest);
                }
                Err(
                    error @ (store::Error::AlreadyExists(_)
                    | store::Error::NoSuchDefinition(_)
                    | store::Error::Invalid { .. }
                    | store::Error::TooLarge { .. }),
                ) => self.refuse(id, error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        self.bytes = 0;
        Ok(())
    }

    fn refuse(&mut self, id: ExecutionId, reason: String) {
        self.imported.refused += 1;
        if self.imported.refusals.len() < NAMED {
            self.imported.refusals.push((id, reason));
        }
    }
}

/// Returns the execution to store, the time of its end, and true if it had not ended.
fn prepare(line: ExecutionLine, now: Timestamp) -> Result<(NewExecution, Timestamp, bool), String> {
    let ExecutionLine { id, events, logs, .. } = line;
    History::checked(&events).map_err(|error| error.to_string())?;
    let last = events.last().map_or(now, Event::at);
    let mut events = events.into_iter();
    let Some(Event::Started { at, automation, definition, origin, payload, trigger, inputs }) = events.next()
    else {
        return Err("its first event must be `started`".to_owned());
    };
    // Lists and retention find it by the time in its id, which is made before the first event.
    if id.created_at().is_none_or(|created| at.duration_since(created).unsigned_abs() > MAX_ID_SKEW) {
        return Err("the time in its id is not that of its first event".to_owned());
    }
    let origin = match origin {
        imported @ Origin::Imported { .. } => imported,
        original => Origin::Imported { at: now, original: Box::new(original) },
    };
    let mut events: Vec<Event> = events.collect();
    let cancelled = !matches!(events.last(), Some(Event::Finished { .. }));
    if cancelled {
        let outcome = Outcome::Cancelled { reason: NOT_ENDED.to_owned() };
        events.push(Event::Finished { at: last, outcome });
    }
    // The daemon that exported it may have stored what its senders showed.
    let mut payload = Arc::unwrap_or_clone(payload);
    runtime::mask_credentials(&mut payload, None, false, &Redactor::default());
    let payload = Arc::new(payload);
    let started = Event::Started { at, automation, definition, origin, payload, trigger, inputs };
    let initial = InitialEvents { events, logs, ..InitialEvents::default() };
    let new = NewExecution {
        id,
        started,
        key: None,
        dedup: Vec::new(),
        starts_running: false,
        initial,
        gated: false,
    };
    Ok((new, last, cancelled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_maximum_of_bytes() {
        let mut lines = Lines { most: 4, ..Lines::new(&b"abc\nabcd\n"[..]) };
        assert!(lines.next().expect("it fits"));
        let error = lines.next().expect_err("it is longer").to_string();
        assert!(error.contains("more than 4 bytes"), "{error}");
    }
}
