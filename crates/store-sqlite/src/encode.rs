//! The operations of the writer, encoded on the caller's side, so that the writer thread only executes statements.

use std::fmt;
use std::sync::Arc;

use model::ExecutionId;
use model::automation::TriggerKey;

use super::blobs::{ExternalValues, Hash, Pin};
use store::codec::{PollRow, StateChange, TextRoom, state_bytes, state_changes};
use store::{Accept, Address, Append, Definition, OutboxRow, StateWrite, Subscription, Watermark};
use store::{AcceptOutcome, Error};

/// The encoded form of a new execution.
pub(super) type NewExecutionRow = store::codec::NewExecutionRow<Arc<Pin>>;

/// The encoded form of an append.
pub(super) type AppendRow = store::codec::AppendRow<Arc<Pin>>;

/// A write operation, as it is queued for the writer.
#[derive(Debug)]
pub(super) enum WriteOp {
    /// New executions, the watermark and the poll they belong to, sent events, and delivered ones.
    Accept {
        executions: Vec<NewExecutionRow>,
        watermark: Option<Watermark>,
        poll: Option<Box<PollRow>>,
        emits: Vec<OutboxRow>,
        delivered: Vec<ExecutionId>,
    },
    /// Stores a subscription, or deletes it if there is none to store.
    PutSubscription { id: String, kept: Option<(TriggerKey, String)> },
    /// Moves the rows of a trigger to another key. Returns [`WriteResult::Count`].
    MoveTrigger { from: TriggerKey, to: TriggerKey },
    /// Events and log lines of one execution.
    Append(Box<AppendRow>),
    /// The text of a definition.
    PutDefinition(Definition),
    /// Addresses, each replacing the one of its trigger.
    PutAddresses(Vec<Address>),
    /// Values of the state to store or delete.
    WriteState(Vec<StateChange>, Vec<OutboxRow>),
    /// The signing key to store if there is none. Returns [`WriteResult::Secret`].
    PutSecret(SecretKey),
    /// Deletes the rows of these executions; their events and logs stay for now. Returns [`WriteResult::Count`].
    DeleteExecutions(Vec<ExecutionId>),
    /// Deletes some of the events and logs of deleted executions. Returns [`WriteResult::More`].
    DeleteRemains,
    /// Deletes unreferenced definitions. Returns [`WriteResult::More`].
    DeleteDefinitions,
    /// Deletes some of the rows of unused blobs. Returns [`WriteResult::DeletedBlobs`].
    DeleteBlobRows,
    /// Deletes at most `limit` keys of deleted executions with ids before this. Returns [`WriteResult::Count`].
    DeleteKeys { before: [u8; 6], limit: u32 },
    /// Deletes some of the values that expired before this, at most `limit`. Returns [`WriteResult::Count`].
    DeleteExpiredState { before_ns: i64, limit: u32 },
    /// Deletes some deduplication records that expired before this, at most `limit`. Returns [`WriteResult::Count`].
    DeleteExpiredDedup { before_ns: i64, limit: u32 },
    /// Returns some free pages to the file system. Returns [`WriteResult::More`].
    Vacuum,
}

/// The result of a write operation.
#[derive(Debug)]
pub(super) enum WriteResult {
    /// Success without a value.
    Nothing,
    /// The outcome of each new execution.
    Accepted(Vec<AcceptOutcome>),
    /// The number of deleted rows.
    Count(u64),
    /// True if the same operation has more to do.
    More(bool),
    /// The blobs whose rows were deleted.
    DeletedBlobs(Vec<Hash>),
    /// The stored key.
    Secret(SecretKey),
}

/// A signing key. Its debug output is `***`.
pub(super) struct SecretKey(pub(super) [u8; 32]);

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl WriteOp {
    /// Encodes an [`Accept`]. A request body of `large` bytes or more stays in the text, from which it is externalized.
    pub(super) fn accept(accept: &Accept, large: usize, room: &mut TextRoom) -> Result<Self, Error> {
        // Most often there is one, for which `collect` would allocate room for four.
        let mut executions = Vec::with_capacity(accept.executions.len());
        for execution in &accept.executions {
            executions.push(NewExecutionRow::new(execution, large, room)?);
        }
        let poll = accept.poll.as_ref().map(PollRow::new).transpose()?.map(Box::new);
        OutboxRow::check(&accept.emits)?;
        let (emits, delivered) = (accept.emits.clone(), accept.delivered.clone());
        Ok(Self::Accept { executions, watermark: accept.watermark.clone(), poll, emits, delivered })
    }

    /// Encodes a subscription to store.
    pub(super) fn put_subscription(subscription: Subscription) -> Result<Self, Error> {
        let body = serde_json::to_string(&subscription)
            .map_err(|error| Error::Invalid { reason: error.to_string() })?;
        Ok(Self::PutSubscription { id: subscription.id, kept: Some((subscription.trigger, body)) })
    }

    /// Encodes an [`Append`].
    pub(super) fn append(append: &Append, room: &mut TextRoom) -> Result<Self, Error> {
        Ok(Self::Append(Box::new(AppendRow::new(append, room)?)))
    }

    /// Encodes writes of the state, and the events that are sent with them.
    pub(super) fn write_state(writes: &[StateWrite], emits: Vec<OutboxRow>) -> Result<Self, Error> {
        OutboxRow::check(&emits)?;
        Ok(Self::WriteState(state_changes(writes)?, emits))
    }

    /// Returns the texts that may contain large values, each with its list of external values.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = (&mut String, &mut ExternalValues)> {
        let (new, appended) = match self {
            Self::Accept { executions, .. } => (executions.as_mut_slice(), None),
            Self::Append(row) => {
                let row = &mut **row;
                (&mut [][..], row.body.as_mut().map(|body| (body, &mut row.external)))
            }
            _ => (&mut [][..], None),
        };
        new.iter_mut().map(|row| (&mut row.body, &mut row.external)).chain(appended)
    }

    /// Returns true if it adds or removes references to blobs.
    pub(super) fn concerns_blobs(&self) -> bool {
        match self {
            Self::Accept { executions, .. } => executions.iter().any(|row| !row.external.is_empty()),
            Self::Append(row) => !row.external.is_empty(),
            Self::DeleteRemains | Self::DeleteBlobRows | Self::Vacuum => true,
            _ => false,
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Accept { executions, poll, emits, .. } => {
                executions.iter().map(NewExecutionRow::bytes).sum::<usize>()
                    + poll.as_ref().map_or(0, |poll| poll.bytes())
                    + OutboxRow::bytes(emits)
            }
            Self::PutSubscription { kept, .. } => 256 + kept.as_ref().map_or(0, |(_, body)| body.len()),
            Self::Append(row) => row.bytes(),
            Self::WriteState(changes, emits) => state_bytes(changes) + OutboxRow::bytes(emits),
            Self::PutDefinition(definition) => 256 + definition.text.len(),
            Self::PutAddresses(addresses) => 256 * addresses.len(),
            Self::DeleteExecutions(ids) => 16 * ids.len(),
            Self::MoveTrigger { .. }
            | Self::PutSecret(_)
            | Self::DeleteRemains
            | Self::DeleteDefinitions
            | Self::DeleteBlobRows
            | Self::DeleteKeys { .. }
            | Self::DeleteExpiredState { .. }
            | Self::DeleteExpiredDedup { .. }
            | Self::Vacuum => 0,
        }
    }
}
