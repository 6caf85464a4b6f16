//! The writer thread. It receives all queued writes, executes them in one transaction, commits with one sync, and only
//! then answers. It adds no delay: while one batch is synced, the next one queues up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::failpoint::{Failpoint, FailpointAction, Failpoints};
use rusqlite::config::DbConfig;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ffi};
use tokio::sync::oneshot;

use super::blobs::Folder;
use super::checkpoint::{self, CheckpointLog, Checkpointer, Due, Schedule};
use super::encode::{WriteOp, WriteResult};
use super::error_map::{self, ErrorClass, classify};
use super::paths::Lock;
use super::probe::Probe;
use super::queue::{Receiver, Write};
use super::readahead::Readahead;
use super::statements::Statements;
use super::usage::{UnmeasuredBytes, Usage};
use super::write::{self, Uses, WriteError};
use store::counters::Counters;
use store::outage::Outages;
use store::poison::Poison;
use store::{Error, OutageKind};

/// Maximum number of writes in a transaction.
const BATCH_WRITES: usize = 512;

/// The approximate limit of a transaction in bytes.
const BATCH_BYTES: usize = 8 << 20;

/// The time that closing waits for readers of other programs, so that the log can be truncated.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The state that the writer thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) receiver: Receiver,
    pub(super) checkpointer: Checkpointer,
    pub(super) readahead: Readahead,
    pub(super) poison: Poison,
    pub(super) outages: Outages,
    pub(super) counters: Counters,
    pub(super) folder: Arc<Folder>,
    pub(super) usage: Usage,
    pub(super) lock: Lock,
    pub(super) failpoints: Failpoints,
}

/// The results of the writes of a batch, in order.
type Results = Vec<Result<WriteResult, Error>>;

/// The failure of a whole transaction.
enum BatchFailure {
    /// One write failed: the batch is tried again with a savepoint around each write.
    Isolate,
    /// All writes fail with this error.
    All(Error),
}

impl Writer {
    /// Starts the thread. It ends when the queue is closed or dropped.
    pub(super) fn start(self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || self.run())
    }

    fn run(mut self) {
        let pages = Arc::new(AtomicU32::new(0));
        if let Err(error) = checkpoint::count_pages(&mut self.connection, pages.clone()) {
            self.poison.set(&error_map::describe(&error));
        }
        let mut closers = Vec::new();
        match Statements::prepare(&self.connection) {
            Ok(statements) => {
                let mut session = Session {
                    connection: &self.connection,
                    statements,
                    uses: Uses::new(),
                    checkpointer: &self.checkpointer,
                    schedule: Schedule::new(),
                    readahead: &mut self.readahead,
                    pages,
                    poison: &self.poison,
                    outages: &self.outages,
                    probe: Probe::default(),
                    is_read_only: false,
                    counters: &self.counters,
                    folder: &self.folder,
                    usage: &self.usage,
                    since: UnmeasuredBytes::default(),
                    failpoints: &self.failpoints,
                };
                session.serve(&self.receiver, &mut closers);
            }
            Err(error) => self.poison.set(&error_map::describe(&error)),
        }
        // In this order: when `close` returns, the file and the lock are released.
        self.checkpointer.stop();
        close(self.connection, &self.poison);
        drop(self.lock);
        for closer in closers {
            let _ = closer.send(());
        }
    }
}

/// Truncates the log and closes the file. A poisoned store is left as it is.
fn close(connection: Connection, poison: &Poison) {
    if poison.reason().is_none() {
        // If this fails, the log is only longer.
        let _ = connection.busy_timeout(CLOSE_TIMEOUT);
        checkpoint::checkpoint(&connection, CheckpointMode::TRUNCATE, poison, &mut CheckpointLog::default());
    } else if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::warn!(%error, "the store's log may be copied on closing");
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the store's file was not closed cleanly");
    }
}

/// The state of the running writer.
struct Session<'writer> {
    connection: &'writer Connection,
    statements: Statements<'writer>,
    uses: Uses,
    checkpointer: &'writer Checkpointer,
    schedule: Schedule,
    readahead: &'writer mut Readahead,
    pages: Arc<AtomicU32>,
    poison: &'writer Poison,
    outages: &'writer Outages,
    probe: Probe,
    /// True if the last failure was that the file may only be read.
    is_read_only: bool,
    counters: &'writer Counters,
    folder: &'writer Folder,
    usage: &'writer Usage,
    since: UnmeasuredBytes,
    failpoints: &'writer Failpoints,
}

impl Session<'_> {
    fn serve(&mut self, receiver: &Receiver, closers: &mut Vec<oneshot::Sender<()>>) {
        let mut writes = Vec::new();
        while receiver.receive(&mut writes, closers, self.probe.pause()) {
            if writes.is_empty() {
                self.probe();
            }
            while !writes.is_empty() {
                self.readahead.before_commit(self.pages.load(Ordering::Relaxed));
                let batch = &writes[..batch_length(&writes)];
                let results = self.commit(batch);
                self.note_outage(batch, &results);
                for (write, result) in writes.drain(..results.len()).zip(results) {
                    // The caller may have stopped waiting.
                    let _ = write.reply.send(result);
                }
            }
        }
    }

    /// Commits a batch, and returns the result of each write.
    fn commit(&mut self, batch: &[Write]) -> Results {
        if let Some(reason) = self.poison.reason() {
            return all(batch, &Error::Poisoned { reason: reason.to_owned() });
        }
        self.is_read_only = false;
        let results = match self.together(batch) {
            Err(BatchFailure::Isolate) => self.isolated(batch),
            other => other,
        };
        match results {
            Ok(results) => {
                self.checkpoint_if_due();
                if batch.iter().any(|write| matches!(write.work, WriteOp::Vacuum)) {
                    // The file becomes shorter with the next checkpoint, for which an idle daemon would wait long.
                    self.checkpointer.wake();
                }
                self.measure_if_due(batch);
                results
            }
            Err(BatchFailure::Isolate) => {
                all(batch, &Error::Write { reason: "the transaction was rolled back".to_owned() })
            }
            Err(BatchFailure::All(error)) => {
                if matches!(error, Error::Full) {
                    // After a full checkpoint the log is overwritten from its start, which needs no space. If the
                    // checkpoint finds no space either, the next successful commit tries it again.
                    self.checkpointer.checkpoint_here(self.connection, self.poison);
                    self.schedule = Schedule::new();
                }
                all(batch, &error)
            }
        }
    }

    /// Executes all writes without savepoints. A refused write wrote nothing, so it does not affect the others.
    fn together(&mut self, batch: &[Write]) -> Result<Results, BatchFailure> {
        self.begin()?;
        let mut results = Vec::with_capacity(batch.len());
        for item in batch {
            match self.write(item) {
                Ok(done) => results.push(Ok(done)),
                Err(WriteError::Refused(error)) => results.push(Err(error)),
                Err(WriteError::Undo(_)) => {
                    self.roll_back();
                    return Err(BatchFailure::Isolate);
                }
                Err(WriteError::Sqlite(error)) => return Err(self.fail(&error)),
            }
        }
        self.end(batch)?;
        Ok(results)
    }

    /// Like [`Self::together`], but with a savepoint around each write, so that a failed one does not affect the others.
    fn isolated(&mut self, batch: &[Write]) -> Result<Results, BatchFailure> {
        self.begin()?;
        let mut results = Vec::with_capacity(batch.len());
        for item in batch {
            let uses = self.uses.clone();
            self.run("SAVEPOINT one")?;
            let error = match self.write(item) {
                Ok(done) => {
                    results.push(Ok(done));
                    self.run("RELEASE one")?;
                    continue;
                }
                Err(WriteError::Refused(error) | WriteError::Undo(error)) => error,
                Err(WriteError::Sqlite(error)) => match classify(&error) {
                    // It would fail again whenever it is sent.
                    ErrorClass::Other if !self.connection.is_autocommit() => {
                        Error::Invalid { reason: error.to_string() }
                    }
                    _ => return Err(self.fail(&error)),
                },
            };
            self.run("ROLLBACK TO one")?;
            self.run("RELEASE one")?;
            self.uses = uses;
            results.push(Err(error));
        }
        self.end(batch)?;
        Ok(results)
    }

    fn write(&mut self, item: &Write) -> Result<WriteResult, WriteError> {
        write::write(self.connection, &mut self.statements, &mut self.uses, self.folder, &item.work)
    }

    fn begin(&mut self) -> Result<(), BatchFailure> {
        self.uses.clear();
        self.statements.begin.execute([]).map(drop).map_err(|error| self.fail(&error))
    }

    fn run(&mut self, sql: &str) -> Result<(), BatchFailure> {
        self.connection.execute_batch(sql).map_err(|error| self.fail(&error))
    }

    /// Commits the transaction. No caller gets a result before it.
    fn end(&mut self, batch: &[Write]) -> Result<(), BatchFailure> {
        write::write_uses(&mut self.statements, &mut self.uses).map_err(|error| self.fail(&error))?;
        let started = Instant::now();
        let committed =
            self.reach(Failpoint::BeforeCommit).and_then(|()| self.statements.commit.execute([]).map(drop));
        let Err(error) = committed.and_then(|()| self.reach(Failpoint::AfterCommit)) else {
            let bytes = batch.iter().map(|item| item.work.bytes()).sum();
            self.counters.committed(batch.len(), bytes, started.elapsed());
            return Ok(());
        };
        match classify(&error) {
            // The frame that marks a commit is the last one it writes. If it found no space, there is no commit, and the
            // next one overwrites the other frames.
            ErrorClass::Full | ErrorClass::Busy => Err(self.fail(&error)),
            ErrorClass::ReadOnly | ErrorClass::Refused | ErrorClass::Fatal | ErrorClass::Other => {
                Err(self.poisoned("commit", &error))
            }
        }
    }

    /// Injects the fault of a test at this boundary. A failed commit finds no space if it was not made; its outcome is unknown
    /// if it was made, or if the test asks for that.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test delays the writer, which has no other event to wait for"
    )]
    fn reach(&self, boundary: Failpoint) -> rusqlite::Result<()> {
        match self.failpoints.at(boundary) {
            None => Ok(()),
            Some(FailpointAction::Abort) => std::process::abort(),
            Some(FailpointAction::Error) if boundary == Failpoint::BeforeCommit => {
                Err(error_map::failure(ffi::SQLITE_FULL))
            }
            Some(FailpointAction::Error | FailpointAction::UnknownOutcome) => {
                Err(error_map::failure(ffi::SQLITE_IOERR_FSYNC))
            }
            Some(FailpointAction::Delay(time)) => {
                std::thread::sleep(time);
                Ok(())
            }
        }
    }

    /// Rolls the transaction back after an error, and classifies the error.
    fn fail(&mut self, error: &rusqlite::Error) -> BatchFailure {
        let class = classify(error);
        let meaning = match class {
            ErrorClass::Fatal => return self.poisoned("write", error),
            ErrorClass::Full => BatchFailure::All(Error::Full),
            ErrorClass::Busy => BatchFailure::All(Error::Busy),
            ErrorClass::ReadOnly | ErrorClass::Refused => {
                BatchFailure::All(Error::Write { reason: error_map::describe(error) })
            }
            ErrorClass::Other => BatchFailure::Isolate,
        };
        self.is_read_only = class == ErrorClass::ReadOnly;
        self.roll_back();
        match self.poison.reason() {
            Some(reason) => BatchFailure::All(Error::Commit { reason: reason.to_owned() }),
            None => meaning,
        }
    }

    fn poisoned(&mut self, during: &str, error: &rusqlite::Error) -> BatchFailure {
        let reason = format!("{during}: {}", error_map::describe(error));
        self.poison.set(&reason);
        self.roll_back();
        BatchFailure::All(Error::Commit { reason })
    }

    fn roll_back(&mut self) {
        // SQLite may have rolled back by itself.
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            self.poison.set(&format!("rollback: {}", error_map::describe(&error)));
        }
    }

    fn measure_if_due(&mut self, batch: &[Write]) {
        if self.usage.most().is_none() {
            return;
        }
        let bytes = batch.iter().map(|item| item.work.bytes()).sum();
        let at_once = batch.iter().any(|item| item.work.concerns_blobs());
        if let Err(error) = self.usage.after(&mut self.since, bytes, at_once, self.connection) {
            // The limit of the file still applies.
            tracing::warn!(%error, "the store's size cannot be measured");
        }
    }

    /// Notes the beginning or the end of an outage from the results of a batch. Writes that were refused for their content say nothing.
    fn note_outage(&mut self, batch: &[Write], results: &Results) {
        if self.poison.reason().is_some() {
            return self.probe.stop();
        }
        match verdict(results, self.is_read_only) {
            Some(Ok(())) => self.probe.succeeded(self.outages),
            Some(Err((kind, reason))) => {
                let bytes = batch.iter().map(|item| item.work.bytes()).sum();
                self.probe.failed(self.outages, kind, &reason, bytes);
            }
            None => {}
        }
    }

    /// Writes as many bytes as the last batch that was refused, and deletes them: nobody may send writes during an outage.
    fn probe(&mut self) {
        if self.poison.reason().is_some() {
            // The checkpointer may have found the failure meanwhile.
            return self.probe.stop();
        }
        if !self.probe.is_due() {
            return;
        }
        let probed = self.reach(Failpoint::BeforeCommit).and_then(|()| self.probe.run(self.connection));
        let Err(error) = probed else { return self.probe.succeeded(self.outages) };
        let failure = match self.fail(&error) {
            BatchFailure::All(error) => error,
            BatchFailure::Isolate => Error::Write { reason: error_map::describe(&error) },
        };
        match error_map::outage_kind(&failure, self.is_read_only) {
            Some(kind) => self.probe.failed(self.outages, kind, &failure.to_string(), 0),
            None => self.probe.stop(),
        }
    }

    fn checkpoint_if_due(&mut self) {
        match self.schedule.after_commit(self.pages.load(Ordering::Relaxed)) {
            Due::Nothing => {}
            Due::Wake => self.checkpointer.wake(),
            Due::Now => self.checkpointer.checkpoint_here(self.connection, self.poison),
        }
    }
}

/// Returns what the results of a batch say about the file: it takes writes, or has an outage of this kind for this reason. `None` if all
/// writes were refused for their content.
fn verdict(results: &Results, is_read_only: bool) -> Option<Result<(), (OutageKind, String)>> {
    let failed = results.iter().filter_map(|result| result.as_ref().err()).find_map(|error| {
        let kind = error_map::outage_kind(error, is_read_only)?;
        Some((kind, error.to_string()))
    });
    match failed {
        Some(failed) => Some(Err(failed)),
        None => results.iter().any(Result::is_ok).then_some(Ok(())),
    }
}

/// Returns the number of writes for the next transaction: at least one, and about [`BATCH_BYTES`].
fn batch_length(writes: &[Write]) -> usize {
    let mut bytes = 0;
    let fits = |write: &&Write| {
        bytes += write.work.bytes();
        bytes <= BATCH_BYTES
    };
    writes.iter().take(BATCH_WRITES).take_while(fits).count().max(1)
}

fn all(batch: &[Write], error: &Error) -> Results {
    batch.iter().map(|_| Err(error.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stored_write_proves_that_the_file_is_writable() {
        let invalid = || Err(Error::Invalid { reason: "too long".to_owned() });
        let kind = |results: Results| verdict(&results, false).map(|said| said.map_err(|(kind, _)| kind));
        assert_eq!(kind(vec![invalid()]), None, "its transaction was empty");
        assert_eq!(kind(vec![invalid(), Ok(WriteResult::Nothing)]), Some(Ok(())));
        assert_eq!(kind(vec![invalid(), Err(Error::Full)]), Some(Err(OutageKind::Full)));
        assert_eq!(kind(vec![Err(Error::Poisoned { reason: String::new() })]), None);
    }
}
