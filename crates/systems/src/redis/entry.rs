//! Entries of streams as messages.

use bytes::Bytes;
use connector::Message;
use indexmap::IndexMap;
use jiff::Timestamp;
use model::ActionError;
use redis::Value;
use value::Map;

use super::link::{list_of, text_of, unexpected};
use super::reply::MAX_VALUE;

/// The field whose value is the body. The others are headers.
pub(super) const BODY: &str = "body";
/// The memory of a field beside its bytes, about.
const FIELD: usize = 128;

/// An entry of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub id: String,
    pub fields: Vec<(Bytes, Bytes)>,
    /// True if not all of it arrived.
    pub is_cut: bool,
}

impl Entry {
    fn read(value: Value) -> Result<Self, ActionError> {
        let mut parts = list_of(value)?.into_iter();
        let (Some(id), Some(fields), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(unexpected());
        };
        let (id, mut is_cut) = (text_of(id)?, false);
        let mut fields = list_of(fields)?;
        if matches!(fields.first(), Some(Value::Int(_))) {
            // It has too many fields for the reply.
            (fields, is_cut) = (Vec::new(), true);
        }
        let mut texts = fields.into_iter().map(|text| bytes_of(text, &mut is_cut));
        let mut fields = Vec::new();
        while let Some(name) = texts.next() {
            fields.push((name?, texts.next().unwrap_or_else(|| Err(unexpected()))?));
        }
        drop(texts);
        Ok(Self { id, fields, is_cut })
    }

    /// The memory that it takes, about, in bytes.
    pub(super) fn cost(&self) -> usize {
        let costs = self.fields.iter().map(|(name, value)| name.len() + value.len() + FIELD);
        costs.fold(0, usize::saturating_add)
    }

    /// The message of the entry. Its body is the field `body`, beside which the other fields are headers; without this field it is all fields
    /// as JSON.
    pub(super) fn message(&self, stream: &str, token: u64, redelivered: bool) -> Message {
        let body = self.fields.iter().find(|(name, _)| name == BODY.as_bytes());
        let (mut body, headers) = match body {
            Some((_, body)) => (body.clone(), self.others()),
            None => (json(&self.fields).into(), Map::new()),
        };
        if self.is_cut && body.len() <= MAX_VALUE {
            // No `maxBody` allows it.
            let mut long = body.to_vec();
            long.resize(MAX_VALUE + 1, b' ');
            body = long.into();
        }
        let milliseconds = self.id.split('-').next().and_then(|part| part.parse().ok());
        Message {
            token,
            id: format!("{stream}:{}", self.id),
            is_identified: true,
            source: stream.to_owned(),
            key: None,
            body,
            headers,
            properties: Map::from_iter([("entryId", value::Value::from(self.id.as_str()))]),
            at: milliseconds.and_then(|at| Timestamp::from_millisecond(at).ok()),
            redelivered,
        }
    }

    /// The fields beside the body; several of one name form a list.
    fn others(&self) -> Map {
        let text = |bytes: &Bytes| value::Value::from(&*String::from_utf8_lossy(bytes));
        let mut others = grouped(&self.fields);
        others.shift_remove(BODY.as_bytes());
        let value = |values: Vec<&Bytes>| match values.as_slice() {
            [one] => text(one),
            several => value::Value::from(several.iter().map(|one| text(one)).collect::<Vec<_>>()),
        };
        let header = |(name, values): (&[u8], _)| (String::from_utf8_lossy(name).into_owned(), value(values));
        others.into_iter().map(header).collect()
    }
}

/// The values of each field, in the order of the entry.
fn grouped(fields: &[(Bytes, Bytes)]) -> IndexMap<&[u8], Vec<&Bytes>> {
    let mut values: IndexMap<&[u8], Vec<&Bytes>> = IndexMap::new();
    for (name, value) in fields {
        values.entry(name).or_default().push(value);
    }
    values
}

/// The entries of a reply of `XRANGE`.
pub(super) fn entries(value: Value) -> Result<Vec<Entry>, ActionError> {
    list_of(value)?.into_iter().map(Entry::read).collect()
}

/// The entries of a reply of `XREADGROUP` for one stream.
pub(super) fn read_entries(value: Value) -> Result<Vec<Entry>, ActionError> {
    let Some(stream) = list_of(value)?.into_iter().next() else { return Ok(Vec::new()) };
    entries(list_of(stream)?.into_iter().nth(1).ok_or_else(unexpected)?)
}

fn bytes_of(value: Value, is_cut: &mut bool) -> Result<Bytes, ActionError> {
    match value {
        Value::BulkString(bytes) => Ok(bytes.into()),
        // A text that was too long: its size, and its start.
        Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
            Ok([Value::Int(_), Value::BulkString(bytes)]) => {
                *is_cut = true;
                Ok(bytes.into())
            }
            _ => Err(unexpected()),
        },
        _ => Err(unexpected()),
    }
}

/// Fields as a JSON object. Bytes that are no text stay as they are, so that nothing takes them for another text.
fn json(fields: &[(Bytes, Bytes)]) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (index, (name, values)) in grouped(fields).into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json_text(name, &mut out);
        out.push(b':');
        match values.as_slice() {
            [value] => json_text(value, &mut out),
            values => {
                for (index, value) in values.iter().enumerate() {
                    out.push(if index == 0 { b'[' } else { b',' });
                    json_text(value, &mut out);
                }
                out.push(b']');
            }
        }
    }
    out.push(b'}');
    out
}

fn json_text(bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.extend_from_slice(value::Value::from(text).to_json().as_bytes()),
        Err(_) => {
            out.push(b'"');
            out.extend_from_slice(bytes);
            out.push(b'"');
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn entry(fields: &[(&[u8], &[u8])], is_cut: bool) -> Entry {
        let bytes = |part: &[u8]| Bytes::copy_from_slice(part);
        let fields = fields.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
        Entry { id: "1767225600000-3".to_owned(), fields, is_cut }
    }

    #[test]
    fn the_body_is_the_field_of_this_name_or_all_fields() {
        let with_body =
            entry(&[(b"tenant", b"acme"), (b"body", b"{}"), (b"tag", b"a"), (b"tag", b"b")], false);
        let message = with_body.message("orders", 7, false);
        assert_eq!((&*message.body, message.id.as_str()), (b"{}".as_slice(), "orders:1767225600000-3"));
        assert_eq!(value::Value::from(message.headers).to_json(), r#"{"tenant":"acme","tag":["a","b"]}"#);
        assert_eq!(message.at.map(|at| at.to_string()).as_deref(), Some("2026-01-01T00:00:00Z"));
        let fields =
            entry(&[(b"id", b"17"), (b"quo\"te", b"a\nb"), (b"id", b"18"), (b"raw", b"\xff")], false);
        let message = fields.message("orders", 7, false);
        assert_eq!(&*message.body, b"{\"id\":[\"17\",\"18\"],\"quo\\\"te\":\"a\\nb\",\"raw\":\"\xff\"}");
        assert!(message.headers.is_empty());
    }

    #[test]
    fn an_entry_that_was_cut_is_larger_than_any_body_may_be() {
        let message = entry(&[(b"body", b"start"), (b"more", b"")], true).message("orders", 7, false);
        assert_eq!((message.body.len(), message.body.starts_with(b"start ")), (MAX_VALUE + 1, true));
    }
}
