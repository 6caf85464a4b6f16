//! The actions of steps, with a connection.

use std::fmt::Display;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use connector::{
    AllowList, Call, EventSource, Fate, FileAccess, Http, HttpOptions, LogSink, ResolvedConnection,
    SourceOptions, TakeLimits, UncountedAnswers, check_event_inputs,
};
use engine::stores::Location;
use model::ActionError;
use value::{CHUNK_SIZE, Data, File, FileStorage, Map, Reserved, Value};

use crate::Error;

/// The time limit for a message that a broker has, and for the start of a system.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The actions, with a connection and a store for files.
pub(super) struct Ours<'f> {
    registry: connector::Registry,
    http: Http,
    connection: ResolvedConnection,
    folder: &'f Path,
    files: Arc<dyn FileStorage>,
    /// The calls so far: each has a key of its own, as the steps of an execution have.
    calls: AtomicU64,
}

struct Silent;

impl LogSink for Silent {
    fn line(&self, _: model::LogLevel, _: &str) {}
}

impl<'f> Ours<'f> {
    /// Connects to a server of this machine; the store and the files of steps are below `folder`.
    pub(super) fn new(folder: &'f Path, kind: &str, with: &Map) -> Result<Self, Error> {
        let registry = catalog::builtin().map_err(failed)?;
        let allow = AllowList::parse(["127.0.0.0/8"]).map_err(failed)?;
        let options = HttpOptions { allow, ..HttpOptions::default() };
        let http = Http::new(options).map_err(failed)?;
        let types = registry.connection_type(kind).ok_or_else(|| failed(format!("there is no {kind}")))?;
        let connection = types.resolve("rows", with).map_err(failed)?;
        let location = Location::from(folder.join(format!("store of {kind}")).as_path());
        let store = engine::stores::open(&location, store::Options::default())?;
        Ok(Self { registry, http, connection, folder, files: store.files(), calls: AtomicU64::new(0) })
    }

    /// Calls an action.
    pub(super) async fn call<const N: usize>(
        &self,
        name: &str,
        inputs: [(&str, Value); N],
    ) -> Result<Value, Error> {
        let action = self.registry.action(name);
        let action = action.ok_or_else(|| Error::Server(format!("there is no {name}")))?;
        let memory = Reserved::uncounted(usize::MAX);
        let inputs =
            connector::check_inputs(action.spec(), &Map::from_iter(inputs), &memory).map_err(refused)?;
        let key = format!("measured.{}", self.calls.fetch_add(1, Ordering::Relaxed));
        let call = Call {
            inputs: &inputs,
            connection: Some(&self.connection),
            idempotency_key: &key,
            may_repeat: false,
            memory: &memory,
            answers: &UncountedAnswers,
            http: &self.http,
            debug: false,
            log: &Silent,
            trace: None,
            files: FileAccess { storage: self.files.clone(), dir: Some(self.folder) },
            time_left: None,
        };
        action.call(call).await.map_err(refused)
    }

    /// Takes messages as a trigger does, `batch` at a time, without executions.
    pub(super) async fn take(
        &self,
        event: &str,
        inputs: impl IntoIterator<Item = (&'static str, Value)>,
        (count, batch): (usize, usize),
    ) -> Result<(), Error> {
        let missing = || Error::Server(format!("no broker brings {event}"));
        let event = self.registry.event(event).ok_or_else(missing)?;
        let EventSource::Stream(stream) = &event.source else { return Err(missing()) };
        let inputs =
            check_event_inputs(&event.name, &event.inputs, &Map::from_iter(inputs)).map_err(refused)?;
        let options = SourceOptions {
            http: &self.http,
            connection: &self.connection,
            inputs: &inputs,
            from_oldest: true,
            consumer: "bench",
            prefetch: 2 * batch,
            log: &Silent,
        };
        let mut source = stream.broker.open(options).await.map_err(refused)?;
        let mut left = count;
        while left > 0 {
            if !source.wait(PATIENCE).await.map_err(refused)? {
                return Err(Error::Server(format!("{left} messages are missing")));
            }
            let limits = TakeLimits { messages: batch, bytes: 8 << 20, fill: Duration::ZERO };
            let messages = source.take(limits).await.map_err(refused)?;
            left = left.saturating_sub(messages.len());
            let done = messages.iter().map(|message| (message.token, Fate::Done)).collect();
            source.settle(done).await.map_err(refused)?;
        }
        Ok(())
    }

    /// Copies a file into the store.
    pub(super) fn file(&self, path: &Path) -> Result<Value, Error> {
        let copied = || -> std::io::Result<Data> {
            let (mut input, mut output) = (std::fs::File::open(path)?, self.files.create()?);
            let mut chunk = vec![0; CHUNK_SIZE];
            loop {
                match input.read(&mut chunk)? {
                    0 => return output.finish(),
                    count => output.write(&chunk[..count])?,
                }
            }
        };
        let data = copied().map_err(Error::io("a file of the store"))?;
        Ok(Value::from(File { content_type: "application/octet-stream".into(), filename: None, data }))
    }
}

fn refused(error: ActionError) -> Error {
    Error::Server(error.into_message())
}

/// The error of a client.
pub(super) fn failed(error: impl Display) -> Error {
    Error::Server(error.to_string())
}
