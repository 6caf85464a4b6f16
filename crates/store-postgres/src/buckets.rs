//! Token buckets of rate limits that all nodes share.

use std::time::Duration;

use super::op::params;
use super::reader::{Reader, get};
use store::Error;
use store::{BucketKind, TokenGrant, TokenRequest};

const TAKE: &str = "SELECT granted, wait_ns FROM take_tokens($1, $2, $3, $4, $5, $6, $7)";
const DELETE_FULL: &str =
    "DELETE FROM buckets WHERE full_ns < (extract(epoch FROM clock_timestamp()) * 1000000000)::int8";

/// Takes tokens for a node. This is no batch of a lane: the row is locked for the length of one statement, and a repetition, or a
/// node that was declared dead, only takes more tokens than are used.
pub(super) async fn take(reader: &Reader, node: i64, request: TokenRequest) -> Result<TokenGrant, Error> {
    let TokenRequest { trigger, test, kind, per_second, burst, wanted, hold } = request;
    let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    // The clock of the database may run faster.
    let hold = i64::try_from(hold.as_nanos()).unwrap_or(i64::MAX / 4).saturating_mul(2);
    let bucket = match kind {
        BucketKind::Start => trigger.to_string(),
        // No key of a trigger has a colon.
        BucketKind::Challenge => format!("challenge:{trigger}"),
    };
    let params = params![bucket, test, node, per_second, count(burst), count(wanted), hold];
    let Some(row) = reader.row(TAKE, params).await? else { return Ok(TokenGrant::default()) };
    Ok(TokenGrant {
        granted: u32::try_from(get::<i32>(&row, 0)?).unwrap_or_default(),
        retry_after: Duration::from_nanos(u64::try_from(get::<i64>(&row, 1)?).unwrap_or_default()),
    })
}

/// Deletes full buckets, which are as good as none.
pub(super) async fn delete_full(reader: &Reader) -> Result<(), Error> {
    reader.rows(DELETE_FULL, Vec::new()).await.map(drop)
}
