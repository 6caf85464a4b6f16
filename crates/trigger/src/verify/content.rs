//! What is signed, piece by piece: a body is as large as it is, and is not copied for it.

use std::borrow::Cow;

use model::automation::{Piece, SignatureRule};

use crate::webhook::Request;

/// The parts of a request that a signature may be over.
pub(super) struct Parts<'a> {
    pub(super) request: &'a Request,
    pub(super) url: &'a str,
    pub(super) timestamp: Option<String>,
    pub(super) id: Option<&'a str>,
}

/// What is signed, in a row.
pub(super) fn signed<'a>(rule: &'a SignatureRule, parts: &Parts<'a>) -> Vec<Cow<'a, [u8]>> {
    let text = |text: &'a str| Cow::Borrowed(text.as_bytes());
    let pieces = rule.content.iter().map(|piece| match piece {
        Piece::Text(written) => text(written),
        Piece::Body => Cow::Borrowed(&*parts.request.body),
        // It may stand in the body, as a number.
        Piece::Timestamp => Cow::Owned(parts.timestamp.clone().unwrap_or_default().into_bytes()),
        Piece::Id => text(parts.id.unwrap_or_default()),
        Piece::Method => text(&parts.request.method),
        Piece::Url => text(parts.url),
        Piece::UrlDecoded => Cow::Owned(decoded(parts.url).into_bytes()),
        Piece::FormSorted => Cow::Owned(form_sorted(parts.request)),
    });
    pieces.collect()
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

fn form_sorted(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !is_form(request) {
        return bytes;
    }
    let mut fields: Vec<_> = form_urlencoded::parse(&request.body).collect();
    fields.sort();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes
}
