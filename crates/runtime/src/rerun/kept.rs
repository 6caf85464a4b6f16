//! The results that a replay from a step keeps: the results of earlier steps, as events of the new execution's log.

use std::collections::{HashMap, HashSet};

use catalog::Deployment;
use jiff::Timestamp;
use model::automation::{Automation, Verb};
use model::execution::{Event, History, StepOutcome};

use super::position::{Level, Nesting, Position, after, before, key, loops, positions, split};

/// The maximum number of events that a replay keeps.
const MAX_EVENTS: usize = 10_000;

/// The results that a replay keeps.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The events after *started*, in order.
    pub(super) events: Vec<Event>,
    /// The number of steps whose results they hold.
    pub(super) steps: u32,
    /// The ids of the steps that do not run again in any iteration.
    pub(super) settled: HashSet<String>,
}

/// Selects the events of `log` that a replay from the step `from` keeps. `recorded` is the version that wrote the log, and
/// `deployment` the version that the replay runs on.
///
/// # Errors
/// The reason, in words, for which the replay cannot begin at that step.
pub(super) fn select(
    deployment: &Deployment,
    recorded: &Automation,
    log: &[Event],
    from: &str,
    now: Timestamp,
) -> Result<Kept, String> {
    let positions = positions(&deployment.automation);
    let start = Start::find(deployment, &positions, from)?;
    let history = History::new(log);
    start.check_before(deployment, &history)?;
    let selection = Selection { deployment, positions: &positions, history: &history, start: &start };
    let kept = selection.events(log, now);
    selection.check_versions(recorded, &kept)?;
    selection.check_undone(log, &kept)?;
    if kept.events.len() > MAX_EVENTS {
        return Err(format!(
            "the steps before `{from}` recorded {} events, more than the {MAX_EVENTS} that a replay keeps; replay from the start",
            kept.events.len()
        ));
    }
    Ok(kept)
}

/// The step that a replay begins at.
struct Start<'a> {
    from: &'a str,
    position: &'a Position<'a>,
    turns: Vec<usize>,
}

struct Selection<'a> {
    deployment: &'a Deployment,
    positions: &'a HashMap<&'a str, Position<'a>>,
    history: &'a History<'a>,
    start: &'a Start<'a>,
}

/// The fate of a recorded step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It runs again, or only if an earlier step decides so again.
    Again,
    /// It contains the start: it is entered again.
    Entered,
    /// It keeps its outcome.
    Kept,
    /// It runs beside the start: it keeps its outcome unless it failed.
    Beside,
}

impl<'a> Start<'a> {
    fn find(
        deployment: &Deployment,
        positions: &'a HashMap<&str, Position<'a>>,
        from: &'a str,
    ) -> Result<Self, String> {
        let (id, turns) =
            split(from).ok_or_else(|| format!("`{from}` is not a step, such as `copy` or `copy[2]`"))?;
        let Some(position) = positions.get(id) else {
            let mut elsewhere = false;
            deployment.automation.walk(&mut |step| elsewhere |= step.id.as_ref() == id);
            return Err(if elsewhere {
                format!("step `{id}` closes or undoes an execution; replay from a step of the list `steps`")
            } else {
                let nearest = text::diagnostic::nearest(id, positions.keys().copied());
                let nearest = nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
                format!("there is no step `{id}` in the version that the replay runs on{nearest}")
            });
        };
        if let Some(inner) = position.iter().position(|level| level.kind == Nesting::OnError) {
            let failed = &position[inner.saturating_sub(1)].step().id;
            return Err(format!("step `{id}` handles a failure of `{failed}`; replay from `{failed}`"));
        }
        let (wanted, found) = (loops(position), turns.len());
        if wanted != found {
            let example = key(id, &vec![0; wanted]);
            return Err(format!(
                "step `{id}` is in {wanted} loops, and `{from}` names {found} iterations; write it as `{example}`"
            ));
        }
        Ok(Self { from, position, turns })
    }

    /// The iterations around a level of the position.
    fn turns_at(&self, level: usize) -> &[usize] {
        &self.turns[..loops(&self.position[..=level])]
    }

    /// Checks that the walk reaches the start with recorded results alone.
    fn check_before(&self, deployment: &Deployment, history: &History<'_>) -> Result<(), String> {
        let from = self.from;
        for (depth, level) in self.position.iter().enumerate() {
            let turns = self.turns_at(depth);
            for index in before(&deployment.plan, level.block, level.index) {
                let step = key(&level.block.steps[index].id, turns);
                match history.step(&step).and_then(|step| step.outcome) {
                    Some(outcome) if passes(outcome) => {}
                    Some(_) => {
                        return Err(format!(
                            "step `{step}` before `{from}` did not succeed; replay from `{step}` or an earlier step"
                        ));
                    }
                    None => {
                        return Err(format!(
                            "step `{step}` before `{from}` has no result in the execution; replay from `{step}` or an earlier step"
                        ));
                    }
                }
            }
            let ran = level.block.steps.iter().any(|step| history.step(&key(&step.id, turns)).is_some());
            if depth > 0 && !ran {
                let around = &self.position[depth - 1].step().id;
                return Err(format!(
                    "step `{from}` did not run in the execution; replay from `{around}`, which decides whether it runs"
                ));
            }
        }
        Ok(())
    }
}

/// True if the walk passes a recorded step.
fn passed(history: &History<'_>, step: &str) -> bool {
    history.step(step).and_then(|step| step.outcome).is_some_and(passes)
}

/// True if the walk continues after a step with this outcome.
fn passes(outcome: &StepOutcome) -> bool {
    matches!(
        outcome,
        StepOutcome::Succeeded { .. } | StepOutcome::Skipped | StepOutcome::Failed { handled: Some(_), .. }
    )
}

impl Selection<'_> {
    fn events(&self, log: &[Event], now: Timestamp) -> Kept {
        let mut kept = Kept::default();
        let mut response = None;
        for (index, event) in log.iter().enumerate() {
            match event {
                Event::StepFinished { step, outcome, .. } => {
                    let keeps = self.keeps(step) && self.outcome_event(step) == Some(index);
                    if self.may_respond(step) {
                        // The response was recorded just before the end of the step that decided it.
                        kept.events.extend(response.take().filter(|_| keeps));
                    }
                    if keeps {
                        kept.steps += 1;
                        let (step, outcome) = (step.clone(), outcome.clone());
                        kept.events.push(Event::StepFinished { at: now, step, took_us: 0, outcome });
                    }
                }
                Event::WaitEnded { step, signal, .. } if self.keeps(step) => {
                    kept.events.push(Event::WaitEnded {
                        at: now,
                        step: step.clone(),
                        signal: signal.clone(),
                    });
                }
                // Its instant is what `now()` gave.
                Event::StepContextRecorded { at, step, state } if self.keeps_context(step) => {
                    let (at, step, state) = ((*at).min(now), step.clone(), state.clone());
                    kept.events.push(Event::StepContextRecorded { at, step, state });
                }
                Event::Responded { response: decided, .. } => {
                    response = Some(Event::Responded { at: now, response: decided.clone() });
                }
                _ => {}
            }
        }
        kept.settled = self.settled();
        kept
    }

    /// The index of the event with the last outcome of a step.
    fn outcome_event(&self, step: &str) -> Option<usize> {
        self.history.step(step).and_then(|step| step.outcome_event)
    }

    /// True if the outcome of a recorded step is kept.
    fn keeps(&self, step: &str) -> bool {
        let Some((position, turns)) = self.locate(step) else { return false };
        match self.fate(position, &turns) {
            Fate::Again | Fate::Entered => false,
            Fate::Kept => true,
            // A step inside a finished one keeps its outcome with it.
            Fate::Beside => (0..position.len()).any(|depth| {
                let around = key(&position[depth].step().id, &turns[..loops(&position[..=depth])]);
                self.fate(&position[..=depth], &turns[..loops(&position[..=depth])]) == Fate::Beside
                    && passed(self.history, &around)
            }),
        }
    }

    /// True if the recorded instant and state of a step are kept: a step that is entered again reads the same values.
    fn keeps_context(&self, step: &str) -> bool {
        let (plain, mark) = step.split_once('#').unwrap_or((step, ""));
        if mark.is_empty() {
            let entered =
                |(position, turns): (&Position<'_>, Vec<usize>)| self.fate(position, &turns) == Fate::Entered;
            return self.keeps(step) || self.locate(step).is_some_and(entered);
        }
        // The mark of an iteration: `poll[2]#delay`.
        let Some((id, mut turns)) = split(plain) else { return false };
        let Some(position) = self.positions.get(id) else { return false };
        let Some(turn) = turns.pop().filter(|_| turns.len() == loops(position)) else { return false };
        match self.fate(position, &turns) {
            Fate::Again => false,
            Fate::Kept | Fate::Beside => true,
            // The pause before the iteration of the start is over; its `until` comes after it.
            Fate::Entered => {
                let current = self.start.turns.get(turns.len()).copied().unwrap_or_default();
                turn < current || (turn == current && mark == "delay")
            }
        }
    }

    /// The position and the iterations of a recorded step, if the new version has it in as many loops.
    fn locate(&self, step: &str) -> Option<(&Position<'_>, Vec<usize>)> {
        let (id, turns) = split(step)?;
        let position = self.positions.get(id)?;
        (loops(position) == turns.len()).then_some((position, turns))
    }

    fn fate(&self, position: &[Level<'_>], turns: &[usize]) -> Fate {
        let start = self.start;
        let mut loops_passed = 0;
        for (depth, level) in position.iter().enumerate() {
            let Some(own) = start.position.get(depth) else {
                // It is within the start.
                return Fate::Again;
            };
            if !std::ptr::eq(own.block, level.block) {
                return match (own.kind, level.kind) {
                    (Nesting::Parallel, Nesting::Parallel) => Fate::Beside,
                    _ => Fate::Again,
                };
            }
            if let Nesting::Loop { in_order } = level.kind {
                let (turn, current) = (turns.get(loops_passed), start.turns.get(loops_passed));
                loops_passed += 1;
                if turn != current {
                    return match (in_order, turn < current) {
                        (true, true) => Fate::Kept,
                        (true, false) => Fate::Again,
                        (false, _) => Fate::Beside,
                    };
                }
            }
            if own.index != level.index {
                let plan = &self.deployment.plan;
                return if after(plan, own.block, own.index).contains(&level.index) {
                    Fate::Again
                } else if before(plan, own.block, own.index).contains(&level.index) {
                    Fate::Kept
                } else {
                    Fate::Beside
                };
            }
        }
        if position.len() == start.position.len() { Fate::Again } else { Fate::Entered }
    }

    /// The ids of the steps that do not run again in any iteration.
    fn settled(&self) -> HashSet<String> {
        let looped = |position: &Position<'_>| {
            // In a loop around the start, later iterations run it again.
            let shared = position.iter().zip(self.start.position);
            let shared = shared.take_while(|(one, other)| std::ptr::eq(one.block, other.block));
            shared.into_iter().any(|(level, _)| matches!(level.kind, Nesting::Loop { .. }))
        };
        let settled = self.positions.iter().filter(|(_, position)| {
            !looped(position)
                && (0..position.len()).any(|depth| {
                    let around = &position[..=depth];
                    loops(around) == 0
                        && matches!(self.fate(around, &[]), Fate::Kept | Fate::Beside)
                        && passed(self.history, &around[depth].step().id)
                })
        });
        settled.map(|(id, _)| (*id).to_owned()).collect()
    }

    /// True if the step may have decided the response to the caller.
    fn may_respond(&self, step: &str) -> bool {
        let verb =
            self.locate(step).and_then(|(position, _)| position.last().map(|level| &level.step().verb));
        verb.is_some_and(|verb| verb.response().is_some() || matches!(verb, Verb::Code(_)))
    }

    /// Checks that the kept results come from steps that do the same in both versions.
    fn check_versions(&self, recorded: &Automation, kept: &Kept) -> Result<(), String> {
        if recorded.definition == self.deployment.automation.definition {
            return Ok(());
        }
        let old = positions(recorded);
        for event in &kept.events {
            let Event::StepFinished { step, .. } = event else { continue };
            let id = split(step).map_or(step.as_str(), |(id, _)| id);
            let (Some(new), Some(old)) = (self.positions.get(id), old.get(id)) else { continue };
            let (new, old) = (operation(new), operation(old));
            if new != old {
                return Err(format!(
                    "step `{step}` is `{new}` in the current version and was `{old}` in the execution; replay from it or an earlier step, or on the original version"
                ));
            }
        }
        Ok(())
    }

    /// Checks that no kept result was undone: what it names exists no longer.
    fn check_undone(&self, log: &[Event], kept: &Kept) -> Result<(), String> {
        let has_failed = log.iter().any(|event| matches!(event, Event::Failing { .. }));
        if !has_failed && !log.iter().any(|event| matches!(event, Event::Cancelling { .. })) {
            return Ok(());
        }
        // A replay that failed has undone only what it did itself.
        let taken_over = match log.first() {
            Some(Event::Started { origin, .. }) => origin.kept_events() as usize,
            _ => 0,
        };
        for event in &kept.events {
            let Event::StepFinished { step, outcome: StepOutcome::Succeeded { .. }, .. } = event else {
                continue;
            };
            let undo = self.locate(step).is_some_and(|(position, _)| {
                let undo = position.last().and_then(|level| level.step().undo.as_ref());
                undo.is_some_and(|undo| has_failed || undo.on_cancel)
            });
            if undo && self.outcome_event(step).is_some_and(|index| index > taken_over) {
                let ended = if has_failed { "failed" } else { "was cancelled" };
                return Err(format!(
                    "step `{step}` was undone when the execution {ended}; replay from it or an earlier step"
                ));
            }
        }
        Ok(())
    }
}

/// The operation of a step, for the comparison of two versions.
fn operation(position: &[Level<'_>]) -> String {
    match position.last().map(|level| &level.step().verb) {
        Some(Verb::Action(call)) => call.action.name.clone(),
        Some(Verb::Call(call)) => format!("call: {}", call.automation),
        Some(verb) => verb.keyword().to_owned(),
        None => String::new(),
    }
}
