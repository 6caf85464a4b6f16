//! The connections that steps share.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use connector::ResolvedConnection;
use connector::net::{Endpoint, Route, TlsFiles, secure, tls_config};
use model::{ActionError, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::connection::Inputs;
use crate::explain::{Protocol, explained};
use crate::stream::family::Target;

/// The time limit of a connection, of its TLS and of the login.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The time limit of an answer.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(10);
/// The time after which a connection that no step uses is closed by the next step.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// The largest number of connections that are kept.
const MAX_KEPT: usize = 64;

/// A connection that several steps may use at one time. Once it is lost it stays so: the next one is dialled, and checked, anew.
pub(crate) trait Shared: Clone {
    /// Connects and logs in.
    async fn open(target: Target<'_>) -> Result<Self, ActionError>;

    /// True while the connection is open. It never becomes true again: the next one is dialled, and checked, anew.
    fn is_usable(&self) -> bool;
}

/// The connections that steps use, by the values of their connection.
pub(crate) struct Links<L>(Mutex<HashMap<[u8; 32], Kept<L>>>);

/// A connection with the time at which a step last asked for it.
struct Kept<L> {
    link: L,
    used: Instant,
    /// Tells it from its successor.
    opened: Instant,
}

impl<L> Default for Links<L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<L: Shared> Links<L> {
    /// Runs a step over the connection that an earlier one has opened, or a new one. A connection over which a step has had no
    /// answer within its time is used by no further step: it may be dead.
    pub(crate) async fn run<T>(
        &self,
        target: Target<'_>,
        step: impl AsyncFnOnce(&L) -> Result<T, ActionError>,
    ) -> Result<T, ActionError> {
        let values = Inputs(target.connection).digest();
        let (link, opened) = match self.kept(&values) {
            Some(kept) => kept,
            None => self.keep(values, L::open(target).await?),
        };
        // Dropped with the step, whose time limit may be shorter than that of an answer.
        let mut unanswered = Unanswered { links: self, of: Some((values, opened)) };
        let done = step(&link).await;
        if !done.as_ref().is_err_and(|error| error.kind == ErrorKind::Timeout) {
            unanswered.of = None;
        }
        done
    }

    fn kept(&self, values: &[u8; 32]) -> Option<(L, Instant)> {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, kept| kept.link.is_usable() && now.saturating_duration_since(kept.used) < MAX_IDLE);
        let kept = all.get_mut(values)?;
        kept.used = now;
        Some((kept.link.clone(), kept.opened))
    }

    fn keep(&self, values: [u8; 32], link: L) -> (L, Instant) {
        let opened = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_KEPT {
            all.insert(values, Kept { link: link.clone(), used: opened, opened });
        }
        (link, opened)
    }
}

/// A step without an answer. Dropping it gives its connection up.
struct Unanswered<'l, L> {
    links: &'l Links<L>,
    /// `None` once there is an answer.
    of: Option<([u8; 32], Instant)>,
}

impl<L> Drop for Unanswered<'_, L> {
    fn drop(&mut self) {
        let Some((values, opened)) = self.of else { return };
        let mut all = self.links.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(&values).is_some_and(|kept| kept.opened == opened) {
            all.remove(&values);
        }
    }
}

/// The certificates that a connection names.
pub(crate) fn tls_files(inputs: Inputs<'_>) -> Result<TlsFiles<'_>, ActionError> {
    let client = match (inputs.text("clientCert"), inputs.text("clientKey")) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => return Err(inputs.refuse("`clientCert` and `clientKey` are given together or not at all")),
    };
    Ok(TlsFiles { authorities: inputs.text("ca"), client })
}

/// A connection, encrypted or not.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// Dials the server of a connection with the inputs `host`, `port`, `tls`, `ca`, `clientCert` and `clientKey`. `ports` are the usual ones
/// without and with TLS. Returns the way to the server with a connection without TLS; with TLS the handshake has shown what it speaks.
pub(crate) async fn dial(
    Target { http, connection, log }: Target<'_>,
    (subject, ports): (&str, (u16, u16)),
) -> Result<(Box<dyn Duplex>, Option<Route>), ActionError> {
    let inputs = Inputs(connection);
    let (to, uses_tls) = endpoint(connection, subject, ports);
    let config = match uses_tls {
        false => None,
        true => Some(tls_config(tls_files(inputs)?).map_err(|error| inputs.refuse(error))?),
    };
    let dialed = http.dialer().dial(&to, log).await?;
    let Some(config) = config else {
        inputs.check_open(&dialed.route, (subject, "tls: none"), log)?;
        return Ok((Box::new(dialed.stream), Some(dialed.route)));
    };
    let secured = tokio::time::timeout(CONNECT_TIME, secure(dialed.stream, config, to.host)).await;
    let failed = |error| not_sent(network(&format!("the connection to {subject} failed: {error}")));
    match secured.map_err(|_| no_login(subject)).and_then(|secured| secured.map_err(failed)) {
        Ok(secured) => Ok((Box::new(secured), None)),
        Err(error) => Err(explained(error, &dialed.route, to.host, (SILENT, true)).await),
    }
}

/// The protocol of servers that wait for the client.
const SILENT: Protocol = Protocol { greets_as: None, tls_first: true, without_tls: "tls: none" };

/// The server of a connection, and true if it is called with TLS.
fn endpoint<'c>(
    connection: &'c ResolvedConnection,
    subject: &'c str,
    ports: (u16, u16),
) -> (Endpoint<'c>, bool) {
    let inputs = Inputs(connection);
    let uses_tls = inputs.text("tls") != Some("none");
    let usual = if uses_tls { ports.1 } else { ports.0 };
    let port = inputs.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(usual);
    let host = inputs.text("host").unwrap_or_default();
    (Endpoint { host, port, subject, connection: Some(&connection.name) }, uses_tls)
}

/// Adds the likely cause to the error of a login over a connection that [`dial`] has opened.
pub(crate) async fn explained_login(
    error: ActionError,
    Target { connection, .. }: Target<'_>,
    route: Option<&Route>,
) -> ActionError {
    let host = Inputs(connection).text("host").unwrap_or_default();
    match route {
        Some(route) if error.kind != ErrorKind::Connection => {
            explained(error, route, host, (SILENT, false)).await
        }
        _ => error,
    }
}

/// The error of a server that did not answer while a connection was opened.
pub(crate) fn no_login(subject: &str) -> ActionError {
    let limit = text::units::format_duration(CONNECT_TIME);
    let message = format!("{subject} did not answer within {limit}");
    not_sent(ActionError::new(ErrorKind::Timeout, message))
}

pub(crate) fn not_sent(mut error: ActionError) -> ActionError {
    error.not_sent = true;
    error
}

pub(crate) fn network(message: &str) -> ActionError {
    ActionError::new(ErrorKind::Network, message)
}

/// The error of a broker that refuses a request.
pub(crate) fn refused(message: String) -> ActionError {
    ActionError::new(ErrorKind::Response, message)
}
