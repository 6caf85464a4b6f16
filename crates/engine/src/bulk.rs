//! Operations on many executions: a list of ids, worked through at a limited rate.
//!
//! They live in memory only. If the daemon stops, an operation ends where it is; each replay that it has started and each
//! cancellation that it has made stands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ingress::Ingress;
use jiff::Timestamp;
use model::AutomationId;
use model::execution::ExecutionId;
use runtime::{Admission, Error, Records, ReplayRequest};
use store::{ExecutionFilter, ExecutionRow, Page};
use tokio_util::sync::CancellationToken;

/// The maximum number of executions of one operation.
pub const MAX_BULK: usize = 10_000;
/// The default number of executions per second.
pub const BULK_PER_SECOND: u32 = 10;
/// The maximum number of executions per second.
pub const MAX_BULK_PER_SECOND: u32 = 100;
/// The maximum number of operations that run at once.
const MAX_RUNNING: usize = 4;
/// The number of operations that are kept, finished ones included.
const KEPT: usize = 50;
/// The number of failures and of new executions that an operation lists.
const LISTED: usize = 100;
/// The page size when executions are selected.
const PAGE: u32 = 1000;

/// The action of an operation on each execution.
#[derive(Clone, Debug)]
pub enum BulkAction {
    /// Replays it.
    Replay(Box<ReplayRequest>),
    /// Cancels it, for this reason.
    Cancel(String),
}

impl BulkAction {
    /// Returns the name used in JSON.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Replay(_) => "replay",
            Self::Cancel(_) => "cancel",
        }
    }

    /// True if the action applies to an execution: only ended ones are replayed, only others cancelled.
    fn applies_to(&self, row: &ExecutionRow) -> bool {
        row.status.is_terminal() == matches!(self, Self::Replay(_))
    }
}

/// The executions of an operation.
#[derive(Clone, Debug)]
pub enum BulkSelection {
    /// These.
    Ids(Vec<ExecutionId>),
    /// All that match when the operation starts.
    Filter(Box<ExecutionFilter>),
}

/// The executions that an operation would concern.
#[derive(Clone, Debug, Default)]
pub struct BulkPlan {
    /// Their ids, oldest first.
    pub ids: Vec<ExecutionId>,
    /// Their number by automation.
    pub automations: BTreeMap<AutomationId, usize>,
    /// The number of executions whose replay calls other systems.
    pub calling: usize,
    /// The number of selected executions to which the action does not apply.
    pub skipped: usize,
}

/// The state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkState {
    /// It is running.
    Running,
    /// It was stopped.
    Stopped,
    /// All executions are done.
    Finished,
}

/// A failure within an operation.
#[derive(Clone, Debug)]
pub struct BulkFailure {
    /// The execution.
    pub id: ExecutionId,
    /// The error, in words.
    pub message: String,
}

/// The progress of an operation.
#[derive(Clone, Debug)]
pub struct BulkProgress {
    /// The id of the operation.
    pub id: String,
    /// Its action: `replay` or `cancel`.
    pub action: &'static str,
    /// Its state.
    pub state: BulkState,
    /// The number of executions.
    pub total: usize,
    /// The number of executions that are done, failed ones included.
    pub done: usize,
    /// The number of executions on which the action failed.
    pub failed: usize,
    /// When it began.
    pub started_at: Timestamp,
    /// The time of its end; `None` while it runs.
    pub finished_at: Option<Timestamp>,
    /// The first new executions.
    pub started: Vec<ExecutionId>,
    /// The first failures.
    pub failures: Vec<BulkFailure>,
}

/// The operations of an engine.
#[derive(Default)]
pub struct Bulk(Mutex<VecDeque<Operation>>);

struct Operation {
    progress: BulkProgress,
    stop: CancellationToken,
}

impl Bulk {
    /// Returns the operations, newest first.
    #[must_use]
    pub fn list(&self) -> Vec<BulkProgress> {
        self.operations().iter().rev().map(|operation| operation.progress.clone()).collect()
    }

    /// Returns the operation with this id, if any.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<BulkProgress> {
        self.find(id, |operation| operation.progress.clone())
    }

    /// Stops an operation after its current execution; `None` if the id is unknown.
    pub fn stop(&self, id: &str) -> Option<BulkProgress> {
        self.find(id, |operation| {
            operation.stop.cancel();
            operation.progress.clone()
        })
    }

    fn find<T>(&self, id: &str, visit: impl FnOnce(&mut Operation) -> T) -> Option<T> {
        self.operations().iter_mut().find(|operation| operation.progress.id == id).map(visit)
    }

    fn operations(&self) -> MutexGuard<'_, VecDeque<Operation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Selects the executions of an operation. Changes nothing.
    ///
    /// # Errors
    /// There are more than [`MAX_BULK`], or the store failed.
    pub async fn plan(
        &self,
        records: &Records,
        action: &BulkAction,
        selection: BulkSelection,
    ) -> Result<BulkPlan, Error> {
        let too_many = || Error::Input(format!("more than {MAX_BULK} executions match; select fewer"));
        let mut plan = BulkPlan::default();
        let mut calls = BTreeMap::new();
        let mut rows = Vec::new();
        match selection {
            BulkSelection::Ids(ids) if ids.len() > MAX_BULK => return Err(too_many()),
            BulkSelection::Ids(ids) => {
                for id in ids {
                    rows.push(records.context.store.execution(id).await?.ok_or(Error::NoSuchExecution(id))?);
                }
            }
            BulkSelection::Filter(filter) => {
                let mut before = None;
                loop {
                    let page =
                        records.context.store.executions(&filter, Page { before, limit: PAGE }).await?;
                    let Some(last) = page.last() else { break };
                    before = Some(last.id);
                    rows.extend(page);
                    if rows.len() > MAX_BULK {
                        return Err(too_many());
                    }
                }
            }
        }
        rows.sort_unstable_by_key(|row| row.id);
        rows.dedup_by_key(|row| row.id);
        for row in rows {
            if !action.applies_to(&row) {
                plan.skipped += 1;
                continue;
            }
            if let BulkAction::Replay(request) = action {
                let version = (row.automation.clone(), request.original.then_some(row.definition));
                let calls = match calls.get(&version) {
                    Some(calls) => *calls,
                    None => {
                        let deployment = records.replayed_deployment(&row, request.original).await;
                        // A version that is not available is reported as a failure of its execution.
                        let found = deployment.is_ok_and(|deployment| records.calls_out(&deployment));
                        calls.insert(version, found);
                        found
                    }
                };
                plan.calling += usize::from(calls);
            }
            *plan.automations.entry(row.automation).or_default() += 1;
            plan.ids.push(row.id);
        }
        Ok(plan)
    }

    /// Starts an operation on these executions, and returns its progress so far.
    ///
    /// # Errors
    /// Too many operations run already.
    pub fn start(
        self: &Arc<Self>,
        (admission, ingress): (&Arc<Admission>, &Arc<Ingress>),
        action: BulkAction,
        ids: Vec<ExecutionId>,
        per_second: u32,
    ) -> Result<BulkProgress, Error> {
        let progress = BulkProgress {
            id: admission.ids.next(admission.context.clock.now()).to_string(),
            action: action.as_str(),
            state: BulkState::Running,
            total: ids.len(),
            done: 0,
            failed: 0,
            started_at: admission.context.clock.now(),
            finished_at: None,
            started: Vec::new(),
            failures: Vec::new(),
        };
        let stop = admission.context.closing.child_token();
        {
            let mut operations = self.operations();
            let is_running = |operation: &&Operation| operation.progress.state == BulkState::Running;
            if operations.iter().filter(is_running).count() >= MAX_RUNNING {
                return Err(Error::Busy { retry_after: Duration::from_secs(1) });
            }
            if operations.len() >= KEPT
                && let Some(oldest) = operations.iter().position(|operation| !is_running(&operation))
            {
                operations.remove(oldest);
            }
            operations.push_back(Operation { progress: progress.clone(), stop: stop.clone() });
        }
        let (bulk, id) = (self.clone(), progress.id.clone());
        let work = Work { bulk, admission: admission.clone(), ingress: ingress.clone(), id, action };
        let pause = Duration::from_secs(1) / per_second.clamp(1, MAX_BULK_PER_SECOND);
        admission.context.tracker.spawn(work.run(ids, pause, stop));
        Ok(progress)
    }
}

/// A running operation.
struct Work {
    bulk: Arc<Bulk>,
    admission: Arc<Admission>,
    ingress: Arc<Ingress>,
    id: String,
    action: BulkAction,
}

impl Work {
    async fn run(self, ids: Vec<ExecutionId>, pause: Duration, stop: CancellationToken) {
        let clock = self.admission.context.clock.clone();
        let mut state = BulkState::Finished;
        for (index, id) in ids.into_iter().enumerate() {
            if index > 0 {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = clock.sleep_for(pause) => {}
                }
            }
            if stop.is_cancelled() {
                state = BulkState::Stopped;
                break;
            }
            let result = self.one(id, &stop).await;
            self.update(|progress| {
                progress.done += 1;
                match result {
                    Ok(Some(new)) if progress.started.len() < LISTED => progress.started.push(new),
                    Ok(_) => {}
                    Err(error) => {
                        progress.failed += 1;
                        if progress.failures.len() < LISTED {
                            progress.failures.push(BulkFailure { id, message: error.to_string() });
                        }
                    }
                }
            });
        }
        let now = clock.now();
        self.update(|progress| (progress.state, progress.finished_at) = (state, Some(now)));
    }

    /// Applies the action to one execution, and waits while too many executions wait.
    async fn one(&self, id: ExecutionId, stop: &CancellationToken) -> Result<Option<ExecutionId>, Error> {
        let admission = &self.admission;
        let request = match &self.action {
            BulkAction::Cancel(reason) => return admission.cancel(id, reason).await.map(|_| None),
            BulkAction::Replay(request) => request,
        };
        loop {
            let replayed = match admission.records.plan_replay(id, ReplayRequest::clone(request)).await {
                Ok(plan) => self.ingress.replay(plan).await,
                Err(error) => Err(error),
            };
            match replayed {
                Err(Error::Busy { retry_after } | Error::ReadersBusy { retry_after })
                    if !stop.is_cancelled() =>
                {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        () = admission.context.clock.sleep_for(retry_after) => {}
                    }
                }
                result => return result.map(Some),
            }
        }
    }

    fn update(&self, change: impl FnOnce(&mut BulkProgress)) {
        self.bulk.find(&self.id, |operation| change(&mut operation.progress));
    }
}
