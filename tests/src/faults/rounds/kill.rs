//! `kill -9` at random moments, under load.

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};

/// Up to how many effects after enough progress the daemon is killed.
const MAX_FURTHER_EFFECTS: usize = 120;

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("kill", effort.seed, Parts { ticks: true, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        rig.kill().await?;
        rig.verdict().rounds += 1;
        rig.start_and_finish().await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}
