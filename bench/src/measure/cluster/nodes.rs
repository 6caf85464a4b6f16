//! The daemons of a measurement, each with its own load.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::Error;
use crate::daemon::Daemon;
use crate::driver::{Load, request};
use crate::project::{Project, body};

/// Daemons that share a store, or one alone.
#[derive(Default)]
pub(super) struct Nodes {
    all: Vec<Node>,
}

struct Node {
    daemon: Daemon,
    load: Load,
    /// Its folder is deleted with it.
    _project: Project,
}

/// The result of a round.
pub(super) struct Finished {
    /// Executions that were accepted and have ended.
    pub(super) count: u64,
    elapsed: Duration,
}

/// The cost of executions for the database.
#[derive(Default)]
pub(super) struct Costs {
    executions: u64,
    log: u64,
    /// `None` where the system does not say.
    processor: Option<Duration>,
}

impl Nodes {
    pub(super) async fn of_one(daemon: Daemon, project: Project, connections: usize) -> Result<Self, Error> {
        let mut nodes = Self::default();
        nodes.add(daemon, project, connections).await?;
        Ok(nodes)
    }

    pub(super) async fn add(
        &mut self,
        daemon: Daemon,
        project: Project,
        connections: usize,
    ) -> Result<(), Error> {
        let paths = daemon.paths().await?;
        let requests = paths.iter().map(|path| request("POST", path, &body())).collect();
        let load = Load { address: daemon.hooks(), requests, connections };
        self.all.push(Node { daemon, load, _project: project });
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Puts all nodes under load for `time`, and waits until the accepted executions have ended.
    pub(super) async fn take_turn(&self, time: Duration) -> Result<Finished, Error> {
        let started = Instant::now();
        let answers = try_join_all(self.all.iter().map(|node| node.load.run(time))).await?;
        if let Some(any) = self.all.first() {
            any.daemon.drained().await?;
        }
        let count = answers.iter().map(|answers| answers.times.count()).sum();
        Ok(Finished { count, elapsed: started.elapsed() })
    }

    pub(super) async fn stop(self) -> Result<(), Error> {
        for node in self.all {
            node.daemon.stop().await?;
        }
        Ok(())
    }
}

impl Finished {
    /// Executions a second.
    pub(super) fn rate(&self) -> f64 {
        number(self.count) / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Costs {
    /// Adds a round, from the bytes of log and the processor time before it and after it.
    pub(super) fn add(
        &mut self,
        before: &(u64, Option<Duration>),
        after: &(u64, Option<Duration>),
        executions: u64,
    ) {
        self.executions += executions;
        self.log += after.0.saturating_sub(before.0);
        let took = after.1.zip(before.1).map(|(after, before)| after.saturating_sub(before));
        self.processor = took.map(|took| self.processor.unwrap_or_default() + took);
    }

    /// Bytes of log of an execution.
    pub(super) fn log_of_each(&self) -> f64 {
        number(self.log) / number(self.executions.max(1))
    }

    /// Microseconds of the database for an execution.
    pub(super) fn processor_us_of_each(&self) -> Option<f64> {
        Some(self.processor?.as_secs_f64() * 1e6 / number(self.executions.max(1)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_an_execution_is_the_sum_of_all_rounds_over_all_executions() {
        let mut costs = Costs::default();
        let second = |seconds| Some(Duration::from_secs(seconds));
        costs.add(&(1000, second(1)), &(3000, second(2)), 1);
        costs.add(&(9000, second(5)), &(10_000, second(7)), 2);
        assert!((costs.log_of_each() - 1000.0).abs() < 1e-9);
        assert_eq!(costs.processor_us_of_each(), Some(1e6));
    }
}
