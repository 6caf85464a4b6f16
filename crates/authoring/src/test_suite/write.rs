//! Writes parts of test files: the start of a test, and a test at the end of the list.

use model::payload::{EmittedEvent, Payload, WebhookPayload};
use value::redact::{MASK, is_credential_name};
use value::{Map, Value};

/// The headers of a request that describe its connection and not its content.
const CONNECTION_HEADERS: [&str; 8] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "forwarded",
    "host",
    "transfer-encoding",
    "user-agent",
];

/// The key of a test and its value that start an execution with this payload, without credentials.
///
/// # Errors
/// The payload cannot be written in a test, for this reason.
pub fn start_of(payload: &Payload) -> Result<(&'static str, Value), String> {
    Ok(match payload {
        Payload::Manual { inputs } => ("inputs", Value::from(inputs.clone())),
        Payload::Poll { data, .. } | Payload::Emitted(EmittedEvent { data, .. }) => ("found", data.clone()),
        Payload::Webhook(request) => ("payload", request_value(request)?),
        Payload::Schedule { scheduled_at, .. } => ("scheduledAt", Value::from(scheduled_at.to_string())),
    })
}

fn request_value(request: &WebhookPayload) -> Result<Value, String> {
    let mut parts = Map::new();
    parts.insert("method", request.method.as_str());
    if !request.path_fragment.is_empty() {
        parts.insert("pathFragment", request.path_fragment.as_str());
    }
    if !request.query_parameters.is_empty() {
        parts.insert("queryParameters", request.query_parameters.clone());
    }
    let is_kept = |name: &str| !CONNECTION_HEADERS.contains(&name) && !is_credential_name(name);
    let headers = request.headers.iter().filter(|(name, _)| is_kept(name));
    let headers: Map = headers.map(|(name, value)| (name.as_str(), Value::from(value.as_str()))).collect();
    if !headers.is_empty() {
        parts.insert("headers", headers);
    }
    let Some(bytes) = request.body.data.in_memory() else {
        return Err("the body of the request is too large for a test".to_owned());
    };
    if !bytes.is_empty() {
        let limits = value::JsonLimits::default();
        let is_json = request.body.content_type.contains("json");
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                let parsed = Value::from_json(bytes, limits)
                    .ok()
                    .filter(|value| is_json && !matches!(value, Value::String(_)));
                parts.insert("body", parsed.unwrap_or_else(|| Value::from(text)));
            }
            Err(_) => return Err("the body of the request is not text".to_owned()),
        }
    }
    Ok(Value::from(parts))
}

/// True if a value can be written as an expectation: no key of a map is read as a rule, and no secret is hidden in it.
#[must_use]
pub fn is_pattern(value: &Value) -> bool {
    match value {
        Value::File(_) => false,
        Value::List(list) => list.0.iter().all(is_pattern),
        Value::Map(map) => map.iter().all(|(key, value)| !key.starts_with('$') && is_pattern(value)),
        Value::String(text) => !text.contains(MASK) && !text.contains("${{"),
        _ => true,
    }
}

/// Appends an item to the list `tests` of a test file, by inserting lines: no other byte changes. Returns the new text.
///
/// # Errors
/// The list is not written as a block at the end of a line `tests:`.
pub fn append_case(text: &str, case: &dyn Fn(usize) -> Result<String, String>) -> Result<String, String> {
    let mut at = 0;
    let (mut begun, mut end, mut indent) = (false, text.len(), None);
    for line in text.split_inclusive('\n') {
        let content = line.trim_end();
        let own = at;
        at += line.len();
        if !begun {
            begun = content.split('#').next().unwrap_or_default().trim_end() == "tests:";
            continue;
        }
        let width = content.len() - content.trim_start().len();
        if indent.is_none() && content.trim_start().starts_with("- ") {
            indent = Some(width);
        }
        let is_item = content.trim_start().starts_with('-') && Some(width) == indent;
        if !content.is_empty() && width == 0 && !content.starts_with('#') && !is_item {
            end = own;
            break;
        }
    }
    let Some(indent) = indent else {
        return Err("the list `tests` of the file is not a block; add the test by hand".to_owned());
    };
    let body = &text[..end];
    let kept = body.trim_end_matches(['\n', ' ', '\r']).len();
    let newline = if text[kept..].starts_with(['\n', '\r']) { "" } else { "\n" };
    let rest = text[kept..].strip_prefix('\n').unwrap_or(&text[kept..]);
    let first = if newline.is_empty() { "\n" } else { newline };
    Ok(format!("{}{first}\n{}{rest}", &text[..kept], case(indent)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_inserted_and_no_other_byte_changes() {
        let case = |indent: usize| Ok(format!("{}- name: new\n", " ".repeat(indent)));
        for (text, expected) in [
            ("tests:\n  - name: a\n", "tests:\n  - name: a\n\n  - name: new\n"),
            ("tests:\n- name: a", "tests:\n- name: a\n\n- name: new\n"),
            (
                "tests: # all\n  - name: a\n\nnow: x\n",
                "tests: # all\n  - name: a\n\n  - name: new\n\nnow: x\n",
            ),
        ] {
            assert_eq!(append_case(text, &case).as_deref(), Ok(expected), "{text}");
        }
        assert!(append_case("tests: [{name: a}]\n", &case).is_err());
        assert!(append_case("doubles: {}\n", &case).is_err());
    }
}
