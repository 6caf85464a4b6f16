//! The answers of a recorded execution, for a trial of another version: by step, then by action and inputs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use model::action::ActionError;
use model::automation::{Automation, Verb};
use model::execution::{Event, History, split_key};
use value::{Map, Value};

use crate::stubs::Call;

/// An answer that a call got.
type Reply = Result<Value, ActionError>;

/// The answers of a recorded execution. Each is given once.
pub(crate) struct RecordedAnswers {
    state: Mutex<State>,
    /// The recorded start of steps that read the clock or the state, and the state that they read.
    starts: HashMap<String, (Timestamp, Value)>,
}

#[derive(Default)]
struct State {
    /// The unused answers of each step, with the names that its call can have.
    by_step: HashMap<String, (Vec<String>, VecDeque<Reply>)>,
    /// The steps that made a call with these inputs, by the name of what they called.
    by_inputs: HashMap<String, Vec<(Map, String)>>,
    /// The first call that the record has no answer for.
    unknown: Option<Call>,
}

impl RecordedAnswers {
    /// Reads the answers of an execution on the version that it ran on. `calls` are its calls with their inputs, as far as
    /// they are known.
    pub(crate) fn new(automation: &Automation, events: &[Event], calls: &[Call]) -> Arc<Self> {
        let names = called_names(automation);
        let mut by_step: HashMap<String, (Vec<String>, VecDeque<Reply>)> = HashMap::new();
        let mut starts = HashMap::new();
        for event in events {
            if let Event::StepContextRecorded { at, step, state } = event {
                starts.insert(step.clone(), (*at, state.clone()));
            }
        }
        for (step, answer) in History::new(events).answers() {
            if let Some(names) = names.get(split_key(step).0) {
                let replies = by_step.entry((*step).to_owned());
                let (_, replies) = replies.or_insert_with(|| (names.clone(), VecDeque::new()));
                replies.push_back(answer.cloned().map_err(Clone::clone));
            }
        }
        let mut by_inputs: HashMap<String, Vec<(Map, String)>> = HashMap::new();
        for call in calls {
            by_inputs.entry(call.name.clone()).or_default().push((call.inputs.clone(), call.key.clone()));
        }
        Arc::new(Self { state: Mutex::new(State { by_step, by_inputs, unknown: None }), starts })
    }

    /// Takes the answer for a call; `None` if the record has none.
    pub(crate) fn take(&self, call: &Call) -> Option<Reply> {
        let mut state = self.state();
        if state.unknown.is_some() {
            return None;
        }
        let State { by_step, by_inputs, .. } = &mut *state;
        let mut of_step = |key: &str| {
            let (_, replies) = by_step.get_mut(key).filter(|(names, _)| names.contains(&call.name))?;
            replies.pop_front()
        };
        of_step(&call.key).or_else(|| {
            let same = by_inputs.get(&call.name)?.iter().filter(|(inputs, _)| *inputs == call.inputs);
            same.map(|(_, key)| key.clone()).find_map(|key| of_step(&key))
        })
    }

    /// Notes a call that the record has no answer for: the trial ends there.
    pub(crate) fn note_unknown(&self, call: Call) {
        self.state().unknown.get_or_insert(call);
    }

    /// Returns the first call that the record has no answer for.
    pub(crate) fn unknown(&self) -> Option<Call> {
        self.state().unknown.clone()
    }

    /// Returns the recorded start of a step, and the state that it read.
    pub(crate) fn start(&self, step: &str) -> Option<(Timestamp, Value)> {
        self.starts.get(step).cloned()
    }

    /// Returns the state that the execution read, by key: of each key the first value.
    pub(crate) fn initial_state(&self) -> Map {
        let mut starts: Vec<_> = self.starts.values().collect();
        starts.sort_by_key(|(at, _)| *at);
        let mut state = Map::new();
        for (_, read) in starts {
            for (key, value) in read.as_map().into_iter().flat_map(Map::iter) {
                if !state.contains_key(key) {
                    state.insert(key.clone(), value.clone());
                }
            }
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the action or the automation that each step calls; all names that it can be if an expression selects it.
pub(crate) fn called_names(automation: &Automation) -> HashMap<String, Vec<String>> {
    let mut names = HashMap::new();
    automation.walk(&mut |step| {
        let called = match &step.verb {
            Verb::Action(call) => std::slice::from_ref(&call.action),
            Verb::Call(call) => call.automation.candidates(),
            _ => return,
        };
        names.insert(step.id.to_string(), called.iter().map(|name| name.name.clone()).collect());
    });
    names
}
