//! Events, answers and cancellations that a test sends while the execution runs.

use std::time::Duration;

use model::test_suite::{Stimulus, StimulusKind};
use text::diagnostic::{Diagnostics, Span};
use text::yaml::{Field, MapReader, Node};
use value::{Map, Value};

use super::super::common::{duration_within, named};
use super::super::keys::{Choice, IDENTIFIER, Key, Object, Shape};
use super::super::template::literal;
use super::values;

/// The latest time of a stimulus: ten years after the start.
const LATEST: Duration = Duration::from_secs(3650 * 86_400);

const AFTER: Key = Key::new(
    "after",
    Shape::Duration,
    "The time after the start. Default: as soon as somebody waits for it.",
);

pub(super) static EVENT: Object = Object {
    what: "an event",
    keys: &[
        Key::required("name", Shape::NonBlankText, "Its name: `order.paid`."),
        Key::new("data", Shape::Template, "Its data: `event.data`. Default: null."),
        AFTER,
    ],
    choice: Choice::Any,
};

pub(super) static APPROVAL: Object = Object {
    what: "an answer to an approval",
    keys: &[
        Key::required(
            "step",
            Shape::NonBlankText,
            "The waiting step; in a loop with the number of the iteration: `ask[2]`.",
        ),
        Key::required("option", Shape::NonBlankText, "The chosen option: `approve`."),
        Key::new("form", Shape::MapOf(IDENTIFIER, &Shape::Template), "The values of the form."),
        AFTER,
    ],
    choice: Choice::Any,
};

pub(super) static CANCEL: Object = Object {
    what: "a cancellation",
    keys: &[
        Key::new(
            "after",
            Shape::Duration,
            "The time after the start. Default: as soon as nothing else goes on.",
        ),
        Key::new("reason", Shape::NonBlankText, "Why. Default: `cancelled by the test`."),
    ],
    choice: Choice::Any,
};

pub(super) fn read(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> Vec<Stimulus> {
    let [events, approvals, cancel] = ["events", "approvals", "cancel"].map(|key| reader.take(key));
    let mut stimuli = Vec::new();
    stimuli.extend(nodes(events).filter_map(|node| event(node, diagnostics)));
    stimuli.extend(nodes(approvals).filter_map(|node| approval(node, diagnostics)));
    stimuli.extend(cancel.node().and_then(|node| cancellation(node, diagnostics)));
    stimuli
}

fn nodes<'n>(field: Field<'n, '_>) -> impl Iterator<Item = &'n Node> {
    field.list().into_iter().flatten()
}

fn event(node: &Node, diagnostics: &Diagnostics) -> Option<Stimulus> {
    let mut reader = EVENT.open(node, diagnostics)?;
    let name = named(reader.take("name"), diagnostics);
    let data = reader.take("data").node().map(|node| literal(node, "what an event carries", diagnostics));
    let after = after(&mut reader, diagnostics);
    reader.finish();
    let what = StimulusKind::Event { name: name?, data: data.unwrap_or(Value::Null) };
    Some(Stimulus { span: node.head(), after, what })
}

fn approval(node: &Node, diagnostics: &Diagnostics) -> Option<Stimulus> {
    let mut reader = APPROVAL.open(node, diagnostics)?;
    let [step, option] = ["step", "option"].map(|key| named(reader.take(key), diagnostics));
    let form = values(reader.take("form"), diagnostics);
    let form: Map = form.into_iter().map(|(name, value)| (name.name, value)).collect();
    let after = after(&mut reader, diagnostics);
    reader.finish();
    Some(Stimulus {
        span: node.head(),
        after,
        what: StimulusKind::Approval { step: step?, option: option?, form },
    })
}

fn cancellation(node: &Node, diagnostics: &Diagnostics) -> Option<Stimulus> {
    if node.is_null() {
        return Some(cancelled(node.span, None, None));
    }
    let mut reader = CANCEL.open(node, diagnostics)?;
    let reason = reader.take("reason").name().map(str::to_owned);
    let after = after(&mut reader, diagnostics);
    reader.finish();
    Some(cancelled(node.head(), after, reason))
}

fn cancelled(span: Span, after: Option<Duration>, reason: Option<String>) -> Stimulus {
    let reason = reason.unwrap_or_else(|| "cancelled by the test".to_owned());
    Stimulus { span, after, what: StimulusKind::Cancel { reason } }
}

fn after(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> Option<Duration> {
    duration_within(reader.take("after"), "after", &(Duration::ZERO..=LATEST), diagnostics)
}
