//! `poll`: started by new data in the results of an action.

use std::time::Duration;

use expression::template::Template;
use model::automation::{ActionStep, Delivery, NameSetting, PollStart, PollTrigger, SpannedName, Trigger};
use text::diagnostic::Diagnostics;
use text::units::MAX_DURATION;
use text::yaml::{Field, MapReader, Node};

use crate::load::common::{action_name, duration_within, named};
use crate::load::keys::{ANY_NAME, Choice, Key, Object, Shape};
use crate::load::template::{expression, template};

/// The minimum poll interval.
pub(super) const LEAST_PERIOD: Duration = Duration::from_secs(1);
/// The values of `start`: the handling of items that the first poll finds.
pub(super) const STARTS: [(&str, PollStart); 2] = [("new", PollStart::New), ("all", PollStart::All)];
/// The values of `deliver`: the distribution of new items over executions.
pub(super) const DELIVERIES: [(&str, Delivery); 2] = [("batch", Delivery::Batch), ("each", Delivery::Each)];

pub(super) const WITH: Shape = Shape::MapOf(ANY_NAME, &Shape::Template);
pub(super) const START: Key = Key::new(
    "start",
    Shape::Enum(&["new", "all"]),
    "The first poll only records what exists (new), or starts executions for it (all); a new consumer of a broker begins \
     with the next message (new) or with the oldest (all). Default: new.",
);
pub(super) const DELIVER: Key = Key::new(
    "deliver",
    Shape::Enum(&["batch", "each"]),
    "The new records of a poll go to one execution as a list (batch), or each to a separate one (each). \
     Default: batch; each for messages of a broker.",
);

pub(super) static POLL: Object = Object {
    what: "a poll",
    keys: &[
        Key::required(
            "action",
            Shape::Pattern(r"^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$"),
            "The action: `connector.action`, such as `wiki.listPages` or `http.request`.",
        ),
        Key::new("connection", Shape::NonBlankText, "The connection: the name of a file in `connections/`."),
        Key::new(
            "with",
            WITH,
            "The action's inputs. Values may contain `${{ }}`, which read `configVars`, `automation` and `cursor`.",
        ),
        Key::required("every", Shape::Duration, "The interval, at least 1s: `5m`."),
        Key::new(
            "items",
            Shape::Expression,
            "The list of items, read from `result`. Default: the result, or its `results`.",
        ),
        Key::new(
            "id",
            Shape::Expression,
            "The value that identifies an item, read from `item`. Default: its `id`, or the whole of it.",
        ),
        Key::new(
            "cursor",
            Shape::Expression,
            "The value that the next poll reads as `cursor`, from `result`. It is null in the first poll.",
        ),
        START,
        DELIVER,
    ],
    choice: Choice::Any,
};

pub(super) fn lower(node: &Node, diagnostics: &Diagnostics) -> Option<Trigger> {
    let mut reader = POLL.open(node, diagnostics)?;
    let action = named(reader.take("action"), diagnostics);
    let call = call(action, &mut reader, diagnostics);
    let range = LEAST_PERIOD..=MAX_DURATION;
    let every = duration_within(reader.take("every"), "every", &range, diagnostics);
    let mut read = |key| reader.take(key).node().and_then(|node| expression(node, key, diagnostics));
    let [items, id, cursor] = ["items", "id", "cursor"].map(&mut read);
    let start = reader.take("start").one_of(&STARTS).unwrap_or_default();
    let deliver = reader.take("deliver").one_of(&DELIVERIES).unwrap_or_default();
    reader.finish();
    let (call, every) = (call?, every.unwrap_or(MAX_DURATION));
    Some(Trigger::Poll(Box::new(PollTrigger { call, every, items, id, cursor, start, deliver })))
}

/// The polled action, with the connection and the inputs of the trigger.
pub(super) fn call(
    action: Option<SpannedName>,
    reader: &mut MapReader<'_, '_>,
    diagnostics: &Diagnostics,
) -> Option<ActionStep> {
    let connection = reader.take("connection");
    let named = named(connection, diagnostics);
    let with_span = reader.key_span("with");
    let with = templates(reader.take("with"), diagnostics);
    let action = action.filter(|action| action_name(action, diagnostics));
    // Nothing follows from a list that could not be read completely.
    if connection.is_present() && named.is_none() {
        return None;
    }
    Some(ActionStep {
        action: action?,
        connection: named.map(NameSetting::Literal),
        refuses_default: true,
        with: with?,
        with_span,
        debug: false,
    })
}

/// The inputs; `None` if some could not be read.
fn templates(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Vec<(SpannedName, Template)>> {
    if !field.is_present() {
        return Some(Vec::new());
    }
    let read = field.entries()?.iter().map(|entry| {
        let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
        (name, template(&entry.value, diagnostics))
    });
    Some(read.collect())
}
