//! The HTTP client: it applies the guard, the limits and the redirect rules to every request of every action.

pub mod guard;

mod body_sink;
mod cassette;
mod content_encoding;
mod debug;
pub(crate) mod failure;
mod file_body;
mod gated_body;
mod host_health;
mod host_limits;
mod multipart;
pub(crate) mod request;
mod resolve;
mod response;
mod send;
mod streaming_body;
pub(crate) mod transport_failure;

#[cfg(test)]
pub(crate) mod testing;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ActionError, LogLevel};
use tokio::sync::Semaphore;
use value::redact::Redactor;

use crate::action::AnswerMemory;
use crate::connection::ResolvedConnection;
use crate::error::Error;
use crate::file_sink::FileMemory;
use crate::log::LogSink;
use crate::trace::Trace;
use guard::Guard;

pub use ::http::Method;
pub use body_sink::BodySink;
pub use cassette::{
    Cassette, Exchange, HeaderValues, RecordedBody, RecordedCall, RecordedPart, RecordedRequest,
    RecordedResponse, Recording, UnmatchedRequest,
};
pub use file_body::FileBody;
pub use guard::AllowList;
pub use host_health::{FAILURES_TO_OPEN, HostHealth, INITIAL_OPEN_TIME, MAX_OPEN_TIME, RateLimit};
pub use multipart::Part;
pub use request::{Body, Content, Request, encode};
pub use resolve::{Lookup, SystemLookup};
pub use response::Response;
pub use streaming_body::StreamingBody;

pub(crate) use cassette::MadeCall;
pub use failure::may_have_acted;
pub(crate) use failure::{ErrorShape, Mark, value_at_path};
pub(crate) use host_health::CallOutcome;
pub(crate) use request::{RateHeaders, RateUnit, RequestRules, decode, header};
pub(crate) use response::BodyFormat;

/// The largest number of redirects followed for a GET or HEAD (threat model 4.4).
pub const MAX_REDIRECTS: usize = 5;
/// The largest size of response headers in bytes (threat model 4.4).
pub const MAX_RESPONSE_HEADERS: usize = 64 * 1024;
/// The largest file that a call writes, in bytes, if the settings say nothing else.
pub const MAX_FILE: u64 = 512 << 20;
/// The bodies with files that are encoded at a time.
const ENCODERS: usize = 2;
/// The longest timeout that an input may set.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Installs the cryptography provider of TLS. Call it first in `main`; further calls have no effect.
///
/// Without a provider the first HTTPS request of the process would panic, so [`Http::new`] calls this too.
pub fn install_crypto() {
    // An error means that a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client for the OpenTelemetry collector, whose address the operator configures: without the guard of calls, and without redirects, which
/// would send the data to another host.
///
/// # Errors
/// The client cannot be built.
#[expect(clippy::disallowed_methods, reason = "its address is not chosen by automations")]
pub fn collector_client(timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
    install_crypto();
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(timeout).build()
}

/// The limits and rules of outgoing requests.
#[derive(Clone)]
pub struct HttpOptions {
    /// Private addresses and names that the guard lets through.
    pub allow: AllowList,
    /// The addresses of our own listeners. They are never called, even if `allow` has them.
    pub blocked_own: Vec<SocketAddr>,
    /// The servers of the store, by name and port. They are never called either, wherever their names lead at that time.
    pub blocked_servers: Vec<(String, u16)>,
    /// The timeout of connecting.
    pub connect_timeout: Duration,
    /// The default timeout of a request, including redirects and body.
    pub timeout: Duration,
    /// The longest pause between two chunks of a response body.
    pub idle_timeout: Duration,
    /// The largest response body in bytes, after decompression.
    pub max_response: usize,
    /// The largest file that a call writes, in bytes: the setting `limits.fileSize`.
    pub max_file: u64,
    /// The largest number of concurrent requests to one host; further requests wait.
    pub per_host: usize,
    /// True if Debug Request of a raw GraphQL request may log credentials, as its specification defines it.
    pub allow_credential_debug: bool,
    /// Hides secrets in excerpts of responses.
    pub redactor: Redactor,
    /// Resolves host names.
    pub lookup: Arc<dyn Lookup>,
    /// The clock, which also delays retries inside an action.
    pub timer: Arc<dyn Timer>,
    /// The destination of requests.
    pub transport: Transport,
    /// Holds requests back while they must not leave the process; `None` if they always may.
    pub gate: Option<Arc<dyn Gate>>,
}

/// The destination of requests.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// The network.
    #[default]
    Network,
    /// A cassette: requests go to the network and are recorded, or a recording answers them offline.
    Cassette(Arc<Cassette>),
    /// None: every request fails.
    Disabled,
}

impl Transport {
    /// True if requests reach the network.
    fn is_open(&self) -> bool {
        match self {
            Self::Network => true,
            Self::Cassette(cassette) => cassette.is_recording(),
            Self::Disabled => false,
        }
    }
}

impl Default for HttpOptions {
    /// Returns the limits of threat model 4.4: 5 s to connect, 60 s in total, 15 s idle, 10 MiB, 16 per host, no
    /// private addresses.
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            blocked_own: Vec::new(),
            blocked_servers: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(15),
            max_response: 10 << 20,
            max_file: MAX_FILE,
            per_host: 16,
            allow_credential_debug: false,
            redactor: Redactor::default(),
            lookup: Arc::new(SystemLookup),
            timer: Arc::new(SystemTimer),
            transport: Transport::Network,
            gate: None,
        }
    }
}

/// The clock of actions; tests replace it to avoid waiting.
#[async_trait]
pub trait Timer: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
    /// Returns after this time.
    async fn pause(&self, wait: Duration);
}

/// The clock of the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemTimer;

#[async_trait]
impl Timer for SystemTimer {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that is injected")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn pause(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
    }
}

/// Decides if requests may leave the process. A daemon that shares its store, and that the others may have declared dead, must not
/// send any: they would make the same calls.
pub trait Gate: Send + Sync {
    /// Returns true if a request may be sent now. Cheap: called right before each request, and before its body.
    fn is_open(&self) -> bool;
}

/// The time between two questions to a closed gate.
const GATE_CHECK: Duration = Duration::from_millis(50);

/// The HTTP client of the process. It owns the connection pool.
pub struct Http {
    /// `None` if no request reaches the network.
    client: Option<reqwest::Client>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) host_limits: host_limits::HostLimits,
    pub(crate) hosts: host_health::HostTable,
    pub(crate) greetings: Arc<crate::net::greetings::Greetings>,
    /// Turns to read files for the body of a request.
    encoders: Semaphore,
    file_memory: FileMemory,
    options: HttpOptions,
}

impl Http {
    /// Creates a client with these rules.
    ///
    /// # Errors
    /// Returns an error if the TLS configuration of the system is unusable.
    pub fn new(options: HttpOptions) -> Result<Self, Error> {
        let guard = Guard::new(options.allow.clone(), options.blocked_own.clone(), options.lookup.clone());
        let guard = Arc::new(guard.with_servers(&options.blocked_servers));
        let client = options.transport.is_open().then(|| Self::client(&options, &guard)).transpose()?;
        let host_limits = host_limits::HostLimits::new(options.per_host);
        let hosts = host_health::HostTable::default();
        let (encoders, file_memory) = (Semaphore::new(ENCODERS), FileMemory::default());
        let greetings = Arc::default();
        Ok(Self { client, guard, host_limits, hosts, greetings, encoders, file_memory, options })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the guarded client that everybody else is to use")]
    fn client(options: &HttpOptions, guard: &Arc<Guard>) -> Result<reqwest::Client, Error> {
        install_crypto();
        let client = reqwest::Client::builder()
            .user_agent(concat!("cogwork/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            .dns_resolver(resolve::Resolver(guard.clone()))
            // A proxy from the environment would resolve names without the guard.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .http2_max_header_list_size(u32::try_from(MAX_RESPONSE_HEADERS).unwrap_or(u32::MAX))
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(options.per_host)
            .build()?;
        Ok(client)
    }

    /// Returns the options that it was created with.
    #[must_use]
    pub fn options(&self) -> &HttpOptions {
        &self.options
    }

    /// Returns the memory that all files of calls share while they are written and read.
    #[must_use]
    pub fn file_memory(&self) -> &FileMemory {
        &self.file_memory
    }

    /// Returns the state of each host that was called: its rate limit, its back-off and its circuit breaker.
    #[must_use]
    pub fn health(&self) -> Vec<HostHealth> {
        self.hosts.health()
    }

    /// Resolves a host for another protocol than HTTP, under the rules of the guard.
    pub(crate) async fn resolve_checked(
        &self,
        host: &str,
        port: u16,
        subject: &str,
    ) -> Result<IpAddr, ActionError> {
        let addresses = self.resolve_all(host, port, subject).await?;
        let first = addresses.first().map(SocketAddr::ip);
        first.ok_or_else(|| transport_failure::lookup_error(subject, host, &io::ErrorKind::NotFound.into()))
    }

    /// As [`Self::resolve_checked`], with all addresses.
    pub(crate) async fn resolve_all(
        &self,
        host: &str,
        port: u16,
        subject: &str,
    ) -> Result<Vec<SocketAddr>, ActionError> {
        if self.client.is_none() {
            return Err(transport_failure::network_disabled(subject));
        }
        let addresses = self.guard.resolve(host, port).await;
        let addresses = addresses.map_err(|error| transport_failure::lookup_error(subject, host, &error))?;
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// Waits until a request may leave the process. Nothing that takes long may come between this and the request: a process can be
    /// frozen at any point, and be declared dead meanwhile.
    pub(crate) async fn pass_gate(&self) {
        while self.options.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            self.timer().pause(GATE_CHECK).await;
        }
    }

    /// Returns the clock of actions.
    #[must_use]
    pub fn timer(&self) -> &dyn Timer {
        &*self.options.timer
    }

    /// True if the setting `outbound.allow` names the host of an address: the operator knows the network between.
    #[must_use]
    pub fn is_named(&self, url: &url::Url) -> bool {
        self.guard.is_named_host(url)
    }

    /// True if the settings allow an action to log its credentials.
    #[must_use]
    pub fn may_reveal_credentials(&self) -> bool {
        self.options.allow_credential_debug
    }
}

/// The context of one request: the called system, the connection, and the logging.
pub(crate) struct RequestContext<'a> {
    /// The called system as messages name it: `the wiki`.
    pub subject: &'a str,
    pub connection: Option<&'a ResolvedConnection>,
    pub idempotency_key: &'a str,
    pub log_detail: LogDetail,
    pub host_policy: HostPolicy,
    pub log: &'a dyn LogSink,
    pub trace: Option<&'a Trace>,
    pub answers: &'a dyn AnswerMemory,
    /// Takes the body of a good answer; `None` to have it in memory.
    pub body: Option<&'a dyn BodySink>,
    /// False if a recording must not have the exchange, whose answer is a credential.
    pub is_recorded: bool,
}

/// The checks of a host's state that a request must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostPolicy {
    /// A short back-off delays the request; a longer one and an open circuit are errors.
    Full,
    /// Only a `Retry-After` of the host applies, and always as an error with `not_sent`. Used where the author set
    /// retries on the call itself: the caller then waits without counting an attempt.
    RetryAfterOnly,
}

/// The amount of detail logged of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogDetail {
    None,
    /// All but credentials.
    Masked,
    /// All, including credentials.
    Full,
}

impl RequestContext<'_> {
    fn connection_name(&self) -> Option<&str> {
        self.connection.map(|connection| connection.name.as_str())
    }

    fn log_debug(&self, text: impl FnOnce() -> String) {
        if self.log_detail != LogDetail::None {
            self.log.line(LogLevel::Info, &text());
        }
    }
}

/// The result of sending a request.
type SendResult = Result<Response, ActionError>;
