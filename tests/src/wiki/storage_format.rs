//! Bodies: reading them from a request, a light check of the storage format, and the few conversions there are.

use serde_json::{Value, json};

use super::error::ApiError;
use super::model::{Body, Representation};

/// How deep elements may nest before the check gives up. Real pages stay far below.
const DEEPEST: usize = 512;

/// Reads the `body` of a page: `{representation, value}`, or one format key with such an object below it.
///
/// # Errors
/// 400 for another shape, an unknown representation, or a document that is not a JSON object.
pub(super) fn parse_body(value: &Value) -> Result<Body, ApiError> {
    let object = value.as_object().ok_or_else(|| ApiError::bad_request("'body' must be an object"))?;
    let direct = object.contains_key("representation") || object.contains_key("value");
    let (fields, implied) = match object.iter().next() {
        Some((name, inner)) if !direct && object.len() == 1 => {
            let fields = inner
                .as_object()
                .ok_or_else(|| ApiError::bad_request(format!("'body.{name}' must be an object")))?;
            (fields, Some(name.as_str()))
        }
        _ if direct => (object, None),
        _ => return Err(ApiError::bad_request("'body' must hold one representation")),
    };
    let named = fields.get("representation").and_then(Value::as_str).or(implied);
    let named = named.ok_or_else(|| ApiError::bad_request("'body.representation' is missing"))?;
    let representation = Representation::parse(named).ok_or_else(|| {
        ApiError::bad_request(format!("'{named}' is not a representation that can be written"))
    })?;
    let text = fields.get("value").and_then(Value::as_str);
    let text = text.ok_or_else(|| ApiError::bad_request("'body.value' must be a string"))?;
    if representation == Representation::WikiDocFormat
        && !matches!(serde_json::from_str::<Value>(text), Ok(Value::Object(_)))
    {
        return Err(ApiError::bad_request("'body.value' must be a document in JSON"));
    }
    Ok(Body { representation, value: text.into() })
}

/// The body in storage format. Text that was written in it comes back as it is; other text is wrapped in a paragraph.
pub(super) fn as_storage(body: &Body) -> String {
    match body.representation {
        Representation::Storage => body.value.to_string(),
        Representation::Wiki => format!("<p>{}</p>", escape(&body.value)),
        Representation::WikiDocFormat => {
            let document = serde_json::from_str(&body.value).unwrap_or(Value::Null);
            let mut texts = Vec::new();
            collect_texts(&document, &mut texts);
            format!("<p>{}</p>", escape(&texts.join(" ")))
        }
    }
}

/// The body as a document in JSON. A document comes back as it is; other text becomes the one paragraph of a minimal one.
pub(super) fn as_document(body: &Body) -> String {
    if body.representation == Representation::WikiDocFormat {
        return body.value.to_string();
    }
    let text = json!({"type": "text", "text": &*body.value});
    let paragraph = json!({"type": "paragraph", "content": [text]});
    json!({"type": "doc", "version": 1, "content": [paragraph]}).to_string()
}

fn collect_texts(node: &Value, into: &mut Vec<String>) {
    // A list of work in place of recursion: the text of a request decides the depth.
    let mut rest = vec![node];
    while let Some(node) = rest.pop() {
        if let Some(text) = node.get("text").and_then(Value::as_str) {
            into.push(text.to_owned());
        }
        if let Some(content) = node.get("content").and_then(Value::as_array) {
            rest.extend(content.iter().rev());
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Checks that a text in storage format is well-formed: elements close in order, attributes are quoted, ampersands are
/// entities. Names are not checked against any schema.
///
/// # Errors
/// The error, in one clause.
pub(super) fn check_well_formed(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        rest = &rest[at..];
        rest = if rest.starts_with('&') {
            skip_entity(rest)?
        } else if let Some(comment) = rest.strip_prefix("<!--") {
            after(comment, "-->", "a comment")?
        } else if let Some(data) = rest.strip_prefix("<![CDATA[") {
            after(data, "]]>", "a CDATA section")?
        } else if let Some(instruction) = rest.strip_prefix("<?") {
            after(instruction, "?>", "a processing instruction")?
        } else if let Some(closing) = rest.strip_prefix("</") {
            close(closing, &mut open)?
        } else {
            skip_tag(&rest[1..], &mut open)?
        };
    }
    open.last().map_or(Ok(()), |name| Err(format!("the element `{name}` is not closed")))
}

fn close<'a>(closing: &'a str, open: &mut Vec<&str>) -> Result<&'a str, String> {
    let (name, after) = closing.split_once('>').ok_or("a closing tag does not end")?;
    match open.pop() {
        Some(opened) if opened == name.trim_end() => Ok(after),
        Some(opened) => Err(format!("`</{}>` closes `<{opened}>`", name.trim_end())),
        None => Err(format!("`</{}>` closes nothing", name.trim_end())),
    }
}

fn skip_tag<'a>(tag: &'a str, open: &mut Vec<&'a str>) -> Result<&'a str, String> {
    let end =
        tag.find(|c: char| !(c.is_alphanumeric() || matches!(c, ':' | '-' | '_' | '.'))).unwrap_or(tag.len());
    let (name, mut rest) = tag.split_at(end);
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return Err("a `<` does not begin an element; write `&lt;`".to_owned());
    }
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("/>") {
            return Ok(after);
        }
        if let Some(after) = rest.strip_prefix('>') {
            if open.len() >= DEEPEST {
                return Err(format!("elements nest deeper than {DEEPEST}"));
            }
            open.push(name);
            return Ok(after);
        }
        rest = skip_attribute(rest).ok_or_else(|| format!("the tag of `{name}` is not well-formed"))?;
    }
}

fn skip_attribute(text: &str) -> Option<&str> {
    let (name, after) = text.split_once('=')?;
    let name = name.trim_end();
    if name.is_empty() || name.contains(['<', '>', '/', '"', '\'']) || name.contains(char::is_whitespace) {
        return None;
    }
    let after = after.trim_start();
    let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (value, after) = after[1..].split_once(quote)?;
    (!value.contains('<')).then_some(after)
}

fn skip_entity(text: &str) -> Result<&str, String> {
    let (name, after) = text[1..].split_once(';').ok_or("a `&` does not begin an entity; write `&amp;`")?;
    let digits = name.strip_prefix('#').map(|number| number.strip_prefix('x').unwrap_or(number));
    let letters = digits.unwrap_or(name);
    if letters.is_empty() || letters.len() > 32 || !letters.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err("a `&` does not begin an entity; write `&amp;`".to_owned());
    }
    Ok(after)
}

fn after<'a>(text: &'a str, end: &str, what: &str) -> Result<&'a str, String> {
    text.split_once(end).map(|(_, after)| after).ok_or_else(|| format!("{what} does not end"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn well_formed_storage_passes() {
        for text in [
            "",
            "plain text",
            "<p>one</p><p>two &amp; three&nbsp;&#160;&#xA0;</p>",
            "<br/><hr />",
            r#"<ac:structured-macro ac:name="code"><ac:plain-text-body><![CDATA[a < b && c]]></ac:plain-text-body></ac:structured-macro>"#,
            "<!-- a <comment> --><p class='x > y'>z</p >",
        ] {
            assert_eq!(check_well_formed(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for text in [
            "<p>",
            "</p>",
            "<p><b></p></b>",
            "a < b",
            "a & b",
            "&;",
            "<p class=x></p>",
            "<p class=\"x></p>",
            "<!-- open",
            "<![CDATA[ open ]]",
            "<p",
        ] {
            assert!(check_well_formed(text).is_err(), "{text}");
        }
        assert!(check_well_formed(&"<p>".repeat(DEEPEST + 1)).is_err());
    }

    #[test]
    fn both_forms_of_a_body_are_read() {
        let direct = parse_body(&json!({"representation": "storage", "value": "<p/>"})).unwrap();
        let nested = parse_body(&json!({"storage": {"representation": "storage", "value": "<p/>"}})).unwrap();
        assert_eq!(direct, nested);
        assert_eq!(direct, parse_body(&json!({"storage": {"value": "<p/>"}})).unwrap());
        for bad in [
            json!("text"),
            json!({}),
            json!({"representation": "view", "value": ""}),
            json!({"representation": "storage"}),
            json!({"value": "x"}),
            json!({"storage": "x"}),
            json!({"storage": {"value": 3}}),
            json!({"representation": "wiki_doc_format", "value": "not json"}),
        ] {
            assert_eq!(parse_body(&bad).unwrap_err().status(), 400, "{bad}");
        }
    }

    #[test]
    fn documents_and_storage_convert_into_each_other_by_their_text() {
        let document = as_document(&Body::storage("<p>hello</p>"));
        assert!(document.contains(r#""text":"<p>hello</p>""#), "{document}");
        let written = Body { representation: Representation::WikiDocFormat, value: document.as_str().into() };
        assert_eq!(as_document(&written), document);
        assert_eq!(as_storage(&written), "<p>&lt;p&gt;hello&lt;/p&gt;</p>");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_check_panic(text in "[<>/&;!\\-\\[\\]a-z =\"'é?]{0,60}") {
            let _ = check_well_formed(&text);
        }

        #[test]
        fn escaped_text_is_always_well_formed(text in ".*") {
            let body = Body { representation: Representation::Wiki, value: text.as_str().into() };
            prop_assert_eq!(check_well_formed(&as_storage(&body)), Ok(()));
        }
    }
}
