//! Files of an input while they are read.

use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use connector::{FileMemory, FileShare};
use model::ActionError;
use tokio::sync::mpsc;
use value::{CHUNK_SIZE, Data, JsonLimits, Map, Value};

use super::params::input_error;
use super::rows::{MAX_ROW, UNCOUNTED};

/// The memory of a batch of rows, in bytes.
const BATCH: usize = 1 << 20;

/// The format of a file with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    JsonLines,
}

/// Reads the rows of a file in batches, each when it is asked for, on a thread of its own.
pub(super) struct RowReader {
    memory: FileMemory,
    /// The memory for the next batch.
    shares: mpsc::Sender<FileShare>,
    batches: mpsc::Receiver<Result<Batch, ActionError>>,
}

/// Some rows of a file, with their share of the memory of files.
pub(super) struct Batch {
    pub rows: Vec<Map>,
    _share: FileShare,
}

impl RowReader {
    /// A reader of batches of at most `batch` rows. Its thread ends with it.
    pub(super) fn new(data: Data, format: Format, batch: usize, memory: FileMemory) -> Self {
        let (shares, mut given) = mpsc::channel::<FileShare>(1);
        let (sender, batches) = mpsc::channel(1);
        tokio::task::spawn_blocking(move || {
            let (mut rows, mut bytes) = (Vec::new(), 0_usize);
            let mut share = given.blocking_recv();
            let mut send = |rows: Vec<Map>, bytes: usize| {
                let Some(mut taken) = share.take() else { return false };
                taken.shrink_to(bytes);
                let sent = sender.blocking_send(Ok(Batch { rows, _share: taken })).is_ok();
                share = given.blocking_recv();
                sent && share.is_some()
            };
            let read = each_row(data, format, &mut |row| {
                bytes += row.estimated_size(BATCH);
                rows.extend(row.as_map().cloned());
                if rows.len() < batch && bytes < BATCH {
                    return true;
                }
                send(std::mem::take(&mut rows), std::mem::take(&mut bytes))
            });
            match read {
                Ok(()) if rows.is_empty() => {}
                Ok(()) => {
                    send(rows, bytes);
                }
                Err(error) => {
                    let _ = sender.blocking_send(Err(error));
                }
            }
        });
        Self { memory, shares, batches }
    }

    /// The next rows; `None` after the last ones.
    pub(super) async fn next(&mut self) -> Option<Result<Batch, ActionError>> {
        let share = self.memory.hold(BATCH).await;
        self.shares.send(share).await.ok()?;
        self.batches.recv().await
    }
}

/// Reads the rows of a file on a thread of its own, a few at a time. The thread ends when the receiver is dropped.
pub(crate) fn read_rows(data: Data, format: Format) -> mpsc::Receiver<Result<Vec<Map>, ActionError>> {
    let (sender, batches) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let (mut rows, mut bytes) = (Vec::new(), 0_usize);
        let read = each_row(data, format, &mut |row| {
            bytes += row.estimated_size(UNCOUNTED);
            rows.extend(row.as_map().cloned());
            bytes < UNCOUNTED || {
                bytes = 0;
                sender.blocking_send(Ok(std::mem::take(&mut rows))).is_ok()
            }
        });
        let _ = sender.blocking_send(read.map(|()| rows));
    });
    batches
}

/// Calls `take` with each row of a file until it returns false.
fn each_row(data: Data, format: Format, take: &mut dyn FnMut(Value) -> bool) -> Result<(), ActionError> {
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
    take: &mut dyn FnMut(Value) -> bool,
) -> Result<(), ActionError> {
    let wrong = |error: csv::Error| input_error(format!("`rows` is not CSV: {error}"));
    let mut reader = csv::ReaderBuilder::new().from_reader(reader);
    let header = reader.headers().map_err(wrong)?.clone();
    // A mark of the encoding belongs to no name.
    let names: Vec<String> =
        header.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(input_error(format!(
                "`rows` has two columns called `{name}`; give them different names"
            )));
        }
    }
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(wrong)? {
        since.store(0, Ordering::Relaxed);
        let cell = |cell: &str| if cell.is_empty() { Value::Null } else { Value::from(cell) };
        let row: Map = names.iter().map(String::as_str).zip(record.iter().map(cell)).collect();
        if !take(row.into()) {
            return Ok(());
        }
    }
    Ok(())
}

fn each_line(
    mut reader: BufReader<Reader>,
    since: &AtomicUsize,
    take: &mut dyn FnMut(Value) -> bool,
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
        if row.as_map().is_none() {
            return Err(wrong(&format_args!("is a {}, and a row is a map", row.kind())));
        }
        if !take(row) {
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
