//! The disk fails, or is full.

use std::process::ExitStatus;
use std::time::Duration;

use super::super::judge::Sent;
use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::tools::Strace;
use super::super::{Effort, Error, Verdict};

/// The code with which the daemon ends when it is in doubt about what is stored.
const IN_DOUBT: i32 = 3;
/// Up to which call the fault waits.
const MOST_CALLS: u32 = 40;
/// The calls that fail in turn: the sync of a commit, the writes before it.
const CALLS: [&str; 2] = ["fdatasync,fsync", "pwrite64"];
/// How many requests must be refused while the disk is full.
const REFUSALS: u32 = 10;
/// How long it may take to go on when there is space.
const PATIENCE: Duration = Duration::from_secs(30);

/// One call fails with EIO: the daemon ends with code 3, and what it promised before stands.
pub(super) async fn errors(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("disk-error", effort.seed, Parts { ticks: true, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    for round in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        let call = CALLS[round as usize % CALLS.len()];
        let number = rig.random().u32(1..=MOST_CALLS);
        let strace = Strace::attach(rig.daemon()?.id()?, call, &format!("error=EIO:when={number}")).await?;
        let status = rig.ended().await?;
        drop(strace);
        rig.verdict().rounds += 1;
        rig.blame(in_order(status, &format!("after EIO at `{call}` number {number}")));
        rig.start_and_finish().await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}

/// What is wrong with how it ended, if anything.
fn in_order(status: ExitStatus, when: &str) -> Option<String> {
    (status.code() != Some(IN_DOUBT)).then(|| format!("{when} it ended with {status}"))
}

/// Every write fails with ENOSPC for a while: requests are refused, and when there is space all goes on.
pub(super) async fn full(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("disk-full", effort.seed, Parts { ticks: true, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        let strace = Strace::attach(rig.daemon()?.id()?, "pwrite64", "error=ENOSPC").await?;
        // The senders wait for the end of what they have sent.
        let mut answers = Vec::new();
        for _ in 0..REFUSALS {
            answers.push(rig.shared().send_one(rig.http(), Sent::Async).await);
        }
        rig.verdict().rounds += 1;
        // Where not even the log can be brought into order, or be copied into the file, it is in doubt.
        let ends = rig.is_ending().await?;
        if ends {
            drop(strace);
        } else {
            strace.detach().await?;
        }
        if ends || rig.is_ending().await? {
            let status = rig.ended().await?;
            rig.blame(in_order(status, "with a full disk"));
            rig.start_and_finish().await?;
            continue;
        }
        let is_refused = answers.iter().all(|status| *status == Some(503));
        rig.blame((!is_refused).then(|| format!("with a full disk it answered {answers:?}")));
        let owed = rig.shared().judge().open_numbers();
        rig.wait(PATIENCE, "with space again it does not go on", |judge| judge.have_ended(&owed)).await;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}
