//! Connections to other systems for protocols other than HTTP, under the guard, the gate and the states of hosts that requests
//! have.

pub(crate) mod greetings;
mod probe;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::{ActionError, ErrorKind};
use tokio::net::TcpStream;
use url::Url;

use crate::http::{CallOutcome, Gate, HostPolicy, Http, Timer, transport_failure};
use crate::log::LogSink;

pub use greetings::Greeting;
pub use tls::{TlsFiles, secure, tls_config, tls_config_for};

/// Opens connections. It is the only way to a socket, as [`Http`] is for requests.
#[derive(Clone, Copy)]
pub struct Dialer<'a>(&'a Http);

/// A server to connect to.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// The name or the address.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// The called system as messages name it: `the database`.
    pub subject: &'a str,
    /// The name of the connection, by which the state of the host is kept.
    pub connection: Option<&'a str>,
}

/// A connection, and the way to another one.
#[derive(Debug)]
pub struct Dialed {
    /// The connection, without TLS.
    pub stream: TcpStream,
    /// The way to the same address.
    pub route: Route,
}

/// The checked address of a server.
#[derive(Clone)]
pub struct Route {
    address: SocketAddr,
    is_allowed: bool,
    timeout: Duration,
    gate: Option<Arc<dyn Gate>>,
    timer: Arc<dyn Timer>,
    greetings: Arc<greetings::Greetings>,
}

impl Http {
    /// Returns what opens connections for protocols other than HTTP.
    #[must_use]
    pub fn dialer(&self) -> Dialer<'_> {
        Dialer(self)
    }
}

impl Dialer<'_> {
    /// Connects to a server: resolves its name, checks every address, waits for a slot of the host, for its back-off and for the gate,
    /// and connects to the first checked address that answers.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Blocked`] if an address may not be called, [`ErrorKind::Connection`] if `host` is no host, and
    /// [`ErrorKind::Network`] or [`ErrorKind::Timeout`] if no address answers. Nothing was sent in any case.
    pub async fn dial(&self, to: &Endpoint<'_>, log: &dyn LogSink) -> Result<Dialed, ActionError> {
        self.connect(to, log).await.map_err(transport_failure::not_sent)
    }

    async fn connect(&self, to: &Endpoint<'_>, log: &dyn LogSink) -> Result<Dialed, ActionError> {
        let http = self.0;
        let url = url_of(to)?;
        let addresses = http.resolve_all(to.host, to.port, to.subject).await?;
        let asked_at = http.timer().now();
        let _permit = http.host_limits.acquire(&url).await;
        let now = http.timer().now();
        let wait = http.hosts.admit(&url, to.connection, to.subject, HostPolicy::Full, now)?;
        if !wait.is_zero() {
            http.timer().pause(wait).await;
        }
        let waited = Duration::try_from(asked_at.duration_until(now)).unwrap_or_default() + wait;
        if !waited.is_zero() {
            log.record_host_wait(to.host, waited);
        }
        http.pass_gate().await;
        let options = http.options();
        let connected = tokio::time::timeout(options.connect_timeout, first_of(&addresses)).await;
        let target =
            transport_failure::describe_target(to.subject, to.host, &format!("{}:{}", to.host, to.port));
        let connected = match connected {
            Ok(connected) => connected.map_err(|error| {
                ActionError::new(ErrorKind::Network, format!("{target} cannot be reached: {error}"))
            }),
            Err(_) => {
                let limit = text::units::format_duration(options.connect_timeout);
                let message = format!("{target} did not answer within {limit}");
                Err(ActionError::new(ErrorKind::Timeout, message))
            }
        };
        let outcome = connected.as_ref().map_or_else(CallOutcome::Failure, |_| CallOutcome::Connected);
        http.hosts.record(&url, to.connection, &outcome, http.timer().now());
        let (stream, address) = connected?;
        let is_allowed = http.guard.is_named(to.host, address.ip());
        let route = Route {
            address,
            is_allowed,
            timeout: options.connect_timeout,
            gate: options.gate.clone(),
            timer: options.timer.clone(),
            greetings: http.greetings.clone(),
        };
        Ok(Dialed { stream, route })
    }

    /// Waits until something may leave the process, as before each request. Nothing that takes long may come between this and the
    /// message that changes something.
    pub async fn pass_gate(&self) {
        self.0.pass_gate().await;
    }
}

impl Route {
    /// Connects to the same address once more, to cancel what runs there.
    ///
    /// # Errors
    /// Returns an error if there is no answer, or if nothing may leave the process at the moment.
    pub async fn again(&self) -> io::Result<TcpStream> {
        if self.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        tokio::time::timeout(self.timeout, open(self.address)).await?
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if the setting `outbound.allow` names the address or the host: the operator knows the network between.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Route").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The address by which the slots and the state of a host are kept.
fn url_of(to: &Endpoint<'_>) -> Result<Url, ActionError> {
    let host = url::Host::parse(to.host).ok();
    let url = host.and_then(|host| Url::parse(&format!("tcp://{host}:{}", to.port)).ok());
    url.ok_or_else(|| {
        let message =
            format!("`host` of {} is not the name of a server, such as `db.example.com`", to.subject);
        ActionError::new(ErrorKind::Connection, message)
    })
}

async fn first_of(addresses: &[SocketAddr]) -> io::Result<(TcpStream, SocketAddr)> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match open(*address).await {
            Ok(stream) => return Ok((stream, *address)),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests;
