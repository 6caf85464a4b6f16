//! The oracle: invariants checked from outside at the end of a simulation.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::FutureExt as _;
use jiff::Timestamp;
use model::Status;
use model::automation::TriggerId;
use model::engine_event::EngineEventName;
use model::execution::{Event, ExecutionId, History, Origin, Outcome, StepOutcome, WaitReason, split_key};
use model::payload::Payload;
use store::{ExecutionFilter, ExecutionRow, Page};
use value::Value;

use super::generator::{CONSUMERS, HANDLER, RENAMED, SECOND};
use super::loader::Deployed;
use super::program::{Closing, Program};
use super::watch;
use super::world::{Effect, World};

/// Interval of the schedule: an hour, in seconds.
const HOUR: i64 = 3600;

/// Idempotency keys of all effects over all lives: each effect always has the same key, and no two effects share one.
#[derive(Default)]
pub(super) struct IdempotencyKeys {
    given: HashMap<(ExecutionId, String), String>,
    taken: HashSet<String>,
}

impl IdempotencyKeys {
    /// Checks the key of an effect, which may be a repetition (guarantee G7).
    pub(super) fn check(&mut self, effect: &Effect) -> Result<(), String> {
        let (key, name) = (&effect.idempotency_key, (effect.id, effect.key.clone()));
        match self.given.get(&name) {
            Some(before) if before == key => Ok(()),
            Some(before) => {
                Err(format!("`{}` begins again as `{key}`, and was `{before}` before", effect.key))
            }
            None if key.is_empty() || !self.taken.insert(key.clone()) => {
                Err(format!("`{}` begins as `{key}`, which tells it from nothing", effect.key))
            }
            None => {
                self.given.insert(name, key.clone());
                Ok(())
            }
        }
    }
}

/// Checks all final invariants of one engine.
pub(super) fn check_invariants(world: &World, program: &Program, now: Timestamp) -> Result<(), String> {
    let ticks = check_executions(world, program)?;
    if program.has_watch {
        watch::check(world, &rows(world), now)?;
    }
    check_once(&ticks)?;
    let of = |ids: &[&str]| {
        let own = ticks.iter().filter(|(trigger, _)| ids.contains(&trigger.as_str()));
        own.map(|(_, instant)| *instant).collect()
    };
    check_ticks(of(&["main"]))?;
    // An interrupted move leaves an unknown state; a complete one loses no instant and doubles no instant.
    let is_known = world.state().unknown_moves == 0;
    if is_known { check_ticks(of(&[SECOND, RENAMED])) } else { Ok(()) }
}

/// Checks all final invariants of several engines. Instants that pass while a schedule has no node may be left out. Changes are told
/// by the loader of each node, which has none here.
pub(super) fn check_cluster(world: &World, program: &Program, deployed: &Deployed) -> Result<(), String> {
    if program.has_watch {
        watch::check_silences(world, &rows(world))?;
        watch::check_changes(world, &rows(world), deployed)?;
    }
    check_once(&check_executions(world, program)?)
}

/// Checks that no schedule ran an instant twice.
fn check_once(ticks: &[(TriggerId, Timestamp)]) -> Result<(), String> {
    let mut ran = HashSet::new();
    match ticks.iter().find(|tick| !ran.insert(*tick)) {
        Some((trigger, instant)) => Err(format!("the instant {instant} of `{trigger}` ran twice")),
        None => Ok(()),
    }
}

/// Checks the executions and the state. Returns the instants of the schedules that ran.
fn check_executions(world: &World, program: &Program) -> Result<Vec<(TriggerId, Timestamp)>, String> {
    let rows = rows(world);
    let mut children: HashMap<(ExecutionId, String), usize> = HashMap::new();
    let mut retries: HashMap<ExecutionId, usize> = HashMap::new();
    let mut ticks = Vec::new();
    let mut increments = 0_u64;
    let mut events_for_triggers = EventsForTriggers::default();
    let mut failures = Failures::default();
    for row in &rows {
        let events = world.events(row.id);
        let (history, _) = History::checked(&events)
            .map_err(|error| format!("execution {}: {error}", world.state().number(row.id)))?;
        let ended = history.outcome.ok_or_else(|| format!("{} has not ended", row.id))?;
        if row.status != ended.status() {
            return Err(format!(
                "{} is listed as {:?}, its log says {:?}",
                row.id,
                row.status,
                ended.status()
            ));
        }
        if let Some(told) = world.state().told.get(&row.id).filter(|told| *told != ended) {
            return Err(format!(
                "somebody was told that {} ended as {told:?}, its log says {ended:?}",
                row.id
            ));
        }
        events_for_triggers.note(row, &events);
        failures.note(row, &events);
        check_waits(&events).map_err(|error| format!("{}: {error}", row.id))?;
        if !matches!(ended, Outcome::Stuck { .. }) {
            check_closing(&events, &program.closing).map_err(|error| format!("{}: {error}", row.id))?;
        }
        match &row.origin {
            Origin::Call { execution, step, .. } => {
                *children.entry((*execution, step.clone())).or_default() += 1
            }
            Origin::Schedule { instant } => ticks.push((row.trigger.clone(), *instant)),
            _ => {}
        }
        for event in &events {
            match event {
                Event::StepRetry { .. } | Event::Retried { .. } => *retries.entry(row.id).or_default() += 1,
                Event::StepFinished { step, outcome: StepOutcome::Succeeded { .. }, .. }
                | Event::StepClosing { step, outcome: StepOutcome::Succeeded { .. }, .. } => {
                    let (id, has) =
                        (split_key(step).0, |ids: &[String], id: &str| ids.iter().any(|known| known == id));
                    // A failure of its `finally` lets a step fail that has ended well.
                    let is_end =
                        matches!(event, Event::StepClosing { .. }) == has(&program.closing.finally, id);
                    increments += u64::from(is_end && has(&program.increments, id));
                }
                _ => {}
            }
        }
    }
    for id in &world.state().accepted {
        if !rows.iter().any(|row| row.id == *id) {
            return Err(format!("{id} was accepted and is not there"));
        }
    }
    check_calls(&children, &retries)?;
    if program.has_consumers {
        events_for_triggers.check(&world.state().told_events)?;
    }
    if program.has_handler {
        failures.check()?;
    }
    check_count(world, increments)?;
    Ok(ticks)
}

/// Checks that no step called more often than its tries allow.
fn check_calls(
    children: &HashMap<(ExecutionId, String), usize>,
    retries: &HashMap<ExecutionId, usize>,
) -> Result<(), String> {
    for ((parent, step), count) in children {
        let most = 1 + retries.get(parent).copied().unwrap_or_default();
        if *count > most {
            return Err(format!("`{step}` called {count} times, and was to {most} times at most"));
        }
    }
    Ok(())
}

/// The events that started executions, and the sent ones.
#[derive(Default)]
struct EventsForTriggers {
    /// The ids of events whose step has ended well, and that were to start something.
    sent: HashSet<String>,
    /// The number of executions by the id of their event and their Automation.
    started: HashMap<(String, String), usize>,
}

impl EventsForTriggers {
    fn note(&mut self, row: &ExecutionRow, events: &[Event]) {
        // Events of the engine start handlers.
        if let Origin::Emitted { id, .. } = &row.origin
            && CONSUMERS.contains(&row.automation.as_str())
        {
            *self.started.entry((id.clone(), row.automation.to_string())).or_default() += 1;
        }
        let ends = events.iter().filter_map(|event| match event {
            Event::StepFinished { outcome: StepOutcome::Succeeded { result }, .. }
            | Event::StepClosing { outcome: StepOutcome::Succeeded { result }, .. } => result.as_map(),
            _ => None,
        });
        let starts = |result: &&value::Map| {
            result.get("starts").and_then(Value::as_list).is_some_and(|starts| !starts.is_empty())
        };
        let ids = ends.filter(starts).filter_map(|result| result.get("id")?.as_str().map(str::to_owned));
        self.sent.extend(ids);
    }

    /// Checks that each event whose end is stored, or that its caller knows to be sent, has started each consumer once, and no other
    /// event one.
    fn check(&self, told: &BTreeMap<String, bool>) -> Result<(), String> {
        for ((id, automation), count) in &self.started {
            if *count > 1 || !self.sent.contains(id) && !told.contains_key(id) {
                return Err(format!("the event {id} started `{automation}` {count} times"));
            }
        }
        let confirmed = told.iter().filter(|(_, is_confirmed)| **is_confirmed).map(|(id, _)| id);
        for id in self.sent.iter().chain(confirmed) {
            for automation in CONSUMERS {
                if !self.started.contains_key(&(id.clone(), automation.to_owned())) {
                    return Err(format!("the event {id} did not start `{automation}`"));
                }
            }
        }
        Ok(())
    }
}

/// The failed executions, and the ones that a handler was started for.
#[derive(Default)]
struct Failures {
    failed: u64,
    told: u64,
}

impl Failures {
    fn note(&mut self, row: &ExecutionRow, events: &[Event]) {
        if row.automation.as_str() == HANDLER {
            let Some(Event::Started { payload, .. }) = events.first() else { return };
            let Payload::Emitted(event) = &**payload else { return };
            let count = event.data.get("count").and_then(|count| count.to_text().parse::<u64>().ok());
            self.told += count.unwrap_or_default();
        } else if matches!(row.status, Status::Failed | Status::Stuck)
            && !row.origin.is_test()
            && !is_handler(row)
        {
            self.failed += 1;
        }
    }

    /// Checks that the counts of the handler's executions are exact.
    fn check(&self) -> Result<(), String> {
        if self.failed == self.told {
            return Ok(());
        }
        Err(format!("{} executions failed, and a handler heard of {}", self.failed, self.told))
    }
}

/// True for an execution that an event of the engine has started: its failure raises none.
fn is_handler(row: &ExecutionRow) -> bool {
    matches!(&row.origin, Origin::Emitted { event, .. } if EngineEventName::find(event).is_some())
}

/// Checks that `undo` ran for exactly the steps that require it, and each `finally` once for each begin of its step.
fn check_closing(events: &[Event], closing: &Closing) -> Result<(), String> {
    let (mut begun, mut ends) = (HashMap::<&str, usize>::new(), HashMap::<&str, usize>::new());
    let (mut succeeded, mut ran) = (HashMap::new(), HashSet::new());
    let (mut has_failed, mut is_cancelled) = (false, false);
    for event in events {
        match event {
            Event::StepContextRecorded { step, .. } => {
                if let Some(step) = step.strip_suffix(Event::BEGUN) {
                    *begun.entry(step).or_default() += 1;
                }
            }
            Event::StepClosing { step, .. } => *ends.entry(step).or_default() += 1,
            Event::StepFinished { step, outcome, .. } => {
                let _ = succeeded.insert(step.as_str(), matches!(outcome, StepOutcome::Succeeded { .. }));
                ran.insert(step.as_str());
            }
            Event::StepStarted { step, .. } => drop(ran.insert(step.as_str())),
            Event::Failing { .. } => has_failed = true,
            Event::Cancelling { .. } => is_cancelled = true,
            _ => {}
        }
    }
    for (step, count) in &begun {
        let (id, _) = split_key(step);
        let closed = ends.get(step).copied().unwrap_or_default();
        if closing.finally.iter().any(|known| known == id) && closed != *count {
            return Err(format!("`{step}` began {count} times, and its `finally` {closed} times"));
        }
    }
    let keys: HashSet<&str> = begun.keys().chain(succeeded.keys()).copied().collect();
    for key in keys {
        let (id, turns) = split_key(key);
        let Some(undo) = closing.undos.get(id) else { continue };
        let is_due = succeeded.get(key) == Some(&true) || undo.when_begun && begun.contains_key(key);
        let is_undone = is_due && (has_failed || is_cancelled && undo.on_cancel);
        if ran.contains([&undo.step, turns].concat().as_str()) != is_undone {
            let is = if is_undone { "was not undone" } else { "was undone in spite of its end" };
            return Err(format!("`{key}` {is}"));
        }
    }
    Ok(())
}

/// Checks that no event has ended two consecutive waits of a step.
fn check_waits(events: &[Event]) -> Result<(), String> {
    let (mut begun, mut ended) = (HashMap::new(), HashMap::new());
    for (position, event) in events.iter().enumerate() {
        match event {
            Event::Waiting { step, on: WaitReason::Event { .. }, .. } => drop(begun.insert(step, position)),
            Event::WaitEnded { step, signal: Some(signal), .. } => {
                let Some(begun) = begun.get(step) else { continue };
                let id = step.split('[').next().unwrap_or_default();
                let first = *ended.entry((id, signal)).or_insert(position);
                if first < *begun {
                    return Err(format!("the event {signal} ended two waits, that of `{step}` too"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that each instant of the schedule ran once, without gaps between the first and the last.
fn check_ticks(mut ticks: Vec<Timestamp>) -> Result<(), String> {
    ticks.sort_unstable();
    match ticks.windows(2).find(|pair| pair[1].as_second() - pair[0].as_second() != HOUR) {
        Some(pair) => Err(format!("after the instant {} comes {}", pair[0], pair[1])),
        None => Ok(()),
    }
}

/// Checks that the counter in the state equals the number of increments in the logs.
fn check_count(world: &World, increments: u64) -> Result<(), String> {
    let count = world.memory.open().read_state("automation:main", "n").now_or_never();
    let count = count.and_then(Result::ok).flatten().map_or(Value::from(0), |entry| entry.value);
    if count == Value::from(increments) {
        Ok(())
    } else {
        Err(format!("the state counts {}, the logs {increments}", count.to_json()))
    }
}

pub(super) fn rows(world: &World) -> Vec<ExecutionRow> {
    let page = Page { before: None, limit: 1000 };
    let (store, filter) = (world.memory.open(), ExecutionFilter::default());
    let rows = store.executions(&filter, page).now_or_never();
    rows.expect("nothing waits in memory").expect("it is read")
}
