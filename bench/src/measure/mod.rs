//! The measurements, group by group.

mod cluster;
mod code;
mod comparison;
mod contest;
mod files;
mod gets;
mod growth;
mod instructions;
mod large;
mod loading;
mod machine;
mod memory;
mod messages;
mod ours;
mod peers;
mod requests;
mod schedules;
mod server;
mod size;
mod sql;
mod steps;

use std::io::Write as _;

use tokio::signal::unix::{SignalKind, signal};

use crate::Error;
use crate::options::Options;
use crate::process::Processors;
use crate::report::Report;

/// The groups, in the order of the table.
pub(crate) const GROUPS: [&str; 19] = [
    "acks",
    "synchronous",
    "gets",
    "steps",
    "code",
    "sql",
    "files",
    "messages",
    "peers",
    "start",
    "reload",
    "schedules",
    "history",
    "backlog",
    "loading",
    "instructions",
    "cluster",
    "growth",
    "memory",
];
/// The default groups: all but the last four, which take minutes each or need a database.
pub(crate) const UNASKED: &[&str] = GROUPS.split_at(GROUPS.len() - 4).0;

/// The settings of every measurement.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'run> {
    pub(crate) options: &'run Options,
    pub(crate) processors: Processors,
}

/// Measures all selected groups.
pub(crate) fn all(options: &Options) -> Result<Report, Error> {
    // Before there is any other thread.
    let terms = Terms { options, processors: Processors::choose() };
    let mut report = Report::new(machine::describe(terms)?);
    // The driver and all its work run on one thread, which takes the least from the measured servers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::io("the runtime"))?.block_on(async {
        tokio::select! {
            // Dropping the measurements ends their servers and deletes their folders.
            result = interrupted() => result,
            result = groups(terms, &mut report) => result,
        }
    })?;
    Ok(report)
}

async fn groups(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for group in GROUPS.into_iter().filter(|group| terms.options.wants(group)) {
        // Progress; without a reader there is nothing left to do.
        let _ = writeln!(std::io::stderr(), "measuring {group} …");
        match group {
            "acks" => requests::acks(terms, report).await?,
            "synchronous" => requests::synchronous(terms, report).await?,
            "gets" => gets::measure(terms, report).await?,
            "steps" => steps::measure(terms, report).await?,
            "code" => code::measure(terms, report).await?,
            "sql" => sql::measure(terms, report).await?,
            "files" => files::measure(terms, report).await?,
            "messages" => messages::measure(terms, report).await?,
            "peers" => peers::measure(terms, report).await?,
            "start" => size::start(terms, report).await?,
            "reload" => size::reload(terms, report).await?,
            "schedules" => schedules::measure(terms, report).await?,
            "history" => large::history(terms, report).await?,
            "backlog" => large::backlog(terms, report).await?,
            "loading" => loading::measure(terms, report)?,
            "instructions" => instructions::measure(terms, report).await?,
            "cluster" => cluster::measure(terms, report).await?,
            "growth" => growth::measure(terms, report).await?,
            _ => memory::measure(terms, report).await?,
        }
    }
    Ok(())
}

/// Returns an error on SIGTERM or SIGINT.
async fn interrupted() -> Result<(), Error> {
    let mut terminated = signal(SignalKind::terminate()).map_err(Error::io("signals"))?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(Error::io("signals"))?;
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    Err(Error::Server("interrupted".to_owned()))
}
