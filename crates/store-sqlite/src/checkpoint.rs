//! Checkpoints: copying the write-ahead log into the file. They run on a thread and a connection of their own, so that no
//! commit waits for one.

use std::ffi::c_int;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

use super::error_map;
use super::settings;
use store::poison::Poison;
use store::{Error, Options};

/// The checkpointer thread and the channel that wakes it.
#[derive(Debug)]
pub(super) struct Checkpointer {
    wake: SyncSender<()>,
    thread: JoinHandle<()>,
    /// Locked during a checkpoint, since SQLite refuses concurrent ones.
    turn: Arc<Mutex<CheckpointLog>>,
}

impl Checkpointer {
    /// Starts the thread for this file.
    pub(super) fn start(file: &Path, options: &Options, poison: Poison) -> Result<Self, Error> {
        let connection = settings::open_checkpointer(file, options)?;
        let (wake, woken) = sync_channel(1);
        let turn = Arc::new(Mutex::new(CheckpointLog::default()));
        let shared = turn.clone();
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || run(&connection, &woken, &shared, &poison))
            .map_err(|error| Error::Open { path: file.to_owned(), reason: error.to_string() })?;
        Ok(Self { wake, thread, turn })
    }

    /// Has it copy what is in the log, now or as soon as it is done with what it does.
    pub(super) fn wake(&self) {
        // A full channel means that the thread is about to run anyway.
        let _ = self.wake.try_send(());
    }

    /// Runs a checkpoint on the thread of the writer, after a running one.
    pub(super) fn checkpoint_here(&self, writer: &Connection, poison: &Poison) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        checkpoint(writer, CheckpointMode::PASSIVE, poison, &mut turn);
    }

    /// Ends the thread, and waits for it.
    pub(super) fn stop(self) {
        drop(self.wake);
        if self.thread.join().is_err() {
            tracing::error!("the store's checkpointer panicked");
        }
    }
}

fn run(connection: &Connection, woken: &Receiver<()>, turn: &Mutex<CheckpointLog>, poison: &Poison) {
    while woken.recv().is_ok() && poison.reason().is_none() {
        let mut turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        checkpoint(connection, CheckpointMode::PASSIVE, poison, &mut turn);
    }
}

/// The logged failures of checkpoints, to log each only once: on a full disk every commit tries a checkpoint.
#[derive(Debug, Default)]
pub(super) struct CheckpointLog {
    is_full: bool,
}

/// Copies the log into the file. A failed sync of the file poisons the store: the log would be overwritten although its
/// content may not be in the file.
pub(super) fn checkpoint(
    connection: &Connection,
    mode: CheckpointMode,
    poison: &Poison,
    log: &mut CheckpointLog,
) {
    let Err(error) = connection.wal_checkpoint_v2(None::<&str>, mode) else {
        log.is_full = false;
        return;
    };
    match error.sqlite_error_code() {
        // Another program runs a checkpoint or reads: the log keeps its content until the next attempt.
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {}
        Some(ErrorCode::DiskFull) => {
            if !std::mem::replace(&mut log.is_full, true) {
                tracing::warn!("no space to copy the store's log into its file");
            }
        }
        _ => poison.set(&format!("checkpoint: {}", error_map::describe(&error))),
    }
}

/// The schedule of checkpoints by the length of the log in pages.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The length at the last wake of the checkpointer.
    woken_at: u32,
    /// The length at which the writer runs a checkpoint itself: only while nothing is written can the log restart.
    ceiling: u32,
}

/// The action that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// Waking the checkpointer.
    Wake,
    /// A checkpoint by the writer.
    Now,
}

impl Schedule {
    /// The growth of the log in pages that wakes the checkpointer: 16 MiB. While it syncs the file, commits take some
    /// milliseconds longer; at 4 MiB that was one commit in a hundred.
    const STEP: u32 = 4096;

    /// Under a constant load the checkpointer never quite catches up. At 32 MiB the writer pauses for a checkpoint, with
    /// little left to copy.
    const CEILING: u32 = 2 * Self::STEP;

    /// Creates the schedule for an empty log.
    pub(super) fn new() -> Self {
        Self { woken_at: 0, ceiling: Self::CEILING }
    }

    /// Returns the action that is due when the log has this many pages.
    pub(super) fn after_commit(&mut self, pages: u32) -> Due {
        if pages < self.woken_at {
            *self = Self::new();
        }
        if pages >= self.ceiling {
            // A reader can prevent the restart of the log; the next attempt comes after some more pages.
            self.ceiling = pages.saturating_add(Self::STEP / 2);
            self.woken_at = pages;
            return Due::Now;
        }
        if pages >= self.woken_at.saturating_add(Self::STEP) {
            self.woken_at = pages;
            return Due::Wake;
        }
        Due::Nothing
    }
}

/// Counts the pages of the log after each commit.
pub(super) fn count_pages(connection: &mut Connection, pages: Arc<AtomicU32>) -> rusqlite::Result<()> {
    connection.wal_hook(Some(move |_: &mut Wal, count: c_int| {
        pages.store(u32::try_from(count).unwrap_or_default(), Ordering::Relaxed);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkpointer_wakes_as_the_wal_grows_and_the_writer_helps_at_the_limit() {
        let mut schedule = Schedule::new();
        assert_eq!(schedule.after_commit(4000), Due::Nothing);
        assert_eq!(schedule.after_commit(4130), Due::Wake);
        assert_eq!(schedule.after_commit(4140), Due::Nothing);
        assert_eq!(schedule.after_commit(8200), Due::Now);
        assert_eq!(schedule.after_commit(8300), Due::Nothing, "a reader holds the log: not at every commit");
        assert_eq!(schedule.after_commit(10_300), Due::Now);
        assert_eq!(schedule.after_commit(5), Due::Nothing, "it started over");
        assert_eq!(schedule.after_commit(4130), Due::Wake);
    }
}
