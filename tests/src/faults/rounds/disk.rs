//! The disk fails, or is full.

use std::process::ExitStatus;
use std::time::Duration;

use super::super::oracle::Sent;
use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::tools::{Disk, Strace};
use super::super::{Effort, Error, Verdict};
use super::IN_DOUBT;

/// Up to which call the fault waits.
const MAX_CALLS: u32 = 40;
/// The failing system calls, in order: the sync of a commit, the writes before it, a sync without space.
const FAILURES: [(&str, &str); 3] =
    [("fdatasync,fsync", "EIO"), ("pwrite64", "EIO"), ("fdatasync,fsync", "ENOSPC")];
/// The number of requests that must be refused while the disk is full.
const REFUSALS: u32 = 10;
/// Maximum number of batches of this size until all requests of one are refused.
const MAX_BATCHES: u32 = 1000;
/// The time limit for the recovery when there is space.
const PATIENCE: Duration = Duration::from_secs(30);

/// One call fails: the daemon ends with code 3, and its earlier promises stand.
pub(super) async fn errors(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("disk-error", effort.seed, Parts { ticks: true, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    for round in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        let (call, error) = FAILURES[round as usize % FAILURES.len()];
        let number = rig.random().u32(1..=MAX_CALLS);
        let strace =
            Strace::attach(rig.daemon()?.id()?, call, &format!("error={error}:when={number}")).await?;
        let status = rig.ended().await?;
        drop(strace);
        rig.verdict().rounds += 1;
        rig.blame(in_order(status, &format!("after {error} at `{call}` number {number}")));
        rig.start_and_finish().await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}

/// The wrong part of its exit, if any.
fn in_order(status: ExitStatus, when: &str) -> Option<String> {
    (status.code() != Some(IN_DOUBT)).then(|| format!("{when} it ended with {status}"))
}

/// Every write fails with ENOSPC for a while: requests are refused, and when there is space everything works again.
pub(super) async fn full(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("disk-full", effort.seed, Parts { ticks: true, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    let mut ended = 0;
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        let strace = Strace::attach(rig.daemon()?.id()?, "pwrite64", "error=ENOSPC").await?;
        let answers = refusals(&rig).await;
        rig.verdict().rounds += 1;
        let mut ends = rig.is_ending().await?;
        if ends {
            drop(strace);
        } else {
            strace.detach().await?;
            ends = rig.ends_after_outage(PATIENCE).await?;
        }
        // A call during which strace detaches returns ENOSYS, which is not a full disk but a failing one.
        ended += u32::from(ends);
        goes_on(&mut rig, ends, &answers).await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.verdict().notes.push(format!("it ended {ended} times, in doubt"));
    rig.settle().await
}

/// A disk is full for a while. Nothing fails but for want of space: the daemon lives.
pub(super) async fn space(effort: Effort) -> Result<Verdict, Error> {
    let disk = Disk::new().await?;
    let place = disk.path();
    let parts = Parts { ticks: true, within: Some(&place), ..Parts::default() };
    let mut rig = Rig::new("disk-space", effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        disk.fill()?;
        let mut answers = Vec::new();
        // The store may still have room in its own files.
        for _ in 0..MAX_BATCHES {
            answers = refusals(&rig).await;
            if answers.iter().all(|status| *status == Some(503)) {
                break;
            }
        }
        rig.verdict().rounds += 1;
        disk.make_room()?;
        let ends = rig.ends_after_outage(PATIENCE).await?;
        rig.blame(ends.then(|| "it ended over a full disk".to_owned()));
        goes_on(&mut rig, ends, &answers).await?;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}

/// The responses to some requests, sent in addition to those of the senders, which wait for the end of their own.
async fn refusals(rig: &Rig) -> Vec<Option<u16>> {
    let mut answers = Vec::new();
    for _ in 0..REFUSALS {
        answers.push(rig.shared().send_one(rig.http(), Sent::Async).await);
    }
    answers
}

/// There is space again: everything works, or, if the daemon was in doubt, does so after its next start.
async fn goes_on(rig: &mut Rig, ends: bool, answers: &[Option<u16>]) -> Result<(), Error> {
    if ends {
        let status = rig.ended().await?;
        rig.blame(in_order(status, "with a full disk"));
        return rig.start_and_finish().await;
    }
    let is_refused = answers.iter().all(|status| *status == Some(503));
    rig.blame((!is_refused).then(|| format!("with a full disk it answered {answers:?}")));
    let owed = rig.shared().oracle().open_numbers();
    rig.wait(PATIENCE, "with space again it does not go on", |oracle| oracle.have_ended(&owed)).await;
    Ok(())
}
