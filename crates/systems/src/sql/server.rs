//! The database of a connection.

use connector::{Call, ResolvedConnection};
use model::ActionError;

use super::Sql;
#[cfg(feature = "mysql")]
use super::mysql::MysqlServer;
use super::params::input_error;
use super::postgres::PostgresServer;
use super::session::Session;
use super::sqlite::SqliteFile;
use super::statement::Dialect;
use crate::connection::{Inputs, connection_error};
use crate::pool::Size;

/// The error of `wake` with another database than PostgreSQL.
pub(super) const NO_WAKE: &str = "`wake` needs a PostgreSQL database, which has `notify`; leave it out";
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

    pub(super) fn pool_size(&self) -> Size {
        let size = Inputs(self.connection).number("pool").and_then(|size| usize::try_from(size).ok());
        let size = size.unwrap_or(USUAL_POOL);
        Size { used: Some(size), kept: size }
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

impl Server<'_> {
    /// Listens on a channel until the connection breaks, as [`connector::Action::listen`] does. Returns the reason of the end.
    pub(super) async fn listen(
        &self,
        call: &Call<'_>,
        channel: &str,
        wake: &(dyn Fn() + Send + Sync),
    ) -> ActionError {
        match &self.database {
            Database::Postgres(server) => server.listen(call, channel, wake).await,
            _ => input_error(NO_WAKE),
        }
    }
}
