//! Header parameters, charsets and file names of messages, as tolerant as senders require.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use percent_encoding::percent_decode;

/// The parameters of a header value such as `Content-Type` or `Content-Disposition`.
#[derive(Clone, Copy)]
pub struct Parameters<'a>(pub &'a [u8]);

impl Parameters<'_> {
    /// The bytes of a parameter, whose name is case-insensitive. In quotes, `\"` is a quote and any other backslash literal, as
    /// browsers that send Windows paths expect; without quotes it ends at a `;` or a space. `None` if it is missing.
    #[must_use]
    pub fn bytes(self, name: &str) -> Option<Vec<u8>> {
        let mut rest = self.0;
        // The part before the first `;` is the type.
        loop {
            rest = skip_to_parameter(rest)?;
            let length = rest.iter().position(|byte| matches!(byte, b'=' | b';'))?;
            let found = rest[..length].trim_ascii();
            if rest[length] == b';' {
                rest = &rest[length..];
                continue;
            }
            let (value, after) = parse_value(rest[length + 1..].trim_ascii_start())?;
            if found.eq_ignore_ascii_case(name.as_bytes()) {
                return Some(value);
            }
            rest = after;
        }
    }

    /// The text of a parameter, decoded by [`header_text`].
    #[must_use]
    pub fn text(self, name: &str) -> Option<String> {
        self.bytes(name).map(|value| header_text(&value, None))
    }

    /// The file name of a `Content-Disposition`: `filename*` (RFC 8187) before `filename`. `charset` is the encoding of a name that
    /// is not UTF-8, if it is known. `None` if there is neither.
    #[must_use]
    pub fn file_name(self, charset: Option<&'static Encoding>) -> Option<String> {
        let extended = self.bytes("filename*").and_then(|value| extended_value(&value));
        extended.or_else(|| self.bytes("filename").map(|value| header_text(&value, charset)))
    }
}

/// The media type without its parameters, in lower case.
#[must_use]
pub fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// True if a media type is JSON: `application/json` or any `+json`.
#[must_use]
pub fn is_json(content_type: &str) -> bool {
    let essence = essence(content_type);
    essence == "application/json" || essence.ends_with("+json")
}

/// The reason why a text is not JSON: one value, or several behind each other as bulk APIs take them. If it is only the beginning of a text
/// (`is_whole` is false), only errors that no continuation can repair count. `None` for a blank text.
#[must_use]
pub fn json_error(text: &str, is_whole: bool) -> Option<serde_json::Error> {
    let parse = |text: &str| {
        serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>().find_map(Result::err)
    };
    let error = parse(text)?;
    // The beginning of a number, such as `-`, lacks a digit.
    let can_go_on = || error.is_eof() || parse(&format!("{text}0")).is_none_or(|error| error.is_eof());
    if is_whole || !can_go_on() { Some(error) } else { None }
}

/// The text after the next `;`.
fn skip_to_parameter(text: &[u8]) -> Option<&[u8]> {
    let at = text.iter().position(|byte| *byte == b';')?;
    Some(text[at + 1..].trim_ascii_start())
}

/// A parameter value and the remaining text.
fn parse_value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| matches!(byte, b';' | b' ')).unwrap_or(text.len());
        return Some((text[..end].to_vec(), &text[end..]));
    };
    let mut value = Vec::new();
    let mut at = 0;
    loop {
        match (quoted.get(at)?, quoted.get(at + 1)) {
            (b'\\', Some(b'"')) => {
                value.push(b'"');
                at += 2;
            }
            (b'"', _) => return Some((value, &quoted[at + 1..])),
            (byte, _) => {
                value.push(*byte);
                at += 1;
            }
        }
    }
}

/// The text of an extended value: `charset'language'percent-encoded`.
fn extended_value(value: &[u8]) -> Option<String> {
    let mut parts = value.splitn(3, |byte| *byte == b'\'');
    let (label, _language, encoded) = (parts.next()?, parts.next()?, parts.next()?);
    let encoding = Encoding::for_label_no_replacement(label).unwrap_or(UTF_8);
    let decoded: Vec<u8> = percent_decode(encoded).collect();
    Some(encoding.decode_without_bom_handling(&decoded).0.into_owned())
}

/// Text of a header: UTF-8 if it is valid, else in the given encoding, else in that of old Western senders, in which every byte
/// sequence is valid.
#[must_use]
pub fn header_text(value: &[u8], charset: Option<&'static Encoding>) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => charset.unwrap_or(WINDOWS_1252).decode_without_bom_handling(value).0.into_owned(),
    }
}

/// The encoding that a content type names; `None` if it names no known encoding.
#[must_use]
pub fn charset(content_type: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(&Parameters(content_type.as_bytes()).bytes("charset")?)
}

/// Decodes text. A byte-order mark overrides the charset and is not part of the text; without both it is UTF-8. Invalid bytes become
/// U+FFFD, as in a browser.
#[must_use]
pub fn decode<'a>(data: &'a [u8], charset: Option<&'static Encoding>) -> Cow<'a, str> {
    charset.unwrap_or(UTF_8).decode(data).0
}

/// As [`decode`], but `None` if a byte is invalid, or if UTF-16 ends in the middle of a character.
#[must_use]
pub fn decode_exact<'a>(data: &'a [u8], charset: Option<&'static Encoding>) -> Option<Cow<'a, str>> {
    let (encoding, mark) = Encoding::for_bom(data).unwrap_or((charset.unwrap_or(UTF_8), 0));
    encoding.decode_without_bom_handling_and_without_replacement(data.get(mark..)?)
}

/// True if bytes of this content type are text by their type: `text/*`, JSON, XML and YAML.
#[must_use]
pub fn is_text(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.split_once('/').map_or("", |(_, subtype)| subtype);
    let names = ["json", "xml", "yaml", "csv"];
    essence.starts_with("text/")
        || names.contains(&subtype)
        || names.iter().any(|name| subtype.strip_suffix(name).is_some_and(|before| before.ends_with('+')))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(header: &str, name: &str, expected: Option<&str>) {
        assert_eq!(Parameters(header.as_bytes()).text(name).as_deref(), expected, "{header}");
    }

    #[test]
    fn parameters_are_parsed_with_and_without_quotes_in_any_order() {
        check("form-data; name=\"a\"; filename=\"b c.txt\"", "name", Some("a"));
        check("form-data; filename=\"name=x; y.txt\"; name=a", "name", Some("a"));
        check("form-data; filename=\"name=x; y.txt\"; name=a", "filename", Some("name=x; y.txt"));
        check("form-data; Name = \"a\"", "name", Some("a"));
        check("form-data; name=\"\"", "name", Some(""));
        check("form-data; name=", "name", Some(""));
        check("form-data", "name", None);
        check("form-data; x; name=a", "name", Some("a"));
        check("multipart/form-data; charset=utf-8; boundary=\"a;b\"", "boundary", Some("a;b"));
    }

    #[test]
    fn escaped_quotes_are_unescaped_and_windows_paths_kept() {
        check(r#"form-data; name="a\"b""#, "name", Some("a\"b"));
        check(r#"form-data; name="C:\new\x.txt""#, "name", Some("C:\\new\\x.txt"));
        check("form-data; name=\"open", "name", None);
    }

    #[test]
    fn a_file_name_is_decoded_from_every_common_encoding() {
        let check = |header: &[u8], label: &str, expected: Option<&str>| {
            let charset = Encoding::for_label(label.as_bytes());
            assert_eq!(Parameters(header).file_name(charset).as_deref(), expected, "{header:?}");
        };
        check("a; filename=\"café.png\"".as_bytes(), "", Some("café.png"));
        check(b"a; filename=\"caf\xe9.png\"", "", Some("café.png"));
        check(b"a; filename=\"\x93\xfa\x96{.png\"", "shift_jis", Some("日本.png"));
        check(b"a; filename=\"\xd6\xd0\xce\xc4.png\"", "gbk", Some("中文.png"));
        check(b"a; filename*=UTF-8''caf%C3%A9.png", "", Some("café.png"));
        check(b"a; filename=\"x.png\"; filename*=iso-8859-1'en'caf%E9.png", "", Some("café.png"));
        check(b"a; filename=\"x.png\"; filename*=broken", "", Some("x.png"));
        check(b"a; name=x", "", None);
    }

    #[test]
    fn text_is_decoded_by_bom_then_charset_then_as_utf_8() {
        let latin = charset("text/plain; format=flowed; Charset=\"latin1\"");
        assert_eq!(decode("größe".as_bytes(), None), "größe");
        assert_eq!(decode(b"gr\xf6\xdfe", charset("text/plain; charset=iso-8859-1")), "größe");
        assert_eq!(decode(b"gr\xf6\xdfe", latin), "größe");
        assert_eq!(decode(b"gr\xf6\xdfe", None), "gr\u{fffd}\u{fffd}e");
        assert_eq!(decode(b"\xef\xbb\xbfx", charset("text/plain; charset=nonsense")), "x");
        assert_eq!(decode_exact(b"\xff\xfea\0", latin).as_deref(), Some("a"));
        assert_eq!(decode_exact(b"gr\xf6\xdfe", None), None);
        assert_eq!(decode_exact(b"\xff\xfea\0b", None), None);
    }

    #[test]
    fn text_media_types_are_recognized() {
        for yes in
            ["text/csv", "Text/Plain; charset=x", "application/json", "image/svg+xml", "application/yaml"]
        {
            assert!(is_text(yes), "{yes}");
        }
        for no in ["", "image/png", "application/octet-stream", "application/jsonx", "application/pdf"] {
            assert!(!is_text(no), "{no}");
        }
    }

    #[test]
    fn a_prefix_is_not_json_only_if_no_continuation_can_make_it_valid() {
        for (text, is_whole) in [
            ("a=1", true),
            ("{a: 1}", true),
            ("{\"a\": ", true),
            ("{a: ", false),
            ("hi ", false),
            ("{}x", false),
        ] {
            assert!(json_error(text, is_whole).is_some(), "{text}");
        }
        for (text, is_whole) in [
            ("{\"a\": 1}", true),
            ("{\"index\": {}}\n{\"a\": 1}\n", true),
            ("", true),
            (" \n", true),
            ("{\"a\": ", false),
            ("{\"a\": \"x\\", false),
            ("", false),
            ("[1, -", false),
            ("tr", false),
        ] {
            assert!(json_error(text, is_whole).is_none(), "{text}");
        }
        assert!(is_json("Application/JSON; charset=utf-8") && is_json("application/problem+json"));
        assert!(!is_json("application/x-ndjson") && !is_json("text/plain"));
    }
}
