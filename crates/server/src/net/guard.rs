//! Checks before any routing: a request that two parsers could read differently is answered with 400, and its
//! connection is closed.

use std::net::Ipv6Addr;

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName};

use super::{FramingState, Refusal};
use crate::options::Limits;

/// Fields that mean one thing each: a second one is a way to have two readers disagree.
static SINGLE: [HeaderName; 8] = [
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    AUTHORIZATION,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-cogwork-trace"),
];

/// Checks a request's head.
pub(crate) fn check(head: &Parts, framing: &FramingState, limits: &Limits) -> Result<(), Refusal> {
    if let Some(fault) = framing.fault() {
        return Err(Refusal::bad_request(fault.code(), fault.message()));
    }
    target(head, limits)?;
    fields(&head.headers, limits)
}

fn target(head: &Parts, limits: &Limits) -> Result<(), Refusal> {
    let bad = |message| Err(Refusal::bad_request("bad_target", message));
    if head.uri.scheme().is_some() || head.uri.authority().is_some() {
        return bad("the target must be a path, not an absolute address");
    }
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    if target.len() > limits.target_bytes {
        return Err(Refusal::target_too_long(limits.target_bytes));
    }
    if !target.starts_with('/') {
        return bad("the target must begin with `/`");
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return bad("the target may hold visible ASCII characters only");
    }
    Ok(())
}

fn fields(headers: &HeaderMap, limits: &Limits) -> Result<(), Refusal> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if headers.len() > limits.header_fields || bytes > limits.header_bytes {
        return Err(Refusal::header_too_large(limits));
    }
    for name in &SINGLE {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err(Refusal::bad_request(
                "repeated_header",
                "a header that may be given once is repeated",
            ));
        }
    }
    match headers.get(HOST) {
        None => Err(Refusal::bad_request("bad_host", "the host header is missing")),
        Some(host) if !is_host(host.as_bytes()) => Err(Refusal::bad_request(
            "bad_host",
            "the host header must be a name or address, with or without a port",
        )),
        Some(_) => Ok(()),
    }
}

/// True for `host` and `host:port`.
fn is_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let Some((host, port)) = split_host(text) else { return false };
    let port = port.is_none_or(|port| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    });
    let name = |host: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        !host.is_empty() && host.len() <= 253 && host.bytes().all(allowed)
    };
    let address = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
    };
    port && (name(host) || address(host))
}

/// The host, an IPv6 address with its brackets, and the port; `None` where a bracket is left open.
pub(crate) fn split_host(text: &str) -> Option<(&str, Option<&str>)> {
    let end = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at(end);
    match rest {
        "" => Some((host, None)),
        rest => Some((host, Some(rest.strip_prefix(':')?))),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    fn check_head(target: &str, fields: &[(&str, &str)], expected: Result<(), &str>) {
        let mut request = Request::builder().uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let found =
            check(&head, &FramingState::default(), &Limits::default()).map_err(|refusal| refusal.code);
        assert_eq!(found, expected, "{target} {fields:?}");
    }

    #[test]
    fn a_target_is_a_path_in_visible_ascii() {
        let host = [("host", "a")];
        check_head("/trigger/x?a=b", &host, Ok(()));
        check_head("http://a/trigger/x", &host, Err("bad_target"));
        check_head("a:80", &host, Err("bad_target"));
        check_head("*", &host, Err("bad_target"));
        check_head("/trigger/é", &host, Err("bad_target"));
        check_head(&format!("/{}", "a".repeat(8 << 10)), &host, Err("target_too_long"));
    }

    #[test]
    fn the_host_header_must_appear_once_and_be_well_formed() {
        for host in ["a", "a.b-c_d:80", "127.0.0.1:7070", "[::1]", "[::1]:7070"] {
            check_head("/", &[("host", host)], Ok(()));
        }
        for host in
            ["", ":80", "a:", "a:99999", "a:+8", "a b", "a/b", "a@b", "[::1", "[x]", "a,b", "[::1]x", "é"]
        {
            check_head("/", &[("host", host)], Err("bad_host"));
        }
        check_head("/", &[], Err("bad_host"));
        check_head("/", &[("host", "a"), ("host", "a")], Err("repeated_header"));
    }

    #[test]
    fn a_singleton_header_must_not_be_repeated() {
        check_head("/", &[("host", "a"), ("x-a", "1"), ("x-a", "2")], Ok(()));
        let names = [
            "authorization",
            "content-type",
            "content-encoding",
            "content-length",
            "idempotency-key",
            "x-cogwork-trace",
        ];
        for name in names {
            check_head("/", &[("host", "a"), (name, "1"), (name, "1")], Err("repeated_header"));
        }
    }

    #[test]
    fn the_header_section_is_limited_in_size() {
        let long = "v".repeat(16 << 10);
        check_head("/", &[("host", "a"), ("x", &long)], Err("header_too_large"));
        let mut many = vec![("x", "v"); 63];
        many.push(("host", "a"));
        check_head("/", &many, Ok(()));
        many.push(("x", "v"));
        check_head("/", &many, Err("header_too_large"));
    }

    proptest! {
        #[test]
        fn no_host_makes_the_parser_panic(text in "[\\[\\]:a0-9.é]{0,12}") {
            let _ = is_host(text.as_bytes());
        }
    }
}
