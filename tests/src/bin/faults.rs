//! Mistreats the daemon and says which promises it broke. It is built with the daemon, and looks for it beside itself.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tests::faults::{Effort, Error, FAULTS, Fault};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The time limit until the daemon serves, independent of its previous end.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// The number of concurrent faults that mostly wait: each has several daemons.
const MAX_CONCURRENT: usize = 4;

/// Kills, starves and confuses the daemon under load; an oracle outside of it decides whether a promise was broken.
#[derive(Parser)]
#[command(name = "faults", after_help = after_help())]
struct Arguments {
    /// The faults to try; all of them if none is named.
    #[arg(value_name = "FAULT", value_parser = named)]
    faults: Vec<&'static str>,
    /// Some seconds for each, and without those that need root or take long.
    #[arg(long)]
    quick: bool,
    /// The number of rounds of each.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// The seed of the random choices; a random one if absent.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The length of each round of `database-snapshot` and `ticks`, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    length: Option<u64>,
}

fn after_help() -> String {
    let rows = FAULTS.iter().map(|fault| format!("  {:16} {}\n", fault.name, fault.about));
    format!("Faults:\n{}", rows.collect::<String>())
}

fn named(name: &str) -> Result<&'static str, String> {
    let known = FAULTS.iter().map(|fault| fault.name);
    known.clone().find(|known| *known == name).ok_or_else(|| {
        format!("there is no such fault; the faults are {}", known.collect::<Vec<_>>().join(", "))
    })
}

impl Arguments {
    /// The number of rounds of this fault.
    fn rounds(&self, fault: &Fault) -> u32 {
        if !self.faults.is_empty() && !self.faults.contains(&fault.name) {
            return 0;
        }
        let usual = match (self.quick, self.faults.is_empty()) {
            (true, true) => fault.quick,
            (true, false) => fault.quick.max(1),
            (false, _) => fault.long,
        };
        if usual == 0 { 0 } else { self.rounds.unwrap_or(usual) }
    }
}

#[tokio::main]
async fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    // There can be one already only if another part of this process installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let length = arguments.length.map(Duration::from_secs);
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT));
    let (mut is_well, mut beside) = (true, JoinSet::new());
    for fault in &FAULTS {
        let rounds = arguments.rounds(fault);
        if rounds == 0 {
            continue;
        }
        let tried = attempt(fault, Effort { rounds, seed, length }, arguments.quick);
        if fault.waits && arguments.quick {
            let permits = permits.clone();
            beside.spawn(async move {
                let _permit = permits.acquire_owned().await.map_err(io::Error::other)?;
                tried.await
            });
        } else {
            is_well &= tried.await?;
        }
    }
    while let Some(tried) = beside.join_next().await {
        is_well &= tried.map_err(io::Error::other)??;
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a fault and prints the result. Returns true if no promise was broken.
async fn attempt(fault: &'static Fault, effort: Effort, is_quick: bool) -> io::Result<bool> {
    let mut out = io::stdout();
    match (fault.run)(effort).await {
        Ok(mut verdict) => {
            // The quick form shares the machine with other work, and a start on a new database makes its tables.
            if !is_quick && !fault.waits {
                verdict.hold_to(READY_WITHIN);
            }
            writeln!(out, "{verdict}")?;
            let is_well = verdict.violations.is_empty();
            if is_well {
                let _ = std::fs::remove_dir_all(&verdict.records);
            }
            Ok(is_well)
        }
        Err(Error::NotHere(reason)) if is_quick => {
            writeln!(out, "{}: skipped: {reason}", fault.name)?;
            Ok(true)
        }
        Err(error) => {
            writeln!(out, "{}: cannot be tried: {error}; seed {}", fault.name, effort.seed)?;
            Ok(false)
        }
    }
}
