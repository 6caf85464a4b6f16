//! Servers that take turns under the same load, so that whatever else the machine does hits all of them.

use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Terms;
use crate::Error;
use crate::baseline::{ADDRESS, Kind};
use crate::daemon::Daemon;
use crate::driver::{Load, request};
use crate::process::Process;
use crate::project::{Project, body, scratch};
use crate::statistics::{Histogram, median};

/// How often each has its turn: the median over an odd number of rounds is not moved by one bad round.
const ROUNDS: u32 = 5;
/// How much of a measurement each is loaded for before anything counts.
const WARM_UP: u32 = 10;

/// A server that takes part.
struct Contestant {
    load: Load,
    turns: Vec<Turn>,
    times: Histogram,
    /// What has to end after each turn.
    daemon: Option<Daemon>,
    /// What it lives on.
    _process: Option<(Process, TempDir)>,
}

/// What came of one turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Answers a second.
    answered: f64,
    /// Executions a second that had ended, their ends on disk; of a baseline, answers.
    finished: f64,
}

/// What came of a contest.
pub(super) struct Outcome {
    contestants: Vec<Contestant>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Answers a second.
    Answered,
    /// Executions a second that had ended.
    Finished,
}

/// Has the daemon, with `automation` as its only one, and the baselines take turns. `status` is that of a right answer
/// of the daemon's.
pub(super) async fn hold(
    terms: Terms<'_>,
    baselines: &[Kind],
    automation: &str,
    connections: usize,
    status: u16,
) -> Result<Outcome, Error> {
    let project = Project::new()?;
    project.put("measured", automation)?;
    let mut contestants = Vec::with_capacity(baselines.len() + 1);
    for kind in baselines {
        contestants.push(Contestant::baseline(terms, *kind, connections).await?);
    }
    contestants.push(Contestant::daemon(terms, &project, connections, status).await?);
    let time = terms.options.time;
    for contestant in &mut contestants {
        contestant.take_turn(time / WARM_UP).await?;
        contestant.turns.clear();
        contestant.times = Histogram::default();
    }
    for _ in 0..ROUNDS {
        for contestant in &mut contestants {
            contestant.take_turn(time / ROUNDS).await?;
        }
    }
    if let Some(daemon) = contestants.last_mut().and_then(|contestant| contestant.daemon.take()) {
        daemon.stop().await?;
    }
    Ok(Outcome { contestants })
}

impl Contestant {
    async fn baseline(terms: Terms<'_>, kind: Kind, connections: usize) -> Result<Self, Error> {
        let folder = scratch()?;
        let mut command = Command::new(std::env::current_exe().map_err(Error::io("this program"))?);
        command.arg("--serve-baseline").arg(kind.name()).arg(folder.path());
        let mut process = terms.processors.start(&mut command)?;
        let address = process.wait_for(&folder.path().join(ADDRESS), |text| text.parse().ok()).await?;
        let load = Load { address, request: request("POST", "/", &body()), connections, status: 200 };
        Ok(Self {
            load,
            turns: Vec::new(),
            times: Histogram::default(),
            daemon: None,
            _process: Some((process, folder)),
        })
    }

    async fn daemon(
        terms: Terms<'_>,
        project: &Project,
        connections: usize,
        status: u16,
    ) -> Result<Self, Error> {
        let daemon = Daemon::start(terms.processors, project).await?;
        let request = request("POST", &daemon.path("measured").await?, &body());
        let load = Load { address: daemon.hooks(), request, connections, status };
        Ok(Self {
            load,
            turns: Vec::new(),
            times: Histogram::default(),
            daemon: Some(daemon),
            _process: None,
        })
    }

    async fn take_turn(&mut self, time: Duration) -> Result<(), Error> {
        let started = Instant::now();
        let answers = self.load.run(time).await?;
        let mut finished = answers.rate();
        if let Some(daemon) = &self.daemon {
            daemon.drained().await?;
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            let count = answers.times.count() as f64;
            finished = count / started.elapsed().as_secs_f64();
        }
        self.turns.push(Turn { answered: answers.rate(), finished });
        self.times.merge(&answers.times);
        Ok(())
    }
}

impl Outcome {
    /// The median of the daemon's turns.
    pub(super) fn daemon(&self, what: What) -> f64 {
        self.of(self.contestants.len() - 1, what)
    }

    /// The median of the turns of the baseline that was named at this place.
    pub(super) fn baseline(&self, place: usize, what: What) -> f64 {
        self.of(place, what)
    }

    /// The median over the rounds of what part of the baseline's rate is the daemon's.
    pub(super) fn ratio(&self, place: usize, what: What) -> f64 {
        let daemon = &self.contestants[self.contestants.len() - 1];
        let rounds = daemon.turns.iter().zip(&self.contestants[place].turns);
        median(rounds.map(|(daemon, baseline)| daemon.rate(what) / baseline.rate(what)))
    }

    /// The daemon's times of answers.
    pub(super) fn daemon_times(&self) -> &Histogram {
        &self.contestants[self.contestants.len() - 1].times
    }

    /// A baseline's times of answers.
    pub(super) fn baseline_times(&self, place: usize) -> &Histogram {
        &self.contestants[place].times
    }

    fn of(&self, place: usize, what: What) -> f64 {
        median(self.contestants[place].turns.iter().map(|turn| turn.rate(what)))
    }
}

impl Turn {
    fn rate(self, what: What) -> f64 {
        match what {
            What::Answered => self.answered,
            What::Finished => self.finished,
        }
    }
}
