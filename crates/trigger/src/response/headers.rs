//! Which headers an answer may have, and those it always has.

use http::HeaderName;
use model::HttpResponse;
use model::payload::HeaderText;
use model::value::Data;

/// The most headers an author may set on one answer.
pub(super) const MAX_HEADERS: usize = 64;
/// The most bytes of them, names and values together.
pub(super) const MAX_HEADER_BYTES: usize = 16 * 1024;

/// Headers that authors may not set and Cogwork's own answers carry, so [`sealed`] lets them pass.
const OWN: [&str; 3] = ["content-type", super::DUPLICATE, super::EXECUTION_ID];

/// The header of a page's policy.
pub(super) const POLICY: &str = "content-security-policy";
/// The exceptions from its sandbox that a page may have.
pub(super) const ALLOWED: [&str; 2] = ["allow-forms", "allow-scripts"];
/// Types that a browser shows or saves but never runs, so they need no sandbox.
const INERT: [&str; 12] = [
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

/// Why an author may not set this header, if so.
pub(super) fn refusal(name: &str, value: &str) -> Option<String> {
    let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
        let shown = model::redact::cut(name, 40);
        return Some(format!("`{shown}` is not a header name; use letters, digits and `-`"));
    };
    let name = parsed.as_str();
    if let Some(reason) = model::answer::refused_header(name) {
        return Some(format!("header `{name}` may not be set here: {reason}"));
    }
    if !is_value(value) {
        return Some(format!("header `{name}` has a line break or another control character"));
    }
    None
}

/// What is said of too many headers.
pub(super) fn too_many() -> String {
    format!(
        "there are too many headers; at most {MAX_HEADERS}, of {MAX_HEADER_BYTES} bytes together, are taken"
    )
}

/// Whether a header may have this value: no control character but the tab, so no line can be added to the answer.
pub(super) fn is_value(value: &str) -> bool {
    !value.chars().any(|character| character.is_control() && character != '\t')
}

/// Whether a text is one media type, such as `text/html; charset=utf-8`.
pub(super) fn is_media_type(text: &str) -> bool {
    let token = |part: &str| {
        let mark = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.bytes().all(mark)
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let named = essence.trim_end().split_once('/').is_some_and(|(main, sub)| token(main) && token(sub));
    named && parameters.is_ascii() && is_value(parameters) && !parameters.contains(',')
}

/// Makes an answer safe to send: the last thing done to every one, and harmless to do twice.
///
/// * Headers that act beyond the answer, names that are none and values with a line break are dropped; those of authors
///   were refused earlier with a reason.
/// * `x-content-type-options: nosniff` and `referrer-policy: no-referrer` (the address is a secret) on every answer,
///   `cache-control: no-store` unless the author chose another.
/// * A `content-security-policy` with `sandbox` on every type that a browser could run: HTML, SVG, XML and whatever is not
///   known to be inert. It may allow forms and scripts ([`ALLOWED`]), never the origin of the listener. An author's own policy
///   stands in the same header; a browser keeps to all of it.
/// * 204, 205 and 304 lose their body and its type (RFC 9110, section 15).
/// * Names are lower-case. A status outside 200 to 599 becomes 500.
#[must_use]
pub fn sealed(response: HttpResponse) -> HttpResponse {
    let HttpResponse { status, headers, mut body } = response;
    let status = if super::is_status(status) { status } else { 500 };
    let bodyless = matches!(status, 204 | 205 | 304);
    if bodyless {
        body = Data::default();
    }
    let mut kept: Vec<(HeaderText, HeaderText)> = Vec::with_capacity(headers.len() + 4);
    for (mut name, value) in headers {
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            name = name.to_ascii_lowercase().into();
        }
        let content_type = name == "content-type";
        let own = OWN.contains(&&*name) && is_value(&value) && !kept.iter().any(|(other, _)| *other == name);
        if (own || refusal(&name, &value).is_none())
            && !(content_type && (bodyless || !is_media_type(&value)))
        {
            kept.push((name, value));
        }
    }
    let mut response = HttpResponse { status, headers: kept, body };
    if !response.body.is_empty() && response.header("content-type").is_none() {
        response = response.with_header("content-type", "application/octet-stream");
    }
    if response.header("cache-control").is_none() {
        response = response.with_header("cache-control", "no-store");
    }
    if !response.header("content-type").is_none_or(is_inert) {
        let (policies, others): (Vec<_>, Vec<_>) =
            response.headers.into_iter().partition(|(name, _)| name == POLICY);
        response.headers = others;
        let policies: Vec<&str> = policies.iter().map(|(_, value)| &**value).collect();
        response = response.with_header(POLICY, sandboxed(&policies));
    }
    // Last, and dropped above, so sealing twice changes nothing.
    response.with_header("x-content-type-options", "nosniff").with_header("referrer-policy", "no-referrer")
}

/// These policies and a `sandbox` in the value of one header. Of what they allow a sandboxed page, only [`ALLOWED`] stays.
fn sandboxed(policies: &[&str]) -> String {
    let (mut sandbox, mut kept) = (vec!["sandbox"], Vec::new());
    // A comma separates whole policies, a semicolon the directives of one.
    for policy in policies.iter().flat_map(|policy| policy.split(',')) {
        let mut directives = Vec::new();
        for directive in policy.split(';').map(str::trim).filter(|directive| !directive.is_empty()) {
            let mut words = directive.split_ascii_whitespace();
            if !words.next().is_some_and(|name| name.eq_ignore_ascii_case("sandbox")) {
                directives.push(directive);
                continue;
            }
            let allowed =
                words.filter_map(|word| ALLOWED.iter().find(|known| known.eq_ignore_ascii_case(word)));
            for word in allowed {
                if !sandbox.contains(word) {
                    sandbox.push(word);
                }
            }
        }
        if !directives.is_empty() {
            kept.push(directives.join("; "));
        }
    }
    let sandbox = sandbox.join(" ");
    match kept.split_first_mut() {
        Some((first, _)) => {
            *first = format!("{sandbox}; {first}");
            kept.join(", ")
        }
        None => sandbox,
    }
}

fn is_inert(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    INERT.contains(&essence.as_str()) || essence.starts_with("audio/") || essence.starts_with("video/")
}
