//! The parts of a message, from the structure that the server tells.

use async_imap::imap_proto::{
    BodyContentCommon, BodyContentSinglePart, BodyParams, BodyStructure, ContentEncoding,
};
use model::{ActionError, ErrorKind};

use super::decode::Encoding;
use super::header::parameter;

/// The largest number of parts.
pub(super) const MAX_PARTS: usize = 200;
/// The largest depth of parts in parts.
pub(super) const MAX_LEVELS: usize = 8;
/// The longest name of an attachment, in characters.
const MAX_NAME: usize = 200;

/// The parts of a message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Parts {
    pub text: Option<Part>,
    pub html: Option<Part>,
    pub attachments: Vec<Part>,
}

/// A part without parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// The section by which it is read: `2.1`.
    pub section: String,
    /// The media type: `application/pdf`.
    pub content_type: String,
    pub charset: Option<String>,
    pub encoding: Encoding,
    /// The bytes before they are decoded, as the server tells.
    pub size: u64,
    pub name: String,
}

/// Reads the structure of a message.
pub(super) fn parts(structure: &BodyStructure<'_>) -> Result<Parts, ActionError> {
    let mut parts = Parts::default();
    let mut count = 0;
    // A message without parts has one, which is its text.
    let root = if matches!(structure, BodyStructure::Multipart { .. }) { "" } else { "TEXT" };
    collect(structure, (root.to_owned(), 0), &mut parts, &mut count)?;
    Ok(parts)
}

fn collect(
    structure: &BodyStructure<'_>,
    (section, level): (String, usize),
    parts: &mut Parts,
    count: &mut usize,
) -> Result<(), ActionError> {
    *count += 1;
    if *count > MAX_PARTS {
        return Err(limit(format!("the message has more than {MAX_PARTS} parts")));
    }
    let (common, other) = match structure {
        BodyStructure::Multipart { bodies, .. } => {
            if level >= MAX_LEVELS {
                return Err(limit(format!("the message has parts in parts, more than {MAX_LEVELS} deep")));
            }
            for (index, body) in bodies.iter().enumerate() {
                let number = index + 1;
                let section =
                    if section.is_empty() { number.to_string() } else { format!("{section}.{number}") };
                collect(body, (section, level + 1), parts, count)?;
            }
            return Ok(());
        }
        BodyStructure::Basic { common, other, .. }
        | BodyStructure::Text { common, other, .. }
        | BodyStructure::Message { common, other, .. } => (common, other),
    };
    let name = file_name(common);
    let is_attachment = name.is_some()
        || common
            .disposition
            .as_ref()
            .is_some_and(|disposition| disposition.ty.eq_ignore_ascii_case("attachment"));
    let part = part(section, common, other, name);
    match part.content_type.as_str() {
        "text/plain" if !is_attachment && parts.text.is_none() => parts.text = Some(part),
        "text/html" if !is_attachment && parts.html.is_none() => parts.html = Some(part),
        _ => parts.attachments.push(part),
    }
    Ok(())
}

fn part(
    section: String,
    common: &BodyContentCommon<'_>,
    other: &BodyContentSinglePart<'_>,
    name: Option<String>,
) -> Part {
    let content_type = content_type(common);
    let name = name.unwrap_or_else(|| {
        let number = section.replace('.', "-").replace("TEXT", "1");
        let extension = match content_type.as_str() {
            "message/rfc822" => ".eml",
            "text/plain" => ".txt",
            "text/html" => ".html",
            "text/calendar" => ".ics",
            _ => "",
        };
        format!("part-{number}{extension}")
    });
    let encoding = match other.transfer_encoding {
        ContentEncoding::Base64 => Encoding::Base64,
        ContentEncoding::QuotedPrintable => Encoding::QuotedPrintable,
        _ => Encoding::Plain,
    };
    let charset = parameter(pairs(&common.ty.params), "charset");
    Part { section, content_type, charset, encoding, size: other.octets.into(), name }
}

fn content_type(common: &BodyContentCommon<'_>) -> String {
    let text = format!("{}/{}", common.ty.ty, common.ty.subtype).to_ascii_lowercase();
    let is_good = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+/".contains(c);
    if text.len() <= 100 && text.chars().all(is_good) { text } else { "application/octet-stream".to_owned() }
}

/// The name that the sender gave: its last part, without control characters.
fn file_name(common: &BodyContentCommon<'_>) -> Option<String> {
    let disposition = common.disposition.as_ref().map(|disposition| &disposition.params);
    let name = disposition.and_then(|params| parameter(pairs(params), "filename"));
    let name = name.or_else(|| parameter(pairs(&common.ty.params), "name"))?;
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
    let name = name.trim();
    Some(name).filter(|name| !matches!(*name, "" | "." | "..")).map(str::to_owned)
}

fn pairs<'a>(params: &'a BodyParams<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
    params.iter().flatten().map(|(name, value)| (&**name, &**value))
}

pub(super) fn limit(message: String) -> ActionError {
    ActionError::new(ErrorKind::Limit, message)
}

#[cfg(test)]
mod tests {
    use async_imap::imap_proto::{AttributeValue, Response};
    use pretty_assertions::assert_eq;

    use super::*;

    fn read(structure: &str) -> Result<Parts, ActionError> {
        let text = format!("* 1 FETCH (BODYSTRUCTURE {structure})\r\n");
        let (_, response) = Response::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error:?}"));
        let Response::Fetch(_, values) = response else { panic!("{response:?}") };
        let Some(AttributeValue::BodyStructure(structure)) = values.first() else { panic!("{values:?}") };
        parts(structure)
    }

    const PLAIN: &str = r#"("text" "plain" ("charset" "utf-8") NIL NIL "7bit" 12 1 NIL NIL NIL NIL)"#;
    const HTML: &str = r#"("TEXT" "HTML" NIL NIL NIL "QUOTED-PRINTABLE" 99 1 NIL ("inline" NIL) NIL NIL)"#;

    fn file(name: &str) -> String {
        format!(
            r#"("application" "pdf" NIL NIL NIL "base64" 300 NIL ("attachment" ("filename" "{name}")) NIL NIL)"#
        )
    }

    fn names(parts: &Parts) -> Vec<(&str, &str)> {
        parts.attachments.iter().map(|part| (part.section.as_str(), part.name.as_str())).collect()
    }

    #[test]
    fn the_first_texts_are_the_content_and_the_rest_are_attachments() {
        let pdf = file("a.pdf");
        let text = format!(
            r#"((({PLAIN}{HTML} "alternative")("image" "png" ("name" "b/../c.png") "<1>" NIL "base64" 4 NIL NIL NIL NIL) "related"){pdf}{PLAIN} "mixed")"#
        );
        let parts = read(&text).expect("it is read");
        assert_eq!(parts.text.as_ref().map(|part| part.section.as_str()), Some("1.1.1"));
        assert_eq!(
            parts.html.as_ref().map(|part| (part.section.as_str(), part.encoding)),
            Some(("1.1.2", Encoding::QuotedPrintable))
        );
        assert_eq!(names(&parts), [("1.2", "c.png"), ("2", "a.pdf"), ("3", "part-3.txt")]);
    }

    #[test]
    fn a_message_without_parts_is_its_text() {
        let parts = read(PLAIN).expect("it is read");
        let text = parts.text.expect("a text");
        assert_eq!((text.section.as_str(), text.charset.as_deref(), text.size), ("TEXT", Some("utf-8"), 12));
        let parts = read(&file("../../etc/passwd")).expect("it is read");
        assert_eq!(names(&parts), [("TEXT", "passwd")]);
    }

    #[test]
    fn parts_have_a_limit_for_their_number_and_their_depth() {
        let many = |count: usize| format!("({} \"mixed\")", PLAIN.repeat(count));
        assert_eq!(read(&many(MAX_PARTS - 1)).expect("it is read").attachments.len(), MAX_PARTS - 2);
        assert_eq!(read(&many(MAX_PARTS)).expect_err("too many").kind, ErrorKind::Limit);
        let deep =
            |levels: usize| (0..levels).fold(PLAIN.to_owned(), |inner, _| format!("({inner} \"mixed\")"));
        read(&deep(MAX_LEVELS)).expect("it is read");
        assert_eq!(read(&deep(MAX_LEVELS + 1)).expect_err("too deep").kind, ErrorKind::Limit);
    }
}
