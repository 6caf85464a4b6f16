//! Executions by the beginning of their id.

use model::ExecutionId;

use crate::error::Error;
use crate::traits::Store;
use crate::types::{ExecutionFilter, ExecutionRow, Page};

/// The executions whose ids begin with `prefix`, newest first, at most `limit`. None where it is no beginning of an id.
///
/// # Errors
/// The store cannot be read.
pub async fn executions_by_prefix(
    store: &dyn Store,
    prefix: &str,
    limit: u32,
) -> Result<Vec<ExecutionRow>, Error> {
    let Some((first, last)) = ExecutionId::range_for_prefix(prefix) else { return Ok(Vec::new()) };
    // A page ends before an id; above the last of all ids there is none.
    let before = u128::from_be_bytes(*last.as_bytes()).checked_add(1);
    let before = before.map(|next| ExecutionId::from_bytes(next.to_be_bytes()));
    let mut rows = store.executions(&ExecutionFilter::default(), Page { before, limit }).await?;
    rows.retain(|row| row.id >= first);
    Ok(rows)
}
