//! `event`: started by something that happens in another application. Its settings stand beside it, as an action's do.

use super::poll::{DELIVERIES, LEAST_PERIOD, STARTS, asks};
use crate::automation::{EventTrigger, Trigger};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::load::text::{duration_within, named};
use crate::units::MAX_DURATION;
use crate::yaml::{Field, MapReader, Node};

/// The keys beside `event` that belong to it.
const BESIDE: [&str; 5] = ["connection", "with", "every", "start", "deliver"];

pub(super) fn lower(
    node: &Node,
    reader: &mut MapReader<'_, '_>,
    diagnostics: &Diagnostics,
) -> Option<Trigger> {
    let event = named(Field::new(node, "event", diagnostics), diagnostics);
    let asks = asks(event, reader, diagnostics);
    let range = LEAST_PERIOD..=MAX_DURATION;
    let every = duration_within(reader.take("every"), "every", &range, diagnostics);
    let every = every.map(|every| (every, reader.key_span("every")));
    let start = reader.take("start").one_of(&STARTS).map(|start| (start, reader.key_span("start")));
    let deliver = reader.take("deliver").one_of(&DELIVERIES);
    let deliver = deliver.map(|deliver| (deliver, reader.key_span("deliver")));
    Some(Trigger::Event(Box::new(EventTrigger { asks: asks?, every, start, deliver })))
}

/// Reports the keys of an event that stand beside another kind of trigger.
pub(super) fn without(reader: &mut MapReader<'_, '_>, kind: &str, diagnostics: &Diagnostics) {
    for key in BESIDE {
        if reader.take(key).is_given() {
            let message = format!("`{key}` beside `{kind}` has no effect: it belongs to `event`");
            diagnostics.push(
                Diagnostic::warning("unused-setting", message, reader.key_span(key))
                    .help(format!("write it below `{kind}`, or remove it")),
            );
        }
    }
}
