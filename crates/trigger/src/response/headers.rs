//! Headers of responses: headers that authors may set, and headers that every response has.

use http::HeaderName;
use model::HttpResponse;
use model::automation::StaticResponse;
use model::payload::HeaderText;
use value::Data;

/// The maximum number of headers that an author may set on a response.
pub(super) const MAX_HEADERS: usize = StaticResponse::MAX_HEADERS;
/// Their maximum size in bytes, names and values together.
pub(super) const MAX_HEADER_BYTES: usize = StaticResponse::MAX_HEADER_BYTES;

/// Headers that authors may not set but Cogwork's own responses have. [`seal`] keeps them.
const INTERNAL_HEADERS: [&str; 3] = ["content-type", super::DUPLICATE, super::EXECUTION_ID];

/// The header with the content security policy.
pub(super) const CONTENT_SECURITY_POLICY: &str = "content-security-policy";
/// The sandbox exceptions that a page may have.
pub(super) const SANDBOX_EXCEPTIONS: [&str; 2] = ["allow-forms", "allow-scripts"];
/// Types that a browser displays or saves but never executes, so that they need no sandbox.
const INERT_TYPES: [&str; 12] = [
    "application/json",
    "application/octet-stream",
    "application/pdf",
    "application/problem+json",
    "application/zip",
    "image/avif",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "text/csv",
    "text/plain",
];

/// The reason why an author may not set this header; `None` if it is allowed.
pub(super) fn header_error(name: &str, value: &str) -> Option<String> {
    let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
        let shown = text::truncate(name, 40);
        return Some(format!("`{shown}` is not a header name; use letters, digits and `-`"));
    };
    let name = parsed.as_str();
    if let Some(reason) = model::reserved_headers::reserved_header_reason(name) {
        return Some(format!("header `{name}` may not be set here: {reason}"));
    }
    if !is_header_value(value) {
        return Some(format!("header `{name}` has a line break or another control character"));
    }
    None
}

/// The message for too many headers.
pub(super) fn too_many_headers() -> String {
    format!("there are too many headers; the limit is {MAX_HEADERS}, of {MAX_HEADER_BYTES} bytes together")
}

/// True if a header may have this value: no control character except the tab, which prevents header injection.
pub(super) fn is_header_value(value: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
    value.bytes().all(is_plain) || !value.chars().any(|character| character.is_control() && character != '\t')
}

/// True if a text is a single media type, such as `text/html; charset=utf-8`.
pub(super) fn is_media_type(text: &str) -> bool {
    if INERT_TYPES.contains(&text) {
        return true;
    }
    let token = |part: &str| {
        let mark = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.bytes().all(mark)
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let named = essence.trim_end().split_once('/').is_some_and(|(main, sub)| token(main) && token(sub));
    named && parameters.is_ascii() && is_header_value(parameters) && !parameters.contains(',')
}

/// Makes a response safe to send. Every response passes this function last; it is idempotent.
///
/// * Drops headers that act beyond the response, invalid names, and values with a line break; for authors these were errors
///   before.
/// * Adds `x-content-type-options: nosniff` and `referrer-policy: no-referrer` (the address is a secret) to every response,
///   and `cache-control: no-store` unless the author chose another.
/// * Adds a `content-security-policy` with `sandbox` to every type that a browser could execute: HTML, SVG, XML and all types
///   not known to be inert. It may allow forms and scripts ([`SANDBOX_EXCEPTIONS`]), never the origin of the listener. An author's own
///   policy is in the same header; browsers enforce both.
/// * Removes the body and its type for 204, 205 and 304 (RFC 9110, section 15).
/// * Converts names to lower case. A status outside 200 to 599 becomes 500.
#[must_use]
pub fn seal(response: HttpResponse) -> HttpResponse {
    let HttpResponse { status, headers, mut body } = response;
    let status = if super::is_status(status) { status } else { 500 };
    let bodyless = matches!(status, 204 | 205 | 304);
    if bodyless {
        body = Data::default();
    }
    let mut safe_headers: Vec<(HeaderText, HeaderText)> = Vec::with_capacity(headers.len() + 4);
    for (mut name, value) in headers {
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            name = name.to_ascii_lowercase().into();
        }
        let content_type = name == "content-type";
        let own = INTERNAL_HEADERS.contains(&&*name)
            && is_header_value(&value)
            && !safe_headers.iter().any(|(other, _)| *other == name);
        if (own || header_error(&name, &value).is_none())
            && !(content_type && (bodyless || !is_media_type(&value)))
        {
            safe_headers.push((name, value));
        }
    }
    let mut response = HttpResponse { status, headers: safe_headers, body };
    if !response.body.is_empty() && response.header("content-type").is_none() {
        response = response.with_header("content-type", "application/octet-stream");
    }
    if response.header("cache-control").is_none() {
        response = response.with_header("cache-control", "no-store");
    }
    if !response.header("content-type").is_none_or(is_inert) {
        let (policies, others): (Vec<_>, Vec<_>) =
            response.headers.into_iter().partition(|(name, _)| name == CONTENT_SECURITY_POLICY);
        response.headers = others;
        let policies: Vec<&str> = policies.iter().map(|(_, value)| &**value).collect();
        response = response.with_header(CONTENT_SECURITY_POLICY, merge_policies(&policies));
    }
    // Set last and dropped above, so that sealing is idempotent.
    response.with_header("x-content-type-options", "nosniff").with_header("referrer-policy", "no-referrer")
}

/// Combines policies and a `sandbox` into one header value. Keeps only the exceptions in [`SANDBOX_EXCEPTIONS`] of these sandboxes.
fn merge_policies(policies: &[&str]) -> String {
    let (mut sandbox, mut safe_headers) = (vec!["sandbox"], Vec::new());
    // A comma separates policies, a semicolon the directives of one.
    for policy in policies.iter().flat_map(|policy| policy.split(',')) {
        let mut directives = Vec::new();
        for directive in policy.split(';').map(str::trim).filter(|directive| !directive.is_empty()) {
            let mut words = directive.split_ascii_whitespace();
            if !words.next().is_some_and(|name| name.eq_ignore_ascii_case("sandbox")) {
                directives.push(directive);
                continue;
            }
            let allowed = words
                .filter_map(|word| SANDBOX_EXCEPTIONS.iter().find(|known| known.eq_ignore_ascii_case(word)));
            for word in allowed {
                if !sandbox.contains(word) {
                    sandbox.push(word);
                }
            }
        }
        if !directives.is_empty() {
            safe_headers.push(directives.join("; "));
        }
    }
    let sandbox = sandbox.join(" ");
    match safe_headers.split_first_mut() {
        Some((first, _)) => {
            *first = format!("{sandbox}; {first}");
            safe_headers.join(", ")
        }
        None => sandbox,
    }
}

fn is_inert(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    INERT_TYPES.contains(&essence.as_str()) || essence.starts_with("audio/") || essence.starts_with("video/")
}
