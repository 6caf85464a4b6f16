//! What each kind of work writes, inside the writer's transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::{DefinitionHash, ExecutionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::blobs::{self, Folder};
use super::encode::{AppendRow, Done, Key, NewRow, StateChange, Work, status_code, to_ns};
use super::statements::Statements;
use super::{forget, polls, sendings, state, waits};
use crate::types::{Address, Definition, Watermark};
use crate::{Accepted, Error};

/// Why a write could not be made.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is refused, and wrote nothing.
    Refused(Error),
    /// It is refused after it wrote something, which has to be undone.
    Undo(Error),
    /// SQLite failed.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// How many more executions refer to a definition, in the transaction that is open. It holds only definitions
/// that are there, and is written once at the end of the batch.
pub(super) type Uses = HashMap<DefinitionHash, i64>;

/// Does one piece of work.
pub(super) fn write(
    connection: &Connection,
    statements: &mut Statements<'_>,
    uses: &mut Uses,
    folder: &Folder,
    work: &Work,
) -> Result<Done, Fault> {
    match work {
        Work::Accept { executions, watermark, poll } => {
            let accepted = accept(connection, statements, uses, executions, watermark.as_ref())?;
            poll.as_ref().map_or(Ok(()), |poll| polls::write(connection, poll))?;
            Ok(accepted)
        }
        Work::PutSubscription { id, kept } => polls::put_subscription(connection, id, kept.as_ref()),
        Work::Append(row) => append(connection, statements, row),
        Work::PutDefinition(definition) => put_definition(connection, definition),
        Work::PutAddresses(addresses) => put_addresses(connection, addresses),
        Work::WriteState(changes) => write_state(connection, changes),
        Work::PutSecret(fresh) => put_secret(connection, fresh),
        Work::Forget(ids) => forget::forget(connection, uses, ids),
        Work::Sweep => forget::sweep(connection),
        Work::ForgetBlobs => blobs::forget_unused(connection, folder),
        Work::ForgetDefinitions => forget::forget_definitions(connection, uses),
        Work::ForgetKeys { before, limit } => forget::forget_keys(connection, before, *limit),
        Work::ForgetState { before_ns, limit } => state::forget(connection, *before_ns, *limit),
        Work::ForgetSendings { before_ns, limit } => sendings::forget(connection, *before_ns, *limit),
        Work::GiveBack => forget::give_back(connection),
    }
}

/// Writes how many more executions refer to each definition.
pub(super) fn write_uses(statements: &mut Statements<'_>, uses: &mut Uses) -> rusqlite::Result<()> {
    for (hash, count) in uses.drain() {
        if count != 0 {
            statements.count_definition.execute(params![hash.as_bytes(), count])?;
        }
    }
    Ok(())
}

fn accept(
    connection: &Connection,
    statements: &mut Statements<'_>,
    uses: &mut Uses,
    executions: &[NewRow],
    watermark: Option<&Watermark>,
) -> Result<Done, Fault> {
    for row in executions {
        if let Entry::Vacant(unseen) = uses.entry(row.definition) {
            if !statements.find_definition.exists([row.definition.as_bytes()])? {
                return Err(Fault::Refused(Error::NoSuchDefinition(row.definition)));
            }
            unseen.insert(0);
        }
    }
    let mut accepted = Vec::with_capacity(executions.len());
    for row in executions {
        accepted.push(accept_one(connection, statements, row)?);
    }
    if let Some(watermark) = watermark {
        let Watermark { automation, schedule, instant } = watermark;
        statements.put_watermark.execute(params![automation.as_str(), schedule, to_ns(*instant)])?;
    }
    // Only now, when nothing of it can be refused any more.
    for (row, accepted) in executions.iter().zip(&accepted) {
        if *accepted == Accepted::New {
            *uses.entry(row.definition).or_default() += 1;
        }
    }
    Ok(Done::Accepted(accepted))
}

fn accept_one(
    connection: &Connection,
    statements: &mut Statements<'_>,
    row: &NewRow,
) -> Result<Accepted, Fault> {
    let id = row.id.as_bytes();
    let automation = row.automation.as_str();
    if let Some(taken) = sendings::taken(connection, row)? {
        return Ok(taken);
    }
    if let Some(key) = &row.key
        && statements.take_key.execute(params![automation, key, id])? == 0
    {
        let owner = statements.find_key.query_row(params![automation, key], |row| row.get(0))?;
        return Ok(Accepted::Duplicate(ExecutionId::from_bytes(owner)));
    }
    let definition = row.definition.as_bytes();
    let NewRow { origin, shelf, started_ns, finished_ns, error, count, .. } = row;
    let (status, lines) = (status_code(row.status), row.lines.as_ref().map_or(0, |(count, _)| *count));
    statements.new_start.execute(params![id, row.body, row.raw.as_deref()])?;
    let start = connection.last_insert_rowid();
    let values = params![
        id,
        automation,
        definition,
        origin,
        status,
        shelf,
        started_ns,
        finished_ns,
        error,
        count,
        lines,
        start
    ];
    if statements.new_execution.execute(values)? == 0 {
        return Err(Fault::Undo(Error::Exists(row.id)));
    }
    blobs::note(connection, row.id, 0, &row.apart)?;
    if let Some((count, lines)) = &row.lines {
        statements.new_logs.execute(params![id, count, lines])?;
    }
    sendings::take(connection, row)?;
    Ok(Accepted::New)
}

fn append(connection: &Connection, statements: &mut Statements<'_>, row: &AppendRow) -> Result<Done, Fault> {
    // Before anything is written, so that there is nothing to undo where one is refused.
    state::check(connection, &row.state)?;
    let mut changed = advance(statements, row)?;
    if !changed && row.status.is_terminal() {
        // It may be its open waits that keep it from its end.
        changed = waits::clear(connection, row.execution, row.first)? && advance(statements, row)?;
    }
    let id = row.execution.as_bytes();
    if !changed {
        let found = statements.find_state.query_row([id], |row| row.get(0)).optional()?;
        return Err(Fault::Refused(match found {
            Some(found) => Error::Conflict { execution: row.execution, expected: row.first, found },
            None => Error::NoSuchExecution(row.execution),
        }));
    }
    if let Some(body) = &row.body {
        statements.new_events.execute(params![id, row.first, body])?;
        blobs::note(connection, row.execution, row.first, &row.apart)?;
    }
    if let Some((count, lines)) = &row.lines {
        statements.new_logs.execute(params![id, count, lines])?;
    }
    if let Some(waits) = &row.waits {
        waits::replace(connection, row.execution, waits)?;
    }
    state::write(connection, &row.state)?;
    Ok(Done::Nothing)
}

/// Brings the row of an execution up to date, if it has as many events as are expected; whether it did.
fn advance(statements: &mut Statements<'_>, row: &AppendRow) -> rusqlite::Result<bool> {
    let id = row.execution.as_bytes();
    let lines = row.lines.as_ref().map_or(0, |(count, _)| *count);
    let status = status_code(row.status);
    let mut changed = 0;
    if row.shelf == 0 {
        changed = statements.advance.execute(params![id, row.first, row.count, lines, status])?;
    }
    // Either it goes to another list, or it stood in another before.
    if changed == 0 {
        let AppendRow { first, count, shelf, finished_ns, error, .. } = row;
        let ends = row.status.is_terminal();
        let values = params![id, first, count, lines, status, shelf, finished_ns, error, ends];
        changed = statements.move_shelf.execute(values)?;
    }
    Ok(changed > 0)
}

fn write_state(connection: &Connection, changes: &[StateChange]) -> Result<Done, Fault> {
    state::check(connection, changes)?;
    state::write(connection, changes)?;
    Ok(Done::Nothing)
}

fn put_secret(connection: &Connection, fresh: &Key) -> Result<Done, Fault> {
    let sql = "INSERT INTO meta (name, value) VALUES ('secret', ?1) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute([fresh.0])?;
    let sql = "SELECT value FROM meta WHERE name = 'secret'";
    let kept = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(Done::Secret(Key(kept)))
}

fn put_definition(connection: &Connection, definition: &Definition) -> Result<Done, Fault> {
    let Definition { hash, automation, path, text } = definition;
    let newest = "SELECT coalesce(max(put), 0) FROM definitions WHERE automation = ?1";
    let newest: i64 =
        connection.prepare_cached(newest)?.query_row([automation.as_str()], |row| row.get(0))?;
    let put = "SELECT put FROM definitions WHERE hash = ?1";
    let put: Option<i64> =
        connection.prepare_cached(put)?.query_row([hash.as_bytes()], |row| row.get(0)).optional()?;
    match put {
        Some(put) if put == newest => {}
        Some(_) => {
            let sql = "UPDATE definitions SET put = ?2 WHERE hash = ?1";
            connection.prepare_cached(sql)?.execute(params![hash.as_bytes(), newest + 1])?;
        }
        None => {
            let sql = "INSERT INTO definitions (hash, automation, put, executions) VALUES (?1, ?2, ?3, 0)";
            connection.prepare_cached(sql)?.execute(params![
                hash.as_bytes(),
                automation.as_str(),
                newest + 1
            ])?;
            let sql = "INSERT INTO definition_texts (hash, path, text) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![hash.as_bytes(), path, text])?;
        }
    }
    Ok(Done::Nothing)
}

fn put_addresses(connection: &Connection, addresses: &[Address]) -> Result<Done, Fault> {
    let sql = "INSERT INTO addresses (automation, live, test) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET live = excluded.live, test = excluded.test";
    let mut statement = connection.prepare_cached(sql)?;
    for address in addresses {
        statement.execute(params![address.automation.as_str(), address.live, address.test])?;
    }
    Ok(Done::Nothing)
}
