//! Percent-decoding: the path fragment, the query and form bodies.

use std::sync::Arc;

use encoding_rs::{Encoding, UTF_8};
use percent_encoding::percent_decode;
use value::{JsonLimits, Map, Value};

/// The field in which a form names its own encoding.
pub(super) const CHARSET_FIELD: &[u8] = b"_charset_";

/// Decodes the fields of a query or a form body: `+` and `%XX` are decoded, a repeated name becomes a list in order, `a[]` is
/// literal. The encoding of a form is that of its field `_charset_` (HTML, 4.10.21.5), else the given one, else UTF-8. `None` if there
/// are more fields than the JSON limit allows.
pub(crate) fn decode(encoded: &[u8], charset: Option<&'static Encoding>) -> Option<Map> {
    let most = JsonLimits::default().nodes;
    let mut map = Map::new();
    let pairs = || encoded.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(split_pair);
    let field = pairs().find(|(name, _)| *name == CHARSET_FIELD).map(|(_, label)| label);
    let charset = field.and_then(Encoding::for_label_no_replacement).or(charset).unwrap_or(UTF_8);
    let text = |part: &[u8]| {
        let spaced: Vec<u8> = part.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        let bytes: Vec<u8> = percent_decode(&spaced).collect();
        charset.decode_without_bom_handling(&bytes).0.into_owned()
    };
    for (count, (name, value)) in pairs().enumerate() {
        if count == most {
            return None;
        }
        add(&mut map, &text(name), Value::from(text(value)));
    }
    Some(map)
}

/// The name and the value of a pair, still encoded.
fn split_pair(pair: &[u8]) -> (&[u8], &[u8]) {
    match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (&pair[..at], &pair[at + 1..]),
        None => (pair, &[]),
    }
}

/// Adds a value; a second value of the same name makes a list. No value may itself be a list.
pub(crate) fn add(map: &mut Map, name: &str, value: Value) {
    match map.get_mut(name) {
        Some(Value::List(list)) => Arc::make_mut(list).0.push(value),
        Some(first) => *first = Value::from(vec![std::mem::take(first), value]),
        None => {
            map.insert(name, value);
        }
    }
}

/// The path fragment: the path after the token, without one leading slash, percent-decoded once.
///
/// Encoded slashes stay encoded, so that splitting on `/` gives the sender's segments; escapes that are not UTF-8 stay encoded,
/// so that nothing is lost. Further slashes, including trailing ones, are kept.
pub(crate) fn path_fragment(raw: &str) -> String {
    let raw = raw.strip_prefix('/').unwrap_or(raw).as_bytes();
    let mut decoded = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        match decode_escape(&raw[at..]) {
            Some(b'/') => {
                decoded.extend_from_slice(&raw[at..at + 3]);
                at += 3;
            }
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    let mut text = String::with_capacity(decoded.len());
    for chunk in decoded.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The byte of an escape at the start of `text`; `None` if there is no escape.
fn decode_escape(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_fragment_is_decoded_once_except_encoded_slashes() {
        let check = |raw: &str, expected: &str| assert_eq!(path_fragment(raw), expected, "{raw}");
        check("", "");
        check("/", "");
        check("/orders/42", "orders/42");
        check("orders/42", "orders/42");
        check("//a//b/", "/a//b/");
        check("/a%20b/gr%C3%B6%C3%9Fe", "a b/größe");
        check("/a%2Fb%2fc/d", "a%2Fb%2fc/d");
        check("/100%25/%2525", "100%/%25");
        check("/a+b", "a+b");
        check("/../%2e%2e/x", "../../x");
        check("/%ff%zz%4", "%FF%zz%4");
    }

    #[test]
    fn a_query_is_a_map_and_a_repeated_name_a_list() {
        let check = |raw: &str, expected: &str| {
            let map = decode(raw.as_bytes(), None).map(|map| Value::from(map).to_json());
            assert_eq!(map.as_deref(), Some(expected), "{raw}");
        };
        check("", "{}");
        check("a=1&b=two+words%21", r#"{"a":"1","b":"two words!"}"#);
        check("a=1&b=2&a=3&a=", r#"{"a":["1","3",""],"b":"2"}"#);
        check("a[]=1&a[]=2&b[c]=3", r#"{"a[]":["1","2"],"b[c]":"3"}"#);
        check("flag&=x&&__proto__=1", r#"{"flag":"","":"x","__proto__":"1"}"#);
        check("a=%C3%B6&b=%FF", "{\"a\":\"ö\",\"b\":\"\u{fffd}\"}");
    }

    #[test]
    fn a_form_with_too_many_fields_is_rejected() {
        let most = JsonLimits::default().nodes;
        assert!(decode("a&".repeat(most).as_bytes(), None).is_some());
        assert!(decode("a&".repeat(most + 1).as_bytes(), None).is_none());
    }

    proptest! {
        #[test]
        fn a_path_fragment_without_escapes_is_unchanged(text in "[^%]{0,40}") {
            prop_assert_eq!(path_fragment(&format!("/{text}")), text);
        }

        #[test]
        fn decoding_a_path_fragment_adds_no_slashes(text in "(/|%2F|%2f|%[0-9a-f]{2}|[a-z%]){0,30}") {
            let fragment = path_fragment(&format!("/{text}"));
            prop_assert_eq!(fragment.matches('/').count(), text.matches('/').count());
        }
    }
}
