//! Reads and writes of the store that are tried again, with growing pauses, until the store takes them: without them a trigger would
//! lose its progress.

use std::time::Duration;

use model::Backoff;
use runtime::Context;

/// The pauses between attempts.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(10));

/// Runs `operation` until it succeeds. Returns `None` if the engine stops before, the store has failed for good, or it refuses the
/// operation itself: then other triggers continue.
pub(crate) async fn until_done<T, F>(context: &Context, mut operation: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, store::Error>>,
{
    let mut pauses = PAUSES;
    loop {
        match operation().await {
            Ok(done) => return Some(done),
            Err(error) => {
                if pauses.is_fresh() || !error.may_pass() {
                    context.lost(&error);
                }
                if !error.may_pass() {
                    return None;
                }
            }
        }
        context.closing.run_until_cancelled(context.clock.sleep_for(pauses.pause())).await?;
    }
}
