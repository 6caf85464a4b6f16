//! Lowering of the expectations of a test.

use std::time::Duration;

use model::automation::SpannedName;
use model::test_suite::{
    self, CallExpect, CallsExpect, DurationExpect, Ending, Expect, Pattern, ResponseExpect, StepEnding,
    StepExpect, Target,
};
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Field, Kind, MapReader, Node};

use super::super::common::{duration_within, named};
use super::super::keys::{ANY_NAME, Choice, Key, Object, Shape};
use super::super::template::expression;
use super::pattern;

const MOST_CALLS: i64 = 1_000_000;
/// The maximum expected duration of an execution: ten years.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

pub(super) static EXPECT: Object = Object {
    what: "what is expected",
    keys: &[
        Key::new(
            "started",
            Shape::Bool,
            "`false`: no execution starts, because the trigger's `if` or the webhook rejects it. Default: true.",
        ),
        Key::new(
            "outcome",
            Shape::Enum(&["succeeded", "failed", "cancelled"]),
            "The outcome of the execution. Default: failed where an `error` is expected, else succeeded.",
        ),
        Key::new("result", Shape::Template, "The expected result."),
        Key::new(
            "error",
            Shape::AnyOf(&[Shape::Text, Shape::Object(&ERROR)]),
            "The expected error: its message, or a map.",
        ),
        Key::new(
            "steps",
            Shape::MapOf(
                ANY_NAME,
                &Shape::AnyOf(&[
                    Shape::Enum(&["succeeded", "failed", "skipped", "notRun"]),
                    Shape::Object(&STEP),
                ]),
            ),
            "Steps by their id: the outcome of each, or a map. In a loop with the number of the iteration: `copy[2]`.",
        ),
        Key::new("response", Shape::Object(&RESPONSE), "The expected answer to the caller."),
        Key::new(
            "calls",
            Shape::AnyOf(&[
                Shape::List(&Shape::Object(&CALL)),
                Shape::MapOf(ANY_NAME, &Shape::Integer(0, MOST_CALLS)),
            ]),
            "The calls: a list of all of them, in any order, or a map of actions and steps with their numbers.",
        ),
        Key::new(
            "events",
            Shape::AnyOf(&[Shape::List(&Shape::Object(&SENT)), Shape::Object(&RULES)]),
            "The events that `events.emit` sends, all of them, in order; or rules such as `$contains`.",
        ),
        Key::new(
            "logs",
            Shape::AnyOf(&[
                Shape::List(&Shape::AnyOf(&[Shape::Text, Shape::Object(&LINE)])),
                Shape::Object(&RULES),
            ]),
            "The lines that it logs, all of them, in order: texts, or maps; or rules such as `$contains`.",
        ),
        Key::new(
            "duration",
            Shape::AnyOf(&[Shape::Duration, Shape::Object(&DURATION)]),
            "The duration on the test's clock.",
        ),
        Key::new("state", Shape::MapOf(ANY_NAME, &Shape::Template), "The state afterwards, by key."),
        Key::new(
            "that",
            Shape::OneOrMore(&Shape::Expression),
            "Further conditions; they read `result`, `error`, `steps`, `response`, `calls`, `events`, \
             `logs`, `state`, `duration`.",
        ),
    ],
    choice: Choice::Any,
};

/// The matcher rules for a list, in place of its items.
static RULES: Object = Object {
    what: "rules",
    keys: &[
        Key::new("$contains", Shape::Template, "An item like this is among them."),
        Key::new("$length", Shape::Integer(0, MOST_CALLS), "The number of items."),
        Key::new("$not", Shape::Template, "The value must not be like this."),
    ],
    choice: Choice::Any,
};

static ERROR: Object = Object {
    what: "an error",
    keys: &[
        Key::new("message", Shape::Template, "Its message."),
        Key::new("kind", Shape::Template, "Its kind: `status`, `network`, `timeout`, `failed`, …"),
        Key::new("status", Shape::Template, "The HTTP status of the answer."),
        Key::new("code", Shape::Template, "The code of the other system."),
        Key::new("step", Shape::Template, "The step that failed first."),
        Key::new("body", Shape::Template, "The body of the answer."),
        Key::new("data", Shape::Template, "The data that `fail` has added."),
        Key::new("requestId", Shape::Template, "The request id of the other system."),
    ],
    choice: Choice::Any,
};

static STEP: Object = Object {
    what: "what is expected of a step",
    keys: &[
        Key::new("outcome", Shape::Enum(&["succeeded", "failed", "skipped", "notRun"]), "How it ends."),
        Key::new("result", Shape::Template, "The expected result."),
        Key::new(
            "error",
            Shape::AnyOf(&[Shape::Text, Shape::Object(&ERROR)]),
            "The expected error: its message, or a map.",
        ),
        Key::new(
            "branch",
            Shape::NonBlankText,
            "The list that runs: `then`, `else`, a case, `default`; `none` if none does.",
        ),
        Key::new("turns", Shape::Integer(0, MOST_CALLS), "The number of iterations."),
        Key::new("tries", Shape::Integer(1, MOST_CALLS), "The number of tries."),
    ],
    choice: Choice::Any,
};

static RESPONSE: Object = Object {
    what: "a response",
    keys: &[
        Key::new("status", Shape::Template, "Its status."),
        Key::new("headers", Shape::MapOf(ANY_NAME, &Shape::Template), "Some of its headers."),
        Key::new("body", Shape::Template, "Its body, parsed as JSON if that is its type, otherwise as text."),
    ],
    choice: Choice::Any,
};

static CALL: Object = Object {
    what: "a call",
    keys: &[
        Key::new("action", Shape::NonBlankText, "The action: `wiki.createPage`."),
        Key::new("step", Shape::NonBlankText, "The step, by its id."),
        Key::new("with", Shape::Template, "The expected inputs."),
        Key::new("connection", Shape::NonBlankText, "The connection, where an expression selects it."),
        Key::new("automation", Shape::NonBlankText, "The called automation, where an expression selects it."),
        Key::new("times", Shape::Integer(1, MOST_CALLS), "The number of such calls. Default: 1."),
    ],
    choice: Choice::ExactlyOne(&["action", "step"]),
};

static SENT: Object = Object {
    what: "an event",
    keys: &[Key::new("name", Shape::Template, "Its name."), Key::new("data", Shape::Template, "Its data.")],
    choice: Choice::Any,
};

static LINE: Object = Object {
    what: "a line of the log",
    keys: &[
        Key::new("message", Shape::Template, "Its message."),
        Key::new("level", Shape::Template, "debug, info, warn or error."),
        Key::new("step", Shape::Template, "The step that logged it."),
    ],
    choice: Choice::Any,
};

static DURATION: Object = Object {
    what: "a duration",
    keys: &[
        Key::new("atLeast", Shape::Duration, "The least."),
        Key::new("atMost", Shape::Duration, "The most."),
    ],
    choice: Choice::Any,
};

pub(super) fn read(node: &Node, diagnostics: &Diagnostics) -> Option<Expect> {
    let mut reader = EXPECT.open(node, diagnostics)?;
    let started = flag(reader.take("started"));
    let outcome = word(reader.take("outcome"), &Ending::ALL);
    let result = pattern_of(reader.take("result"), diagnostics);
    let error = error(reader.take("error"), diagnostics);
    let steps = steps(reader.take("steps"), diagnostics);
    let response = reader.take("response").node().and_then(|node| response(node, diagnostics));
    let calls = calls(reader.take("calls"), diagnostics);
    let events = list(reader.take("events"), &SENT, diagnostics);
    let logs = list(reader.take("logs"), &LINE, diagnostics);
    let duration = duration(reader.take("duration"), diagnostics);
    let state = patterns(reader.take("state"), diagnostics);
    let that = reader.take("that").one_or_more().unwrap_or_default();
    let that = that.into_iter().filter_map(Field::node);
    let that = that.filter_map(|node| expression(node, "that", diagnostics)).collect();
    let expect = Expect {
        span: node.head(),
        started,
        outcome,
        result,
        error,
        steps,
        response,
        calls,
        events,
        logs,
        duration,
        state,
        that,
    };
    contradictions(&reader, &expect, diagnostics);
    reader.finish();
    Some(expect)
}

/// Reports contradicting expectations.
fn contradictions(reader: &MapReader<'_, '_>, expect: &Expect, diagnostics: &Diagnostics) {
    let conflict = |key: &str, message: &str, related: Span, words: &str, help: &str| {
        diagnostics.push(
            Diagnostic::error("conflicting-keys", message, reader.key_span(key))
                .related(related, words)
                .help(help),
        );
    };
    if let Some((false, span)) = expect.started {
        let of_an_execution =
            ["outcome", "result", "error", "steps", "calls", "events", "logs", "duration", "that"];
        if let Some(key) = of_an_execution.into_iter().find(|key| reader.has(key)) {
            let message = format!("`{key}` is of an execution, and none is to start");
            conflict(key, &message, span, "none starts", "remove one of the two");
        }
    }
    match expect.outcome {
        Some((ending, span)) if ending != Ending::Failed && expect.error.is_some() => {
            let message = "only an execution that fails has an `error`";
            conflict(
                "error",
                message,
                span,
                "it does not fail",
                "write `outcome: failed`, or leave `outcome` out",
            );
        }
        Some((ending, span)) if ending != Ending::Succeeded && expect.result.is_some() => {
            let message = "only an execution that succeeds has a `result`";
            conflict("result", message, span, "it does not succeed", "remove `result`");
        }
        None if expect.error.is_some() && expect.result.is_some() => {
            let message = "an execution has either a `result` or an `error`";
            conflict("result", message, reader.key_span("error"), "it fails", "remove one of the two");
        }
        _ => {}
    }
}

fn flag(field: Field<'_, '_>) -> Option<(bool, Span)> {
    Some((field.bool()?, field.span()?))
}

fn word<T: Copy>(field: Field<'_, '_>, words: &[(&'static str, T)]) -> Option<(T, Span)> {
    Some((field.one_of(words)?, field.span()?))
}

fn number(field: Field<'_, '_>, least: i64) -> Option<(u32, Span)> {
    let number = field.integer(least..=MOST_CALLS)?;
    Some((u32::try_from(number).ok()?, field.span()?))
}

fn pattern_of(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Pattern> {
    field.node().map(|node| pattern::read(node, diagnostics))
}

fn patterns(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<(SpannedName, Pattern)> {
    let entries = field.entries().into_iter().flatten();
    let read = entries.map(|entry| {
        let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
        (name, pattern::read(&entry.value, diagnostics))
    });
    read.collect()
}

/// A map that is matched partially; a plain text is matched with its `message`.
fn entries_of(node: &Node, of: &'static Object, diagnostics: &Diagnostics) -> Option<Pattern> {
    let entries = if let Kind::Map(_) = node.kind {
        let mut reader = of.open(node, diagnostics)?;
        let entries = of.keys.iter().filter_map(|key| {
            let span = reader.key_span(key.name);
            let pattern = pattern_of(reader.take(key.name), diagnostics)?;
            Some((SpannedName { name: key.name.to_owned(), span }, pattern))
        });
        let entries = entries.collect();
        reader.finish();
        entries
    } else {
        let pattern = pattern::read(node, diagnostics);
        if node.as_str().is_none() {
            let message = format!("expected a text or a mapping for {}, found {}", of.what, node.kind_name());
            diagnostics.push(Diagnostic::error("wrong-type", message, node.head()));
            return None;
        }
        vec![(SpannedName { name: "message".to_owned(), span: node.span }, pattern)]
    };
    Some(Pattern { span: node.head(), matcher: test_suite::Matcher::Map(entries) })
}

fn error(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Pattern> {
    entries_of(field.node()?, &ERROR, diagnostics)
}

/// A list that is matched exactly, or matcher rules for it.
fn list(field: Field<'_, '_>, of: &'static Object, diagnostics: &Diagnostics) -> Option<Pattern> {
    if let Some(node) = field.node().filter(|node| pattern::is_rules(node)) {
        return Some(pattern::read(node, diagnostics));
    }
    let items = field.list()?;
    let items = items.iter().filter_map(|item| entries_of(item, of, diagnostics)).collect();
    Some(Pattern { span: field.span()?, matcher: test_suite::Matcher::List(items) })
}

fn steps(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Vec<(SpannedName, StepExpect)> {
    let entries = field.entries().into_iter().flatten();
    let read = entries.filter_map(|entry| {
        let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
        Some((name, step(&entry.value, diagnostics)?))
    });
    read.collect()
}

fn step(node: &Node, diagnostics: &Diagnostics) -> Option<StepExpect> {
    if node.as_str().is_some() {
        let outcome = word(Field::new(node, "steps", diagnostics), &StepEnding::ALL)?;
        return Some(StepExpect { outcome: Some(outcome), ..StepExpect::default() });
    }
    let mut reader = STEP.open(node, diagnostics)?;
    let step = StepExpect {
        outcome: word(reader.take("outcome"), &StepEnding::ALL),
        result: pattern_of(reader.take("result"), diagnostics),
        error: error(reader.take("error"), diagnostics),
        branch: named(reader.take("branch"), diagnostics),
        turns: number(reader.take("turns"), 0),
        tries: number(reader.take("tries"), 1),
    };
    reader.finish();
    Some(step)
}

fn response(node: &Node, diagnostics: &Diagnostics) -> Option<ResponseExpect> {
    let mut reader = RESPONSE.open(node, diagnostics)?;
    let response = ResponseExpect {
        span: node.head(),
        status: pattern_of(reader.take("status"), diagnostics),
        headers: patterns(reader.take("headers"), diagnostics),
        body: pattern_of(reader.take("body"), diagnostics),
    };
    reader.finish();
    Some(response)
}

fn calls(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<CallsExpect> {
    let node = field.node()?;
    if let Kind::Map(map) = &node.kind {
        let counts = map.iter().filter_map(|entry| {
            let (count, _) = number(Field::new(&entry.value, "calls", diagnostics), 0)?;
            Some((SpannedName { name: entry.key.clone(), span: entry.key_span }, count))
        });
        return Some(CallsExpect::Counts(counts.collect()));
    }
    let calls = field.list()?.iter().filter_map(|node| call(node, diagnostics)).collect();
    Some(CallsExpect::Whole { span: node.span, calls })
}

fn call(node: &Node, diagnostics: &Diagnostics) -> Option<CallExpect> {
    let mut reader = CALL.open(node, diagnostics)?;
    let [action, step] = ["action", "step"].map(|key| named(reader.take(key), diagnostics));
    let with = pattern_of(reader.take("with"), diagnostics);
    let times = number(reader.take("times"), 1).map_or(1, |(times, _)| times);
    let [connection, automation] =
        ["connection", "automation"].map(|key| named(reader.take(key), diagnostics).map(|named| named.name));
    reader.finish();
    let span = action.as_ref().or(step.as_ref()).map_or_else(|| node.head(), |named| named.span);
    let target = match (action, step) {
        (Some(action), _) => Target::Action(action.name),
        (None, step) => Target::Step(step?.name),
    };
    Some(CallExpect { span, target, with, connection, automation, times })
}

fn duration(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<DurationExpect> {
    let node = field.node()?;
    if let Kind::Map(_) = node.kind {
        let mut reader = DURATION.open(node, diagnostics)?;
        let [at_least, at_most] = ["atLeast", "atMost"]
            .map(|key| duration_within(reader.take(key), key, &(Duration::ZERO..=LONGEST), diagnostics));
        reader.finish();
        return Some(DurationExpect {
            span: node.head(),
            at_least: at_least.unwrap_or_default(),
            at_most: at_most.unwrap_or(Duration::MAX),
        });
    }
    let exact = duration_within(field, "duration", &(Duration::ZERO..=LONGEST), diagnostics)?;
    Some(DurationExpect { span: node.span, at_least: exact, at_most: exact })
}
