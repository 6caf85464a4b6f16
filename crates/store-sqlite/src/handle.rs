//! The handle: opening, closing, and the methods of the traits, each in a line or two.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use jiff::Timestamp;
use model::automation::{Level, TriggerKey};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine};
use rusqlite::Connection;
use tokio::sync::{Mutex, watch};
use value::{FileStorage, MemoryFiles};

use super::blobs::{BlobFiles, Externalizer, Folder};
use super::checkpoint::Checkpointer;
use super::encode::{SecretKey, WriteOp, WriteResult};
use super::paths::StorePaths;
use super::pool::Pool;
use super::queue::{Queue, queue};
use super::readahead::Readahead;
use super::schema::{self, SCHEMA};
use super::settings;
use super::usage::{self, Usage};
use super::writer::Writer;
use super::{check, dedup, migration, outbox, polls, pool, prune, read, replay, state, waits};
use store::codec::{CutEvents, HistoryBytes, HistoryRow, LargeTexts, TextRoom};
use store::counters::Counters;
use store::outage::Outages;
use store::poison::Poison;
use store::{
    Accept, AcceptOutcome, Address, Append, Capacity, DedupHit, Definition, DefinitionUse, EventWaiter,
    ExecutionFilter, ExecutionRow, Info, Metrics, OutboxCount, OutboxRow, Page, PollEntry, PollState,
    PollWrite, PruneFilter, ReplayLog, StateEntry, StateRow, StateWrite, Subscription, SuspendedExecution,
    Wait, Watermark,
};
use store::{
    DefinitionStore, ExecutionStore, GenerationStore, MaintenanceStore, OutboxStore, PeerStore, SecretStore,
    SharedTriggerStore, StateStore, Store, TriggerStore, WaitStore,
};
use store::{Durability, Error, Options, Outage};

/// A cheap handle to a store in one SQLite file. Dropping the last handle commits the queued writes and closes the file;
/// [`Store::close`] does the same without blocking a thread.
#[derive(Clone, Debug)]
struct SqliteStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    weakened: Vec<String>,
    pool: Arc<Pool>,
    folder: Arc<Folder>,
    externalizer: Externalizer,
    large_texts: LargeTexts,
    usage: Usage,
    /// `None` if the store is open only for reading.
    queue: Option<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Counters,
    poison: Poison,
    outages: Outages,
}

/// Opens the store at `path`, a database file or its folder. Creates it if it is missing, and migrates its tables to the
/// current version. Blocks for some milliseconds.
///
/// # Errors
/// Another process has the store open, the file system is not reliable, the path holds something else, a later release wrote
/// the store, or the system refuses.
pub fn open(path: &Path, options: Options) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(SqliteStore::open(path, options)?))
}

/// Opens the store at `path` only for reading; a daemon may have it open. Writes return [`Error::ReadOnly`].
///
/// # Errors
/// There is no store, the file system is not reliable, or another release wrote its tables.
pub fn open_read_only(path: &Path) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(SqliteStore::open_read_only(path)?))
}

impl SqliteStore {
    fn open(path: &Path, options: Options) -> Result<Self, Error> {
        settings::check_version(rusqlite::version_number(), rusqlite::version())?;
        let paths = StorePaths::new(path);
        paths.make_directory()?;
        let mut weakened: Vec<String> = paths.check_file_system()?.into_iter().collect();
        if options.durability == Durability::Relaxed {
            weakened.push("durability is relaxed: a loss of power may take the last writes along".to_owned());
        }
        let mut lock = paths.lock()?;
        paths.check_before_opening()?;
        paths.make_locked_file(&mut lock)?;
        let connection = open_file(&paths, &options).map_err(|error| paths.refine_error(error))?;
        let (poison, counters, outages) = (Poison::default(), Counters::default(), Outages::default());
        let checkpointer = Checkpointer::start(&paths.file, &options, poison.clone())?;
        let usage = Usage::new(options.max_bytes);
        let opened = |reason: String| Error::Open { path: paths.file.clone(), reason };
        usage.measure(&connection).map_err(|error| settings::open_error(&paths.file, &error))?;
        let folder = Arc::new(Folder::new(&paths, usage.clone()));
        folder.take_over().map_err(|error| opened(error.to_string()))?;
        let externalizer = Externalizer::new(folder.clone(), options.blob_bytes);
        let (queue, receiver) = queue();
        let writer = Writer {
            connection,
            receiver,
            checkpointer,
            readahead: Readahead::new(&paths.file),
            poison: poison.clone(),
            outages: outages.clone(),
            counters: counters.clone(),
            folder: folder.clone(),
            usage: usage.clone(),
            lock,
            failpoints: options.failpoints,
        };
        let thread = writer
            .start()
            .map_err(|error| Error::Open { path: paths.file.clone(), reason: error.to_string() })?;
        let (pool, thread) = (Pool::new(paths.file.clone(), poison.clone()), Mutex::new(Some(thread)));
        Ok(Self(Arc::new(Inner {
            file: paths.file,
            weakened,
            pool,
            folder,
            externalizer,
            large_texts: LargeTexts::default(),
            usage,
            queue: Some(queue),
            thread,
            counters,
            poison,
            outages,
        })))
    }

    fn open_read_only(path: &Path) -> Result<Self, Error> {
        settings::check_version(rusqlite::version_number(), rusqlite::version())?;
        let paths = StorePaths::new(path);
        let weakened = paths.check_file_system()?.into_iter().collect();
        let connection = settings::open_reader(&paths.file)?;
        SCHEMA.check(&connection, &paths.file).map_err(|error| paths.refine_error(error))?;
        let (folder, poison) = (Arc::new(Folder::new(&paths, Usage::default())), Poison::default());
        Ok(Self(Arc::new(Inner {
            weakened,
            pool: Pool::new(paths.file.clone(), poison.clone()),
            externalizer: Externalizer::new(folder.clone(), usize::MAX),
            large_texts: LargeTexts::default(),
            folder,
            usage: Usage::default(),
            file: paths.file,
            queue: None,
            thread: Mutex::new(None),
            counters: Counters::default(),
            poison,
            outages: Outages::default(),
        })))
    }

    fn queue(&self) -> Result<&Queue, Error> {
        self.0.queue.as_ref().ok_or(Error::ReadOnly)
    }

    async fn write(&self, work: WriteOp) -> Result<WriteResult, Error> {
        self.queue()?.write(work).await
    }

    /// Like [`Self::write`], but moves large values into blobs. They are synced before the row that names them is queued.
    async fn encode_and_write(
        &self,
        encode: impl Fn(&mut TextRoom) -> Result<WriteOp, Error> + Send,
    ) -> Result<WriteResult, Error> {
        let (work, room) = self.0.large_texts.encode(encode).await?;
        let work = self.0.externalizer.cut(work).await.inspect_err(|error| {
            if let Error::Commit { reason } = error {
                self.0.poison.set(reason);
            }
        })?;
        // Its large values are in blobs by now.
        drop(room);
        self.write(work).await
    }
}

#[async_trait]
impl DefinitionStore for SqliteStore {
    async fn put_definition(&self, definition: Definition) -> Result<(), Error> {
        self.write(WriteOp::PutDefinition(definition)).await.map(drop)
    }

    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        self.0.pool.read(move |connection| read::definition(connection, hash)).await
    }

    async fn definitions(&self, automation: &AutomationId, limit: u32) -> Result<Vec<DefinitionUse>, Error> {
        let automation = automation.clone();
        self.0.pool.read(move |connection| read::definitions(connection, &automation, limit)).await
    }

    /// Does nothing: releases that know level 1 alone refuse the file for the version of its tables, which is 2 or higher.
    async fn raise_level(&self, _level: Level) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
impl ExecutionStore for SqliteStore {
    async fn accept(&self, accept: &Accept) -> Result<Vec<AcceptOutcome>, Error> {
        // A watermark alone needs no space.
        if !accept.executions.is_empty() && self.0.usage.capacity() == Capacity::Exhausted {
            return Err(Error::Full);
        }
        let large = self.0.externalizer.threshold();
        match self.encode_and_write(|room| WriteOp::accept(accept, large, room)).await? {
            WriteResult::Accepted(accepted) => Ok(accepted),
            _ => Ok(Vec::new()),
        }
    }

    async fn append(&self, append: &Append) -> Result<(), Error> {
        self.encode_and_write(|room| WriteOp::append(append, room)).await.map(drop)
    }

    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error> {
        let folder = self.0.folder.clone();
        self.0.pool.read(move |connection| replay::events(connection, &folder, id)).await
    }

    async fn events_cut(&self, id: ExecutionId, min: usize) -> Result<Option<CutEvents>, Error> {
        let folder = self.0.folder.clone();
        self.0.pool.read(move |connection| replay::events_cut(connection, &folder, id, min)).await
    }

    async fn history_row(&self, id: ExecutionId, first: u32) -> Result<Option<HistoryRow>, Error> {
        let folder = self.0.folder.clone();
        self.0.pool.read(move |connection| replay::row(connection, &folder, id, first)).await
    }

    async fn history_bytes(&self, id: ExecutionId) -> Result<HistoryBytes, Error> {
        self.0.pool.read(move |connection| replay::sizes(connection, id)).await
    }

    async fn replay_log(&self, id: ExecutionId) -> Result<Option<ReplayLog>, Error> {
        let folder = self.0.folder.clone();
        self.0.pool.read(move |connection| replay::log(connection, &folder, id)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.0.pool.read(move |connection| read::execution(connection, id)).await
    }

    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error> {
        let filter = filter.clone();
        self.0.pool.read(move |connection| read::executions(connection, &filter, page)).await
    }

    async fn count_executions(&self, filter: &ExecutionFilter, at_most: u32) -> Result<u32, Error> {
        let filter = filter.clone();
        self.0.pool.read(move |connection| read::count_executions(connection, &filter, at_most)).await
    }

    async fn logs(&self, id: ExecutionId, after: u32, limit: u32) -> Result<Vec<LogLine>, Error> {
        self.0.pool.read(move |connection| read::logs(connection, id, after, limit)).await
    }

    async fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<ExecutionRow>, Error> {
        self.0.pool.read(move |connection| read::unfinished(connection, after, limit)).await
    }

    async fn unfinished_count(&self) -> Result<u64, Error> {
        self.0.pool.read(|connection| read::unfinished_count(connection)).await
    }
}

#[async_trait]
impl WaitStore for SqliteStore {
    async fn list_suspended(
        &self,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<SuspendedExecution>, Error> {
        self.0.pool.read(move |connection| waits::list_suspended(connection, after, limit)).await
    }

    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
        self.0.pool.read(move |connection| waits::of_execution(connection, execution)).await
    }

    async fn event_paths(&self, name: &str) -> Result<Vec<String>, Error> {
        let name = name.to_owned();
        self.0.pool.read(move |connection| waits::event_paths(connection, &name)).await
    }

    async fn waiting_for_event(
        &self,
        name: &str,
        path: &str,
        value: Option<&str>,
        after: Option<EventWaiter>,
        limit: u32,
    ) -> Result<Vec<EventWaiter>, Error> {
        let (name, path, value) = (name.to_owned(), path.to_owned(), value.map(str::to_owned));
        let read = move |connection: &mut Connection| {
            waits::for_event(connection, &name, &path, value.as_deref(), after, limit)
        };
        self.0.pool.read(read).await
    }

    async fn waiting_for_child(&self, child: ExecutionId) -> Result<Option<(ExecutionId, String)>, Error> {
        self.0.pool.read(move |connection| waits::for_child(connection, child)).await
    }
}

#[async_trait]
impl StateStore for SqliteStore {
    async fn read_state(&self, scope: &str, key: &str) -> Result<Option<StateEntry>, Error> {
        Ok(self.read_states(scope, &[key.to_owned()]).await?.pop().flatten())
    }

    async fn read_states(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<StateEntry>>, Error> {
        let (scope, keys) = (scope.to_owned(), keys.to_vec());
        self.0.pool.read(move |connection| state::read(connection, &scope, &keys)).await
    }

    async fn list_state(&self, scope: &str, after: Option<&str>, limit: u32) -> Result<Vec<StateRow>, Error> {
        let (scope, after) = (scope.to_owned(), after.unwrap_or_default().to_owned());
        self.0.pool.read(move |connection| state::list(connection, &scope, &after, limit)).await
    }

    async fn write_state_and_emit(
        &self,
        writes: Vec<StateWrite>,
        emits: Vec<OutboxRow>,
    ) -> Result<(), Error> {
        self.write(WriteOp::write_state(&writes, emits)?).await.map(drop)
    }
}

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn outbox_page(
        &self,
        name: &str,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, Error> {
        let name = name.to_owned();
        self.0.pool.read(move |connection| outbox::page(connection, &name, after, limit)).await
    }

    async fn outbox_counts(&self) -> Result<Vec<OutboxCount>, Error> {
        self.0.pool.read(|connection| outbox::counts(connection)).await
    }
}

#[async_trait]
impl TriggerStore for SqliteStore {
    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        self.0.pool.read(|connection| read::addresses(connection)).await
    }

    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error> {
        self.write(WriteOp::PutAddresses(addresses)).await.map(drop)
    }

    async fn move_trigger(&self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, Error> {
        match self.write(WriteOp::MoveTrigger { from: from.clone(), to: to.clone() }).await? {
            WriteResult::Count(moved) => Ok(moved),
            _ => Ok(0),
        }
    }

    async fn watermarks(&self) -> Result<Vec<Watermark>, Error> {
        self.0.pool.read(|connection| read::watermarks(connection)).await
    }

    async fn poll_states(&self) -> Result<Vec<(TriggerKey, PollState)>, Error> {
        self.0.pool.read(|connection| polls::standings(connection)).await
    }

    async fn known_poll_keys(&self, trigger: &TriggerKey, keys: &[String]) -> Result<Vec<bool>, Error> {
        let (trigger, keys) = (trigger.clone(), keys.to_vec());
        self.0.pool.read(move |connection| polls::seen(connection, &trigger, &keys)).await
    }

    async fn poll_entries(&self, trigger: &TriggerKey, limit: u32) -> Result<Vec<PollEntry>, Error> {
        let (trigger, limit) = (trigger.clone(), limit.min(PollWrite::MAX_ENTRIES));
        self.0.pool.read(move |connection| polls::entries(connection, &trigger, limit)).await
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        self.0.pool.read(|connection| polls::subscriptions(connection)).await
    }

    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error> {
        self.write(WriteOp::put_subscription(subscription)?).await.map(drop)
    }

    async fn delete_subscription(&self, id: &str) -> Result<(), Error> {
        self.write(WriteOp::PutSubscription { id: id.to_owned(), kept: None }).await.map(drop)
    }

    async fn find_dedup(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<DedupHit>, Error> {
        let automation = automation.clone();
        self.0.pool.read(move |connection| dedup::find(connection, &automation, &key, now)).await
    }
}

#[async_trait]
impl SecretStore for SqliteStore {
    async fn get_or_init_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
        match self.write(WriteOp::PutSecret(SecretKey(fresh))).await? {
            WriteResult::Secret(SecretKey(kept)) => Ok(kept),
            _ => Ok(fresh),
        }
    }
}

#[async_trait]
impl MaintenanceStore for SqliteStore {
    async fn prune(&self, filter: PruneFilter, limit: u32) -> Result<u64, Error> {
        prune::prune(self.queue()?, &self.0.pool, &self.0.folder, filter, limit).await
    }

    async fn measure(&self) -> Result<Capacity, Error> {
        Ok(self.capacity())
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        prune::prune_keys(self.queue()?, before, limit).await
    }

    async fn prune_dedup(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        dedup::prune(self.queue()?, before, limit).await
    }

    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        state::prune(self.queue()?, before, limit).await
    }

    async fn collect_garbage(&self) -> Result<u64, Error> {
        prune::collect_garbage(self.queue()?, &self.0.pool, &self.0.folder).await
    }
}

/// One process has the store to itself.
impl PeerStore for SqliteStore {}

impl SharedTriggerStore for SqliteStore {}

impl GenerationStore for SqliteStore {}

#[async_trait]
impl Store for SqliteStore {
    fn files(&self) -> Arc<dyn FileStorage> {
        match self.0.queue {
            Some(_) => Arc::new(BlobFiles(self.0.folder.clone())),
            None => Arc::new(MemoryFiles),
        }
    }

    fn capacity(&self) -> Capacity {
        self.0.usage.capacity()
    }

    fn outages(&self) -> watch::Receiver<Option<Outage>> {
        self.0.outages.subscribe()
    }

    fn outage(&self) -> Option<Outage> {
        self.0.outages.current()
    }

    async fn info(&self) -> Result<Info, Error> {
        let (file, weakened) = (self.0.file.clone(), self.0.weakened.clone());
        let max_bytes = self.0.usage.most();
        let capacity = self.0.outages.limit(self.0.usage.capacity());
        self.0
            .pool
            .read(move |connection| {
                let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
                let mut log = file.clone().into_os_string();
                log.push("-wal");
                Ok(Info {
                    engine: format!("SQLite {}", rusqlite::version()),
                    location: file.display().to_string(),
                    schema: SCHEMA.version(),
                    bytes: size(&file) + size(Path::new(&log)),
                    used: usage::used_bytes(connection).map_err(pool::read_error)?,
                    blob_bytes: usage::blob_bytes(connection).map_err(pool::read_error)?,
                    max_bytes,
                    capacity,
                    weakened,
                })
            })
            .await
    }

    fn metrics(&self) -> Metrics {
        self.0.counters.read(self.0.queue.as_ref().map_or(0, Queue::len))
    }

    async fn failure(&self) -> Error {
        Error::Poisoned { reason: self.0.poison.wait().await }
    }

    async fn close(&self) -> Result<(), Error> {
        // Locked until the end, so that a second caller waits for the first.
        let mut thread = self.0.thread.lock().await;
        // Readers first: the log can be truncated only while no connection reads it.
        self.0.pool.close().await;
        if let Some(queue) = &self.0.queue {
            queue.close().await;
        }
        if let Some(thread) = thread.take() {
            join(thread);
        }
        match self.0.poison.reason() {
            Some(reason) => Err(Error::Poisoned { reason: reason.to_owned() }),
            None => Ok(()),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The writer ends once its queue is dropped.
        self.queue = None;
        if let Some(thread) = self.thread.get_mut().take() {
            join(thread);
        }
    }
}

/// Opens the file for writing, checks it, and migrates its tables.
fn open_file(paths: &StorePaths, options: &Options) -> Result<Connection, Error> {
    let mut connection = settings::open_writer(&paths.file, options)?;
    if schema::is_new(&connection, &paths.file)? {
        // It may be a store that lost its write-ahead log, and all content with it.
        paths.check_not_emptied(false, false)?;
    } else {
        check::at_start(&connection, &paths.file)?;
    }
    SCHEMA.migrate(&mut connection, &paths.file)?;
    migration::check_marks(&connection, &paths.file)?;
    Ok(connection)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("the writer thread of the store panicked");
    }
}
