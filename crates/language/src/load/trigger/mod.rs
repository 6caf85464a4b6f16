//! `trigger`: exactly one kind, and a condition beside it. A kind is one file here and one row of [`KINDS`].

mod body_schema;
mod challenge;
mod challenges;
mod event;
mod limits;
mod poll;
mod presets;
pub(super) mod schedule;
pub(super) mod verify;
pub(super) mod webhook;

pub use event::event_webhook;

use expression::Expression;
use model::automation::Trigger;
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Field, MapReader, Node};

use super::keys::{Choice, Key, Object, Shape};
use super::template::condition;

/// A kind of trigger.
struct Kind {
    word: &'static str,
    /// Lowers the value of the kind's key and the keys beside it.
    lower: fn(&Node, &mut MapReader<'_, '_>, &Diagnostics) -> Option<Trigger>,
}

const KINDS: [Kind; 5] = [
    Kind { word: "webhook", lower: |node, _, diagnostics| webhook::lower(node, diagnostics) },
    Kind { word: "schedule", lower: |node, _, diagnostics| schedule::lower(node, diagnostics) },
    Kind { word: "event", lower: event::lower },
    Kind { word: "poll", lower: |node, _, diagnostics| poll::lower(node, diagnostics) },
    Kind { word: "manual", lower: |node, _, diagnostics| manual(node, diagnostics) },
];

pub(crate) static TRIGGER: Object = Object {
    what: "a trigger",
    keys: &[
        Key::new(
            "webhook",
            Shape::Optional(&Shape::Object(&webhook::WEBHOOK)),
            "Started by a request on the automation's own address, live or test.",
        ),
        Key::new("schedule", Shape::Object(&schedule::SCHEDULE), "Started by the clock."),
        Key::new(
            "event",
            Shape::Pattern(r"^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$"),
            "Started by an event of another application: `connector.event`, such as `wiki.pageChanged`.",
        ),
        Key::new("poll", Shape::Object(&poll::POLL), "Started by new data in the results of an action."),
        Key::new(
            "manual",
            Shape::Optional(&Shape::Object(&MANUAL)),
            "Started by a person, the command line or the API. Takes no settings: `manual: {}`.",
        ),
        Key::new(
            "if",
            Shape::Expression,
            "A condition on the trigger: if it is false, no execution starts. Reads `trigger`, `configVars` and `automation`.",
        ),
        Key::new(
            "connection",
            Shape::NonBlankText,
            "With `event`: the connection to the application, the name of a file in `connections/`.",
        ),
        Key::new(
            "with",
            poll::WITH,
            "With `event`: its inputs. Values may contain `${{ }}`, which read `configVars`.",
        ),
        Key::new(
            "every",
            Shape::Duration,
            "With a polled `event`: the interval, at least 1s. Default: as its connector says.",
        ),
        poll::START,
        poll::DELIVER,
    ],
    choice: Choice::ExactlyOne(&["webhook", "schedule", "event", "poll", "manual"]),
};

static MANUAL: Object = Object { what: "a manual trigger", keys: &[], choice: Choice::Any };

/// A trigger as far as it was read.
#[derive(Default)]
pub(super) struct Read {
    /// The trigger and the span of its kind.
    pub(super) trigger: Option<(Trigger, Span)>,
    /// True if the mode of the trigger is known.
    settled: bool,
    pub(super) condition: Option<Expression>,
}

impl Read {
    /// True if a caller certainly waits for the end of the execution.
    pub(super) fn is_sync(&self) -> bool {
        self.trigger.as_ref().is_some_and(|(trigger, _)| trigger.is_synchronous())
    }

    /// The trigger, if its mode is known.
    pub(super) fn settled(&self) -> Option<&Trigger> {
        self.trigger.as_ref().filter(|_| self.settled).map(|(trigger, _)| trigger)
    }
}

pub(super) fn read(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Read {
    field.node().and_then(|node| read_node(node, diagnostics)).unwrap_or_default()
}

fn read_node(node: &Node, diagnostics: &Diagnostics) -> Option<Read> {
    if let Some(word) = node.as_str().filter(|word| KINDS.iter().any(|kind| kind.word == *word)) {
        let message = format!("expected a mapping for a trigger, found the text `{word}`");
        let help = format!("write the kind as a key: `trigger: {{{word}: {{}}}}`");
        diagnostics.push(Diagnostic::error("wrong-type", message, node.span).help(help));
        return None;
    }
    let mut reader = TRIGGER.open(node, diagnostics)?;
    let mut kinds = Vec::with_capacity(1);
    let mut settled = true;
    for kind in &KINDS {
        if let Some(value) = reader.take(kind.word).node() {
            kinds.push(((kind.lower)(value, &mut reader, diagnostics), reader.key_span(kind.word)));
            if kind.word != "event" {
                event::without(&mut reader, kind.word, diagnostics);
            }
            settled = kind.word != "webhook" || webhook::has_known_mode(value);
        }
    }
    // With two kinds the intended one is unknown.
    let trigger = match kinds.pop() {
        Some((Some(trigger), span)) if kinds.is_empty() => Some((trigger, span)),
        _ => None,
    };
    let condition = reader.take("if").node().and_then(|node| condition(node, "if", diagnostics));
    reader.finish();
    Some(Read { trigger, settled, condition })
}

fn manual(node: &Node, diagnostics: &Diagnostics) -> Option<Trigger> {
    if !node.is_null() {
        MANUAL.open(node, diagnostics)?.finish();
    }
    Some(Trigger::Manual)
}
