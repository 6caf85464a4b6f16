//! The crash record: a file that names the executions that compute at the moment, for the process after a crash.
//!
//! Entries are written without a sync: the operating system keeps them when the process dies. A power failure may lose some
//! of them; then the crash is not counted.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;
#[cfg(any(test, feature = "simulation"))]
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ExecutionId;

/// The number of executions that the record can name; there are fewer threads that compute.
const SLOTS: usize = 64;

/// The size of a slot in bytes: an id, or as many spaces, and a line break.
const WIDTH: usize = 37;

/// The crash record of this process.
pub(super) struct CrashRecord {
    slots: Mutex<Slots>,
    medium: Medium,
}

type Slots = [Option<Named>; SLOTS];

/// An execution that the record names.
#[derive(Clone, Copy)]
struct Named {
    id: ExecutionId,
    /// True if it computes now.
    computes: bool,
    /// True if the previous process named it and its log does not record that yet.
    is_suspect: bool,
}

/// The storage of a crash record.
enum Medium {
    File(File),
    /// No record, for a process whose crash is not examined.
    None,
    /// Memory that outlives the engine, in a test.
    #[cfg(any(test, feature = "simulation"))]
    Memory(Arc<RecordMemory>),
}

/// Names an execution in the record until it is dropped.
pub(super) struct Entry<'a> {
    record: &'a CrashRecord,
    slot: usize,
}

impl CrashRecord {
    /// A record that is not stored.
    pub(super) fn none() -> Self {
        Self { slots: Mutex::new([None; SLOTS]), medium: Medium::None }
    }

    /// Opens the file. The executions that the previous process named stay in it until [`Self::remove`].
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let mut bytes = Vec::new();
        (&file).take((SLOTS * WIDTH) as u64).read_to_end(&mut bytes)?;
        let record = Self { slots: Mutex::new(parse(&bytes)), medium: Medium::File(file) };
        record.write_all()?;
        Ok(record)
    }

    /// The executions in the record.
    pub(super) fn named(&self) -> Vec<ExecutionId> {
        self.slots().iter().flatten().map(|named| named.id).collect()
    }

    /// Names an execution until the entry is dropped; `None` if all slots are in use.
    pub(super) fn enter(&self, id: ExecutionId) -> Option<Entry<'_>> {
        let mut slots = self.slots();
        if let Some(slot) = find(&slots, id) {
            slots[slot] = slots[slot].map(|named| Named { computes: true, ..named });
            return Some(Entry { record: self, slot });
        }
        let slot = slots.iter().position(Option::is_none)?;
        slots[slot] = Some(Named { id, computes: true, is_suspect: false });
        self.write(slot, Some(id));
        Some(Entry { record: self, slot })
    }

    /// Removes an execution, unless it computes.
    pub(super) fn remove(&self, id: ExecutionId) {
        let mut slots = self.slots();
        if let Some(slot) = find(&slots, id) {
            self.change(&mut slots, slot, |named| Named { is_suspect: false, ..named });
        }
    }

    /// Changes a slot, and clears it if its execution neither computes nor is a suspect.
    fn change(&self, slots: &mut Slots, slot: usize, change: impl FnOnce(Named) -> Named) {
        slots[slot] = slots[slot].map(change).filter(|named| named.computes || named.is_suspect);
        if slots[slot].is_none() {
            self.write(slot, None);
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self) -> io::Result<()> {
        let text: String = self.slots().iter().map(|named| line(named.map(|named| named.id))).collect();
        self.write_at(text.as_bytes(), 0)
    }

    fn write(&self, slot: usize, id: Option<ExecutionId>) {
        if let Err(error) = self.write_at(line(id).as_bytes(), slot * WIDTH) {
            tracing::debug!(%error, "the crash record cannot be written");
        }
    }

    fn write_at(&self, bytes: &[u8], at: usize) -> io::Result<()> {
        match &self.medium {
            Medium::None => Ok(()),
            Medium::File(file) => write_file_at(file, bytes, at as u64),
            #[cfg(any(test, feature = "simulation"))]
            Medium::Memory(memory) => {
                memory.write_at(bytes, at);
                Ok(())
            }
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut slots = self.record.slots();
        self.record.change(&mut slots, self.slot, |named| Named { computes: false, ..named });
    }
}

#[cfg(unix)]
fn write_file_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn write_file_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, at).map(drop)
}

fn line(id: Option<ExecutionId>) -> String {
    id.map_or_else(|| format!("{:36}\n", ""), |id| format!("{id}\n"))
}

/// Parses the slots of a file; a line that is no id is an empty slot.
fn parse(bytes: &[u8]) -> Slots {
    let mut slots = [None; SLOTS];
    for (slot, line) in slots.iter_mut().zip(bytes.chunks(WIDTH)) {
        let id = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse().ok());
        *slot = id.map(|id| Named { id, computes: false, is_suspect: true });
    }
    slots
}

fn find(slots: &Slots, id: ExecutionId) -> Option<usize> {
    slots.iter().position(|named| named.is_some_and(|named| named.id == id))
}

/// The bytes of a record in memory. Once frozen they no longer change, like a file whose process is dead.
#[cfg(any(test, feature = "simulation"))]
#[derive(Default)]
pub struct RecordMemory {
    bytes: Mutex<Vec<u8>>,
    is_frozen: std::sync::atomic::AtomicBool,
}

#[cfg(any(test, feature = "simulation"))]
impl RecordMemory {
    /// Simulates the death of the process.
    pub fn freeze(&self) {
        self.is_frozen.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn write_at(&self, bytes: &[u8], at: usize) {
        if self.is_frozen.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < at + bytes.len() {
            all.resize(at + bytes.len(), b' ');
        }
        all[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn open(self: &Arc<Self>) -> CrashRecord {
        self.is_frozen.store(false, std::sync::atomic::Ordering::Relaxed);
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        CrashRecord { slots: Mutex::new(parse(&bytes)), medium: Medium::Memory(self.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> ExecutionId {
        ExecutionId::from_bytes([number; 16])
    }

    #[test]
    fn the_crash_record_lists_executions_that_computed_when_the_process_died() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("crash-record");
        let record = CrashRecord::open(&path).expect("it opens");
        assert!(record.named().is_empty());
        let ended = record.enter(id(1));
        let entry = record.enter(id(2)).expect("there is room");
        drop(ended);
        // A process that dies does not clear its slots.
        std::mem::forget(entry);
        let next = CrashRecord::open(&path).expect("it opens");
        assert_eq!(next.named(), [id(2)]);
        drop(next.enter(id(2)));
        let later = CrashRecord::open(&path).expect("it opens");
        assert_eq!(later.named(), [id(2)], "it stays until it is counted, however often the process dies");
        // The process dies while it computes: the entry stays, although the earlier crash is counted.
        std::mem::forget(later.enter(id(2)));
        later.remove(id(2));
        let last = CrashRecord::open(&path).expect("it opens");
        assert_eq!(last.named(), [id(2)]);
        last.remove(id(2));
        assert!(CrashRecord::open(&path).expect("it opens").named().is_empty());
    }

    #[test]
    fn an_invalid_crash_record_lists_no_execution() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("crash-record");
        std::fs::write(&path, [0xff; 5000]).expect("it is written");
        let record = CrashRecord::open(&path).expect("it opens");
        assert!(record.named().is_empty());
        std::mem::forget(record.enter(id(3)));
        assert_eq!(CrashRecord::open(&path).expect("it opens").named(), [id(3)]);
    }
}
