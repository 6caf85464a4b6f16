//! `event`: started by an event of another application, whose settings are beside it like an action's, or by an own event, which
//! automations and the API send.

use std::sync::Arc;

use model::automation::{
    ChallengeGuard, ChallengeKey, EventTrigger, OwnEventTrigger, SpannedName, Trigger, WebhookTrigger,
};
use serde_json::json;
use text::diagnostic::{Diagnostic, Diagnostics, Source};
use text::units::MAX_DURATION;
use text::yaml::{Field, MapReader, Node, parse};

use super::poll::{DELIVERIES, LEAST_PERIOD, STARTS, call};
use super::{stream, webhook};
use crate::load::common::{duration_within, is_action_name, named};
use crate::load::inputs::event_data;

/// The keys beside `event` that belong to an event of a connector.
const BESIDE: [&str; 9] =
    ["connection", "with", "every", "start", "deliver", "batch", "poison", "consumers", "dedup"];

/// The maximum length of the name of an own event, in bytes.
const MAX_NAME: usize = 200;

/// Reads an own event, or one of a connector. A name such as `order.paid` without further keys may be either: the catalog knows the
/// connectors.
pub(super) fn lower(
    node: &Node,
    reader: &mut MapReader<'_, '_>,
    diagnostics: &Diagnostics,
) -> Option<Trigger> {
    let event = named(Field::new(node, "event", diagnostics), diagnostics);
    let has_data = reader.take("data").is_present();
    let is_of_connector = || BESIDE.iter().any(|key| reader.has(key));
    let is_own = |event: &SpannedName| !is_action_name(&event.name) && !is_of_connector();
    if has_data || event.as_ref().is_some_and(is_own) {
        return own_event(event, reader, diagnostics);
    }
    let call = call(event, reader, diagnostics);
    let range = LEAST_PERIOD..=MAX_DURATION;
    let every = duration_within(reader.take("every"), "every", &range, diagnostics);
    let every = every.map(|every| (every, reader.key_span("every")));
    let start = reader.take("start").one_of(&STARTS).map(|start| (start, reader.key_span("start")));
    let deliver = reader.take("deliver").one_of(&DELIVERIES);
    let deliver = deliver.map(|deliver| (deliver, reader.key_span("deliver")));
    let stream = stream::read(reader, diagnostics);
    Some(Trigger::Event(Box::new(EventTrigger { call: call?, every, start, deliver, stream })))
}

fn own_event(
    event: Option<SpannedName>,
    reader: &mut MapReader<'_, '_>,
    diagnostics: &Diagnostics,
) -> Option<Trigger> {
    for key in BESIDE {
        if reader.take(key).is_present() {
            let message =
                format!("`data` declares an own event, and `{key}` belongs to an event of a connector");
            diagnostics.push(
                Diagnostic::error("conflicting-keys", message, reader.key_span(key))
                    .help("remove one of the two"),
            );
        }
    }
    let data_span = reader.take("data").is_present().then(|| reader.key_span("data"));
    let data = match data_span {
        Some(_) => event_data(reader.take("data"), diagnostics),
        None => Some(Vec::new()),
    };
    let event = event?;
    if event.name.len() > MAX_NAME {
        let message = format!("an event's name has at most {MAX_NAME} bytes, this one {}", event.name.len());
        diagnostics.push(Diagnostic::error("invalid-name", message, event.span));
        return None;
    }
    Some(Trigger::Own(Box::new(OwnEventTrigger { name: event, data: data?, data_span })))
}

/// Reports the keys of an event that are beside another kind of trigger.
pub(super) fn without(reader: &mut MapReader<'_, '_>, kind: &str, diagnostics: &Diagnostics) {
    for key in BESIDE.into_iter().chain(["data"]) {
        if reader.take(key).is_present() {
            let message = format!("`{key}` beside `{kind}` has no effect: it belongs to `event`");
            let help = match key {
                "data" => "declare the values of a start under `inputs`, at the top of the file".to_owned(),
                _ => format!("write it below `{kind}`, or remove it"),
            };
            let span = reader.key_span(key);
            diagnostics.push(Diagnostic::warning("unused-setting", message, span).help(help));
        }
    }
}

/// The webhook that receives the requests of an event: its sender signs with `secret` as the preset defines. `None` if
/// there is no such preset, or if it needs more than a secret. `challenge` is the preset that answers its questions before the first event.
#[must_use]
pub fn event_webhook(preset: &str, challenge: Option<&str>, secret: &str) -> Option<WebhookTrigger> {
    // JSON is YAML.
    let mut written = json!({ "methods": ["POST"], "verify": { "preset": preset, "secret": secret } });
    if let Some(challenge) = challenge {
        written["challenge"] = challenge.into();
    }
    let diagnostics = Diagnostics::new(Arc::new(Source::new("event", written.to_string())));
    let webhook = parse(&diagnostics).and_then(|node| webhook::lower(&node, &diagnostics))?;
    match webhook {
        Trigger::Webhook(webhook) if diagnostics.error_count() == 0 => Some(*webhook).filter(is_open),
        _ => None,
    }
}

/// True if anybody may have the answer to the challenge, which needs no secret then.
fn is_open(webhook: &WebhookTrigger) -> bool {
    webhook.challenge.as_ref().is_none_or(|challenge| {
        challenge.rule.guard == ChallengeGuard::Open && matches!(challenge.key, ChallengeKey::None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_webhook_of_an_event_is_verified_by_its_preset() {
        let webhook = event_webhook("github", None, "s3cret").expect("there is such a preset");
        assert!(webhook.verify.is_some());
        assert_eq!(webhook.methods, ["POST"]);
        let asks = event_webhook("github", Some("microsoftGraph"), "s3cret").expect("there is such a preset");
        assert!(webhook.challenge.is_none() && asks.challenge.is_some());
        assert!(event_webhook("github", Some("graph"), "s3cret").is_none());
        assert!(event_webhook("basic", None, "s3cret").is_none());
        assert!(event_webhook("gitbub", None, "s3cret").is_none());
    }
}
