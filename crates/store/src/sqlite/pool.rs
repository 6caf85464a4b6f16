//! A few connections that read, each used by one caller at a time, off the runtime's threads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::Semaphore;

use super::poison::Poison;
use super::settings;
use crate::Error;

/// How many reads run at once; the others wait their turn. Reading is quick, and each connection has a cache.
const READERS: u32 = 3;

/// Connections that read.
#[derive(Debug)]
pub(super) struct Pool {
    file: PathBuf,
    turns: Arc<Semaphore>,
    /// Those not in use; opened when first needed.
    idle: Mutex<Vec<Connection>>,
    /// Set where a read finds the file damaged.
    poison: Poison,
}

impl Pool {
    /// A pool over this file.
    pub(super) fn new(file: PathBuf, poison: Poison) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(READERS as usize));
        Arc::new(Self { file, turns, idle: Mutex::default(), poison })
    }

    /// Waits for a turn, and runs `query` on a thread where it may block.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let pool = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let mut connection = match pool.take() {
                Some(connection) => connection,
                None => settings::open_reader(&pool.file)?,
            };
            let result = query(&mut connection);
            // In this order, or whoever has the next turn could find none idle and open one more.
            pool.give(connection);
            drop(turn);
            result
        });
        let read = reading.await.map_err(|error| Error::Read { reason: error.to_string() })?;
        read.inspect_err(|error| {
            if let Error::Damaged { what } = error {
                self.poison.set(&format!("the database file is damaged: {what}"));
            }
        })
    }

    /// Waits for the reads under way, and closes all connections: later reads give [`Error::Closed`].
    pub(super) async fn close(&self) {
        let all = self.turns.acquire_many(READERS).await;
        self.turns.close();
        drop(all);
        self.lock().clear();
    }

    fn take(&self) -> Option<Connection> {
        self.lock().pop()
    }

    fn give(&self, connection: Connection) {
        self.lock().push(connection);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        // A list of connections is whole whatever happened while it was locked.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a failed query says.
pub(super) fn read_error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Damaged { what: error.to_string() }
        }
        Some(_) => Error::Read { reason: error.to_string() },
        // A column that does not hold what it should.
        None => Error::Corrupt { what: error.to_string() },
    }
}
