//! XML output: the inverse of `parseXml`.

use value::{Map, Value};

use super::MAX_OUTPUT;

/// The largest depth of nested elements, equal to the limit of the parser.
const MAX_DEPTH: usize = 64;

/// Renders a document. Content is escaped, so that no text can become an element.
pub(super) fn render(document: &Map, declaration: bool) -> Result<String, String> {
    let mut entries = document.iter();
    let (Some((root, value)), None) = (entries.next(), entries.next()) else {
        return Err("`value` must have exactly one entry: the root element".to_owned());
    };
    if matches!(value, Value::List(_)) {
        return Err("`value` has a list as its root; there is one root element".to_owned());
    }
    let mut text = String::new();
    if declaration {
        text.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    }
    element(&mut text, root, value, 1)?;
    Ok(text)
}

fn element(text: &mut String, name: &str, value: &Value, depth: usize) -> Result<(), String> {
    check_name(name)?;
    if depth > MAX_DEPTH {
        return Err(format!("elements nest deeper than {MAX_DEPTH} levels"));
    }
    if text.len() > MAX_OUTPUT {
        return Err(format!("the XML is larger than {} MiB", MAX_OUTPUT >> 20));
    }
    text.push('<');
    text.push_str(name);
    let nothing = Map::new();
    let (inside, own) = match value {
        Value::Map(map) => (&**map, map.get("#text").map(scalar).transpose()?),
        other => (&nothing, Some(scalar(other)?)),
    };
    for (key, value) in inside.iter() {
        if let Some(attribute) = key.strip_prefix('@') {
            check_name(attribute)?;
            text.push_str(&format!(" {attribute}=\"{}\"", escaped(&scalar(value)?)?));
        }
    }
    let start = text.len();
    text.push('>');
    text.push_str(&escaped(&own.unwrap_or_default())?);
    for (key, value) in inside.iter().filter(|(key, _)| !key.starts_with('@') && *key != "#text") {
        match value {
            Value::List(list) => {
                list.0.iter().try_for_each(|item| element(text, key, item, depth + 1))?;
            }
            one => element(text, key, one, depth + 1)?,
        }
    }
    if text.len() == start + 1 {
        text.insert(start, '/');
    } else {
        text.push_str(&format!("</{name}>"));
    }
    Ok(())
}

/// Returns the text of an element or attribute.
fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::List(_) | Value::Map(_) => {
            Err(format!("a {} stands where only text can; a list of lists has no form in XML", value.kind()))
        }
        other => Ok(other.to_text()),
    }
}

/// Escapes the special characters of XML. Rejects characters that XML cannot contain (XML 1.0, 2.2).
fn escaped(text: &str) -> Result<String, String> {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            // A parser would normalise it to a line feed.
            '\r' => escaped.push_str("&#13;"),
            '\t' | '\n' => escaped.push(c),
            c if (c as u32) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                return Err(format!("the character {} has no form in XML", c.escape_unicode()));
            }
            c => escaped.push(c),
        }
    }
    Ok(escaped)
}

fn check_name(name: &str) -> Result<(), String> {
    let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':') || !c.is_ascii();
    let other = |c: char| first(c) || c.is_ascii_digit() || matches!(c, '-' | '.');
    if name.starts_with(first) && name.chars().all(other) {
        return Ok(());
    }
    let shown = text::truncate(name, 40);
    Err(format!("`{}` is not the name of an element or attribute", shown.escape_debug()))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: serde_json::Value, expected: &str) {
        let value = Value::from_serde(value);
        let written = render(value.as_map().expect("a map"), false);
        assert_eq!(written.unwrap_or_else(|words| words), expected);
    }

    #[test]
    fn a_map_is_an_element_with_attributes_children_and_text() {
        check(json!({"a": "x"}), "<a>x</a>");
        check(json!({"a": null}), "<a/>");
        check(
            json!({"a": {"@id": 7, "b": ["1", "2"], "c": {"#text": "t", "@d": true}}}),
            "<a id=\"7\"><b>1</b><b>2</b><c d=\"true\">t</c></a>",
        );
        check(json!({"a": {"@id": "1"}}), "<a id=\"1\"/>");
    }

    #[test]
    fn text_is_escaped_and_never_becomes_an_element() {
        check(
            json!({"a": {"@b": "\"><x/>", "#text": "</a>&"}}),
            "<a b=\"&quot;&gt;&lt;x/&gt;\">&lt;/a&gt;&amp;</a>",
        );
        check(json!({"a b": 1}), "`a b` is not the name of an element or attribute");
        check(json!({"a": "\u{0}"}), "the character \\u{0} has no form in XML");
    }

    #[test]
    fn a_document_has_one_root() {
        check(json!({}), "`value` must have exactly one entry: the root element");
        check(json!({"a": 1, "b": 2}), "`value` must have exactly one entry: the root element");
        check(json!({"a": [1]}), "`value` has a list as its root; there is one root element");
        check(
            json!({"a": {"b": [[1]]}}),
            "a list stands where only text can; a list of lists has no form in XML",
        );
    }

    proptest! {
        #[test]
        fn rendered_xml_round_trips(text in "[ -~äß\n]{0,20}", attribute in "[ -~]{0,12}") {
            let text = text.trim();
            let document = Value::from_serde(json!({"r": {"@a": attribute, "b": text, "c": ["1", {"@x": "y"}]}}));
            let written = Value::from(render(document.as_map().expect("a map"), true).expect("XML"));
            let read = expression::apply("parseXml", &[("data", &written)]).expect("it is XML");
            prop_assert_eq!(read.to_json(), document.to_json());
        }
    }
}
