//! The text of pages: its formats, the check of the storage format, and the conversions.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Value, json};

use super::call::{ApiError, reject_if};
use super::model::Body;

/// The format that a text was written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// XHTML-like.
    Storage,
    /// A JSON document, carried inside a string.
    Document,
    Markup,
}

/// Reads the `body` of a page: `{representation, value}`, or the same under the name of its format.
pub(super) fn parse_body(value: &Value, document_format: &str) -> Result<Body, ApiError> {
    let bad = |text: &str| ApiError::bad_request(text);
    let object = value.as_object().ok_or_else(|| bad("'body' must be an object"))?;
    let nested = object.iter().next().filter(|(_, inner)| object.len() == 1 && inner.is_object());
    let (fields, implied) = match nested {
        Some((name, inner)) => (inner, Some(name.as_str())),
        None => (value, None),
    };
    let named = fields["representation"].as_str().or(implied);
    let format = match named.ok_or_else(|| bad("'body.representation' is missing"))? {
        "storage" => Format::Storage,
        "wiki" => Format::Markup,
        name if name == document_format => Format::Document,
        name => return Err(bad(&format!("'{name}' is not a representation that can be written"))),
    };
    let text = fields["value"].as_str().ok_or_else(|| bad("'body.value' must be a string"))?;
    let no_document = format == Format::Document
        && !serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    reject_if(no_document, 400, "'body.value' must be a document in JSON")?;
    if format == Format::Storage {
        let not_well_formed = |why| bad(&format!("The body in storage format is not well-formed: {why}"));
        check_well_formed(text).map_err(not_well_formed)?;
    }
    Ok(Body::Text(format, text.to_owned()))
}

/// The text in storage format. Text of another format becomes one paragraph.
pub(super) fn as_storage(format: Format, text: &str) -> String {
    let plain = match format {
        Format::Storage => return text.to_owned(),
        Format::Markup => text.to_owned(),
        Format::Document => {
            let mut texts = Vec::new();
            collect_texts(&serde_json::from_str(text).unwrap_or_default(), &mut texts);
            texts.join(" ")
        }
    };
    format!("<p>{}</p>", escape(&plain))
}

/// The text as a JSON document. Text of another format becomes its one paragraph.
pub(super) fn as_document(format: Format, text: &str) -> String {
    if format == Format::Document {
        return text.to_owned();
    }
    let paragraph = json!({"type": "paragraph", "content": [{"type": "text", "text": text}]});
    json!({"type": "doc", "version": 1, "content": [paragraph]}).to_string()
}

/// Collects the texts below a node. The parser bounds the depth.
fn collect_texts(node: &Value, into: &mut Vec<String>) {
    into.extend(node["text"].as_str().map(str::to_owned));
    for inner in node["content"].as_array().into_iter().flatten() {
        collect_texts(inner, into);
    }
}

/// Escapes text for the storage format.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Checks that elements close in order, attributes are quoted and ampersands begin entities. Names are not checked.
fn check_well_formed(text: &str) -> Result<(), String> {
    let mut reader = Reader::from_str(text);
    let mut open = Vec::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(tag) => open.push(check_tag(&tag)?),
            Event::Empty(tag) => drop(check_tag(&tag)?),
            Event::End(_) => drop(open.pop()),
            Event::GeneralRef(name) if name.is_empty() => return Err("a `&` without a name".to_owned()),
            Event::Eof => break,
            _ => {}
        }
    }
    open.pop().map_or(Ok(()), |name| Err(format!("the element `{name}` is not closed")))
}

fn check_tag(tag: &BytesStart<'_>) -> Result<String, String> {
    let name = tag.name().as_ref().to_owned();
    if !name.starts_with(|first: char| first.is_alphabetic() || first == '_') {
        return Err("a `<` does not begin an element; write `&lt;`".to_owned());
    }
    tag.attributes().try_for_each(|attribute| attribute.map(drop)).map_err(|error| error.to_string())?;
    Ok(name)
}
