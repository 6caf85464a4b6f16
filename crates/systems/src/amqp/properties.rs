//! The properties and headers of messages, to values and back. Texts that are not UTF-8 keep what can be read of them: no message may close
//! the connection, since it would come again.

use amq_protocol::protocol::basic::AMQPProperties;
use amq_protocol::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use bytes::Buf as _;
use jiff::Timestamp;
use value::{Map, Value};

/// The largest depth of headers.
const MAX_DEPTH: usize = 16;

/// The short texts among the properties: the bit that tells if it is there, and its name. The headers are between the second and the third.
const BEFORE: [(u16, &str); 2] = [(1 << 15, "contentType"), (1 << 14, "contentEncoding")];
const HEADERS: u16 = 1 << 13;
const DELIVERY_MODE: u16 = 1 << 12;
const PRIORITY: u16 = 1 << 11;
const AFTER: [(u16, &str); 4] =
    [(1 << 10, "correlationId"), (1 << 9, "replyTo"), (1 << 8, "expiration"), (1 << 7, "messageId")];
const TIMESTAMP: u16 = 1 << 6;
const LAST: [(u16, &str); 4] =
    [(1 << 5, "type"), (1 << 4, "userId"), (1 << 3, "appId"), (1 << 2, "clusterId")];

/// Sets a property that is a short text.
type SetText = fn(AMQPProperties, ShortString) -> AMQPProperties;

/// The properties of a message by name, and its headers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Properties {
    pub values: Map,
    pub headers: Map,
}

impl Properties {
    /// Reads them.
    ///
    /// # Errors
    /// Returns the reason for which they cannot be read.
    pub(super) fn read(mut bytes: &[u8]) -> Result<Self, String> {
        let (mut values, mut headers) = (Map::new(), Map::new());
        let flags = bytes.try_get_u16().map_err(|_| incomplete())?;
        let texts =
            |fields: &[(u16, &'static str)], bytes: &mut &[u8], values: &mut Map| -> Result<(), String> {
                for (_, name) in fields.iter().filter(|(bit, _)| flags & bit != 0) {
                    values.insert(*name, short(bytes)?);
                }
                Ok(())
            };
        texts(&BEFORE, &mut bytes, &mut values)?;
        if flags & HEADERS != 0 {
            headers = table(&mut bytes, MAX_DEPTH)?;
        }
        if flags & DELIVERY_MODE != 0 {
            values.insert("persistent", bytes.try_get_u8().map_err(|_| incomplete())? == 2);
        }
        if flags & PRIORITY != 0 {
            values.insert("priority", i64::from(bytes.try_get_u8().map_err(|_| incomplete())?));
        }
        texts(&AFTER, &mut bytes, &mut values)?;
        if flags & TIMESTAMP != 0 {
            values.insert("timestamp", timestamp(bytes.try_get_u64().map_err(|_| incomplete())?));
        }
        texts(&LAST, &mut bytes, &mut values)?;
        Ok(Self { values, headers })
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns them as they are sent.
    ///
    /// # Errors
    /// Returns the reason, which begins with the name of the property.
    pub(super) fn to_wire(&self) -> Result<AMQPProperties, String> {
        let text = |name: &'static str| self.text(name).map(|text| short_text(name, text)).transpose();
        let mut wire = AMQPProperties::default();
        if !self.headers.is_empty() {
            wire = wire.with_headers(to_table(&self.headers, "headers")?);
        }
        let set: [(&'static str, SetText); 8] = [
            ("contentType", AMQPProperties::with_content_type),
            ("contentEncoding", AMQPProperties::with_content_encoding),
            ("correlationId", AMQPProperties::with_correlation_id),
            ("replyTo", AMQPProperties::with_reply_to),
            ("expiration", AMQPProperties::with_expiration),
            ("messageId", AMQPProperties::with_message_id),
            ("type", AMQPProperties::with_type),
            ("appId", AMQPProperties::with_app_id),
        ];
        for (name, set) in set {
            if let Some(text) = text(name)? {
                wire = set(wire, text);
            }
        }
        if let Some(is_persistent) = self.values.get("persistent").and_then(Value::as_bool) {
            wire = wire.with_delivery_mode(if is_persistent { 2 } else { 1 });
        }
        let priority = self.values.get("priority").and_then(Value::as_i64);
        if let Some(priority) = priority.and_then(|priority| u8::try_from(priority).ok()) {
            wire = wire.with_priority(priority);
        }
        Ok(wire)
    }
}

fn incomplete() -> String {
    "the properties are incomplete".to_owned()
}

/// Refuses a table that is nested too deeply.
pub(super) fn check_table(mut bytes: &[u8]) -> Result<(), String> {
    table(&mut bytes, MAX_DEPTH).map(drop)
}

fn part<'a>(bytes: &mut &'a [u8], size: usize) -> Result<&'a [u8], String> {
    let (part, rest) = bytes.split_at_checked(size).ok_or_else(incomplete)?;
    *bytes = rest;
    Ok(part)
}

fn short(bytes: &mut &[u8]) -> Result<String, String> {
    let size = usize::from(bytes.try_get_u8().map_err(|_| incomplete())?);
    Ok(String::from_utf8_lossy(part(bytes, size)?).into_owned())
}

fn long<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let size = bytes.try_get_u32().map_err(|_| incomplete())?;
    part(bytes, usize::try_from(size).unwrap_or(usize::MAX))
}

fn table(bytes: &mut &[u8], depth: usize) -> Result<Map, String> {
    let mut content = deeper(bytes, depth)?;
    let mut map = Map::new();
    while !content.is_empty() {
        let name = short(&mut content)?;
        map.insert(name, field(&mut content, depth.saturating_sub(1))?);
    }
    Ok(map)
}

fn list(bytes: &mut &[u8], depth: usize) -> Result<Value, String> {
    let mut content = deeper(bytes, depth)?;
    let mut list = Vec::new();
    while !content.is_empty() {
        list.push(field(&mut content, depth.saturating_sub(1))?);
    }
    Ok(Value::from(list))
}

fn deeper<'a>(bytes: &mut &'a [u8], depth: usize) -> Result<&'a [u8], String> {
    if depth == 0 {
        return Err(format!("a table has more than {MAX_DEPTH} levels"));
    }
    long(bytes)
}

fn field(bytes: &mut &[u8], depth: usize) -> Result<Value, String> {
    let kind = bytes.try_get_u8().map_err(|_| incomplete())?;
    let number = match kind {
        b'F' => return Ok(Value::from(table(bytes, depth)?)),
        b'A' => return list(bytes, depth),
        b'S' | b'x' => return Ok(Value::from(String::from_utf8_lossy(long(bytes)?).into_owned())),
        b'V' => return Ok(Value::Null),
        b't' => return Ok(Value::from(bytes.try_get_u8().map_err(|_| incomplete())? != 0)),
        b'T' => return Ok(timestamp(bytes.try_get_u64().map_err(|_| incomplete())?)),
        b'f' => return Ok(Value::from(f64::from(bytes.try_get_f32().map_err(|_| incomplete())?))),
        b'd' => return Ok(Value::from(bytes.try_get_f64().map_err(|_| incomplete())?)),
        b'D' => {
            let (scale, digits) = (bytes.try_get_u8(), bytes.try_get_u32());
            return Ok(Value::from(decimal(
                scale.map_err(|_| incomplete())?,
                digits.map_err(|_| incomplete())?,
            )));
        }
        b'b' => bytes.try_get_i8().map(i64::from),
        b'B' => bytes.try_get_u8().map(i64::from),
        b's' | b'U' => bytes.try_get_i16().map(i64::from),
        b'u' => bytes.try_get_u16().map(i64::from),
        b'I' => bytes.try_get_i32().map(i64::from),
        b'i' => bytes.try_get_u32().map(i64::from),
        b'l' | b'L' => bytes.try_get_i64(),
        _ => return Err("a header has a type that is not known".to_owned()),
    };
    number.map(Value::from).map_err(|_| incomplete())
}

/// A decimal number as a text with all digits.
fn decimal(scale: u8, digits: u32) -> String {
    let scale = usize::from(scale);
    let mut text = format!("{digits:0>width$}", width = scale + 1);
    if scale > 0 {
        text.insert(text.len() - scale, '.');
    }
    text
}

fn timestamp(seconds: u64) -> Value {
    let at = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    at.map_or_else(|| Value::from(seconds.to_string()), |at| Value::from(at.to_string()))
}

/// A text of at most 255 bytes.
pub(super) fn short_text(name: &str, text: &str) -> Result<ShortString, String> {
    let size = text.len();
    ShortString::try_new(text).map_err(|_| format!("`{name}` has {size} bytes, and AMQP takes at most 255"))
}

fn to_table(map: &Map, name: &str) -> Result<FieldTable, String> {
    let mut table = FieldTable::default();
    for (key, value) in map.iter() {
        let name = format!("{name}.{key}");
        table.insert(short_text(&name, key)?, to_field(value, &name)?);
    }
    Ok(table)
}

fn to_field(value: &Value, name: &str) -> Result<AMQPValue, String> {
    Ok(match value {
        Value::Null => AMQPValue::Void,
        Value::Map(map) => AMQPValue::FieldTable(to_table(map, name)?),
        Value::List(list) => {
            let items: Result<Vec<_>, String> = list.0.iter().map(|item| to_field(item, name)).collect();
            AMQPValue::FieldArray(FieldArray::from(items?))
        }
        other => match (other.as_bool(), other.as_i64()) {
            (Some(is_so), _) => AMQPValue::Boolean(is_so),
            (None, Some(number)) => AMQPValue::LongLongInt(number),
            (None, None) => AMQPValue::LongString(other.to_text().into_bytes().into()),
        },
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn header(bytes: &[u8]) -> Vec<u8> {
        let size = u32::try_from(bytes.len()).expect("a size").to_be_bytes();
        [&HEADERS.to_be_bytes()[..], &size, bytes].concat()
    }

    fn read(bytes: &[u8]) -> Result<String, String> {
        Properties::read(&header(bytes)).map(|read| Value::from(read.headers).to_json())
    }

    #[test]
    fn headers_of_all_types_are_values() {
        assert_eq!(
            read(b"\x01aS\x00\x00\x00\x02hi\x01bt\x01\x01cV").as_deref(),
            Ok(r#"{"a":"hi","b":true,"c":null}"#)
        );
        assert_eq!(read(b"\x01al\xff\xff\xff\xff\xff\xff\xff\xff").as_deref(), Ok(r#"{"a":-1}"#));
        assert_eq!(
            read(b"\x01aD\x02\x00\x00\x00\x07\x01bT\0\0\0\0\0\0\0\x01").as_deref(),
            Ok(r#"{"a":"0.07","b":"1970-01-01T00:00:01Z"}"#)
        );
        assert_eq!(read(b"\x01aA\x00\x00\x00\x04b\x01b\x02").as_deref(), Ok(r#"{"a":[1,2]}"#));
        assert_eq!(read(b"\x01aS\x00\x00\x00\x01\xff").as_deref(), Ok("{\"a\":\"\u{fffd}\"}"), "no UTF-8");
    }

    #[test]
    fn broken_and_deep_headers_are_errors() {
        assert_eq!(read(b"\x01aS\x00\x00\x00\x09hi"), Err(incomplete()));
        assert_eq!(read(b"\x01a?"), Err("a header has a type that is not known".to_owned()));
        let nested = |levels: usize| {
            (0..levels).fold(Vec::new(), |inner: Vec<u8>, _| {
                let size = u32::try_from(inner.len()).expect("a size").to_be_bytes();
                [b"\x01aF", &size[..], &inner].concat()
            })
        };
        assert!(read(&nested(MAX_DEPTH - 1)).is_ok());
        assert_eq!(read(&nested(MAX_DEPTH)), Err("a table has more than 16 levels".to_owned()));
    }

    #[test]
    fn properties_are_sent_as_they_came() {
        let sent = Properties {
            values: Map::from_iter([
                ("contentType", Value::from("application/json")),
                ("persistent", Value::from(true)),
                ("priority", Value::from(3)),
                ("messageId", Value::from("m-1")),
                ("type", Value::from("order")),
            ]),
            headers: Map::from_iter([("Tenant", Value::from("acme")), ("try", Value::from(2))]),
        };
        let wire = sent.to_wire().expect("they fit");
        let frame = amq_protocol::frame::AMQPFrame::Header(
            1,
            amq_protocol::frame::AMQPContentHeader { class_id: 60, body_size: 0, properties: wire },
        );
        let bytes = super::super::frame::write(Vec::new(), &frame).expect("it is written");
        assert_eq!(Properties::read(&bytes[7 + 12..bytes.len() - 1]), Ok(sent));
        let long =
            Properties { values: Map::from_iter([("messageId", "x".repeat(256))]), ..Properties::default() };
        assert_eq!(
            long.to_wire().err().as_deref(),
            Some("`messageId` has 256 bytes, and AMQP takes at most 255")
        );
    }
}
