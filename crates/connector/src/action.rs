//! The [`Action`] trait, and [`Call`] with the arguments of one call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::described::DescribedStatement;
use model::{ActionError, ActionSpec, Effect, ErrorKind, ResultType};
use value::{FileStorage, Map, MemoryFiles, Reserved, Value};

use crate::connection::{BaseUrl, ResolvedConnection};
use crate::file_sink::FileSink;
use crate::http::{
    BodySink, HostPolicy, Http, LogDetail, MadeCall, Request, RequestContext, Response, Transport,
    transport_failure,
};
use crate::log::LogSink;
use crate::stages::{Progress, Reached, StatusExample};
use crate::static_inputs::{InputProblem, StaticInputs};
use crate::trace::Trace;

/// One operation of a connector. It describes itself, and any number of calls may run concurrently.
#[async_trait]
pub trait Action: Send + Sync {
    /// Returns the declaration of the action.
    fn spec(&self) -> &ActionSpec;

    /// Returns the effect of a call as far as it is known before the call; never more than the declared effect.
    /// `known` returns the value or the default of an input, or `None` if only the run determines it.
    fn effect<'a>(&self, known: &dyn Fn(&str) -> Option<&'a Value>) -> Effect {
        let _ = known;
        self.spec().effect
    }

    /// True if a call reaches nothing outside of this program, whatever its effect: a test runs it as it is.
    fn is_local(&self) -> bool {
        self.spec().effect == Effect::Pure
    }

    /// True if another attempt after a lost answer may change more than the first one did, although the action could prevent that.
    /// `known` returns the value or the default of an input, or `None` if only the run determines it.
    fn repeats_change(&self, known: &dyn Fn(&str) -> Option<Value>) -> bool {
        let _ = known;
        false
    }

    /// The memory in bytes that a call with these inputs takes for external files that it loads. The caller reserves it before the
    /// call.
    fn memory_for_files(&self, inputs: &Map) -> usize {
        let _ = inputs;
        0
    }

    /// Calls the action once. The caller owns retries.
    ///
    /// # Errors
    /// Returns the reason why there is no result, as a record for people and for `onError`.
    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError>;

    /// True if a call takes several requests, and goes on from a checkpoint when it is repeated: [`Action::advance`] is called in place of
    /// [`Action::call`].
    fn has_stages(&self) -> bool {
        false
    }

    /// Calls an action with stages: begins, or goes on from a checkpoint. An error leaves the checkpoint as it is.
    ///
    /// # Errors
    /// As for [`Action::call`].
    async fn advance(&self, call: Call<'_>, reached: Option<Reached<'_>>) -> Result<Progress, ActionError> {
        let _ = reached;
        self.call(call).await.map(Progress::Ended)
    }

    /// Builds the first request of a call with these checked inputs, without sending it; `None` if the action sends
    /// no request.
    fn prepare(&self, inputs: &Map, base: Option<&BaseUrl>) -> Option<Result<Request, ActionError>> {
        let _ = (inputs, base);
        None
    }

    /// Returns the reasons, visible in the file, why a call with these inputs can never succeed. The types of the
    /// inputs are checked elsewhere, and computed values by the call itself.
    fn check_static(&self, inputs: &StaticInputs<'_>) -> Vec<InputProblem> {
        let _ = inputs;
        Vec::new()
    }

    /// Listens until the connection breaks. Calls `wake` once when it begins to listen, and whenever something arrives. Nothing that
    /// arrives before or after is kept, so this is no source of events: it tells when to poll.
    ///
    /// Returns the reason for which it does not listen any more.
    async fn listen(&self, call: Call<'_>, wake: &(dyn Fn() + Send + Sync)) -> ActionError {
        let _ = (call, wake);
        ActionError::new(ErrorKind::Input, format!("`{}` cannot listen", self.spec().name))
    }

    /// Returns the statements of a call that are written out, for the database to describe.
    fn statements(&self, inputs: &StaticInputs<'_>) -> Vec<String> {
        let _ = inputs;
        Vec::new()
    }

    /// Returns the type of the result of a call whose statement is described; `None` if it is not. `described` finds a statement by its
    /// text.
    fn described_results<'d>(
        &self,
        inputs: &StaticInputs<'_>,
        described: &dyn Fn(&str) -> Option<&'d DescribedStatement>,
    ) -> Option<ResultType> {
        let _ = (inputs, described);
        None
    }

    /// Returns the response in the example of the action; `None` if the example has none.
    fn example_answer(&self) -> Option<&Value> {
        None
    }

    /// Returns the last response to a look in the example of the action; `None` if its response is all.
    fn example_status(&self) -> Option<&StatusExample> {
        None
    }

    /// Returns the type of the response, which is the type of the result but for what the action adds.
    fn answer_type(&self) -> ResultType {
        self.spec().results.clone()
    }

    /// True if the action sends any request, so that its example proves nothing about the service.
    fn is_raw(&self) -> bool {
        false
    }

    /// Returns the names of the inputs that say how a request is sent, and not for which records: a poll keeps its position if they
    /// change.
    fn transport_inputs(&self) -> &'static [&'static str] {
        &[]
    }

    /// True if Debug Request of this action logs credentials (only if the settings allow it).
    fn reveals_credentials(&self) -> bool {
        false
    }
}

/// The memory for the answers of a call. Each method returns when there is room.
#[async_trait]
pub trait AnswerMemory: Send + Sync {
    /// Waits until `bytes` bytes of the answer that arrives may be held.
    async fn arriving(&self, bytes: usize);

    /// Waits until the complete response may be decoded to a value, which takes about `memory` bytes together with the bytes that have
    /// arrived.
    async fn arrived(&self, memory: usize);

    /// The time that the call has waited for room so far.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }
}

/// Counts no answers: for callers that limit their size, and in a process that does one thing.
pub struct UncountedAnswers;

#[async_trait]
impl AnswerMemory for UncountedAnswers {
    async fn arriving(&self, _: usize) {}

    async fn arrived(&self, _: usize) {}
}

/// The arguments of one call; the call consumes them.
#[derive(Clone)]
pub struct Call<'a> {
    /// The inputs, evaluated and checked by [`crate::check_inputs`].
    pub inputs: &'a Map,
    /// The credentials, if the step names a connection.
    pub connection: Option<&'a ResolvedConnection>,
    /// Identical for every attempt at this step; sent as `Idempotency-Key` with each request that may change
    /// something.
    pub idempotency_key: &'a str,
    /// True if an earlier attempt at this step may have had its effect.
    pub may_repeat: bool,
    /// The memory for files that the call loads.
    pub memory: &'a Reserved,
    /// The memory for the answers that the call reads.
    pub answers: &'a dyn AnswerMemory,
    /// The HTTP client.
    pub http: &'a Http,
    /// True if Debug Request is on: request and response are logged, with credentials masked.
    pub debug: bool,
    /// Receives log lines for people.
    pub log: &'a dyn LogSink,
    /// The chain of executions that caused the call.
    pub trace: Option<&'a Trace>,
    /// The files that the call may read and write.
    pub files: FileAccess<'a>,
    /// The time that is left to the step; `None` if nothing but the limits of the action bounds the call.
    pub time_left: Option<Duration>,
}

/// The files that a call may use.
#[derive(Clone, Debug)]
pub struct FileAccess<'a> {
    /// Takes the bytes of a large result.
    pub storage: Arc<dyn FileStorage>,
    /// The folder of the setting `filesDir`; `None` if it is not set.
    pub dir: Option<&'a Path>,
}

impl FileAccess<'_> {
    /// No folder, and results in memory: for callers whose actions make no files, and for tests.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { storage: Arc::new(MemoryFiles), dir: None }
    }
}

/// The other side of [`Call::exchange`], and the way of the answer.
#[derive(Clone, Copy)]
pub struct Exchanged<'a> {
    /// The called system as messages name it: `the object store`.
    pub subject: &'a str,
    /// The connection whose credentials the request gets.
    pub connection: Option<&'a ResolvedConnection>,
    /// Takes the body of a good answer; `None` to have it in memory.
    pub body: Option<&'a dyn BodySink>,
    /// False if neither a recording nor a log must have the exchange, whose answer is a credential.
    pub is_recorded: bool,
}

/// Variations in how an action sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// No variation.
    Default,
    /// Debug Request may show credentials.
    RevealCredentials,
    /// The action retries on its own, as its inputs define.
    OwnRetries,
}

impl<'a> Call<'a> {
    /// Returns the connection after checking that the action accepts its type.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Connection`] if the connection is missing or of another type.
    pub fn connection_for(&self, spec: &ActionSpec) -> Result<Option<&'a ResolvedConnection>, ActionError> {
        let connection_error = |message| Err(ActionError::new(ErrorKind::Connection, message));
        match self.connection {
            None if spec.connection_required => connection_error(format!(
                "`{}` needs a connection; name one of type {} with `connection:`",
                spec.name,
                spec.connections.join(" or ")
            )),
            Some(connection) if !spec.connections.contains(&connection.kind) => connection_error(format!(
                "the connection `{}` is of type `{}`, which `{}` does not accept; it takes {}",
                connection.name,
                connection.kind,
                spec.name,
                if spec.connections.is_empty() { "none".to_owned() } else { spec.connections.join(" or ") }
            )),
            other => Ok(other),
        }
    }

    /// Begins a file of the result, which takes its bytes as they arrive. `content` is named if the file becomes larger than the setting
    /// `limits.fileSize`: `the rows`.
    #[must_use]
    pub fn file_sink(&self, content: &'static str) -> FileSink {
        let storage = self.files.storage.clone();
        FileSink::new(storage, self.http.file_memory().clone(), self.http.options().max_file, content)
    }

    /// Runs the part of a call that leaves the process without HTTP: over the network, recorded to a cassette or replayed from it, or
    /// not at all where requests are disabled.
    ///
    /// # Errors
    /// Returns the error of the call, or the reason why it is not made.
    pub async fn recorded(
        &self,
        spec: &ActionSpec,
        subject: &str,
        live: impl Future<Output = Result<Value, ActionError>>,
    ) -> Result<Value, ActionError> {
        let made = MadeCall { action: &spec.name, inputs: self.inputs };
        if let Transport::Cassette(cassette) = &self.http.options().transport {
            let secrets = self.connection.into_iter().flat_map(ResolvedConnection::secrets);
            secrets.for_each(|secret| cassette.add_secret(secret.expose()));
        }
        match &self.http.options().transport {
            Transport::Network => live.await,
            Transport::Disabled => Err(transport_failure::network_disabled(subject)),
            Transport::Cassette(cassette) if cassette.is_recording() => {
                let answer = live.await;
                cassette.record_call(&made, &answer);
                answer
            }
            Transport::Cassette(cassette) => cassette.replay_call(&made),
        }
    }

    /// Sends a request with the credentials of the connection. A response of any status is `Ok`.
    pub(crate) async fn send(
        &self,
        request: &Request,
        subject: &str,
        mode: SendMode,
    ) -> Result<Response, ActionError> {
        let reveal = mode == SendMode::RevealCredentials && self.http.may_reveal_credentials();
        let log_detail = match (self.debug, reveal) {
            (false, _) => LogDetail::None,
            (true, false) => LogDetail::Masked,
            (true, true) => LogDetail::Full,
        };
        let context = RequestContext {
            subject,
            connection: self.connection,
            idempotency_key: self.idempotency_key,
            log_detail,
            host_policy: match mode {
                SendMode::OwnRetries => HostPolicy::RetryAfterOnly,
                SendMode::Default | SendMode::RevealCredentials => HostPolicy::Full,
            },
            log: self.log,
            trace: self.trace,
            answers: self.answers,
            body: None,
            is_recorded: true,
        };
        self.http.send(request, &context).await
    }

    /// Sends a request of an action in another crate. An answer of any status is `Ok`.
    ///
    /// # Errors
    /// Returns the reason why there is no answer.
    pub async fn exchange(&self, request: &Request, to: &Exchanged<'_>) -> Result<Response, ActionError> {
        let context = RequestContext {
            subject: to.subject,
            connection: to.connection,
            idempotency_key: self.idempotency_key,
            log_detail: if self.debug && to.is_recorded { LogDetail::Masked } else { LogDetail::None },
            host_policy: HostPolicy::Full,
            log: self.log,
            trace: self.trace,
            answers: self.answers,
            body: to.body,
            is_recorded: to.is_recorded,
        };
        self.http.send(request, &context).await
    }
}
