//! The XML of requests and answers.

use connector::http::Response;
use model::{ActionError, ErrorKind};
use value::Value;

/// Elements of answers of which there may be several.
const LISTS: [&str; 6] = ["Contents", "CommonPrefixes", "Upload", "Part", "Error", "Deleted"];

/// Reads the answer; an element without children is its text, and each of [`LISTS`] is a list.
pub(super) fn parse(response: &Response, subject: &str) -> Result<Value, ActionError> {
    read(&response.text()).map_err(|error| {
        let message = format!("{subject} gave an answer that cannot be read: {error}");
        ActionError::new(ErrorKind::Response, message)
    })
}

/// Reads a document.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let lists: Value = LISTS.into_iter().map(Value::from).collect();
    // White space at the ends of a key is part of it.
    expression::apply("parseXml", &[("data", &text.into()), ("lists", &lists), ("trim", &false.into())])
}

/// Returns the text at a path; empty without such an element.
pub(super) fn text_at(value: &Value, path: &str) -> String {
    value.path(path).map(|value| value.to_text()).unwrap_or_default()
}

/// Returns the items of a list under the root element.
pub(super) fn items(value: &Value, path: &str) -> Vec<Value> {
    value.path(path).as_ref().and_then(Value::as_list).map(<[Value]>::to_vec).unwrap_or_default()
}

/// Writes a text as the content of an element. A character that XML cannot have is written as a reference, which stores read.
pub(super) fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '&' => written.push_str("&amp;"),
            c if c.is_control() => written.push_str(&format!("&#{};", u32::from(c))),
            c => written.push(c),
        }
    }
    written
}

/// An ETag without its quotes.
pub(super) fn etag(text: &str) -> String {
    text.trim().trim_matches('"').to_owned()
}
