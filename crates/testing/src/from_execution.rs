//! A test from a recorded execution: its start, the recorded answers as doubles, and its outcome as expectations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

use authoring::{is_pattern, start_of};
use connector::Registry;
use model::action::{ActionError, Effect};
use model::automation::{Automation, Verb};
use model::execution::{Event, History, Outcome, split_key};
use model::payload::{HttpResponse, Payload};
use value::{Map, Value};

use crate::observed;
use crate::trial::{RecordedAnswers, RecordedExecution};

/// The part of the recorded outcome that a test expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TestStrictness)]
pub enum Strictness {
    /// The outcome, the result, the response, and the ending of each step.
    Full,
    /// The outcome and the ending of each step, since values such as times and ids differ in each execution.
    Endings,
    /// The outcome.
    Outcome,
}

/// Writes the item of a list `tests` that repeats a recorded execution, indented by `indent` spaces. `variable` reads an
/// environment variable.
///
/// # Errors
/// The execution cannot be written as a test, for this reason.
pub fn case_text(
    recorded: &RecordedExecution,
    registry: &Registry,
    name: &str,
    strictness: Strictness,
    variable: &dyn Fn(&str) -> Option<String>,
    indent: usize,
) -> Result<String, String> {
    let Some(Event::Started { at, payload, trigger, .. }) = recorded.events.first() else {
        return Err("the execution has no beginning".to_owned());
    };
    let Some(outcome) = recorded.outcome() else {
        return Err("the execution has not ended".to_owned());
    };
    let mut lines = vec![format!("- name: {}", json(&Value::from(name)))];
    let mut put = |key: &str, value: &Value| lines.push(format!("  {key}: {}", json(value)));
    let (key, start) = start_of(payload)?;
    if !matches!(payload.as_ref(), Payload::Schedule { .. }) {
        put("now", &Value::from(at.to_string()));
    }
    if recorded.automation.automation.triggers.len() > 1 {
        put("trigger", &Value::from(trigger.as_str()));
    }
    put(key, &start);
    let env = environment(&recorded.automation.automation, variable);
    if !env.is_empty() {
        put("env", &Value::from(env));
    }
    let answers = RecordedAnswers::new(&recorded.automation.automation, &recorded.events, &[]);
    let state = answers.initial_state();
    if !state.is_empty() {
        put("state", &Value::from(state));
    }
    let (events, approvals) = signals(&recorded.events);
    for (key, list) in [("events", events), ("approvals", approvals)] {
        if !list.is_empty() {
            put(key, &Value::from(list));
        }
    }
    lines.extend(doubles(recorded, registry)?);
    lines.push("  expect:".to_owned());
    lines.extend(expectations(recorded, outcome, strictness).into_iter().map(|line| format!("    {line}")));
    let mut text = String::new();
    for line in lines {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{}{line}", " ".repeat(indent));
    }
    Ok(text)
}

/// The environment variables that `configVars` read, which a test does not take from the machine. The value of a secret one is
/// left out of the file.
fn environment(automation: &Automation, variable: &dyn Fn(&str) -> Option<String>) -> Map {
    let mut env = Map::new();
    for declared in &automation.config_vars {
        declared.value.expressions(&mut |expression| {
            for reference in expression.references() {
                let [root, name] = &*reference.path else { continue };
                if root != "env" {
                    continue;
                }
                let value =
                    if declared.secret { Some(format!("not-the-real-{name}")) } else { variable(name) };
                if let Some(value) = value {
                    env.insert(name.clone(), value);
                }
            }
        });
    }
    env
}

/// A value as JSON, which is YAML too.
fn json(value: &Value) -> String {
    value.to_json()
}

/// The events and the approvals that came, for `events` and `approvals`.
fn signals(events: &[Event]) -> (Vec<Value>, Vec<Value>) {
    let (mut found, mut approvals) = (Vec::new(), Vec::new());
    for event in events {
        let Event::Signalled { step, signal, .. } = event else { continue };
        if signal.name.is_empty() {
            let mut answer = Map::new();
            answer.insert("step", step.as_str());
            for key in ["option", "form"] {
                if let Some(value) = signal.data.as_map().and_then(|data| data.get(key)) {
                    answer.insert(key, value.clone());
                }
            }
            approvals.push(Value::from(answer));
        } else {
            let sent = [("name", Value::from(signal.name.as_str())), ("data", signal.data.clone())];
            found.push(Value::from(Map::from_iter(sent)));
        }
    }
    (found, approvals)
}

/// The lines of `doubles`: for each step that called something outside, its answers in order.
fn doubles(recorded: &RecordedExecution, registry: &Registry) -> Result<Vec<String>, String> {
    let mut called = HashSet::new();
    recorded.automation.automation.walk(&mut |step| {
        let calls = match &step.verb {
            Verb::Action(call) => {
                let action = registry.action(&call.action.name);
                action.is_some_and(|action| action.spec().effect != Effect::Pure)
            }
            Verb::Call(_) => true,
            _ => false,
        };
        if calls {
            called.insert(step.id.to_string());
        }
    });
    let mut answers: BTreeMap<&str, Vec<Map>> = BTreeMap::new();
    for (step, answer) in History::new(&recorded.events).answers() {
        let (id, _) = split_key(step);
        if !called.contains(id) {
            continue;
        }
        let answer = match answer {
            Ok(result) => Map::from_iter([("result", (*result).clone())]),
            Err(error) => failure(error),
        };
        let answer_value = Value::from(answer.clone());
        if has_file(&answer_value) {
            return Err(format!("the answer of step `{step}` is a file, which a test cannot hold"));
        }
        if json(&answer_value).contains("${{") {
            return Err(format!("the answer of step `{step}` has a text like an expression"));
        }
        answers.entry(id).or_default().push(answer);
    }
    let mut lines = Vec::new();
    if !answers.is_empty() {
        lines.push("  doubles:".to_owned());
    }
    for (step, answers) in answers {
        if let [answer] = answers.as_slice() {
            lines.push(format!("    {step}: {}", json(&Value::from(answer.clone()))));
            continue;
        }
        lines.push(format!("    {step}:"));
        lines.extend(answers.into_iter().map(|answer| format!("      - {}", json(&Value::from(answer)))));
    }
    Ok(lines)
}

fn failure(error: &ActionError) -> Map {
    let known = error.to_value();
    let mut described = Map::new();
    for key in ["kind", "message", "status", "code", "body", "data"] {
        if let Some(value) = known.get(key).filter(|value| !value.is_null()) {
            described.insert(key, value);
        }
    }
    Map::from_iter([("error", Value::from(described))])
}

fn has_file(value: &Value) -> bool {
    match value {
        Value::File(_) => true,
        Value::List(list) => list.0.iter().any(has_file),
        Value::Map(map) => map.iter().any(|(_, value)| has_file(value)),
        _ => false,
    }
}

/// The lines below `expect`.
fn expectations(recorded: &RecordedExecution, outcome: &Outcome, strictness: Strictness) -> Vec<String> {
    let mut lines = Vec::new();
    let full = strictness == Strictness::Full;
    match outcome {
        Outcome::Succeeded { result } => {
            lines.push("outcome: succeeded".to_owned());
            if full && is_pattern(result) {
                lines.push(format!("result: {}", json(result)));
            }
        }
        Outcome::Failed { error } | Outcome::Stuck { error } => {
            lines.push("outcome: failed".to_owned());
            let mut expected = Map::new();
            expected.insert("kind", error.kind.to_string());
            if let Some(step) = &error.step {
                expected.insert("step", step.as_str());
            }
            lines.push(format!("error: {}", json(&Value::from(expected))));
        }
        Outcome::Cancelled { .. } => lines.push("outcome: cancelled".to_owned()),
    }
    if strictness == Strictness::Outcome {
        return lines;
    }
    if full && let Some(response) = response(&recorded.events) {
        lines.push(format!("response: {}", json(&response)));
    }
    let steps = observed::ObservedSteps::from_events(&recorded.events);
    let mut endings: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (key, step) in steps.iter().filter(|(key, _)| !key.contains(['[', '#'])) {
        let word = step.ending().and_then(|ending| {
            let all = model::test_suite::StepEnding::ALL.into_iter();
            all.into_iter().find(|(_, other)| *other == ending).map(|(word, _)| word)
        });
        if let Some(word) = word {
            endings.entry(key).or_default().insert(word);
        }
    }
    let mut endings: Vec<(&str, &str)> =
        endings.into_iter().filter_map(|(key, words)| Some((key, *words.iter().next()?))).collect();
    endings.sort_unstable();
    if !endings.is_empty() {
        let endings: Map = endings.into_iter().map(|(key, word)| (key, Value::from(word))).collect();
        lines.push(format!("steps: {}", json(&Value::from(endings))));
    }
    lines
}

/// The response that a `respond` step set, as a test expects it.
fn response(events: &[Event]) -> Option<Value> {
    let response: &HttpResponse = events.iter().find_map(|event| match event {
        Event::Responded { response, .. } => Some(response),
        _ => None,
    })?;
    let mut expected = Map::from_iter([("status", Value::from(i64::from(response.status)))]);
    let body = response
        .body
        .in_memory()
        .and_then(|bytes| Value::from_json(bytes, value::JsonLimits::default()).ok());
    if let Some(body) = body.filter(is_pattern) {
        expected.insert("body", body);
    }
    Some(Value::from(expected))
}
