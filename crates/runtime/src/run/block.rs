//! A list of steps: in order, or as the graph that `needs` makes of it, ready steps side by side.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use model::action::Effect;
use model::automation::Block;
use model::value::Value;

use super::scope::Scope;
use super::step::Context;
use super::{Activity, Exit, Journal, Run};
use catalog::BlockGraph;

impl Run {
    /// Runs a list of steps. Its result is that of the last step as they are written, whatever ended last.
    pub(super) fn block<'a>(
        &'a self,
        block: &'a Block,
        scope: &'a mut Scope,
        context: &'a Context,
    ) -> BoxFuture<'a, Result<Value, Exit>> {
        async move {
            match self.deployed.plan.block(block) {
                Some(graph) if !graph.is_chain() => self.graph(block, graph, scope, context).await,
                _ => {
                    let walked = self.in_order(block, scope, context).await;
                    // Whatever led out of the list, nobody takes what has run ahead any more.
                    scope.ahead = None;
                    walked
                }
            }
        }
        .boxed()
    }

    async fn in_order(&self, block: &Block, scope: &mut Scope, context: &Context) -> Result<Value, Exit> {
        let mut last = Value::Null;
        for step in &block.steps {
            last = self.step(step, scope, context).await?;
        }
        Ok(last)
    }

    async fn graph(
        &self,
        block: &Block,
        graph: &BlockGraph,
        scope: &mut Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let mut waiting = graph.dependency_counts();
        let mut running = Side::new(self);
        let ready: Vec<usize> = (0..waiting.len()).filter(|&index| waiting[index] == 0).collect();
        let mut last = Value::Null;
        let start = |index: usize, mut branch: Scope| async move {
            let value = self.step(&block.steps[index], &mut branch, context).await?;
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
                if waiting[next] == 0 && !running.parked() {
                    running.push(start(next, scope.fork()));
                }
            }
        }
        Ok(last)
    }
}

/// Futures that run side by side within one execution. The first failure ends the others; a stop of the engine lets
/// each come to the end of the step it is in, and one that pauses lets the others go on. What those did that have
/// ended is committed while the others run, and nobody waits for that.
pub(super) struct Side<'a, T> {
    running: FuturesUnordered<BoxFuture<'a, Result<T, Exit>>>,
    /// Commits what those did that have ended, and the most that anything of it did to the world.
    keeping: Option<(Effect, BoxFuture<'a, Result<(), Exit>>)>,
    /// How many pause, so that they end only when they are taken up again. They keep their places.
    resting: usize,
    parked: bool,
    activity: &'a Activity,
    journal: &'a Journal,
}

impl<'a, T: 'a> Side<'a, T> {
    pub(super) fn new(run: &'a Run) -> Self {
        let (activity, journal) = (&run.activity, &run.journal);
        Self { running: FuturesUnordered::new(), keeping: None, resting: 0, parked: false, activity, journal }
    }

    pub(super) fn push(&mut self, future: impl Future<Output = Result<T, Exit>> + Send + 'a) {
        let busy = self.activity.begin();
        let way = async move {
            let _busy = busy;
            future.await
        };
        self.running.push(way.boxed());
    }

    /// How many have begun and not ended, those that pause included.
    pub(super) fn len(&self) -> usize {
        self.running.len() + self.resting
    }

    /// Whether the engine stops, so that nothing more may begin.
    pub(super) fn parked(&self) -> bool {
        self.parked
    }

    /// The next one that ends; `None` when all have.
    pub(super) async fn next(&mut self) -> Result<Option<T>, Exit> {
        let _pausing = self.activity.pause();
        loop {
            self.keep();
            let ended = tokio::select! {
                biased;
                kept = kept(&mut self.keeping) => {
                    self.keeping = None;
                    kept?;
                    continue;
                }
                ended = self.running.next() => ended,
            };
            match ended {
                None if self.parked => return Err(Exit::ShuttingDown),
                None if self.resting > 0 => return Err(Exit::Suspended),
                None => return Ok(None),
                Some(Ok(value)) => return Ok(Some(value)),
                Some(Err(Exit::ShuttingDown)) => self.parked = true,
                Some(Err(Exit::Suspended)) => self.resting += 1,
                Some(Err(exit)) => return Err(exit),
            }
        }
    }

    /// Has committed what those did that have ended, unless all have: then what comes next is committed with it.
    fn keep(&mut self) {
        let most = self.journal.uncommitted();
        let is_kept = match &self.keeping {
            Some((kept, _)) => *kept == Effect::Write || *kept == most,
            None => self.running.is_empty(),
        };
        if most != Effect::Pure && !is_kept {
            self.keeping = Some((most, self.journal.commit_beside(most).boxed()));
        }
    }
}

/// Comes back when what is being committed is; never where nothing is.
async fn kept(keeping: &mut Option<(Effect, BoxFuture<'_, Result<(), Exit>>)>) -> Result<(), Exit> {
    match keeping {
        Some((_, keeping)) => keeping.await,
        None => std::future::pending().await,
    }
}
