//! The one way out: every request of every action passes the guard, the limits and the redirect rules here.

pub mod guard;

mod cassette;
mod debug;
mod failure;
mod hosts;
mod multipart;
mod pieces;
mod request;
mod resolve;
mod response;
mod send;
mod slots;

#[cfg(test)]
pub(crate) mod testing;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use model::redact::Redactor;
use model::{ActionError, LogLevel};

use crate::connection::ResolvedConnection;
use crate::error::Error;
use crate::log::LogSink;
use crate::trace::Trace;
use guard::Guard;

pub use cassette::{
    Exchange, HeaderValues, RecordedBody, RecordedPart, RecordedRequest, RecordedResponse, Recording, Tape,
    Unrecorded,
};
pub use guard::AllowList;
pub use hosts::{HostHealth, OPEN_AFTER, OPEN_AT_MOST, OPEN_FOR, RateLimit};
pub use multipart::Part;
pub use pieces::Pieces;
pub use request::{Body, Request};
pub use resolve::{Lookup, SystemLookup};
pub use response::Response;

pub use failure::may_have_acted;
pub(crate) use failure::{ErrorShape, dig};
pub(crate) use request::{decode, encode, whole};
pub(crate) use response::Reading;

/// How many redirects of a GET or HEAD are followed (threat model 4.4).
pub const MAX_REDIRECTS: usize = 5;
/// The most bytes that the headers of an answer may have (threat model 4.4).
pub const MAX_RESPONSE_HEADERS: usize = 64 * 1024;
/// The longest time that an input may ask a request to be given.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Installs the cryptography that TLS uses. Call it first thing in `main`; calling it again does nothing.
///
/// Without it the first HTTPS request of the process would panic, so [`Http::new`] calls it too.
pub fn install_crypto() {
    // An error means that one is installed already, which is just as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The limits and rules of outgoing requests.
#[derive(Clone)]
pub struct HttpOptions {
    /// What the guard lets through although it is private.
    pub allow: AllowList,
    /// The addresses of our own listeners and of the database: never called, whatever `allow` says.
    pub blocked_own: Vec<SocketAddr>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a request may take in all, redirects and body included, unless an input says otherwise.
    pub timeout: Duration,
    /// How long an answer may pause between two pieces of its body.
    pub idle_timeout: Duration,
    /// The most bytes that a body may have, after inflating.
    pub max_response: usize,
    /// How many requests go to one host at once; further ones wait.
    pub per_host: usize,
    /// Whether Debug Request of a raw GraphQL request shows credentials, as its specification has it.
    pub allow_credential_debug: bool,
    /// Hides secrets where a text of the other side is cut.
    pub redactor: Redactor,
    /// How names become addresses.
    pub lookup: Arc<dyn Lookup>,
    /// The clock, and how retries inside an action wait.
    pub timer: Arc<dyn Timer>,
    /// Where requests go.
    pub transport: Transport,
}

/// Where requests go.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// Out into the world.
    #[default]
    Wire,
    /// Onto a tape: out into the world and recorded, or answered from a recording without going anywhere.
    Tape(Arc<Tape>),
    /// Nowhere: every request is refused.
    Nowhere,
}

impl Transport {
    /// Whether anything goes out.
    fn is_open(&self) -> bool {
        match self {
            Self::Wire => true,
            Self::Tape(tape) => tape.records(),
            Self::Nowhere => false,
        }
    }
}

impl Default for HttpOptions {
    /// The limits of threat model 4.4: 5 s to connect, 60 s in all, 15 s idle, 10 MiB, 16 a host, nothing private.
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            blocked_own: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(15),
            max_response: 10 << 20,
            per_host: 16,
            allow_credential_debug: false,
            redactor: Redactor::default(),
            lookup: Arc::new(SystemLookup),
            timer: Arc::new(SystemTimer),
            transport: Transport::Wire,
        }
    }
}

/// The clock of an action, so that tests need not wait.
#[async_trait]
pub trait Timer: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
    /// Returns after this long.
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

/// Sends requests. One for the whole process: it holds the pool of connections.
pub struct Http {
    /// Absent where nothing goes out.
    client: Option<reqwest::Client>,
    guard: Arc<Guard>,
    slots: slots::Slots,
    hosts: hosts::Hosts,
    options: HttpOptions,
}

impl Http {
    /// A way out under these rules.
    ///
    /// # Errors
    /// The TLS set-up of the system cannot be used.
    pub fn new(options: HttpOptions) -> Result<Self, Error> {
        let guard =
            Arc::new(Guard::new(options.allow.clone(), options.blocked_own.clone(), options.lookup.clone()));
        let client = options.transport.is_open().then(|| Self::client(&options, &guard)).transpose()?;
        let slots = slots::Slots::new(options.per_host);
        Ok(Self { client, guard, slots, hosts: hosts::Hosts::default(), options })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the guarded client that everybody else is to use")]
    fn client(options: &HttpOptions, guard: &Arc<Guard>) -> Result<reqwest::Client, Error> {
        install_crypto();
        let client = reqwest::Client::builder()
            .user_agent(concat!("cogwork/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(options.connect_timeout)
            .dns_resolver(resolve::Resolver(guard.clone()))
            // A proxy from the environment would resolve names behind the guard's back.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .http2_max_header_list_size(u32::try_from(MAX_RESPONSE_HEADERS).unwrap_or(u32::MAX))
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(options.per_host)
            .build()?;
        Ok(client)
    }

    /// The rules it was made with.
    #[must_use]
    pub fn options(&self) -> &HttpOptions {
        &self.options
    }

    /// How the hosts do that were called: their limits, whom they asked to wait, whether they answer.
    #[must_use]
    pub fn health(&self) -> Vec<HostHealth> {
        self.hosts.health()
    }

    /// An address of a host that is called by another protocol, judged as those of all requests are.
    pub(crate) async fn judged(&self, host: &str, port: u16, subject: &str) -> Result<IpAddr, ActionError> {
        if self.client.is_none() {
            return Err(failure::nowhere(subject));
        }
        self.guard.find(host, port).await.map_err(|error| failure::unfound(subject, host, &error))
    }

    pub(crate) fn timer(&self) -> &dyn Timer {
        &*self.options.timer
    }

    /// Whether the settings let an action log its credentials that was asked to.
    #[must_use]
    pub fn may_reveal_credentials(&self) -> bool {
        self.options.allow_credential_debug
    }
}

/// What surrounds one request: who is spoken to, on whose behalf, and what is logged of it.
pub(crate) struct Context<'a> {
    /// Who is called, in the words of messages: `the wiki`.
    pub subject: &'a str,
    pub connection: Option<&'a ResolvedConnection>,
    pub idempotency_key: &'a str,
    pub detail: Detail,
    pub admission: Admission,
    pub log: &'a dyn LogSink,
    pub trace: Option<&'a Trace>,
}

/// How far a request is bound by what is remembered of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// A short wait that the host is owed is waited for, a longer one and an open circuit are an error.
    Ordinary,
    /// The author gave the call retries of its own: only a `Retry-After` that the host sent counts, and it is always an error with
    /// `not_sent`, so that the caller waits and does not take it for an attempt.
    OwnRetries,
}

/// How much of a request is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Nothing,
    /// Everything but credentials.
    Masked,
    /// Everything.
    Everything,
}

impl Context<'_> {
    fn connection_name(&self) -> Option<&str> {
        self.connection.map(|connection| connection.name.as_str())
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if self.detail != Detail::Nothing {
            self.log.line(LogLevel::Info, &text());
        }
    }
}

/// What sending gives.
type Sent = Result<Response, ActionError>;
