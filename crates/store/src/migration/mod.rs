//! Moves everything of a store to another place, which may be of another kind.
//!
//! The records of the source are read by pages, in a form that is the same in every database ([`record`]), and written to the target
//! in transactions that also note how far the migration has come. So an interrupted migration continues where it stopped. At the
//! end both stores are read, and the counts and hashes of all kinds are compared. Only then the source is marked as moved, and the
//! mark of the unfinished target is removed: at no moment a daemon can start on both, or on a part of the records.

pub mod mark;
pub mod record;
pub mod side;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

pub use record::{Handling, Kind, Table, Tally};
pub use side::Progress;

use crate::Error;
use mark::{MOVED, Moved, UNFINISHED, Unfinished, refused};
use record::{BlobRecord, Record, Tallies};
use side::{Place, Side, hex};

/// The result of [`migrate`].
#[derive(Clone, Debug)]
pub struct Migrated {
    /// Each kind, with its counts and hashes in the source and in the target.
    pub kinds: Vec<(Kind, Tally, Tally)>,
}

impl Migrated {
    /// Returns true if source and target have the same records. Only then the source is marked as moved.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.kinds.iter().all(|(_, source, target)| source == target)
    }
}

/// One of the two stores of a migration.
pub struct End {
    /// The store, which no daemon uses.
    pub side: Box<dyn Side>,
    /// Its place, without a password.
    pub place: String,
}

/// Moves the store `source` to `target`, which is empty, or has a part of it from a migration that was interrupted. `now` is noted
/// in the source when it is marked as moved. Unfinished executions continue in the first daemon that starts on the target.
///
/// A crash leaves the source as it was; the next call continues.
///
/// # Errors
/// The source was moved to another place before, the target has other records, or a store cannot be read or written.
pub async fn migrate(
    source: End,
    target: End,
    now: Timestamp,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Migrated, Error> {
    let (from, to) = (source.place, target.place);
    let (mut source, mut target) = (source.side, target.side);
    let moved = source.mark(MOVED).await?.map(|text| Moved::read(&text)).transpose()?;
    let identity = source.identity().await?;
    let begun = target.mark(UNFINISHED).await?.map(|text| Unfinished::read(&text)).transpose()?;
    if let Some(partial) = source.mark(UNFINISHED).await? {
        return Err(Unfinished::read(&partial)?.error(&from));
    }
    let mut state = match (begun, &moved) {
        (Some(begun), _) if begun.source == identity => {
            progress(Progress::Resumed);
            begun
        }
        (Some(begun), _) => return Err(begun.error(&to)),
        (None, Some(moved)) => return Err(moved.error(&from)),
        (None, None) => {
            if !target.is_empty().await? {
                return Err(refused(format!(
                    "`{to}` is not empty; give a database or a file without a store"
                )));
            }
            let state = Unfinished::new(identity, &from);
            target.write(&[], &state.mark()?).await?;
            state
        }
    };
    move_records(&mut *source, &mut *target, &mut state, progress).await?;
    let kinds = compare(&mut *source, &mut *target, progress).await?;
    let migrated = Migrated { kinds };
    if migrated.is_equal() {
        let level = source.level().await?;
        target.raise_level(level).await?;
        target.finish().await?;
        // In this order, so that a crash between the two leaves no store on which a daemon starts.
        if moved.is_none() {
            source.write(&[], &Moved::new(&to, now).mark()?).await?;
        }
        target.write(&[], &(UNFINISHED, None)).await?;
    }
    Ok(migrated)
}

/// Removes the mark of a store that was moved, so that daemons start on it again. Returns the place to which it was moved; `None` if it
/// was not.
///
/// # Errors
/// The store cannot be written.
pub async fn undo(mut store: Box<dyn Side>) -> Result<Option<String>, Error> {
    let Some(text) = store.mark(MOVED).await? else { return Ok(None) };
    store.write(&[], &(MOVED, None)).await?;
    Ok(Some(Moved::read(&text)?.to))
}

/// Moves the remaining records.
async fn move_records(
    source: &mut dyn Side,
    target: &mut dyn Side,
    state: &mut Unfinished,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), Error> {
    let done = state.kind.and_then(|kind| Kind::MOVED.iter().position(|moved| *moved == kind));
    for kind in Kind::MOVED.into_iter().skip(done.unwrap_or_default()) {
        if state.kind != Some(kind) {
            (state.kind, state.after) = (Some(kind), Place::default());
        }
        let mut moved = 0;
        loop {
            let page = source.page(kind, &state.after).await?;
            if page.records.is_empty() {
                break;
            }
            for record in &page.records {
                if let Record::Blob(blob) = record {
                    copy_blob(source, target, blob).await?;
                }
            }
            state.after = page.last;
            target.write(&page.records, &state.mark()?).await?;
            moved += page.records.len() as u64;
            progress(Progress::Moving(kind, moved));
        }
    }
    Ok(())
}

/// Copies the content of a blob, and verifies its hash.
async fn copy_blob(source: &mut dyn Side, target: &mut dyn Side, blob: &BlobRecord) -> Result<(), Error> {
    if !target.begin_blob(blob).await? {
        return Ok(());
    }
    read_blob(source, blob, async |number, bytes| target.put_chunk(blob, number, bytes).await).await?;
    target.end_blob(blob).await
}

/// Reads the content of a blob by chunks, and verifies its hash after the last.
async fn read_blob(
    side: &mut dyn Side,
    blob: &BlobRecord,
    mut each: impl AsyncFnMut(u32, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut digest, mut left) = (Sha256::new(), blob.length);
    for number in 0.. {
        if left == 0 {
            break;
        }
        let chunk = side.chunk(blob, number).await?;
        digest.update(&chunk);
        left = left
            .checked_sub(chunk.len() as u64)
            .filter(|_| !chunk.is_empty())
            .ok_or_else(|| damaged(blob))?;
        each(number, &chunk).await?;
    }
    if digest.finalize()[..] == blob.hash[..] { Ok(()) } else { Err(damaged(blob)) }
}

fn damaged(blob: &BlobRecord) -> Error {
    Error::RecordDamaged {
        detail: format!("the blob `{}` does not have the content of its name", hex(&blob.hash)),
    }
}

/// Reads both stores, and returns the tallies of each kind.
async fn compare(
    source: &mut dyn Side,
    target: &mut dyn Side,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Vec<(Kind, Tally, Tally)>, Error> {
    let (mut of_source, mut of_target) = (Tallies::default(), Tallies::default());
    let mut read = 0;
    for kind in Kind::MOVED {
        tally(source, kind, &mut of_source, &mut |count| {
            read += count;
            progress(Progress::Comparing(kind, read));
        })
        .await?;
        tally(target, kind, &mut of_target, &mut |count| {
            read += count;
            progress(Progress::Comparing(kind, read));
        })
        .await?;
    }
    // The content of the source was verified when it was copied.
    let mut place = Place::default();
    loop {
        let page = target.page(Kind::Blobs, &place).await?;
        if page.records.is_empty() {
            break;
        }
        for record in &page.records {
            if let Record::Blob(blob) = record {
                read_blob(target, blob, async |_, _| Ok(())).await?;
            }
        }
        place = page.last;
    }
    Ok(Kind::ALL.iter().map(|(kind, _)| (*kind, of_source.of(*kind), of_target.of(*kind))).collect())
}

async fn tally(
    side: &mut dyn Side,
    kind: Kind,
    tallies: &mut Tallies,
    read: &mut (dyn FnMut(u64) + Send),
) -> Result<(), Error> {
    let mut place = Place::default();
    loop {
        let page = side.page(kind, &place).await?;
        if page.records.is_empty() {
            return Ok(());
        }
        page.records.iter().for_each(|record| record.tally(tallies));
        read(page.records.len() as u64);
        place = page.last;
    }
}
