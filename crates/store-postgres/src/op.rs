//! Writes, as they wait for a lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::forms::{Hash, id_of};
use store::codec::{AppendRow, NewExecutionRow, PollRow, StateChange, state_bytes};
use store::outage::Source;
use store::{AcceptOutcome, Error};
use store::{OutboxRow, Watermark};

/// The parameters of a statement.
pub(super) type Params = Vec<Box<dyn ToSql + Sync + Send>>;

/// Boxes the parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as Box<dyn tokio_postgres::types::ToSql + Sync + Send>),*]
    };
}
pub(super) use params;

/// Returns the parameters as a client takes them.
pub(super) fn borrowed(params: &Params) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect()
}

/// A write.
#[derive(Debug)]
pub(super) enum Op {
    /// New executions, and the writes of the same transaction.
    Accept(AcceptOp),
    /// Events and log lines of one execution.
    Append(Box<AppendRow<Hash>>),
    /// Values of the state to store or delete, and events that are sent with them.
    State(Vec<StateChange>, Vec<OutboxRow>),
    /// Statements whose repetition changes nothing more.
    Statements(Vec<(&'static str, Params)>),
}

/// Executions to accept together.
#[derive(Debug)]
pub(super) struct AcceptOp {
    pub(super) executions: Vec<AcceptRow>,
    pub(super) watermark: Option<Watermark>,
    pub(super) poll: Option<Box<PollRow>>,
    /// The sent events, and the delivered ones.
    pub(super) emits: Vec<OutboxRow>,
    pub(super) delivered: Vec<Uuid>,
}

/// An execution to accept, with the numbers of its dictionaries.
#[derive(Debug)]
pub(super) struct AcceptRow {
    pub(super) row: NewExecutionRow<Hash>,
    pub(super) automation: i32,
    pub(super) definition: i32,
    /// The shard in which it waits for others; `None` if it never does.
    pub(super) gate: Option<i16>,
}

/// The result of a write.
#[derive(Debug)]
pub(super) enum Done {
    /// The outcome of each new execution.
    Accepted(Vec<AcceptOutcome>),
    /// Success without a value.
    Nothing,
    /// The rows that each statement returned.
    Rows(Vec<Vec<Row>>),
}

/// A write with the place for its result.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) op: Op,
    /// True if it is written by itself, since it failed together with others.
    pub(super) alone: bool,
    /// True if an append is written by the function that takes every append.
    pub(super) slow: bool,
    /// The claim of a write that its caller may withdraw; `None` if it may not, or the write has been sent.
    pub(super) claim: Option<Claim>,
    pub(super) reply: oneshot::Sender<Result<Done, Error>>,
}

/// The right to send a write or to withdraw it, which the first of the lane and the caller gets.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Takes the right. Returns false if the other side has it.
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

impl Item {
    /// Takes the right to send the write. Returns false if its caller has withdrawn it.
    pub(super) fn claim(&mut self) -> bool {
        self.claim.take().is_none_or(|claim| claim.take())
    }
}

impl AcceptOp {
    /// Returns true if it is one execution that nothing can refuse and no other node gets.
    pub(super) fn is_plain(&self) -> bool {
        let [AcceptRow { row, gate: None, .. }] = self.executions.as_slice() else { return false };
        row.key.is_none()
            && row.dedup.is_empty()
            && self.watermark.is_none()
            && self.poll.is_none()
            && !self.concerns_outbox()
    }

    /// Returns true if it sends or delivers events.
    pub(super) fn concerns_outbox(&self) -> bool {
        !self.emits.is_empty()
            || !self.delivered.is_empty()
            || self.executions.iter().any(|new| !new.row.emits.is_empty())
    }
}

impl Op {
    /// Returns the approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Accept(accept) => {
                accept.executions.iter().map(|new| new.row.bytes()).sum::<usize>()
                    + accept.poll.as_ref().map_or(0, |poll| poll.bytes())
                    + OutboxRow::bytes(&accept.emits)
            }
            Self::Append(row) => row.bytes(),
            Self::State(changes, emits) => state_bytes(changes) + OutboxRow::bytes(emits),
            Self::Statements(list) => 256 * list.len(),
        }
    }

    /// Returns the kind of write: two of one kind use the same tables.
    fn kind(&self) -> &'static str {
        match self {
            Self::Accept(accept) if accept.executions.is_empty() => "progress of a trigger",
            Self::Accept(accept) if accept.is_plain() => "start",
            Self::Accept(_) => "start with a key",
            Self::Append(_) if self.is_simple_append() => "append",
            Self::Append(_) => "append with more than events",
            Self::State(..) => "state",
            Self::Statements(list) => list.first().map_or("", |(sql, _)| sql),
        }
    }

    /// Returns the words for it; `None` if its statement names what it is.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Self::Accept(accept) if accept.executions.is_empty() => Some("the progress of a trigger"),
            Self::Accept(_) => Some("the start of an execution"),
            Self::Append(_) => Some("the progress of an execution"),
            Self::State(..) => Some("values of the state"),
            Self::Statements(_) => None,
        }
    }

    /// Returns the part of the store that an outage of this kind of write is noted for.
    pub(super) fn source(&self) -> Source {
        match self {
            Self::Accept(accept) if !accept.executions.is_empty() => Source::Start(self.kind()),
            _ => Source::Write(self.kind()),
        }
    }

    /// Returns the execution that it changes. Two writes of one execution never share a batch, whose statements would match its
    /// row only once.
    pub(super) fn execution(&self) -> Option<Uuid> {
        match self {
            Self::Append(row) => Some(id_of(row.execution)),
            Self::Accept(accept) => match accept.executions.as_slice() {
                [one] => Some(id_of(one.row.id)),
                _ => None,
            },
            Self::State(..) | Self::Statements(_) => None,
        }
    }

    /// Returns true if it locks rows that writes of other executions lock too: names, values of the state, progress of triggers.
    /// One lane writes all of these, so that two lanes never wait for each other.
    pub(super) fn is_shared(&self) -> bool {
        match self {
            Self::Accept(accept) => !accept.is_plain(),
            Self::Append(row) => !row.state.is_empty(),
            Self::State(..) | Self::Statements(_) => true,
        }
    }

    /// Returns true if an append is written by the statement for many, which takes neither waits, state, snapshots, blobs nor
    /// events for triggers.
    pub(super) fn is_simple_append(&self) -> bool {
        matches!(self, Self::Append(row) if row.waits.is_none() && row.state.is_empty()
            && row.external.is_empty() && row.emits.is_empty() && matches!(row.snapshot, store::SnapshotChange::Keep))
    }
}
