//! Snapshots: the state of an execution between two iterations of a `repeat`, at which the replay of its log begins.
//!
//! Without them, each wake of an execution would replay all earlier iterations. A snapshot leaves out the steps of ended iterations:
//! nothing reads their outcomes again but the variables, which it contains. Only a journal that was restored from a long log
//! takes one, at the first iteration that starts after the replay and outside of parallel branches, where nothing else runs.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use model::automation::Automation;
use model::execution::{Event, StepOutcome};
use model::payload::HttpResponse;
use serde::{Deserialize, Serialize};
use store::{Snapshot, SnapshotChange};
use value::Value;

use super::retries::{Inside, split_turns};
use super::{AcceptedEvents, Journal, State, StepStart};
use crate::clock::MonotonicTime;
use crate::run::Exit;

/// The number of events since the last snapshot from which a journal takes a new one.
const MIN_EVENTS: usize = 128;
/// The maximum size of the values in a snapshot, in bytes. An execution that holds more is replayed from an earlier one.
const MAX_VALUE_BYTES: usize = 1 << 20;
/// The version of the stored form. A snapshot of another version is ignored.
const VERSION: u32 = 1;

/// The position of a walk in a `repeat`: an iteration that has not started, and the variables at that instant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoopPosition {
    /// The step, with the index of each iteration around it.
    pub(crate) step: String,
    /// The index of the iteration.
    pub(crate) turn: usize,
    /// The result of the previous iteration.
    pub(crate) last: Value,
    /// The variables `steps` and `vars`.
    pub(crate) steps: Value,
    pub(crate) vars: Value,
}

/// The loops of an execution, as far as snapshots concern them.
#[derive(Default)]
pub(super) struct Loops {
    /// The positions in the last snapshot by step; also of loops that have ended since.
    restored: HashMap<String, LoopPosition>,
    /// The loops around the present step, outermost first. Kept while a snapshot is due.
    active: Vec<LoopPosition>,
    /// True if the store has a snapshot.
    is_stored: bool,
    /// The snapshot that this journal has taken.
    taken: Option<Taken>,
    /// The change of the next commit.
    pub(super) change: SnapshotChange,
}

/// A snapshot, with the steps that have looked for earlier events since.
struct Taken {
    /// The number of events that the snapshot replaces.
    events: u32,
    snapshot: SnapshotState,
    looked: HashSet<String>,
}

/// The stored form of a snapshot. Times are wall-clock times with the wall offset of the snapshot.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotState {
    version: u32,
    /// The time of the snapshot.
    at: Timestamp,
    accepted_at: Timestamp,
    /// The total time of ended waits, in microseconds.
    paused_us: u64,
    response: Option<HttpResponse>,
    finished: Vec<(String, StepOutcome)>,
    timed_out: Vec<String>,
    starts: Vec<StartState>,
    accepted_events: HashMap<String, AcceptedEvents>,
    loops: Vec<LoopPosition>,
}

/// The stored form of a [`StepStart`].
#[derive(Serialize, Deserialize)]
struct StartState {
    step: String,
    at: Timestamp,
    steady: Timestamp,
    read: Value,
}

impl SnapshotState {
    /// Reads a stored snapshot; `None` if this version of the engine cannot. Then all events are replayed.
    pub(crate) fn read(stored: &Snapshot) -> Option<Self> {
        let state: Self = serde_json::from_str(&stored.body).ok()?;
        (state.version == VERSION).then_some(state)
    }

    /// The time of the snapshot.
    pub(super) fn at(&self) -> Timestamp {
        self.at
    }

    /// The instant of acceptance.
    pub(super) fn accepted_at(&self) -> Timestamp {
        self.accepted_at
    }

    /// Sets the state of a journal to that of the snapshot.
    pub(super) fn restore(self, state: &mut State, steady: impl Fn(Timestamp) -> MonotonicTime) {
        state.finished = self.finished.into_iter().collect();
        state.timed_out = self.timed_out.into_iter().collect();
        let starts = self.starts.into_iter().map(|start| {
            let StartState { step, at, steady: instant, read } = start;
            (step, StepStart { at, steady: steady(instant), read })
        });
        state.step_starts = starts.collect();
        state.pauses.add_total(Duration::from_micros(self.paused_us));
        state.response = self.response;
        state.accepted_events = self.accepted_events;
        state.loops.restored =
            self.loops.into_iter().map(|position| (position.step.clone(), position)).collect();
        state.loops.is_stored = true;
    }
}

/// True if a journal that was restored from these events takes a snapshot: the log is long.
pub(super) fn is_due(events: &[Event]) -> bool {
    events.len() >= MIN_EVENTS
}

impl Journal {
    /// True if the log has become long since the last snapshot.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        self.snapshot_due.load(Ordering::Relaxed)
    }

    /// Notes that the walk has passed the recorded steps.
    pub(crate) fn mark_replayed(&self) {
        self.replayed.store(true, Ordering::Relaxed);
    }

    /// The position in a loop at which its replay begins; `None` for its first iteration.
    pub(crate) fn loop_position(&self, step: &str) -> Option<LoopPosition> {
        let state = self.state();
        if state.loops.restored.is_empty() { None } else { state.loops.restored.get(step).cloned() }
    }

    /// Notes that an iteration of a loop starts outside of parallel branches. Takes the snapshot if the walk has passed the recorded
    /// steps.
    pub(crate) async fn turn_begins(
        &self,
        position: LoopPosition,
        automation: &Automation,
    ) -> Result<(), Exit> {
        let turn = position.turn;
        {
            let active = &mut self.state().loops.active;
            match active.last_mut() {
                Some(last) if last.step == position.step => *last = position,
                _ => active.push(position),
            }
        }
        if turn == 0 || !self.replayed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.take_snapshot(automation).await
    }

    /// Notes that a loop has ended.
    pub(crate) fn loop_ended(&self, step: &str) {
        let active = &mut self.state().loops.active;
        if active.last().is_some_and(|last| last.step == step) {
            active.pop();
        }
    }

    async fn take_snapshot(&self, automation: &Automation) -> Result<(), Exit> {
        self.snapshot_due.store(false, Ordering::Relaxed);
        // It replaces only stored events.
        self.commit().await?;
        let transit = self.transit.lock().await;
        let mut state = self.state();
        if !transit.is_under_way() && state.is_idle_between_iterations() {
            let events = transit.next();
            let stored = state.snapshot(self, automation).and_then(|snapshot| {
                let stored = snapshot.stored(events)?;
                Some((snapshot, stored))
            });
            if let Some((snapshot, stored)) = stored {
                state.loops.change = SnapshotChange::Put(stored);
                state.loops.is_stored = true;
                state.loops.taken = Some(Taken { events, snapshot, looked: HashSet::new() });
            }
        }
        state.loops.active.clear();
        Ok(())
    }
}

impl Loops {
    /// Notes that the step with this id has looked for earlier events. At its first wait since the snapshot none has ended a wait
    /// meanwhile, so that the events that it passed are passed in the snapshot too: the next journal does not read them again.
    pub(super) fn pass_events(&mut self, id: &str, accepted: &AcceptedEvents) {
        let Some(taken) = &mut self.taken else { return };
        if !taken.looked.insert(id.to_owned()) {
            return;
        }
        let known = taken.snapshot.accepted_events.insert(id.to_owned(), accepted.clone());
        if known.unwrap_or_default().passed != accepted.passed
            && let Some(stored) = taken.snapshot.stored(taken.events)
        {
            self.change = SnapshotChange::Put(stored);
        }
    }
}

impl State {
    /// Deletes the snapshot with the next commit, which ends the execution.
    pub(super) fn delete_snapshot(&mut self) {
        if self.loops.is_stored {
            self.loops.change = SnapshotChange::Delete;
        }
    }

    /// True if nothing but the loops around the present position is in progress.
    fn is_idle_between_iterations(&self) -> bool {
        !self.has_events()
            && self.pauses.is_empty()
            && self.tries.is_empty()
            && self.failing.is_empty()
            && self.interrupted.is_empty()
            && self.checkpoints.is_empty()
            && self.has_none_open()
            && self.closing.is_none()
            && self.cancelling.is_none()
            && self.outcome.is_none()
    }

    /// The snapshot of the present state; `None` if its values are too large or outside of the log.
    fn snapshot(&self, journal: &Journal, automation: &Automation) -> Option<SnapshotState> {
        let inside = Inside::of_all(automation);
        let has_ended = |key: &str| self.loops.active.iter().any(|position| ended(position, &inside, key));
        let wall = |instant: MonotonicTime| instant.to_wall(self.wall_offset);
        let kept = self.loops.restored.values();
        let kept = kept.filter(|known| {
            let is_active = self.loops.active.iter().any(|active| active.step == known.step);
            !is_active && !has_ended(&known.step)
        });
        let loops = kept.chain(&self.loops.active).cloned().map(|position| LoopPosition {
            last: journal.redact_value(position.last),
            steps: journal.redact_value(position.steps),
            vars: journal.redact_value(position.vars),
            ..position
        });
        let finished = self.finished.iter().filter(|(step, _)| !has_ended(step));
        let finished = finished.map(|(step, outcome)| {
            let outcome = match outcome.clone() {
                StepOutcome::Jumped { by, result } => {
                    StepOutcome::Jumped { by, result: journal.redact_value(result) }
                }
                // Redacted when they were produced.
                outcome => outcome,
            };
            (step.clone(), outcome)
        });
        let starts = self.step_starts.iter();
        let starts = starts.filter(|(step, _)| !self.finished.contains_key(*step) && !has_ended(step));
        let starts = starts.map(|(step, start)| StartState {
            step: step.clone(),
            at: start.at,
            steady: wall(start.steady),
            read: journal.redact_value(start.read.clone()),
        });
        let snapshot = SnapshotState {
            version: VERSION,
            at: wall(journal.clock.monotonic_now()),
            accepted_at: wall(journal.accepted_at),
            paused_us: u64::try_from(self.pauses.total().as_micros()).unwrap_or(u64::MAX),
            response: self.response.clone(),
            finished: finished.collect(),
            timed_out: self.timed_out.iter().filter(|step| !has_ended(step)).cloned().collect(),
            starts: starts.collect(),
            accepted_events: self.accepted_events.clone(),
            loops: loops.collect(),
        };
        snapshot.fits().then_some(snapshot)
    }
}

impl SnapshotState {
    /// Returns the stored form for this number of events; `None` if it is too large.
    fn stored(&self, events: u32) -> Option<Snapshot> {
        let body = serde_json::to_string(self).ok()?;
        (body.len() <= Snapshot::MAX_BYTES).then_some(Snapshot { events, body })
    }

    /// True if its values are small enough, and all of them are in the log.
    fn fits(&self) -> bool {
        let outcomes = self.finished.iter().filter_map(|(_, outcome)| match outcome {
            StepOutcome::Succeeded { result }
            | StepOutcome::Jumped { result, .. }
            | StepOutcome::Failed { handled: Some(result), .. } => Some(result),
            StepOutcome::Failed { handled: None, .. } | StepOutcome::Skipped => None,
        });
        let loops = self.loops.iter().flat_map(|position| [&position.last, &position.steps, &position.vars]);
        let mut values = outcomes.chain(loops).chain(self.starts.iter().map(|start| &start.read));
        let mut left = MAX_VALUE_BYTES;
        let values_fit = values.all(|value| {
            let bytes = value.estimated_size(left);
            left = left.saturating_sub(bytes);
            left > 0 && !value.has_external_file()
        });
        values_fit && self.response.as_ref().is_none_or(|response| !response.body.is_external())
    }
}

/// True if a step belongs to an iteration of the loop that ended before this position.
fn ended(position: &LoopPosition, inside: &Inside, key: &str) -> bool {
    let (_, turns) = split_turns(&position.step);
    let index = split_turns(key).1.strip_prefix(turns).and_then(|rest| rest.strip_prefix('['));
    let index =
        index.and_then(|rest| rest.split_once(']')).and_then(|(index, _)| index.parse::<usize>().ok());
    index.is_some_and(|index| index < position.turn) && inside.contains_step(&position.step)(key)
}
