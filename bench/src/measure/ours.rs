//! The actions of steps, with a connection.

use std::path::Path;
use std::sync::Arc;

use connector::{
    AllowList, Call, FileAccess, Http, HttpOptions, LogSink, ResolvedConnection, UncountedAnswers,
};
use value::{Map, MemoryFiles, Reserved, Value};

use crate::Error;

/// The actions, with a connection.
pub(super) struct Ours<'f> {
    pub(super) registry: connector::Registry,
    pub(super) http: Http,
    pub(super) connection: ResolvedConnection,
    folder: &'f Path,
}

pub(super) struct Silent;

impl LogSink for Silent {
    fn line(&self, _: model::LogLevel, _: &str) {}
}

impl<'f> Ours<'f> {
    /// Connects to a server of this machine; files are below `folder`.
    pub(super) fn new(folder: &'f Path, kind: &str, with: &Map) -> Result<Self, Error> {
        let failed = |reason: String| Error::Server(reason);
        let registry = catalog::builtin().map_err(|error| failed(error.to_string()))?;
        let allow = AllowList::parse(["127.0.0.0/8"]).map_err(|error| failed(error.to_string()))?;
        let options = HttpOptions { allow, ..HttpOptions::default() };
        let http = Http::new(options).map_err(|error| failed(error.to_string()))?;
        let types = registry.connection_type(kind).ok_or_else(|| failed(format!("there is no {kind}")))?;
        let connection = types.resolve("rows", with).map_err(|error| failed(error.to_string()))?;
        Ok(Self { registry, http, connection, folder })
    }

    pub(super) async fn call<const N: usize>(
        &self,
        name: &str,
        inputs: [(&str, Value); N],
    ) -> Result<Value, Error> {
        let failed = |error: model::ActionError| Error::Server(error.into_message());
        let action = self.registry.action(name);
        let action = action.ok_or_else(|| Error::Server(format!("there is no {name}")))?;
        let memory = Reserved::uncounted(usize::MAX);
        let inputs =
            connector::check_inputs(action.spec(), &Map::from_iter(inputs), &memory).map_err(failed)?;
        let call = Call {
            inputs: &inputs,
            connection: Some(&self.connection),
            idempotency_key: "",
            memory: &memory,
            answers: &UncountedAnswers,
            http: &self.http,
            debug: false,
            log: &Silent,
            trace: None,
            files: FileAccess { storage: Arc::new(MemoryFiles), dir: Some(self.folder) },
            time_left: None,
        };
        action.call(call).await.map_err(failed)
    }
}
