//! The database of a connection.

use connector::net::Route;
use connector::{Call, ConnectionValue, ResolvedConnection};
use model::{ActionError, ErrorKind, LogLevel};
use value::Value;

use super::Sql;
#[cfg(feature = "mysql")]
use super::mysql::MysqlServer;
use super::postgres::PostgresServer;
use super::session::Session;
use super::sqlite::SqliteFile;
use super::statement::Dialect;

/// The number of sessions of a pool that names none.
const USUAL_POOL: usize = 5;

/// The database that a call goes to.
pub(super) struct Server<'a> {
    pub connection: &'a ResolvedConnection,
    database: Database<'a>,
}

enum Database<'a> {
    Postgres(PostgresServer<'a>),
    #[cfg(feature = "mysql")]
    Mysql(MysqlServer<'a>),
    Sqlite(SqliteFile),
}

impl<'a> Server<'a> {
    pub(super) fn of(call: &Call<'a>, sql: &'a Sql) -> Result<Self, ActionError> {
        let spec = &sql.spec;
        let missing = || connection_error(format!("`{}` needs a connection", spec.name));
        let connection = call.connection_for(spec)?.ok_or_else(missing)?;
        let inputs = Inputs(connection);
        if !sql.kind.reads() && inputs.flag("readOnly") {
            return Err(connection_error(format!(
                "the connection `{}` has `readOnly: true`, and `{}` changes data",
                connection.name, spec.name
            )));
        }
        let database = match Dialect::of(&connection.kind) {
            Some(Dialect::Postgres) => Database::Postgres(PostgresServer::of(inputs, &sql.subject)),
            Some(Dialect::Sqlite) => Database::Sqlite(SqliteFile::of(inputs, call.files.dir)?),
            #[cfg(feature = "mysql")]
            Some(Dialect::Mysql) => Database::Mysql(MysqlServer::of(inputs, &sql.subject)),
            #[cfg(not(feature = "mysql"))]
            Some(Dialect::Mysql) => return Err(inputs.refuse("this program was built without `mysql`")),
            None => return Err(missing()),
        };
        Ok(Self { connection, database })
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self.database {
            Database::Postgres(_) => Dialect::Postgres,
            #[cfg(feature = "mysql")]
            Database::Mysql(_) => Dialect::Mysql,
            Database::Sqlite(_) => Dialect::Sqlite,
        }
    }

    pub(super) fn pool_size(&self) -> usize {
        Inputs(self.connection)
            .number("pool")
            .and_then(|size| usize::try_from(size).ok())
            .unwrap_or(USUAL_POOL)
    }

    /// Opens a session.
    pub(super) async fn open(&self, call: &Call<'_>) -> Result<Box<dyn Session>, ActionError> {
        match &self.database {
            Database::Postgres(server) => server.open(call).await,
            #[cfg(feature = "mysql")]
            Database::Mysql(server) => server.open(call).await,
            Database::Sqlite(file) => file.open().await,
        }
    }
}

/// The values of a connection.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a>(pub &'a ResolvedConnection);

impl<'a> Inputs<'a> {
    /// A text or a secret; `None` if it is not set or empty.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        let text = match self.0.values.get(name)? {
            ConnectionValue::Plain(value) => value.as_str()?,
            ConnectionValue::Secret(secret) => secret.expose(),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    fn plain(self, name: &str) -> Option<&'a Value> {
        match self.0.values.get(name)? {
            ConnectionValue::Plain(value) => Some(value),
            ConnectionValue::Secret(_) => None,
        }
    }

    pub(super) fn number(self, name: &str) -> Option<i64> {
        self.plain(name)?.as_i64()
    }

    pub(super) fn flag(self, name: &str) -> bool {
        self.plain(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Refuses to send a password and data without encryption, except to a server that the operator has allowed.
    pub(super) fn check_open(
        self,
        route: &Route,
        subject: &str,
        call: &Call<'_>,
        has_password: bool,
    ) -> Result<(), ActionError> {
        if has_password && !route.is_allowed() {
            let words = "with `tls: none` the password and the data would travel for everybody to read; only a server that the \
                         setting `outbound.allow` names is called so";
            return Err(self.refuse(words));
        }
        let message = format!("the connection to {subject} at `{}` is not encrypted", route.address());
        call.log.line(LogLevel::Warn, &message);
        Ok(())
    }

    /// The error of a connection that cannot be used.
    pub(super) fn refuse(self, words: impl std::fmt::Display) -> ActionError {
        connection_error(format!("the connection `{}` cannot be used: {words}", self.0.name))
    }
}

fn connection_error(message: String) -> ActionError {
    ActionError::new(ErrorKind::Connection, message)
}
