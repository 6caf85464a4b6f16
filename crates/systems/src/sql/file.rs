//! Files of a result while they are written, and files of an input while they are read.

use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::{ActionError, ErrorKind};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use value::{CHUNK_SIZE, Data, FileStorage, FileWriter, JsonLimits, Map, Value};

use super::params::input_error;
use super::rows::MAX_ROW;

/// The size up to which a file of a result stays in memory, in bytes.
const MAX_IN_MEMORY: usize = 1 << 20;
/// The largest file of a result, in bytes.
pub(super) const MAX_FILE: usize = 512 << 20;
/// The chunks that wait to be written.
const WAITING: usize = 2;

/// A file that is being written: first in memory, then by a thread into the store.
pub(super) struct FileSink {
    storage: Arc<dyn FileStorage>,
    buffer: Vec<u8>,
    size: usize,
    writer: Option<Writer>,
}

struct Writer {
    chunks: mpsc::Sender<Vec<u8>>,
    task: JoinHandle<io::Result<Box<dyn FileWriter>>>,
}

impl FileSink {
    pub(super) fn new(storage: Arc<dyn FileStorage>) -> Self {
        Self { storage, buffer: Vec::new(), size: 0, writer: None }
    }

    pub(super) async fn push(&mut self, bytes: &[u8]) -> Result<(), ActionError> {
        self.size = self.size.saturating_add(bytes.len());
        if self.size > MAX_FILE {
            let most = text::units::format_size(MAX_FILE as u64);
            let message =
                format!("the rows have more than {most}, the most that a file may have; ask for fewer");
            return Err(ActionError::new(ErrorKind::Limit, message));
        }
        self.buffer.extend_from_slice(bytes);
        let most = if self.writer.is_some() { CHUNK_SIZE } else { MAX_IN_MEMORY };
        if self.buffer.len() > most { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), ActionError> {
        let chunk = std::mem::take(&mut self.buffer);
        let writer = self.writer.get_or_insert_with(|| Writer::start(self.storage.clone()));
        // The writer ends early only with an error, which `finish` reports.
        match writer.chunks.send(chunk).await {
            Ok(()) => Ok(()),
            Err(_) => match self.writer.take() {
                Some(writer) => writer.finish().await.map(|_| ()),
                None => Ok(()),
            },
        }
    }

    pub(super) async fn finish(mut self) -> Result<Data, ActionError> {
        if self.writer.is_none() {
            return Ok(Data::from(self.buffer));
        }
        self.flush().await?;
        match self.writer.take() {
            Some(writer) => writer.finish().await,
            None => Err(unwritable(&io::ErrorKind::BrokenPipe.into())),
        }
    }
}

impl Writer {
    fn start(storage: Arc<dyn FileStorage>) -> Self {
        let (chunks, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING);
        let task = tokio::task::spawn_blocking(move || {
            let mut file = storage.create()?;
            while let Some(chunk) = waiting.blocking_recv() {
                file.write(&chunk)?;
            }
            Ok(file)
        });
        Self { chunks, task }
    }

    async fn finish(self) -> Result<Data, ActionError> {
        drop(self.chunks);
        let finished = async {
            let file = self.task.await.map_err(io::Error::other)??;
            tokio::task::spawn_blocking(move || file.finish()).await.map_err(io::Error::other)?
        };
        finished.await.map_err(|error| unwritable(&error))
    }
}

fn unwritable(error: &io::Error) -> ActionError {
    ActionError::new(ErrorKind::Internal, format!("the file of the rows cannot be written: {error}"))
}

/// The format of a file with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    JsonLines,
}

/// Reads the rows of a file on a thread of its own, in batches. The thread ends when the receiver is dropped.
pub(super) fn read_rows(
    data: Data,
    format: Format,
    batch: usize,
) -> mpsc::Receiver<Result<Vec<Map>, ActionError>> {
    let (batches, received) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let mut rows = Vec::new();
        let read = each_row(data, format, &mut |row| {
            rows.push(row);
            rows.len() < batch || batches.blocking_send(Ok(std::mem::take(&mut rows))).is_ok()
        });
        let last = read.map(|()| rows);
        if !matches!(&last, Ok(rows) if rows.is_empty()) {
            let _ = batches.blocking_send(last);
        }
    });
    received
}

/// Calls `take` with each row of a file until it returns false.
fn each_row(data: Data, format: Format, take: &mut dyn FnMut(Map) -> bool) -> Result<(), ActionError> {
    let since = Arc::new(AtomicUsize::new(0));
    let reader = BufReader::with_capacity(CHUNK_SIZE, Reader { data, offset: 0, since: since.clone() });
    match format {
        Format::Csv => each_record(reader, &since, take),
        Format::JsonLines => each_line(reader, &since, take),
    }
}

fn each_record(
    reader: BufReader<Reader>,
    since: &AtomicUsize,
    take: &mut dyn FnMut(Map) -> bool,
) -> Result<(), ActionError> {
    let wrong = |error: csv::Error| input_error(format!("`rows` is not CSV: {error}"));
    let mut reader = csv::ReaderBuilder::new().from_reader(reader);
    let header = reader.headers().map_err(wrong)?.clone();
    // A mark of the encoding belongs to no name.
    let names: Vec<String> =
        header.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(wrong)? {
        since.store(0, Ordering::Relaxed);
        let cell = |cell: &str| if cell.is_empty() { Value::Null } else { Value::from(cell) };
        let row = names.iter().map(String::as_str).zip(record.iter().map(cell)).collect();
        if !take(row) {
            return Ok(());
        }
    }
    Ok(())
}

fn each_line(
    mut reader: BufReader<Reader>,
    since: &AtomicUsize,
    take: &mut dyn FnMut(Map) -> bool,
) -> Result<(), ActionError> {
    let (mut line, mut number) = (Vec::new(), 0_usize);
    loop {
        line.clear();
        number += 1;
        let wrong = |words: &dyn std::fmt::Display| input_error(format!("line {number} of `rows` {words}"));
        let unreadable = |error: io::Error| wrong(&format_args!("cannot be read: {error}"));
        if reader.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            return Ok(());
        }
        since.store(0, Ordering::Relaxed);
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = Value::from_json(&line, JsonLimits::default());
        let row = row.map_err(|error| wrong(&format_args!("is not JSON: {error}")))?;
        let Some(row) = row.as_map() else {
            return Err(wrong(&format_args!("is a {}, and a row is a map", row.kind())));
        };
        if !take(row.clone()) {
            return Ok(());
        }
    }
}

/// Reads a file in chunks, and refuses a row that is larger than [`MAX_ROW`].
struct Reader {
    data: Data,
    offset: u64,
    /// The bytes since the last row ended.
    since: Arc<AtomicUsize>,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since.load(Ordering::Relaxed) > MAX_ROW {
            return Err(io::Error::other("a row is larger than 16MiB; a quote may have no end"));
        }
        let count = self.data.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        self.since.fetch_add(count, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what is written, and keeps none of it.
    #[derive(Debug, Default)]
    struct Counting(Arc<AtomicUsize>);

    impl FileStorage for Counting {
        fn create(&self) -> io::Result<Box<dyn FileWriter>> {
            Ok(Box::new(Self(self.0.clone())))
        }
    }

    impl FileWriter for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.fetch_add(bytes.len(), Ordering::Relaxed);
            Ok(())
        }

        fn finish(self: Box<Self>) -> io::Result<Data> {
            Ok(Data::default())
        }
    }

    #[tokio::test]
    async fn a_file_has_a_size_limit_and_little_of_it_in_memory() {
        let written = Arc::new(AtomicUsize::new(0));
        let mut file = FileSink::new(Arc::new(Counting(written.clone())));
        let chunk = vec![b'x'; 1 << 20];
        file.push(&chunk).await.expect("it is within the limit");
        assert!(file.writer.is_none(), "a small file stays in memory");
        for _ in 1..MAX_FILE >> 20 {
            file.push(&chunk).await.expect("it is within the limit");
            assert!(file.buffer.len() <= MAX_IN_MEMORY, "{}", file.buffer.len());
        }
        let error = file.push(b"x").await.expect_err("above the limit");
        assert_eq!(error.kind, ErrorKind::Limit);
        file.finish().await.expect("it is finished");
        assert_eq!(written.load(Ordering::Relaxed), MAX_FILE);
    }
}
