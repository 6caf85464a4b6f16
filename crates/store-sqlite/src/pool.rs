//! Pool of reading connections. Each serves one caller at a time, on a thread for blocking work.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::Semaphore;

use super::settings;
use store::Error;
use store::poison::Poison;

/// The number of concurrent reads. It is small since reads are quick, and each connection has a cache of its own.
const READERS: u32 = 3;

/// The reading connections.
#[derive(Debug)]
pub(super) struct Pool {
    file: PathBuf,
    turns: Arc<Semaphore>,
    /// The unused connections. They are opened on demand.
    idle: Mutex<Vec<Connection>>,
    /// Set if a read finds the file damaged.
    poison: Poison,
}

impl Pool {
    /// Creates a pool of connections to this file.
    pub(super) fn new(file: PathBuf, poison: Poison) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(READERS as usize));
        Arc::new(Self { file, turns, idle: Mutex::default(), poison })
    }

    /// Waits for a free connection, and runs `query` with it on a thread for blocking work.
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
            // In this order, else the next reader could find no idle connection and open another one.
            pool.give(connection);
            drop(turn);
            result
        });
        let read = reading.await.map_err(|error| Error::Read { reason: error.to_string() })?;
        read.inspect_err(|error| {
            if let Error::DatabaseDamaged { detail } = error {
                self.poison.set(&format!("the database file is damaged: {detail}"));
            }
        })
    }

    /// Waits for running reads, then closes all connections. Later reads return [`Error::Closed`].
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
        // A panic cannot leave the list inconsistent.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts the error of a query.
pub(super) fn read_error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::DatabaseDamaged { detail: error.to_string() }
        }
        Some(_) => Error::Read { reason: error.to_string() },
        // A column with an unexpected type or value.
        None => Error::RecordDamaged { detail: error.to_string() },
    }
}
