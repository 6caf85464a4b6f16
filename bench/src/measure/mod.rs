//! What is measured, group by group.

mod contest;
mod loading;
mod machine;
mod requests;
mod size;
mod steps;

use std::io::Write as _;

use crate::Error;
use crate::options::Options;
use crate::process::Processors;
use crate::report::Report;

/// The groups, in the order of the table.
pub(crate) const GROUPS: [&str; 6] = ["acks", "synchronous", "steps", "start", "reload", "loading"];

/// What every measurement goes by.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'run> {
    pub(crate) options: &'run Options,
    pub(crate) processors: Processors,
}

/// Measures all that is asked for.
pub(crate) fn all(options: &Options) -> Result<Report, Error> {
    // Before there is any other thread.
    let terms = Terms { options, processors: Processors::choose() };
    let mut report = Report::new(machine::describe(terms)?);
    // The driver and all it does take turns on one thread, which takes the least from what they drive.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::io("the runtime"))?.block_on(async {
        for group in GROUPS.into_iter().filter(|group| options.wants(group)) {
            // Progress; where nobody reads it, there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "measuring {group} …");
            match group {
                "acks" => requests::acks(terms, &mut report).await?,
                "synchronous" => requests::synchronous(terms, &mut report).await?,
                "steps" => steps::measure(terms, &mut report).await?,
                "start" => size::start(terms, &mut report).await?,
                "reload" => size::reload(terms, &mut report).await?,
                _ => loading::measure(terms, &mut report)?,
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(report)
}
