//! Runs a list of steps: in order, or as the graph defined by `needs`, where ready steps run in parallel.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use model::action::Effect;
use model::automation::Block;
use value::Value;

use super::scope::Scope;
use super::step::Frame;
use super::{Activity, Exit, Journal, Run};
use catalog::BlockGraph;

impl Run {
    /// Runs a list of steps. Its result is the one of the last step in the file, regardless of the order of completion.
    pub(super) fn block<'a>(
        &'a self,
        block: &'a Block,
        scope: &'a mut Scope,
        frame: &'a Frame,
    ) -> BoxFuture<'a, Result<Value, Exit>> {
        async move {
            match self.deployment.plan.block(block) {
                Some(graph) if !graph.is_chain() => self.graph(block, graph, scope, frame).await,
                _ => {
                    let walked = self.in_order(block, scope, frame).await;
                    // The walk left the list, so results computed ahead are no longer needed.
                    scope.pipeline = None;
                    walked
                }
            }
        }
        .boxed()
    }

    async fn in_order(&self, block: &Block, scope: &mut Scope, frame: &Frame) -> Result<Value, Exit> {
        let mut last = Value::Null;
        for step in &block.steps {
            last = self.step(step, scope, frame).await?;
        }
        Ok(last)
    }

    async fn graph(
        &self,
        block: &Block,
        graph: &BlockGraph,
        scope: &mut Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let mut waiting = graph.dependency_counts();
        let mut running = Parallel::new(self);
        let ready: Vec<usize> = (0..waiting.len()).filter(|&index| waiting[index] == 0).collect();
        let mut last = Value::Null;
        let start = |index: usize, mut branch: Scope| async move {
            let value = self.step(&block.steps[index], &mut branch, frame).await?;
            Ok((index, branch, value))
        };
        for index in ready {
            running.push(start(index, scope.fork()));
        }
        while let Some((index, branch, value)) = running.next().await? {
            scope.merge(branch);
            if index + 1 == block.steps.len() {
                last = value;
            }
            for next in graph.dependents(index) {
                waiting[next] -= 1;
                if waiting[next] == 0 && !running.is_stopping() {
                    running.push(start(next, scope.fork()));
                }
            }
        }
        Ok(last)
    }
}

/// Futures that run in parallel within one execution. The first failure cancels the others. When the engine stops, each
/// finishes its current step; a waiting one lets the others continue. Results of finished futures are committed in the
/// background.
pub(super) struct Parallel<'a, T> {
    running: FuturesUnordered<BoxFuture<'a, Result<T, Exit>>>,
    /// The background commit of finished futures, with their strongest effect.
    background_commit: Option<(Effect, BoxFuture<'a, Result<(), Exit>>)>,
    /// Number of suspended futures, which only end when the execution resumes. They still count as started.
    suspended_count: usize,
    parked: bool,
    activity: &'a Activity,
    journal: &'a Journal,
}

impl<'a, T: 'a> Parallel<'a, T> {
    pub(super) fn new(run: &'a Run) -> Self {
        let (activity, journal) = (&run.activity, &run.journal);
        Self {
            running: FuturesUnordered::new(),
            background_commit: None,
            suspended_count: 0,
            parked: false,
            activity,
            journal,
        }
    }

    pub(super) fn push(&mut self, future: impl Future<Output = Result<T, Exit>> + Send + 'a) {
        let busy = self.activity.begin();
        let way = async move {
            let _busy = busy;
            future.await
        };
        self.running.push(way.boxed());
    }

    /// Number of started and unfinished futures, including suspended ones.
    pub(super) fn len(&self) -> usize {
        self.running.len() + self.suspended_count
    }

    /// Returns true if the engine stops and nothing new may start.
    pub(super) fn is_stopping(&self) -> bool {
        self.parked
    }

    /// Awaits the next result; `None` if all futures have ended.
    pub(super) async fn next(&mut self) -> Result<Option<T>, Exit> {
        let _pausing = self.activity.pause();
        loop {
            self.keep();
            let ended = tokio::select! {
                biased;
                kept = commit_done(&mut self.background_commit) => {
                    self.background_commit = None;
                    kept?;
                    continue;
                }
                ended = self.running.next() => ended,
            };
            match ended {
                None if self.parked => return Err(Exit::ShuttingDown),
                None if self.suspended_count > 0 => return Err(Exit::Suspended),
                None => return Ok(None),
                Some(Ok(value)) => return Ok(Some(value)),
                Some(Err(Exit::ShuttingDown)) => self.parked = true,
                Some(Err(Exit::Suspended)) => self.suspended_count += 1,
                Some(Err(exit)) => return Err(exit),
            }
        }
    }

    /// Starts the background commit of finished futures. Not needed if all have ended: the next step commits their
    /// results.
    fn keep(&mut self) {
        let most = self.journal.uncommitted();
        let is_kept = match &self.background_commit {
            Some((kept, _)) => *kept == Effect::Write || *kept == most,
            None => self.running.is_empty(),
        };
        if most != Effect::Pure && !is_kept {
            self.background_commit = Some((most, self.journal.commit_branch_result(most).boxed()));
        }
    }
}

/// Completes with the background commit; never without one.
async fn commit_done(
    background_commit: &mut Option<(Effect, BoxFuture<'_, Result<(), Exit>>)>,
) -> Result<(), Exit> {
    match background_commit {
        Some((_, background_commit)) => background_commit.await,
        None => std::future::pending().await,
    }
}
