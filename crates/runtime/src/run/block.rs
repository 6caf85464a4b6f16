//! Runs a list of steps: in order, or as the graph defined by `needs`, where ready steps run in parallel.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use model::action::Effect;
use model::automation::Block;
use model::execution::split_key;
use value::Value;

use super::scope::Scope;
use super::step::Frame;
use super::{Exit, Run};
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

    /// The frame of lists side by side.
    pub(super) fn cuttable(&self, frame: &Frame) -> Frame {
        if self.journal.closes_steps() { frame.cuttable() } else { frame.clone() }
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
        let frame = &self.cuttable(frame);
        let first = block.steps.first().map(|step| frame.key(&step.id)).unwrap_or_default();
        let mut running = Parallel::new(self, frame, first, vec![block]);
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

/// Futures that run in parallel within one execution. The first failure cancels the others: they are dropped, or if the automation has
/// steps with a `finally`, they end by themselves, and may start others meanwhile that have to end too. When the engine stops, each
/// finishes its current step; a waiting one lets the others continue. Results of finished futures are committed in the
/// background.
pub(super) struct Parallel<'a, T> {
    running: FuturesUnordered<BoxFuture<'a, Result<T, Exit>>>,
    /// The background commit of finished futures, with their strongest effect.
    background_commit: Option<(Effect, BoxFuture<'a, Result<(), Exit>>)>,
    /// Number of suspended futures, which only end when the execution resumes. They still count as started.
    suspended_count: usize,
    parked: bool,
    /// The frame of the futures, whose token cuts them off.
    frame: Frame,
    /// The key of the lists in the log, and the lists.
    key: String,
    lists: Vec<&'a Block>,
    /// The exit with which they end, once they are cut off.
    exit: Option<Exit>,
    /// True if a future was suspended when the others were cut off.
    has_missed_cut: bool,
    run: &'a Run,
}

impl<'a, T: 'a> Parallel<'a, T> {
    /// Creates an empty set, in the frame of its futures. If the log shows that the lists were cut off, they are cut off from the start.
    pub(super) fn new(run: &'a Run, frame: &Frame, key: String, lists: Vec<&'a Block>) -> Self {
        let exit = frame.cut.as_ref().and_then(|cut| {
            let outcome = run.journal.cut_outcome(&key)?;
            cut.cancel();
            Some(Exit::of(outcome))
        });
        Self {
            running: FuturesUnordered::new(),
            background_commit: None,
            suspended_count: 0,
            parked: false,
            frame: frame.clone(),
            key,
            lists,
            exit,
            has_missed_cut: false,
            run,
        }
    }

    pub(super) fn push(&mut self, future: impl Future<Output = Result<T, Exit>> + Send + 'a) {
        let busy = self.run.activity.begin();
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
        let _pausing = self.run.activity.pause();
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
                None if self.suspended_count > 0 => return self.suspended(),
                None => return self.exit.take().map_or(Ok(None), Err),
                Some(Ok(value)) => return Ok(Some(value)),
                Some(Err(Exit::ShuttingDown)) => self.parked = true,
                Some(Err(Exit::Suspended)) => self.suspended_count += 1,
                Some(Err(exit)) => self.fail(exit)?,
            }
        }
    }

    /// Cuts off the futures because of an exit. Returns it if nothing has to end before.
    pub(super) fn fail(&mut self, exit: Exit) -> Result<(), Exit> {
        let Some(cut) = self.frame.cut.as_ref().filter(|_| !exit.is_immediate()) else { return Err(exit) };
        if self.exit.is_some() {
            return Ok(());
        }
        let journal = &self.run.journal;
        if !journal.any_open(|step| self.is_inside(step)) {
            return Err(exit);
        }
        if let Some(outcome) = self.run.outcome_of_exit(&exit) {
            journal.cut(&self.key, outcome);
        }
        cut.cancel();
        self.has_missed_cut = self.suspended_count > 0;
        self.exit = Some(exit);
        Ok(())
    }

    /// Cuts off the futures that have not ended, whatever their results would be.
    pub(super) async fn cut(mut self) -> Result<(), Exit> {
        if self.fail(Exit::Cancelled).is_err() {
            return Ok(());
        }
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Err(exit) if exit.is_immediate() => return Err(exit),
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    /// The exit of futures that are suspended. If one has missed the cut, the execution goes on at once, to end it.
    fn suspended(&mut self) -> Result<Option<T>, Exit> {
        let journal = &self.run.journal;
        if self.exit.is_some() && !journal.any_open(|step| self.is_inside(step)) {
            return self.exit.take().map_or(Ok(None), Err);
        }
        if self.has_missed_cut && journal.any_unclosed(|step| self.is_inside(step)) {
            journal.wake_at_once();
        }
        Err(Exit::Suspended)
    }

    /// True if a step is in the lists.
    fn is_inside(&self, step: &str) -> bool {
        self.frame.is_around(step) && self.lists.iter().any(|list| list.contains(split_key(step).0))
    }

    /// Starts the background commit of finished futures. Not needed if all have ended: the next step commits their
    /// results.
    fn keep(&mut self) {
        let most = self.run.journal.uncommitted();
        let is_kept = match &self.background_commit {
            Some((kept, _)) => *kept == Effect::Write || *kept == most,
            None => self.running.is_empty(),
        };
        if most != Effect::Pure && !is_kept {
            self.background_commit = Some((most, self.run.journal.commit_branch_result(most).boxed()));
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
