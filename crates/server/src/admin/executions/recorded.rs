//! Recorded executions, read within a bound of memory: large values stay in the store until they are written to an answer, one
//! at a time.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use model::{Event, ExecutionId};
use runtime::ReadMemory;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use store::{CutEvents, CutValue, ExecutionRow, HistoryRow, Store};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use value::{Map, PublicForm, Value};

use super::large;
use crate::admin::{Api, Problem};

/// The right of a reader of executions to a thread that may block: while one waits for the store or for its reader, others need
/// threads for the disk.
static THREADS: Semaphore = Semaphore::const_new(8);
/// The bytes of a part of a body.
const PART: usize = 64 << 10;
/// The parts of a body that wait to be sent or kept.
const PARTS: usize = 4;

/// An execution without its large values.
pub(crate) struct Recorded {
    pub(crate) row: ExecutionRow,
    pub(crate) events: Vec<Event>,
    pub(crate) cuts: Cuts,
}

/// An execution with all its values.
pub(crate) struct RecordedWhole {
    pub(crate) row: ExecutionRow,
    pub(crate) events: Vec<Event>,
    /// Held for as long as the events are.
    pub(crate) _memory: ReadMemory,
}

impl Api {
    /// Reads an execution without its large values, by the id in a path.
    pub(crate) async fn recorded(&self, id: &str) -> Result<Recorded, Problem> {
        let row = self.row(id).await?;
        let read = self.engine.context().read_cut_events(&row, large::SMALL).await?;
        let (cut, memory) = read.ok_or_else(|| unknown(&row.id.to_string()))?;
        let (events, cuts) = Cuts::new(self.engine.store().clone(), row.id, cut);
        Ok(Recorded { row, events, cuts: cuts.with_memory(memory) })
    }

    /// Reads an execution with all its values, by the id in a path.
    pub(crate) async fn execution(&self, id: &str) -> Result<RecordedWhole, Problem> {
        let row = self.row(id).await?;
        let read = self.engine.context().read_events(&row).await?;
        let (events, memory) = read.ok_or_else(|| unknown(&row.id.to_string()))?;
        Ok(RecordedWhole { row, events, _memory: memory })
    }

    /// The list row of the execution that a path names.
    pub(crate) async fn row(&self, id: &str) -> Result<ExecutionRow, Problem> {
        let found = self.execution_id(id).await?;
        self.engine.store().execution(found).await?.ok_or_else(|| unknown(id))
    }
}

fn unknown(id: &str) -> Problem {
    Problem::not_found("unknown_execution", format!("there is no execution `{id}`"))
}

/// Runs `work` on a thread that may block, with the memory that its data have reserved.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    // The semaphore is never closed.
    let _turn = THREADS.acquire().await;
    tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(&error))?
}

/// The large values that were left out of the events of an execution, and the store that has them.
#[derive(Clone)]
pub struct Cuts {
    store: Arc<dyn Store>,
    id: ExecutionId,
    /// Without events.
    cut: Arc<CutEvents>,
    /// The row that was read last: most values are read in the order of their rows.
    row: Arc<Mutex<Option<HistoryRow>>>,
    /// The memory that the reader of the execution has reserved; `None` in a process of its own.
    memory: Option<Arc<ReadMemory>>,
}

impl Cuts {
    /// Takes the events of `cut`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, id: ExecutionId, mut cut: CutEvents) -> (Vec<Event>, Self) {
        let events = std::mem::take(&mut cut.events);
        (events, Self { store, id, cut: Arc::new(cut), row: Arc::default(), memory: None })
    }

    /// The execution.
    pub(crate) fn execution(&self) -> ExecutionId {
        self.id
    }

    /// Holds the memory of the reader.
    pub(crate) fn with_memory(self, memory: ReadMemory) -> Self {
        Self { memory: Some(Arc::new(memory)), ..self }
    }

    /// The memory that the reader has reserved.
    pub(crate) fn memory(&self) -> Option<Arc<ReadMemory>> {
        self.memory.clone()
    }

    /// True if nothing was left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.cut.values.is_empty()
    }

    /// The value whose marker this is; `None` if it is no marker.
    pub(crate) fn find(&self, value: &Json) -> Option<&CutValue> {
        if self.is_empty() { None } else { self.cut.find(value) }
    }

    /// The value whose marker is in a text, with the range of the marker.
    fn find_in_text(&self, text: &str) -> Option<(&CutValue, Range<usize>)> {
        if self.is_empty() { None } else { self.cut.find_in_text(text) }
    }

    /// Replaces the markers in a text; `None` if it has none.
    fn replace_in_text<E>(
        &self,
        text: &str,
        mut replacement: impl FnMut(&CutValue) -> Result<String, E>,
    ) -> Result<Option<String>, E> {
        let (mut replaced, mut rest) = (None::<String>, text);
        while let Some((cut, range)) = self.find_in_text(rest) {
            let out = replaced.get_or_insert_default();
            out.push_str(&rest[..range.start]);
            out.push_str(&replacement(cut)?);
            rest = &rest[range.end..];
        }
        Ok(replaced.map(|out| out + rest))
    }

    /// A text with the beginning of each value whose marker is in it, and the bytes that it lacks; `None` if it has no marker.
    pub(crate) fn beginning_of_text(&self, text: &str) -> Option<(String, usize)> {
        let mut missing = 0_usize;
        let replaced = self.replace_in_text(text, |cut| {
            let beginning = format!("{}…", cut.start);
            missing = missing.saturating_add(cut.bytes.saturating_sub(beginning.len()));
            Ok::<_, Infallible>(beginning)
        });
        let Ok(replaced) = replaced;
        Some((replaced?, missing))
    }

    /// True if large values were left out of this value.
    #[must_use]
    pub fn are_in(&self, value: &Json) -> bool {
        self.missing_bytes(value) > 0
    }

    /// Replaces each marker by the beginning of its value, for people.
    pub fn put_beginnings(&self, value: &mut Json) {
        if let Some(cut) = self.find(value) {
            let start = Json::from(format!("{}…", cut.start));
            match value.get("contentType").cloned() {
                Some(kind) => *value = serde_json::json!({ "contentType": kind, "data": start }),
                None => *value = start,
            }
            return;
        }
        match value {
            Json::Array(items) => items.iter_mut().for_each(|item| self.put_beginnings(item)),
            Json::Object(entries) => entries.values_mut().for_each(|item| self.put_beginnings(item)),
            Json::String(text) => {
                if let Some((beginning, _)) = self.beginning_of_text(text) {
                    *text = beginning;
                }
            }
            _ => {}
        }
    }

    /// The size of a value as JSON without its markers, in bytes.
    pub(crate) fn missing_bytes(&self, value: &Json) -> usize {
        if let Some(cut) = self.find(value) {
            return cut.bytes.saturating_sub(large::size(value));
        }
        match value {
            Json::Array(items) => items.iter().map(|item| self.missing_bytes(item)).sum(),
            Json::Object(entries) => entries.values().map(|item| self.missing_bytes(item)).sum(),
            Json::String(text) => self.beginning_of_text(text).map_or(0, |(_, missing)| missing),
            _ => 0,
        }
    }

    /// Reads a value. Blocks, so it needs a thread of its own.
    pub(crate) fn read(&self, value: &CutValue) -> io::Result<Value> {
        let mut last = self.row.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = last.as_ref().filter(|row| row.has(value)) {
            return row.read(value).map_err(io::Error::other);
        }
        *last = None;
        let row = Handle::current().block_on(self.store.history_row(self.id, value.row));
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the execution was deleted meanwhile");
        let row = row.map_err(io::Error::other)?.ok_or_else(gone)?;
        last.insert(row).read(value).map_err(io::Error::other)
    }

    /// Serializes a value with its large parts, which blocks.
    pub(crate) fn whole<'a>(&'a self, value: &'a Json) -> impl Serialize + 'a {
        Whole { value, cuts: self }
    }

    /// Writes a value with its large parts as JSON, one of them in memory at a time. Blocks, so it needs a thread of its own.
    ///
    /// # Errors
    /// The store or the writer fails.
    pub fn write(&self, value: &Json, pretty: bool, writer: impl io::Write) -> io::Result<()> {
        let whole = Whole { value, cuts: self };
        let written = match pretty {
            true => serde_json::to_writer_pretty(writer, &whole),
            false => serde_json::to_writer(writer, &whole),
        };
        Ok(written?)
    }

    /// Makes an answer of a value with its large parts. The memory of the reader stays reserved until the answer is on its way.
    pub(crate) async fn answer(self, value: impl Serialize + Send + 'static) -> Result<Response, Problem> {
        if self.is_empty() {
            let memory = self.memory.clone();
            let body =
                on_thread(move || serde_json::to_vec(&value).map_err(|error| Problem::internal(&error)));
            let mut response = ([(CONTENT_TYPE, "application/json")], body.await?).into_response();
            response.extensions_mut().insert(memory);
            return Ok(response);
        }
        let body = self.written(move |cuts, parts| cuts.write(&serde_json::to_value(&value)?, false, parts));
        let mut response = ([(CONTENT_TYPE, "application/json")], body).into_response();
        response.extensions_mut().insert(self.memory);
        Ok(response)
    }

    /// A body that `write` makes on a thread of its own, part by part.
    pub(crate) fn written(
        &self,
        write: impl FnOnce(&Self, &mut Parts) -> io::Result<()> + Send + 'static,
    ) -> Body {
        let (sender, receiver) = mpsc::channel(PARTS);
        let cuts = self.clone();
        let work = move || {
            let mut parts = Parts { sender, buffer: Vec::new() };
            let written = write(&cuts, &mut parts).and_then(|()| parts.flush());
            if let Err(error) = written {
                // Fails if the reader has left.
                let _ = parts.sender.blocking_send(Err(error));
            }
        };
        let writing = tokio::spawn(async move {
            let _turn = THREADS.acquire().await;
            tokio::task::spawn_blocking(work).await
        });
        let parts = stream::unfold((receiver, Some(writing)), async |(mut receiver, mut writing)| {
            if let Some(part) = receiver.recv().await {
                return Some((part, (receiver, writing)));
            }
            // A thread that panicked has written a part only.
            let failed = writing.take()?.await.flatten().err()?;
            Some((Err(io::Error::other(failed)), (receiver, None)))
        });
        // A body may be asked again after its end.
        Body::from_stream(parts.fuse())
    }

    /// The events from which the answer to the caller is derived: the result stands for one of its type.
    pub(crate) fn events_for_caller<'e>(&self, events: &'e [Event]) -> std::borrow::Cow<'e, [Event]> {
        use model::Outcome;
        if self.is_empty() {
            return events.into();
        }
        let mut events = events.to_vec();
        if let Some(Event::Finished { outcome: Outcome::Succeeded { result }, .. }) = events.last_mut() {
            *result = match self.cut.find_value(result) {
                Some((marker, cut)) if cut.kind == "text" => Value::from(marker),
                Some(_) => std::mem::take(result),
                None => self.without_files(result),
            };
        }
        events.into()
    }

    /// Replaces the markers of files by markers of other values, which JSON can contain.
    fn without_files(&self, value: &Value) -> Value {
        if let (Value::File(_), Some((marker, _))) = (value, self.cut.find_value(value)) {
            return Value::from_stored(&marker).unwrap_or_default();
        }
        match value {
            Value::List(list) => list.0.iter().map(|item| self.without_files(item)).collect(),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, item)| (key.clone(), self.without_files(item)));
                Value::from(entries.collect::<Map>())
            }
            plain => plain.clone(),
        }
    }

    /// A file with the values whose markers its text contains; `None` if this is no such file. Reads them, which blocks.
    pub(crate) fn filled_file(&self, value: &Json) -> io::Result<Option<Json>> {
        let Some(file) = value.as_object().filter(|entries| large::is_file(entries)) else { return Ok(None) };
        let Some(text) = file.get("data").and_then(Json::as_str) else { return Ok(None) };
        // A text that is the whole body stands in it as it is, and not as JSON.
        let is_whole = self.find_in_text(text).is_some_and(|(_, range)| range.len() == text.len());
        let filled = self.replace_in_text(text, |cut| {
            let value = self.read(cut)?;
            Ok::<_, io::Error>(
                value.as_str().filter(|_| is_whole).map_or_else(|| value.to_json(), str::to_owned),
            )
        })?;
        Ok(filled.map(|data| {
            let mut file = file.clone();
            file.insert("size".to_owned(), data.len().into());
            file.insert("data".to_owned(), data.into());
            file.into()
        }))
    }
}

/// The parts of a body that is being written.
pub(crate) struct Parts {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl io::Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PART {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let part = std::mem::take(&mut self.buffer).into();
        self.sender.blocking_send(Ok(part)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Serializes a value with the large parts that were left out of it.
struct Whole<'a> {
    value: &'a Json,
    cuts: &'a Cuts,
}

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { value, cuts } = *self;
        if let Some(cut) = cuts.find(value) {
            return PublicForm(&cuts.read(cut).map_err(S::Error::custom)?).serialize(serializer);
        }
        match value {
            Json::Array(items) => serializer.collect_seq(items.iter().map(|value| Whole { value, cuts })),
            Json::Object(entries) => {
                if let Some(file) = cuts.filled_file(value).map_err(S::Error::custom)? {
                    return file.serialize(serializer);
                }
                serializer.collect_map(entries.iter().map(|(key, value)| (key, Whole { value, cuts })))
            }
            scalar => scalar.serialize(serializer),
        }
    }
}
