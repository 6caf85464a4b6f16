//! Failpoints, for tests that mistreat a daemon: with `COGWORK_FAILPOINTS=<folder>`, a file `afterCommit` in that folder that
//! says `abort`, `error` or how long to be held up lets that happen at the next boundary of that name, once: the file is
//! gone then. A release build has none of it.

use model::failpoint::Mishaps;

/// What goes wrong in this process, by its environment.
#[cfg(debug_assertions)]
pub(crate) fn mishaps() -> Mishaps {
    use model::failpoint::{Boundary, Mishap};

    let Some(folder) = std::env::var_os("COGWORK_FAILPOINTS") else { return Mishaps::default() };
    let folder = std::path::PathBuf::from(folder);
    Mishaps::new(move |boundary: Boundary| {
        let armed = folder.join(boundary.word());
        let text = std::fs::read_to_string(&armed).ok()?;
        // Of those who have read it, only the one that takes it away has it.
        std::fs::remove_file(&armed).ok()?;
        match text.trim() {
            "abort" => Some(Mishap::Abort),
            "error" => Some(Mishap::Error),
            time => model::units::parse_duration(time).ok().map(Mishap::Delay),
        }
    })
}

/// What goes wrong in this process: nothing.
#[cfg(not(debug_assertions))]
pub(crate) fn mishaps() -> Mishaps {
    Mishaps::default()
}
