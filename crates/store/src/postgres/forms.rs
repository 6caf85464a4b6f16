//! Stored forms of ids and names.

use model::ExecutionId;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The name of a blob: the SHA-256 of its content.
pub(super) type Hash = [u8; 32];

/// The kinds of names: a key, and a deduplication record.
pub(super) const KEY: i16 = 0;
pub(super) const RECORD: i16 = 1;

/// The number added to the shelf of a test.
pub(super) const TEST_SHELF: i16 = 8;

/// The most bytes of a key in the table of names. A longer one is stored as its hash.
const MAX_KEY_BYTES: usize = 1024;

/// Returns an id as the database has it.
pub(super) fn id_of(id: ExecutionId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

/// Returns the id of an execution.
pub(super) fn execution_of(id: Uuid) -> ExecutionId {
    ExecutionId::from_bytes(id.into_bytes())
}

/// Returns the stored form of a key. No text begins with the byte 0xff.
pub(super) fn name_of_key(key: &str) -> Vec<u8> {
    if key.len() <= MAX_KEY_BYTES {
        return key.as_bytes().to_vec();
    }
    [&[0xff][..], &Sha256::digest(key.as_bytes())[..]].concat()
}
