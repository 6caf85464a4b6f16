//! One attempt to commit a batch, in one round trip.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;

use futures_util::future::join_all;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::arrange::{Answers, Step, arrange};
use super::connect::{Session, is_lost, is_transient, message};
use super::forms::{execution_of, id_of};
use super::op::{Done, Item, Op};
use super::statements::FENCE;
use store::{AcceptOutcome, Error};

/// The code with which `fence` refuses.
const FENCED: &str = "CW001";

/// A connection of a lane, with its prepared statements.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) session: Session,
    /// The process of the server for it.
    pub(super) pid: i32,
    statements: HashMap<&'static str, Statement>,
}

/// The result for one write of a batch that was committed.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is written.
    Done(Done),
    /// It did not match its statement. The function for one write tells why, or writes it.
    Again,
    /// It was refused and changed nothing.
    Refused(Error),
}

/// The reason why a batch was not committed, or may not have been.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection was lost, or the server warned about the commit: it may be committed.
    Unknown(String),
    /// The lane is dead, or an earlier attempt was committed.
    Fenced,
    /// Another transaction was in the way: the same batch can be sent again.
    Transient(String),
    /// A statement failed, and nothing is written.
    Failed(tokio_postgres::Error),
}

impl Prepared {
    pub(super) fn new(session: Session, pid: i32) -> Self {
        Self { session, pid, statements: HashMap::new() }
    }

    /// Sends a batch with this number and waits until it is committed. Returns a verdict for each write.
    pub(super) async fn attempt(
        &mut self,
        lane: (i64, i16),
        number: i64,
        items: &[Item],
    ) -> Result<Vec<Verdict>, Failure> {
        let steps = arrange(lane.0, items);
        let sqls = steps.iter().map(|step| step.sql).chain([FENCE]);
        self.prepare(sqls.collect()).await.map_err(failure)?;
        let warnings = self.session.warnings();
        let results = self.send(lane, number, &steps).await?;
        if self.session.warnings() != warnings {
            return Err(Failure::Unknown("the server warned about the commit".to_owned()));
        }
        verdicts(items, steps, results)
    }

    async fn prepare(&mut self, sqls: HashSet<&'static str>) -> Result<(), tokio_postgres::Error> {
        for sql in sqls {
            if !self.statements.contains_key(sql) {
                let statement = self.session.client.prepare(sql).await?;
                self.statements.insert(sql, statement);
            }
        }
        Ok(())
    }

    /// Sends all statements of a transaction without waiting between them. Returns the rows of each step.
    async fn send(
        &self,
        (node, lane): (i64, i16),
        number: i64,
        steps: &[Step<'_>],
    ) -> Result<Vec<Vec<Row>>, Failure> {
        type Sent<'send> =
            Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send + 'send>>;
        let client = &self.session.client;
        let simple = |sql| Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) });
        let prepared = |sql: &'static str| self.statements.get(sql);
        let mut sent: Vec<Sent<'_>> = Vec::with_capacity(steps.len() + 3);
        sent.push(simple("BEGIN"));
        let fence = prepared(FENCE);
        sent.push(Box::pin(async move {
            match fence {
                Some(fence) => client.query(fence, &[&node, &lane, &number]).await,
                None => client.query(FENCE, &[&node, &lane, &number]).await,
            }
        }));
        for step in steps {
            let statement = prepared(step.sql);
            sent.push(Box::pin(async move {
                let params = step.params.borrowed();
                match statement {
                    Some(statement) => client.query(statement, &params).await,
                    None => client.query(step.sql, &params).await,
                }
            }));
        }
        // After a failed statement the server answers it with a rollback.
        sent.push(simple("COMMIT"));
        // The messages are sent in the order in which the futures are polled first, which is that of the list.
        let mut rows = Vec::with_capacity(steps.len());
        for result in join_all(sent).await {
            rows.push(result.map_err(failure)?);
        }
        rows.pop();
        Ok(rows.split_off(2))
    }
}

fn failure(error: tokio_postgres::Error) -> Failure {
    match error.code() {
        Some(code) if code.code() == FENCED => Failure::Fenced,
        _ if is_lost(&error) => Failure::Unknown(message(&error)),
        _ if is_transient(&error) => Failure::Transient(message(&error)),
        _ => Failure::Failed(error),
    }
}

/// Assigns the rows of the statements to the writes.
fn verdicts(items: &[Item], steps: Vec<Step<'_>>, results: Vec<Vec<Row>>) -> Result<Vec<Verdict>, Failure> {
    let mut verdicts: Vec<Verdict> = items.iter().map(|_| Verdict::Again).collect();
    let mut lists: HashMap<usize, Vec<Vec<Row>>> = HashMap::new();
    let mut set = |index: usize, verdict: Verdict| {
        if let Some(place) = verdicts.get_mut(index) {
            *place = verdict;
        }
    };
    for (Step { answers, .. }, rows) in steps.into_iter().zip(results) {
        match answers {
            Answers::None => {}
            Answers::Done(indexes) => {
                for index in indexes {
                    set(index, Verdict::Done(done_of(&items[index].op)));
                }
            }
            Answers::Matched(indexes) => {
                let row = rows.first().map(|row| row.try_get::<_, Vec<bool>>(0));
                let done = row.transpose().map_err(failure)?.unwrap_or_default();
                for (index, done) in indexes.into_iter().zip(done) {
                    if done {
                        set(index, Verdict::Done(Done::Nothing));
                    }
                }
            }
            Answers::Accepted(index) => set(index, accepted(&rows).map_err(failure)?),
            Answers::Appended(index) => set(index, appended(&items[index].op, &rows).map_err(failure)?),
            Answers::State(index) => set(index, state(&items[index].op, &rows).map_err(failure)?),
            Answers::Rows(index) => lists.entry(index).or_default().push(rows),
        }
    }
    for (index, rows) in lists {
        set(index, Verdict::Done(Done::Rows(rows)));
    }
    Ok(verdicts)
}

/// Returns the result of a write that cannot be refused.
pub(super) fn done_of(op: &Op) -> Done {
    match op {
        Op::Accept(accept) => Done::Accepted(vec![AcceptOutcome::New; accept.executions.len()]),
        _ => Done::Nothing,
    }
}

fn accepted(rows: &[Row]) -> Result<Verdict, tokio_postgres::Error> {
    let Some(row) = rows.first() else { return Ok(Verdict::Again) };
    let (codes, others): (Vec<i16>, Vec<Option<Uuid>>) = (row.try_get(0)?, row.try_get(1)?);
    let outcomes = codes.iter().zip(others).map(|(code, other)| match (code, other.map(execution_of)) {
        (1, Some(first)) => AcceptOutcome::Duplicate(first),
        (2, Some(first)) => AcceptOutcome::Mismatch(first),
        (4, _) => AcceptOutcome::Elsewhere,
        _ => AcceptOutcome::New,
    });
    Ok(Verdict::Done(Done::Accepted(outcomes.collect())))
}

fn appended(op: &Op, rows: &[Row]) -> Result<Verdict, tokio_postgres::Error> {
    let (Op::Append(append), Some(row)) = (op, rows.first()) else { return Ok(Verdict::Again) };
    let (verdict, found): (i16, Option<i32>) = (row.try_get(0)?, row.try_get(1)?);
    let execution = append.execution;
    Ok(match verdict {
        0 => Verdict::Done(Done::Nothing),
        1 => {
            let found = found.and_then(|found| u32::try_from(found).ok()).unwrap_or_default();
            Verdict::Refused(Error::Conflict { execution, expected: append.first, found })
        }
        3 => changed(&append.state, found),
        4 => Verdict::Refused(Error::Poisoned {
            reason: format!("another daemon runs the execution {execution}"),
        }),
        _ => Verdict::Refused(Error::NoSuchExecution(execution)),
    })
}

fn state(op: &Op, rows: &[Row]) -> Result<Verdict, tokio_postgres::Error> {
    let (Op::State(changes, _), Some(row)) = (op, rows.first()) else { return Ok(Verdict::Again) };
    let differs: i32 = row.try_get(0)?;
    Ok(if differs == 0 { Verdict::Done(Done::Nothing) } else { changed(changes, Some(differs)) })
}

/// Returns the refusal of the change with this index, counted from 1.
fn changed(changes: &[store::codec::StateChange], differs: Option<i32>) -> Verdict {
    let index = differs.and_then(|index| usize::try_from(index - 1).ok()).unwrap_or_default();
    match changes.get(index) {
        Some(change) => {
            let (scope, key) = (change.scope.clone(), change.key.clone());
            Verdict::Refused(Error::StateChanged { scope, key })
        }
        None => Verdict::Again,
    }
}

/// Converts the error of a write that failed by itself.
pub(super) fn refusal(op: &Op, error: &tokio_postgres::Error) -> Error {
    if let (Op::Accept(accept), Some(&SqlState::UNIQUE_VIOLATION)) = (op, error.code()) {
        let detail = error.as_db_error().and_then(|error| error.detail()).unwrap_or_default();
        let ids = accept.executions.iter().map(|new| new.row.id);
        let taken = ids.into_iter().find(|id| detail.contains(&id_of(*id).to_string()));
        if let Some(taken) = taken {
            return Error::AlreadyExists(taken);
        }
    }
    match error.code() {
        // Such as an index entry that is too long.
        Some(&SqlState::PROGRAM_LIMIT_EXCEEDED) => Error::Invalid { reason: message(error) },
        _ => super::connect::write_error(error),
    }
}

/// Returns true if a row has no partition, since its day was dropped.
pub(super) fn lacks_partition(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::CHECK_VIOLATION)
        && error.as_db_error().is_some_and(|error| error.constraint().is_none())
}
