//! The handle: opening, closing, and each method of the contract in a line or two.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use jiff::Timestamp;
use model::value::{FileStorage, MemoryFiles};
use model::{AutomationId, DefinitionHash, Event, ExecutionId, LogLine};
use rusqlite::Connection;
use tokio::sync::Mutex;

use super::blobs::{Contents, Cutter, Folder};
use super::checkpoint::Checkpointer;
use super::counters::Counters;
use super::encode::{Done, Key, Work};
use super::gauge::{self, Gauge};
use super::place::Place;
use super::poison::Poison;
use super::pool::Pool;
use super::queue::{Queue, queue};
use super::readahead::Readahead;
use super::settings;
use super::writer::Writer;
use super::{check, forget, polls, pool, read, schema, sendings, state, waits};
use crate::traits::{
    DefinitionStore, ExecutionStore, MaintenanceStore, SecretStore, StateStore, Store, TriggerStore,
    WaitStore,
};
use crate::types::{
    Accept, Accepted, Address, Append, Definition, ExecutionFilter, ExecutionRow, Info, Metrics, Page,
    PollEntry, PollStanding, PollWrite, Prune, Resting, Room, Sent, StateEntry, StateRow, StateWrite,
    Subscription, Wait, Watermark,
};
use crate::{Durability, Error, Options};

/// A store in one SQLite file; a cheap handle to it. When the last handle is dropped, what is queued is written
/// and the file is let go; [`Store::close`] does the same without blocking a thread.
#[derive(Clone, Debug)]
pub(crate) struct SqliteStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    weakened: Vec<String>,
    pool: Arc<Pool>,
    folder: Arc<Folder>,
    cutter: Cutter,
    gauge: Gauge,
    /// None where the store is open for reading only.
    queue: Option<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counters: Counters,
    poison: Poison,
}

impl SqliteStore {
    /// Opens the store at `path` for reading and writing, as [`crate::open`] documents.
    pub(crate) fn open(path: &Path, options: Options) -> Result<Self, Error> {
        settings::check_version(rusqlite::version_number(), rusqlite::version())?;
        let place = Place::of(path);
        place.make_directory()?;
        let mut weakened: Vec<String> = place.judge_file_system()?.into_iter().collect();
        if options.durability == Durability::Relaxed {
            weakened.push("durability is relaxed: a loss of power may take the last writes along".to_owned());
        }
        let lock = place.lock()?;
        place.check_before_opening()?;
        place.make_file()?;
        let connection = open_file(&place, &options).map_err(|error| place.judge(error))?;
        let (poison, counters) = (Poison::default(), Counters::default());
        let checkpointer = Checkpointer::start(&place.file, &options, poison.clone())?;
        let gauge = Gauge::new(options.max_bytes);
        let opened = |reason: String| Error::Open { path: place.file.clone(), reason };
        gauge.measure(&connection).map_err(|error| settings::open_error(&place.file, &error))?;
        let folder = Arc::new(Folder::of(&place, gauge.clone()));
        folder.take_over().map_err(|error| opened(error.to_string()))?;
        let cutter = Cutter::new(folder.clone(), options.blob_bytes);
        let (queue, receiver) = queue();
        let writer = Writer {
            connection,
            receiver,
            checkpointer,
            readahead: Readahead::new(&place.file),
            poison: poison.clone(),
            counters: counters.clone(),
            folder: folder.clone(),
            gauge: gauge.clone(),
            lock,
            mishaps: options.mishaps,
        };
        let thread = writer
            .start()
            .map_err(|error| Error::Open { path: place.file.clone(), reason: error.to_string() })?;
        let (pool, thread) = (Pool::new(place.file.clone(), poison.clone()), Mutex::new(Some(thread)));
        Ok(Self(Arc::new(Inner {
            file: place.file,
            weakened,
            pool,
            folder,
            cutter,
            gauge,
            queue: Some(queue),
            thread,
            counters,
            poison,
        })))
    }

    /// Opens the store at `path` only for reading, as [`crate::open_read_only`] documents.
    pub(crate) fn open_read_only(path: &Path) -> Result<Self, Error> {
        settings::check_version(rusqlite::version_number(), rusqlite::version())?;
        let place = Place::of(path);
        let weakened = place.judge_file_system()?.into_iter().collect();
        let connection = settings::open_reader(&place.file)?;
        schema::check(&connection, &place.file).map_err(|error| place.judge(error))?;
        let (folder, poison) = (Arc::new(Folder::of(&place, Gauge::default())), Poison::default());
        Ok(Self(Arc::new(Inner {
            weakened,
            pool: Pool::new(place.file.clone(), poison.clone()),
            cutter: Cutter::new(folder.clone(), usize::MAX),
            folder,
            gauge: Gauge::default(),
            file: place.file,
            queue: None,
            thread: Mutex::new(None),
            counters: Counters::default(),
            poison,
        })))
    }

    fn queue(&self) -> Result<&Queue, Error> {
        self.0.queue.as_ref().ok_or(Error::ReadOnly)
    }

    async fn write(&self, work: Work) -> Result<Done, Error> {
        self.queue()?.write(work).await
    }

    /// As [`Self::write`], with large values kept apart. They are on disk before what names them is queued.
    async fn write_apart(&self, work: Work) -> Result<Done, Error> {
        let work = self.0.cutter.cut(work).await.inspect_err(|error| {
            if let Error::Commit { reason } = error {
                self.0.poison.set(reason);
            }
        })?;
        self.write(work).await
    }
}

#[async_trait]
impl DefinitionStore for SqliteStore {
    async fn put_definition(&self, definition: Definition) -> Result<(), Error> {
        self.write(Work::PutDefinition(definition)).await.map(drop)
    }

    async fn definition(&self, hash: DefinitionHash) -> Result<Option<Definition>, Error> {
        self.0.pool.read(move |connection| read::definition(connection, hash)).await
    }
}

#[async_trait]
impl ExecutionStore for SqliteStore {
    async fn accept(&self, accept: &Accept) -> Result<Vec<Accepted>, Error> {
        // A watermark alone takes no room.
        if !accept.executions.is_empty() && self.0.gauge.room() == Room::None {
            return Err(Error::Full);
        }
        match self.write_apart(Work::accept(accept, self.0.cutter.threshold())?).await? {
            Done::Accepted(accepted) => Ok(accepted),
            _ => Ok(Vec::new()),
        }
    }

    async fn append(&self, append: &Append) -> Result<(), Error> {
        self.write_apart(Work::append(append)?).await.map(drop)
    }

    async fn events(&self, id: ExecutionId) -> Result<Option<Vec<Event>>, Error> {
        let folder = self.0.folder.clone();
        self.0.pool.read(move |connection| read::events(connection, &folder, id)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.0.pool.read(move |connection| read::execution(connection, id)).await
    }

    async fn executions(&self, filter: &ExecutionFilter, page: Page) -> Result<Vec<ExecutionRow>, Error> {
        let filter = filter.clone();
        self.0.pool.read(move |connection| read::executions(connection, &filter, page)).await
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
    async fn resting(&self, after: Option<ExecutionId>, limit: u32) -> Result<Vec<Resting>, Error> {
        self.0.pool.read(move |connection| waits::resting(connection, after, limit)).await
    }

    async fn waits(&self, execution: ExecutionId) -> Result<Vec<Wait>, Error> {
        self.0.pool.read(move |connection| waits::of(connection, execution)).await
    }

    async fn waiting_for_event(
        &self,
        name: &str,
        after: Option<(ExecutionId, String)>,
        limit: u32,
    ) -> Result<Vec<(ExecutionId, String)>, Error> {
        let name = name.to_owned();
        self.0.pool.read(move |connection| waits::for_event(connection, &name, after, limit)).await
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

    async fn write_state(&self, writes: Vec<StateWrite>) -> Result<(), Error> {
        self.write(Work::write_state(writes)?).await.map(drop)
    }
}

#[async_trait]
impl TriggerStore for SqliteStore {
    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        self.0.pool.read(|connection| read::addresses(connection)).await
    }

    async fn put_addresses(&self, addresses: Vec<Address>) -> Result<(), Error> {
        self.write(Work::PutAddresses(addresses)).await.map(drop)
    }

    async fn watermarks(&self) -> Result<Vec<Watermark>, Error> {
        self.0.pool.read(|connection| read::watermarks(connection)).await
    }

    async fn polls(&self) -> Result<Vec<(AutomationId, PollStanding)>, Error> {
        self.0.pool.read(|connection| polls::standings(connection)).await
    }

    async fn seen(&self, automation: &AutomationId, keys: &[String]) -> Result<Vec<bool>, Error> {
        let (automation, keys) = (automation.clone(), keys.to_vec());
        self.0.pool.read(move |connection| polls::seen(connection, &automation, &keys)).await
    }

    async fn poll_entries(&self, automation: &AutomationId, limit: u32) -> Result<Vec<PollEntry>, Error> {
        let (automation, limit) = (automation.clone(), limit.min(PollWrite::MAX_ENTRIES));
        self.0.pool.read(move |connection| polls::entries(connection, &automation, limit)).await
    }

    async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        self.0.pool.read(|connection| polls::subscriptions(connection)).await
    }

    async fn put_subscription(&self, subscription: Subscription) -> Result<(), Error> {
        self.write(Work::put_subscription(subscription)?).await.map(drop)
    }

    async fn drop_subscription(&self, id: &str) -> Result<(), Error> {
        self.write(Work::PutSubscription { id: id.to_owned(), kept: None }).await.map(drop)
    }

    async fn sent(
        &self,
        automation: &AutomationId,
        key: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Sent>, Error> {
        let automation = automation.clone();
        self.0.pool.read(move |connection| sendings::find(connection, &automation, &key, now)).await
    }
}

#[async_trait]
impl SecretStore for SqliteStore {
    async fn put_secret(&self, fresh: [u8; 32]) -> Result<[u8; 32], Error> {
        match self.write(Work::PutSecret(Key(fresh))).await? {
            Done::Secret(Key(kept)) => Ok(kept),
            _ => Ok(fresh),
        }
    }
}

#[async_trait]
impl MaintenanceStore for SqliteStore {
    async fn prune(&self, filter: Prune, limit: u32) -> Result<u64, Error> {
        forget::prune(self.queue()?, &self.0.pool, &self.0.folder, filter, limit).await
    }

    async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        forget::prune_keys(self.queue()?, before, limit).await
    }

    async fn prune_sendings(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        sendings::prune(self.queue()?, before, limit).await
    }

    async fn prune_state(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        state::prune(self.queue()?, before, limit).await
    }

    async fn tidy(&self) -> Result<u64, Error> {
        forget::tidy(self.queue()?, &self.0.pool, &self.0.folder).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn files(&self) -> Arc<dyn FileStorage> {
        match self.0.queue {
            Some(_) => Arc::new(Contents(self.0.folder.clone())),
            None => Arc::new(MemoryFiles),
        }
    }

    fn room(&self) -> Room {
        self.0.gauge.room()
    }

    async fn info(&self) -> Result<Info, Error> {
        let (file, weakened) = (self.0.file.clone(), self.0.weakened.clone());
        let (max_bytes, room) = (self.0.gauge.most(), self.0.gauge.room());
        self.0
            .pool
            .read(move |connection| {
                let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
                let mut log = file.clone().into_os_string();
                log.push("-wal");
                Ok(Info {
                    engine: format!("SQLite {}", rusqlite::version()),
                    location: file.display().to_string(),
                    schema: schema::CURRENT,
                    bytes: size(&file) + size(Path::new(&log)),
                    used: gauge::used_bytes(connection).map_err(pool::read_error)?,
                    blob_bytes: gauge::blob_bytes(connection).map_err(pool::read_error)?,
                    max_bytes,
                    room,
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
        // Held until the end, so that a second caller waits for the first.
        let mut thread = self.0.thread.lock().await;
        // Readers first: the log can be emptied only when nobody reads it.
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
        // Without a sender the writer finishes and ends.
        self.queue = None;
        if let Some(thread) = self.thread.get_mut().take() {
            join(thread);
        }
    }
}

/// Opens the file to write it, checks it, and brings its tables up to date.
fn open_file(place: &Place, options: &Options) -> Result<Connection, Error> {
    let mut connection = settings::open_writer(&place.file, options)?;
    if schema::is_new(&connection, &place.file)? {
        // It may be a store whose log is gone, and with it all it held.
        place.check_not_emptied(false, false)?;
    } else {
        check::at_start(&connection, &place.file)?;
    }
    schema::migrate(&mut connection, &place.file)?;
    Ok(connection)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("the store's writer had panicked");
    }
}
