//! Responses, read completely within the limits.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, SET_COOKIE};
use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use encoding_rs::Encoding;
use jiff::Timestamp;
use model::{ActionError, ErrorKind, RetryPolicy};
use url::Url;
use value::mime::{self, Parameters};
use value::redact::Redactor;
use value::{File, JsonLimits, Map, Value};

use super::failure::{NotJson, retry_after};

/// Limits for parsing JSON responses. A page of 250 items with bodies stays far below them.
const JSON_LIMITS: JsonLimits = JsonLimits { depth: 64, nodes: 1_000_000 };

/// A complete response of any status, with its body decompressed.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The final address, after redirects.
    pub url: Url,
    /// Hides secrets in excerpts of the response.
    pub(crate) redactor: Redactor,
    /// The body as JSON, if it was parsed ahead because it is large.
    pub(crate) parsed: Option<Result<Value, NotJson>>,
}

/// The format as which a body is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// As JSON; an empty body is `null`.
    Json,
    /// As text.
    Text,
    /// As a file.
    Binary,
    /// According to the media type: JSON, text, or else a file.
    Auto,
}

impl BodyFormat {
    /// The names that inputs use, in documentation order.
    pub(crate) const NAMES: [&'static str; 4] = ["json", "text", "binary", "auto"];

    pub(crate) fn parse(name: &str) -> Self {
        match name {
            "text" => Self::Text,
            "binary" => Self::Binary,
            "auto" => Self::Auto,
            _ => Self::Json,
        }
    }
}

impl Response {
    /// Returns the value of a header as text; `None` if it is absent or not ASCII.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the media type without parameters, in lower case; empty if there is none.
    #[must_use]
    pub fn media_type(&self) -> String {
        let whole = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// True if the media type is JSON or based on JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let media_type = self.media_type();
        matches!(media_type.as_str(), "application/json" | "text/json") || media_type.ends_with("+json")
    }

    /// Returns the wait that the service asks for, at most [`RetryPolicy::MAX_RETRY_AFTER`]; `None` if it does not.
    pub(crate) fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        retry_after(self, now).map(|wait| wait.min(RetryPolicy::MAX_RETRY_AFTER))
    }

    /// Returns the headers as a map: names in lower case, repeated headers joined by `, `, cookies as a list.
    #[must_use]
    pub fn headers_value(&self) -> Value {
        let mut map = Map::headers();
        for name in self.headers.keys() {
            let values =
                self.headers.get_all(name).iter().map(|value| mime::header_text(value.as_bytes(), None));
            let value = if name == SET_COOKIE {
                values.map(Value::from).collect()
            } else {
                Value::from(values.collect::<Vec<_>>().join(", "))
            };
            map.insert(name.as_str(), value);
        }
        Value::from(map)
    }

    /// Parses the body as JSON; an empty body is `null`.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, or exceeds the limits.
    pub(crate) fn json(&self) -> Result<Value, NotJson> {
        self.parsed.clone().unwrap_or_else(|| self.parse())
    }

    /// Parses a large body ahead, apart from the threads that serve others, if it is JSON.
    pub(super) async fn parse_ahead(self) -> Result<Self, ActionError> {
        if !self.is_json() {
            return Ok(self);
        }
        let parsing = allocator::large_work(move || Self { parsed: Some(self.parse()), ..self });
        parsing.await.map_err(|error| ActionError::new(ErrorKind::Internal, error.to_string()))
    }

    fn parse(&self) -> Result<Value, NotJson> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        let read = match self.in_utf8() {
            Some(text) => Value::from_json(text.as_bytes(), JSON_LIMITS),
            None => Value::from_json(&self.body, JSON_LIMITS),
        };
        read.map_err(|error| NotJson(error.to_string()))
    }

    /// Returns the body as text, in the encoding of its byte order mark or its content type, or else in UTF-8.
    /// Invalid bytes become U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        mime::decode(&self.body, self.charset()).into_owned()
    }

    /// Decodes the body to UTF-8 without byte order mark; `None` if it is not valid in its encoding.
    fn in_utf8(&self) -> Option<Cow<'_, str>> {
        mime::decode_exact(&self.body, self.charset())
    }

    /// Returns the encoding that the content type names; `None` if it is missing or unknown.
    fn charset(&self) -> Option<&'static Encoding> {
        mime::charset(self.header(CONTENT_TYPE.as_str())?)
    }

    /// Returns the body as a file with the name that the response gives.
    #[must_use]
    pub fn file(&self) -> File {
        let content_type = self.header(CONTENT_TYPE.as_str()).unwrap_or("application/octet-stream");
        File { content_type: content_type.into(), filename: self.file_name(), data: self.body.clone().into() }
    }

    /// Decodes the body in the given format.
    ///
    /// # Errors
    /// Returns an error if the format is JSON and the body is not.
    pub(crate) fn decode_body(&self, format: BodyFormat) -> Result<Value, NotJson> {
        match format {
            BodyFormat::Json => self.json(),
            BodyFormat::Text => Ok(Value::from(self.text())),
            BodyFormat::Binary => Ok(Value::from(self.file())),
            BodyFormat::Auto if self.body.is_empty() => Ok(Value::Null),
            BodyFormat::Auto if self.is_json() => self.json(),
            BodyFormat::Auto => {
                let media_type = self.media_type();
                let is_text =
                    media_type.starts_with("text/") || media_type.ends_with("xml") || media_type.is_empty();
                Ok(match self.in_utf8().filter(|_| is_text) {
                    Some(text) => Value::from(text.into_owned()),
                    None => Value::from(self.file()),
                })
            }
        }
    }

    /// Returns `{statusCode, headers, body}`, the result of raw requests.
    ///
    /// # Errors
    /// Returns an error if the format is JSON and the body is not.
    pub(crate) fn envelope(&self, format: BodyFormat) -> Result<Value, NotJson> {
        let entries = [
            ("statusCode", Value::from(self.status.as_u16())),
            ("headers", self.headers_value()),
            ("body", self.decode_body(format)?),
        ];
        Ok(Value::from(entries.into_iter().collect::<Map>()))
    }

    /// Returns the file name in `Content-Disposition` (RFC 6266: `filename*` before `filename`), without any folder,
    /// since it is untrusted and must not act as a path.
    fn file_name(&self) -> Option<Arc<str>> {
        let disposition = self.headers.get(CONTENT_DISPOSITION)?;
        let name = Parameters(disposition.as_bytes()).file_name(None)?;
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        (!name.is_empty()).then(|| name.into())
    }
}

#[cfg(test)]
mod tests {
    use ::http::HeaderValue;
    use pretty_assertions::assert_eq;

    use super::*;

    fn response(headers: &[(&'static str, &'static str)], body: &'static [u8]) -> Response {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let url = Url::parse("https://x.example/").expect("a URL");
        Response {
            parsed: None,
            status: StatusCode::OK,
            headers: map,
            body: Bytes::from_static(body),
            url,
            redactor: Redactor::default(),
        }
    }

    #[test]
    fn a_body_is_decoded_by_its_media_type() {
        let read = |media_type, body| {
            response(&[("content-type", media_type)], body).decode_body(BodyFormat::Auto).expect("readable")
        };
        assert_eq!(read("application/json; charset=utf-8", b"{\"a\":1}").to_json(), r#"{"a":1}"#);
        assert_eq!(read("application/problem+json", b"[1]").to_json(), "[1]");
        assert_eq!(read("text/json", b"[1]").to_json(), "[1]");
        assert_eq!(read("text/html", b"<p>"), Value::from("<p>"));
        assert_eq!(read("image/png", b"\x89PNG").kind(), "file");
        assert_eq!(read("text/plain", b"\xff").kind(), "file");
        assert_eq!(read("image/png", b""), Value::Null);
    }

    #[test]
    fn json_is_decoded_in_its_own_character_encoding() {
        let read = |media_type, body: &'static [u8]| {
            response(&[("content-type", media_type)], body).json().map(|value| value.to_json())
        };
        let expected = r#"{"a":"é"}"#;
        let utf16 = b"\xff\xfe{\0\"\0a\0\"\0:\0\"\0\xe9\0\"\0}\0";
        for (media_type, body) in [
            ("application/json", "{\"a\":\"é\"}".as_bytes()),
            ("application/json", b"\xef\xbb\xbf{\"a\":\"\xc3\xa9\"}"),
            ("application/json; charset=ISO-8859-1", b"{\"a\":\"\xe9\"}"),
            ("application/json; charset=\"latin1\"", b"{\"a\":\"\xe9\"}"),
            ("application/json", utf16),
        ] {
            assert_eq!(read(media_type, body).expect("JSON"), expected, "{media_type}");
        }
        read("application/json", b"{\"a\":\"\xe9\"}").expect_err("not UTF-8");
    }

    #[test]
    fn repeated_headers_are_joined_and_cookies_are_not() {
        let headers = [("vary", "a"), ("vary", "b"), ("set-cookie", "x=1; path=/"), ("set-cookie", "y=2")];
        let value = response(&headers, b"").headers_value();
        assert_eq!(value.to_json(), r#"{"vary":"a, b","set-cookie":["x=1; path=/","y=2"]}"#);
        assert_eq!(value.get("Vary"), Some(Value::from("a, b")));
    }

    #[test]
    fn an_attachments_name_is_never_a_path() {
        let name = |text| response(&[("content-disposition", text)], b"x").file().filename;
        assert_eq!(name("attachment; filename=\"a b.pdf\"").as_deref(), Some("a b.pdf"));
        assert_eq!(name("attachment; filename=../../etc/passwd").as_deref(), Some("passwd"));
        assert_eq!(name("attachment; filename=\"..\\\\x.exe\"").as_deref(), Some("x.exe"));
        let both = "attachment; filename=\"plain\"; filename*=UTF-8''b%C3%A9ta%2F..%2F17.txt";
        assert_eq!(name(both).as_deref(), Some("17.txt"));
        assert_eq!(name("inline"), None);
        assert_eq!(name("attachment; filename=\"a;b.pdf\"").as_deref(), Some("a;b.pdf"));
        assert_eq!(name("attachment; filename*=iso-8859-1''caf%E9.png").as_deref(), Some("café.png"));
    }
}
