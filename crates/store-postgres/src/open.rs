//! Opening and closing: the thread of the store, its checks and its tasks.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::access::Access;
use super::agreement::Agreement;
use super::beat;
use super::blobs::Blobs;
use super::checks::{self, Server};
use super::connect::Session;
use super::definitions::Definitions;
use super::exchange::{Exchange, Requests};
use super::files::Spool;
use super::handle::PostgresStore;
use super::lane::{Lane, Shared};
use super::node::{self, Identity, LANES};
use super::partitions::Partitions;
use super::probes::{self, WriteProbes};
use super::queue::Queue;
use super::reader::{Closing, Reader};
use super::schema::{SCHEMA, explain};
use super::usage::Usage;
use super::{Address, usage};
use store::counters::Counters;
use store::outage::Outages;
use store::poison::Poison;
use store::{Error, Options, Store};

/// The name of the connections in the views of the server.
const APPLICATION: &str = "cogwork";

/// The connections and tasks of an open store.
pub(super) struct Opened {
    pub(super) address: Address,
    pub(super) server: Server,
    pub(super) reader: Reader,
    pub(super) definitions: Definitions,
    pub(super) partitions: Partitions,
    pub(super) blobs: Blobs,
    pub(super) spool: Option<Spool>,
    pub(super) usage: Usage,
    /// `None` if the store is open only for reading.
    pub(super) lanes: Option<Arc<Shared>>,
    pub(super) poison: Poison,
    pub(super) outages: Outages,
    pub(super) agreement: Agreement,
    pub(super) counters: Counters,
}

/// The thread that drives the connections. It ends when the queue is closed and written.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) thread: JoinHandle<()>,
    /// Ends the thread of a store that is open only for reading.
    pub(super) stop: watch::Sender<bool>,
}

/// Opens the store at `address`. Creates its tables if they are missing, and migrates them to the current version. Blocks as
/// long as it takes to take over the executions of daemons that are gone.
///
/// # Errors
/// The server does not answer or lacks something, the database holds something else, a later release wrote the store, or the
/// server refuses.
pub fn open(address: &Address, options: Options) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(start(address, options, false)?))
}

/// Opens the store at `address` only for reading. Writes return [`Error::ReadOnly`].
///
/// # Errors
/// There is no store, the server does not answer, or another release wrote the tables.
pub fn open_read_only(address: &Address) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(start(address, Options::default(), true)?))
}

fn start(address: &Address, options: Options, is_read_only: bool) -> Result<PostgresStore, Error> {
    let failed = |reason: String| Error::Connect { location: address.to_string(), reason };
    let (stop, stopped) = watch::channel(false);
    let (opened, result) = sync_channel(1);
    let of = address.clone();
    let thread = std::thread::Builder::new()
        .name("store".to_owned())
        .spawn(move || drive(of, options, is_read_only, opened, stopped))
        .map_err(|error| failed(error.to_string()))?;
    // The connection of a store is made once, before anything runs.
    let opened = result.recv().map_err(|_| failed("the thread of the store ended".to_owned()))??;
    Ok(PostgresStore::new(opened, Driver { thread, stop }))
}

/// Runs the thread: opens the store, tells the result, and drives the connections until the store is closed.
fn drive(
    address: Address,
    options: Options,
    is_read_only: bool,
    opened: SyncSender<Result<Opened, Error>>,
    mut stopped: watch::Receiver<bool>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let error = Error::Connect { location: address.to_string(), reason: error.to_string() };
            return drop(opened.send(Err(error)));
        }
    };
    let handle = runtime.handle().clone();
    runtime.block_on(async move {
        let store = connect(address, options, is_read_only, handle).await;
        let (store, tasks) = match store {
            Ok(store) => store,
            Err(error) => return drop(opened.send(Err(error))),
        };
        let (lanes, reader) = (store.lanes.clone(), store.reader.clone());
        let Some(Tasks { mut running, beat, measure, probe, identity }) = tasks else {
            drop(opened.send(Ok(store)));
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
            return reader.close();
        };
        drop(opened.send(Ok(store)));
        while running.join_next().await.is_some() {}
        beat.abort();
        measure.abort();
        probe.abort();
        if let Some(shared) = lanes.filter(|shared| shared.poison.reason().is_none()) {
            node::leave(&shared).await;
        }
        reader.close();
        // Only now may another daemon begin on the same data folder.
        drop(identity);
    });
    // A read or a name resolution that still blocks a thread is given up.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// The tasks of a store that is open for writing.
struct Tasks {
    running: tokio::task::JoinSet<()>,
    beat: tokio::task::JoinHandle<()>,
    measure: tokio::task::JoinHandle<()>,
    probe: tokio::task::JoinHandle<()>,
    identity: Identity,
}

impl Tasks {
    /// Starts the tasks. The node beats from here on, so that a long takeover is no silence.
    fn start(
        shared: &Arc<Shared>,
        requests: Requests,
        reader: Reader,
        usage: Usage,
        identity: Identity,
    ) -> Self {
        let mut running = tokio::task::JoinSet::new();
        for index in 0..LANES {
            running.spawn(Lane::new(shared.clone(), index).run());
        }
        let beat = tokio::spawn(beat::keep_alive(shared.clone(), requests, reader.clone(), usage.clone()));
        let measure = tokio::spawn(usage::keep_measuring(reader, usage, shared.queue.clone()));
        let probe = tokio::spawn(probes::keep_probing(shared.clone()));
        Self { running, beat, measure, probe, identity }
    }
}

async fn connect(
    address: Address,
    options: Options,
    is_read_only: bool,
    handle: Handle,
) -> Result<(Opened, Option<Tasks>), Error> {
    let location = address.to_string();
    let failed = |reason: String| Error::Connect { location: location.clone(), reason };
    let encryption = address.encryption()?;
    let (poison, counters, outages) = (Poison::default(), Counters::default(), Outages::default());
    let config = if is_read_only { address.reading(APPLICATION) } else { address.writing(APPLICATION) };
    let access = Access { config, encryption };
    let (mut session, server, identity) = begin(&access, &address, &options, is_read_only).await?;
    let reader = Reader::new(access.clone(), handle, (poison.clone(), outages.clone()), is_read_only)?;
    let partitions = Partitions::new(reader.clone());
    let agreement = Agreement::new(&options);
    let usage = Usage::new(agreement.clone());
    let mut opened = Opened {
        blobs: Blobs::new(reader.clone(), options.blob_bytes),
        definitions: Definitions::new(reader.clone()),
        partitions: partitions.clone(),
        spool: spool(&options, is_read_only)?,
        usage: usage.clone(),
        lanes: None,
        poison: poison.clone(),
        outages: outages.clone(),
        agreement: agreement.clone(),
        counters: counters.clone(),
        address,
        server,
        reader: reader.clone(),
    };
    let Some(identity) = identity else { return Ok((opened, None)) };
    // Before the node joins: from then on it has to beat.
    usage::measure(&reader, &usage).await?;
    let node = node::join(&mut session.client, &identity, &agreement, &location).await?;
    let server_time = beat::read_server_time(&session.client).await;
    let (exchange, requests) = Exchange::new(server_time.map_err(|error| failed(explain(&error)))?);
    let shared = Arc::new(Shared {
        node,
        access,
        session: opened.server.session.clone(),
        queue: Queue::new(poison.clone()),
        poison,
        counters,
        outages,
        probes: WriteProbes::default(),
        closing: Closing::default(),
        partitions,
        exchange,
    });
    let tasks = Tasks::start(&shared, requests, reader, usage, identity);
    let taken = node::take_over(&session.client, node, &tasks.identity).await;
    taken.map_err(|error| failed(explain(&error)))?;
    opened.lanes = Some(shared);
    Ok((opened, Some(tasks)))
}

/// Opens the first session, checks the server and, unless it is only read, brings its tables up to date. There is an identity if the
/// store is open for writing.
async fn begin(
    access: &Access,
    address: &Address,
    options: &Options,
    is_read_only: bool,
) -> Result<(Session, Server, Option<Identity>), Error> {
    let failed = |reason: String| Error::Connect { location: address.to_string(), reason };
    let settings = match is_read_only {
        true => "SET default_transaction_read_only = on",
        false => "SET statement_timeout = '60s'",
    };
    let session = access.open(settings).await;
    let mut session = session.map_err(|error| failed(explain(&error)))?;
    if is_read_only {
        let mut server = checks::look(&session.client).await.map_err(failed)?;
        server.weakened.extend(address.weakness());
        SCHEMA.check(&session.client).await.map_err(failed)?;
        return Ok((session, server, None));
    }
    let second = access.open(settings).await;
    let second = second.map_err(|error| failed(explain(&error)))?;
    let checked = checks::check(&session.client, &second.client, options.durability).await;
    let mut server = checked.map_err(failed)?;
    server.weakened.extend(address.weakness());
    let identity = Identity::of(options.local.as_deref())?;
    SCHEMA.migrate(&mut session.client).await.map_err(failed)?;
    Ok((session, server, Some(identity)))
}

fn spool(options: &Options, is_read_only: bool) -> Result<Option<Spool>, Error> {
    if is_read_only {
        return Ok(None);
    }
    let folder = match &options.local {
        Some(folder) => folder.clone(),
        None => std::env::temp_dir().join(format!("cogwork-{}", uuid::Uuid::new_v4())),
    };
    let failed = |path: PathBuf, error: std::io::Error| Error::Open { path, reason: error.to_string() };
    Spool::new(&folder).map(Some).map_err(|error| failed(folder, error))
}
