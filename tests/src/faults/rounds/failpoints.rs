//! A failure at a boundary of a commit, an answer or an effect: exactly there, in a daemon under load.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::IN_DOUBT;

/// The boundaries, by the words of `model::failpoint::Failpoint`.
const BOUNDARIES: [&str; 5] = ["beforeCommit", "afterCommit", "beforeAck", "beforeEffect", "afterEffect"];
/// The actions of a failpoint.
const MISHAPS: [&str; 3] = ["error", "300ms", "abort"];
/// The number of acknowledged requests before each: together more than a round needs.
const SOME: u64 = PROGRESS / 4;
/// The signal of `abort`.
const SIGABRT: i32 = 6;
/// Maximum number of effects, after enough progress, before the failure.
const MAX_FURTHER_EFFECTS: usize = 40;
/// The time limit for the failure and the recovery.
const PATIENCE: Duration = Duration::from_secs(30);

/// The expected reaction of the daemon to a fault.
enum Outcome {
    /// It continues as if nothing had happened.
    GoesOn,
    /// It ends, in doubt about the stored data.
    Doubts,
    /// It is gone.
    Aborts,
}

impl Outcome {
    fn expected(boundary: &str, mishap: &str) -> Self {
        match (boundary, mishap) {
            (_, "abort") => Self::Aborts,
            ("afterCommit", "error") => Self::Doubts,
            _ => Self::GoesOn,
        }
    }
}

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let folder = tempfile::Builder::new().prefix("cogwork-failpoints-").tempdir()?;
    let variable = ("COGWORK_FAILPOINTS".to_owned(), folder.path().display().to_string());
    let parts = Parts { ticks: true, retries: true, variables: vec![variable], ..Parts::default() };
    let mut rig = Rig::new("failpoints", effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    let each = BOUNDARIES.iter().flat_map(|boundary| MISHAPS.map(|mishap| (*boundary, mishap)));
    let each: Vec<(&'static str, &'static str)> = each.collect();
    'rounds: for _ in 0..effort.rounds {
        for (boundary, mishap) in &each {
            let_go_wrong(&mut rig, folder.path(), boundary, mishap).await?;
            if !rig.is_well() {
                break 'rounds;
            }
        }
        rig.verdict().rounds += 1;
    }
    rig.verdict().notes.push(format!("{} combinations in each round", each.len()));
    rig.settle().await
}

async fn let_go_wrong(rig: &mut Rig, folder: &Path, boundary: &str, mishap: &str) -> Result<(), Error> {
    rig.progress(SOME).await;
    rig.some_more(MAX_FURTHER_EFFECTS).await;
    // If an effect has happened and its attempt fails, the next attempt repeats it.
    let repeats = u32::from((boundary, mishap) == ("afterEffect", "error"));
    rig.shared().oracle().excuse_repeats(repeats);
    let refused = *rig.shared().refused().borrow();
    let armed = folder.join(boundary);
    let draft = folder.join("draft");
    std::fs::write(&draft, mishap)?;
    std::fs::rename(draft, &armed)?;
    // Senders must be at work until then: some boundaries are reached by new requests only.
    let never = format!("`{boundary}` was not reached for `{mishap}`");
    if !rig.wait(PATIENCE, &never, |_| !armed.exists()).await {
        return Ok(());
    }
    match Outcome::expected(boundary, mishap) {
        Outcome::GoesOn => {
            let owed = rig.shared().oracle().open_numbers();
            let stuck = format!("after `{mishap}` at `{boundary}` it does not go on");
            rig.wait(PATIENCE, &stuck, |oracle| oracle.have_ended(&owed)).await;
            let has_ended = rig.has_ended()?;
            rig.blame(has_ended.then(|| format!("it ended over `{mishap}` at `{boundary}`")));
            let is_told =
                (boundary, mishap) != ("beforeAck", "error") || *rig.shared().refused().borrow() > refused;
            rig.blame((!is_told).then(|| "whose answer was made to fail got one".to_owned()));
        }
        ends => {
            let status = rig.ended().await?;
            let is_right = match ends {
                Outcome::Aborts => status.signal() == Some(SIGABRT),
                _ => status.code() == Some(IN_DOUBT),
            };
            rig.blame((!is_right).then(|| format!("over `{mishap}` at `{boundary}` it ended with {status}")));
            rig.start_and_finish().await?;
        }
    }
    rig.shared().oracle().excuse_repeats(0);
    Ok(())
}
