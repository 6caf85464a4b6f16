//! Execution of write operations inside the transaction of the writer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::{DefinitionHash, ExecutionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::blobs::{self, Folder};
use super::columns::shelf;
use super::encode::{AppendRow, NewExecutionRow, SecretKey, WriteOp, WriteResult};
use super::statements::Statements;
use super::{dedup, outbox, polls, prune, replay, state, triggers, waits};
use store::codec::{StateChange, status_code, to_ns};
use store::{AcceptOutcome, Error};
use store::{Address, Definition, OutboxRow, Watermark};

/// The error of a write operation.
#[derive(Debug)]
pub(super) enum WriteError {
    /// Refused before it wrote anything.
    Refused(Error),
    /// Refused after it wrote something, which must be rolled back.
    Undo(Error),
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// The change of the reference count of each definition in the open transaction. It contains only stored definitions,
/// and is written once at the end of the batch.
pub(super) type Uses = HashMap<DefinitionHash, Use>;

/// The change of the reference count of a definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// The number of the row in `definition_uses`.
    pub(super) number: i64,
    pub(super) change: i64,
}

/// Executes one operation.
pub(super) fn write(
    connection: &Connection,
    statements: &mut Statements<'_>,
    uses: &mut Uses,
    folder: &Folder,
    work: &WriteOp,
) -> Result<WriteResult, WriteError> {
    match work {
        WriteOp::Accept { executions, watermark, poll, emits, delivered } => {
            let accepted = accept(connection, statements, uses, executions, watermark.as_ref())?;
            poll.as_ref().map_or(Ok(()), |poll| polls::write(connection, poll))?;
            outbox::insert(connection, emits)?;
            outbox::delete(connection, delivered)?;
            Ok(accepted)
        }
        WriteOp::PutSubscription { id, kept } => polls::put_subscription(connection, id, kept.as_ref()),
        WriteOp::MoveTrigger { from, to } => triggers::move_rows(connection, from, to),
        WriteOp::Append(row) => append(connection, statements, row),
        WriteOp::PutDefinition(definition) => put_definition(connection, definition),
        WriteOp::PutAddresses(addresses) => put_addresses(connection, addresses),
        WriteOp::WriteState(changes, emits) => write_state(connection, changes, emits),
        WriteOp::PutSecret(fresh) => get_or_init_secret(connection, fresh),
        WriteOp::DeleteExecutions(ids) => prune::delete_executions(connection, uses, ids),
        WriteOp::DeleteRemains => prune::delete_remains(connection),
        WriteOp::DeleteBlobRows => blobs::delete_unused(connection, folder),
        WriteOp::DeleteDefinitions => prune::delete_definitions(connection, uses),
        WriteOp::DeleteKeys { before, limit } => prune::delete_keys(connection, before, *limit),
        WriteOp::DeleteExpiredState { before_ns, limit } => {
            state::delete_expired(connection, *before_ns, *limit)
        }
        WriteOp::DeleteExpiredDedup { before_ns, limit } => {
            dedup::delete_expired(connection, *before_ns, *limit)
        }
        WriteOp::Vacuum => prune::vacuum(connection),
    }
}

/// Writes the changed reference counts of definitions.
pub(super) fn write_uses(statements: &mut Statements<'_>, uses: &mut Uses) -> rusqlite::Result<()> {
    for Use { number, change } in uses.drain().map(|(_, of)| of) {
        if change != 0 {
            statements.count_definition.execute(params![number, change])?;
        }
    }
    Ok(())
}

fn accept(
    connection: &Connection,
    statements: &mut Statements<'_>,
    uses: &mut Uses,
    executions: &[NewExecutionRow],
    watermark: Option<&Watermark>,
) -> Result<WriteResult, WriteError> {
    for row in executions {
        if let Entry::Vacant(unseen) = uses.entry(row.definition) {
            let hash = [row.definition.as_bytes()];
            let Some(number) = statements.find_definition.query_row(hash, |row| row.get(0)).optional()?
            else {
                return Err(WriteError::Refused(Error::NoSuchDefinition(row.definition)));
            };
            unseen.insert(Use { number, change: 0 });
        }
    }
    let mut accepted = Vec::with_capacity(executions.len());
    for row in executions {
        accepted.push(accept_one(connection, statements, row)?);
    }
    if let Some(watermark) = watermark {
        let Watermark { trigger, schedule, instant } = watermark;
        statements.put_watermark.execute(params![trigger.to_string(), schedule, to_ns(*instant)])?;
    }
    // Only now, since nothing can be refused any more.
    for (row, accepted) in executions.iter().zip(&accepted) {
        if *accepted == AcceptOutcome::New
            && let Some(of) = uses.get_mut(&row.definition)
        {
            of.change += 1;
        }
    }
    Ok(WriteResult::Accepted(accepted))
}

fn accept_one(
    connection: &Connection,
    statements: &mut Statements<'_>,
    row: &NewExecutionRow,
) -> Result<AcceptOutcome, WriteError> {
    let id = row.id.as_bytes();
    let automation = row.automation.as_str();
    if let Some(taken) = dedup::find_taken(connection, row)? {
        return Ok(taken);
    }
    if let Some(key) = &row.key
        && statements.take_key.execute(params![automation, key, id])? == 0
    {
        let owner = statements.find_key.query_row(params![automation, key], |row| row.get(0))?;
        return Ok(AcceptOutcome::Duplicate(ExecutionId::from_bytes(owner)));
    }
    let definition = row.definition.as_bytes();
    let NewExecutionRow { origin, started_ns, finished_ns, error, count, .. } = row;
    let shelf = shelf(row.status, false, row.is_test);
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
        start,
        row.cause.as_ref().map(ExecutionId::as_bytes),
    ];
    if statements.new_execution.execute(values)? == 0 {
        return Err(WriteError::Undo(Error::AlreadyExists(row.id)));
    }
    blobs::insert_references(connection, row.id, 0, &row.external)?;
    if let Some((count, lines)) = &row.lines {
        statements.new_logs.execute(params![id, count, lines])?;
    }
    dedup::take(connection, row)?;
    outbox::insert(connection, &row.emits)?;
    Ok(AcceptOutcome::New)
}

fn append(
    connection: &Connection,
    statements: &mut Statements<'_>,
    row: &AppendRow,
) -> Result<WriteResult, WriteError> {
    // Before any write, so that a refusal needs no rollback.
    state::check(connection, &row.state)?;
    let mut changed = advance(statements, row)?;
    if !changed && row.status.is_terminal() {
        // `move_shelf` does not end an execution with open waits.
        changed = waits::clear(connection, row.execution, row.first)? && advance(statements, row)?;
    }
    let id = row.execution.as_bytes();
    if !changed {
        let found = statements.find_state.query_row([id], |row| row.get(0)).optional()?;
        return Err(WriteError::Refused(match found {
            Some(found) => Error::Conflict { execution: row.execution, expected: row.first, found },
            None => Error::NoSuchExecution(row.execution),
        }));
    }
    if let Some(body) = &row.body {
        statements.new_events.execute(params![id, row.first, body])?;
        blobs::insert_references(connection, row.execution, row.first, &row.external)?;
    }
    if let Some((count, lines)) = &row.lines {
        statements.new_logs.execute(params![id, count, lines])?;
    }
    if let Some(waits) = &row.waits {
        waits::replace(connection, row.execution, waits)?;
    }
    replay::change(connection, row.execution, &row.snapshot)?;
    state::write(connection, &row.state)?;
    outbox::insert(connection, &row.emits)?;
    Ok(WriteResult::Nothing)
}

/// Updates the row of an execution if it has the expected number of events. Returns true if it did.
fn advance(statements: &mut Statements<'_>, row: &AppendRow) -> rusqlite::Result<bool> {
    let id = row.execution.as_bytes();
    let lines = row.lines.as_ref().map_or(0, |(count, _)| *count);
    let status = status_code(row.status);
    let mut changed = 0;
    let shelf = shelf(row.status, row.keeps_permit, false);
    if shelf == 0 {
        changed = statements.advance.execute(params![id, row.first, row.count, lines, status])?;
    }
    // Its shelf changes, or it was not the one of running executions.
    if changed == 0 {
        let AppendRow { first, count, finished_ns, error, .. } = row;
        let ends = row.status.is_terminal();
        let values = params![id, first, count, lines, status, shelf, finished_ns, error, ends];
        changed = statements.move_shelf.execute(values)?;
    }
    Ok(changed > 0)
}

fn write_state(
    connection: &Connection,
    changes: &[StateChange],
    emits: &[OutboxRow],
) -> Result<WriteResult, WriteError> {
    state::check(connection, changes)?;
    state::write(connection, changes)?;
    outbox::insert(connection, emits)?;
    Ok(WriteResult::Nothing)
}

fn get_or_init_secret(connection: &Connection, fresh: &SecretKey) -> Result<WriteResult, WriteError> {
    let sql = "INSERT INTO meta (name, value) VALUES ('secret', ?1) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute([fresh.0])?;
    let sql = "SELECT value FROM meta WHERE name = 'secret'";
    let kept = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(WriteResult::Secret(SecretKey(kept)))
}

fn put_definition(connection: &Connection, definition: &Definition) -> Result<WriteResult, WriteError> {
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
            let sql = "INSERT INTO definitions (hash, automation, put) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![
                hash.as_bytes(),
                automation.as_str(),
                newest + 1
            ])?;
            let sql = "INSERT INTO definition_texts (hash, path, text) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute(params![hash.as_bytes(), path, text])?;
            let sql = "INSERT INTO definition_uses (definition, executions) VALUES (last_insert_rowid(), 0)";
            connection.prepare_cached(sql)?.execute([])?;
        }
    }
    Ok(WriteResult::Nothing)
}

fn put_addresses(connection: &Connection, addresses: &[Address]) -> Result<WriteResult, WriteError> {
    let sql = "INSERT INTO addresses (automation, live, test) VALUES (?1, ?2, ?3) \
               ON CONFLICT DO UPDATE SET live = excluded.live, test = excluded.test";
    let mut statement = connection.prepare_cached(sql)?;
    for address in addresses {
        statement.execute(params![address.trigger.to_string(), address.live, address.test])?;
    }
    Ok(WriteResult::Nothing)
}
