//! The outside world of a simulation: random faults, crashes, and the oracle that observes each effect.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use jiff::Timestamp;
use model::execution::{Event, ExecutionId, Outcome, StepOutcome};
use model::payload::Payload;
use store::memory::{FaultOutcome, FaultPlan, Faults, Operation};
use store::{Append, Memory};
use tokio::sync::Notify;
use value::Value;

use super::oracle::IdempotencyKeys;
use super::program::Limit;
use super::random::Random;
use runtime::RecordMemory;

/// Maximum number of operations of one engine on the outside before a simulation counts as a livelock.
const MAX_TOUCHES: u32 = 20_000;

/// The outside world. Outlives each engine.
pub(super) struct World {
    pub(super) memory: Memory,
    pub(super) crash: Notify,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) random: Random,
    /// Number of operations on the outside.
    touches: u32,
    /// Maximum number of them before the simulation counts as a livelock.
    pub(super) max_touches: u32,
    /// The processes by the numbers of their lives.
    processes: BTreeMap<u32, Process>,
    /// Executions whose acceptance was reported to a caller.
    pub(super) accepted: Vec<ExecutionId>,
    /// OutcomeFilter that were reported to callers.
    pub(super) told: HashMap<ExecutionId, Outcome>,
    /// The events for triggers that callers sent, by id, each with true if it was confirmed.
    pub(super) told_events: BTreeMap<String, bool>,
    /// The number of them.
    told_count: u32,
    /// The first violated invariant.
    pub(super) violation: Option<String>,
    /// First execution of each deduplication key, and the time of its request.
    pub(super) sent: HashMap<String, (ExecutionId, Timestamp)>,
    /// The number of reloads, each of which changed all Automations.
    pub(super) changes: u64,
    /// True if the wall clock was set.
    pub(super) is_clock_set: bool,
    /// The values of the state by which silences are looked for, with their versions.
    pub(super) watched: BTreeMap<(String, String), u64>,
    /// The number of moves of records that may not have happened.
    pub(super) unknown_moves: u32,
    effects: u64,
    /// Results of calls that only read.
    read_tokens: HashSet<String>,
    /// Attempts that must not start twice: execution, step, number of attempts in its log.
    once: HashSet<(ExecutionId, String, usize)>,
    /// Executions with a concurrency limit that had an effect, with their concurrency group and the last life of an
    /// effect.
    placed: BTreeMap<ExecutionId, (ConcurrencyGroup, u32)>,
    keys: IdempotencyKeys,
    /// Executions in the order of their first appearance.
    numbers: BTreeMap<ExecutionId, usize>,
    pub(super) trace: Vec<String>,
}

/// A process, as the world sees it.
#[derive(Default)]
struct Process {
    /// Operations until the next crash; `None` if there will be none.
    until_crash: Option<u32>,
    /// True once it has crashed, or has ended in another way.
    ended: bool,
    /// True once the other nodes have declared its node dead: it may not begin anything.
    is_dead: bool,
    /// True if commits may fail.
    faulty: bool,
    /// The number of appends with results that the store will refuse.
    refusals: u32,
    /// Successful calls, by execution and step.
    done: HashSet<(ExecutionId, String)>,
    /// Running calls.
    under_way: HashSet<(ExecutionId, String)>,
    /// Executions whose last write was refused: what they have done since their last commit, they do again.
    refused: HashSet<ExecutionId>,
    /// The crash record on its disk.
    record: Arc<RecordMemory>,
}

/// The world of one process.
#[derive(Clone)]
pub(super) struct Outside {
    pub(super) world: Arc<World>,
    /// The number of its life.
    pub(super) life: u32,
}

/// A concurrency group: an Automation and the value of its key.
type ConcurrencyGroup = (String, String);

/// A call with an effect, as observed outside.
pub(super) struct Effect {
    pub(super) automation: String,
    pub(super) id: ExecutionId,
    /// The step with its loop indices.
    pub(super) key: String,
    /// Idempotency key of all attempts.
    pub(super) idempotency_key: String,
    /// True if the call only reads: it may begin before the reads whose results it saw are committed.
    pub(super) reads: bool,
    /// Result of the previous step.
    pub(super) saw: Value,
    /// True if an attempt must not start twice.
    pub(super) once: bool,
    pub(super) limit: Option<Limit>,
}

/// Simulated behaviour of a call.
pub(super) enum Answer {
    Result(Value),
    Fails,
    /// Returns this value after a number of seconds.
    Takes(u64, Value),
    /// Gets no response and times out.
    GivesUp,
}

impl World {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let state = State {
            random: Random::new(seed),
            touches: 0,
            max_touches: MAX_TOUCHES,
            processes: BTreeMap::new(),
            accepted: Vec::new(),
            told: HashMap::new(),
            told_events: BTreeMap::new(),
            told_count: 0,
            violation: None,
            sent: HashMap::new(),
            changes: 0,
            is_clock_set: false,
            watched: BTreeMap::new(),
            unknown_moves: 0,
            effects: 0,
            read_tokens: HashSet::new(),
            once: HashSet::new(),
            placed: BTreeMap::new(),
            keys: IdempotencyKeys::default(),
            numbers: BTreeMap::new(),
            trace: Vec::new(),
        };
        Arc::new(Self { memory: Memory::default(), crash: Notify::new(), state: Mutex::new(state) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process, whose crash record is on this disk.
    pub(super) fn begin_life(
        self: &Arc<Self>,
        until_crash: Option<u32>,
        faulty: bool,
        record: Arc<RecordMemory>,
    ) -> Outside {
        let mut state = self.state();
        let life = state.processes.len() as u32 + 1;
        state.processes.insert(life, Process { until_crash, faulty, record, ..Process::default() });
        state.trace.push(format!("life {life}"));
        Outside { world: self.clone(), life }
    }

    pub(super) fn note(&self, what: String) {
        self.state().trace.push(what);
    }

    /// Stored events of an execution.
    pub(super) fn events(&self, id: ExecutionId) -> Vec<Event> {
        let events = self.memory.open();
        let events = events.events(id).now_or_never().expect("nothing waits in memory");
        events.expect("it is read").unwrap_or_default()
    }

    /// True if all executions have ended, and no event is on its way to a trigger.
    pub(super) fn is_done(&self) -> bool {
        let store = self.memory.open();
        let unfinished = store.unfinished_count().now_or_never();
        let events = store.outbox_counts().now_or_never();
        matches!(unfinished, Some(Ok(0)))
            && events.and_then(Result::ok).is_some_and(|events| events.is_empty())
    }

    /// Records a violated invariant and stops all processes.
    pub(super) fn violated(&self, violation: String) {
        self.state().violation.get_or_insert(violation);
        self.crash.notify_one();
    }

    /// Checks the invariants at the start of an effect.
    fn check_effect(&self, life: u32, effect: &Effect) -> Result<(), String> {
        let events = self.events(effect.id);
        let mut state = self.state();
        check_log(effect, &events, &state.read_tokens)?;
        state.keys.check(effect)?;
        let key = &effect.key;
        let name = (effect.id, key.clone());
        let process = state.process(life);
        if process.is_dead {
            return Err(format!("`{key}` begins on a node that the others have declared dead"));
        }
        // A failure of its `finally` lets a step fail that has ended well.
        let outcome = events.iter().rev().find_map(|event| match event {
            Event::StepFinished { step, outcome, .. } if step == key => Some(outcome),
            _ => None,
        });
        let may_repeat = outcome.is_some_and(StepOutcome::may_repeat);
        if process.done.contains(&name) && !process.refused.contains(&effect.id) && !may_repeat {
            return Err(format!("`{key}` begins again although it ended well in this process"));
        }
        if process.under_way.contains(&name) {
            return Err(format!("`{key}` begins while it is under way"));
        }
        let is_retry = |event: &&Event| matches!(event, Event::StepRetry { .. } | Event::Retried { .. });
        let tries = events.iter().filter(is_retry).count();
        if effect.once && !state.once.insert((effect.id, key.clone(), tries)) {
            return Err(format!("`{key}` begins again although it was not to after an interruption"));
        }
        drop(state);
        self.check_limit(life, effect, &events)
    }

    /// Checks the concurrency limit. Cancelled executions close without a permit and do not count.
    fn check_limit(&self, life: u32, effect: &Effect, events: &[Event]) -> Result<(), String> {
        let Some(limit) = effect.limit else { return Ok(()) };
        let gate = (effect.automation.clone(), if limit.keyed { key_of(events) } else { String::new() });
        {
            let mut state = self.state();
            state.placed.insert(effect.id, (gate.clone(), life));
        }
        if is_over(events) {
            return Ok(());
        }
        let others: Vec<(ExecutionId, bool)> = {
            let state = self.state();
            let others = state.placed.iter().filter(|(id, (other, _))| **id != effect.id && *other == gate);
            others.map(|(id, (_, life))| (*id, state.is_at_work(*life))).collect()
        };
        // An execution that crashed before its first commit cannot be known to have started.
        let is_placed = |(id, is_here): &(ExecutionId, bool)| {
            let events = self.events(*id);
            (*is_here || events.len() > 1) && !is_over(&events)
        };
        let others: Vec<ExecutionId> =
            others.into_iter().filter(|other| is_placed(other)).map(|(id, _)| id).collect();
        if others.len() >= limit.count {
            let others: Vec<usize> = others.into_iter().map(|id| self.state().number(id)).collect();
            return Err(format!(
                "it runs beside {others:?}, and the limit of `{}` is {}",
                effect.automation, limit.count
            ));
        }
        Ok(())
    }

    /// Records that a caller got the acceptance of an execution, and if the response contains its outcome.
    pub(super) fn heard(&self, id: ExecutionId, decided: bool) {
        let events = self.events(id);
        if events.is_empty() {
            return self.violated(format!("{id} is acknowledged before it is stored"));
        }
        let has = |event: &Event| matches!(event, Event::Responded { .. } | Event::Finished { .. });
        if decided && !events.iter().any(has) {
            return self.violated(format!("{id} is answered before its answer is stored"));
        }
        self.state().accepted.push(id);
    }
}

/// Checks the log of an execution at the start of an effect.
fn check_log(effect: &Effect, events: &[Event], read_tokens: &HashSet<String>) -> Result<(), String> {
    let key = &effect.key;
    if events.is_empty() {
        return Err(format!("`{key}` begins in an execution that is not stored"));
    }
    let (mut finished, mut closing) = (HashMap::<&str, &StepOutcome>::new(), HashMap::new());
    for event in events {
        match event {
            Event::StepFinished { step, outcome, .. } => drop(finished.insert(step, outcome)),
            Event::StepClosing { step, outcome, .. } => drop(closing.insert(step.as_str(), outcome)),
            Event::Finished { .. } => {
                return Err(format!("`{key}` begins in an execution that has ended"));
            }
            _ => {}
        }
    }
    if let Some(StepOutcome::Succeeded { .. } | StepOutcome::Skipped) = finished.get(key.as_str()) {
        return Err(format!("`{key}` begins again although its end is committed"));
    }
    let Some(token) = effect.saw.as_str().filter(|text| text.starts_with("token-")) else { return Ok(()) };
    if effect.reads && read_tokens.contains(token) {
        return Ok(());
    }
    let committed = finished.values().chain(closing.values()).any(|outcome| match outcome {
        StepOutcome::Succeeded { result } => result.as_str() == Some(token),
        _ => false,
    });
    if committed { Ok(()) } else { Err(format!("`{key}` begins with {token}, which is not committed")) }
}

/// Returns the concurrency key of an execution's request.
fn key_of(events: &[Event]) -> String {
    let Some(Event::Started { payload, .. }) = events.first() else { return String::new() };
    match &**payload {
        Payload::Webhook(payload) => String::from_utf8_lossy(&payload.body.data.for_display()).into_owned(),
        _ => String::new(),
    }
}

/// Returns true if an execution has ended or been cancelled.
fn is_over(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Finished { .. } | Event::Cancelling { .. }))
}

impl State {
    /// The process of a life.
    fn process(&mut self, life: u32) -> &mut Process {
        self.processes.entry(life).or_default()
    }

    /// True if a process runs and no other node owns its executions.
    fn is_at_work(&self, life: u32) -> bool {
        self.processes.get(&life).is_some_and(|process| !process.ended && !process.is_dead)
    }

    /// True if the store is to refuse this append. What it was about to record is done again.
    fn refuses(&mut self, life: u32, append: &Append) -> bool {
        let process = self.process(life);
        let has_result = append.events.iter().any(|event| matches!(event, Event::StepFinished { .. }));
        if process.refusals == 0 || !has_result {
            if process.refused.remove(&append.execution) {
                process.done.retain(|(id, _)| *id != append.execution);
            }
            return false;
        }
        process.refusals -= 1;
        process.refused.insert(append.execution);
        true
    }

    /// Counts an operation of a process on the outside. `None` if it crashes at it.
    fn touch(&mut self, world: &World, life: u32) -> Option<()> {
        if self.process(life).ended || self.violation.is_some() {
            return None;
        }
        self.touches += 1;
        if self.touches > self.max_touches {
            self.violation.get_or_insert_with(|| "it goes round and round".to_owned());
            self.process(life).until_crash = Some(0);
        }
        if let Some(left) = &mut self.process(life).until_crash {
            if *left == 0 {
                self.crash(world, life);
                return None;
            }
            *left -= 1;
        }
        Some(())
    }

    fn crash(&mut self, world: &World, life: u32) {
        // A process dies once: a second notification would end the next life at its start.
        if self.process(life).ended {
            return;
        }
        self.process(life).ended = true;
        self.process(life).record.freeze();
        self.trace.push(format!("crash of {life}"));
        world.crash.notify_one();
    }

    /// Returns the number of an event for triggers that a caller is about to send.
    pub(super) fn next_told(&mut self) -> u32 {
        self.told_count += 1;
        self.told_events.insert(format!("caller-{}", self.told_count), false);
        self.told_count
    }

    /// Number of an execution, independent of its random id.
    pub(super) fn number(&mut self, id: ExecutionId) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(id).or_insert(next)
    }
}

impl Outside {
    /// Records the start of an effect. `None` if the process crashed before.
    pub(super) fn begins(&self, effect: &Effect) -> Option<Answer> {
        let Self { world, life } = self;
        world.state().touch(world, *life)?;
        if let Err(violation) = world.check_effect(*life, effect) {
            let number = world.state().number(effect.id);
            world.violated(format!("execution {number}: {violation}"));
            return None;
        }
        let mut state = world.state();
        state.effects += 1;
        let (count, number) = (state.effects, state.number(effect.id));
        state.trace.push(format!("effect {number} {} in life {life}", effect.key));
        state.process(*life).under_way.insert((effect.id, effect.key.clone()));
        let token = format!("token-{count}");
        if effect.reads {
            state.read_tokens.insert(token.clone());
        }
        let result = Value::from(token);
        Some(match state.random.below(12) {
            0 | 1 => Answer::Fails,
            2 => Answer::Takes(u64::from(state.random.below(90)), result),
            3 if state.random.one_in(4) => Answer::GivesUp,
            _ => Answer::Result(result),
        })
    }

    /// Crashes the process.
    pub(super) fn dies(&self) {
        self.world.state().crash(&self.world, self.life);
    }

    /// Makes the store refuse this many appends with results.
    pub(super) fn refuse(&self, refusals: u32) {
        self.world.state().process(self.life).refusals = refusals;
    }

    /// Notes that the process has ended, without a crash.
    pub(super) fn end(&self) {
        self.world.state().process(self.life).ended = true;
    }

    /// Notes that the node of the process was declared dead.
    pub(super) fn is_declared_dead(&self) {
        self.world.state().process(self.life).is_dead = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.world.state().process(self.life).ended
    }

    /// The crash record on its disk.
    pub(super) fn record(&self) -> Arc<RecordMemory> {
        self.world.state().process(self.life).record.clone()
    }

    /// Records the end of an effect. `None` if the process crashed before it got the result.
    pub(super) fn ends(&self, id: ExecutionId, key: &str, well: bool) -> Option<()> {
        let mut state = self.world.state();
        state.touch(&self.world, self.life)?;
        let process = state.process(self.life);
        process.under_way.remove(&(id, key.to_owned()));
        if well {
            process.done.insert((id, key.to_owned()));
        }
        Some(())
    }

    /// Records an interrupted call.
    pub(super) fn interrupt_call(&self, id: ExecutionId, key: &str) {
        self.world.state().process(self.life).under_way.remove(&(id, key.to_owned()));
    }
}

impl Faults for Outside {
    fn plan(&self, asked: Operation<'_>) -> FaultPlan {
        let mut state = self.world.state();
        let is_read = matches!(asked, Operation::Read);
        match asked {
            Operation::Append(append) => {
                let number = state.number(append.execution);
                let events: Vec<String> = append.events.iter().map(word).collect();
                let (status, keeps) =
                    (append.status.as_str(), if append.keeps_permit { ", keeps its permit" } else { "" });
                state.trace.push(format!(
                    "append {number} {} {events:?} {status}{keeps} in life {}",
                    append.first, self.life
                ));
            }
            Operation::Accept(accept) => {
                for new in &accept.executions {
                    let number = state.number(new.id);
                    state.trace.push(format!("accept {number} in life {}", self.life));
                }
            }
            Operation::Read | Operation::Write => {}
        }
        if state.process(self.life).ended {
            return FaultPlan { yields: 0, outcome: FaultOutcome::NeverReturns { is_written: false } };
        }
        let turns = if state.random.one_in(4) { state.random.below(4) } else { 0 };
        let written = state.random.one_in(2);
        if state.touch(&self.world, self.life).is_none() {
            return FaultPlan {
                yields: 0,
                outcome: FaultOutcome::NeverReturns { is_written: written && !is_read },
            };
        }
        if let Operation::Append(append) = asked
            && state.refuses(self.life, append)
        {
            return FaultPlan { yields: turns, outcome: FaultOutcome::Refused };
        }
        let faulty = state.process(self.life).faulty;
        if faulty && !is_read && state.random.one_in(60) {
            return FaultPlan { yields: turns, outcome: FaultOutcome::CommitFails { is_written: written } };
        }
        if faulty && matches!(asked, Operation::Accept(_) | Operation::Append(_)) && state.random.one_in(30) {
            return FaultPlan { yields: turns, outcome: FaultOutcome::Full };
        }
        FaultPlan { yields: turns, outcome: FaultOutcome::Succeeds }
    }

    fn loses_news(&self) -> bool {
        let mut state = self.world.state();
        state.process(self.life).faulty && state.random.one_in(4)
    }
}

/// Short form of an event for the trace.
fn word(event: &Event) -> String {
    let (word, step) = match event {
        Event::Started { .. } => ("started", ""),
        Event::Resumed { .. } => ("resumed", ""),
        Event::StepStarted { step, .. } => ("stepStarted", step.as_str()),
        Event::StepRetry { step, .. } => ("stepRetry", step.as_str()),
        Event::StepFailed { step, .. } => ("stepFailed", step.as_str()),
        Event::StepClosing { step, .. } => ("stepClosing", step.as_str()),
        Event::StepFinished { step, .. } => ("stepFinished", step.as_str()),
        Event::StepCalled { step, .. } => ("stepCalled", step.as_str()),
        Event::StepContextRecorded { step, .. } => ("stepDated", step.as_str()),
        Event::Waiting { step, .. } => ("waiting", step.as_str()),
        Event::Signalled { step, .. } => ("signalled", step.as_str()),
        Event::WaitEnded { step, .. } => ("waitEnded", step.as_str()),
        Event::Responded { .. } => ("responded", ""),
        Event::Failing { .. } => ("failing", ""),
        Event::Cancelling { .. } => ("cancelling", ""),
        Event::ClockChanged { .. } => ("clockSet", ""),
        Event::Waited { reason, .. } => ("waited", reason.as_str()),
        Event::Answered { .. } => ("answered", ""),
        Event::Retried { .. } => ("retried", ""),
        Event::Finished { outcome, .. } => ("finished", outcome.status().as_str()),
    };
    format!("{word} {step}")
}
