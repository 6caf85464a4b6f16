//! Two daemons on one file: the second refuses.

use std::time::Duration;

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use crate::daemon::cogwork;

/// The time limit for the refusal of the second.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let mut rig = Rig::new("second", effort.seed, Parts { ticks: true, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        let mut second = cogwork(rig.project())?;
        second.args(["serve", "--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let wrong = match tokio::time::timeout(PATIENCE, second.output()).await {
            Err(_) => Some("the second daemon does not refuse".to_owned()),
            Ok(output) => {
                let output = output?;
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let has_refused = !output.status.success() && said.contains("another daemon");
                (!has_refused).then(|| format!("the second daemon ended with {}: {said}", output.status))
            }
        };
        rig.blame(wrong);
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    rig.progress(PROGRESS).await;
    rig.settle().await
}
