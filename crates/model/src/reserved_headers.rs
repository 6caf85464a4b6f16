//! Headers that a webhook response must not set, each with the reason.
//!
//! The loader rejects literal names; the builder of responses rejects computed ones.

const SET_BY_SERVER: &str = "it is set by Cogwork";
const ORIGIN_WIDE: &str = "it would affect more than this response";
const CONNECTION: &str = "it belongs to the connection";

/// Reserved names, in lower case, with the reason. Most affect the connection or the whole origin in a browser, not just
/// one response.
const RESERVED_HEADERS: [(&str, &str); 25] = [
    ("alt-svc", ORIGIN_WIDE),
    ("clear-site-data", ORIGIN_WIDE),
    ("connection", CONNECTION),
    ("content-length", SET_BY_SERVER),
    ("content-type", "write it as `contentType`"),
    ("keep-alive", CONNECTION),
    ("nel", ORIGIN_WIDE),
    ("proxy-authenticate", CONNECTION),
    ("proxy-authorization", CONNECTION),
    ("proxy-connection", CONNECTION),
    ("public-key-pins", ORIGIN_WIDE),
    ("referrer-policy", SET_BY_SERVER),
    ("report-to", ORIGIN_WIDE),
    ("reporting-endpoints", ORIGIN_WIDE),
    ("service-worker-allowed", ORIGIN_WIDE),
    ("set-cookie", ORIGIN_WIDE),
    ("set-cookie2", ORIGIN_WIDE),
    ("strict-transport-security", ORIGIN_WIDE),
    ("te", CONNECTION),
    ("trailer", CONNECTION),
    ("transfer-encoding", CONNECTION),
    ("upgrade", CONNECTION),
    ("x-content-type-options", SET_BY_SERVER),
    ("x-duplicate", SET_BY_SERVER),
    ("x-execution-id", SET_BY_SERVER),
];

/// Returns the reason why a response must not set the header `name` (in lower case); `None` if it may.
#[must_use]
pub fn reserved_header_reason(name: &str) -> Option<&'static str> {
    let reserved = RESERVED_HEADERS.iter().find(|(header, _)| *header == name).map(|(_, reason)| *reason);
    reserved.or_else(|| name.starts_with("access-control-").then_some("a webhook is not a browser API"))
}
