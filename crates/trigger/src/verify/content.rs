//! What is signed, put together from the pieces of a request.

use model::automation::{Piece, SignatureRule};

use crate::webhook::Request;

/// The parts of a request that a signature may be over.
pub(super) struct Parts<'a> {
    pub(super) request: &'a Request,
    pub(super) url: &'a str,
    pub(super) timestamp: Option<&'a str>,
    pub(super) id: Option<&'a str>,
}

/// The bytes that are signed.
pub(super) fn signed(rule: &SignatureRule, parts: &Parts<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.request.body.len() + 256);
    for piece in &rule.content {
        match piece {
            Piece::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            Piece::Body => bytes.extend_from_slice(&parts.request.body),
            Piece::Timestamp => bytes.extend_from_slice(parts.timestamp.unwrap_or_default().as_bytes()),
            Piece::Id => bytes.extend_from_slice(parts.id.unwrap_or_default().as_bytes()),
            Piece::Method => bytes.extend_from_slice(parts.request.method.as_bytes()),
            Piece::Url => bytes.extend_from_slice(parts.url.as_bytes()),
            Piece::UrlDecoded => bytes.extend_from_slice(decoded(parts.url).as_bytes()),
            Piece::FormSorted => form_sorted(parts.request, &mut bytes),
        }
    }
    bytes
}

/// A URL with those characters decoded that HubSpot decodes before it signs (its reference, "v3 signature").
fn decoded(url: &str) -> String {
    const PAIRS: [(&str, &str); 12] = [
        ("%3A", ":"),
        ("%2F", "/"),
        ("%3F", "?"),
        ("%40", "@"),
        ("%21", "!"),
        ("%24", "$"),
        ("%27", "'"),
        ("%28", "("),
        ("%29", ")"),
        ("%2A", "*"),
        ("%2C", ","),
        ("%3B", ";"),
    ];
    PAIRS
        .iter()
        .fold(url.to_owned(), |url, (from, to)| url.replace(from, to).replace(&from.to_ascii_lowercase(), to))
}

/// Whether the body is a form.
pub(super) fn is_form(request: &Request) -> bool {
    let mut types = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    types.any(|(_, value)| value.to_ascii_lowercase().starts_with(b"application/x-www-form-urlencoded"))
}

fn form_sorted(request: &Request, bytes: &mut Vec<u8>) {
    if !is_form(request) {
        return;
    }
    let mut fields: Vec<_> = form_urlencoded::parse(&request.body).collect();
    fields.sort();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
}
