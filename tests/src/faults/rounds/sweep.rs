//! `kill -9` at each call of a kind that one execution makes: at the first, at the second, … until there are no more.

use std::time::Duration;

use super::super::oracle::Sent;
use super::super::rig::{END_WITHIN, Parts, Rig};
use super::super::tools::Strace;
use super::super::{Effort, Error, Verdict};

/// More calls of a kind than one execution makes in one thread.
const MAX_CALLS: u32 = 400;
/// The interval between two checks of an execution's end.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

pub(super) async fn run(name: &'static str, calls: &[&str], effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new(name, effort.seed, Parts::default()).await?;
    for call in calls {
        rig.start().await?;
        let mut killed = 0;
        // Once it no longer fires, the execution has made fewer calls than that.
        while killed < MAX_CALLS && kill_at(&mut rig, call, killed + 1).await? && rig.is_well() {
            killed += 1;
            rig.verdict().rounds += 1;
        }
        rig.blame((killed == MAX_CALLS).then(|| format!("`{call}` never comes to an end")));
        rig.verdict().notes.push(format!("killed at {killed} calls of `{call}`"));
        if !rig.is_well() {
            break;
        }
        rig.stop().await?;
    }
    let rounds = rig.verdict().rounds;
    rig.blame((rounds == 0).then(|| "it was never killed".to_owned()));
    if rig.daemon().is_err() {
        rig.start().await?;
    }
    rig.settle().await
}

/// Kills the daemon at this call of one execution; true if it died. It restarts in any case.
async fn kill_at(rig: &mut Rig, call: &str, number: u32) -> Result<bool, Error> {
    let strace = Strace::attach(rig.daemon()?.id()?, call, &format!("signal=KILL:when={number}")).await?;
    rig.shared().send_one(rig.http(), Sent::Async).await;
    let survived = ended_well(rig).await;
    if survived {
        strace.detach().await?;
        return Ok(false);
    }
    rig.kill().await?;
    drop(strace);
    rig.start_and_finish().await?;
    Ok(true)
}

/// True if the daemon survives until every execution has ended.
async fn ended_well(rig: &Rig) -> bool {
    let deadline = tokio::time::Instant::now() + END_WITHIN;
    while tokio::time::Instant::now() < deadline {
        let Ok(left) = rig.ask("/executions?status=queued,running,waiting&limit=1").await else {
            return false;
        };
        if left["executions"].as_array().is_some_and(Vec::is_empty) {
            return true;
        }
        let mut received = rig.shared().sink().count();
        let _ = tokio::time::timeout(CHECK_INTERVAL, received.changed()).await;
    }
    rig.blame(Some("an execution neither ended nor met its fault".to_owned()));
    false
}
