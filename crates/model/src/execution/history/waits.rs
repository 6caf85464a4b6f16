//! The waits of an execution: delays that it did not ask for, waits of its steps, pauses before attempts.

use std::collections::HashMap;

use jiff::Timestamp;

use super::super::{DelayReason, Event, Signal, StepOutcome, WaitReason};
use crate::action::{ActionError, ErrorKind};

/// The cause of a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WaitCause<'e> {
    /// Something that the automation did not ask for.
    Delay(&'e DelayReason),
    /// The daemon had stopped.
    Interrupted,
    /// The pause before the next attempt.
    Retry,
    /// A step waits as it was told to.
    Step(&'e WaitReason),
}

/// A wait of an execution or of one of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct PastWait<'e> {
    /// The start.
    pub from: Timestamp,
    /// The step with its loop iterations; `None` if the whole execution waits.
    pub step: Option<&'e str>,
    /// The cause.
    pub cause: WaitCause<'e>,
    /// The latest end; `None` if it is unknown.
    pub until: Option<Timestamp>,
    /// The signals that arrived meanwhile.
    pub signals: Vec<(Timestamp, &'e Signal)>,
    /// The end; `None` while it lasts.
    pub end: Option<WaitEnd<'e>>,
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitEnd<'e> {
    /// The time.
    pub at: Timestamp,
    /// The signal that ended it; `None` if none did.
    pub signal: Option<&'e Signal>,
    /// True if its time passed.
    pub timed_out: bool,
}

impl WaitEnd<'_> {
    fn at(at: Timestamp) -> Self {
        Self { at, signal: None, timed_out: false }
    }
}

/// All waits, and the open one of each step.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits<'e> {
    /// In the order of their record.
    all: Vec<PastWait<'e>>,
    /// The indices of ended waits, in the order of their end.
    ended: Vec<usize>,
    /// The indices of open waits, by step.
    open: HashMap<Option<&'e str>, usize>,
}

impl<'e> Waits<'e> {
    pub(super) fn all(&self) -> impl Iterator<Item = &PastWait<'e>> {
        self.all.iter()
    }

    pub(super) fn ended(&self) -> impl Iterator<Item = (&PastWait<'e>, &WaitEnd<'e>)> {
        let ended = self.ended.iter().filter_map(|place| self.all.get(*place));
        ended.filter_map(|wait| wait.end.as_ref().map(|end| (wait, end)))
    }

    /// Applies an event of a step.
    pub(super) fn apply(&mut self, step: &'e str, event: &'e Event) {
        match event {
            Event::StepRetry { at, error, next_at, .. } => {
                self.end(Some(step), WaitEnd { timed_out: is_timeout(error), ..WaitEnd::at(*at) });
                self.begin(Some(step), *at, WaitCause::Retry, Some(*next_at));
            }
            Event::Waiting { at, until, on, .. } => {
                match self.open.get(&Some(step)).and_then(|place| self.all.get_mut(*place)) {
                    // The pauses between the looks at an operation are one wait.
                    Some(PastWait { cause: WaitCause::Step(open), until: end, .. })
                        if matches!(open, WaitReason::Operation { .. }) =>
                    {
                        (*open, *end) = (on, *until);
                    }
                    // A wait that continues after a restart is recorded again.
                    Some(open) if open.cause != WaitCause::Retry => {}
                    _ => {
                        self.end(Some(step), WaitEnd::at(*at));
                        self.begin(Some(step), *at, WaitCause::Step(on), *until);
                    }
                }
            }
            Event::Signalled { at, signal, .. } => {
                if let Some(open) = self.open.get(&Some(step)).and_then(|place| self.all.get_mut(*place)) {
                    open.signals.push((*at, signal));
                }
            }
            Event::WaitEnded { at, signal, .. } => {
                let timed_out = signal.is_none();
                let signal = signal.as_deref().and_then(|id| self.signal(step, id));
                self.end(Some(step), WaitEnd { at: *at, signal, timed_out });
            }
            Event::StepStarted { at, .. } => {
                self.end(None, WaitEnd::at(*at));
                self.end(Some(step), WaitEnd::at(*at));
            }
            Event::StepFailed { at, error, .. } => {
                self.end(None, WaitEnd::at(*at));
                self.end(Some(step), WaitEnd { timed_out: is_timeout(error), ..WaitEnd::at(*at) });
            }
            Event::StepFinished { at, outcome, .. } => {
                self.end(None, WaitEnd::at(*at));
                let timed_out = match outcome {
                    StepOutcome::Failed { error, .. } => is_timeout(error),
                    // With `onTimeout: continue`.
                    StepOutcome::Succeeded { result } => result.is_null(),
                    StepOutcome::Skipped | StepOutcome::Jumped { .. } => false,
                };
                self.end(Some(step), WaitEnd { timed_out, ..WaitEnd::at(*at) });
            }
            _ => {}
        }
    }

    /// Records a delay that has ended.
    pub(super) fn delayed(
        &mut self,
        step: Option<&'e str>,
        (from, at): (Timestamp, Timestamp),
        reason: &'e DelayReason,
    ) {
        self.push(step, (from, at), WaitCause::Delay(reason));
    }

    /// Records the time without a daemon.
    pub(super) fn interrupted(&mut self, from: Timestamp, at: Timestamp) {
        self.push(None, (from, at), WaitCause::Interrupted);
    }

    pub(super) fn begin(
        &mut self,
        step: Option<&'e str>,
        from: Timestamp,
        cause: WaitCause<'e>,
        until: Option<Timestamp>,
    ) {
        self.open.insert(step, self.all.len());
        self.all.push(PastWait { from, step, cause, until, signals: Vec::new(), end: None });
    }

    /// Ends all waits.
    pub(super) fn end_all(&mut self, at: Timestamp) {
        let mut steps: Vec<Option<&str>> = self.open.keys().copied().collect();
        steps.sort_unstable();
        steps.into_iter().for_each(|step| self.end(step, WaitEnd::at(at)));
    }

    fn push(&mut self, step: Option<&'e str>, (from, at): (Timestamp, Timestamp), cause: WaitCause<'e>) {
        self.ended.push(self.all.len());
        let end = Some(WaitEnd::at(at));
        self.all.push(PastWait { from, step, cause, until: None, signals: Vec::new(), end });
    }

    fn end(&mut self, step: Option<&'e str>, end: WaitEnd<'e>) {
        // Each event of a step ends its wait, and nearly none has one: an empty map would hash the key, too.
        if self.open.is_empty() {
            return;
        }
        let Some(place) = self.open.remove(&step) else { return };
        let Some(wait) = self.all.get_mut(place) else { return };
        // A step may work between the end of its wait and the event that shows this end.
        let ends_by_itself = matches!(wait.cause, WaitCause::Retry | WaitCause::Step(WaitReason::Time));
        let at = wait.until.filter(|until| ends_by_itself && *until < end.at).unwrap_or(end.at);
        wait.end = Some(WaitEnd { at, ..end });
        self.ended.push(place);
    }

    /// Returns the signal of a step's open wait with this id.
    fn signal(&self, step: &str, id: &str) -> Option<&'e Signal> {
        let open = self.open.get(&Some(step)).and_then(|place| self.all.get(*place))?;
        open.signals.iter().rev().map(|(_, signal)| *signal).find(|signal| signal.id == id)
    }
}

fn is_timeout(error: &ActionError) -> bool {
    error.kind == ErrorKind::Timeout
}
