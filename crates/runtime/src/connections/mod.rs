//! Connections at runtime: tokens, logins and call statistics.
//!
//! Tokens are encrypted in the store. Refreshes of a connection are serialised, and new tokens are durable before they
//! are used: a provider that rotates refresh tokens invalidates the old one with each use (threat model 4.8).

mod grant;
mod health;
mod login;
mod renewal;
mod tokens;

use std::sync::Arc;

use connector::oauth::{Flow, OAuthClient};
use connector::{HostHealth, ResolvedConnection};
use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use serde::Serialize;
use value::{Map, Reserved, Value};

use crate::context::Context;
use crate::error::Error;
use crate::locks::{KeyedLocks, StoreLock};
use crate::memory::Share;
use crate::vault::RowKind;
use catalog::Catalog;
use grant::Grant;
pub use health::Health;
pub use login::{LoginCallback, LoginState, StartedLogin};
use tokens::Tokens;

/// A connection: what it is and how it is doing, never what it holds.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Connection)]
pub struct ConnectionReport {
    /// Its name.
    pub name: String,
    /// The type, such as `wiki.basic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Description from its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The file, relative to the project folder.
    pub path: String,
    /// The diagnostics of the file as it is now; the version in force is the last that loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_error: Option<String>,
    /// The secrets that it reads and that are not set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_secrets: Vec<String>,
    /// The ids of the automations whose steps name it.
    pub used_by: Vec<String>,
    /// Its state.
    pub state: ConnectionState,
    /// Call statistics since the daemon started.
    #[serde(flatten)]
    pub health: Health,
    /// When its access token ends, for one with tokens. Another one is asked for before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The address of the site that its calls go to, where several are behind a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// The hosts that were called with it, as `GET /api/v1/hosts` has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostHealth>,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConnectionState {
    /// Not used since the daemon started.
    Unused,
    /// The last call succeeded.
    Healthy,
    /// The last call failed, or the circuit breaker of one of its hosts is open.
    Failing,
    /// A person must log in: `cogwork connections login`.
    NeedsLogin,
}

/// Runtime state of all connections.
pub struct Connections {
    context: Arc<Context>,
    health: health::HealthRegistry,
    logins: login::Logins,
    /// Per-connection locks around token refreshes.
    refreshing: KeyedLocks,
}

impl Connections {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            health: health::HealthRegistry::default(),
            logins: login::Logins::default(),
            refreshing: KeyedLocks::default(),
        }
    }

    /// Records the result of a call with a connection.
    pub(crate) fn note(&self, name: &str, now: Timestamp, error: Option<&ActionError>) {
        self.health.record(name, now, error);
    }
}

impl Connections {
    /// Waits until nobody else renews the tokens of a connection, on any node.
    async fn lock_connection(&self, name: &str) -> StoreLock {
        let Context { store, clock, .. } = &*self.context;
        StoreLock::take(&self.refreshing, store, &**clock, "connection", name).await
    }

    /// Resolves a connection for requests, with tokens if its type uses them.
    pub async fn connect(
        self: &Arc<Self>,
        catalog: &Catalog,
        name: &str,
    ) -> Result<ResolvedConnection, ActionError> {
        let connection = self.context.secrets.resolve(catalog, name).await?;
        let Some(client) = connection.oauth().cloned() else { return Ok(connection) };
        let tokens = Arc::new(Tokens::new(self.clone(), client.clone(), name));
        let base = if client.has_sites() { client.site_base(&tokens.site().await?)? } else { None };
        Ok(connection.with_tokens(tokens, base))
    }

    /// Reads the grant of a connection; `None` if this client has none.
    fn grant(&self, name: &str, client: &OAuthClient) -> Result<Option<Grant>, ActionError> {
        let unreadable = |error: Error| {
            ActionError::new(ErrorKind::Connection, format!("the connection `{name}`: {error}"))
        };
        let vault = self.context.vault.as_ref().ok_or_else(|| {
            ActionError::new(
                ErrorKind::Connection,
                format!("the connection `{name}` has no tokens in a test"),
            )
        })?;
        let found = vault.read(RowKind::Connection, name).map_err(unreadable)?;
        let grant = found.and_then(|text| Grant::read(&text)).filter(|grant| grant.is_for(client));
        if let Some(grant) = &grant {
            grant.hide(&self.context.settings.redactor);
        }
        Ok(grant)
    }

    /// Stores a grant durably.
    async fn keep_grant(&self, name: &str, grant: &Grant) -> Result<(), ActionError> {
        grant.hide(&self.context.settings.redactor);
        let failed = |error: Error| {
            let message = format!(
                "the tokens of the connection `{name}` cannot be kept, so they are not used: {error}"
            );
            ActionError::new(ErrorKind::Connection, message)
        };
        let vault = self.context.vault().map_err(failed)?;
        let text = grant.write();
        let written = vault.put(RowKind::Connection, name, &text, self.context.clock.now()).await;
        if let Err(Error::Store(error)) = &written {
            self.context.lost(error);
        }
        written.map_err(failed)
    }
}

impl Connections {
    /// Lists the connections in force with their state.
    #[must_use]
    pub fn reports(&self) -> Vec<ConnectionReport> {
        let (catalog, hosts) = (self.context.catalog(), self.hosts());
        let names = catalog.connections().map(|connection| connection.name.as_str());
        names.filter_map(|name| self.report(&catalog, name, &hosts)).collect()
    }

    /// Lists the called hosts with rate limits and availability. Secrets are masked.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostHealth> {
        let hidden = |mut host: HostHealth| {
            let redactor = &self.context.settings.redactor;
            let limits = host.rate_limit.iter_mut();
            let limits = limits.flat_map(|limit| {
                [&mut limit.limit, &mut limit.remaining, &mut limit.reset, &mut limit.reason]
            });
            for text in limits.flatten().chain([&mut host.host]) {
                *text = redactor.redact_message(text).into_owned();
            }
            host
        };
        self.context.http.health().into_iter().map(hidden).collect()
    }

    /// Describes the connection with this name, if any.
    #[must_use]
    pub fn connection(&self, name: &str) -> Option<ConnectionReport> {
        self.report(&self.context.catalog(), name, &self.hosts())
    }

    fn report(&self, catalog: &Catalog, name: &str, hosts: &[HostHealth]) -> Option<ConnectionReport> {
        let connection = catalog.connection(name)?;
        let kind = catalog.registry().connection_type(&connection.kind);
        let used_by = catalog.users_of(name);
        let health = self.health.get(name);
        let hosts: Vec<HostHealth> =
            hosts.iter().filter(|host| host.connection.as_deref() == Some(name)).cloned().collect();
        let now = self.context.clock.now();
        let is_closed = hosts.iter().any(|host| host.open_until.is_some_and(|until| now < until));
        let mut state = if is_closed { ConnectionState::Failing } else { health.state() };
        let (mut expires_at, mut site) = (None, None);
        if kind.is_some_and(connector::ConnectionType::has_tokens) {
            let client = self
                .context
                .secrets
                .resolve_known(catalog, name)
                .ok()
                .and_then(|found| found.oauth().cloned());
            let grant = client.as_ref().and_then(|client| self.grant(name, client).ok().flatten());
            let asks = client.as_ref().is_none_or(|client| client.flow() == Flow::AuthorizationCode);
            if asks && grant.as_ref().is_none_or(|grant| grant.is_lost()) {
                state = ConnectionState::NeedsLogin;
            }
            expires_at = grant.as_ref().and_then(|grant| grant.expires_at);
            site = grant.and_then(|grant| grant.site.clone()).map(|site| site.url);
        }
        Some(ConnectionReport {
            name: connection.name.clone(),
            kind: connection.kind.clone(),
            description: connection.description.clone(),
            path: connection.source.path().to_owned(),
            file_error: catalog.error_of(connection.source.path()),
            missing_secrets: catalog
                .missing_secrets_of(connection, &|secret| self.context.secrets.is_set(secret)),
            used_by,
            state,
            health,
            expires_at,
            site,
            hosts,
        })
    }

    /// Calls an action with a connection, outside of an execution. The secrets in an error of the call are redacted.
    ///
    /// # Errors
    /// Returns an error if there is no such action, or the inputs do not fit it. A failed call is part of the result.
    pub async fn call(
        self: &Arc<Self>,
        catalog: &Catalog,
        name: &str,
        action: &str,
        inputs: &Map,
    ) -> Result<Result<Value, ActionError>, Error> {
        let found = catalog.registry().action(action).cloned();
        let action = found.ok_or_else(|| Error::Input(format!("there is no action `{action}`")))?;
        let inputs = connector::check_inputs(action.spec(), inputs, &Reserved::nothing())
            .map_err(|error| Error::Input(error.into_message()))?;
        let share = Share::default();
        let called = async {
            let connection = self.connect(catalog, name).await?;
            let renewed = std::sync::OnceLock::new();
            let call = connector::Call {
                inputs: &inputs,
                connection: Some(&connection),
                idempotency_key: "",
                may_repeat: false,
                memory: &Reserved::nothing(),
                answers: &self.context.answer_memory(&share),
                http: &self.context.http,
                debug: false,
                log: &NoLog,
                trace: None,
                files: self.context.file_access(),
                time_left: None,
            };
            self.call_renewing(catalog, (call, &renewed), |call| action.call(call)).await
        };
        Ok(called.await.map_err(|error| error.redacted(&self.context.settings.redactor)))
    }

    /// Calls the test action that the connector declares for this type of connection.
    ///
    /// # Errors
    /// Returns an error if there is no such connection, or its type declares no test. A failed call is part of the
    /// result.
    pub async fn test_connection(self: &Arc<Self>, name: &str) -> Result<ConnectionTest, Error> {
        let catalog = self.context.catalog();
        let connection = catalog.connection(name).ok_or_else(|| unknown_connection(&catalog, name))?;
        let kind = catalog.registry().connection_type(&connection.kind);
        let Some(test) = kind.and_then(|kind| kind.test()) else {
            let message = format!("the type `{}` names no call to test a connection with", connection.kind);
            return Err(Error::Input(message));
        };
        let began = self.context.clock.now();
        let error = self.call(&catalog, name, &test.action, &test.with).await?.err();
        let now = self.context.clock.now();
        self.note(name, now, error.as_ref());
        let took = now.as_millisecond() - began.as_millisecond();
        Ok(ConnectionTest {
            action: test.action.clone(),
            took_ms: u64::try_from(took).unwrap_or_default(),
            error,
        })
    }
}

/// Result of a test call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionTest {
    /// The called action.
    pub action: String,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// Error of the call; `None` if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ActionError>,
}

struct NoLog;

impl connector::LogSink for NoLog {
    fn line(&self, _: model::LogLevel, _: &str) {}
}

/// Builds the error for an unknown connection, with the nearest existing name.
fn unknown_connection(catalog: &Catalog, name: &str) -> Error {
    let names = catalog.connections().map(|connection| connection.name.as_str());
    let nearest = text::diagnostic::nearest(name, names).map(str::to_owned);
    Error::NoSuchConnection { name: name.to_owned(), nearest }
}
