//! SIGTERM under load: running executions come to the end of their step, and continue at the next start.

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};

/// Maximum number of effects, after enough progress, before the daemon is stopped.
const MAX_FURTHER_EFFECTS: usize = 120;

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("term", effort.seed, Parts { ticks: true, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        let status = rig.stop().await?;
        rig.verdict().rounds += 1;
        let repeated = rig.shared().oracle().repeated();
        rig.blame((!status.success()).then(|| format!("asked to stop, it ended with {status}")));
        rig.blame(
            (repeated > 0).then(|| format!("{repeated} effects were repeated though it stopped in order")),
        );
        rig.start_and_finish().await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}
