//! The benchmarks: Cogwork's own figures beside the figures of baselines, measured in the same minutes on the
//! same machine.
//!
//! A figure alone says more about the machine than about Cogwork. So the daemon and small servers that do the least
//! a durable engine could do take turns under the same load, and what counts is the ratio between them. Nothing is
//! asserted: the table names the target beside each figure that has one.

mod baseline;
mod daemon;
mod database;
mod driver;
mod error;
mod measure;
mod options;
mod peer;
mod process;
mod project;
mod report;
mod statistics;

use std::io::Write as _;
use std::process::ExitCode;

use error::Error;
use options::{Command, Options};

/// The daemon's own, so that the baselines are no slower for the lack of it.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    let result = match options::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => say(options::HELP),
        Ok(Command::Serve(kind, folder)) => baseline::serve(kind, &folder),
        Ok(Command::Work) => return script::work(&[]),
        Ok(Command::Measure(options)) => run(&options),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, there is nothing left to do.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            if matches!(error, Error::Usage(_)) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn run(options: &Options) -> Result<(), Error> {
    connector::install_crypto();
    let report = measure::all(options)?;
    say(&report.table())?;
    if let Some(file) = &options.json {
        let text = report.json().to_string() + "\n";
        std::fs::write(file, text).map_err(Error::io(file.display()))?;
    }
    Ok(())
}

fn say(text: &str) -> Result<(), Error> {
    writeln!(std::io::stdout(), "{text}").map_err(Error::io("the table"))
}
