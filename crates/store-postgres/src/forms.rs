//! Stored forms of ids and names.

use model::ExecutionId;
use uuid::Uuid;

/// The name of a blob: the SHA-256 of its content.
pub(super) type Hash = [u8; 32];

/// The kinds of names: a key, and a deduplication record.
pub(super) const KEY: i16 = 0;
pub(super) const RECORD: i16 = 1;

/// The number added to the shelf of a test.
pub(super) const TEST_SHELF: i16 = 8;

/// Returns an id as the database has it.
pub(super) fn id_of(id: ExecutionId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

/// Returns the id of an execution.
pub(super) fn execution_of(id: Uuid) -> ExecutionId {
    ExecutionId::from_bytes(id.into_bytes())
}
