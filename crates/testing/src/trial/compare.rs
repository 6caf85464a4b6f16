//! The differences between a recorded execution and its trial.

use std::collections::{HashMap, HashSet};

use model::action::ActionError;
use model::automation::Automation;
use model::execution::{Event, History, Outcome, split_key};
use model::payload::HttpResponse;
use model::test_suite::StepEnding;
use value::{Map, Value};

use super::inputs_by_step;
use crate::observed::{ObservedStep, ObservedSteps};
use crate::stubs::Call;

/// A step that differs.
#[derive(Clone, Debug)]
pub struct StepDifference {
    /// The key of the step, with its iterations.
    pub step: String,
    /// The step in the record; `None` if it did not run.
    pub recorded: Option<Side>,
    /// The step in the trial; `None` if it did not run.
    pub trial: Option<Side>,
}

/// One side of a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The ending: `succeeded`, `failed` or `skipped`; `None` if it has not ended.
    pub status: Option<&'static str>,
    /// The result.
    pub result: Value,
    /// The message of the error.
    pub error: Option<String>,
    /// The inputs of its call, if it made one.
    pub inputs: Option<Map>,
    /// The name of the action or the automation that it called.
    pub called: Option<String>,
}

/// A call that the record has no answer for.
#[derive(Clone, Debug)]
pub struct CallDifference {
    /// The key of the step.
    pub step: String,
    /// The name of the action or the automation.
    pub name: String,
    /// The inputs.
    pub inputs: Map,
}

impl CallDifference {
    pub(super) fn new(call: &Call) -> Self {
        Self { step: call.key.clone(), name: call.name.clone(), inputs: call.inputs.clone() }
    }
}

/// The events and the calls of an execution.
type Course<'a> = (&'a [Event], &'a [Call]);

/// Returns the steps that differ, in the order of the trial, and the number of equal steps. `old` is the version of the
/// record.
pub(super) fn steps(
    old: &Automation,
    recorded: (&Vec<Event>, &[Call]),
    trial: (&Vec<Event>, &Vec<Call>),
) -> (Vec<StepDifference>, usize) {
    let names = super::called_names(old);
    let (recorded, trial): (Course<'_>, Course<'_>) = ((recorded.0, recorded.1), (trial.0, trial.1));
    // A name that an expression selected is not in the record.
    let single = |names: &Vec<String>| match names.as_slice() {
        [name] => Some(name.clone()),
        _ => None,
    };
    let before = sides(recorded, &|key, _| names.get(split_key(key).0).and_then(single));
    let called: HashMap<&str, &str> =
        trial.1.iter().map(|call| (call.key.as_str(), call.name.as_str())).collect();
    let after = sides(trial, &|key, _| called.get(key).map(|name| (*name).to_owned()));
    let (mut found, mut same, mut seen) = (Vec::new(), 0, HashSet::new());
    for key in order(trial.0).into_iter().chain(order(recorded.0)) {
        if !seen.insert(key) {
            continue;
        }
        let (recorded, trial) = (before.get(key), after.get(key));
        if is_same_step(recorded, trial) {
            same += 1;
            continue;
        }
        found.push(StepDifference {
            step: key.to_owned(),
            recorded: recorded.cloned(),
            trial: trial.cloned(),
        });
    }
    (found, same)
}

/// Two sides are the same if they end in the same way; of a call also its inputs must agree, if they are known.
fn is_same_step(recorded: Option<&Side>, trial: Option<&Side>) -> bool {
    let (Some(recorded), Some(trial)) = (recorded, trial) else {
        return recorded.is_none() == trial.is_none();
    };
    let inputs_agree = match (&recorded.inputs, &trial.inputs) {
        (Some(recorded), Some(trial)) => recorded == trial,
        _ => true,
    };
    let calls_agree = match (&recorded.called, &trial.called) {
        (Some(recorded), Some(trial)) => recorded == trial,
        _ => true,
    };
    recorded.status == trial.status
        && recorded.result == trial.result
        && recorded.error == trial.error
        && inputs_agree
        && calls_agree
}

fn sides<'a>(
    (events, calls): Course<'a>,
    called: &dyn Fn(&str, ObservedStep<'_>) -> Option<String>,
) -> HashMap<&'a str, Side> {
    let inputs = inputs_by_step(calls);
    let steps = ObservedSteps::from_events(events);
    let side = |key: &'a str, step: ObservedStep<'a>| Side {
        status: step.ending().map(word),
        result: step.result(),
        error: step.error().map(|error: &ActionError| error.message.clone()),
        inputs: inputs.get(key).map(|inputs| (*inputs).clone()),
        called: called(key, step),
    };
    steps.iter().filter(|(key, _)| !key.contains('#')).map(|(key, step)| (key, side(key, step))).collect()
}

fn word(ending: StepEnding) -> &'static str {
    StepEnding::ALL.into_iter().find(|(_, other)| *other == ending).map_or("", |(word, _)| word)
}

/// The keys of the steps in the order in which they appear.
fn order(events: &[Event]) -> Vec<&str> {
    History::new(events).steps().iter().map(|step| step.key).collect()
}

pub(super) fn is_same_outcome(trial: Option<&Outcome>, recorded: Option<&Outcome>) -> bool {
    match (trial, recorded) {
        (Some(Outcome::Failed { error: trial }), Some(Outcome::Failed { error: recorded })) => {
            trial.message == recorded.message && trial.step == recorded.step
        }
        (trial, recorded) => trial == recorded,
    }
}

pub(super) fn is_same_response(trial: Option<&HttpResponse>, recorded: Option<&HttpResponse>) -> bool {
    trial == recorded
}
