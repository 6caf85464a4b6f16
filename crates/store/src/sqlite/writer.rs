//! The one thread that writes. It takes all that has queued up, writes it in one transaction, commits with one
//! sync, and only then answers. No delay is added: while one batch is synced, the next queues up.

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
use super::checkpoint::{self, Checkpointer, Due, Said, Schedule};
use super::counters::Counters;
use super::encode::Done;
use super::gauge::{Gauge, Since};
use super::place::Lock;
use super::poison::Poison;
use super::queue::{Receiver, Write};
use super::readahead::Readahead;
use super::statements::Statements;
use super::trouble::{self, Kind, kind};
use super::write::{self, Fault, Uses};
use crate::Error;

/// The most writes of one transaction.
const BATCH_WRITES: usize = 512;

/// About the most bytes of one transaction.
const BATCH_BYTES: usize = 8 << 20;

/// How long closing waits for other programs that read, so that the log can be emptied.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// All that the writer's thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) receiver: Receiver,
    pub(super) checkpointer: Checkpointer,
    pub(super) readahead: Readahead,
    pub(super) poison: Poison,
    pub(super) counters: Counters,
    pub(super) folder: Arc<Folder>,
    pub(super) gauge: Gauge,
    pub(super) lock: Lock,
    pub(super) mishaps: Failpoints,
}

/// What came of each write of a batch, in order.
type Results = Vec<Result<Done, Error>>;

/// Why a whole transaction came to nothing.
enum Setback {
    /// One write of it failed: they are to be tried again, each by itself.
    Isolate,
    /// This holds for all of them.
    All(Error),
}

impl Writer {
    /// Starts the thread, which ends when it is told to close or nobody can write to it any more.
    pub(super) fn start(self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || self.run())
    }

    fn run(mut self) {
        let pages = Arc::new(AtomicU32::new(0));
        if let Err(error) = checkpoint::count_pages(&mut self.connection, pages.clone()) {
            self.poison.set(&trouble::told(&error));
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
                    counters: &self.counters,
                    folder: &self.folder,
                    gauge: &self.gauge,
                    since: Since::default(),
                    mishaps: &self.mishaps,
                };
                session.serve(&self.receiver, &mut closers);
            }
            Err(error) => self.poison.set(&trouble::told(&error)),
        }
        // In this order: once the callers of `close` are told, the file and the lock are free.
        self.checkpointer.stop();
        close(self.connection, &self.poison);
        drop(self.lock);
        for closer in closers {
            let _ = closer.send(());
        }
    }
}

/// Empties the log and closes the file. A store that may be damaged is left as it is.
fn close(connection: Connection, poison: &Poison) {
    if poison.reason().is_none() {
        // Without it the log would only be longer.
        let _ = connection.busy_timeout(CLOSE_TIMEOUT);
        checkpoint::checkpoint(&connection, CheckpointMode::TRUNCATE, poison, &mut Said::default());
    } else if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::warn!(%error, "the store's log may be copied on closing");
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the store's file was not closed cleanly");
    }
}

/// The writer at work.
struct Session<'writer> {
    connection: &'writer Connection,
    statements: Statements<'writer>,
    uses: Uses,
    checkpointer: &'writer Checkpointer,
    schedule: Schedule,
    readahead: &'writer mut Readahead,
    pages: Arc<AtomicU32>,
    poison: &'writer Poison,
    counters: &'writer Counters,
    folder: &'writer Folder,
    gauge: &'writer Gauge,
    since: Since,
    mishaps: &'writer Failpoints,
}

impl Session<'_> {
    fn serve(&mut self, receiver: &Receiver, closers: &mut Vec<oneshot::Sender<()>>) {
        let mut writes = Vec::new();
        while receiver.receive(&mut writes, closers) {
            while !writes.is_empty() {
                self.readahead.before_commit(self.pages.load(Ordering::Relaxed));
                let results = self.commit(&writes[..batch_length(&writes)]);
                for (write, result) in writes.drain(..results.len()).zip(results) {
                    // Whoever waits no longer does not need the answer.
                    let _ = write.reply.send(result);
                }
            }
        }
    }

    /// Writes a batch, and gives what came of each write.
    fn commit(&mut self, batch: &[Write]) -> Results {
        if let Some(reason) = self.poison.reason() {
            return all(batch, &Error::Poisoned { reason: reason.to_owned() });
        }
        let results = match self.together(batch) {
            Err(Setback::Isolate) => self.apart(batch),
            other => other,
        };
        match results {
            Ok(results) => {
                self.checkpoint_if_due();
                self.measure_if_due(batch);
                results
            }
            Err(Setback::Isolate) => {
                all(batch, &Error::Write { reason: "the transaction was undone".to_owned() })
            }
            Err(Setback::All(error)) => {
                if matches!(error, Error::Full) {
                    // Once all of the log is in the file it is written over from its start, which takes no space. If
                    // not even that finds room now, it is tried again after the next commit that does.
                    self.checkpointer.checkpoint_here(self.connection, self.poison);
                    self.schedule = Schedule::new();
                }
                all(batch, &error)
            }
        }
    }

    /// All writes in one go. One that is refused wrote nothing, so the others need not know.
    fn together(&mut self, batch: &[Write]) -> Result<Results, Setback> {
        self.begin()?;
        let mut results = Vec::with_capacity(batch.len());
        for item in batch {
            match self.write(item) {
                Ok(done) => results.push(Ok(done)),
                Err(Fault::Refused(error)) => results.push(Err(error)),
                Err(Fault::Undo(_)) => {
                    self.roll_back();
                    return Err(Setback::Isolate);
                }
                Err(Fault::Sqlite(error)) => return Err(self.setback(&error)),
            }
        }
        self.end(batch.len())?;
        Ok(results)
    }

    /// As [`Self::together`], but with a savepoint around each write, so that one that fails takes no other along.
    fn apart(&mut self, batch: &[Write]) -> Result<Results, Setback> {
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
                Err(Fault::Refused(error) | Fault::Undo(error)) => error,
                Err(Fault::Sqlite(error)) => match kind(&error) {
                    Kind::Other if !self.connection.is_autocommit() => {
                        Error::Write { reason: error.to_string() }
                    }
                    _ => return Err(self.setback(&error)),
                },
            };
            self.run("ROLLBACK TO one")?;
            self.run("RELEASE one")?;
            self.uses = uses;
            results.push(Err(error));
        }
        self.end(batch.len())?;
        Ok(results)
    }

    fn write(&mut self, item: &Write) -> Result<Done, Fault> {
        write::write(self.connection, &mut self.statements, &mut self.uses, self.folder, &item.work)
    }

    fn begin(&mut self) -> Result<(), Setback> {
        self.uses.clear();
        self.statements.begin.execute([]).map(drop).map_err(|error| self.setback(&error))
    }

    fn run(&mut self, sql: &str) -> Result<(), Setback> {
        self.connection.execute_batch(sql).map_err(|error| self.setback(&error))
    }

    /// Commits. Only after it may anybody be told.
    fn end(&mut self, writes: usize) -> Result<(), Setback> {
        write::write_uses(&mut self.statements, &mut self.uses).map_err(|error| self.setback(&error))?;
        let started = Instant::now();
        let committed =
            self.reach(Failpoint::BeforeCommit).and_then(|()| self.statements.commit.execute([]).map(drop));
        let Err(error) = committed.and_then(|()| self.reach(Failpoint::AfterCommit)) else {
            self.counters.committed(writes, started.elapsed());
            return Ok(());
        };
        match kind(&error) {
            // A frame that marks a commit is the last that a commit writes, so where it found no room there is
            // none; the next commit writes over whatever came before it.
            Kind::Full | Kind::Busy => Err(self.setback(&error)),
            Kind::Fatal | Kind::Other => Err(self.poisoned("commit", &error)),
        }
    }

    /// What a test lets go wrong at this boundary: a commit that is not made finds no room, unless it is to be in doubt as one
    /// is that was made.
    #[expect(clippy::disallowed_methods, reason = "nothing comes that could be waited for")]
    fn reach(&self, boundary: Failpoint) -> rusqlite::Result<()> {
        match self.mishaps.at(boundary) {
            None => Ok(()),
            Some(FailpointAction::Abort) => std::process::abort(),
            Some(FailpointAction::Error) if boundary == Failpoint::BeforeCommit => {
                Err(trouble::failure(ffi::SQLITE_FULL))
            }
            Some(FailpointAction::Error | FailpointAction::Doubt) => {
                Err(trouble::failure(ffi::SQLITE_IOERR_FSYNC))
            }
            Some(FailpointAction::Delay(time)) => {
                std::thread::sleep(time);
                Ok(())
            }
        }
    }

    /// Undoes the transaction after an error, and says what that means.
    fn setback(&mut self, error: &rusqlite::Error) -> Setback {
        let meaning = match kind(error) {
            Kind::Fatal => return self.poisoned("write", error),
            Kind::Full => Setback::All(Error::Full),
            Kind::Busy => Setback::All(Error::Busy),
            Kind::Other => Setback::Isolate,
        };
        self.roll_back();
        match self.poison.reason() {
            Some(reason) => Setback::All(Error::Commit { reason: reason.to_owned() }),
            None => meaning,
        }
    }

    fn poisoned(&mut self, during: &str, error: &rusqlite::Error) -> Setback {
        let reason = format!("{during}: {}", trouble::told(error));
        self.poison.set(&reason);
        self.roll_back();
        Setback::All(Error::Commit { reason })
    }

    fn roll_back(&mut self) {
        // SQLite may have done so itself.
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            self.poison.set(&format!("rollback: {}", trouble::told(&error)));
        }
    }

    fn measure_if_due(&mut self, batch: &[Write]) {
        if self.gauge.most().is_none() {
            return;
        }
        let bytes = batch.iter().map(|item| item.work.bytes()).sum();
        let at_once = batch.iter().any(|item| item.work.concerns_blobs());
        if let Err(error) = self.gauge.after(&mut self.since, bytes, at_once, self.connection) {
            // The limit of the file holds all the same.
            tracing::warn!(%error, "the store's size cannot be measured");
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

/// How many of the writes go into the next transaction: at least one, and about so many bytes.
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
