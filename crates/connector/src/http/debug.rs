//! The log output of Debug Request: the whole exchange, with credentials masked and long bodies replaced by their
//! size.

use std::fmt::Write as _;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;
use value::Data;
use value::redact::MASK;

use super::request::{Body, Request, decode};
use super::response::Response;
use super::{LogDetail, RequestContext};

/// Larger bodies are logged as their size (wiki-api facts 1.4).
const MAX_BODY: usize = 10 * 1024;

/// Substrings, in lower case, of names of headers and query parameters that carry credentials.
const SENSITIVE: [&str; 10] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "api-key",
    "apikey",
    "api_key",
    "signature",
    "access_key",
];

/// Shorter secrets are not masked in texts, because they would match too often (threat model 4.7).
const MIN_SECRET: usize = 8;

/// Formats a request for the log.
pub(super) fn request(
    request: &Request<Data>,
    url: &Url,
    headers: &HeaderMap,
    context: &RequestContext<'_>,
) -> String {
    let mut text = format!("→ {} {}", request.method, shown_url(url, context.log_detail));
    write_headers(&mut text, headers, context.log_detail);
    let body = match &request.body {
        Body::Empty => String::new(),
        Body::Whole(data) => shown_body(&data.for_display()),
        Body::Multipart(parts) => {
            let lines = parts.iter().map(|part| {
                let name =
                    part.file_name.as_ref().map(|name| format!(" (file `{name}`)")).unwrap_or_default();
                format!("form field `{}`{name}: {}", part.name, shown_body(&part.content.for_display()))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    finish(text, &body, context)
}

/// Formats a response for the log.
pub(super) fn response(response: &Response, context: &RequestContext<'_>) -> String {
    let mut text = format!("← {} from {}", response.status, shown_url(&response.url, context.log_detail));
    write_headers(&mut text, &response.headers, context.log_detail);
    finish(text, &shown_body(&response.body), context)
}

fn finish(mut text: String, body: &str, context: &RequestContext<'_>) -> String {
    if !body.is_empty() {
        text.push_str("\n\n");
        text.push_str(body);
    }
    if context.log_detail == LogDetail::Masked {
        for secret in context.connection.into_iter().flat_map(|connection| connection.secrets()) {
            if secret.expose().len() >= MIN_SECRET {
                text = text.replace(secret.expose(), MASK);
            }
        }
    }
    text
}

fn write_headers(text: &mut String, headers: &HeaderMap, detail: LogDetail) {
    for (name, value) in headers {
        let _ = write!(text, "\n{name}: {}", shown_header(name, value, detail));
    }
}

fn shown_header(name: &HeaderName, value: &HeaderValue, detail: LogDetail) -> String {
    if detail == LogDetail::Masked && (value.is_sensitive() || is_sensitive(name.as_str())) {
        return MASK.to_owned();
    }
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

pub(super) fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SENSITIVE.iter().any(|piece| name.contains(piece))
}

fn shown_url(url: &Url, detail: LogDetail) -> String {
    let Some(query) = url.query().filter(|_| detail == LogDetail::Masked) else { return url.to_string() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_sensitive(&decode(name)) => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    });
    let shown = pairs.collect::<Vec<_>>().join("&");
    let mut bare = url.clone();
    bare.set_query(None);
    format!("{bare}?{shown}")
}

fn shown_body(data: &[u8]) -> String {
    match std::str::from_utf8(data) {
        Ok(text) if data.len() <= MAX_BODY => text.to_owned(),
        Ok(_) => format!("({} bytes)", data.len()),
        Err(_) => format!("({} bytes, not text)", data.len()),
    }
}

#[cfg(test)]
mod tests {
    use model::LogLevel;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::http::testing;
    use crate::log::LogSink;

    struct Nowhere;
    impl LogSink for Nowhere {
        fn line(&self, _: LogLevel, _: &str) {}
    }

    fn context(log_detail: LogDetail) -> RequestContext<'static> {
        RequestContext { subject: "it", idempotency_key: "k", log_detail, ..testing::context(&Nowhere) }
    }

    fn check(detail: LogDetail, expected: &str) {
        let url = Url::parse("https://x.example/a?limit=5&access_token=abc").expect("a URL");
        let mut sent = Request::new(::http::Method::POST, url.clone());
        sent.set_bytes("application/json", "{}");
        let mut headers = sent.headers.clone();
        headers.insert("authorization", HeaderValue::from_static("Basic abc"));
        headers.insert("x-api-key", HeaderValue::from_static("abc"));
        let sent = sent.encoded().expect("bytes");
        assert_eq!(request(&sent, &url, &headers, &context(detail)), expected);
    }

    #[test]
    fn credentials_are_masked() {
        check(
            LogDetail::Masked,
            "→ POST https://x.example/a?limit=5&access_token=***\ncontent-type: application/json\n\
             authorization: ***\nx-api-key: ***\n\n{}",
        );
    }

    #[test]
    fn full_detail_shows_credentials() {
        check(
            LogDetail::Full,
            "→ POST https://x.example/a?limit=5&access_token=abc\ncontent-type: application/json\n\
             authorization: Basic abc\nx-api-key: abc\n\n{}",
        );
    }

    #[test]
    fn long_and_binary_bodies_are_shown_as_their_size() {
        assert_eq!(shown_body(&vec![b'a'; MAX_BODY]).len(), MAX_BODY);
        assert_eq!(shown_body(&vec![b'a'; MAX_BODY + 1]), "(10241 bytes)");
        assert_eq!(shown_body(&[0xff, 0xfe]), "(2 bytes, not text)");
    }
}
