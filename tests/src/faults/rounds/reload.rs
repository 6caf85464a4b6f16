//! Files change under load, some of them to broken ones.

use std::time::Duration;

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};

/// The number of files that change in order.
const FILES: u32 = 10;
/// Each how many-th change breaks a file.
const BROKEN_EACH: u32 = 3;
/// The number of changes before the first look at memory: caches and pools are full by then.
const WARM: u32 = 100;
/// The largest multiple of that memory at the end: noise of an allocator, not a leak, which would
/// have added up over hundreds of reloads.
const MORE_MEMORY: f64 = 1.3;
/// The time limit until a change is in force.
const PATIENCE: Duration = Duration::from_secs(30);
/// The interval between two checks of the version in force.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("reload", effort.seed, Parts::default()).await?;
    for file in 0..FILES {
        change(&rig, file, 0, false)?;
    }
    rig.start().await?;
    rig.load();
    rig.progress(PROGRESS).await;
    let mut warm = None;
    for round in 0..effort.rounds {
        let (file, is_broken) = (round % FILES, round % BROKEN_EACH == 0);
        change(&rig, file, round + 1, is_broken)?;
        in_force(&rig, file, round + 1, is_broken).await?;
        rig.verdict().rounds += 1;
        if round == WARM {
            warm = resident(rig.daemon()?.id()?);
        }
        if !rig.is_well() {
            break;
        }
    }
    rig.progress(PROGRESS).await;
    let failed = rig.shared().unanswered() + *rig.shared().refused().borrow();
    let is = resident(rig.daemon()?.id()?);
    rig.blame((failed > 0).then(|| format!("{failed} requests to webhooks that did not change failed")));
    if let (Some(warm), Some(is)) = (warm, is) {
        let ratio = is / warm;
        rig.blame((ratio > MORE_MEMORY).then(|| format!("memory grew to {ratio:.2} times what it was")));
        rig.verdict()
            .notes
            .push(format!("memory after {WARM} changes {warm:.0} MiB, in the end {is:.0} MiB"));
    }
    rig.settle().await
}

fn change(rig: &Rig, file: u32, version: u32, is_broken: bool) -> Result<(), Error> {
    let verb = if is_broken { "sett" } else { "set" };
    let text =
        format!("description: version {version}\ntrigger: {{manual: {{}}}}\nsteps:\n  - {verb}: {{a: 1}}\n");
    Ok(rig.project().replace(&format!("automations/other-{file}.yaml"), &text)?)
}

/// Waits until a change is in force, or is known to be broken.
async fn in_force(rig: &Rig, file: u32, version: u32, is_broken: bool) -> Result<(), Error> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut received = rig.shared().sink().count();
    while tokio::time::Instant::now() < deadline {
        let shown = rig.ask(&format!("/automations/other-{file}")).await?;
        let is_taken = if is_broken {
            shown["state"] != "active"
        } else {
            shown["description"] == format!("version {version}")
        };
        if is_taken {
            return Ok(());
        }
        let _ = tokio::time::timeout(CHECK_INTERVAL, received.changed()).await;
    }
    rig.blame(Some(format!("version {version} of file {file} was not taken")));
    Ok(())
}

/// Mebibytes of memory that a process has.
pub(super) fn resident(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}
