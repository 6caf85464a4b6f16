//! One step of an execution, or one iteration of a step in a loop.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{CallRecord, DelayReason, Event, Signal, StepOutcome, WaitReason};
use crate::action::ActionError;
use value::Value;

/// The progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepStatus)]
pub enum StepProgress {
    /// An attempt runs.
    Running,
    /// It waits: for its next attempt, or as it was told to.
    Waiting,
    /// It failed, and its `onError` list runs.
    Handling,
    /// It succeeded.
    Succeeded,
    /// Its guard was false.
    Skipped,
    /// It failed permanently.
    Failed,
    /// The execution ended before it.
    Left,
}

impl StepProgress {
    /// Returns the name used in JSON and tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Handling => "handling",
            Self::Succeeded => "succeeded",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Left => "left",
        }
    }

    /// True if the step has not ended.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::Handling)
    }
}

/// One attempt of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepAttempt<'e> {
    /// Its number, from 1.
    pub number: u32,
    /// The time of its start; `None` if the log does not show it.
    pub started_at: Option<Timestamp>,
    /// The time of its end; `None` while it runs, and if the daemon stopped in it.
    pub finished_at: Option<Timestamp>,
    /// The time that it worked, without waits for commits that the log records separately; `None` if the log does not show it.
    pub took: Option<Duration>,
    /// The time that it waited for commits, before its call and in it.
    pub committing: Duration,
    /// The part of `committing` after its start.
    committing_inside: Duration,
    /// The error; `None` if it did not fail.
    pub error: Option<&'e ActionError>,
}

/// The history of one step, in one iteration of its loops.
#[derive(Clone, Debug)]
pub struct StepHistory<'e> {
    /// The id with the loop iterations: `createPage`, `copy[2]`.
    pub key: &'e str,
    /// The progress.
    pub progress: StepProgress,
    /// The number of the last attempt; 0 before the first.
    pub attempt: u32,
    /// The attempts that the log shows.
    pub attempts: Vec<StepAttempt<'e>>,
    /// The start of the last attempt.
    pub started_at: Option<Timestamp>,
    /// The end of the step.
    pub finished_at: Option<Timestamp>,
    /// The duration of the last attempt, with its pauses.
    pub took: Option<Duration>,
    /// The time of the next attempt, or the latest end of the wait.
    pub next_at: Option<Timestamp>,
    /// The reason of its current wait.
    pub waits_for: Option<&'e WaitReason>,
    /// The signals that arrived for it.
    pub signals: Vec<(Timestamp, &'e Signal)>,
    /// The calls that it made.
    pub calls: Vec<&'e CallRecord>,
    /// The error of the last attempt, unless the step succeeded since.
    pub error: Option<&'e ActionError>,
    /// The permanent error, if the `onError` list began since the last attempt of the execution.
    pub failure: Option<&'e ActionError>,
    /// The last outcome; `None` if the step has not finished.
    pub outcome: Option<&'e StepOutcome>,
    /// The index of the event with the last outcome.
    pub outcome_event: Option<usize>,
    /// The index of the last event of a permanent failure.
    pub failed_event: Option<usize>,
    /// The number of failed attempts that were followed by another.
    pub retries: u32,
    /// The number of the last failed attempt that was followed by another; 0 before the first.
    pub last_retry: u32,
    /// The number of permanent failures, over all attempts of the execution.
    pub failures: u32,
    /// The number of times that it ended after its guard was true.
    pub runs: u32,
    /// The number of times that its guard was false.
    pub skips: u32,
    /// True if a replay keeps its outcome of the replayed execution: it did not run here.
    pub is_kept: bool,
    /// True if it has finished and cannot run again.
    pub(super) is_closed: bool,
    /// The start of the wait in the last attempt.
    paused_at: Option<Timestamp>,
    /// The time at which the next attempt is due.
    due: Option<Timestamp>,
    /// The waits for commits before an attempt that no event has shown yet.
    committing: Duration,
}

impl<'e> StepHistory<'e> {
    pub(super) fn new(key: &'e str) -> Self {
        Self {
            key,
            progress: StepProgress::Running,
            attempt: 0,
            attempts: Vec::new(),
            started_at: None,
            finished_at: None,
            took: None,
            next_at: None,
            waits_for: None,
            signals: Vec::new(),
            calls: Vec::new(),
            error: None,
            failure: None,
            outcome: None,
            outcome_event: None,
            failed_event: None,
            retries: 0,
            last_retry: 0,
            failures: 0,
            runs: 0,
            skips: 0,
            is_kept: false,
            is_closed: false,
            paused_at: None,
            due: None,
            committing: Duration::ZERO,
        }
    }

    /// Returns the id without the loop iterations.
    #[must_use]
    pub fn id(&self) -> &'e str {
        split_key(self.key).0
    }

    /// The result or the error with which an event ends an attempt.
    pub(super) fn answer(&self, event: &'e Event) -> Option<Result<&'e Value, &'e ActionError>> {
        match event {
            Event::StepRetry { error, .. } | Event::StepFailed { error, .. } => Some(Err(error)),
            Event::StepFinished { outcome: StepOutcome::Succeeded { result }, .. } => Some(Ok(result)),
            // After an `onError` list, the failure was recorded before the list began.
            Event::StepFinished { outcome: StepOutcome::Failed { error, .. }, .. } => {
                (self.progress != StepProgress::Handling).then_some(Err(error))
            }
            _ => None,
        }
    }

    pub(super) fn apply(&mut self, event: &'e Event, index: usize) {
        match event {
            Event::StepStarted { at, attempt, .. } => {
                (self.progress, self.attempt) = (StepProgress::Running, *attempt);
                (self.started_at, self.next_at, self.finished_at) = (Some(*at), None, None);
                self.begin_attempt(*attempt, Some(*at));
            }
            Event::StepRetry { at, attempt, error, next_at, .. } => {
                (self.progress, self.attempt) = (StepProgress::Waiting, *attempt);
                (self.retries, self.last_retry) = (self.retries + 1, *attempt);
                (self.waits_for, self.paused_at) = (None, None);
                (self.error, self.next_at) = (Some(error), Some(*next_at));
                self.end_attempt(*attempt, *at, error);
                self.due = Some(*next_at);
            }
            Event::StepFailed { at, error, .. } => {
                self.progress = StepProgress::Handling;
                (self.waits_for, self.error, self.failure) = (None, Some(error), Some(error));
                (self.failed_event, self.failures) = (Some(index), self.failures + 1);
                let next = self.attempts.last().map_or(1, |last| last.number + 1);
                let attempt = self.open_attempt().map_or(next, |open| open.number);
                self.end_attempt(attempt, *at, error);
            }
            Event::StepCalled { at, call, .. } => {
                if matches!(call, CallRecord::Execution { .. }) {
                    self.started_at.get_or_insert(*at);
                }
                self.calls.push(call);
            }
            Event::Waiting { at, until, on, .. } => {
                (self.progress, self.next_at, self.waits_for) = (StepProgress::Waiting, *until, Some(on));
                self.started_at.get_or_insert(*at);
                self.paused_at.get_or_insert(*at);
            }
            Event::Signalled { at, signal, .. } => self.signals.push((*at, signal)),
            Event::Waited { reason: DelayReason::Commit, ms, .. } => {
                self.waited_for_commit(Duration::from_millis(*ms));
            }
            Event::StepFinished { at, took_us, outcome, .. } => {
                self.outcome_event = Some(index);
                self.finish(*at, Duration::from_micros(*took_us), outcome);
                if matches!(outcome, StepOutcome::Failed { .. }) {
                    self.failed_event = Some(index);
                }
            }
            _ => {}
        }
    }

    /// The outcome comes from a replayed execution.
    pub(super) fn keep(&mut self) {
        (self.is_kept, self.attempt, self.started_at, self.took) = (true, 0, None, None);
        self.attempts.clear();
    }

    /// The next attempt of the whole execution repeats failed steps.
    pub(super) fn execution_retried(&mut self) {
        self.failure = None;
        self.reopen();
    }

    /// A failed step may run again.
    pub(super) fn reopen(&mut self) {
        self.is_closed &= !self.outcome.is_some_and(StepOutcome::may_repeat);
    }

    /// True if only a step that has not finished can have this event.
    pub(super) fn is_worked_on_by(&self, event: &Event) -> bool {
        matches!(
            event,
            Event::StepStarted { .. }
                | Event::StepRetry { .. }
                | Event::StepFailed { .. }
                | Event::StepClosing { .. }
                | Event::StepFinished { .. }
                | Event::Waiting { .. }
        )
    }

    /// The execution ended.
    pub(super) fn leave(&mut self) {
        if self.progress.is_open() {
            (self.progress, self.next_at, self.waits_for) = (StepProgress::Left, None, None);
        }
    }

    fn finish(&mut self, at: Timestamp, took: Duration, outcome: &'e StepOutcome) {
        // An attempt whose start was not stored is the one after the failed attempts.
        let is_begun = matches!(self.progress, StepProgress::Running | StepProgress::Handling)
            || self.open_attempt().is_some();
        let is_stored = is_begun && self.attempt > 0;
        (self.next_at, self.waits_for, self.finished_at) = (None, None, Some(at));
        (self.outcome, self.is_closed) = (Some(outcome), true);
        if self.progress != StepProgress::Handling {
            // A block around it was retried since its `onError` list ran.
            self.failure = None;
        }
        // A pause is part of the attempt, though the step did nothing meanwhile.
        let paused = self.paused_at.and_then(|since| Duration::try_from(since.duration_until(at)).ok());
        let took = paused.unwrap_or(took);
        let begun = at.checked_sub(took).unwrap_or(at);
        match outcome {
            StepOutcome::Skipped => {
                (self.progress, self.skips) = (StepProgress::Skipped, self.skips + 1);
                self.attempts.clear();
                return;
            }
            StepOutcome::Jumped { by, .. } if by.cuts() => {
                (self.progress, self.error) = (StepProgress::Left, None);
            }
            StepOutcome::Succeeded { .. } | StepOutcome::Jumped { .. } => {
                (self.progress, self.error) = (StepProgress::Succeeded, None);
            }
            StepOutcome::Failed { error, .. } => {
                (self.progress, self.error) = (StepProgress::Failed, Some(error));
                self.failures += 1;
            }
        }
        self.runs += 1;
        self.attempt += u32::from(!is_stored);
        (self.took, self.started_at) = (Some(took), Some(begun));
        let has_ended = |last: &StepAttempt<'_>| last.number >= self.attempt && last.finished_at.is_some();
        if self.attempts.last().is_some_and(has_ended) {
            // Its failure was recorded before its `onError` list.
            return;
        }
        if self.open_attempt().is_none() {
            self.begin_attempt(self.attempt, Some(begun));
        }
        let error = self.error;
        if let Some(last) = self.attempts.last_mut() {
            (last.finished_at, last.took, last.error) = (Some(at), Some(took), error);
        }
    }

    fn open_attempt(&self) -> Option<&StepAttempt<'e>> {
        self.attempts.last().filter(|last| last.finished_at.is_none())
    }

    fn begin_attempt(&mut self, number: u32, started_at: Option<Timestamp>) {
        self.due = None;
        let committing = std::mem::take(&mut self.committing);
        self.attempts.push(StepAttempt { number, started_at, committing, ..StepAttempt::default() });
    }

    fn end_attempt(&mut self, number: u32, at: Timestamp, error: &'e ActionError) {
        if self.open_attempt().is_none_or(|open| open.number != number) {
            let due = self.due;
            self.begin_attempt(number, due);
        }
        if let Some(last) = self.attempts.last_mut() {
            let whole = last.started_at.and_then(|start| Duration::try_from(start.duration_until(at)).ok());
            let took = whole.map(|whole| whole.saturating_sub(last.committing_inside));
            (last.finished_at, last.took, last.error) = (Some(at), took, Some(error));
        }
    }

    /// Counts a wait for a commit: within the open attempt, or before the next one.
    fn waited_for_commit(&mut self, length: Duration) {
        match self.attempts.last_mut().filter(|last| last.finished_at.is_none()) {
            Some(open) => {
                open.committing += length;
                open.committing_inside += length;
            }
            None => self.committing += length,
        }
    }
}

/// Splits the key of a step into its id and its loop iterations: `copy[2][0]` is the step `copy` in `[2][0]`.
#[must_use]
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_at(key.find('[').unwrap_or(key.len()))
}
