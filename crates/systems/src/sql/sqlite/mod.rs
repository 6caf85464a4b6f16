//! SQLite: files below the folder of the setting `filesDir`.

mod convert;
mod failure;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::{ActionError, ErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, InterruptHandle, OpenFlags};
use tokio::sync::mpsc;
use value::{Key, Value};

use super::description::Description;
use super::params::Bound;
use super::rows::{Column, MAX_ROW, RowSink};
use super::session::{Class, Done, Failure, Mode, Session};
use crate::connection::Inputs;
use failure::failure;

/// The time to wait for another writer before a transaction begins.
const BUSY: Duration = Duration::from_secs(5);
/// The rows that wait to be taken.
const WAITING: usize = 16;
/// The pragmas that only read. Others could change how the file is written.
const PRAGMAS: [&str; 8] = [
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];

/// The file of a connection.
pub(super) struct SqliteFile {
    path: PathBuf,
    /// The path as the author wrote it.
    shown: String,
    is_read_only: bool,
}

impl SqliteFile {
    /// The file that a connection names, which has to be below `dir`.
    pub(super) fn of(inputs: Inputs<'_>, dir: Option<&Path>) -> Result<Self, ActionError> {
        let shown = inputs.text("file").unwrap_or_default().to_owned();
        let blocked = |words: String| {
            let message = format!("the connection `{}` cannot be used: {words}", inputs.0.name);
            ActionError::new(ErrorKind::Blocked, message)
        };
        let missing =
            || blocked("there is no folder of files; name one with the setting `filesDir`".to_owned());
        let dir = dir.ok_or_else(missing)?;
        let mut components = Path::new(&shown).components().peekable();
        let is_inside =
            components.peek().is_some() && components.all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || shown.contains('\0') {
            return Err(inputs.refuse(
                "`file` is a path inside the folder of files, such as `shop/orders.db`, without `..`",
            ));
        }
        // The folder itself may be a link; none below it is followed.
        let root = std::fs::canonicalize(dir)
            .map_err(|error| blocked(format!("the folder of files cannot be opened: {error}")))?;
        Ok(Self { path: root.join(&shown), shown, is_read_only: inputs.flag("readOnly") })
    }

    /// Opens a session.
    pub(super) async fn open(&self) -> Result<Box<dyn Session>, ActionError> {
        let (path, is_read_only, shown) = (self.path.clone(), self.is_read_only, self.shown.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let is_own = Arc::new(AtomicBool::new(false));
            open(&path, is_read_only, &is_own).map(|connection| (connection, is_own))
        });
        let opened =
            opened.await.map_err(|error| ActionError::new(ErrorKind::Internal, error.to_string()))?;
        let (connection, is_own) = opened.map_err(|error| {
            let reason = failure(&error).error.into_message();
            let help =
                "it must be a file of SQLite in an existing folder, and no part of its path may be a link";
            ActionError::new(ErrorKind::Connection, format!("`{shown}` cannot be opened: {reason}; {help}"))
        })?;
        let interrupt = Arc::new(connection.get_interrupt_handle());
        Ok(Box::new(SqliteSession { connection: Some(connection), is_own, interrupt, is_reading: false }))
    }
}

fn open(path: &Path, is_read_only: bool, is_own: &Arc<AtomicBool>) -> rusqlite::Result<Connection> {
    let access = match is_read_only {
        true => OpenFlags::SQLITE_OPEN_READ_ONLY,
        false => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // A file from elsewhere has no power over this process: no damaged schema, no functions in views.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A misspelt column in double quotes is an error, and not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::try_from(MAX_ROW).unwrap_or(i32::MAX))?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    let is_own = is_own.clone();
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if is_own.load(Ordering::Relaxed) || is_harmless(&context.action) {
            Authorization::Allow
        } else {
            Authorization::Deny
        }
    }))?;
    // Reads the header, which tells whether it is a database.
    connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// False for what reaches another file, other code, or the transaction of the step.
fn is_harmless(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => false,
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => false,
        AuthAction::Function { function_name } => !["load_extension", "writefile", "readfile", "edit"]
            .contains(&function_name.to_ascii_lowercase().as_str()),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let is_known = PRAGMAS.contains(&pragma_name.to_ascii_lowercase().as_str());
            is_known && (!pragma_name.eq_ignore_ascii_case("user_version") || pragma_value.is_none())
        }
        _ => true,
    }
}

/// The thread of a statement has the connection; else it is here.
struct SqliteSession {
    connection: Option<Connection>,
    /// True while statements of this module run, which may do more.
    is_own: Arc<AtomicBool>,
    interrupt: Arc<InterruptHandle>,
    /// True in a transaction that only reads.
    is_reading: bool,
}

/// Interrupts a statement that nobody waits for any more.
struct InterruptOnDrop(Option<Arc<InterruptHandle>>);

impl InterruptOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if let Some(interrupt) = &self.0 {
            interrupt.interrupt();
        }
    }
}

/// Runs `work` with the connection on a thread. If the caller goes away, the work is interrupted and the connection closed.
async fn on_thread<T: Send + 'static>(
    connection: Connection,
    interrupt: Arc<InterruptHandle>,
    work: impl FnOnce(&Connection) -> T + Send + 'static,
) -> Result<(Connection, T), Failure> {
    let guard = InterruptOnDrop(Some(interrupt));
    let task = tokio::task::spawn_blocking(move || {
        let result = work(&connection);
        (connection, result)
    });
    let done = task.await;
    guard.disarm();
    done.map_err(|error| Failure::new(Class::Lost, ErrorKind::Internal, error.to_string()))
}

/// The messages of a statement while it runs.
enum Sent {
    Columns(Vec<Column>),
    Row(Vec<Value>),
}

impl SqliteSession {
    fn take(&mut self) -> Result<Connection, Failure> {
        let lost = || Failure::new(Class::Lost, ErrorKind::Internal, "the session of SQLite was closed");
        self.connection.take().ok_or_else(lost)
    }

    /// Runs a statement of this module.
    async fn control(&mut self, sql: &'static str) -> Result<(), Failure> {
        let (connection, is_own) = (self.take()?, self.is_own.clone());
        let running = on_thread(connection, self.interrupt.clone(), move |connection| {
            is_own.store(true, Ordering::Relaxed);
            let done = connection.execute_batch(sql);
            is_own.store(false, Ordering::Relaxed);
            done
        });
        let (connection, done) = running.await?;
        self.connection = Some(connection);
        done.map_err(|error| failure(&error))
    }
}

#[async_trait]
impl Session for SqliteSession {
    async fn begin(&mut self, mode: Mode, _: Duration) -> Result<(), Failure> {
        self.is_reading = mode == Mode::Read;
        // A transaction that begins as a reader could not become a writer beside another one.
        self.control(if self.is_reading { "begin" } else { "begin immediate" }).await
    }

    async fn run(&mut self, bound: &Bound, rows: &mut RowSink<'_>) -> Result<Done, Failure> {
        let values = convert::values(&bound.values)?;
        let (sender, mut receiver) = mpsc::channel(WAITING);
        let (sql, is_reading) = (bound.sql.clone(), self.is_reading);
        let work = move |connection: &Connection| step(connection, &sql, values, is_reading, &sender);
        let mut running = std::pin::pin!(on_thread(self.take()?, self.interrupt.clone(), work));
        let mut taken = Ok(true);
        let mut ended = None;
        loop {
            tokio::select! {
                biased;
                sent = receiver.recv() => match sent {
                    Some(Sent::Columns(columns)) => taken = rows.columns(columns).await.map(|()| true),
                    Some(Sent::Row(values)) => taken = rows.row(values).await,
                    None => break,
                },
                done = &mut running, if ended.is_none() => ended = Some(done),
            }
            if !matches!(taken, Ok(true)) {
                // The thread ends with the next row.
                receiver.close();
                while receiver.recv().await.is_some() {}
                break;
            }
        }
        let (connection, done) = match ended {
            Some(ended) => ended?,
            None => running.await?,
        };
        self.connection = Some(connection);
        taken?;
        done
    }

    async fn describe(&mut self, sql: &str) -> Result<Description, Failure> {
        let sql = sql.to_owned();
        let running = on_thread(self.take()?, self.interrupt.clone(), move |connection| {
            let statement = connection.prepare(&sql)?;
            Ok(Description { parameters: Vec::new(), columns: columns(&statement) })
        });
        let (connection, described) = running.await?;
        self.connection = Some(connection);
        described.map_err(|error: rusqlite::Error| failure(&error))
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        self.control("commit").await
    }

    async fn rollback(&mut self) -> Result<(), Failure> {
        // Some errors have already taken the transaction back.
        match &self.connection {
            Some(connection) if connection.is_autocommit() => Ok(()),
            _ => self.control("rollback").await,
        }
    }

    fn is_usable(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_autocommit)
    }
}

fn columns(statement: &rusqlite::Statement<'_>) -> Vec<Column> {
    let column = |column: rusqlite::Column<'_>| Column {
        name: column.name().into(),
        kind: column.decl_type().unwrap_or_default().to_ascii_lowercase(),
    };
    statement.columns().map(column).collect()
}

/// Runs a statement, on a thread that may block.
fn step(
    connection: &Connection,
    sql: &str,
    values: Vec<rusqlite::types::Value>,
    is_reading: bool,
    sender: &mpsc::Sender<Sent>,
) -> Result<Done, Failure> {
    let failed = |error: rusqlite::Error| failure(&error);
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    if is_reading && !statement.readonly() {
        let message = "the statement changes data; change data with `sql.execute`";
        return Err(Failure::new(Class::Other, ErrorKind::Input, message));
    }
    let names = columns(&statement);
    let (count, before) = (names.len(), connection.total_changes());
    let shown: Vec<Key> = names.iter().map(|column| column.name.clone()).collect();
    if sender.blocking_send(Sent::Columns(names)).is_err() {
        return Ok(Done::default());
    }
    let mut rows = statement.query(rusqlite::params_from_iter(values)).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let value = |index: usize| convert::value(row.get_ref(index).map_err(failed)?, &shown[index]);
        let values: Vec<Value> = (0..count).map(value).collect::<Result<_, Failure>>()?;
        if sender.blocking_send(Sent::Row(values)).is_err() {
            break;
        }
    }
    drop(rows);
    // The count of the last statement stays where the next one changes no row.
    let has_changed = connection.total_changes() > before;
    let affected = if has_changed { connection.changes() } else { 0 };
    let first_word = sql.split_whitespace().next().unwrap_or_default();
    let is_insert = ["insert", "replace", "with"].iter().any(|word| first_word.eq_ignore_ascii_case(word));
    let last_id = (has_changed && is_insert).then(|| connection.last_insert_rowid());
    Ok(Done { affected, last_id })
}
