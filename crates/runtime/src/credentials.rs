//! Removes the credentials of senders from requests before they are stored, saved or shown.

use std::borrow::Cow;
use std::sync::Arc;

use model::payload::{Payload, WebhookPayload};
use value::redact::{self, Redactor};
use value::{Key, Map, Value};

/// Masks the credentials in the request that starts an execution, whatever its origin: a sender, a person, a replay or an import. Steps read
/// the masked values at once, so that they read the same after a restart. `results` is `trigger.results`, if the payload has been parsed
/// already; `verifies` is true if the webhook verifies requests.
pub fn mask_credentials(
    payload: &mut Payload,
    results: Option<&mut Value>,
    verifies: bool,
    redactor: &Redactor,
) {
    let Payload::Webhook(payload) = payload else { return };
    let mut headers = Vec::new();
    for (name, value) in &mut payload.headers {
        let masked = match redact::is_credential_name(name) {
            true => redact::MASK.to_owned(),
            false => match redactor.redact_text(value) {
                Cow::Borrowed(_) => continue,
                Cow::Owned(masked) => masked,
            },
        };
        if masked != *value {
            value.clone_from(&masked);
            headers.push((name.clone(), masked));
        }
    }
    // Secrets in the query are searched only if the webhook verifies requests: the query may contain a token.
    let query = mask_query(payload, verifies.then_some(redactor));
    if let Some((parameters, raw)) = &query {
        payload.query_parameters.clone_from(parameters);
        payload.raw_query.clone_from(raw);
    }
    if let Some(decided) = &mut payload.code_result
        && let Some(decided_results) = decided.results.take()
    {
        // The payload returned by the trigger's code replaces the one of the request.
        let masked = redactor.redact_value(decided_results);
        if let Some(results) = results {
            results.clone_from(&masked);
        }
        decided.results = Some(masked);
        return;
    }
    let Some(Value::Map(results)) = results.filter(|_| !headers.is_empty() || query.is_some()) else {
        return;
    };
    let results = Arc::make_mut(results);
    if let Some(Value::Map(map)) = results.get_mut("headers") {
        let map = Arc::make_mut(map);
        for (name, masked) in headers {
            map.insert(name, masked);
        }
    }
    if let Some((parameters, raw)) = query {
        results.insert("queryParameters", parameters);
        results.insert("rawQuery", raw);
    }
}

/// Masks credentials and known secrets in the query of a request. Returns the parameters and the raw text; `None` if
/// there was nothing to mask.
fn mask_query(payload: &WebhookPayload, redactor: Option<&Redactor>) -> Option<(Map, String)> {
    if payload.raw_query.is_empty() && payload.query_parameters.is_empty() {
        return None;
    }
    let redactor = redactor.filter(|redactor| !redactor.is_empty());
    let raw = redact::query_without_credentials(&payload.raw_query);
    // A person may give the parameters without the raw text.
    let is_credential = |(name, value): (&Key, &Value)| {
        redact::is_credential_name(name) && value.as_str() != Some(redact::MASK)
    };
    if redactor.is_none()
        && matches!(raw, Cow::Borrowed(_))
        && !payload.query_parameters.iter().any(is_credential)
    {
        return None;
    }
    let parameters = payload.query_parameters.iter().map(|(name, value)| {
        let value = match (redact::is_credential_name(name), value, redactor) {
            // A parameter that occurs several times is a list.
            (true, Value::List(list), _) => Value::from(vec![Value::from(redact::MASK); list.0.len()]),
            (true, ..) => redact::MASK.into(),
            (false, _, Some(redactor)) => redactor.redact_value(value.clone()),
            (false, _, None) => value.clone(),
        };
        (name.clone(), value)
    });
    let parameters = parameters.collect();
    let raw = redactor.map_or_else(|| raw.to_string(), |redactor| redactor.redact_text(&raw).into_owned());
    Some((parameters, raw))
}

/// Prepares a request for display, saving and export. Removes headers with credentials or signatures, masks credentials
/// in the query, and masks every known secret.
#[must_use]
pub fn remove_credentials(mut payload: WebhookPayload, redactor: &Redactor) -> WebhookPayload {
    payload.headers.retain(|name, _| !redact::is_credential_name(name));
    if let Some((parameters, raw)) = mask_query(&payload, Some(redactor)) {
        (payload.query_parameters, payload.raw_query) = (parameters, raw);
    }
    if redactor.is_empty() {
        return payload;
    }
    for value in payload.headers.values_mut() {
        *value = redactor.redact_text(value).into_owned();
    }
    payload.path_fragment = redactor.redact_text(&payload.path_fragment).into_owned();
    if let Some(masked) = payload.body.data.in_memory().and_then(|body| redactor.redact_bytes(body)) {
        payload.body.data = masked.into();
    }
    payload
}
