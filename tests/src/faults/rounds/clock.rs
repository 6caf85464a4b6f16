//! The system's clock steps, as it does when somebody sets it.

use std::path::Path;
use std::time::Duration;

use super::super::rig::{END_WITHIN, PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};

/// Where Debian's package `libfaketime` puts the library, by architecture.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];
/// Where the clock goes, in turn: seconds from the true time.
const STEPS: [&str; 5] = ["+3600", "-3600", "+31536000", "-31536000", "+0"];
/// How long a step may take to be noticed.
const NOTICED: Duration = Duration::from_millis(200);

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let library = LIBRARIES.into_iter().find(|path| Path::new(path).exists()).ok_or_else(|| Error::Tool {
        program: "libfaketime".to_owned(),
        reason: "it is not installed; `apt-get install libfaketime` does so".to_owned(),
    })?;
    let folder = tempfile::tempdir()?;
    let clock = folder.path().join("clock");
    std::fs::write(&clock, "+0")?;
    let variables = [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", &clock.to_string_lossy()),
        ("FAKETIME_NO_CACHE", "1"),
        // Only what people set: the clock that measures durations is another one.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let parts = Parts { ticks: true, has_gaps: true, variables, ..Parts::default() };
    let mut rig = Rig::new("clock", effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    for round in 0..effort.rounds as usize {
        for step in STEPS {
            rig.progress(PROGRESS).await;
            let owed = rig.shared().oracle().open_numbers();
            std::fs::write(&clock, step)?;
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
