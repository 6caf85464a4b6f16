//! Which headers an answer to a webhook may not have, and why. The loader refuses them where they are written, and whoever
//! makes an answer refuses those that were computed.

const RESERVED: &str = "it is set by Cogwork";
const ORIGIN_WIDE: &str = "it would act on more than this answer";
const CONNECTION: &str = "it belongs to the connection";

/// They act beyond the one answer: on the connection, or on everything else that the browser has from this host.
const REFUSED: [(&str, &str); 25] = [
    ("alt-svc", ORIGIN_WIDE),
    ("clear-site-data", ORIGIN_WIDE),
    ("connection", CONNECTION),
    ("content-length", RESERVED),
    ("content-type", "write it as `contentType`"),
    ("keep-alive", CONNECTION),
    ("nel", ORIGIN_WIDE),
    ("proxy-authenticate", CONNECTION),
    ("proxy-authorization", CONNECTION),
    ("proxy-connection", CONNECTION),
    ("public-key-pins", ORIGIN_WIDE),
    ("referrer-policy", RESERVED),
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
    ("x-content-type-options", RESERVED),
    ("x-duplicate", RESERVED),
    ("x-execution-id", RESERVED),
];

/// Why an answer may not have the header with this lower-case name, if so.
#[must_use]
pub fn reserved_header_reason(name: &str) -> Option<&'static str> {
    let known = REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, reason)| *reason);
    known.or_else(|| name.starts_with("access-control-").then_some("a webhook is not a browser API"))
}
