//! One execution from where it stands to its end: a walk through its plan over its journal.
//!
//! The walk is the same after a crash as the first time: what the journal says has ended is not done again, so
//! recovery needs no code of its own. A step with an outside effect starts only when every effect before it is
//! committed; pure steps ride along with the next commit, since doing them again changes nothing.

mod action;
mod block;
mod journal;
mod scope;
mod step;
mod verbs;

use std::sync::Arc;

use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use model::automation::Block;
use model::execution::{Event, Execution, Outcome};
use model::payload::{HttpResponse, Payload};
use model::value::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use journal::{Journal, Surroundings};
use scope::Scope;
use step::Context;

use crate::catalog::Deployed;
use crate::engine::Services;

/// The most time that the closing steps (`onError`, `finally`) of an execution that ran out of time have.
const CLOSING_TIME: std::time::Duration = std::time::Duration::from_secs(300);

/// A live execution.
pub(crate) struct Run {
    pub(crate) deployed: Arc<Deployed>,
    pub(crate) services: Arc<Services>,
    pub(crate) journal: Journal,
    pub(crate) payload: Payload,
    /// What steps read of the payload, where it has been read already.
    pub(crate) results: Option<Value>,
    pub(crate) started_at: Timestamp,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) cancelled: Cancellation,
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

    fn reason(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "cancelled".to_owned())
    }
}

/// Why a walk came back early.
#[derive(Debug)]
pub(crate) enum Exit {
    /// `stop` ended the execution well.
    Stop(Value),
    /// A step failed, and nothing has handled it so far.
    Failed(ActionError),
    /// The deadline set at this depth has passed.
    Expired(u32),
    /// Somebody ended the execution.
    Cancelled,
    /// The engine stops: the execution goes on when it starts again.
    Parked,
    /// The journal cannot be written: what happens next is for the next start to find out.
    Lost(Arc<store::Error>),
}

impl Exit {
    /// The result that ends the execution, where one does.
    fn result(&self) -> Option<Value> {
        if let Self::Stop(result) = self { Some(result.clone()) } else { None }
    }
}

impl Run {
    /// Carries the execution to its end, or as far as this process may.
    pub(crate) async fn execute(&self) {
        let result = match self.journal.outcome() {
            Some(_) => Ok(()),
            None => self.to_the_end().await,
        };
        if let Err(exit) = result {
            match exit {
                Exit::Lost(error) => self.services.lost(&error),
                exit => tracing::debug!(?exit, "execution parked"),
            }
            // What is known is kept; where the store is lost this fails again, which changes nothing.
            let _ = self.journal.commit().await;
            self.progress.send_modify(|progress| progress.parked = true);
        }
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
        loop {
            let Some(mut scope) = self.scope_or_fail().await? else { return Ok(()) };
            let steps = &self.deployed.automation.steps;
            let walked = self.block(steps, &mut scope, &self.context(0)).await;
            let outcome = match self.outcome(walked, &scope)? {
                Outcome::Failed { error } => {
                    if self.wait_for_next_try(&error).await? {
                        continue;
                    }
                    self.run_on_error(&error, &mut scope).await?;
                    Outcome::Failed { error }
                }
                outcome => outcome,
            };
            let outcome = self.run_finally(outcome, &mut scope).await?;
            return self.finish(outcome).await;
        }
    }

    /// The text of its concurrency key.
    pub(crate) fn concurrency_key(&self, key: &model::Template) -> Result<String, ActionError> {
        let scope = Scope::of(self)?;
        let value =
            key.evaluate(scope.root()).map_err(|error| expression_error(&error, "concurrency.key"))?;
        Ok(value.to_text())
    }

    /// Counts the interruption, so that a step that kills the process cannot do so for ever.
    async fn take_up_again(&self) -> Result<(), Exit> {
        if self.journal.waits_beyond(self.services.clock.now()) {
            return Ok(());
        }
        let limit = self.services.settings.limits.interruptions;
        if self.journal.interruptions() >= limit {
            let message = format!(
                "the daemon stopped {limit} times while the same step ran; the execution is set aside for a person to look at"
            );
            let error = ActionError::new(ErrorKind::Interrupted, message);
            return self.finish(Outcome::Stuck { error }).await;
        }
        self.journal.push(Event::Resumed { at: self.services.clock.now() });
        self.journal.commit().await
    }

    async fn scope_or_fail(&self) -> Result<Option<Scope>, Exit> {
        match Scope::of(self) {
            Ok(scope) => Ok(Some(scope)),
            Err(error) => {
                self.finish(Outcome::Failed { error }).await?;
                Ok(None)
            }
        }
    }

    fn outcome(&self, walked: Result<Value, Exit>, scope: &Scope) -> Result<Outcome, Exit> {
        let result = match walked {
            Ok(result) | Err(Exit::Stop(result)) => result,
            Err(Exit::Failed(error)) => return Ok(Outcome::Failed { error }),
            Err(Exit::Expired(_)) => {
                let timeout = model::units::format_duration(self.deployed.automation.timeout);
                let message = format!("the execution took longer than its timeout of {timeout}");
                return Ok(Outcome::Failed { error: ActionError::new(ErrorKind::Timeout, message) });
            }
            Err(Exit::Cancelled) => return Ok(Outcome::Cancelled { reason: self.cancelled.reason() }),
            Err(exit @ (Exit::Parked | Exit::Lost(_))) => return Err(exit),
        };
        Ok(match &self.deployed.automation.outputs {
            None => Outcome::Succeeded { result },
            Some(outputs) => match outputs.evaluate(scope.root()) {
                Ok(result) => Outcome::Succeeded { result },
                Err(error) => Outcome::Failed { error: expression_error(&error, "outputs") },
            },
        })
    }

    /// Waits for the next try of the whole execution, if its policy grants one.
    async fn wait_for_next_try(&self, error: &ActionError) -> Result<bool, Exit> {
        let attempt = self.journal.attempt();
        let Some(delay) = self.deployed.automation.retry.next_delay(attempt, error) else { return Ok(false) };
        let now = self.services.clock.now();
        let next_at = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        self.journal.retry_execution(Event::Retried { at: now, attempt, error: error.clone(), next_at });
        self.journal.commit().await?;
        self.sleep_until(next_at, None).await?;
        Ok(true)
    }

    async fn run_on_error(&self, error: &ActionError, scope: &mut Scope) -> Result<(), Exit> {
        let Some(block) = &self.deployed.automation.on_error else { return Ok(()) };
        let mut inner = scope.fork();
        inner.bind("error", error.to_value());
        self.run_closing(block, &mut inner, "onError").await.map(|_| ())
    }

    async fn run_finally(&self, outcome: Outcome, scope: &mut Scope) -> Result<Outcome, Exit> {
        let Some(block) = &self.deployed.automation.finally else { return Ok(outcome) };
        if let Outcome::Cancelled { reason } = &outcome {
            // The next process, if there is one, must not go on with the main steps.
            self.journal.cancel(reason);
            self.journal.commit().await?;
        }
        if let Outcome::Failed { error } = &outcome {
            scope.bind("error", error.to_value());
        }
        match self.run_closing(block, scope, "finally").await? {
            Some(error) if matches!(outcome, Outcome::Succeeded { .. }) => Ok(Outcome::Failed { error }),
            _ => Ok(outcome),
        }
    }

    /// Runs steps that come after the end. Their own failure is logged and given back.
    async fn run_closing(
        &self,
        block: &Block,
        scope: &mut Scope,
        what: &str,
    ) -> Result<Option<ActionError>, Exit> {
        let until = self.services.clock.now().checked_add(CLOSING_TIME).unwrap_or(Timestamp::MAX);
        let context = Context::closing(until);
        let error = match self.block(block, scope, &context).await {
            Ok(_) | Err(Exit::Stop(_)) => return Ok(None),
            Err(Exit::Failed(error)) => error,
            Err(Exit::Expired(_)) => ActionError::new(
                ErrorKind::Timeout,
                format!("the steps of `{what}` took longer than 5 minutes"),
            ),
            Err(Exit::Cancelled) => ActionError::new(ErrorKind::Cancelled, self.cancelled.reason()),
            Err(exit @ (Exit::Parked | Exit::Lost(_))) => return Err(exit),
        };
        self.journal.log(model::LogLevel::Error, None, &format!("`{what}` failed: {}", error.message));
        Ok(Some(error))
    }

    async fn finish(&self, outcome: Outcome) -> Result<(), Exit> {
        let at = self.services.clock.now();
        self.journal.finish(Event::Finished { at, outcome: outcome.clone() });
        self.journal.commit().await?;
        self.progress.send_modify(|progress| progress.outcome = Some(outcome));
        Ok(())
    }

    /// The context of the main steps: the deadline counts from the acceptance, whatever happened since.
    fn context(&self, depth: u32) -> Context {
        let until = match self.journal.attempt() {
            1 => self.started_at,
            _ => self.journal.retry_at().unwrap_or(self.started_at),
        };
        let until = until.checked_add(self.deployed.automation.timeout).unwrap_or(Timestamp::MAX);
        Context::new(until, depth)
    }

    /// Sleeps on the engine's clock; comes back early where the execution may not go on.
    pub(crate) async fn sleep_until(&self, at: Timestamp, context: Option<&Context>) -> Result<(), Exit> {
        let closing = self.services.closing.cancelled();
        tokio::select! {
            biased;
            () = self.cancellation(context) => Err(Exit::Cancelled),
            () = closing => Err(Exit::Parked),
            exit = self.expiry(context) => Err(exit),
            () = self.services.clock.sleep_until(at) => Ok(()),
        }
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
        match context.map(|context| context.deadline) {
            Some((at, depth)) => {
                self.services.clock.sleep_until(at).await;
                Exit::Expired(depth)
            }
            None => std::future::pending().await,
        }
    }
}

/// An expression that has no value, as a step's failure.
pub(crate) fn expression_error(error: &model::expression::EvaluationError, place: &str) -> ActionError {
    ActionError::new(ErrorKind::Expression, format!("{place}: {error}"))
}

/// The state that a stored execution has come to, for [`Journal::restore`].
pub(crate) fn folded(id: model::ExecutionId, events: &[Event]) -> Result<Execution, String> {
    Execution::fold(id, events.iter().cloned()).map_err(|error| error.to_string())
}
