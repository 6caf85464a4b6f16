//! Pauses: `wait`, `waitFor`, and the time between two tries. A short one is slept through; for a long one the
//! execution goes to rest, holds no slot, and is read back when its time has come.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::action::{ActionError, ErrorKind};
use model::automation::{OnTimeout, Step, WaitForStep, WaitOn, WaitStep};
use model::execution::{ExecutionId, Signal, WaitReason, Waiting};
use model::value::{Map, Value};
use store::Wait;

use super::scope::Scope;
use super::step::Context;
use super::verbs::failed;
use super::{Exit, Run, expression_error};

/// A pause up to this long is slept through: to rest and to be read back costs two commits and a read.
const SLEPT_THROUGH: SignedDuration = SignedDuration::from_secs(2);
/// The most bytes of an event's name.
const MAX_EVENT_NAME: usize = 200;

impl Run {
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

    /// Comes back when `at` has been reached, or lets the execution rest until then.
    pub(super) async fn pause_until(&self, at: Timestamp, context: Option<&Context>) -> Result<(), Exit> {
        let now = self.services.clock.now();
        if at <= now {
            return Ok(());
        }
        if now.duration_until(at) > SLEPT_THROUGH {
            return Err(Exit::Resting);
        }
        self.sleep_until(at, context).await
    }

    /// `wait`
    pub(super) async fn wait(
        &self,
        wait: &WaitStep,
        key: &str,
        scope: &Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let until = match self.journal.pause(key) {
            Some(Waiting { until: Some(until), .. }) => until,
            _ => until(wait, self.services.clock.now(), scope).map_err(failed)?,
        };
        self.pause_with(key, until, context).await?;
        Ok(Value::Null)
    }

    /// Pauses until an instant. Where that is far off, the pause is recorded, so that somebody sees to its end.
    pub(super) async fn pause_with(
        &self,
        key: &str,
        until: Timestamp,
        context: &Context,
    ) -> Result<(), Exit> {
        let now = self.services.clock.now();
        if now.duration_until(until) > SLEPT_THROUGH && self.journal.pause(key).is_none() {
            let waiting = Waiting { since: now, until: Some(until), on: WaitReason::Time };
            self.pause_begins(key, &waiting, context)?;
        }
        self.pause_until(until, Some(context)).await?;
        self.journal.abandon(|step| step == key);
        Ok(())
    }

    /// `waitFor`
    pub(super) async fn wait_for(
        &self,
        step: &Step,
        wait: &WaitForStep,
        key: &str,
        scope: &Scope,
        context: &Context,
    ) -> Result<Value, Exit> {
        let waiting = match self.journal.pause(key) {
            Some(waiting) => waiting,
            None => self.wait_begins(step, wait, key, scope, context).await?,
        };
        while let Some(signal) = self.journal.next_signal(key) {
            if lets_through(wait, &signal, scope)? {
                return Ok(signal.data);
            }
        }
        let now = self.services.clock.now();
        match (waiting.until.is_some_and(|until| until <= now), wait.on_timeout) {
            (false, _) => Err(Exit::Resting),
            (true, OnTimeout::Continue) => Ok(Value::Null),
            (true, OnTimeout::Fail) => {
                let limit = model::units::format_duration(step.timeout.unwrap_or_default());
                let what = match &wait.on {
                    WaitOn::Event { .. } => "no event came",
                    WaitOn::Approval(_) => "nobody answered",
                };
                Err(failed(ActionError::new(ErrorKind::Timeout, format!("{what} within {limit}"))))
            }
        }
    }

    async fn wait_begins(
        &self,
        step: &Step,
        wait: &WaitForStep,
        key: &str,
        scope: &Scope,
        context: &Context,
    ) -> Result<Waiting, Exit> {
        let on = match &wait.on {
            WaitOn::Event { name, .. } => {
                let name = super::verbs::evaluate(name, scope, "waitFor.event")?.to_text();
                if name.is_empty() || name.len() > MAX_EVENT_NAME {
                    let message = format!(
                        "an event's name has from 1 to {MAX_EVENT_NAME} bytes, this one {}",
                        name.len()
                    );
                    return Err(failed(ActionError::new(ErrorKind::Input, message)));
                }
                WaitReason::Event { name }
            }
            WaitOn::Approval(approval) => WaitReason::Approval {
                message: self
                    .journal
                    .hidden(super::verbs::evaluate(&approval.message, scope, "waitFor.approval.message")?)
                    .to_text(),
                options: approval.options.clone(),
            },
        };
        let since = self.services.clock.now();
        let until = step.timeout.map(|timeout| since.checked_add(timeout).unwrap_or(Timestamp::MAX));
        let waiting = Waiting { since, until, on };
        self.pause_begins(key, &waiting, context)?;
        // Whoever is to send something finds it only once it is committed; the others may take as long as they like.
        self.journal.commit().await?;
        Ok(waiting)
    }

    /// Records that a step pauses.
    pub(super) fn pause_begins(&self, key: &str, waiting: &Waiting, context: &Context) -> Result<(), Exit> {
        if self.journal.pause_count() >= Wait::MAX {
            let message = format!("more than {} steps of the execution would pause at one time", Wait::MAX);
            return Err(failed(ActionError::new(ErrorKind::Limit, message)));
        }
        self.journal.pause_begins(key, waiting, self.limit(context));
        Ok(())
    }

    /// When the nearest time limit around a pause is up. The execution's own does not count: it stands still meanwhile.
    pub(super) fn limit(&self, context: &Context) -> Option<Timestamp> {
        let step = context.deadline.map(|(at, _)| at);
        let closing = context.closing.then_some(context.end);
        step.into_iter().chain(closing).min()
    }

    /// When the nearest time limit of a step is up, and the depth at which it was set: 0 for that of the whole.
    pub(super) fn deadline(&self, context: &Context) -> (Timestamp, u32) {
        let end = if context.closing {
            context.end
        } else {
            let paused = self.journal.paused(self.services.clock.now());
            context.end.checked_add(paused).unwrap_or(Timestamp::MAX)
        };
        context.deadline.filter(|(at, _)| *at < end).unwrap_or((end, 0))
    }

    /// Ends the pauses of steps that will not go on, with the executions that they waited for.
    pub(super) fn abandon(&self, is_abandoned: impl Fn(&str) -> bool) {
        for child in self.journal.abandon(is_abandoned) {
            self.cancel_child(child);
        }
    }

    pub(super) fn cancel_child(&self, child: ExecutionId) {
        let reason =
            format!("cancelled: the execution {} that called it goes on without it", self.journal.id());
        self.services.intake.cancel(&self.services, child, &reason);
    }
}

/// When a pause that begins now ends.
fn until(wait: &WaitStep, now: Timestamp, scope: &Scope) -> Result<Timestamp, ActionError> {
    let wrong = |message: String| ActionError::new(ErrorKind::Input, message);
    let after = |length: Duration| now.checked_add(length).map_err(|error| wrong(format!("wait: {error}")));
    match wait {
        WaitStep::For(length) => after(*length),
        WaitStep::Computed(template) => {
            let value = scope.evaluate(template).map_err(|error| expression_error(&error, "wait"))?;
            let text = value.to_text();
            after(model::units::parse_duration(&text).map_err(|error| wrong(format!("wait: {error}")))?)
        }
        WaitStep::Until(expression) => {
            let value =
                scope.evaluate_expression(expression).map_err(|error| expression_error(&error, "until"))?;
            instant(&value).ok_or_else(|| {
                let found = value.to_text();
                wrong(format!(
                    "until: `{found}` is no instant; it takes RFC 3339 text such as `parseDate` gives, or seconds since 1970"
                ))
            })
        }
    }
}

fn instant(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => Timestamp::from_second(number.as_i64()?).ok(),
        _ => None,
    }
}

/// Whether a signal is what the step waits for.
fn lets_through(wait: &WaitForStep, signal: &Signal, scope: &Scope) -> Result<bool, Exit> {
    let Some(condition) = wait.condition() else { return Ok(true) };
    let mut inner = scope.fork();
    let event = Map::from_iter([
        (Arc::from("name"), Value::from(signal.name.as_str())),
        (Arc::from("data"), signal.data.clone()),
    ]);
    inner.bind("event", Value::from(event));
    inner.holds(condition).map_err(|error| failed(expression_error(&error, "waitFor.if")))
}
