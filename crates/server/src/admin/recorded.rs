//! Recorded executions, read within a bound of memory: large values stay in the store until they are written to an answer, one
//! at a time.

use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use engine::ReadMemory;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use model::value::{Map, PublicForm, Value};
use model::{Event, ExecutionId};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use store::{CutEvents, CutValue, ExecutionRow, HistoryRow, Store};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::{Api, Problem, in_turn, large};

/// How long a request waits for memory.
const PATIENCE: Duration = Duration::from_secs(5);
/// The memory that an event without its large values takes, in bytes.
const EVENT: usize = 1 << 10;
/// The memory that the values of a history take for each byte of its text.
const EXPANSION: usize = 8;

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
        let store = self.engine.store();
        let bytes = store.history_bytes(row.id).await?;
        let memory = self.reserve_read(bytes.largest_row * 3 + row.events as usize * EVENT).await?;
        let cut =
            store.events_cut(row.id, large::SMALL).await?.ok_or_else(|| unknown(&row.id.to_string()))?;
        let (events, cuts) = Cuts::new(store.clone(), row.id, cut);
        Ok(Recorded { row, events, cuts: Cuts { memory: Some(Arc::new(memory)), ..cuts } })
    }

    /// Reads an execution with all its values, by the id in a path.
    pub(crate) async fn execution(&self, id: &str) -> Result<RecordedWhole, Problem> {
        let row = self.row(id).await?;
        let store = self.engine.store();
        let bytes = store.history_bytes(row.id).await?;
        let memory = self.reserve_read(bytes.all * EXPANSION + row.events as usize * EVENT).await?;
        let events = store.events(row.id).await?.ok_or_else(|| unknown(&row.id.to_string()))?;
        Ok(RecordedWhole { row, events, _memory: memory })
    }

    /// The list row of the execution that a path names.
    pub(crate) async fn row(&self, id: &str) -> Result<ExecutionRow, Problem> {
        let found = self.execution_id(id).await?;
        self.engine.store().execution(found).await?.ok_or_else(|| unknown(id))
    }

    /// Reserves memory to read a history; 503 if other readers have it for too long.
    async fn reserve_read(&self, bytes: usize) -> Result<ReadMemory, Problem> {
        let reserving = self.engine.runtime().reserve_to_read(bytes);
        in_turn(reserving, PATIENCE, "other requests read large executions; try again").await
    }
}

fn unknown(id: &str) -> Problem {
    Problem::not_found("unknown_execution", format!("there is no execution `{id}`"))
}

/// Runs `work` on a thread that may block, with the memory that its data have reserved.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
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
    pub(crate) fn find_in_text(&self, text: &str) -> Option<(&CutValue, std::ops::Range<usize>)> {
        if self.is_empty() { None } else { self.cut.find_in_text(text) }
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
        let writing = tokio::task::spawn_blocking(move || {
            let mut parts = Parts { sender, buffer: Vec::new() };
            let written = write(&cuts, &mut parts).and_then(|()| parts.flush());
            if let Err(error) = written {
                // Fails if the reader has left.
                let _ = parts.sender.blocking_send(Err(error));
            }
        });
        let parts = stream::unfold((receiver, Some(writing)), async |(mut receiver, mut writing)| {
            if let Some(part) = receiver.recv().await {
                return Some((part, (receiver, writing)));
            }
            // A thread that panicked has written a part only.
            let failed = writing.take()?.await.err()?;
            Some((Err(io::Error::other(failed)), (receiver, None)))
        });
        Body::from_stream(parts)
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

    /// The text of a body with the values whose markers it contains.
    fn fill(&self, text: &str) -> io::Result<String> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((cut, range)) = self.find_in_text(rest) {
            let value = self.read(cut)?;
            filled.push_str(&rest[..range.start]);
            match value.as_str().filter(|_| range.len() == text.len()) {
                Some(text) => filled.push_str(text),
                None => filled.push_str(&value.to_json()),
            }
            rest = &rest[range.end..];
        }
        Ok(filled + rest)
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
                let body = entries.get("data").and_then(Json::as_str).filter(|_| large::is_file(entries));
                if let Some(body) = body.filter(|body| cuts.find_in_text(body).is_some()) {
                    let data = cuts.fill(body).map_err(S::Error::custom)?;
                    let mut file = entries.clone();
                    file.insert("size".to_owned(), data.len().into());
                    file.insert("data".to_owned(), data.into());
                    return file.serialize(serializer);
                }
                serializer.collect_map(entries.iter().map(|(key, value)| (key, Whole { value, cuts })))
            }
            scalar => scalar.serialize(serializer),
        }
    }
}
