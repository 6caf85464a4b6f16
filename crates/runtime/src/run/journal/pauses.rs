//! Waiting steps of an execution: what each waits for, its time limit, and the signals that have arrived.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::execution::{Event, ExecutionId, Signal, WaitReason};
use store::{AwaitedEvent, Wait};

use super::{AcceptedEvents, Journal, State};
use crate::clock::MonotonicTime;
use crate::event_filter::EventFilter;
use crate::recent_events::Delivery;

/// Maximum number of signals for one wait: each is stored in the log.
const MAX_SIGNALS: usize = 1000;

/// The wait of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepWait {
    /// The start of the wait.
    pub(crate) since: Timestamp,
    /// The latest end of the wait; `None` if it is unknown.
    pub(crate) until: Option<Timestamp>,
    /// The end condition.
    pub(crate) on: WaitReason,
}

/// The waits of one execution.
#[derive(Default)]
pub(super) struct Pauses {
    open: BTreeMap<String, Pause>,
    /// The number of open waits that stay in memory.
    in_memory: usize,
    /// True if the stored waits or the suspension must be updated.
    changed: bool,
    /// True if only waits are left, so that the execution is not held in memory.
    rests: bool,
    /// Steps whose next attempt is not due yet, with the due times.
    tries_ahead: BTreeMap<String, MonotonicTime>,
    /// During a suspension: the due times of attempts by step; an empty step means the whole execution.
    tries: BTreeMap<String, MonotonicTime>,
    /// True if the execution keeps its concurrency permit during the suspension.
    holds: bool,
    /// Start of the current period with at least one wait, and the total of earlier periods.
    since: Option<MonotonicTime>,
    total: Duration,
    /// The number of waits that signals have ended.
    ended_by_signals: u64,
}

struct Pause {
    waiting: StepWait,
    /// The filter by which senders of events find the step.
    filter: EventFilter,
    /// Latest end of the wait; `None` if it has none.
    due: Option<Due>,
    /// Timeout around the wait, if any.
    limit: Option<MonotonicTime>,
    /// True if the execution is not suspended during the wait, which therefore has no row in the store.
    stays_in_memory: bool,
    /// Signals that have arrived and are not processed.
    signals: VecDeque<Signal>,
    /// Ids of all signals that have arrived.
    known: Vec<String>,
    /// The number of waits of the execution that signals had ended when this one began.
    began_after: u64,
    /// The key in the order of retained events up to which none can end the wait; `None` if all count.
    passed: Option<String>,
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A wall-clock time.
    At(Timestamp),
    /// A monotonic time, for delays.
    After(MonotonicTime),
}

/// Earliest due times of a suspended execution; the first one resumes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wake {
    /// On the wall clock.
    pub(crate) at: Option<Timestamp>,
    /// On the monotonic clock.
    pub(crate) after: Option<MonotonicTime>,
}

impl Wake {
    fn from_due(ends: impl Iterator<Item = Due>) -> Self {
        let mut wake = Self::default();
        for end in ends {
            match end {
                Due::At(at) => wake.at = Some(wake.at.map_or(at, |first| first.min(at))),
                Due::After(after) => wake.after = Some(wake.after.map_or(after, |first| first.min(after))),
            }
        }
        wake
    }
}

/// Due times of a wait, with their clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) since: MonotonicTime,
    /// Latest end of the wait; `None` if it has none.
    pub(crate) due: Option<Due>,
    /// Timeout around the wait, if any.
    pub(crate) limit: Option<MonotonicTime>,
    /// True if the execution is not suspended during the wait.
    pub(crate) stays_in_memory: bool,
}

impl Pause {
    /// All due times that end the wait without a signal.
    fn ends(&self) -> impl Iterator<Item = Due> + use<> {
        [self.due, self.limit.map(Due::After)].into_iter().flatten()
    }
}

/// Result of suspending an execution.
#[derive(Debug)]
pub(crate) struct Suspension {
    /// Due times that resume it; empty if only a signal does.
    pub(crate) wake: Wake,
    /// The wall-clock offset at the time of its last recorded event.
    pub(crate) wall_offset: SignedDuration,
    /// True if it keeps the permit of its concurrency group, or has to be read back after a restart because of its children.
    pub(crate) keeps_permit: bool,
    /// True if a signal came meanwhile, so that the step continues at once.
    pub(crate) awake: bool,
    /// Child executions whose end it waits for.
    pub(crate) children: Vec<ExecutionId>,
}

/// Result of delivering a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Recorded. It is processed before the execution is suspended.
    New,
    /// The execution is being suspended; the signal is recorded after that.
    OnItsWay,
    /// A duplicate.
    Known,
    /// The step does not wait.
    NotWaiting,
    /// Too many signals that did not match the step's condition.
    TooMany,
}

impl Pauses {
    /// Adds a wait, which no event up to the key `passed` can end.
    fn begin(&mut self, step: &str, waiting: StepWait, times: Times, passed: Option<String>) {
        let Times { since, due, limit, stays_in_memory } = times;
        if self.open.is_empty() {
            self.since = Some(since);
        }
        let pause = Pause {
            waiting,
            filter: EventFilter::default(),
            due,
            limit,
            stays_in_memory,
            signals: VecDeque::new(),
            known: Vec::new(),
            began_after: self.ended_by_signals,
            passed,
        };
        self.in_memory += usize::from(stays_in_memory);
        self.changed |= !stays_in_memory;
        if let Some(replaced) = self.open.insert(step.to_owned(), pause) {
            self.in_memory -= usize::from(replaced.stays_in_memory);
        }
    }

    pub(super) fn end(&mut self, step: &str, at: MonotonicTime) {
        if self.open.is_empty() {
            return;
        }
        if let Some(pause) = self.open.remove(step) {
            self.in_memory -= usize::from(pause.stays_in_memory);
            self.changed |= !pause.stays_in_memory;
            self.ended(at);
        }
    }

    /// Ends the waits of all matching steps. Returns the child executions that they waited for.
    pub(super) fn end_all(&mut self, is_over: impl Fn(&str) -> bool, at: MonotonicTime) -> Vec<ExecutionId> {
        self.tries_ahead.retain(|step, _| !is_over(step));
        let over: Vec<String> = self.open.keys().filter(|step| is_over(step)).cloned().collect();
        let mut children = Vec::new();
        for step in over {
            if let Some(WaitReason::Call { execution }) = self.open.get(&step).map(|pause| &pause.waiting.on)
            {
                children.push(*execution);
            }
            self.end(&step, at);
        }
        children
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn ended(&mut self, at: MonotonicTime) {
        if self.open.is_empty()
            && let Some(since) = self.since.take()
        {
            self.total += at.since(since);
        }
    }

    /// Removes all waits, also those for an attempt, when the whole execution is retried.
    pub(super) fn clear(&mut self, at: MonotonicTime) {
        if !self.open.is_empty() {
            self.open.clear();
            (self.in_memory, self.changed) = (0, true);
            self.ended(at);
        }
        self.tries_ahead.clear();
        self.total = Duration::ZERO;
    }

    /// Counts a wait that a signal ended, and returns its number.
    pub(super) fn ended_by_signal(&mut self) -> u64 {
        self.ended_by_signals += 1;
        self.ended_by_signals
    }

    /// True if the signal is an event that ended an earlier wait of the step, or that the wait has passed.
    pub(super) fn is_accepted(
        &self,
        step: &str,
        event: &Delivery,
        accepted: Option<&AcceptedEvents>,
    ) -> bool {
        let Some(pause) = self.open.get(step) else { return false };
        if !matches!(pause.waiting.on, WaitReason::Event { .. }) {
            // An answer has the same id in each iteration.
            return false;
        }
        let is_passed =
            event.key.as_ref().zip(pause.passed.as_ref()).is_some_and(|(key, passed)| key <= passed);
        is_passed || accepted.is_some_and(|accepted| accepted.contains(&event.signal.id, pause.began_after))
    }

    pub(super) fn passed(&self, step: &str) -> Option<String> {
        self.open.get(step)?.passed.clone()
    }

    /// True if a wait for this name has not passed the key, and began after the one with this number had ended.
    pub(super) fn has_not_passed(
        &self,
        name: &str,
        key: &str,
        number: u64,
        is_concerned: impl Fn(&str) -> bool,
    ) -> bool {
        self.open.iter().any(|(step, pause)| {
            pause.began_after >= number
                && pause.passed.as_deref().is_none_or(|passed| passed < key)
                && matches!(&pause.waiting.on, WaitReason::Event { name: waiting } if waiting == name)
                && is_concerned(step)
        })
    }

    pub(super) fn pass(&mut self, step: &str, key: &str) {
        if let Some(pause) = self.open.get_mut(step) {
            pause.passed = Some(key.to_owned());
        }
    }

    pub(super) fn take(&mut self, step: &str, signal: Signal) -> Taken {
        let Some(pause) = self.open.get_mut(step) else { return Taken::NotWaiting };
        if pause.known.contains(&signal.id) {
            return Taken::Known;
        }
        if self.rests {
            return Taken::OnItsWay;
        }
        if pause.known.len() >= MAX_SIGNALS {
            return Taken::TooMany;
        }
        pause.known.push(signal.id.clone());
        pause.signals.push_back(signal);
        Taken::New
    }

    /// Latest end of all open waits; `None` if one of them has no end.
    fn last_end(&self, ahead: SignedDuration) -> Option<MonotonicTime> {
        let steady = |end: Due| match end {
            Due::At(at) => MonotonicTime::from_wall(at, ahead),
            Due::After(after) => after,
        };
        let ends = self.open.values().map(|pause| pause.ends().map(steady).min());
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The total time of ended waits.
    pub(super) fn total(&self) -> Duration {
        self.total
    }

    pub(super) fn add_total(&mut self, total: Duration) {
        self.total += total;
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    pub(super) fn rests(&self) -> bool {
        self.rests
    }

    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    fn children(&self) -> impl Iterator<Item = ExecutionId> + '_ {
        self.open.values().filter_map(|pause| match &pause.waiting.on {
            WaitReason::Call { execution } => Some(*execution),
            _ => None,
        })
    }
}

impl State {
    /// Adds the wait of a step.
    pub(super) fn wait_begins(&mut self, step: &str, waiting: StepWait, times: Times) {
        let passed = self.passed(step, &waiting.on);
        self.pauses.begin(step, waiting, times, passed);
    }

    /// Records the end of a step's wait.
    pub(super) fn wait_ended(&mut self, step: &str, signal: Option<&str>) {
        match signal {
            Some(signal) => {
                self.accept(step, signal);
                self.timed_out.remove(step);
            }
            None => drop(self.timed_out.insert(step.to_owned())),
        }
    }

    /// Returns the waits to store; `None` if the store is up to date.
    pub(super) fn waits(&mut self) -> Option<Vec<Wait>> {
        if !self.pauses.changed {
            return None;
        }
        // Expected wall-clock time, including the clock changes observed so far.
        let shown = |due: Due| match due {
            Due::At(at) => at,
            Due::After(after) => after.to_wall(self.wall_offset),
        };
        let stored = self.pauses.open.iter().filter(|(_, pause)| !pause.stays_in_memory);
        let pauses = stored.map(|(step, pause)| Wait {
            step: match &pause.waiting.on {
                WaitReason::Operation { .. } => [step, Wait::OPERATION].concat(),
                _ => step.clone(),
            },
            until: pause.ends().map(shown).min(),
            event: match &pause.waiting.on {
                WaitReason::Event { name } => {
                    let EventFilter { key, condition } = pause.filter.clone();
                    Some(AwaitedEvent { name: name.clone(), key, condition })
                }
                _ => None,
            },
            child: match &pause.waiting.on {
                WaitReason::Call { execution } => Some(*execution),
                _ => None,
            },
        });
        let mut waits: Vec<Wait> = pauses.collect();
        // After the suspension, due attempts need not be stored.
        self.pauses.changed = self.pauses.rests;
        let tries = self.pauses.tries.iter().filter(|(step, _)| !self.pauses.open.contains_key(*step));
        waits.extend(tries.map(|(step, at)| Wait {
            step: step.clone(),
            until: Some(at.to_wall(self.wall_offset)),
            event: None,
            child: None,
        }));
        Some(waits)
    }
}

impl Journal {
    /// Returns the wait of a step; `None` if it does not wait.
    pub(crate) fn pause(&self, step: &str) -> Option<StepWait> {
        self.state().pauses.open.get(step).map(|pause| pause.waiting.clone())
    }

    /// Sets the filter by which senders of events find a waiting step.
    pub(crate) fn set_event_filter(&self, step: &str, filter: EventFilter) {
        let pauses = &mut self.state().pauses;
        if let Some(pause) = pauses.open.get_mut(step)
            && pause.filter != filter
        {
            pause.filter = filter;
            pauses.changed = true;
        }
    }

    /// Returns the end of a step's wait; `None` if it does not wait or has no end.
    pub(crate) fn pause_due(&self, step: &str) -> Option<Due> {
        self.state().pauses.open.get(step)?.due
    }

    /// Number of waiting steps whose wait does not stay in memory.
    pub(crate) fn pause_count(&self) -> usize {
        let pauses = &self.state().pauses;
        pauses.open.len() - pauses.in_memory
    }

    /// All waits by step.
    pub(crate) fn pauses(&self) -> Vec<(String, StepWait)> {
        let state = self.state();
        state.pauses.open.iter().map(|(step, pause)| (step.clone(), pause.waiting.clone())).collect()
    }

    /// Records that a step begins to wait.
    pub(crate) fn pause_begins(&self, step: &str, waiting: &StepWait, times: Times) {
        let mut state = self.state();
        let limit = times.limit.map(|limit| limit.to_wall(self.clock.wall_offset()));
        state.wait_begins(step, waiting.clone(), times);
        let event = Event::Waiting {
            at: waiting.since,
            step: step.to_owned(),
            until: waiting.until,
            limit,
            on: waiting.on.clone(),
        };
        state.record(&*self.clock, event);
    }

    /// Returns the next unprocessed signal for a step.
    pub(crate) fn next_signal(&self, step: &str) -> Option<Signal> {
        self.state().pauses.open.get_mut(step)?.signals.pop_front()
    }

    /// Records the end of a step's wait: with the signal of this id, or by its time limit if `None`.
    pub(crate) fn wait_ended(&self, step: &str, signal: Option<&str>) {
        let mut state = self.state();
        state.wait_ended(step, signal);
        let signal = signal.map(str::to_owned);
        state.record(&*self.clock, Event::WaitEnded { at: self.clock.now(), step: step.to_owned(), signal });
    }

    /// Returns true if the wait of the step ended by its time limit.
    pub(crate) fn timed_out(&self, step: &str) -> bool {
        self.state().timed_out.contains(step)
    }

    /// Ends the waits of steps that will not continue. Returns the child executions that they waited for.
    pub(crate) fn abandon(&self, is_abandoned: impl Fn(&str) -> bool) -> Vec<ExecutionId> {
        let mut state = self.state();
        if state.pauses.is_empty() && state.pauses.tries_ahead.is_empty() {
            return Vec::new();
        }
        state.pauses.end_all(is_abandoned, self.clock.monotonic_now())
    }

    /// Total waiting time of the execution, which does not count towards its time limit.
    pub(crate) fn paused(&self, now: MonotonicTime) -> Duration {
        let state = self.state();
        let pauses = &state.pauses;
        // A wait whose end has passed counts until that end, even if a busy branch delays its processing.
        let end = pauses.last_end(state.wall_offset).map_or(now, |last| last.min(now));
        pauses.total + pauses.since.map(|since| end.since(since)).unwrap_or_default()
    }

    /// Records that only the delay before an attempt is left of a step, or of the whole execution if `step` is empty.
    pub(crate) fn record_attempt_delay(&self, step: &str, due: MonotonicTime) {
        self.state().pauses.tries_ahead.insert(step.to_owned(), due);
    }

    /// Lets the execution go on at once after its next suspension: a suspended branch has to run its `finally`.
    pub(crate) fn wake_at_once(&self) {
        self.state().wakes_at_once = true;
    }

    /// The child executions of calls that were cut off before the last restart.
    pub(crate) fn take_cut_children(&self) -> Vec<ExecutionId> {
        std::mem::take(&mut self.state().cut_children)
    }

    /// Ends the waits of all steps but those in a `finally`. Returns the child executions that they waited for.
    pub(crate) fn abandon_main(&self) -> Vec<ExecutionId> {
        self.abandon(|step| !self.traits.is_in_finally(step))
    }

    /// Records the suspension. `holds` says if the execution keeps its concurrency permit.
    pub(crate) fn suspend(&self, holds: bool) -> Suspension {
        let mut state = self.state();
        let has_signal = state.pauses.open.values().any(|pause| !pause.signals.is_empty());
        let awake = has_signal || std::mem::take(&mut state.wakes_at_once);
        state.pauses.rests = true;
        let children: Vec<ExecutionId> = state.pauses.children().collect();
        // After a restart, such an execution is loaded to check if a child has ended meanwhile.
        state.pauses.holds = holds || !children.is_empty();
        state.pauses.changed = true;
        // An attempt may be due already because other branches ran: then the execution resumes at once.
        let tries = std::mem::take(&mut state.pauses.tries_ahead);
        let ends = state.pauses.open.values().flat_map(Pause::ends);
        let wake = Wake::from_due(ends.chain(tries.values().map(|at| Due::After(*at))));
        state.pauses.tries = tries;
        let keeps_permit = state.pauses.holds;
        Suspension { wake, wall_offset: state.wall_offset, keeps_permit, awake, children }
    }

    /// Records the end of the suspension, so that the store lists the execution as running.
    pub(crate) fn resume(&self) {
        let mut state = self.state();
        state.pauses.rests = false;
        state.pauses.holds = false;
        state.pauses.tries.clear();
        state.pauses.changed = true;
    }
}

/// Stored waits during a replay.
#[derive(Default)]
pub(super) struct Replayed {
    signals: HashMap<String, Vec<Signal>>,
}

impl Replayed {
    /// Signals for an earlier wait of the step, before a retry, do not count for this one.
    pub(super) fn begins(&mut self, step: &str) {
        self.signals.remove(step);
    }

    pub(super) fn add_signal(&mut self, step: &str, signal: &Signal) {
        self.signals.entry(step.to_owned()).or_default().push(signal.clone());
    }

    /// Adds the signals to their open waits.
    pub(super) fn into(mut self, pauses: &mut Pauses) {
        for (step, pause) in &mut pauses.open {
            for signal in self.signals.remove(step).unwrap_or_default() {
                pause.known.push(signal.id.clone());
                pause.signals.push_back(signal);
            }
        }
        pauses.changed = false;
    }
}

#[cfg(test)]
mod tests {
    use value::Value;

    use super::*;

    #[test]
    fn a_wait_takes_a_maximum_of_events_that_do_not_end_it() {
        let (since, name) = (Timestamp::UNIX_EPOCH, "paid");
        let waiting = StepWait { since, until: None, on: WaitReason::Event { name: name.to_owned() } };
        let since = MonotonicTime::from_wall(since, SignedDuration::ZERO);
        let times = Times { since, due: None, limit: None, stays_in_memory: false };
        let mut pauses = Pauses::default();
        pauses.begin("pay", waiting, times, None);
        let mut take = |number: usize| {
            let id = number.to_string();
            pauses.take("pay", Signal { id, name: name.to_owned(), data: Value::Null, by: None })
        };
        assert!((0..MAX_SIGNALS).all(|number| take(number) == Taken::New));
        assert_eq!(take(MAX_SIGNALS), Taken::TooMany);
        assert_eq!(take(0), Taken::Known);
    }
}
