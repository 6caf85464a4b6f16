//! Servers that alternate under the same load, so that other work of the machine affects all of them.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::Terms;
use crate::Error;
use crate::baseline::{ADDRESS, Kind};
use crate::daemon::Daemon;
use crate::driver::{Load, request};
use crate::peer::{Peer, RunningPeer, Workload};
use crate::process::Process;
use crate::project::{Project, body, numbered_id, scratch};
use crate::statistics::{Histogram, median};

/// The number of rounds of each: the median over an odd number of rounds is not moved by one bad round.
const ROUNDS: u32 = 5;
/// The share of a measurement that is warm-up, before anything counts.
const WARM_UP: u32 = 10;

/// A measured server.
struct Contestant {
    load: Load,
    server: Server,
    score: Score,
}

/// The process, and the folder that it uses.
enum Server {
    Daemon(Daemon),
    Baseline(Process, #[expect(dead_code, reason = "it is held for as long as the process runs")] TempDir),
    Peer(Box<RunningPeer>),
}

/// The results of all rounds of one contender.
pub(super) struct Score {
    turns: Vec<Turn>,
    times: Histogram,
    /// The processor time of its process; `None` if the system does not report it.
    processor_time: Option<Duration>,
}

/// The result of one round.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Answers per second.
    answered: f64,
    /// Executions a second that had ended, their ends on disk; of a baseline, answers.
    finished: f64,
}

/// The result of a contest.
pub(super) struct Outcome {
    daemon: Score,
    baselines: Vec<Score>,
}

/// The compared figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Answers per second.
    Answered,
    /// Executions a second that had ended.
    Finished,
}

/// The contenders beside the daemon.
#[derive(Clone, Copy)]
pub(super) enum Opponent {
    /// A minimal server.
    Baseline(Kind),
    /// Another engine, doing the same.
    Peer(Peer, Workload),
}

/// The automations of a contest.
#[derive(Clone, Copy)]
pub(super) struct Automations<'text> {
    /// The text of each of them, but for its name.
    pub(super) text: &'text str,
    /// Their number. The requests go to one after another.
    pub(super) count: usize,
}

/// Lets the daemon and the baselines alternate.
pub(super) async fn hold(
    terms: Terms<'_>,
    baselines: &[Kind],
    automations: Automations<'_>,
    connections: usize,
) -> Result<Outcome, Error> {
    let opponents: Vec<Opponent> = baselines.iter().copied().map(Opponent::Baseline).collect();
    hold_against(terms, &opponents, automations, connections).await
}

/// As [`hold`], against the named opponents.
pub(super) async fn hold_against(
    terms: Terms<'_>,
    opponents: &[Opponent],
    automations: Automations<'_>,
    connections: usize,
) -> Result<Outcome, Error> {
    let project = Project::new()?;
    for number in 0..automations.count {
        // Another name is another definition, with plans and expressions of its own.
        let text = format!("name: Measured {number}\n{}", automations.text);
        project.put(&numbered_id(number), &text)?;
    }
    let mut daemon = Contestant::daemon(terms, &project, connections).await?;
    let mut others = Vec::with_capacity(opponents.len());
    for opponent in opponents {
        others.push(match *opponent {
            Opponent::Baseline(kind) => Contestant::baseline(terms, kind, connections).await?,
            Opponent::Peer(peer, workload) => Contestant::peer(terms, peer, workload, connections).await?,
        });
    }
    let time = terms.options.time;
    for contestant in others.iter_mut().chain([&mut daemon]) {
        contestant.take_turn(time / WARM_UP).await?;
        contestant.score = Score::new();
    }
    for _ in 0..ROUNDS {
        for contestant in others.iter_mut().chain([&mut daemon]) {
            contestant.take_turn(time / ROUNDS).await?;
        }
    }
    if let Server::Daemon(daemon) = daemon.server {
        daemon.stop().await?;
    }
    let baselines = others.into_iter().map(|contestant| contestant.score).collect();
    Ok(Outcome { daemon: daemon.score, baselines })
}

/// Starts a baseline, and returns its folder and its address.
pub(super) async fn start_baseline(
    terms: Terms<'_>,
    kind: Kind,
) -> Result<(Process, TempDir, SocketAddr), Error> {
    let folder = scratch()?;
    let mut command = Command::new(std::env::current_exe().map_err(Error::io("this program"))?);
    command.arg("--serve-baseline").arg(kind.name()).arg(folder.path());
    let mut process = terms.processors.start(&mut command)?;
    let address = process.wait_for(&folder.path().join(ADDRESS), |text| text.parse().ok()).await?;
    Ok((process, folder, address))
}

impl Contestant {
    async fn baseline(terms: Terms<'_>, kind: Kind, connections: usize) -> Result<Self, Error> {
        let (process, folder, address) = start_baseline(terms, kind).await?;
        let load = Load { address, requests: [request("POST", "/", &body())].into(), connections };
        Ok(Self { load, server: Server::Baseline(process, folder), score: Score::new() })
    }

    async fn peer(
        terms: Terms<'_>,
        peer: Peer,
        workload: Workload,
        connections: usize,
    ) -> Result<Self, Error> {
        let peer = peer.start(terms.processors, workload).await?;
        let requests = [request("POST", peer.path, &body())].into();
        let load = Load { address: peer.address, requests, connections };
        Ok(Self { load, server: Server::Peer(Box::new(peer)), score: Score::new() })
    }

    async fn daemon(terms: Terms<'_>, project: &Project, connections: usize) -> Result<Self, Error> {
        let daemon = Daemon::start(terms.processors, project).await?;
        let paths = daemon.paths().await?;
        let requests = paths.iter().map(|path| request("POST", path, &body())).collect();
        let load = Load { address: daemon.hooks(), requests, connections };
        Ok(Self { load, server: Server::Daemon(daemon), score: Score::new() })
    }

    async fn take_turn(&mut self, time: Duration) -> Result<(), Error> {
        let (before, started) = (self.server.process().processor_time(), Instant::now());
        let answers = self.load.run(time).await?;
        let mut finished = answers.rate();
        if let Server::Daemon(daemon) = &self.server {
            daemon.drained().await?;
            finished = count(&answers.times) / started.elapsed().as_secs_f64();
        }
        let after = self.server.process().processor_time();
        let took = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        let score = &mut self.score;
        score.processor_time = score.processor_time.zip(took).map(|(sum, more)| sum + more);
        score.turns.push(Turn { answered: answers.rate(), finished });
        score.times.merge(&answers.times);
        Ok(())
    }
}

impl Server {
    fn process(&self) -> &Process {
        match self {
            Self::Daemon(daemon) => daemon.process(),
            Self::Baseline(process, _) => process,
            Self::Peer(peer) => &peer.process,
        }
    }
}

impl Score {
    fn new() -> Self {
        Self { turns: Vec::new(), times: Histogram::default(), processor_time: Some(Duration::ZERO) }
    }

    /// The median of the rounds.
    pub(super) fn rate(&self, what: What) -> f64 {
        median(self.turns.iter().map(|turn| turn.rate(what)))
    }

    /// A percentile of the times of the answers, in microseconds.
    pub(super) fn percentile_us(&self, share: f64) -> f64 {
        self.times.percentile(share).as_secs_f64() * 1e6
    }

    /// Microseconds of a processor for each answer and all that follows from it.
    pub(super) fn cost_us(&self) -> Option<f64> {
        Some(self.processor_time?.as_secs_f64() * 1e6 / count(&self.times).max(1.0))
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

impl Outcome {
    /// The daemon's part of it.
    pub(super) fn daemon(&self) -> &Score {
        &self.daemon
    }

    /// That of the baseline with this index.
    pub(super) fn baseline(&self, place: usize) -> &Score {
        &self.baselines[place]
    }

    /// The median over the rounds of what part of the baseline's rate is the daemon's.
    pub(super) fn ratio(&self, place: usize, what: What) -> f64 {
        let rounds = self.daemon.turns.iter().zip(&self.baselines[place].turns);
        median(rounds.map(|(daemon, baseline)| daemon.rate(what) / baseline.rate(what)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(times: &Histogram) -> f64 {
    times.count() as f64
}
