//! The crash record: a file that names the executions that compute, for the process that comes after a crash.
//!
//! Entries are plain writes without a sync: the system keeps them when the process dies. A loss of power may take some
//! along, and then that crash is not counted against anybody.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;
#[cfg(any(test, feature = "simulation"))]
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ExecutionId;

/// How many executions it can name. More never compute at one time: there are fewer threads.
const SLOTS: usize = 64;

/// Bytes of a slot: an id, or as many blanks, and a line break.
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
    /// Whether it computes now.
    computes: bool,
    /// Whether the process before this one named it, and that is not in its log yet.
    is_suspect: bool,
}

/// Where a crash record is kept.
enum Medium {
    File(File),
    /// Nowhere: no process comes after this one.
    None,
    /// In memory that outlives the engine, in a test.
    #[cfg(any(test, feature = "simulation"))]
    Memory(Arc<RecordMemory>),
}

/// An execution that is named in the record until this is dropped.
pub(super) struct Entry<'a> {
    record: &'a CrashRecord,
    slot: usize,
}

impl CrashRecord {
    /// A record that nobody reads.
    pub(super) fn none() -> Self {
        Self { slots: Mutex::new([None; SLOTS]), medium: Medium::None }
    }

    /// Opens the file, and keeps the executions that the process before this one named: they stay in it until
    /// [`Self::remove`].
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

    /// The executions that it names.
    pub(super) fn named(&self) -> Vec<ExecutionId> {
        self.slots().iter().flatten().map(|named| named.id).collect()
    }

    /// Names an execution until the entry is dropped. `None` where nothing is free.
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

    /// Names an execution no longer, unless it computes.
    pub(super) fn remove(&self, id: ExecutionId) {
        let mut slots = self.slots();
        if let Some(slot) = find(&slots, id) {
            self.change(&mut slots, slot, |named| Named { is_suspect: false, ..named });
        }
    }

    /// Changes a slot, and clears it where nothing keeps it any more.
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

/// The slots of a file; what is no id names nobody.
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

/// The bytes of a record in memory. They no longer change once it is frozen, as those of a file do not once the process
/// is dead.
#[cfg(any(test, feature = "simulation"))]
#[derive(Default)]
pub struct RecordMemory {
    bytes: Mutex<Vec<u8>>,
    is_frozen: std::sync::atomic::AtomicBool,
}

#[cfg(any(test, feature = "simulation"))]
impl RecordMemory {
    /// The process dies.
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
    fn a_process_finds_who_computed_when_the_one_before_it_died() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("crash-record");
        let record = CrashRecord::open(&path).expect("it opens");
        assert!(record.named().is_empty());
        let ended = record.enter(id(1));
        let entry = record.enter(id(2)).expect("there is room");
        drop(ended);
        // Neither of the two comes to clear its slot in a process that dies.
        std::mem::forget(entry);
        let next = CrashRecord::open(&path).expect("it opens");
        assert_eq!(next.named(), [id(2)]);
        drop(next.enter(id(2)));
        let later = CrashRecord::open(&path).expect("it opens");
        assert_eq!(later.named(), [id(2)], "it stays until it is counted, however often the process dies");
        // It dies in the midst of what it does with it: the mark stays though the crash before is counted.
        std::mem::forget(later.enter(id(2)));
        later.remove(id(2));
        let last = CrashRecord::open(&path).expect("it opens");
        assert_eq!(last.named(), [id(2)]);
        last.remove(id(2));
        assert!(CrashRecord::open(&path).expect("it opens").named().is_empty());
    }

    #[test]
    fn what_is_no_record_names_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("crash-record");
        std::fs::write(&path, [0xff; 5000]).expect("it is written");
        let record = CrashRecord::open(&path).expect("it opens");
        assert!(record.named().is_empty());
        std::mem::forget(record.enter(id(3)));
        assert_eq!(CrashRecord::open(&path).expect("it opens").named(), [id(3)]);
    }
}
