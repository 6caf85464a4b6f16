//! `event`: started by an event of another application. Its settings are beside it, like an action's.

use std::sync::Arc;

use model::automation::{EventTrigger, Trigger, WebhookTrigger};
use serde_json::json;
use text::diagnostic::{Diagnostic, Diagnostics, Source};
use text::units::MAX_DURATION;
use text::yaml::{Field, MapReader, Node, parse};

use super::poll::{DELIVERIES, LEAST_PERIOD, STARTS, call};
use super::webhook;
use crate::load::common::{duration_within, named};

/// The keys beside `event` that belong to it.
const BESIDE: [&str; 5] = ["connection", "with", "every", "start", "deliver"];

pub(super) fn lower(
    node: &Node,
    reader: &mut MapReader<'_, '_>,
    diagnostics: &Diagnostics,
) -> Option<Trigger> {
    let event = named(Field::new(node, "event", diagnostics), diagnostics);
    let call = call(event, reader, diagnostics);
    let range = LEAST_PERIOD..=MAX_DURATION;
    let every = duration_within(reader.take("every"), "every", &range, diagnostics);
    let every = every.map(|every| (every, reader.key_span("every")));
    let start = reader.take("start").one_of(&STARTS).map(|start| (start, reader.key_span("start")));
    let deliver = reader.take("deliver").one_of(&DELIVERIES);
    let deliver = deliver.map(|deliver| (deliver, reader.key_span("deliver")));
    Some(Trigger::Event(Box::new(EventTrigger { call: call?, every, start, deliver })))
}

/// Reports the keys of an event that are beside another kind of trigger.
pub(super) fn without(reader: &mut MapReader<'_, '_>, kind: &str, diagnostics: &Diagnostics) {
    for key in BESIDE {
        if reader.take(key).is_present() {
            let message = format!("`{key}` beside `{kind}` has no effect: it belongs to `event`");
            diagnostics.push(
                Diagnostic::warning("unused-setting", message, reader.key_span(key))
                    .help(format!("write it below `{kind}`, or remove it")),
            );
        }
    }
}

/// The webhook that receives the requests of an event: its sender signs with `secret` as the preset defines. `None` if
/// there is no such preset, or if it needs more than a secret.
#[must_use]
pub fn event_webhook(preset: &str, secret: &str) -> Option<WebhookTrigger> {
    // JSON is YAML.
    let written = json!({ "methods": ["POST"], "verify": { "preset": preset, "secret": secret } });
    let diagnostics = Diagnostics::new(Arc::new(Source::new("event", written.to_string())));
    let webhook = parse(&diagnostics).and_then(|node| webhook::lower(&node, &diagnostics))?;
    match webhook {
        Trigger::Webhook(webhook) if diagnostics.error_count() == 0 => Some(*webhook),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_webhook_of_an_event_is_verified_by_its_preset() {
        let webhook = event_webhook("github", "s3cret").expect("there is such a preset");
        assert!(webhook.verify.is_some());
        assert_eq!(webhook.methods, ["POST"]);
        assert!(event_webhook("basic", "s3cret").is_none());
        assert!(event_webhook("gitbub", "s3cret").is_none());
    }
}
