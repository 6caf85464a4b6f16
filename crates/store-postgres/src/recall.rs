//! The verdicts of a batch that was committed without an answer, found again in the tables.

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::attempt::{Verdict, done_of};
use super::forms::{Hash, KEY, RECORD, execution_of, id_of};
use super::op::{AcceptOp, AcceptRow, Done, Item, Op};
use store::AcceptOutcome;
use store::codec::{AppendRow, StateChange, key_name};

type Result<T> = std::result::Result<T, tokio_postgres::Error>;

const PLACE: &str = "SELECT owner IS DISTINCT FROM $2 FROM live WHERE id = $1 \
    UNION ALL SELECT false FROM executions WHERE id = $1";
const HOLDER: &str = "SELECT execution, content FROM names n JOIN automations a ON a.no = n.automation \
    WHERE a.no = $1 AND kind = $2 AND key = $3";
const HAS_EVENTS: &str = "SELECT EXISTS (SELECT 1 FROM events WHERE execution = $1 AND first = $2 AND body = $3) \
    OR EXISTS (SELECT 1 FROM executions WHERE id = $1 AND tail_first = $2 AND tail = $3)";
const HAS_LINES: &str = "SELECT EXISTS (SELECT 1 FROM logs WHERE execution = $1 AND lines = $2)";
const STATE_VALUE: &str = "SELECT version, value FROM state WHERE scope = $1 AND key = $2";

/// Returns the verdicts of a committed batch. A write that was refused, or that did not match its statement, is to be written
/// again.
pub(super) async fn recall(client: &Client, node: i64, items: &[Item]) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        verdicts.push(match &item.op {
            Op::Accept(accept) if accept.is_plain() && !item.alone => Verdict::Done(done_of(&item.op)),
            Op::Accept(accept) => Verdict::Done(Done::Accepted(accepted(client, node, accept).await?)),
            Op::Append(row) if was_appended(client, row).await? => Verdict::Done(Done::Nothing),
            Op::State(changes, _) if was_changed(client, changes).await? => Verdict::Done(Done::Nothing),
            Op::Append(_) | Op::State(..) | Op::Statements(_) => Verdict::Again,
        });
    }
    Ok(verdicts)
}

async fn accepted(client: &Client, node: i64, accept: &AcceptOp) -> Result<Vec<AcceptOutcome>> {
    let mut outcomes = Vec::with_capacity(accept.executions.len());
    for new in &accept.executions {
        let place = client.query_opt(PLACE, &[&id_of(new.row.id), &node]).await?;
        let is_elsewhere: Option<bool> = place.map(|row| row.try_get(0)).transpose()?;
        outcomes.push(match is_elsewhere {
            Some(false) => AcceptOutcome::New,
            Some(true) => AcceptOutcome::Elsewhere,
            None => holder(client, new).await?,
        });
    }
    Ok(outcomes)
}

/// Returns the outcome for an execution that was refused since one of its names is taken.
async fn holder(client: &Client, new: &AcceptRow) -> Result<AcceptOutcome> {
    let records = new.row.dedup.iter().map(|record| (RECORD, record.key.to_vec(), record.content));
    let key = new.row.key.as_deref().map(|key| (KEY, key_name(key), None));
    for (kind, key, content) in records.chain(key) {
        if let Some(row) = client.query_opt(HOLDER, &[&new.automation, &kind, &key]).await? {
            let (first, found): (Uuid, Option<Vec<u8>>) = (row.try_get(0)?, row.try_get(1)?);
            let differs = matches!((found, content), (Some(one), Some(other)) if one != other);
            let first = execution_of(first);
            if first != new.row.id {
                return Ok(if differs {
                    AcceptOutcome::Mismatch(first)
                } else {
                    AcceptOutcome::Duplicate(first)
                });
            }
        }
    }
    // It was accepted, and has been deleted since.
    Ok(AcceptOutcome::New)
}

async fn was_appended(client: &Client, row: &AppendRow<Hash>) -> Result<bool> {
    let (id, first) = (id_of(row.execution), i32::try_from(row.first).unwrap_or(i32::MAX));
    match (&row.body, &row.lines) {
        (Some(body), _) => is_true(client, HAS_EVENTS, &[&id, &first, &body.as_bytes()]).await,
        (None, Some((_, lines))) => is_true(client, HAS_LINES, &[&id, &lines.as_bytes()]).await,
        (None, None) if !row.state.is_empty() => was_changed(client, &row.state).await,
        // Its repetition changes nothing more.
        (None, None) => Ok(false),
    }
}

async fn was_changed(client: &Client, changes: &[StateChange]) -> Result<bool> {
    for change in changes {
        let found =
            client.query_opt(STATE_VALUE, &[&change.scope.as_bytes(), &change.key.as_bytes()]).await?;
        let is_new = match (found, &change.value) {
            (None, None) => true,
            (Some(row), Some(value)) => {
                let (version, stored): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
                change.expected != Some(version) && stored == value.as_bytes()
            }
            _ => false,
        };
        if !is_new {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn is_true(client: &Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<bool> {
    client.query_one(sql, params).await?.try_get(0)
}
