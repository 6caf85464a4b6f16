//! Requests before they are sent, and encodings that no input can break out of.

use std::sync::Arc;
use std::time::Duration;

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use model::{ActionError, ErrorKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;
use value::{Data, FileLoadError, MAX_LOADED_BYTES, Map, Value, encode_form, encode_json};

use super::multipart::Part;

/// All characters except the unreserved ones of URLs (RFC 3986, section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Headers of the connection or the client itself, which inputs may not set.
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request without credentials. It can be sent any number of times. Its body has contents of type `C`; a request on the wire has bytes, of
/// type [`Data`], and [`Request::encoded`] makes them.
#[derive(Clone, Debug)]
pub struct Request<C = Content> {
    /// The method.
    pub method: Method,
    /// The address, including the query.
    pub url: Url,
    /// The headers, without credentials.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body<C>,
    /// The timeout of the whole exchange; `None` for the daemon's default.
    pub timeout: Option<Duration>,
    /// The largest response body in bytes; `None` for the daemon's limit, which also bounds this one.
    pub max_response: Option<usize>,
    /// The rules of the service.
    pub(crate) rules: Arc<RequestRules>,
}

/// The rules of a service for its requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestRules {
    /// The header for the key of a call that may change something; `None` if the service takes no key in a header.
    pub key_header: Option<HeaderName>,
    /// The headers in which the service reports how many calls are left.
    pub rate: Option<RateHeaders>,
    /// The hosts, besides its own, to which the service may redirect; `None` for all hosts.
    pub redirects: Option<Vec<String>>,
}

impl Default for RequestRules {
    fn default() -> Self {
        Self { key_header: Some(HeaderName::from_static("idempotency-key")), rate: None, redirects: None }
    }
}

impl RequestRules {
    /// True if the request for `from` may be redirected to `to`. A host that begins with `*.` stands for all below it.
    pub(crate) fn may_redirect(&self, from: &Url, to: &Url) -> bool {
        let host = to.host_str().unwrap_or_default();
        let is_named = |named: &String| match named.strip_prefix('*') {
            Some(end) => host.ends_with(end),
            None => host == named,
        };
        to.origin() == from.origin() || self.redirects.as_ref().is_none_or(|hosts| hosts.iter().any(is_named))
    }
}

/// The headers with a rate limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateHeaders {
    /// The header with the number of calls that are left.
    pub remaining: String,
    /// The header with the end of the window.
    pub reset: String,
    pub unit: RateUnit,
}

/// The notation of the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateUnit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Seconds since 1970.
    Epoch,
    /// RFC 3339.
    Time,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub enum Body<C = Content> {
    /// No body.
    Empty,
    /// One content; its `Content-Type` is among the headers.
    Whole(C),
    /// A form with parts, `multipart/form-data`.
    Multipart(Vec<Part<C>>),
}

/// The content of a body or of a part of it, before it is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Bytes.
    Bytes(Data),
    /// The JSON of a value with external files.
    Json(Value),
    /// A form, `application/x-www-form-urlencoded`, whose fields contain external files.
    Form(Vec<(String, Value)>),
}

impl Content {
    /// Makes the bytes, without the files in memory. Reads external files, which blocks.
    fn encoded(&self) -> Result<Data, FileLoadError> {
        match self {
            Self::Bytes(data) => Ok(data.clone()),
            Self::Json(value) => encode_json(value, MAX_LOADED_BYTES),
            Self::Form(fields) => encode_form(fields, MAX_LOADED_BYTES),
        }
    }
}

impl<C> Request<C> {
    /// True if the method only reads (RFC 9110, 9.2.1).
    pub(crate) fn is_safe(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
    }
}

impl Request {
    /// Creates a request without headers and body.
    #[must_use]
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Body::Empty,
            timeout: None,
            max_response: None,
            rules: Arc::default(),
        }
    }

    /// True if [`Request::encoded`] reads files, which blocks.
    pub(super) fn reads_files(&self) -> bool {
        let reads = |content: &Content| !matches!(content, Content::Bytes(_));
        match &self.body {
            Body::Empty => false,
            Body::Whole(content) => reads(content),
            Body::Multipart(parts) => parts.iter().any(|part| reads(&part.content)),
        }
    }

    /// Returns the request with the bytes of its body.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Input`] if an external file cannot be read.
    pub(crate) fn encoded(&self) -> Result<Request<Data>, ActionError> {
        let encode = |content: &Content| content.encoded().map_err(|error| too_large(&error));
        let body = match &self.body {
            Body::Empty => Body::Empty,
            Body::Whole(content) => Body::Whole(encode(content)?),
            Body::Multipart(parts) => {
                let parts = parts.iter().map(|part| Ok(part.with_content(encode(&part.content)?)));
                Body::Multipart(parts.collect::<Result<_, ActionError>>()?)
            }
        };
        let Self { method, url, headers, timeout, max_response, .. } = self;
        let (method, url, headers) = (method.clone(), url.clone(), headers.clone());
        let rules = self.rules.clone();
        Ok(Request { method, url, headers, body, timeout: *timeout, max_response: *max_response, rules })
    }

    /// Sets a header from an input.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Input`] if HTTP cannot carry the name or the value, or if inputs may not set this header.
    pub fn set_header(&mut self, name: &str, value: &Value) -> Result<(), ActionError> {
        if !matches!(value, Value::Null) {
            let (header, value) = header(name, value)?;
            self.headers.insert(header, value);
        }
        Ok(())
    }

    /// Sets the body to bytes; their media type applies unless a `Content-Type` header is set.
    pub fn set_bytes(&mut self, content_type: &str, data: impl Into<Data>) {
        self.set_content(content_type, Content::Bytes(data.into()));
    }

    fn set_content(&mut self, content_type: &str, content: Content) {
        if !self.headers.contains_key(CONTENT_TYPE)
            && let Ok(value) = HeaderValue::from_str(content_type)
        {
            self.headers.insert(CONTENT_TYPE, value);
        }
        self.body = Body::Whole(content);
    }

    /// Sets the body to a value: the bytes of a file, a text as it is, or else JSON.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Input`] if the JSON would contain a file that is too large.
    pub fn set_value(&mut self, value: &Value) -> Result<(), ActionError> {
        match value {
            Value::File(file) => self.set_bytes(&file.content_type, file.data.clone()),
            Value::String(text) => self.set_bytes(text_media_type(text), text.as_bytes().to_vec()),
            other => self.set_json(other)?,
        }
        Ok(())
    }

    /// Sets the body to JSON. External files in it are read while it is sent.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Input`] if the JSON would contain a file that is too large.
    pub fn set_json(&mut self, value: &Value) -> Result<(), ActionError> {
        if value.has_external_file() {
            check_files(value.external_bytes())?;
            self.set_content("application/json", Content::Json(value.clone()));
        } else {
            self.set_bytes("application/json", value.to_json());
        }
        Ok(())
    }

    /// Sets the body to fields as a browser's form encodes them.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Input`] if a field contains a file that is too large.
    pub fn set_form(&mut self, fields: &[(String, Value)]) -> Result<(), ActionError> {
        const FORM: &str = "application/x-www-form-urlencoded";
        let files: usize = fields.iter().map(|(_, value)| value.external_bytes()).sum();
        if files > 0 {
            check_files(files)?;
            self.set_content(FORM, Content::Form(fields.to_vec()));
        } else {
            self.set_bytes(FORM, encode_form(fields, 0).map_err(|error| too_large(&error))?);
        }
        Ok(())
    }

    /// Adds a query parameter: a list once per item, a map as JSON, `null` not at all.
    pub fn add_query(&mut self, name: &str, value: &Value) {
        let pairs: Vec<String> =
            query_texts(value).map(|text| format!("{}={}", encode(name), encode(&text))).collect();
        let added = pairs.join("&");
        if added.is_empty() {
            return;
        }
        let query = match self.url.query() {
            Some(query) if !query.is_empty() => format!("{query}&{added}"),
            _ => added,
        };
        self.url.set_query(Some(&query));
    }

    /// Adds query parameters; each replaces all parameters of its name.
    pub fn merge_query(&mut self, parameters: &Map) {
        let kept: Vec<&str> =
            self.url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).collect();
        let name_of = |pair: &str| decode(pair.split_once('=').map_or(pair, |(name, _)| name));
        let kept: Vec<&str> =
            kept.into_iter().filter(|pair| !parameters.contains_key(&name_of(pair))).collect();
        let query = kept.join("&");
        self.url.set_query((!query.is_empty()).then_some(query.as_str()));
        for (name, value) in parameters.iter() {
            self.add_query(name, value);
        }
    }
}

/// Refuses files that are too large together for JSON or a form.
pub(super) fn check_files(bytes: usize) -> Result<(), ActionError> {
    if bytes <= MAX_LOADED_BYTES {
        return Ok(());
    }
    Err(too_large(&FileLoadError::TooLarge { bytes: bytes as u64, max: MAX_LOADED_BYTES as u64 }))
}

/// Returns a header from an input.
///
/// # Errors
/// Returns [`ErrorKind::Input`] if HTTP cannot carry the name or the value, or if inputs may not set this header.
pub(crate) fn header(name: &str, value: &Value) -> Result<(HeaderName, HeaderValue), ActionError> {
    let input_error = |words: String| ActionError::new(ErrorKind::Input, words);
    let header = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| input_error(format!("`{}` is not the name of a header", name.escape_debug())))?;
    if RESERVED.contains(&header.as_str()) {
        return Err(input_error(format!("the header `{header}` is set by the client itself; leave it out")));
    }
    let value = HeaderValue::from_bytes(value.to_text().as_bytes()).map_err(|_| {
        input_error(format!("the header `{header}` holds a line break or another control character"))
    })?;
    Ok((header, value))
}

fn too_large(error: &FileLoadError) -> ActionError {
    ActionError::new(ErrorKind::Input, error.to_string())
}

/// Returns the media type of a text body: JSON if the text parses as JSON, which most APIs expect.
fn text_media_type(text: &str) -> &'static str {
    let is_json = text.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if is_json { "application/json" } else { "text/plain; charset=utf-8" }
}

/// Returns the texts that a value is sent as: one per list item, none for `null`.
fn query_texts(value: &Value) -> impl Iterator<Item = String> {
    let items = match value {
        Value::List(list) => list.0.as_slice(),
        one => std::slice::from_ref(one),
    };
    items.iter().filter(|item| !item.is_null()).map(Value::to_text)
}

/// Percent-encodes a text for one path segment, or one name or value of a query.
#[must_use]
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Decodes a name or value of a query. `+` stays `+`, because services send cursors with unescaped `+`.
pub(crate) fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn request(url: &str) -> Request {
        Request::new(Method::GET, Url::parse(url).expect("a URL"))
    }

    #[test]
    fn query_values_cannot_inject_parameters() {
        let mut request = request("https://x.example/a?k=1");
        request.add_query("title", &Value::from("a&b=c#d e+é"));
        request.add_query("ids", &Value::from(vec![Value::from(1_i64), Value::Null, Value::from("2,3")]));
        request.add_query("none", &Value::Null);
        assert_eq!(
            request.url.as_str(),
            "https://x.example/a?k=1&title=a%26b%3Dc%23d%20e%2B%C3%A9&ids=1&ids=2%2C3"
        );
    }

    #[test]
    fn a_form_has_a_field_for_each_item_and_none_for_null() {
        let mut request = request("https://x.example/");
        let map = Value::from(Map::from_iter([("k", Value::from("&"))]));
        let list = Value::from(vec![Value::from("a b"), Value::Null, map.clone()]);
        let fields = [("l", list), ("n", Value::Null), ("m", map), ("e", Value::from(""))];
        request.set_form(&fields.map(|(name, value)| (name.to_owned(), value))).expect("a form");
        let Body::Whole(Content::Bytes(data)) = &request.body else { panic!("a form in memory") };
        assert_eq!(
            data.for_display(),
            "l=a%20b&l=%7B%22k%22%3A%22%26%22%7D&m=%7B%22k%22%3A%22%26%22%7D&e=".as_bytes()
        );
    }

    #[test]
    fn merged_query_parameters_replace_those_of_the_same_name() {
        let mut request = request("https://x.example/a?limit=25&limit=26&sp%61ce=1&cursor=x%3D");
        let more: Map = [("limit", Value::from(5_i64)), ("space", Value::from("2")), ("cursor", Value::Null)]
            .into_iter()
            .collect();
        request.merge_query(&more);
        assert_eq!(request.url.as_str(), "https://x.example/a?limit=5&space=2");
    }

    #[test]
    fn a_header_value_cannot_inject_another_header() {
        let mut request = request("https://x.example/");
        for (name, value) in
            [("x-a", "1\r\nx-b: 2"), ("x-a", "1\n2"), ("x-a", "\u{0}"), ("x a", "1"), ("x-a\r\nb", "1")]
        {
            let error = request.set_header(name, &Value::from(value)).expect_err("refused");
            assert_eq!(error.kind, ErrorKind::Input);
            assert!(!error.message.contains('\n'), "{}", error.message);
        }
        for name in RESERVED {
            assert!(request.set_header(name, &Value::from("x")).is_err(), "{name}");
        }
        assert!(request.headers.is_empty());
        request.set_header("X-Ünder", &Value::from("x")).expect_err("names are ASCII");
        request.set_header("X-Title", &Value::from("Ünder")).expect("values may be UTF-8");
    }

    #[test]
    fn a_text_body_gets_the_json_media_type_only_if_it_parses() {
        let type_of = |text: &str| {
            let mut request = request("https://x.example/");
            request.set_value(&Value::from(text)).expect("a text is a body");
            request.headers[CONTENT_TYPE].to_str().expect("text").to_owned()
        };
        assert_eq!(type_of(r#" {"a": 1}"#), "application/json");
        assert_eq!(type_of("{a: 1}"), "text/plain; charset=utf-8");
        assert_eq!(type_of("hello"), "text/plain; charset=utf-8");
    }

    proptest! {
        #[test]
        fn percent_encoding_round_trips(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            let encoded = encode(&text);
            prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
            prop_assert_eq!(decode(&encoded), text);
        }
    }
}
