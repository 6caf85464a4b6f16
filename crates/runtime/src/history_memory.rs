//! Reads histories within two memory budgets: of requests, and of the engine itself.

use std::time::Duration;

use model::{Event, ExecutionId};
use store::{CutEvents, ExecutionRow};
use value::Reserved;

use crate::context::Context;
use crate::error::Error;
use crate::memory::{LARGE_VALUE, Share};

/// The memory that the values of a history take for each byte of its text.
const VALUES_FOR_TEXT: usize = 8;
/// The memory that one value of a row takes for each byte of the row: the row as text, the value, its JSON and a copy of that.
const VALUE_FOR_ROW: usize = 4;
/// The memory that an event without its large values takes, in bytes.
const EVENT: usize = 1 << 10;
/// The longest wait of a request for memory that other requests hold.
const READ_PATIENCE: Duration = Duration::from_secs(5);

/// The memory for `events`, whose large values have `text` bytes and take `factor` times as much.
fn history_memory(text: usize, factor: usize, events: u32) -> usize {
    let events = usize::try_from(events).unwrap_or(usize::MAX);
    text.saturating_mul(factor).saturating_add(events.saturating_mul(EVENT))
}

/// The memory that a reader of a history has reserved.
#[must_use]
pub struct ReadMemory {
    _share: Share,
}

impl Context {
    /// Reserves memory for what a request reads of histories; none if it is little. Waits for readers of other large histories.
    ///
    /// # Errors
    /// [`Error::ReadersBusy`] if other readers have the memory for too long.
    pub async fn reserve_to_read(&self, bytes: usize) -> Result<ReadMemory, Error> {
        let share = Share::default();
        if bytes >= LARGE_VALUE {
            tokio::select! {
                biased;
                () = self.reads.reserve(&share, bytes) => {}
                () = self.clock.sleep_for(READ_PATIENCE) => {
                    return Err(Error::ReadersBusy { retry_after: READ_PATIENCE });
                }
            }
        }
        Ok(ReadMemory { _share: share })
    }

    /// Reserves memory for all events of some executions together.
    ///
    /// # Errors
    /// The store fails, or other readers have the memory for too long.
    pub async fn reserve_for_events(&self, rows: &[ExecutionRow]) -> Result<ReadMemory, Error> {
        let mut memory = 0_usize;
        for row in rows {
            let text = self.store.history_bytes(row.id).await?.all;
            memory = memory.saturating_add(history_memory(text, VALUES_FOR_TEXT, row.events));
        }
        self.reserve_to_read(memory).await
    }

    /// Reserves memory for the events of an execution without its large values, and for one of these values at a time.
    ///
    /// # Errors
    /// The store fails, or other readers have the memory for too long.
    pub async fn reserve_for_cut_events(&self, row: &ExecutionRow) -> Result<ReadMemory, Error> {
        let text = self.store.history_bytes(row.id).await?.largest_row;
        self.reserve_to_read(history_memory(text, VALUE_FOR_ROW, row.events)).await
    }

    /// Reads all events of an execution for a request, with the memory that they take; `None` if it was deleted.
    ///
    /// # Errors
    /// The store fails, or other readers have the memory for too long.
    pub async fn read_events(&self, row: &ExecutionRow) -> Result<Option<(Vec<Event>, ReadMemory)>, Error> {
        let memory = self.reserve_for_events(std::slice::from_ref(row)).await?;
        Ok(self.store.events(row.id).await?.map(|events| (events, memory)))
    }

    /// Reads the events of an execution for a request without its values of more than `min` bytes, with the memory that they and one
    /// of these values take; `None` if it was deleted.
    ///
    /// # Errors
    /// The store fails, or other readers have the memory for too long.
    pub async fn read_cut_events(
        &self,
        row: &ExecutionRow,
        min: usize,
    ) -> Result<Option<(CutEvents, ReadMemory)>, Error> {
        let memory = self.reserve_for_cut_events(row).await?;
        Ok(self.store.events_cut(row.id, min).await?.map(|cut| (cut, memory)))
    }

    /// Reads all events of an execution for the engine itself, which waits for no reader, with the memory that they take. The caller may
    /// not wait for anything while it holds it.
    ///
    /// # Errors
    /// The store fails.
    pub async fn load_events(&self, id: ExecutionId) -> Result<Option<(Vec<Event>, Reserved)>, store::Error> {
        let memory = self.reserve_to_load_events(id).await?;
        Ok(self.store.events(id).await?.map(|events| (events, memory)))
    }

    /// Reserves memory of the executions for all events of one of them.
    pub(crate) async fn reserve_to_load_events(&self, id: ExecutionId) -> Result<Reserved, store::Error> {
        let bytes = history_memory(self.store.history_bytes(id).await?.all, VALUES_FOR_TEXT, 0);
        Ok(if bytes < LARGE_VALUE { Reserved::nothing() } else { self.memory.reserve_to_load(bytes).await })
    }

    /// Reserves memory for files that are about to be loaded apart from a step.
    pub async fn reserve_to_load(&self, bytes: usize) -> Reserved {
        self.memory.reserve_to_load(bytes).await
    }
}
