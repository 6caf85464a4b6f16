//! The run of one execution: a walk through its plan over its journal.
//!
//! The walk is the same after a crash as the first time: a step that has ended according to the journal is not repeated, so
//! recovery needs no code of its own. A step with an outside effect starts only when every effect before it is
//! committed; the results of pure steps are part of the next commit, since repeating them changes nothing.

mod action;
mod activity;
mod attempts;
mod block;
mod call;
mod closing;
mod code;
mod code_pipeline;
mod determinism;
mod evaluate;
mod exit;
mod failure;
mod journal;
mod loops;
mod pause;
mod recorded;
mod respond;
mod scope;
mod scope_wait;
mod settings;
mod stages;
mod starter;
mod step;
mod step_input;
mod undo;
mod verbs;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use model::action::{ActionError, ErrorKind};
use model::automation::setting::CONCURRENCY_LIMIT;
use model::automation::{Concurrency, Setting, TriggerKey};
use model::execution::{Event, Origin, Outcome};
use model::payload::Payload;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use value::{Budget, Value};

pub(crate) use action::effect_of;
pub(crate) use activity::Activity;
pub use code::{level, to_action_error};
pub use evaluate::expression_error;
pub(crate) use exit::Exit;
pub(crate) use journal::{
    Journal, JournalContext, PendingAcceptance, ReplaySource, SnapshotState, StepWait, StoredLog, Suspension,
    Taken, Wake,
};
pub(crate) use pause::reason_of_cut_call;
use scope::Scope;
pub(crate) use starter::Starter;
pub(crate) use step::Frame;
pub use step_input::{DerivedInput, ExpressionValue, MissingSource};
use undo::PendingUndo;

use crate::api::{Progress, StartedBy};
use crate::connections::Connections;
use crate::context::Context;
use crate::isolation::Observation;
use crate::memory::Share;
use crate::recent_events::RecentEvents;
use catalog::Deployment;

/// The minimum time between two checks of a deadline that pauses postpone.
const RECHECK_DEADLINE: Duration = Duration::from_secs(1);

/// An execution in memory.
pub(crate) struct Run {
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) context: Arc<Context>,
    pub(crate) connections: Arc<Connections>,
    /// The events that steps may begin to wait for after they were sent.
    pub(crate) events: Arc<RecentEvents>,
    /// Starts other executions.
    pub(crate) starter: Arc<dyn Starter>,
    pub(crate) journal: Box<Journal>,
    pub(crate) payload: Arc<Payload>,
    /// `trigger.results`, if the payload has been parsed already.
    pub(crate) results: Option<Value>,
    pub(crate) started_at: Timestamp,
    pub(crate) origin: Origin,
    /// The trigger that started it.
    pub(crate) by: StartedBy,
    /// The steps that may have to be undone, by key.
    pub(crate) undos: Mutex<HashMap<String, PendingUndo>>,
    /// The last end of each step whose `steps.<id>.ok` is read: the iterations of the loops around it, and if it succeeded.
    pub(crate) successes: Mutex<HashMap<Arc<str>, (String, bool)>>,
    pub(crate) progress: watch::Sender<Progress>,
    pub(crate) cancelled: Cancellation,
    pub(crate) activity: Activity,
    /// The work since the last yield to other tasks, in units of a [`value::Budget`].
    pub(crate) stretch: AtomicU64,
    /// The memory for the data of its trigger, in bytes; 0 if they are small.
    pub(crate) trigger_memory: usize,
    /// The memory reserved for the large values of its trigger and variables.
    pub(crate) memory: Share,
    /// The observation of its isolation, if a crash interrupted it.
    pub(crate) observation: Option<Observation>,
}

/// The cancellation of an execution, with its reason.
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

/// The result of a run: the further handling of the execution when it leaves memory.
pub(crate) enum Disposition {
    /// It has ended, and its end is committed.
    Finished,
    /// Only waits are left; it resumes when one of them ends.
    Suspended(Suspension),
    /// It was not accepted: the acceptance failed or found a duplicate.
    NotAccepted,
    /// The store has failed: the next start of the daemon finds out how far the execution has come.
    StoreFailed,
    /// The store has refused a write and still runs: after this pause the execution repeats unrecorded work, as after a crash.
    Refused(Duration),
    /// The daemon is stopping: the execution resumes at its next start.
    ShuttingDown,
}

/// The concurrency group and the limit with which an execution asks for its turn.
pub(crate) struct PermitRequest {
    /// The key of the group; empty without one.
    pub(crate) key: String,
    /// The maximum number of concurrent executions, at least 1.
    pub(crate) limit: u32,
}

/// The cancellation reason of an execution that the code of its trigger declined.
const DECLINED: &str = "declined by the trigger's code";

impl Run {
    /// Runs the execution to its end, or as far as this process may. `keeps_permit` is true if it keeps the permit of its
    /// concurrency group while it is suspended.
    pub(crate) async fn execute(&self, keeps_permit: bool) -> Disposition {
        let _busy = self.activity.begin();
        let result = match self.journal.outcome() {
            Some(_) => Ok(()),
            None => self.journal.commit_while_walking(self.run_to_end()).await,
        };
        let exit = match result {
            Ok(()) => return Disposition::Finished,
            Err(Exit::Suspended) => {
                let rest = self.journal.suspend(keeps_permit);
                match self.journal.commit().await {
                    Ok(()) => return Disposition::Suspended(rest),
                    Err(exit) => exit,
                }
            }
            Err(exit) => exit,
        };
        let disposition = match exit {
            Exit::StoreFailed(error) => {
                self.context.lost(&error);
                if let Some(pause) = self.context.pause_after_refusal(self.journal.id(), &error) {
                    return Disposition::Refused(pause);
                }
                Disposition::StoreFailed
            }
            // The caller gets the error, and the execution leaves no trace.
            Exit::NotAccepted => return Disposition::NotAccepted,
            exit => {
                tracing::debug!(?exit, "execution parked");
                Disposition::ShuttingDown
            }
        };
        // Keeps what is recorded. If the store has failed, this fails again without further effect.
        let _ = self.journal.commit().await;
        self.progressed(|progress| progress.is_left = true);
        disposition
    }

    /// Updates the progress. Receivers are woken only if there are any, since waking has a cost.
    pub(crate) fn progressed(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_if_modified(|progress| {
            change(progress);
            self.progress.receiver_count() > 0
        });
    }

    async fn run_to_end(&self) -> Result<(), Exit> {
        if self.journal.is_resumed() {
            self.count_restart().await?;
            if self.journal.outcome().is_some() {
                return Ok(());
            }
        }
        if let Some(reason) = self.journal.cancelling() {
            self.cancelled.cancel(&reason);
        }
        self.cancel_cut_children();
        if self.payload.code_result().is_some_and(|decided| decided.declined) {
            return self.finish(Outcome::Cancelled { reason: DECLINED.to_owned() }).await;
        }
        let concurrency = self.deployment.automation.concurrency.as_ref();
        if self.journal.closing().is_none()
            && let Some(Err(error)) = concurrency.map(|concurrency| self.permit_request(concurrency))
        {
            // Without a group its steps could run beside another execution.
            return self.finish(Outcome::Failed { error }).await;
        }
        loop {
            let paused = match self.journal.retry_at() {
                Some(next_at) => self.pause_before_try("", next_at, None).await,
                None => Ok(()),
            };
            let built = match paused {
                Ok(()) => self.scope().await,
                Err(exit) => Err(exit),
            };
            let (walked, mut scope) = match built {
                Ok(mut scope) => {
                    let steps = &self.deployment.automation.steps;
                    (self.block(steps, &mut scope, &self.frame()).await, scope)
                }
                Err(exit) if exit.is_immediate() => return Err(exit),
                Err(exit) => match self.scope_of_closing(self.has_closing_steps()).await {
                    Ok(scope) => (Err(exit), scope),
                    // Not even the data of its trigger can be read.
                    Err(Exit::Failed(error)) => return self.finish(Outcome::Failed { error }).await,
                    Err(exit) => return Err(exit),
                },
            };
            let outcome = self.outcome(walked, &mut scope).await?;
            if let Outcome::Failed { error } = &outcome
                && self.journal.closing().is_none()
                && self.tries_again(error).await?
            {
                continue;
            }
            let outcome = self.close(outcome, &mut scope).await?;
            return self.finish(outcome).await;
        }
    }

    /// Returns the key of the trigger that started the execution.
    pub(crate) fn trigger_key(&self) -> TriggerKey {
        self.deployment.automation.trigger_key(&self.by.trigger)
    }

    /// Evaluates the concurrency key and the limit, each under an inline budget. Without a key it is empty.
    pub(crate) fn permit_request(&self, concurrency: &Concurrency) -> Result<PermitRequest, ActionError> {
        let Concurrency { limit, key, .. } = concurrency;
        if let (None, Some(limit)) = (key, limit.literal()) {
            return Ok(PermitRequest { key: String::new(), limit });
        }
        let scope = Scope::for_permit(self)?;
        let (names, _) = scope.names();
        let key = match key {
            Some(key) => {
                let value = key.evaluate(names, &Budget::inline());
                value.map_err(|error| expression_error(&error, "concurrency.key"))?.to_text()
            }
            None => String::new(),
        };
        let limit = match limit {
            Setting::Literal(limit) => *limit,
            Setting::Computed(limit) => {
                let value = limit.evaluate(names, &Budget::inline());
                let value = value.map_err(|error| expression_error(&error, CONCURRENCY_LIMIT.name))?;
                CONCURRENCY_LIMIT.read(&value).map_err(settings::unusable)?
            }
        };
        Ok(PermitRequest { key, limit })
    }

    /// Records an interruption by a restart. It counts if the execution computed when the process died, so that a step that
    /// crashes the process is given up after some attempts.
    async fn count_restart(&self) -> Result<(), Exit> {
        let (id, isolation) = (self.journal.id(), &self.context.isolation);
        if !self.journal.waits_beyond(self.context.clock.monotonic_now()) {
            let waited = !isolation.is_suspect(id);
            let limit = self.context.settings.limits.interruptions;
            if !waited && self.journal.interruptions() + 1 >= limit {
                let message = format!(
                    "the daemon died {limit} times while the same step ran in it; the execution is stuck; correct the automation and start it again"
                );
                let error = ActionError::new(ErrorKind::Interrupted, message);
                self.finish(Outcome::Stuck { error }).await?;
            } else {
                self.journal.push(Event::Resumed { at: self.context.clock.now(), waited });
                self.journal.commit().await?;
            }
        }
        isolation.clear_suspect(id);
        Ok(())
    }

    async fn outcome(&self, walked: Result<Value, Exit>, scope: &mut Scope) -> Result<Outcome, Exit> {
        let failed = |error| Ok(Outcome::Failed { error });
        // A cancellation in the log counts, also if only the `finally` of the last step was left.
        let has_ended = !walked.as_ref().is_err_and(Exit::is_immediate);
        if has_ended && let Some(reason) = self.journal.cancelling() {
            return Ok(Outcome::Cancelled { reason });
        }
        let result = match walked {
            // A `stop` with a result ends the execution with that result, since `outputs` may read steps that did not run.
            Err(Exit::Stop(result)) if !result.is_null() => return Ok(Outcome::Succeeded { result }),
            Ok(result) | Err(Exit::Stop(result)) => result,
            Err(Exit::Failed(error)) => return failed(error),
            Err(Exit::Break | Exit::Continue(_)) => {
                let message = "there is no loop around this step";
                return failed(ActionError::new(ErrorKind::Internal, message));
            }
            Err(Exit::Expired(_)) => {
                let timeout = text::units::format_duration(self.deployment.automation.timeout);
                let message = format!("the execution took longer than its timeout of {timeout}");
                return failed(ActionError::new(ErrorKind::Timeout, message));
            }
            Err(Exit::Cancelled) => return Ok(Outcome::Cancelled { reason: self.cancelled.reason() }),
            Err(exit @ (Exit::ShuttingDown | Exit::Suspended | Exit::NotAccepted | Exit::StoreFailed(_))) => {
                return Err(exit);
            }
        };
        let Some(outputs) = &self.deployment.automation.outputs else {
            return Ok(Outcome::Succeeded { result });
        };
        let reads = catalog::ReadSet::from_template(outputs);
        self.prepare(Some(&reads), "outputs", self.started_at, scope).await?;
        match Box::pin(self.evaluate(outputs, scope, "outputs", &self.closing_frame())).await {
            Ok(result) => Ok(Outcome::Succeeded { result }),
            Err(Exit::Failed(error)) => failed(error),
            Err(Exit::Cancelled | Exit::Expired(_)) => {
                failed(ActionError::new(ErrorKind::Timeout, "`outputs` took longer than 5 minutes"))
            }
            Err(exit) => Err(exit),
        }
    }

    /// Schedules another try of the whole execution, if its retry policy grants one.
    async fn tries_again(&self, error: &ActionError) -> Result<bool, Exit> {
        let attempt = self.journal.attempt();
        let Some(delay) = self.deployment.automation.retry.next_delay(attempt, error) else {
            return Ok(false);
        };
        let now = self.context.clock.now();
        let next_at = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        let event = Event::Retried { at: now, attempt, error: error.clone(), next_at };
        self.journal.retry_execution(event, self.context.clock.monotonic_now().after(delay));
        self.journal.commit().await?;
        Ok(true)
    }

    async fn finish(&self, outcome: Outcome) -> Result<(), Exit> {
        self.abandon(|_| true);
        let at = self.context.clock.now();
        let outcome = self.journal.redact_outcome(outcome);
        self.journal.send_with_end(self.failure_rows(&outcome).await);
        self.journal.finish(Event::Finished { at, outcome: outcome.clone() });
        self.journal.commit().await?;
        if !self.origin.is_test() {
            // The difference that the row of the store has, which counts after a restart and which people are shown.
            let took = Duration::try_from(self.started_at.duration_until(at)).unwrap_or_default();
            self.context.statistics.record(&self.deployment.automation.id, outcome.status(), at, took);
        }
        if let Some(observed) = self.journal.observed() {
            observed.ended(&self.deployment.automation);
        }
        self.progressed(|progress| progress.outcome = Some(outcome));
        Ok(())
    }

    /// The frame of the main steps. The deadline counts from the acceptance, also after a restart.
    fn frame(&self) -> Frame {
        let began = match self.journal.attempt() {
            1 => self.journal.accepted_at(),
            _ => self.journal.retry_at().unwrap_or(self.journal.accepted_at()),
        };
        Frame::new(began.after(self.deployment.automation.timeout))
    }

    /// Completes when the execution is cancelled, in its closing steps never; and when the lists around the step are cut off.
    pub(crate) async fn cancellation(&self, frame: Option<&Frame>) {
        let execution = async {
            match frame {
                Some(frame) if frame.closing => std::future::pending().await,
                _ => self.cancelled.token.cancelled().await,
            }
        };
        match frame.and_then(|frame| frame.cut.as_ref()) {
            Some(cut) => tokio::select! { () = execution => {}, () = cut.cancelled() => {} },
            None => execution.await,
        }
    }

    /// Returns the time until the nearest timeout of the step and those around it; `None` without a timeout.
    pub(super) fn time_to_timeout(&self, frame: &Frame) -> Option<Duration> {
        frame.deadline?;
        Some(self.deadline(frame).0.since(self.context.clock.monotonic_now()))
    }

    /// Completes when the nearest deadline passes; never without a deadline.
    pub(crate) async fn expiry(&self, frame: Option<&Frame>) -> Exit {
        let Some(frame) = frame else { return std::future::pending().await };
        let mut least = Duration::ZERO;
        loop {
            let ((at, depth), now) = (self.deadline(frame), self.context.clock.monotonic_now());
            if now >= at {
                return Exit::Expired(depth);
            }
            // A pause of another branch may postpone the deadline. With little time left, this must not become a busy loop.
            self.context.clock.sleep_until_monotonic(at.max(now.after(least))).await;
            least = RECHECK_DEADLINE;
        }
    }
}
