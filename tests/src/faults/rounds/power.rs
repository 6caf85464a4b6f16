//! The power of the disk is cut: what the system had only in its memory is gone.

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::tools::Disk;
use super::super::{Effort, Error, Verdict};

/// Up to how many effects after enough progress the power is cut.
const MAX_FURTHER_EFFECTS: usize = 120;

/// With full durability nothing that was acknowledged is lost.
pub(super) async fn cut(effort: Effort) -> Result<Verdict, Error> {
    rounds("power", effort, "").await
}

/// With relaxed durability something is: otherwise the cut would not bite.
pub(super) async fn cut_relaxed(effort: Effort) -> Result<Verdict, Error> {
    let mut verdict = rounds("power-relaxed", effort, "durability: relaxed\n").await?;
    if verdict.violations.is_empty() {
        verdict.violations.push("nothing was lost without syncs: the cut does not bite".to_owned());
    } else {
        verdict.notes.push(format!("as it must, it loses something: {}", verdict.violations[0]));
        verdict.violations.clear();
    }
    Ok(verdict)
}

async fn rounds(name: &'static str, effort: Effort, settings: &str) -> Result<Verdict, Error> {
    let mut disk = Disk::new().await?;
    let path = disk.path();
    let parts = Parts { ticks: true, within: Some(&path), settings, ..Parts::default() };
    let mut rig = Rig::new(name, effort.seed, parts).await?;
    // The author's files are not tested here.
    disk.sync().await?;
    rig.start().await?;
    rig.load();
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        // The processors lose their power as well. It is more than a nicety: a sync that is under way while this file system
        // is shut down may come back without an error though the file is as long as before (seen with a program that
        // does nothing but append and sync, 7 times in 150 on a busy machine), and the daemon must not use that result.
        rig.freeze()?;
        disk.cut_power().await?;
        rig.kill().await?;
        disk.power_on().await?;
        rig.verdict().rounds += 1;
        rig.start_and_finish().await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}
