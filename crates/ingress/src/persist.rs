//! Reads and writes of the store that are tried again, with growing pauses, until they succeed: without them a trigger would lose its
//! progress.

use std::time::Duration;

use runtime::Runtime;

/// The first and the longest pause between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Runs `operation` until it succeeds. Returns `None` if the engine stops before, or the store has failed for good.
pub(crate) async fn until_done<T, F>(runtime: &Runtime, mut operation: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, store::Error>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match operation().await {
            Ok(done) => return Some(done),
            Err(error) => {
                if pause == FIRST_PAUSE || error.is_untrusted() {
                    runtime.lost(&error);
                }
                if error.is_untrusted() {
                    return None;
                }
            }
        }
        runtime.closing.run_until_cancelled(runtime.clock.sleep_for(pause)).await?;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
