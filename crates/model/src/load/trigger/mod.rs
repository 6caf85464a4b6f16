//! `trigger`: exactly one kind, and a condition beside it. A kind is one file here and one row of [`KINDS`].

pub(super) mod schedule;
pub(super) mod webhook;

use super::keys::{Choice, Key, Object, Shape};
use super::template::expression;
use crate::automation::{Trigger, WebhookMode};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::expression::Expression;
use crate::yaml::{Field, Node};

/// A kind of trigger.
struct Kind {
    word: &'static str,
    lower: fn(&Node, &Diagnostics) -> Option<Trigger>,
}

const KINDS: [Kind; 3] = [
    Kind { word: "webhook", lower: webhook::lower },
    Kind { word: "schedule", lower: schedule::lower },
    Kind { word: "manual", lower: manual },
];

pub(super) static TRIGGER: Object = Object {
    what: "a trigger",
    keys: &[
        Key::new(
            "webhook",
            Shape::Optional(&Shape::Object(&webhook::WEBHOOK)),
            "Started by a request on the automation's own address, live or test.",
        ),
        Key::new("schedule", Shape::Object(&schedule::SCHEDULE), "Started by the clock."),
        Key::new(
            "manual",
            Shape::Optional(&Shape::Object(&MANUAL)),
            "Started by a person, the command line or the API. Takes no settings: `manual: {}`.",
        ),
        Key::new(
            "if",
            Shape::Expression,
            "A condition on the trigger: not met, no execution. Reads `trigger`, `configVars` and `automation`.",
        ),
    ],
    choice: Choice::One(&["webhook", "schedule", "manual"]),
};

static MANUAL: Object = Object { what: "a manual trigger", keys: &[], choice: Choice::Free };

/// A trigger as it was read.
pub(super) struct Read {
    pub(super) trigger: Trigger,
    /// Where its kind is written.
    pub(super) span: Span,
    pub(super) condition: Option<Expression>,
}

impl Read {
    /// Whether a caller waits for the end.
    pub(super) fn is_sync(&self) -> bool {
        matches!(&self.trigger, Trigger::Webhook(webhook) if webhook.mode == WebhookMode::Sync)
    }
}

pub(super) fn read(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Read> {
    let node = field.node()?;
    if let Some(word) = node.as_str().filter(|word| KINDS.iter().any(|kind| kind.word == *word)) {
        let message = format!("expected a mapping for a trigger, found the text `{word}`");
        let help = format!("write the kind as a key: `trigger: {{{word}: {{}}}}`");
        diagnostics.push(Diagnostic::error("wrong-type", message, node.span).help(help));
        return None;
    }
    let mut reader = TRIGGER.open(node, diagnostics)?;
    let mut found = None;
    for kind in &KINDS {
        if let Some(value) = reader.take(kind.word).node() {
            let lowered = (kind.lower)(value, diagnostics);
            found = found.or(lowered.map(|trigger| (trigger, reader.key_span(kind.word))));
        }
    }
    let condition = reader.take("if").node().and_then(|node| expression(node, "if", diagnostics));
    reader.finish();
    let (trigger, span) = found?;
    Some(Read { trigger, span, condition })
}

fn manual(node: &Node, diagnostics: &Diagnostics) -> Option<Trigger> {
    if !node.is_null() {
        MANUAL.open(node, diagnostics)?.finish();
    }
    Some(Trigger::Manual)
}
