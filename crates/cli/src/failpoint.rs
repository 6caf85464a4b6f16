//! Failpoints, for tests that inject faults: with `COGWORK_FAILPOINTS=<folder>`, a file `afterCommit` in that folder that
//! contains `abort`, `error` or a delay triggers this fault at the next boundary of that name, once: the file is
//! then deleted. Release builds have no failpoints.

use model::failpoint::Failpoints;

/// The faults of this process, from its environment.
#[cfg(debug_assertions)]
pub(crate) fn from_env() -> Failpoints {
    use model::failpoint::{Failpoint, FailpointAction};

    let Some(folder) = std::env::var_os("COGWORK_FAILPOINTS") else { return Failpoints::default() };
    let folder = std::path::PathBuf::from(folder);
    Failpoints::new(move |boundary: Failpoint| {
        let armed = folder.join(boundary.as_str());
        let text = std::fs::read_to_string(&armed).ok()?;
        // If several processes have read it, only the process that deletes it triggers the fault.
        std::fs::remove_file(&armed).ok()?;
        match text.trim() {
            "abort" => Some(FailpointAction::Abort),
            "error" => Some(FailpointAction::Error),
            time => text::units::parse_duration(time).ok().map(FailpointAction::Delay),
        }
    })
}

/// No faults: this build has no failpoints.
#[cfg(not(debug_assertions))]
pub(crate) fn from_env() -> Failpoints {
    Failpoints::default()
}
