//! Waiting: `wait`, `waitFor`, and delays between attempts. A short delay sleeps in memory; for a long one the
//! execution is suspended, releases its slot and is loaded again when it is due.

use std::time::Duration;

use expression::Expression;
use futures_util::FutureExt as _;
use model::LogLevel;
use model::action::{ActionError, ErrorKind};
use model::automation::{OnTimeout, Step, WaitForStep, WaitOn, WaitStep};
use model::execution::{ExecutionId, Signal, WaitReason};
use store::Wait;
use value::Value;
use value::instant::Instant;

use super::journal::{Due, StepWait, Taken, Times};
use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::clock::MonotonicTime;
use crate::event_filter::{EventFilter, event_value};
use crate::recent_events::first_event_key;

/// Longest delay that sleeps in memory: a suspension costs two commits and a read.
const MAX_IN_MEMORY_DELAY: Duration = Duration::from_secs(2);
/// Longest pause that counts as work of its step. A longer one is recorded as a wait, with the next commit.
const MAX_UNRECORDED_PAUSE: Duration = Duration::from_millis(50);
/// Maximum length of an event name, in bytes.
const MAX_EVENT_NAME: usize = 200;

/// The reason for which an execution is cancelled whose caller no longer waits for it.
pub(crate) fn reason_of_cut_call(caller: ExecutionId) -> String {
    format!("cancelled: the execution {caller} that called it goes on without it")
}

/// Condition that ends a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WakeOn {
    /// Only its time.
    Time,
    /// Its time, or a signal, which may turn out not to match.
    TimeOrSignal,
}

impl Run {
    /// Sleeps on the engine's clock until the due time, or until the execution must stop.
    async fn sleep_until(&self, due: Due, frame: Option<&Frame>) -> Result<(), Exit> {
        let clock = &self.context.clock;
        let over = match due {
            Due::At(at) => clock.sleep_until(at),
            Due::After(after) => clock.sleep_until_monotonic(after),
        };
        let closing = self.context.closing.cancelled();
        tokio::select! {
            biased;
            () = self.cancellation(frame) => Err(Exit::Cancelled),
            () = closing => Err(Exit::ShuttingDown),
            exit = self.expiry(frame) => Err(exit),
            () = over => Ok(()),
        }
    }

    /// Waits until the due time, or suspends the execution until then.
    pub(super) async fn pause_until(&self, due: Due, frame: Option<&Frame>) -> Result<(), Exit> {
        let left = self.time_left(due);
        if left.is_zero() {
            return Ok(());
        }
        if left > MAX_IN_MEMORY_DELAY {
            return self.pause_beside(Some(due), WakeOn::Time, frame).await;
        }
        self.sleep_until(due, frame).await
    }

    /// Waits until the due time. Suspends the execution once all of its branches wait.
    async fn pause_beside(&self, due: Option<Due>, ends: WakeOn, frame: Option<&Frame>) -> Result<(), Exit> {
        let came = self.activity.signal_arrived();
        tokio::pin!(came);
        came.as_mut().enable();
        let all_pause = async {
            loop {
                let all_pause = self.activity.all_waiting();
                tokio::pin!(all_pause);
                all_pause.as_mut().enable();
                // After the end of the last active branch, the next one may have begun already.
                if self.activity.is_idle() {
                    return;
                }
                all_pause.await;
            }
        };
        let _pausing = self.activity.pause();
        if self.activity.is_idle() {
            // A cancellation that came before this run is not announced after the suspension.
            let is_cancelled = self.cancellation(frame).now_or_never().is_some();
            return Err(if is_cancelled { Exit::Cancelled } else { Exit::Suspended });
        }
        let over = async {
            match due {
                Some(due) => self.sleep_until(due, frame).await,
                None => self.sleep_until(Due::After(MonotonicTime::NEVER), frame).await,
            }
        };
        tokio::select! {
            biased;
            // Before the suspension: the end of the last active branch may have cut this one off.
            over = over => over,
            () = all_pause => Err(Exit::Suspended),
            () = came, if ends == WakeOn::TimeOrSignal => Ok(()),
        }
    }

    /// Waits for the next attempt of a step, or of the whole execution if `key` is empty. Ends early if the time of a step around it, or
    /// of the execution, is over.
    pub(super) async fn pause_before_try(
        &self,
        key: &str,
        due: MonotonicTime,
        frame: Option<&Frame>,
    ) -> Result<(), Exit> {
        loop {
            let until = frame.map_or(due, |frame| due.min(self.deadline(frame).0));
            let paused = self.pause_until(Due::After(until), frame).await;
            if matches!(paused, Err(Exit::Suspended)) {
                self.journal.record_attempt_delay(key, until);
            }
            paused?;
            // After a restart, steps inside may be open that have to close, whatever the deadline.
            if self.time_left(Due::After(due)).is_zero() {
                return Ok(());
            }
            // A pause of another branch postpones the deadline.
            if let Some(frame) = frame {
                self.check_may_start(frame)?;
            }
        }
    }

    /// Time left until the due time; zero if it has passed.
    fn time_left(&self, due: Due) -> Duration {
        match due {
            Due::At(at) => {
                Duration::try_from(self.context.clock.now().duration_until(at)).unwrap_or_default()
            }
            Due::After(after) => after.since(self.context.clock.monotonic_now()),
        }
    }

    /// Executes `wait`.
    pub(super) async fn wait(
        &self,
        wait: &WaitStep,
        key: &str,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let due = match self.journal.pause_due(key) {
            Some(due) => due,
            None => self.due(wait, scope, frame).await?,
        };
        self.pause_durably(key, due, frame).await?;
        Ok(Value::Null)
    }

    /// Waits until the due time. The wait is recorded, unless it is very short. A long one is stored too, so that the scheduler
    /// resumes it.
    pub(super) async fn pause_durably(&self, key: &str, due: Due, frame: &Frame) -> Result<(), Exit> {
        let left = self.time_left(due);
        if left > MAX_UNRECORDED_PAUSE && self.journal.pause(key).is_none() {
            if left > MAX_IN_MEMORY_DELAY {
                self.pause_begins(key, WaitReason::Time, Some(due), frame)?;
            } else {
                self.record_pause(key, WaitReason::Time, Some(due), frame, true);
            }
        }
        self.pause_until(due, Some(frame)).await?;
        self.journal.abandon(|step| step == key);
        Ok(())
    }

    /// Executes `waitFor`.
    pub(super) async fn wait_for(
        &self,
        step: &Step,
        wait: &WaitForStep,
        key: &str,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let begins = self.journal.pause(key).is_none();
        if begins {
            self.wait_begins(step, wait, key, scope, frame).await?;
        } else {
            // The filter is not part of the log.
            self.journal.set_event_filter(key, self.event_filter(wait, scope));
        }
        if begins || self.journal.is_resumed() {
            self.load_earlier_events(wait, key, scope, frame).await?;
        }
        let due = self.journal.pause_due(key);
        loop {
            while let Some(signal) = self.journal.next_signal(key) {
                if self.matches_condition(wait, &signal, scope, frame).await? {
                    self.journal.wait_ended(key, Some(&signal.id));
                    return Ok(signal.data);
                }
            }
            if due.is_some_and(|due| self.time_left(due).is_zero()) {
                break;
            }
            self.pause_beside(due, WakeOn::TimeOrSignal, Some(frame)).await?;
        }
        self.journal.wait_ended(key, None);
        match wait.on_timeout {
            OnTimeout::Continue => Ok(Value::Null),
            OnTimeout::Fail => {
                let what = match &wait.on {
                    WaitOn::Event { .. } => "no event came",
                    WaitOn::Approval(_) => "nobody answered",
                };
                let limit = match due {
                    Some(Due::At(at)) => format!("until {at}"),
                    _ => {
                        let timeout = frame.timeout(step).unwrap_or_default();
                        format!("within {}", text::units::format_duration(timeout))
                    }
                };
                Err(failed(ActionError::new(ErrorKind::Timeout, format!("{what} {limit}"))))
            }
        }
    }

    /// The filter by which senders find the step.
    fn event_filter(&self, wait: &WaitForStep, scope: &Scope) -> EventFilter {
        let Some(condition) = wait.condition() else { return EventFilter::default() };
        EventFilter::of(condition, scope.root(), |value| self.journal.redact_value(value))
    }

    /// Adds the matching events that were sent since the execution began and that no earlier iteration of the step has
    /// accepted.
    async fn load_earlier_events(
        &self,
        wait: &WaitForStep,
        key: &str,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<(), Exit> {
        let Some(WaitReason::Event { name }) = self.journal.pause(key).map(|waiting| waiting.on) else {
            return Ok(());
        };
        let found = self.next_earlier_event(wait, &name, key, scope, frame).await;
        self.journal.looked_for_events(key);
        found
    }

    async fn next_earlier_event(
        &self,
        wait: &WaitForStep,
        name: &str,
        key: &str,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<(), Exit> {
        let passed = self.journal.passed_events(key);
        let mut after = passed.unwrap_or_else(|| first_event_key(self.journal.id(), wait.since()));
        let own = format!("{}.", self.journal.id());
        let condition = wait.condition();
        let known_result = condition.is_none_or(|condition| !condition.is_nondeterministic());
        let same_result = known_result && condition.is_none_or(is_same_in_each_turn);
        // True while no event so far can end this wait; and none a later wait of this step.
        let (mut is_passed, mut of_all) = (true, true);
        loop {
            let now = self.context.clock.now();
            // Before the page is read: an event that is written meanwhile may be missing in it.
            let settled = self.events.settled_until(now);
            let page = self.events.page(name, &after, now).await;
            let (events, last) = page.map_err(|error| self.store_failed(error))?;
            for event in events {
                let is_accepted = event.signal.id.starts_with(&own) || self.journal.is_accepted(key, &event);
                // Others would fill the log. One with an error is recorded, so that the step fails with it.
                let is_other = !is_accepted
                    && known_result
                    && matches!(self.matches_condition(wait, &event.signal, scope, frame).await, Ok(false));
                if is_accepted || is_other {
                    is_passed &= (is_accepted || same_result)
                        && event.key.as_ref().is_some_and(|event_key| *event_key < settled);
                    if is_passed {
                        of_all = self.journal.pass_event(key, &event, of_all);
                    }
                    continue;
                }
                is_passed = false;
                let taken = self.journal.signal(key, event);
                if known_result {
                    // It ends the wait.
                    return Ok(());
                }
                if taken == Taken::TooMany {
                    let message = "more than 1,000 events of this name were sent since the execution began; the step looks at the oldest";
                    self.journal.log(LogLevel::Warn, Some(key), message);
                    return Ok(());
                }
            }
            let Some(last) = last else { return Ok(()) };
            after = last;
        }
    }

    async fn wait_begins(
        &self,
        step: &Step,
        wait: &WaitForStep,
        key: &str,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<(), Exit> {
        let on = match &wait.on {
            WaitOn::Event { name, .. } => {
                let name = self.evaluate(name, scope, "waitFor.event", frame).await?.to_text();
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
                    .redact_value(
                        self.evaluate(&approval.message, scope, "waitFor.approval.message", frame).await?,
                    )
                    .to_text(),
                options: approval.options.clone(),
            },
        };
        let due = match &wait.until {
            Some(until) => Some(self.instant(until, scope, "waitFor.until", frame).await?),
            None => {
                let now = self.context.clock.monotonic_now();
                frame.timeout(step).map(|timeout| Due::After(now.after(timeout)))
            }
        };
        self.pause_begins(key, on, due, frame)?;
        self.journal.set_event_filter(key, self.event_filter(wait, scope));
        // Senders find the wait only after this commit; other waits can be committed later.
        self.await_commit(key, frame, self.journal.commit()).await
    }

    /// Records that a step begins to wait, until `due` at the latest.
    pub(super) fn pause_begins(
        &self,
        key: &str,
        on: WaitReason,
        due: Option<Due>,
        frame: &Frame,
    ) -> Result<(), Exit> {
        if self.journal.pause_count() >= Wait::MAX {
            let message = format!("more than {} steps of the execution would pause at one time", Wait::MAX);
            return Err(failed(ActionError::new(ErrorKind::Limit, message)));
        }
        self.record_pause(key, on, due, frame, false);
        Ok(())
    }

    /// Records that a step begins to wait. `stays_in_memory` is true if the execution is not suspended for it.
    fn record_pause(
        &self,
        key: &str,
        on: WaitReason,
        due: Option<Due>,
        frame: &Frame,
        stays_in_memory: bool,
    ) {
        let clock = &self.context.clock;
        let (since, ahead) = (clock.monotonic_now(), clock.wall_offset());
        let until = due.map(|due| match due {
            Due::At(at) => at,
            Due::After(after) => after.to_wall(ahead),
        });
        let waiting = StepWait { since: since.to_wall(ahead), until, on };
        let times = Times { since, due, limit: self.limit(frame), stays_in_memory };
        self.journal.pause_begins(key, &waiting, times);
    }

    /// Nearest time limit of the steps around a wait. The execution's own limit does not count: it is extended by the
    /// wait.
    fn limit(&self, frame: &Frame) -> Option<MonotonicTime> {
        let step = frame.deadline.map(|(at, _)| at);
        let closing = frame.closing.then_some(frame.end);
        step.into_iter().chain(closing).min()
    }

    /// Nearest time limit of a step, and the depth of the step that set it: 0 for the whole execution.
    pub(super) fn deadline(&self, frame: &Frame) -> (MonotonicTime, u32) {
        let end = if frame.closing {
            frame.end
        } else {
            frame.end.after(self.journal.paused(self.context.clock.monotonic_now()))
        };
        frame.deadline.filter(|(at, _)| *at < end).unwrap_or((end, 0))
    }

    /// WakeOn the waits of steps that will not continue, and cancels the child executions that they waited for.
    pub(super) fn abandon(&self, is_abandoned: impl Fn(&str) -> bool) {
        for child in self.journal.abandon(is_abandoned) {
            self.cancel_child(child);
        }
    }

    pub(super) fn cancel_child(&self, child: ExecutionId) {
        self.starter.clone().cancel(child, &self.child_reason());
    }

    /// Repeats the cancellation of child executions whose calls were cut off before a restart, which may have lost it.
    pub(super) fn cancel_cut_children(&self) {
        let children = self.journal.take_cut_children();
        if children.is_empty() {
            return;
        }
        let (starter, reason) = (self.starter.clone(), self.child_reason());
        self.context.tracker.spawn(async move {
            for child in children {
                if let Err(error) = starter.clone().end(child, &reason).await {
                    tracing::warn!(execution = %child, %error, "the execution of a call that was cut off could not be cancelled");
                }
            }
        });
    }

    fn child_reason(&self) -> String {
        reason_of_cut_call(self.journal.id())
    }

    /// Computes the end of a wait that begins now.
    async fn due(&self, wait: &WaitStep, scope: &Scope, frame: &Frame) -> Result<Due, Exit> {
        let now = self.context.clock.monotonic_now();
        let wrong = |message: String| failed(ActionError::new(ErrorKind::Input, message));
        let after = |length: Duration| {
            let after = now.after(length);
            let is_instant = after < MonotonicTime::NEVER;
            is_instant
                .then_some(Due::After(after))
                .ok_or_else(|| wrong("wait: the pause would end after the last possible date".to_owned()))
        };
        match wait {
            WaitStep::For(length) => after(*length),
            WaitStep::Computed(template) => {
                let text = self.evaluate(template, scope, "wait", frame).await?.to_text();
                let length = text::units::parse_fixed_period(&text);
                let length = length.map_err(|error| wrong(format!("wait: {error}")))?;
                if length > WaitStep::MAX {
                    let most = text::units::format_duration(WaitStep::MAX);
                    let message = format!(
                        "wait: `{text}` is too long; a pause is at most {most}, or `until` an instant"
                    );
                    return Err(wrong(message));
                }
                after(length)
            }
            WaitStep::Until(expression) => self.instant(expression, scope, "until", frame).await,
        }
    }

    /// Evaluates the instant at which a pause ends.
    async fn instant(
        &self,
        expression: &Expression,
        scope: &Scope,
        place: &str,
        frame: &Frame,
    ) -> Result<Due, Exit> {
        let value = self.evaluate_expression(expression, scope, place, frame).await?;
        Instant::from_value(&value).map(|at| Due::At(at.to_timestamp())).ok_or_else(|| {
            let found = value.to_text();
            let message = format!(
                "{place}: `{found}` is not an instant; write RFC 3339 text such as `parseDate` returns, or seconds since 1970"
            );
            failed(ActionError::new(ErrorKind::Input, message))
        })
    }

    /// Returns true if the signal satisfies the step's condition.
    async fn matches_condition(
        &self,
        wait: &WaitForStep,
        signal: &Signal,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<bool, Exit> {
        let Some(condition) = wait.condition() else { return Ok(true) };
        let mut inner = scope.fork();
        inner.bind("event", event_value(signal));
        self.condition_holds(condition, &inner, "waitFor.if", frame).await
    }
}

/// True if a condition on an event has the same result in each iteration of the loops around its step.
fn is_same_in_each_turn(condition: &Expression) -> bool {
    const FIXED: [&str; 5] = ["event", "trigger", "inputs", "configVars", "automation"];
    condition
        .references()
        .iter()
        .all(|read| read.path.first().is_some_and(|root| FIXED.contains(&root.as_str())))
}
