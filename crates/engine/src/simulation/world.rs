//! The outside world of a simulation: random faults, crashes, and the oracle that observes each effect.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use jiff::Timestamp;
use model::execution::{Event, ExecutionId, Outcome, StepOutcome};
use model::payload::Payload;
use model::value::Value;
use store::Memory;
use store::memory::{FaultOutcome, FaultPlan, Faults, Operation};
use tokio::sync::Notify;

use super::oracle::IdempotencyKeys;
use super::program::Limit;
use super::random::Random;
use runtime::RecordMemory;

/// Maximum number of operations on the outside before a simulation counts as a livelock.
const MAX_TOUCHES: u32 = 20_000;

/// The outside world. Outlives each engine.
pub(super) struct World {
    pub(super) memory: Memory,
    pub(super) crash: Notify,
    /// The crash record, shared by all lives.
    pub(super) record: Arc<RecordMemory>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) random: Random,
    /// Number of operations on the outside.
    touches: u32,
    /// Operations until the next crash; `None` if there will be none.
    pub(super) until_crash: Option<u32>,
    pub(super) crashed: bool,
    /// True if commits may fail.
    pub(super) faulty: bool,
    /// Number of the current life.
    pub(super) life: u32,
    /// Executions whose acceptance was reported to a caller.
    pub(super) accepted: Vec<ExecutionId>,
    /// OutcomeFilter that were reported to callers.
    pub(super) told: HashMap<ExecutionId, Outcome>,
    /// The first violated invariant.
    pub(super) violation: Option<String>,
    /// First execution of each deduplication key, and the time of its request.
    pub(super) sent: HashMap<String, (ExecutionId, Timestamp)>,
    effects: u64,
    /// Results of calls that only read.
    read_tokens: HashSet<String>,
    /// Attempts that must not start twice: execution, step, number of attempts in its log.
    once: HashSet<(ExecutionId, String, usize)>,
    /// Executions with a concurrency limit that had an effect, with their concurrency group and the last life of an
    /// effect.
    placed: BTreeMap<ExecutionId, (ConcurrencyGroup, u32)>,
    keys: IdempotencyKeys,
    /// Successful calls of this life, by execution and step.
    done: HashSet<(ExecutionId, String)>,
    /// Running calls of this life.
    under_way: HashSet<(ExecutionId, String)>,
    /// Executions in the order of their first appearance.
    numbers: BTreeMap<ExecutionId, usize>,
    pub(super) trace: Vec<String>,
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
    /// Returns this value after so many seconds.
    Takes(u64, Value),
    /// Gets no response and times out.
    GivesUp,
}

impl World {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let state = State {
            random: Random::new(seed),
            touches: 0,
            until_crash: None,
            crashed: false,
            faulty: false,
            life: 0,
            accepted: Vec::new(),
            told: HashMap::new(),
            violation: None,
            sent: HashMap::new(),
            effects: 0,
            read_tokens: HashSet::new(),
            once: HashSet::new(),
            placed: BTreeMap::new(),
            keys: IdempotencyKeys::default(),
            done: HashSet::new(),
            under_way: HashSet::new(),
            numbers: BTreeMap::new(),
            trace: Vec::new(),
        };
        Arc::new(Self {
            memory: Memory::default(),
            crash: Notify::new(),
            record: Arc::default(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the life of another engine.
    pub(super) fn begin_life(&self, until_crash: Option<u32>, faulty: bool) {
        let mut state = self.state();
        state.life += 1;
        state.crashed = false;
        state.until_crash = until_crash;
        state.faulty = faulty;
        state.done.clear();
        state.under_way.clear();
        let life = state.life;
        state.trace.push(format!("life {life}"));
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

    /// Records the start of an effect. `None` if the engine crashed before.
    pub(super) fn begins(&self, effect: &Effect) -> Option<Answer> {
        self.state().touch(self)?;
        if let Err(violation) = self.check_effect(effect) {
            let number = self.state().number(effect.id);
            self.violated(format!("execution {number}: {violation}"));
            return None;
        }
        let mut state = self.state();
        state.effects += 1;
        let (count, number) = (state.effects, state.number(effect.id));
        state.trace.push(format!("effect {number} {}", effect.key));
        state.under_way.insert((effect.id, effect.key.clone()));
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

    /// Simulates a process crash while an execution computes.
    pub(super) fn dies(&self) {
        self.state().crash(self);
    }

    /// Records a violated invariant and stops the engine.
    pub(super) fn violated(&self, violation: String) {
        let mut state = self.state();
        state.violation.get_or_insert(violation);
        state.crashed = true;
        self.crash.notify_one();
    }

    /// Records the end of an effect. `None` if the engine crashed before it got the result.
    pub(super) fn ends(&self, id: ExecutionId, key: &str, well: bool) -> Option<()> {
        let mut state = self.state();
        state.touch(self)?;
        state.under_way.remove(&(id, key.to_owned()));
        if well {
            state.done.insert((id, key.to_owned()));
        }
        Some(())
    }

    /// Records an interrupted call.
    pub(super) fn interrupt_call(&self, id: ExecutionId, key: &str) {
        self.state().under_way.remove(&(id, key.to_owned()));
    }

    /// Checks the invariants at the start of an effect.
    fn check_effect(&self, effect: &Effect) -> Result<(), String> {
        let events = self.events(effect.id);
        let mut state = self.state();
        check_log(effect, &events, &state.read_tokens)?;
        state.keys.check(effect)?;
        let key = &effect.key;
        let name = (effect.id, key.clone());
        if state.done.contains(&name) {
            return Err(format!("`{key}` begins again although it ended well in this process"));
        }
        if state.under_way.contains(&name) {
            return Err(format!("`{key}` begins while it is under way"));
        }
        let is_retry = |event: &&Event| matches!(event, Event::StepRetry { .. } | Event::Retried { .. });
        let tries = events.iter().filter(is_retry).count();
        if effect.once && !state.once.insert((effect.id, key.clone(), tries)) {
            return Err(format!("`{key}` begins again although it was not to after an interruption"));
        }
        drop(state);
        self.check_limit(effect, &events)
    }

    /// Checks the concurrency limit. Cancelled executions close without a permit and do not count.
    fn check_limit(&self, effect: &Effect, events: &[Event]) -> Result<(), String> {
        let Some(limit) = effect.limit else { return Ok(()) };
        let gate = (effect.automation.clone(), if limit.keyed { key_of(events) } else { String::new() });
        {
            let mut state = self.state();
            let life = state.life;
            state.placed.insert(effect.id, (gate.clone(), life));
        }
        if is_over(events) {
            return Ok(());
        }
        let others: Vec<(ExecutionId, bool)> = {
            let state = self.state();
            let others = state.placed.iter().filter(|(id, (other, _))| **id != effect.id && *other == gate);
            others.map(|(id, (_, life))| (*id, *life == state.life)).collect()
        };
        // An execution that crashed before its first commit cannot be known to have started.
        let is_placed = |(id, is_here): &(ExecutionId, bool)| {
            let events = self.events(*id);
            (*is_here || events.len() > 1) && !is_over(&events)
        };
        let others = others.iter().filter(|other| is_placed(other)).count();
        if others >= limit.count {
            return Err(format!(
                "{} executions of `{}` at one time, their limit is {}",
                others + 1,
                effect.automation,
                limit.count
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
    let mut finished: HashMap<&str, &StepOutcome> = HashMap::new();
    for event in events {
        match event {
            Event::StepFinished { step, outcome, .. } => drop(finished.insert(step, outcome)),
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
    let committed = finished.values().any(|outcome| match outcome {
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
    /// Counts an operation on the outside. `None` if the engine crashes at it.
    fn touch(&mut self, world: &World) -> Option<()> {
        if self.crashed {
            return None;
        }
        self.touches += 1;
        if self.touches > MAX_TOUCHES {
            self.violation.get_or_insert_with(|| "it goes round and round".to_owned());
            self.until_crash = Some(0);
        }
        if let Some(left) = &mut self.until_crash {
            if *left == 0 {
                self.crash(world);
                return None;
            }
            *left -= 1;
        }
        Some(())
    }

    fn crash(&mut self, world: &World) {
        // A process dies once: a second notification would end the next life at its start.
        if self.crashed {
            return;
        }
        self.crashed = true;
        world.record.freeze();
        self.trace.push("crash".to_owned());
        world.crash.notify_one();
    }

    /// Number of an execution, independent of its random id.
    pub(super) fn number(&mut self, id: ExecutionId) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(id).or_insert(next)
    }
}

impl Faults for World {
    fn plan(&self, asked: Operation<'_>) -> FaultPlan {
        let mut state = self.state();
        let is_read = matches!(asked, Operation::Read);
        match asked {
            Operation::Append(append) => {
                let number = state.number(append.execution);
                let events: Vec<String> = append.events.iter().map(word).collect();
                state.trace.push(format!("append {number} {} {events:?}", append.first));
            }
            Operation::Accept(accept) => {
                for new in &accept.executions {
                    let number = state.number(new.id);
                    state.trace.push(format!("accept {number}"));
                }
            }
            Operation::Read | Operation::Write => {}
        }
        if state.crashed {
            return FaultPlan { yields: 0, outcome: FaultOutcome::NeverReturns { is_written: false } };
        }
        let turns = if state.random.one_in(4) { state.random.below(4) } else { 0 };
        let written = state.random.one_in(2);
        if state.touch(self).is_none() {
            return FaultPlan {
                yields: 0,
                outcome: FaultOutcome::NeverReturns { is_written: written && !is_read },
            };
        }
        if state.faulty && !is_read && state.random.one_in(60) {
            return FaultPlan { yields: turns, outcome: FaultOutcome::CommitFails { is_written: written } };
        }
        if state.faulty
            && matches!(asked, Operation::Accept(_) | Operation::Append(_))
            && state.random.one_in(30)
        {
            return FaultPlan { yields: turns, outcome: FaultOutcome::Full };
        }
        FaultPlan { yields: turns, outcome: FaultOutcome::Succeeds }
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
