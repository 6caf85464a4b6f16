//! Ids of executions.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The positions of the hyphens in the text form of an id.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The id of an execution: a version 7 UUID, so that ids sort by time of acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionId(Uuid);

impl ExecutionId {
    /// Creates the id of an execution accepted at `now`.
    #[must_use]
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// Returns the time of acceptance, in whole milliseconds; `None` if the id is not a version 7 UUID.
    #[must_use]
    pub fn created_at(&self) -> Option<Timestamp> {
        let (seconds, nanoseconds) = self.0.get_timestamp()?.to_unix();
        Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
    }

    /// Returns the 16 bytes; their order is that of acceptance.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Returns the first and the last id whose text starts with `prefix`; `None` if `prefix` is not the start of an id.
    ///
    /// `prefix` has hexadecimal digits, either with all hyphens of an id or without any.
    #[must_use]
    pub fn range_for_prefix(prefix: &str) -> Option<(Self, Self)> {
        let hyphens = prefix.contains('-');
        let mut digits = 0;
        let mut first = 0_u128;
        for (index, character) in prefix.chars().enumerate() {
            if hyphens && HYPHENS.contains(&index) {
                if character != '-' {
                    return None;
                }
                continue;
            }
            digits += 1;
            first = (first << 4) | u128::from(character.to_digit(16)?);
        }
        if !(1..=32).contains(&digits) {
            return None;
        }
        let free_bits = 4 * (32 - digits);
        let first = first << free_bits;
        let last = first | ((1_u128 << free_bits) - 1);
        Some((Self::from_bytes(first.to_be_bytes()), Self::from_bytes(last.to_be_bytes())))
    }

    /// Creates an id from its 16 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for ExecutionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_selects_the_range_of_ids_that_start_with_it() {
        let id: ExecutionId = "019a2b3c-4d5e-7f60-8123-456789abcdef".parse().expect("an id");
        for prefix in ["0", "019a2b3c", "019A2B3C-", "019a2b3c-4d5", "019a2b3c4d5e", &id.to_string()] {
            let (first, last) = ExecutionId::range_for_prefix(prefix).expect(prefix);
            assert!((first..=last).contains(&id), "{prefix}");
        }
        let (first, last) = ExecutionId::range_for_prefix("019a2b3d").expect("a prefix");
        assert!(!(first..=last).contains(&id));
        assert_eq!(ExecutionId::range_for_prefix(&id.to_string()), Some((id, id)));
        let long = format!("{id}0");
        for wrong in ["", "-", "latest", "019a2b3c4-d5e", "019a2b3c-4d5e7", "01 9", &long] {
            assert_eq!(ExecutionId::range_for_prefix(wrong), None, "{wrong}");
        }
    }
}
