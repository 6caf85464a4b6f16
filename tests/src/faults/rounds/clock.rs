//! The system's clock steps, as it does when an administrator sets it.

use std::time::Duration;

use super::super::rig::{END_WITHIN, PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use crate::fake_clock::FakeClock;

/// The times of the clock, in order: seconds from the true time.
pub(super) const STEPS: [i64; 5] = [3600, -3600, 31_536_000, -31_536_000, 0];
/// The time limit for the detection of a step.
const NOTICED: Duration = Duration::from_millis(200);

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let folder = tempfile::tempdir()?;
    let clock = FakeClock::new(folder.path().join("clock"))?;
    let variables = clock.variables();
    let parts = Parts { ticks: true, has_gaps: true, variables, ..Parts::default() };
    let mut rig = Rig::new("clock", effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    for round in 0..effort.rounds as usize {
        for step in STEPS {
            rig.progress(PROGRESS).await;
            let owed = rig.shared().oracle().open_numbers();
            clock.set(step)?;
            let mut received = rig.shared().sink().count();
            let _ = tokio::time::timeout(NOTICED, received.changed()).await;
            rig.verdict().rounds += 1;
            let what = format!("what was open when the clock stepped to {step} in round {round} did not end");
            rig.wait(END_WITHIN, &what, |oracle| oracle.have_ended(&owed)).await;
            if !rig.is_well() {
                return rig.settle().await;
            }
        }
    }
    rig.settle().await
}
