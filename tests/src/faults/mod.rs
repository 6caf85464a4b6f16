//! Proof of durability: the real daemon is mistreated under load, and an oracle outside of it decides whether a promise
//! was broken. `make faults` runs all of it, `make test` a small part.
//!
//! Senders log their answers, a sink of effects syncs the requests it receives before it answers, and the [`oracle`]
//! compares the two. Each round must make progress and must see its fault take effect, else it fails: a round in which
//! nothing worked proves nothing.

pub mod oracle;

mod load;
mod rig;
mod rounds;
mod ticks;
mod tools;
mod work;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use rounds::{FAULTS, Fault};

use oracle::Oracle;

/// The reason why a fault could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The daemon does not start or end.
    #[error(transparent)]
    Daemon(#[from] crate::daemon::Error),
    /// The database of the daemons does not work.
    #[error(transparent)]
    Database(#[from] postgres_server::Error),
    /// The clock of a process cannot be faked.
    #[error(transparent)]
    Clock(#[from] crate::fake_clock::Error),
    /// The sink does not work.
    #[error(transparent)]
    Sink(#[from] crate::recorder::Error),
    /// The API does not answer as it should.
    #[error("the daemon's API answers wrongly: {0}")]
    Api(#[from] reqwest::Error),
    /// The API does not answer at all.
    #[error("the daemon's API does not answer: {error}; the daemon said:\n{said}")]
    Silent {
        /// The error of the request.
        error: reqwest::Error,
        /// The output of the daemon.
        said: String,
    },
    /// The API does not say where a webhook is.
    #[error("an automation has no address: {0}")]
    NoAddress(String),
    /// There is no daemon where there has to be one.
    #[error("there is no daemon to do this to")]
    NoDaemon,
    /// A program that is needed cannot do its work here.
    #[error("`{program}` cannot do its work here: {reason}")]
    Tool {
        /// Its name.
        program: String,
        /// Its output.
        reason: String,
    },
    /// A fault needs what this machine or this user does not have.
    #[error("{0}")]
    NotHere(String),
}

/// The amount of testing.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The number of rounds.
    pub rounds: u32,
    /// The seed of the random choices; the same seed gives the same choices, though not the same timing.
    pub seed: u64,
    /// The length of each round of a fault with a length; by default the least that it needs.
    pub length: Option<Duration>,
}

/// The result of a fault.
#[derive(Debug)]
pub struct Verdict {
    /// The name of the fault.
    pub name: &'static str,
    /// The seed of the random choices.
    pub seed: u64,
    /// The folder with the records of acknowledged and received requests.
    pub records: PathBuf,
    /// The number of rounds in which the fault took effect.
    pub rounds: u32,
    /// The number of acknowledged requests.
    pub acknowledged: u64,
    /// The number of effects that were repeated after a crash, which is permitted.
    pub repeated: u64,
    /// The number of schedule instants that ran.
    pub ticks: usize,
    /// The longest that the daemon took to serve.
    pub slowest_start: Duration,
    /// The longest time to the end of all open executions after a start.
    pub slowest_end: Duration,
    /// Further remarks.
    pub notes: Vec<String>,
    /// The promises that were broken.
    pub violations: Vec<String>,
}

impl Verdict {
    fn new(name: &'static str, seed: u64, records: PathBuf) -> Self {
        Self {
            name,
            seed,
            records,
            rounds: 0,
            acknowledged: 0,
            repeated: 0,
            ticks: 0,
            slowest_start: Duration::ZERO,
            slowest_end: Duration::ZERO,
            notes: Vec::new(),
            violations: Vec::new(),
        }
    }

    /// Counts a start that took longer than this among the broken promises.
    pub fn hold_to(&mut self, ready_within: Duration) {
        if self.slowest_start > ready_within {
            let (took, most) = (self.slowest_start.as_secs_f64(), ready_within.as_secs_f64());
            self.violations
                .push(format!("a start took {took:.2} s until it was ready, {most:.0} s at the most"));
        }
    }

    /// Adds what earlier rounds have seen, in rigs of their own.
    fn follow(&mut self, earlier: Self) {
        self.rounds += earlier.rounds;
        self.acknowledged += earlier.acknowledged;
        self.repeated += earlier.repeated;
        self.ticks += earlier.ticks;
        self.slowest_start = self.slowest_start.max(earlier.slowest_start);
        self.slowest_end = self.slowest_end.max(earlier.slowest_end);
        let violations = std::mem::take(&mut self.violations);
        self.violations = [earlier.violations, violations].concat();
        for note in earlier.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        // Only rounds in which nothing was broken are followed by others.
        let _ = std::fs::remove_dir_all(earlier.records);
    }

    fn hear(&mut self, oracle: &Oracle) {
        self.acknowledged += oracle.acknowledged();
        self.repeated = oracle.repeated();
        self.ticks = oracle.ticks().len();
        self.violations = oracle.violations().to_vec();
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: {} rounds, {} acknowledged, {} effects repeated after a crash, {} instants; slowest start {:.2} s, \
             slowest end {:.2} s; seed {}",
            self.name,
            self.rounds,
            self.acknowledged,
            self.repeated,
            self.ticks,
            self.slowest_start.as_secs_f64(),
            self.slowest_end.as_secs_f64(),
            self.seed,
        )?;
        for note in &self.notes {
            write!(formatter, "\n  {note}")?;
        }
        for violation in &self.violations {
            write!(formatter, "\n  BROKEN: {violation}")?;
        }
        if !self.violations.is_empty() {
            write!(formatter, "\n  what was sent and received is in {}", self.records.display())?;
        }
        Ok(())
    }
}
