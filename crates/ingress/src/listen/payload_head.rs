//! The head of a saved payload: its kind, method and content type, read from the start of its file.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// Number of bytes at the start of a file in which the head is looked for.
pub(super) const HEAD_BYTES: u64 = 16 << 10;

/// The parts of a payload that a list shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PayloadHead {
    pub(super) kind: Option<String>,
    pub(super) method: Option<String>,
    pub(super) content_type: Option<String>,
}

impl PayloadHead {
    /// Reads the head from the start of a file. A part that lies behind this start, as in a file that was written by
    /// hand with its body first, is `None`.
    pub(super) fn read(start: &[u8]) -> Self {
        let mut head = Self::default();
        // The text is cut off, so that reading it always fails after its last whole part.
        let _ = Parts(&mut head).deserialize(&mut serde_json::Deserializer::from_slice(start));
        head
    }
}

/// The members of the payload.
struct Parts<'a>(&'a mut PayloadHead);

/// The members of its headers.
struct Headers<'a>(&'a mut PayloadHead);

impl<'de> DeserializeSeed<'de> for Parts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Parts<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a payload")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<(), A::Error> {
        while let Some(name) = parts.next_key::<String>()? {
            match name.as_str() {
                "kind" => self.0.kind = Some(parts.next_value()?),
                "method" => self.0.method = Some(parts.next_value()?),
                "headers" => parts.next_value_seed(Headers(self.0))?,
                _ => drop(parts.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Headers<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Headers<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("headers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut headers: A) -> Result<(), A::Error> {
        while let Some(name) = headers.next_key::<String>()? {
            if name.eq_ignore_ascii_case("content-type") {
                self.0.content_type = Some(headers.next_value()?);
            } else {
                headers.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: [Option<&str>; 3]) {
        let head = PayloadHead::read(text.as_bytes());
        assert_eq!([head.kind.as_deref(), head.method.as_deref(), head.content_type.as_deref()], expected);
    }

    #[test]
    fn the_head_of_a_truncated_payload_is_read() {
        let text = r#"{"kind": "webhook", "method": "POST", "pathFragment": "a", "queryParameters": {"a": ["b"]},
            "headers": {"content-type": "application/json", "x": "y"}, "body": {"$file": {"data": "{\"a"#;
        check(text, [Some("webhook"), Some("POST"), Some("application/json")]);
        check(r#"{"kind": "poll", "data": {"method": "x""#, [Some("poll"), None, None]);
    }

    #[test]
    fn an_invalid_payload_has_no_head() {
        for text in ["", "[]", "{", "7", r#"{"kind": 7}"#, r#"{"headers": []}"#] {
            check(text, [None, None, None]);
        }
    }
}
