//! One execution from where it stands to its end: a walk through its plan over its journal.
//!
//! The walk is the same after a crash as the first time: what the journal says has ended is not done again, so
//! recovery needs no code of its own. A step with an outside effect starts only when every effect before it is
//! committed; pure steps ride along with the next commit, since doing them again changes nothing.

mod action;
mod activity;
mod ahead;
mod block;
mod call;
mod code;
mod evaluate;
mod journal;
mod loops;
mod moment;
mod pause;
mod respond;
mod scope;
mod step;
mod undo;
mod verbs;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use model::Budget;
use model::action::{ActionError, ErrorKind};
use model::automation::Block;
use model::execution::{Event, Execution, Leave, Origin, Outcome, StepOutcome};
use model::payload::{HttpResponse, Payload};
use model::value::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use activity::Activity;
pub(crate) use code::{level, to_action_error};
pub(crate) use evaluate::{address, expression_error};
pub(crate) use journal::{CameFrom, Journal, Rest, Surroundings, Taken, Wake};
pub(crate) use moment::Secret;
use scope::Scope;
use step::Context;
use undo::Undo;

use crate::catalog::Deployed;
use crate::isolation::Observation;
use crate::memory::Share;
use crate::services::Services;

/// The most time that the closing steps (`onError`, `finally`) of an execution that ran out of time have.
const CLOSING_TIME: std::time::Duration = std::time::Duration::from_secs(300);

/// How long a deadline that was put off is not looked at again.
const PUT_OFF: std::time::Duration = std::time::Duration::from_secs(1);

/// A live execution.
pub(crate) struct Run {
    pub(crate) deployed: Arc<Deployed>,
    pub(crate) services: Arc<Services>,
    pub(crate) journal: Journal,
    pub(crate) payload: Arc<Payload>,
    /// What steps read of the payload, where it has been read already.
    pub(crate) results: Option<Value>,
    pub(crate) started_at: Timestamp,
    pub(crate) origin: Origin,
    /// The steps that have ended and may have to be undone.
    pub(crate) undos: Mutex<Vec<Undo>>,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) cancelled: Cancellation,
    pub(crate) activity: Activity,
    /// The work since the others last had their turn, in the units of a [`model::Budget`].
    pub(crate) stretch: AtomicU64,
    /// The memory of its large values.
    pub(crate) memory: Share,
    /// Where a crash interrupted the execution.
    pub(crate) observation: Option<Observation>,
}

/// How far an execution has come, for whoever waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// The answer that a `respond` step decided; committed.
    pub(crate) response: Option<HttpResponse>,
    /// How it ended; committed.
    pub(crate) outcome: Option<Outcome>,
    /// Set when this process will not bring it to its end.
    pub(crate) parked: bool,
    /// Set while nothing but pauses is left.
    pub(crate) rests: bool,
}

/// A request to end an execution, with its reason.
#[derive(Default)]
pub(crate) struct Cancellation {
    pub(crate) token: CancellationToken,
    reason: std::sync::OnceLock<String>,
}

impl Cancellation {
    pub(crate) fn cancel(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.token.cancel();
    }

    pub(crate) fn reason(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "cancelled".to_owned())
    }
}

/// Why a walk came back early.
#[derive(Debug)]
pub(crate) enum Exit {
    /// `stop` ended the execution well.
    Stop(Value),
    /// `break` ended the loop around the step.
    Break,
    /// `continue` ended the turn of the loop around the step.
    Continue,
    /// A step failed, and nothing has handled it so far.
    Failed(ActionError),
    /// The deadline set at this depth has passed.
    Expired(u32),
    /// Somebody ended the execution.
    Cancelled,
    /// The engine stops: the execution goes on when it starts again.
    Parked,
    /// Nothing but pauses is left: the execution goes on when one of them ends.
    Resting,
    /// The execution was not accepted: there is none, and nothing of it was to be noticed.
    Refused,
    /// The journal cannot be written: what happens next is for the next start to find out.
    Lost(Arc<store::Error>),
}

/// What became of an execution that was carried on.
pub(crate) enum Carried {
    /// It came to its end.
    Ended,
    /// It goes on when one of its pauses ends.
    Rests(Rest),
    /// It goes on in another process.
    Left,
}

impl Exit {
    /// How it ends the steps that it leads out of; nothing for a failure, and for what is to go on later.
    fn leaves(&self) -> Option<StepOutcome> {
        Some(match self {
            Self::Stop(result) => StepOutcome::Left { by: Leave::Stop, result: result.clone() },
            Self::Break => StepOutcome::Left { by: Leave::Break, result: Value::Null },
            Self::Continue => StepOutcome::Left { by: Leave::Continue, result: Value::Null },
            _ => return None,
        })
    }

    /// The way out that a step took when it ended.
    fn left(by: Leave, result: Value) -> Self {
        match by {
            Leave::Stop => Self::Stop(result),
            Leave::Break => Self::Break,
            Leave::Continue => Self::Continue,
        }
    }
}

/// Why an execution was cancelled of which the code of its trigger said that no step is to run.
const DECLINED: &str = "declined by the trigger's code";

impl Run {
    /// Carries the execution to its end, or as far as this process may. `holds` says whether it keeps a place among
    /// others while it rests.
    pub(crate) async fn execute(&self, holds: bool) -> Carried {
        let _busy = self.activity.begin();
        let result = match self.journal.outcome() {
            Some(_) => Ok(()),
            None => self.journal.commit_beside_walk(self.to_the_end()).await,
        };
        let exit = match result {
            Ok(()) => return Carried::Ended,
            Err(Exit::Resting) => {
                let rest = self.journal.rest(holds);
                match self.journal.commit().await {
                    Ok(()) => return Carried::Rests(rest),
                    Err(exit) => exit,
                }
            }
            Err(exit) => exit,
        };
        match exit {
            Exit::Lost(error) => self.services.lost(&error),
            // Whoever asked is told, and there is nothing else of it.
            Exit::Refused => return Carried::Left,
            exit => tracing::debug!(?exit, "execution parked"),
        }
        // What is known is kept; where the store is lost this fails again, which changes nothing.
        let _ = self.journal.commit().await;
        self.progressed(|progress| progress.parked = true);
        Carried::Left
    }

    /// Notes how far it has come. To wake those who wait costs something though nobody does; who comes later finds it noted.
    pub(crate) fn progressed(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_if_modified(|progress| {
            change(progress);
            self.progress.receiver_count() > 0
        });
    }

    async fn to_the_end(&self) -> Result<(), Exit> {
        if self.journal.resumed() {
            self.take_up_again().await?;
            if self.journal.outcome().is_some() {
                return Ok(());
            }
        }
        if let Some(reason) = self.journal.cancelling() {
            self.cancelled.cancel(&reason);
        }
        if self.payload.decided().is_some_and(|decided| decided.declined) {
            return self.finish(Outcome::Cancelled { reason: DECLINED.to_owned() }).await;
        }
        loop {
            let paused = match self.journal.retry_at() {
                Some(next_at) => self.pause_before_try("", next_at, None).await,
                None => Ok(()),
            };
            let Some(mut scope) = self.scope_or_fail().await? else { return Ok(()) };
            let steps = &self.deployed.automation.steps;
            let walked = match paused {
                Ok(()) => self.block(steps, &mut scope, &self.context()).await,
                Err(exit) => Err(exit),
            };
            let outcome = match self.outcome(walked, &mut scope).await? {
                Outcome::Failed { error } => {
                    if self.journal.closing().is_none() && self.tries_again(&error).await? {
                        continue;
                    }
                    self.close(error, &mut scope).await?
                }
                outcome => outcome,
            };
            let outcome = self.run_finally(outcome, &mut scope).await?;
            return self.finish(outcome).await;
        }
    }

    /// What follows a failure for good: undoing, then `onError`. They go by the error that is recorded before them, so
    /// that nothing of the main steps begins again should the process end on the way.
    async fn close(&self, error: ActionError, scope: &mut Scope) -> Result<Outcome, Exit> {
        let undos = self.undos();
        let automation = &self.deployed.automation;
        if !undos.is_empty() || automation.on_error.is_some() || automation.finally.is_some() {
            if self.journal.closing().is_none() {
                // What was cut off beside the failure pauses no more, and must not wake what closes.
                self.abandon(|_| true);
            }
            self.journal.close(&error);
        }
        self.undo(undos, &error).await?;
        self.run_on_error(&error, scope).await?;
        Ok(Outcome::Failed { error })
    }

    /// The text of its concurrency key, which is evaluated under an inline budget.
    pub(crate) fn concurrency_key(&self, key: &model::Template) -> Result<String, ActionError> {
        let scope = Scope::for_run(self)?;
        let (names, _) = scope.names();
        let value = key.evaluate(names, &Budget::inline());
        Ok(value.map_err(|error| expression_error(&error, "concurrency.key"))?.to_text())
    }

    /// Records the interruption. It counts where the execution computed when the process died, so that a step that kills
    /// the process cannot do so for ever.
    async fn take_up_again(&self) -> Result<(), Exit> {
        let (id, isolation) = (self.journal.id(), &self.services.isolation);
        if !self.journal.waits_beyond(self.services.clock.steady_now()) {
            let waited = !isolation.is_suspect(id);
            let limit = self.services.settings.limits.interruptions;
            if !waited && self.journal.interruptions() + 1 >= limit {
                let message = format!(
                    "the daemon died {limit} times while the same step ran in it; the execution is set aside for a person to look at"
                );
                let error = ActionError::new(ErrorKind::Interrupted, message);
                self.finish(Outcome::Stuck { error }).await?;
            } else {
                self.journal.push(Event::Resumed { at: self.services.clock.now(), waited });
                self.journal.commit().await?;
            }
        }
        isolation.acquit(id);
        Ok(())
    }

    async fn scope_or_fail(&self) -> Result<Option<Scope>, Exit> {
        match Scope::for_run(self) {
            Ok(scope) => Ok(Some(scope)),
            Err(error) => {
                self.finish(Outcome::Failed { error }).await?;
                Ok(None)
            }
        }
    }

    async fn outcome(&self, walked: Result<Value, Exit>, scope: &mut Scope) -> Result<Outcome, Exit> {
        let failed = |error| Ok(Outcome::Failed { error });
        let result = match walked {
            // A `stop` with a result of its own ends the execution with that; `outputs` may read steps that it left out.
            Err(Exit::Stop(result)) if !result.is_null() => return Ok(Outcome::Succeeded { result }),
            Ok(result) | Err(Exit::Stop(result)) => result,
            Err(Exit::Failed(error)) => return failed(error),
            Err(Exit::Break | Exit::Continue) => {
                let message = "there is no loop around this step";
                return failed(ActionError::new(ErrorKind::Internal, message));
            }
            Err(Exit::Expired(_)) => {
                let timeout = model::units::format_duration(self.deployed.automation.timeout);
                let message = format!("the execution took longer than its timeout of {timeout}");
                return failed(ActionError::new(ErrorKind::Timeout, message));
            }
            Err(Exit::Cancelled) => {
                // Who was first to end it is in the log, whoever asked again since.
                let first = self.journal.cancelling();
                return Ok(Outcome::Cancelled { reason: first.unwrap_or_else(|| self.cancelled.reason()) });
            }
            Err(exit @ (Exit::Parked | Exit::Resting | Exit::Refused | Exit::Lost(_))) => return Err(exit),
        };
        let Some(outputs) = &self.deployed.automation.outputs else {
            return Ok(Outcome::Succeeded { result });
        };
        let reads = crate::plan::Reads::of(outputs);
        self.prepare(Some(&reads), "outputs", self.started_at, scope).await?;
        match Box::pin(self.evaluate(outputs, scope, "outputs", &self.closing_context())).await {
            Ok(result) => Ok(Outcome::Succeeded { result }),
            Err(Exit::Failed(error)) => failed(error),
            Err(Exit::Cancelled | Exit::Expired(_)) => {
                failed(ActionError::new(ErrorKind::Timeout, "`outputs` took longer than 5 minutes"))
            }
            Err(exit) => Err(exit),
        }
    }

    /// Whether its policy grants the whole execution another try. It begins when its time has come.
    async fn tries_again(&self, error: &ActionError) -> Result<bool, Exit> {
        let attempt = self.journal.attempt();
        let Some(delay) = self.deployed.automation.retry.next_delay(attempt, error) else { return Ok(false) };
        let now = self.services.clock.now();
        let next_at = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        let event = Event::Retried { at: now, attempt, error: error.clone(), next_at };
        self.journal.retry_execution(event, self.services.clock.steady_now().after(delay));
        self.journal.commit().await?;
        self.undos.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
        Ok(true)
    }

    async fn run_on_error(&self, error: &ActionError, scope: &mut Scope) -> Result<(), Exit> {
        let Some(block) = &self.deployed.automation.on_error else { return Ok(()) };
        let mut inner = scope.fork();
        inner.bind("error", error.to_value());
        self.run_closing(block, &mut inner, &self.closing_context(), "onError").await.map(|_| ())
    }

    async fn run_finally(&self, outcome: Outcome, scope: &mut Scope) -> Result<Outcome, Exit> {
        let Some(block) = &self.deployed.automation.finally else { return Ok(outcome) };
        if let Outcome::Cancelled { reason } = &outcome {
            // The next process, if there is one, must not go on with the main steps, and nothing of them pauses.
            if self.journal.cancelling().is_none() {
                self.abandon(|_| true);
            }
            self.journal.cancel(reason);
            self.journal.commit().await?;
        }
        if let Outcome::Failed { error } = &outcome {
            scope.bind("error", error.to_value());
        }
        match self.run_closing(block, scope, &self.closing_context(), "finally").await? {
            Some(error) if matches!(outcome, Outcome::Succeeded { .. }) => Ok(Outcome::Failed { error }),
            _ => Ok(outcome),
        }
    }

    /// Runs steps that come after the end. Their own failure is logged and given back.
    async fn run_closing(
        &self,
        block: &Block,
        scope: &mut Scope,
        context: &Context,
        what: &str,
    ) -> Result<Option<ActionError>, Exit> {
        let error = match self.block(block, scope, context).await {
            Ok(_) | Err(Exit::Stop(_) | Exit::Break | Exit::Continue) => return Ok(None),
            Err(Exit::Failed(error)) => error,
            Err(Exit::Expired(_)) => ActionError::new(
                ErrorKind::Timeout,
                format!("the steps of `{what}` took longer than 5 minutes"),
            ),
            Err(Exit::Cancelled) => ActionError::new(ErrorKind::Cancelled, self.cancelled.reason()),
            Err(exit @ (Exit::Parked | Exit::Resting | Exit::Refused | Exit::Lost(_))) => return Err(exit),
        };
        self.journal.log(model::LogLevel::Error, None, &format!("`{what}` failed: {}", error.message));
        Ok(Some(error))
    }

    /// The context of steps that come after the end.
    fn closing_context(&self) -> Context {
        Context::closing(self.services.clock.steady_now().after(CLOSING_TIME))
    }

    async fn finish(&self, outcome: Outcome) -> Result<(), Exit> {
        self.abandon(|_| true);
        let at = self.services.clock.now();
        let outcome = self.journal.redact_outcome(outcome);
        self.journal.finish(Event::Finished { at, outcome: outcome.clone() });
        self.journal.commit().await?;
        self.progressed(|progress| progress.outcome = Some(outcome));
        Ok(())
    }

    /// The context of the main steps: the deadline counts from the acceptance, whatever happened since.
    fn context(&self) -> Context {
        let began = match self.journal.attempt() {
            1 => self.journal.began(),
            _ => self.journal.retry_at().unwrap_or(self.journal.began()),
        };
        Context::new(began.after(self.deployed.automation.timeout))
    }

    /// Comes back when the execution is cancelled; never in the closing steps, which come after that.
    pub(crate) async fn cancellation(&self, context: Option<&Context>) {
        match context {
            Some(context) if context.closing => std::future::pending().await,
            _ => self.cancelled.token.cancelled().await,
        }
    }

    /// Comes back when the nearest deadline passes; never where there is none.
    pub(crate) async fn expiry(&self, context: Option<&Context>) -> Exit {
        let Some(context) = context else { return std::future::pending().await };
        let mut least = std::time::Duration::ZERO;
        loop {
            let ((at, depth), now) = (self.deadline(context), self.services.clock.steady_now());
            if now >= at {
                return Exit::Expired(depth);
            }
            // Meanwhile a pause beside it may put it off for as long as it lasts. With little time left, that must not
            // become a look at every moment.
            self.services.clock.sleep_until_steady(at.max(now.after(least))).await;
            least = PUT_OFF;
        }
    }
}

/// The state that a stored execution has come to, for [`Journal::restore`].
pub(crate) fn folded(id: model::ExecutionId, events: &[Event]) -> Result<Execution, String> {
    Execution::fold(id, events.iter().cloned()).map_err(|error| error.to_string())
}
