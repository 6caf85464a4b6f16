//! The keys by which a repeated step changes nothing more. They stand in the table `cogwork_once` of the database, and are written in
//! the transaction of the step.

use std::time::Duration;

use connector::UncountedAnswers;
use model::{ActionError, ErrorKind};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use value::{Map, Value};

use super::params::{Bound, Parameter, input_error};
use super::rows::{Form, RowSink};
use super::session::{Done, Failure, Isolation, Mode, Session, Swept};
use super::statement::Dialect;

/// The largest stored result, in bytes.
const MAX_RESULT: usize = 256 << 10;
/// The longest key that is stored as it is, in bytes.
const MAX_KEY: usize = 255;
/// The codes of PostgreSQL for a table that another session creates at the same time: its name, its type, or its row in a catalog is there.
const IS_THERE: [&str; 3] = ["23505", "42710", "42P07"];
/// The number of old keys that are deleted at once.
const SWEPT: u64 = 1_000;
/// The time between two deletions of old keys.
const SWEEP: Duration = Duration::from_secs(3_600);

/// The key of a step.
pub(super) fn key(idempotency_key: &str) -> Result<String, ActionError> {
    match idempotency_key.len() {
        0 => Err(input_error("`once` needs an execution, whose step it marks")),
        1..=MAX_KEY => Ok(idempotency_key.to_owned()),
        _ => Ok(Sha256::digest(idempotency_key).iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// Writes the key. If it is there, an earlier attempt was committed, and its result is returned. A concurrent attempt waits here.
pub(super) async fn claim(
    session: &mut dyn Session,
    dialect: Dialect,
    key: &str,
) -> Result<Option<Map>, Failure> {
    let sql = match dialect {
        Dialect::Postgres => "insert into cogwork_once (key) values ($1) on conflict (key) do nothing",
        Dialect::Mysql => "insert ignore into cogwork_once (`key`) values (?)",
        Dialect::Sqlite => "insert into cogwork_once (key) values (?) on conflict (key) do nothing",
    };
    let (done, _) = fetch(session, sql, [("key", key)]).await?;
    if done.affected > 0 {
        return Ok(None);
    }
    let sql = match dialect {
        Dialect::Postgres => "select result from cogwork_once where key = $1",
        Dialect::Mysql => "select result from cogwork_once where `key` = ?",
        Dialect::Sqlite => "select result from cogwork_once where key = ?",
    };
    let (_, row) = fetch(session, sql, [("key", key)]).await?;
    let stored = row.path("result").and_then(|text| Value::from_stored(text.as_str()?).ok());
    let result = stored.and_then(|value| value.as_map().cloned());
    let damaged =
        || ActionError::new(ErrorKind::Response, format!("the row `{key}` of `cogwork_once` has no result"));
    Ok(Some(result.ok_or_else(damaged)?))
}

/// Writes the result to the key.
pub(super) async fn keep(
    session: &mut dyn Session,
    dialect: Dialect,
    key: &str,
    result: &Map,
) -> Result<(), Failure> {
    let value = Value::from(result.clone());
    let stored = value.to_stored().ok().filter(|_| !value.has_external_file());
    let Some(stored) = stored.filter(|stored| stored.len() <= MAX_RESULT) else {
        let most = text::units::format_size(MAX_RESULT as u64);
        let message = format!(
            "with `once`, the result may have at most {most}, since it is stored; return fewer rows. Nothing was changed"
        );
        return Err(ActionError::new(ErrorKind::Limit, message).into());
    };
    let sql = match dialect {
        Dialect::Postgres => "update cogwork_once set result = $1 where key = $2",
        Dialect::Mysql => "update cogwork_once set result = ? where `key` = ?",
        Dialect::Sqlite => "update cogwork_once set result = ? where key = ?",
    };
    let (done, _) = fetch(session, sql, [("result", &*stored), ("key", key)]).await?;
    if done.affected == 1 {
        return Ok(());
    }
    let message = "the statement ended the transaction or removed its key from `cogwork_once`, so `once` cannot be kept";
    Err(ActionError::new(ErrorKind::Failed, message).with_code("transaction_ended").into())
}

/// The statement that creates the table.
pub(super) fn table(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "create table if not exists cogwork_once (key text primary key, at timestamptz not null default now(), result text, \
             unique (at, key))"
        }
        Dialect::Mysql => {
            "create table if not exists cogwork_once (`key` varchar(255) character set utf8mb4 collate utf8mb4_bin primary key, \
             at timestamp not null default current_timestamp, result mediumtext character set utf8mb4, index (at)) engine = InnoDB"
        }
        Dialect::Sqlite => {
            "create table if not exists cogwork_once (key text primary key, at text not null default current_timestamp, result text, \
             unique (at, key))"
        }
    }
}

/// Returns the statement that creates the table of `once` in the database of a connection type; `None` for other types.
#[must_use]
pub fn table_of_once(connection_type: &str) -> Option<&'static str> {
    Dialect::of(connection_type).map(table)
}

/// The query that finds an index by which old keys are found: tables of the first versions have none.
fn find_index(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "select 1 as n from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0] \
             where i.indrelid = 'cogwork_once'::regclass and a.attname = 'at'"
        }
        Dialect::Mysql => {
            "select 1 as n from information_schema.statistics where table_schema = database() \
             and table_name = 'cogwork_once' and column_name = 'at' and seq_in_index = 1"
        }
        Dialect::Sqlite => {
            "select 1 as n from pragma_index_list('cogwork_once') l join pragma_index_info(l.name) i \
             where i.seqno = 0 and i.name = 'at'"
        }
    }
}

/// The query that finds out if the table is so large that no key could be written for long while an index is built.
fn find_large(dialect: Dialect) -> Option<&'static str> {
    match dialect {
        Dialect::Postgres => Some(
            "select 1 as n from pg_class where oid = 'cogwork_once'::regclass and pg_relation_size(oid) > 268435456",
        ),
        // It has no other writer for long, or builds an index beside the writes.
        Dialect::Sqlite | Dialect::Mysql => None,
    }
}

/// The statement that creates the index of a table which has none.
fn index(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres | Dialect::Sqlite => {
            "create index if not exists cogwork_once_at on cogwork_once (at)"
        }
        Dialect::Mysql => "create index cogwork_once_at on cogwork_once (at)",
    }
}

/// Returns the statement that gives the table of an earlier version its index, as a person runs it who may do so; `None` for other types.
#[must_use]
pub fn index_of_once(connection_type: &str) -> Option<&'static str> {
    Some(match Dialect::of(connection_type)? {
        // Beside the writes of others.
        Dialect::Postgres => "create index concurrently if not exists cogwork_once_at on cogwork_once (at)",
        dialect => index(dialect),
    })
}

/// Creates the index by which old keys are found, if the table has none, is not large, and the account may do so. Without it a deletion
/// reads the whole table.
async fn ensure_index(session: &mut dyn Session, dialect: Dialect, limit: Duration) -> Result<(), Failure> {
    session.begin(Mode::Write(Isolation::default()), limit).await?;
    let (_, found) = fetch(session, find_index(dialect), []).await?;
    let mut is_large = false;
    if let Some(query) = find_large(dialect).filter(|_| found.get("n").is_none()) {
        is_large = fetch(session, query, []).await?.1.get("n").is_some();
    }
    if found.get("n").is_none() && !is_large {
        fetch(session, index(dialect), []).await?;
    }
    session.commit().await
}

/// Creates the table.
pub(super) async fn create(
    session: &mut dyn Session,
    dialect: Dialect,
    limit: Duration,
) -> Result<(), Failure> {
    session.begin(Mode::Write(Isolation::default()), limit).await?;
    let created = fetch(session, table(dialect), []).await;
    match created {
        Ok(_) => session.commit().await,
        // Two sessions that create it at the same time: one of them fails, and then it is there.
        Err(failure) if failure.error.code.as_deref().is_some_and(|code| IS_THERE.contains(&code)) => {
            session.rollback().await
        }
        Err(mut failure) => {
            failure.error.message = format!(
                "the table `cogwork_once` is not there and cannot be created: {}",
                failure.error.message
            );
            Err(failure)
        }
    }
}

/// Deletes keys older than 30 days: at most [`SWEPT`] at once, after each step until none is left, then once an hour. What fails here is
/// tried again at the next time.
pub(super) async fn sweep(session: &mut dyn Session, dialect: Dialect, swept: &Swept, limit: Duration) {
    {
        let mut swept = swept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if swept.is_some_and(|at| at.elapsed() < SWEEP) {
            return;
        }
        *swept = Some(Instant::now());
    }
    if let Err(failure) = ensure_index(session, dialect, limit).await {
        tracing::debug!(error = %failure.error, "`cogwork_once` gets no index; `cogwork connections prepare` prints the statement");
        if session.rollback().await.is_err() {
            return;
        }
    }
    let sql = match dialect {
        Dialect::Postgres => format!(
            "delete from cogwork_once where key in \
             (select key from cogwork_once where at < now() - interval '30 days' limit {SWEPT})"
        ),
        Dialect::Mysql => {
            format!("delete from cogwork_once where at < now() - interval 30 day limit {SWEPT}")
        }
        Dialect::Sqlite => format!(
            "delete from cogwork_once where key in \
             (select key from cogwork_once where at < datetime('now', '-30 days') limit {SWEPT})"
        ),
    };
    let sweeping = async {
        session.begin(Mode::Write(Isolation::default()), limit).await?;
        let (done, _) = fetch(session, &sql, []).await?;
        session.commit().await?;
        Ok::<_, Failure>(done.affected)
    };
    match sweeping.await {
        Ok(deleted) if deleted >= SWEPT => {
            *swept.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
        }
        Ok(_) => {}
        Err(failure) => {
            tracing::debug!(error = %failure.error, "old keys of `cogwork_once` could not be deleted");
            let _ = session.rollback().await;
        }
    }
}

/// Runs a statement of this module, and returns its first row.
async fn fetch<const N: usize>(
    session: &mut dyn Session,
    sql: &str,
    values: [(&str, &str); N],
) -> Result<(Done, Value), Failure> {
    let values = values.map(|(name, value)| Parameter { name: name.to_owned(), value: value.into() });
    let statement = Bound { sql: sql.to_owned(), values: values.into() };
    let mut rows = RowSink::new(Form::Rows { max: 1 }, MAX_RESULT * 2, &UncountedAnswers);
    let done = session.run(&statement, &mut rows).await?;
    let [_, (_, row)] = rows.into_rows();
    Ok((done, row))
}
