//! Steps that pause: for what, until when, and what has come for them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::execution::{Event, ExecutionId, Signal, WaitReason, Waiting};
use store::Wait;

use super::{Journal, State};
use crate::clock::MonotonicTime;

/// The most signals that one pause looks at: each is kept in the log.
const MAX_SIGNALS: usize = 1000;

/// The pauses of one execution.
#[derive(Default)]
pub(super) struct Pauses {
    open: BTreeMap<String, Pause>,
    /// Whether the store has to be told of another set of pauses, or that the execution rests or does so no more.
    changed: bool,
    /// Whether nothing but pauses is left, so that the execution is not held in memory.
    rests: bool,
    /// The tries that steps have come to and that are not due yet.
    tries_ahead: Vec<(String, MonotonicTime)>,
    /// While it rests: the tries that are due, by step; of the whole execution without one.
    tries: Vec<(String, MonotonicTime)>,
    /// Whether it keeps a place among others of its concurrency key while it rests.
    holds: bool,
    /// Since when at least one step pauses, and how long that was before.
    since: Option<MonotonicTime>,
    total: Duration,
}

struct Pause {
    waiting: Waiting,
    /// When it ends at the latest.
    due: Option<Due>,
    /// When a time limit around it is up.
    limit: Option<MonotonicTime>,
    /// What has come and was not looked at.
    signals: VecDeque<Signal>,
    /// The ids of all that has come.
    known: Vec<String>,
}

/// When a pause ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// When the wall clock shows this instant.
    At(Timestamp),
    /// When its time is over.
    After(MonotonicTime),
}

/// When something that rests goes on at the latest: at the first of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// By the wall clock.
    pub(crate) at: Option<Timestamp>,
    /// On the steady scale.
    pub(crate) after: Option<MonotonicTime>,
}

impl Wake {
    fn of(ends: impl Iterator<Item = Due>) -> Self {
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

/// The times of a pause on the scales by which they go.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub(crate) since: MonotonicTime,
    /// When it ends at the latest.
    pub(crate) due: Option<Due>,
    /// When a time limit around it is up.
    pub(crate) limit: Option<MonotonicTime>,
}

impl Pause {
    /// What can end it without anything coming.
    fn ends(&self) -> impl Iterator<Item = Due> + use<> {
        [self.due, self.limit.map(Due::After)].into_iter().flatten()
    }
}

/// What becomes of an execution of which nothing but pauses is left.
#[derive(Debug)]
pub struct Suspension {
    /// When it goes on at the latest; never where nothing but a signal makes it go on.
    pub(crate) wake: Wake,
    /// How far the clock was ahead when the last of its events was recorded.
    pub(crate) wall_offset: SignedDuration,
    /// True if it keeps the permit of its concurrency group, or has to be read back after a restart because of its children.
    pub(crate) keeps_permit: bool,
    /// Whether a signal came meanwhile, so that it goes on at once.
    pub(crate) awake: bool,
    /// The executions whose end it waits for.
    pub(crate) children: Vec<ExecutionId>,
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is recorded, and looked at before the execution goes to rest.
    New,
    /// The execution is on its way to rest: once it has come there, it is recorded there.
    OnItsWay,
    /// It had come before.
    Known,
    /// The step does not pause.
    NotWaiting,
    /// Too many came that the step did not wait for.
    TooMany,
}

impl Pauses {
    pub(super) fn begin(&mut self, step: &str, waiting: Waiting, times: Times) {
        let Times { since, due, limit } = times;
        if self.open.is_empty() {
            self.since = Some(since);
        }
        let pause = Pause { waiting, due, limit, signals: VecDeque::new(), known: Vec::new() };
        self.open.insert(step.to_owned(), pause);
        self.changed = true;
    }

    pub(super) fn end(&mut self, step: &str, at: MonotonicTime) {
        if !self.open.is_empty() && self.open.remove(step).is_some() {
            self.ended(at);
        }
    }

    /// Ends the pauses of all these steps, and gives the executions that they waited for.
    pub(super) fn end_all(&mut self, is_over: impl Fn(&str) -> bool, at: MonotonicTime) -> Vec<ExecutionId> {
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
        self.changed = true;
        if self.open.is_empty()
            && let Some(since) = self.since.take()
        {
            self.total += at.since(since);
        }
    }

    /// The whole execution begins anew.
    pub(super) fn clear(&mut self, at: MonotonicTime) {
        if !self.open.is_empty() {
            self.open.clear();
            self.ended(at);
        }
        self.total = Duration::ZERO;
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

    /// When the last of the open pauses ends; nothing where that is not known of each.
    fn last_end(&self, ahead: SignedDuration) -> Option<MonotonicTime> {
        let steady = |end: Due| match end {
            Due::At(at) => MonotonicTime::from_wall(at, ahead),
            Due::After(after) => after,
        };
        let ends = self.open.values().map(|pause| pause.ends().map(steady).min());
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
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
    /// Notes how the wait of a step ended.
    pub(super) fn wait_ended(&mut self, step: &str, signal: Option<&str>) {
        match signal {
            Some(signal) => {
                let id = step.split('[').next().unwrap_or_default();
                self.let_through.entry(id.to_owned()).or_default().insert(signal.to_owned());
                self.timed_out.remove(step);
            }
            None => drop(self.timed_out.insert(step.to_owned())),
        }
    }

    /// What the store has to know of the pauses, if that is not what it knows.
    pub(super) fn waits(&mut self) -> Option<Vec<Wait>> {
        if !self.pauses.changed {
            return None;
        }
        // As the clock will show it, the steps taken in that were seen.
        let shown = |due: Due| match due {
            Due::At(at) => at,
            Due::After(after) => after.to_wall(self.wall_offset),
        };
        let pauses = self.pauses.open.iter().map(|(step, pause)| Wait {
            step: step.clone(),
            until: pause.ends().map(shown).min(),
            event: match &pause.waiting.on {
                WaitReason::Event { name } => Some(name.clone()),
                _ => None,
            },
            child: match &pause.waiting.on {
                WaitReason::Call { execution } => Some(*execution),
                _ => None,
            },
        });
        let mut waits: Vec<Wait> = pauses.collect();
        // Once it goes on, tries that are due are nothing that the store has to know of.
        self.pauses.changed = self.pauses.rests;
        let tries = self.pauses.tries.iter().filter(|(step, _)| !self.pauses.open.contains_key(step));
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
    /// The step's pause, if it pauses.
    pub(crate) fn pause(&self, step: &str) -> Option<Waiting> {
        self.state().pauses.open.get(step).map(|pause| pause.waiting.clone())
    }

    /// When the step's pause ends, if it pauses and does not last until something comes.
    pub(crate) fn pause_due(&self, step: &str) -> Option<Due> {
        self.state().pauses.open.get(step)?.due
    }

    /// How many steps pause.
    pub(crate) fn pause_count(&self) -> usize {
        self.state().pauses.open.len()
    }

    /// All pauses, by step.
    pub(crate) fn pauses(&self) -> Vec<(String, Waiting)> {
        let state = self.state();
        state.pauses.open.iter().map(|(step, pause)| (step.clone(), pause.waiting.clone())).collect()
    }

    /// Records that a step pauses.
    pub(crate) fn pause_begins(&self, step: &str, waiting: &Waiting, times: Times) {
        let mut state = self.state();
        let limit = times.limit.map(|limit| limit.to_wall(self.clock.wall_offset()));
        state.pauses.begin(step, waiting.clone(), times);
        let event = Event::Waiting {
            at: waiting.since,
            step: step.to_owned(),
            until: waiting.until,
            limit,
            on: waiting.on.clone(),
        };
        state.record(&*self.clock, event);
    }

    /// The next signal for a step that it has not looked at.
    pub(crate) fn next_signal(&self, step: &str) -> Option<Signal> {
        self.state().pauses.open.get_mut(step)?.signals.pop_front()
    }

    /// Records that the wait of a step ended: with the signal of this id, or because its time was up.
    pub(crate) fn wait_ended(&self, step: &str, signal: Option<&str>) {
        let mut state = self.state();
        state.wait_ended(step, signal);
        let signal = signal.map(str::to_owned);
        state.record(&*self.clock, Event::WaitEnded { at: self.clock.now(), step: step.to_owned(), signal });
    }

    /// True if an iteration of the step with this id ended with the signal.
    pub(crate) fn has_let_through(&self, id: &str, signal: &str) -> bool {
        self.state().let_through.get(id).is_some_and(|signals| signals.contains(signal))
    }

    /// True if the wait of the step ended because its time was up.
    pub(crate) fn timed_out(&self, step: &str) -> bool {
        self.state().timed_out.contains(step)
    }

    /// Records what came for a step. It is the caller's to commit.
    pub(crate) fn signal(&self, step: &str, signal: Signal) -> Taken {
        let mut state = self.state();
        if state.outcome.is_some() {
            return Taken::NotWaiting;
        }
        let taken = state.pauses.take(step, signal.clone());
        if taken == Taken::New {
            let event = Event::Signalled { at: self.clock.now(), step: step.to_owned(), signal };
            state.record(&*self.clock, event);
        }
        taken
    }

    /// Ends the pauses of steps that will not go on, and gives the executions that they waited for.
    pub(crate) fn abandon(&self, is_abandoned: impl Fn(&str) -> bool) -> Vec<ExecutionId> {
        let mut state = self.state();
        if state.pauses.is_empty() {
            return Vec::new();
        }
        state.pauses.end_all(is_abandoned, self.clock.monotonic_now())
    }

    /// How long the execution has paused: that does not count against its time limit.
    pub(crate) fn paused(&self, now: MonotonicTime) -> Duration {
        let state = self.state();
        let pauses = &state.pauses;
        // One whose time is over pauses no more, though nobody has looked at it yet because of what runs beside it.
        let end = pauses.last_end(state.wall_offset).map_or(now, |last| last.min(now));
        pauses.total + pauses.since.map(|since| end.since(since)).unwrap_or_default()
    }

    /// Notes that a step has come to where nothing is left of it but the time before its next try; of the whole execution
    /// where the name is empty.
    pub(crate) fn rests_before_try(&self, step: &str, due: MonotonicTime) {
        self.state().pauses.tries_ahead.push((step.to_owned(), due));
    }

    /// Notes that nothing but pauses is left. `holds` says whether it keeps a place among others.
    pub(crate) fn suspend(&self, holds: bool) -> Suspension {
        let mut state = self.state();
        let awake = state.pauses.open.values().any(|pause| !pause.signals.is_empty());
        state.pauses.rests = true;
        let children: Vec<ExecutionId> = state.pauses.children().collect();
        // Whether a child has ended meanwhile is looked at after a restart, so it is read back then.
        state.pauses.holds = holds || !children.is_empty();
        state.pauses.changed = true;
        // One may be due already, because of what ran beside it: then it goes on at once.
        let tries = std::mem::take(&mut state.pauses.tries_ahead);
        let ends = state.pauses.open.values().flat_map(Pause::ends);
        let wake = Wake::of(ends.chain(tries.iter().map(|(_, at)| Due::After(*at))));
        state.pauses.tries = tries;
        let keeps_permit = state.pauses.holds;
        Suspension { wake, wall_offset: state.wall_offset, keeps_permit, awake, children }
    }

    /// Notes that a resting execution goes on, so that the store lists it as running.
    pub(crate) fn resume(&self) {
        let mut state = self.state();
        state.pauses.rests = false;
        state.pauses.holds = false;
        state.pauses.tries.clear();
        state.pauses.changed = true;
    }
}

/// What was stored of pauses, read again.
#[derive(Default)]
pub(super) struct Replayed {
    signals: HashMap<String, Vec<Signal>>,
}

impl Replayed {
    /// What came for an earlier pause of the step, before it was tried again, is not for this one.
    pub(super) fn begins(&mut self, step: &str) {
        self.signals.remove(step);
    }

    pub(super) fn came(&mut self, step: &str, signal: &Signal) {
        self.signals.entry(step.to_owned()).or_default().push(signal.clone());
    }

    /// Gives each open pause what came for it.
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
