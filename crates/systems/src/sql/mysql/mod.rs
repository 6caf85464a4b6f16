//! MySQL and MariaDB.

mod convert;
mod failure;

use std::time::Duration;

use async_trait::async_trait;
use connector::Call;
use connector::net::{Endpoint, Route};
use model::ActionError;
use mysql_async::prelude::Queryable as _;
use mysql_async::{ClientIdentity, Conn, Opts, OptsBuilder, Params, SslOpts};

use super::description::Description;
use super::params::{Bound, input_error};
use super::rows::{Column, MAX_ROW, RowSink};
use super::session::{Class, Done, Failure, Mode, Session};
use crate::connection::Inputs;
use crate::explain::{Protocol, explained};
use failure::failure;

/// The settings of a session: a value that does not fit is an error, and not cut. Of the server's own modes only stricter ones stay:
/// others change how a statement is read.
const SESSION: [&str; 4] = [
    "set names utf8mb4",
    // The numbers of an update are read from its message.
    "set lc_messages = 'en_US'",
    "set time_zone = '+00:00'",
    "set sql_mode = concat('STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
     if(find_in_set('ONLY_FULL_GROUP_BY', @@sql_mode), ',ONLY_FULL_GROUP_BY', ''))",
];
/// The prepared statements that a session keeps.
const MAX_PREPARED: usize = 100;
/// The number of the warning about a value that was cut to fit another type.
const TRUNCATED: u16 = 1292;
/// The time for a request that cancels a statement.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// A server greets, and takes TLS afterwards.
const PROTOCOL: Protocol = Protocol { greets_as: Some("MySQL"), tls_first: false, without_tls: "tls: none" };

/// The server of a connection.
pub(super) struct MysqlServer<'a> {
    inputs: Inputs<'a>,
    subject: &'a str,
}

impl<'a> MysqlServer<'a> {
    pub(super) fn of(inputs: Inputs<'a>, subject: &'a str) -> Self {
        Self { inputs, subject }
    }

    /// Opens a session.
    pub(super) async fn open(&self, call: &Call<'_>) -> Result<Box<dyn Session>, ActionError> {
        let (inputs, subject) = (self.inputs, self.subject);
        let host = inputs.text("host").unwrap_or_default();
        let port = inputs.number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(3306);
        let tls = self.tls()?;
        let to = Endpoint { host, port, subject, connection: Some(&inputs.0.name) };
        // The client opens the connection itself, to the address that was dialled and checked.
        let route = call.http.dialer().dial(&to, call.log).await?.route;
        let password = inputs.text("password");
        let uses_tls = tls.is_some();
        if !uses_tls {
            inputs.check_open(&route, (subject, "tls: none"), call.log)?;
        }
        let options = OptsBuilder::default()
            .ip_or_hostname(host)
            .resolved_ips(Some(vec![route.address().ip()]))
            .tcp_port(port)
            .user(inputs.text("user"))
            .pass(password)
            .db_name(inputs.text("database"))
            .prefer_socket(false)
            .secure_auth(true)
            .enable_cleartext_plugin(false)
            .max_allowed_packet(Some(MAX_ROW))
            .stmt_cache_size(MAX_PREPARED)
            .ssl_opts(tls);
        let options = Opts::from(options);
        let refused = |error: &mysql_async::Error| failure(error, subject).error;
        let mut connection = match Conn::new(options.clone()).await {
            Ok(connection) => connection,
            Err(error) => return Err(explained(refused(&error), &route, host, (PROTOCOL, uses_tls)).await),
        };
        let read_only = inputs.flag("readOnly").then_some("set session transaction read only");
        for setting in SESSION.into_iter().chain(read_only) {
            connection.query_drop(setting).await.map_err(|error| refused(&error))?;
        }
        let version: Option<String> =
            connection.query_first("select version()").await.map_err(|error| refused(&error))?;
        let is_mariadb = version.is_some_and(|version| version.contains("MariaDB"));
        let subject = subject.to_owned();
        let connection = Some(connection);
        let (is_busy, is_cut, is_lost) = (false, false, false);
        Ok(Box::new(MysqlSession {
            connection,
            options,
            route,
            subject,
            is_mariadb,
            is_busy,
            is_cut,
            is_lost,
        }))
    }

    fn tls(&self) -> Result<Option<SslOpts>, ActionError> {
        let inputs = self.inputs;
        if inputs.text("tls") == Some("none") {
            return Ok(None);
        }
        let mut tls = SslOpts::default();
        if let Some(authorities) = inputs.text("ca") {
            let authorities = authorities.as_bytes().to_vec();
            tls = tls.with_root_certs(vec![authorities.into()]).with_disable_built_in_roots(true);
        }
        match (inputs.text("clientCert"), inputs.text("clientKey")) {
            (None, None) => Ok(Some(tls)),
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (certificate.as_bytes().to_vec(), key.as_bytes().to_vec());
                let identity = ClientIdentity::new(certificate.into(), key.into());
                Ok(Some(tls.with_client_identity(Some(identity))))
            }
            _ => Err(inputs.refuse("`clientCert` and `clientKey` are given together or not at all")),
        }
    }
}

struct MysqlSession {
    /// `None` once it is dropped.
    connection: Option<Conn>,
    options: Opts,
    route: Route,
    subject: String,
    is_mariadb: bool,
    /// True from the start of a transaction to its end: then the session is not given back, but closed.
    is_busy: bool,
    /// True if the rows of a statement were not all read.
    is_cut: bool,
    is_lost: bool,
}

impl MysqlSession {
    fn failed(&mut self, error: &mysql_async::Error) -> Failure {
        let failure = failure(error, &self.subject);
        self.is_lost |= failure.class == Class::Lost;
        failure
    }

    fn connection(&mut self) -> Result<&mut Conn, Failure> {
        let lost = || Failure::new(Class::Lost, model::ErrorKind::Network, "the session was closed");
        self.connection.as_mut().ok_or_else(lost)
    }

    async fn control(&mut self, sql: &str) -> Result<(), Failure> {
        let done = self.connection()?.query_drop(sql).await;
        done.map_err(|error| self.failed(&error))
    }
}

#[async_trait]
impl Session for MysqlSession {
    async fn begin(&mut self, mode: Mode, limit: Duration) -> Result<(), Failure> {
        self.is_busy = true;
        // A statement of a process that is gone does not run on. MySQL limits queries only.
        let limit = match self.is_mariadb {
            true => format!("set session max_statement_time = {:.3}", limit.as_secs_f64().max(0.001)),
            false => {
                format!("set session max_execution_time = {}", limit.as_millis().clamp(1, u32::MAX.into()))
            }
        };
        self.control(&limit).await?;
        match mode {
            Mode::Read => self.control("start transaction read only").await,
            Mode::Write(isolation) => {
                self.control(&format!("set transaction isolation level {}", isolation.words())).await?;
                self.control("start transaction").await
            }
        }
    }

    async fn run(&mut self, bound: &Bound, rows: &mut RowSink<'_>) -> Result<Done, Failure> {
        let values = convert::values(&bound.values)?;
        let connection = self.connection()?;
        let ran = run(connection, &bound.sql, values, rows).await;
        self.is_cut |= rows.is_truncated();
        ran.map_err(|error| match error {
            Ran::Database(error) => self.failed(&error),
            Ran::Other(error) => error.into(),
        })
    }

    async fn describe(&mut self, sql: &str) -> Result<Description, Failure> {
        let prepared = self.connection()?.prep(sql).await;
        let statement = prepared.map_err(|error| self.failed(&error))?;
        Ok(Description { parameters: Vec::new(), columns: named(&statement.columns()) })
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        self.control("commit").await?;
        self.is_busy = false;
        Ok(())
    }

    async fn rollback(&mut self) -> Result<(), Failure> {
        self.control("rollback").await?;
        self.is_busy = false;
        Ok(())
    }

    fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn is_usable(&self) -> bool {
        self.connection.is_some() && !self.is_busy && !self.is_lost
    }
}

/// The reason why a statement did not run to its end.
enum Ran {
    Database(mysql_async::Error),
    Other(ActionError),
}

impl From<mysql_async::Error> for Ran {
    fn from(error: mysql_async::Error) -> Self {
        Self::Database(error)
    }
}

impl From<ActionError> for Ran {
    fn from(error: ActionError) -> Self {
        Self::Other(error)
    }
}

fn named(columns: &[mysql_async::Column]) -> Vec<Column> {
    let column = |column: &mysql_async::Column| Column {
        name: column.name_str().into(),
        kind: convert::type_name(column),
    };
    columns.iter().map(column).collect()
}

async fn run(
    connection: &mut Conn,
    sql: &str,
    values: Vec<mysql_async::Value>,
    rows: &mut RowSink<'_>,
) -> Result<Done, Ran> {
    let statement = connection.prep(sql).await?;
    let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
    let mut result = connection.exec_iter(&statement, values).await?;
    let columns = result.columns_ref().to_vec();
    rows.columns(named(&columns)).await?;
    let mut returned = 0;
    while let Some(row) = result.next().await? {
        returned += 1;
        let values = row.unwrap_raw().into_iter().zip(&columns);
        let values: Result<Vec<_>, _> =
            values.map(|(value, column)| convert::value(value, column, rows)).collect();
        if !rows.row(values?).await? {
            return Ok(Done::default());
        }
    }
    let warnings = result.warnings();
    let last_id = result.last_insert_id().and_then(|id| i64::try_from(id).ok()).filter(|id| *id != 0);
    // MariaDB does not count what it returns.
    // The server counts changed rows; the other databases, and so `expect`, the rows that an update finds.
    let matched = matched(&result.info());
    let affected = if columns.is_empty() { matched.unwrap_or(result.affected_rows()) } else { returned };
    drop(result);
    if warnings > 0 {
        check_warnings(connection).await?;
    }
    Ok(Done { affected, last_id })
}

/// The number of rows that an update finds, in its message `Rows matched: 2  Changed: 1  Warnings: 0`.
fn matched(info: &str) -> Option<u64> {
    info.strip_prefix("Rows matched: ")?.split_whitespace().next()?.parse().ok()
}

/// Fails if a value was taken otherwise than it is written, such as a text that is no number for 0. In a change the strict mode sees to
/// that; a query would only warn, and compare with what it took.
async fn check_warnings(connection: &mut Conn) -> Result<(), Ran> {
    let warnings: Vec<(String, u16, String)> = connection.query("show warnings limit 100").await?;
    match warnings.into_iter().find(|(_, code, _)| *code == TRUNCATED) {
        Some((_, _, said)) => {
            let message = format!(
                "a value is not of the type that it is compared with: {said}; convert it in the statement"
            );
            Err(input_error(message).with_code("22007").into())
        }
        None => Ok(()),
    }
}

impl Drop for MysqlSession {
    /// Ends the session on the server if a statement still runs there: it would run on, although nobody waits for it.
    fn drop(&mut self) {
        if !self.is_busy || self.is_lost {
            return;
        }
        let (Some(connection), Ok(runtime)) = (self.connection.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let (id, options, route) = (connection.id(), self.options.clone(), self.route.clone());
        runtime.spawn(async move {
            let killed = async {
                // Asks the gate too.
                drop(route.again().await.map_err(|error| error.to_string())?);
                let mut other = Conn::new(options).await.map_err(|error| error.to_string())?;
                let killed = other.query_drop(format!("kill {id}")).await;
                let _ = other.disconnect().await;
                killed.map_err(|error| error.to_string())
            };
            match tokio::time::timeout(CANCEL_TIME, killed).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(error, "a statement could not be cancelled"),
                Err(_) => tracing::debug!("a statement could not be cancelled in time"),
            }
            drop(connection);
        });
    }
}
