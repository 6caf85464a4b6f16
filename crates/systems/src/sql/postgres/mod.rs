//! PostgreSQL.

mod decode;
mod encode;
mod failure;
mod limited;
mod listen;
mod time;
mod zone;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connector::Call;
use connector::net::{Endpoint, Route, TlsFiles, tls_config};
use futures_util::TryStreamExt as _;
use model::{ActionError, ErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::description::Description;
use super::params::Bound;
use super::rows::{Column, MAX_ROW, RowSink};
use super::session::{Class, Done, Failure, Mode, Session};
use crate::connection::Inputs;
use crate::explain::{Protocol, explained};
use failure::failure;
use limited::{LimitedTls, TooLarge, limited};

/// The settings of a session. A transaction of a process that stands still does not hold others up for longer than a minute.
const SESSION: &str = "set time zone 'UTC'; set intervalstyle = 'iso_8601'; set datestyle = 'ISO, MDY'; \
     set standard_conforming_strings = on; set client_encoding = 'UTF8'; set extra_float_digits = 1; \
     set idle_in_transaction_session_timeout = '60s'; set client_min_messages = warning";
/// The prepared statements that a session keeps.
const MAX_PREPARED: usize = 100;
/// The time for a request that cancels a statement.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// A client asks for TLS.
const PROTOCOL: Protocol = Protocol { greets_as: None, tls_first: false, without_tls: "tls: none" };

/// The server of a connection.
pub(super) struct PostgresServer<'a> {
    inputs: Inputs<'a>,
    subject: &'a str,
}

type Tls = Option<Arc<MakeRustlsConnect>>;

impl<'a> PostgresServer<'a> {
    pub(super) fn of(inputs: Inputs<'a>, subject: &'a str) -> Self {
        Self { inputs, subject }
    }

    /// Opens a session.
    pub(super) async fn open(&self, call: &Call<'_>) -> Result<Box<dyn Session>, ActionError> {
        Ok(Box::new(self.connect(call, Arc::default()).await?))
    }

    /// Opens a session that tells `seen` of notifications.
    async fn connect(&self, call: &Call<'_>, seen: Arc<Notify>) -> Result<PostgresSession, ActionError> {
        let (inputs, subject) = (self.inputs, self.subject);
        let host = inputs.text("host").unwrap_or_default();
        let port = inputs.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(5432);
        let tls = self.tls()?;
        let to = Endpoint { host, port, subject, connection: Some(&inputs.0.name) };
        let dialed = call.http.dialer().dial(&to, call.log).await?;
        let password = inputs.text("password");
        if tls.is_none() {
            inputs.check_open(&dialed.route, (subject, "tls: none"), call.log)?;
        }
        let mut config = Config::new();
        config
            .user(inputs.text("user").unwrap_or_default())
            .dbname(inputs.text("database").unwrap_or_default())
            .application_name("cogwork")
            .ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if let Some(password) = password {
            config.password(password);
        }
        let refused = |error: &tokio_postgres::Error| failure(error, subject, &[]).error;
        let too_large = TooLarge::default();
        let (client, task) = match &tls {
            Some(tls) => {
                let tls = rustls(tls, host).map_err(|error| inputs.refuse(error))?;
                let tls = LimitedTls::new(tls, too_large.clone());
                match config.connect_raw(dialed.stream, tls).await {
                    Ok((client, connection)) => (client, drive(connection, seen)),
                    Err(error) => {
                        return Err(explained(refused(&error), &dialed.route, host, (PROTOCOL, true)).await);
                    }
                }
            }
            None => {
                let stream = limited(dialed.stream, too_large.clone());
                match config.connect_raw(stream, NoTls).await {
                    Ok((client, connection)) => (client, drive(connection, seen)),
                    Err(error) => {
                        return Err(explained(refused(&error), &dialed.route, host, (PROTOCOL, false)).await);
                    }
                }
            }
        };
        let settings = self.settings();
        client.batch_execute(&settings).await.map_err(|error| refused(&error))?;
        let subject = subject.to_owned();
        let (host, route) = (host.to_owned(), dialed.route);
        let prepared = HashMap::new();
        let (is_busy, is_cut) = (false, false);
        Ok(PostgresSession { client, task, route, tls, host, subject, prepared, too_large, is_busy, is_cut })
    }

    fn tls(&self) -> Result<Tls, ActionError> {
        let inputs = self.inputs;
        if inputs.text("tls") == Some("none") {
            return Ok(None);
        }
        let client = match (inputs.text("clientCert"), inputs.text("clientKey")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(inputs.refuse("`clientCert` and `clientKey` are given together or not at all")),
        };
        let config = tls_config(TlsFiles { authorities: inputs.text("ca"), client });
        let config = config.map_err(|error| inputs.refuse(error))?;
        Ok(Some(Arc::new(MakeRustlsConnect::new((*config).clone()))))
    }

    fn settings(&self) -> String {
        let mut settings = SESSION.to_owned();
        if let Some(schema) = self.inputs.text("schema") {
            let schema = super::statement::Dialect::Postgres.quoted(schema);
            settings.push_str(&format!("; set search_path = {schema}"));
        }
        if self.inputs.flag("readOnly") {
            settings.push_str("; set default_transaction_read_only = on");
        }
        settings
    }
}

type RustlsConnect = <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<TcpStream>>::TlsConnect;

fn rustls(tls: &MakeRustlsConnect, host: &str) -> Result<RustlsConnect, String> {
    let mut make = tls.clone();
    let made: Result<RustlsConnect, _> =
        tokio_postgres::tls::MakeTlsConnect::<TcpStream>::make_tls_connect(&mut make, host);
    made.map_err(|error| format!("`host`: {error}"))
}

/// Carries the messages of a connection until its client is dropped.
fn drive<S, T>(mut connection: Connection<S, T>, seen: Arc<Notify>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: tokio_postgres::tls::TlsStream + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(message, AsyncMessage::Notification(_)) {
                seen.notify_one();
            }
        }
    })
}

struct PostgresSession {
    client: Client,
    task: JoinHandle<()>,
    route: Route,
    tls: Tls,
    host: String,
    subject: String,
    prepared: HashMap<String, Statement>,
    too_large: TooLarge,
    /// True from the start of a transaction to its end: then the session is not given back, but closed.
    is_busy: bool,
    /// True if the rows of a statement were not all read.
    is_cut: bool,
}

#[async_trait]
impl Session for PostgresSession {
    async fn begin(&mut self, mode: Mode, limit: Duration) -> Result<(), Failure> {
        self.is_busy = true;
        let limit = limit.as_millis().clamp(1, i32::MAX as u128);
        let mode = match mode {
            Mode::Read => "read only".to_owned(),
            Mode::Write(isolation) => format!("isolation level {}", isolation.words()),
        };
        let begin = format!("begin {mode}; set local statement_timeout = {limit}");
        self.client.batch_execute(&begin).await.map_err(|error| self.failed(&error, &[]))
    }

    async fn run(&mut self, bound: &Bound, rows: &mut RowSink<'_>) -> Result<Done, Failure> {
        let statement = self.prepare(bound, &bound.sql).await?;
        let is_known = statement.columns().iter().all(|column| decode::is_known(column.type_()));
        let columns = columns(&statement);
        // Found here, before names that occur twice are referred to.
        rows.columns(columns).await?;
        let statement =
            if is_known { statement } else { self.prepare(bound, &with_texts(bound, &statement)).await? };
        let values = encode::values(&bound.values, statement.params())?;
        let sent = self.client.query_raw(&statement, values).await;
        let mut stream = pin!(sent.map_err(|error| self.failed(&error, &bound.values))?);
        loop {
            let row = stream.try_next().await.map_err(|error| self.failed(&error, &bound.values))?;
            let Some(row) = row else { break };
            let values = decode::row(&row, rows)?;
            if !rows.row(values).await? {
                self.is_cut = true;
                return Ok(Done::default());
            }
        }
        Ok(Done { affected: stream.rows_affected().unwrap_or(0), last_id: None })
    }

    async fn describe(&mut self, sql: &str) -> Result<Description, Failure> {
        let statement = self.client.prepare(sql).await.map_err(|error| self.failed(&error, &[]))?;
        let parameters = statement.params().iter().map(|kind| kind.name().to_owned()).collect();
        Ok(Description { parameters, columns: columns(&statement) })
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        self.client.batch_execute("commit").await.map_err(|error| self.failed(&error, &[]))?;
        self.is_busy = false;
        Ok(())
    }

    async fn rollback(&mut self) -> Result<(), Failure> {
        self.client.batch_execute("rollback").await.map_err(|error| self.failed(&error, &[]))?;
        self.is_busy = false;
        Ok(())
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn is_usable(&self) -> bool {
        !self.is_busy && !self.client.is_closed()
    }
}

impl PostgresSession {
    async fn prepare(&mut self, bound: &Bound, sql: &str) -> Result<Statement, Failure> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await.map_err(|error| self.failed(&error, &bound.values))?;
        if self.prepared.len() >= MAX_PREPARED {
            self.prepared.clear();
        }
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    fn failed(&mut self, error: &tokio_postgres::Error, values: &[super::params::Parameter]) -> Failure {
        if self.too_large.is_so() {
            let most = text::units::format_size(MAX_ROW as u64);
            return Failure::new(Class::Lost, ErrorKind::Limit, format!("a row has more than {most}"));
        }
        let failure = failure(error, &self.subject, values);
        if failure.class == Class::Conflict {
            // A table may have changed since a statement was prepared.
            self.prepared.clear();
        }
        // Without an answer of the server a closed connection is the reason, whatever the client reports.
        if failure.class == Class::Other && error.as_db_error().is_none() && self.client.is_closed() {
            return Failure { class: Class::Lost, ..failure };
        }
        failure
    }
}

fn columns(statement: &Statement) -> Vec<Column> {
    let columns = statement.columns().iter();
    columns
        .map(|column| Column { name: column.name().into(), kind: column.type_().name().to_owned() })
        .collect()
}

/// Makes the server write columns of types that have no form here as texts.
fn with_texts(bound: &Bound, statement: &Statement) -> String {
    let columns = statement.columns().iter().map(|column| {
        let name = super::statement::Dialect::Postgres.quoted(column.name());
        if decode::is_known(column.type_()) { name } else { format!("{name}::text as {name}") }
    });
    let columns: Vec<String> = columns.collect();
    // The line break ends a comment.
    format!("with cogwork_rows as ({}\n) select {} from cogwork_rows", bound.sql, columns.join(", "))
}

impl Drop for PostgresSession {
    /// Cancels what still runs on the server. Without that it would run on, although nobody waits for it.
    fn drop(&mut self) {
        if !self.is_busy || self.client.is_closed() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (token, route, tls, host) =
            (self.client.cancel_token(), self.route.clone(), self.tls.clone(), self.host.clone());
        self.task.abort();
        runtime.spawn(async move {
            let cancelled = async {
                let stream = route.again().await.map_err(|error| error.to_string())?;
                let sent = match &tls {
                    Some(tls) => token.cancel_query_raw(stream, rustls(tls, &host)?).await,
                    None => token.cancel_query_raw(stream, NoTls).await,
                };
                sent.map_err(|error| error.to_string())
            };
            match tokio::time::timeout(CANCEL_TIME, cancelled).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(error, "a statement could not be cancelled"),
                Err(_) => tracing::debug!("a statement could not be cancelled in time"),
            }
        });
    }
}
