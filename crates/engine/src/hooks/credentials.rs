//! Credentials of senders stay out of what is stored of a request.

use std::borrow::Cow;
use std::sync::Arc;

use model::automation::WebhookTrigger;
use model::payload::WebhookPayload;
use model::redact::{self, Redactor};
use model::value::Value;
use trigger::webhook::Received;

/// What was received, without what its sender proved itself by: that has been checked, and no step needs it. What steps
/// read is the same as what is stored, so that they read it again after a restart.
pub(super) fn hidden(webhook: &WebhookTrigger, mut received: Received, redactor: &Redactor) -> Received {
    let payload = &mut received.payload;
    let mut headers = Vec::new();
    for (name, value) in &mut payload.headers {
        let masked = match redact::is_credential_header(name) {
            true => redact::MASK.to_owned(),
            false => match redactor.text(value) {
                Cow::Borrowed(_) => continue,
                Cow::Owned(masked) => masked,
            },
        };
        if masked != *value {
            value.clone_from(&masked);
            headers.push((name.clone(), masked));
        }
    }
    // A token may have come in the query.
    let in_query = webhook.verify.is_some() && !redactor.is_idle();
    if in_query {
        let query = std::mem::take(&mut payload.query_parameters);
        payload.query_parameters =
            query.into_iter().map(|(name, value)| (name, redactor.value(value))).collect();
        payload.raw_query = redactor.text(&payload.raw_query).into_owned();
    }
    if let Some(decided) = &mut payload.decided
        && let Some(results) = decided.results.take()
    {
        // What the trigger's code made of the request takes the place of what came.
        let results = redactor.value(results);
        received.results.clone_from(&results);
        decided.results = Some(results);
        return received;
    }
    if headers.is_empty() && !in_query {
        return received;
    }
    if let Value::Map(results) = &mut received.results {
        let results = Arc::make_mut(results);
        if let Some(Value::Map(map)) = results.get_mut("headers") {
            let map = Arc::make_mut(map);
            for (name, masked) in headers {
                map.insert(name, masked);
            }
        }
        if in_query {
            results.insert("queryParameters", received.payload.query_parameters.clone());
            results.insert("rawQuery", received.payload.raw_query.as_str());
        }
    }
    received
}

/// A request as people may look at it, save it and hand it on: without the headers that carry credentials or signatures,
/// and without any secret that is known, wherever it stands.
pub(crate) fn dropped(mut payload: WebhookPayload, redactor: &Redactor) -> WebhookPayload {
    payload.headers.retain(|name, _| !redact::is_credential_header(name));
    if redactor.is_idle() {
        return payload;
    }
    for value in payload.headers.values_mut() {
        *value = redactor.text(value).into_owned();
    }
    let query = std::mem::take(&mut payload.query_parameters);
    payload.query_parameters = query.into_iter().map(|(name, value)| (name, redactor.value(value))).collect();
    payload.raw_query = redactor.text(&payload.raw_query).into_owned();
    payload.path_fragment = redactor.text(&payload.path_fragment).into_owned();
    if let Some(masked) = payload.body.data.here().and_then(|body| redactor.bytes(body)) {
        payload.body.data = masked.into();
    }
    payload
}
