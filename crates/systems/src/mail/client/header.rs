//! The headers of a message as values.

use async_imap::imap_proto::AttributeValue;
use jiff::Timestamp;
use jiff::fmt::strtime;
use mail_parser::{Addr, Address, HeaderValue, Message, MessageParser};
use value::{Map, Value};

use super::session::uid_of;

/// The headers of a summary, as a part of a command.
pub(super) const SUMMARY: &str = "(UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (FROM TO CC REPLY-TO SUBJECT DATE MESSAGE-ID CONTENT-TYPE)]<0.16384>)";
/// The most addresses of a header.
const MAX_ADDRESSES: usize = 100;

/// The mailbox that messages are read from.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub mailbox: &'a str,
    pub uid_validity: u32,
}

/// A message as a list shows it.
pub(super) struct Summary {
    pub uid: u32,
    pub message_id: Option<String>,
    /// The instant at which the server got it.
    pub received: Option<Timestamp>,
    pub has_attachments: bool,
    pub value: Map,
}

impl Summary {
    /// Reads the answer to [`SUMMARY`]; `None` if it is another answer.
    pub(super) fn of(place: Place<'_>, values: &[AttributeValue<'_>]) -> Option<Self> {
        let uid = uid_of(values)?;
        let (mut flags, mut received, mut size, mut header) = (Vec::new(), None, 0, None);
        for value in values {
            match value {
                AttributeValue::Flags(list) => flags = list.iter().map(|flag| Value::from(&**flag)).collect(),
                AttributeValue::InternalDate(date) => received = internal_date(date),
                AttributeValue::Rfc822Size(bytes) => size = *bytes,
                AttributeValue::BodySection { data, .. } => header = data.as_deref(),
                _ => {}
            }
        }
        let header = complete(header?);
        let message = MessageParser::new().parse_headers(&header);
        let message = message.as_ref();
        let message_id = message.and_then(Message::message_id).map(str::to_owned);
        let has_attachments = message.is_some_and(has_attachments);
        let text = |text: Option<String>| text.map_or(Value::Null, Value::from);
        let date = message.and_then(Message::date).filter(|date| date.is_valid());
        let date = date.and_then(|date| Timestamp::from_second(date.to_timestamp()).ok());
        let addresses =
            |pick: fn(&Message<'_>) -> Value| message.map_or_else(|| Value::from(Vec::new()), pick);
        let entries = [
            ("uid", Value::from(uid)),
            ("uidValidity", Value::from(place.uid_validity)),
            ("mailbox", Value::from(place.mailbox)),
            ("messageId", text(message_id.clone())),
            ("from", message.map_or(Value::Null, |message| first(message.from()))),
            ("to", addresses(|message| all(message.to()))),
            ("cc", addresses(|message| all(message.cc()))),
            ("replyTo", message.map_or(Value::Null, |message| first(message.reply_to()))),
            ("subject", text(message.and_then(Message::subject).map(str::to_owned))),
            ("date", text(date.map(|date| date.to_string()))),
            ("received", text(received.map(|at| at.to_string()))),
            ("flags", Value::from(flags)),
            ("size", Value::from(size)),
            ("hasAttachments", Value::from(has_attachments)),
        ];
        Some(Self { uid, message_id, received, has_attachments, value: Map::from_iter(entries) })
    }
}

/// All headers by their names in lower case. The values of a repeated header are lines.
pub(super) fn headers(header: &[u8]) -> Map {
    let header = complete(header);
    // The name only makes the parser ask for the rule of each header.
    let parser = MessageParser::new().header_text("Subject").default_header_text();
    let mut map = Map::new();
    let Some(message) = parser.parse_headers(&header) else { return map };
    for header in message.headers() {
        let HeaderValue::Text(text) = header.value() else { continue };
        let name = header.name().to_ascii_lowercase();
        let before = map.get(&name).and_then(Value::as_str);
        let text = before.map_or_else(|| text.to_string(), |before| format!("{before}\n{text}"));
        map.insert(name.as_str(), text);
    }
    map
}

/// The `Message-ID` of a header, without `<` and `>`.
pub(super) fn message_id(header: &[u8]) -> Option<String> {
    let header = complete(header);
    let message = MessageParser::new().parse_headers(&header)?;
    message.message_id().filter(|id| !id.chars().any(char::is_control)).map(str::to_owned)
}

/// A parameter of a header of MIME, whatever way it is written in: quoted, in encoded words, or with a charset.
pub(super) fn parameter<'a>(
    parameters: impl Iterator<Item = (&'a str, &'a str)>,
    name: &str,
) -> Option<String> {
    let mut header = "Content-Type: x/y".to_owned();
    for (name, value) in parameters {
        let is_token = |c: char| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c);
        if !name.chars().all(is_token) {
            continue;
        }
        let value: String = value.chars().filter(|c| !c.is_control()).collect();
        // A value with a charset is not quoted.
        if name.ends_with('*') && value.chars().all(is_token) {
            header.push_str(&format!(";\r\n {name}={value}"));
        } else {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            header.push_str(&format!(";\r\n {name}=\"{value}\""));
        }
    }
    header.push_str("\r\n\r\n");
    let message = MessageParser::new().parse_headers(&header)?;
    let value = message.header("Content-Type")?.as_content_type()?.attribute(name)?;
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

/// The instant of `INTERNALDATE`: ` 1-Feb-2026 08:00:00 +0000`.
fn internal_date(date: &str) -> Option<Timestamp> {
    let parsed = strtime::parse("%d-%b-%Y %H:%M:%S %z", date.trim_start()).ok()?;
    parsed.to_timestamp().ok()
}

/// A header that ends, also if it was cut: the parser reads no other one.
fn complete(header: &[u8]) -> Vec<u8> {
    [header, b"\r\n\r\n"].concat()
}

/// True if the form of a message is one for attachments: a mixture, or something that is no text.
fn has_attachments(message: &Message<'_>) -> bool {
    let Some(kind) = message.header("Content-Type").and_then(HeaderValue::as_content_type) else {
        return false;
    };
    let (ctype, subtype) = (kind.ctype(), kind.subtype().unwrap_or_default());
    match ctype.to_ascii_lowercase().as_str() {
        "multipart" => subtype.eq_ignore_ascii_case("mixed"),
        "text" => false,
        _ => true,
    }
}

fn all(addresses: Option<&Address<'_>>) -> Value {
    addresses.into_iter().flat_map(Address::iter).take(MAX_ADDRESSES).map(address).collect()
}

fn first(addresses: Option<&Address<'_>>) -> Value {
    addresses.and_then(|addresses| addresses.iter().next()).map_or(Value::Null, address)
}

fn address(address: &Addr<'_>) -> Value {
    let entries = [("address", address.address()), ("name", address.name())];
    Value::from(Map::from_iter(entries.map(|(name, text)| (name, Value::from(text)))))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn parameters_are_read_in_each_way_that_programs_write_them() {
        for (parameters, expected) in [
            (vec![("filename", "a.pdf")], Some("a.pdf")),
            (vec![("filename", "=?utf-8?q?Gr=C3=B6=C3=9Fe.pdf?=")], Some("Größe.pdf")),
            (vec![("filename", "=?utf-8?B?R3LDtsOfZS5wZGY=?=")], Some("Größe.pdf")),
            (vec![("filename*", "utf-8''Gr%C3%B6%C3%9Fe.pdf")], Some("Größe.pdf")),
            (vec![("filename*0*", "utf-8''Gr%C3%B6"), ("filename*1*", "%C3%9Fe.pdf")], Some("Größe.pdf")),
            (vec![("filename*0", "long "), ("filename*1", "name.pdf")], Some("long name.pdf")),
            (vec![("filename", "a\"b\\c;d.pdf")], Some("a\"b\\c;d.pdf")),
            (vec![("filename", "a\r\nX: y")], Some("aX: y")),
            (vec![("na me", "x"), ("charset", "utf-8")], None),
            (vec![], None),
        ] {
            let found = parameter(parameters.iter().copied(), "filename");
            assert_eq!(found.as_deref(), expected, "{parameters:?}");
        }
    }

    #[test]
    fn headers_are_decoded_and_a_repeated_one_is_lines() {
        let header = b"Received: one\r\nReceived: two\r\n three\r\nSubject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=\r\nX-A: b\r\nMessage-ID: <1@x>\r\nX-Cu";
        let map = headers(header);
        let text = |name: &str| map.get(name).and_then(|value| value.as_str().map(str::to_owned));
        assert_eq!(text("received").as_deref(), Some("one\ntwo three"));
        assert_eq!(text("subject").as_deref(), Some("Größe"));
        assert_eq!(text("x-a").as_deref(), Some("b"));
        assert_eq!(text("message-id").as_deref(), Some("<1@x>"));
        assert_eq!(message_id(header).as_deref(), Some("1@x"));
        assert_eq!(message_id(b"Subject: x\r\n"), None);
    }

    #[test]
    fn dates_of_the_server_are_instants() {
        let at = |date| internal_date(date).map(|at| at.to_string());
        assert_eq!(at(" 1-Feb-2026 09:00:00 +0100").as_deref(), Some("2026-02-01T08:00:00Z"));
        assert_eq!(at("17-Jul-1996 02:44:25 -0700").as_deref(), Some("1996-07-17T09:44:25Z"));
        assert_eq!(at("32-Feb-2026 09:00:00 +0100"), None);
    }
}
