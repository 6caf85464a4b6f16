//! Reads, on a pool of connections.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, Object, Pool, PoolError, RecycleResult, TimeoutType};
use deadpool_postgres::{ClientWrapper, ManagerConfig, RecyclingMethod};
use model::Backoff;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::access::{Access, Late, Lost, PID};
use super::connect::{is_lost, message, read_error};
use super::op::{Params, borrowed};
use store::outage::{Outages, Source};
use store::poison::Poison;
use store::{Error, OutageKind};

/// The number of connections that read.
const READERS: usize = 4;
/// The time after which a read gives up while the database does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time for one statement.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '60s'; SET jit = off";
/// The time after which a connection is given up while the server cannot be asked if it works on the read.
const NO_ANSWER: Duration = Duration::from_secs(10);
/// The pauses between attempts.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// The time that queued writes get when the store is closed while the database does not answer.
const CLOSING: Duration = Duration::from_secs(10);

/// The state of a store that closes.
#[derive(Clone, Debug, Default)]
pub(super) struct Closing(Arc<OnceLock<Instant>>);

impl Closing {
    /// Notes that the store closes: lanes no longer wait for the database without end.
    pub(super) fn begin(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Returns true if the store has been closing for longer than queued writes may take.
    pub(super) fn is_over(&self) -> bool {
        self.0.get().is_some_and(|since| since.elapsed() >= CLOSING)
    }
}

/// The connections that read. Every read runs on the thread of the store.
#[derive(Clone)]
pub(super) struct Reader {
    pool: Pool<Connections>,
    access: Access,
    handle: Handle,
    poison: Poison,
    outages: Outages,
    /// The number of reads that the database does not answer at the moment.
    failing: Arc<AtomicUsize>,
}

/// A read that the database does not answer, until it is dropped.
struct Failing(Arc<AtomicUsize>);

impl Failing {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens the connections of the pool.
struct Connections {
    inner: deadpool_postgres::Manager,
    /// The statements that begin a session.
    session: String,
}

/// A connection of the pool.
struct Connected {
    client: ClientWrapper,
    /// The process of the server.
    pid: i32,
}

impl managed::Manager for Connections {
    type Type = Connected;
    type Error = tokio_postgres::Error;

    async fn create(&self) -> Result<Connected, Self::Error> {
        let client = self.inner.create().await?;
        client.batch_execute(&self.session).await?;
        let pid = client.query_one(PID, &[]).await?.try_get(0)?;
        Ok(Connected { client, pid })
    }

    async fn recycle(&self, connected: &mut Connected, metrics: &Metrics) -> RecycleResult<Self::Error> {
        self.inner.recycle(&mut connected.client, metrics).await
    }

    fn detach(&self, connected: &mut Connected) {
        self.inner.detach(&mut connected.client);
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    /// Creates the pool; it connects when it is used. `handle` is of the runtime of the store.
    pub(super) fn new(
        access: Access,
        handle: Handle,
        (poison, outages): (Poison, Outages),
        is_read_only: bool,
    ) -> Result<Self, Error> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let Access { config, encryption } = access.clone();
        let inner = deadpool_postgres::Manager::from_config(config, encryption, recycling);
        let read_only = if is_read_only { "; SET default_transaction_read_only = on" } else { "" };
        let session = format!("{STATEMENT_TIMEOUT}{read_only}");
        let pool = Pool::builder(Connections { inner, session })
            .max_size(READERS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .build()
            .map_err(|error| Error::Read { reason: error.to_string() })?;
        Ok(Self { pool, access, handle, poison, outages, failing: Arc::default() })
    }

    /// Runs a query and returns its rows. Tries again while the database does not answer.
    pub(super) async fn rows(
        &self,
        sql: impl Into<Cow<'static, str>>,
        params: Params,
    ) -> Result<Vec<Row>, Error> {
        let (sql, reader) = (sql.into(), self.clone());
        let read = self.handle.spawn(async move { reader.retry(&sql, &params).await });
        read.await.map_err(|_| Error::Closed)?.inspect_err(|error| {
            if let Error::DatabaseDamaged { detail } = error {
                self.poison.set(detail);
            }
        })
    }

    /// Runs a query that returns at most one row.
    pub(super) async fn row(
        &self,
        sql: impl Into<Cow<'static, str>>,
        params: Params,
    ) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    async fn retry(&self, sql: &str, params: &Params) -> Result<Vec<Row>, Error> {
        let begun = Instant::now();
        let mut pauses = PAUSES;
        let mut failing = None;
        loop {
            let reason = match self.once(sql, params).await {
                Ok(rows) => {
                    self.outages.end(Source::Reader);
                    return Ok(rows);
                }
                Err(PoolError::Backend(error)) if is_lost(&error) => message(&error),
                Err(PoolError::Backend(error)) => return Err(read_error(&error)),
                Err(PoolError::Closed) => return Err(Error::Closed),
                Err(PoolError::Timeout(TimeoutType::Recycle)) => "the answer to a read is lost".to_owned(),
                Err(PoolError::Timeout(_)) => {
                    let reason = "all connections that read are in use".to_owned();
                    return Err(Error::Unreachable { reason });
                }
                Err(error) => return Err(Error::Read { reason: error.to_string() }),
            };
            if !pauses.is_fresh() {
                // The first failure can be that of a connection that was lost while nobody used it.
                failing.get_or_insert_with(|| Failing::begin(&self.failing));
                self.outages.begin(Source::Reader, OutageKind::Unreachable, &reason, begun.into_std());
            }
            let pause = pauses.pause();
            if begun.elapsed() + pause > PATIENCE {
                return Err(Error::Unreachable { reason });
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, sql: &str, params: &Params) -> Result<Vec<Row>, PoolError<tokio_postgres::Error>> {
        let connected = self.pool.get().await?;
        let read = async {
            let statement = connected.client.prepare_cached(sql).await?;
            connected.client.query(&statement, &borrowed(params)).await
        };
        let late = |late, begun: Instant| match late {
            Late::Unreachable(_) if begun.elapsed() >= NO_ANSWER => Err(Lost),
            _ => Ok(()),
        };
        match self.access.watch(connected.pid, read, late).await {
            Ok(rows) => Ok(rows?),
            Err(Lost) => {
                // Something on the way swallows its answers.
                drop(Object::take(connected));
                Err(PoolError::Timeout(TimeoutType::Recycle))
            }
        }
    }

    /// Runs a query from a thread that may block, and waits for its rows. Not for threads of the store.
    pub(super) fn rows_blocking(&self, sql: &'static str, params: Params) -> Result<Vec<Row>, Error> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        let reader = self.clone();
        self.handle.spawn(async move { drop(send.send(reader.retry(sql, &params).await)) });
        store::codec::in_place(|| receive.recv()).map_err(|_| Error::Closed)?
    }

    /// Returns true if the database does not answer a read at the moment.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed) > 0
    }

    /// Closes the connections. Later reads return [`Error::Closed`].
    pub(super) fn close(&self) {
        self.pool.close();
    }
}

/// Returns a column of a row.
pub(super) fn get<'row, T: tokio_postgres::types::FromSql<'row>>(
    row: &'row Row,
    index: usize,
) -> Result<T, Error> {
    row.try_get(index).map_err(|error| Error::Read { reason: error.to_string() })
}

/// Returns a column of bytes that are text.
pub(super) fn text(row: &Row, index: usize) -> Result<String, Error> {
    optional_text(row, index)?.ok_or_else(|| damaged("a text is missing".to_owned()))
}

/// Returns a column of bytes that are text, or NULL.
pub(super) fn optional_text(row: &Row, index: usize) -> Result<Option<String>, Error> {
    let bytes: Option<Vec<u8>> = get(row, index)?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|error| damaged(format!("a text is not UTF-8: {error}")))
}

/// Creates the error for content that no store writes.
pub(super) fn damaged(detail: String) -> Error {
    Error::RecordDamaged { detail }
}
