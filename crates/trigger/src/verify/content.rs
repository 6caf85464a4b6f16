//! What is signed, piece by piece: a body is as large as it is, and is neither copied for it nor read into memory.

use std::borrow::Cow;
use std::io;

use model::automation::{Piece, SignatureRule};
use model::value::Data;

use crate::webhook::Request;

/// The parts of a request that a signature may be over.
pub(super) struct Parts<'a> {
    pub(super) request: &'a Request,
    pub(super) url: &'a str,
    pub(super) timestamp: Option<String>,
    pub(super) id: Option<&'a str>,
}

/// A stretch of what is signed.
#[derive(Clone, Debug)]
pub(super) enum Signed<'a> {
    /// These bytes.
    Bytes(Cow<'a, [u8]>),
    /// The body.
    Body(&'a Data),
}

impl Signed<'_> {
    /// Calls `take` with all of it. Blocks where the body is kept outside of memory.
    pub(super) fn for_each_chunk(&self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => {
                take(bytes);
                Ok(())
            }
            Self::Body(data) => data.for_each_chunk(take),
        }
    }
}

/// What is signed, in a row.
pub(super) fn signed<'a>(rule: &'a SignatureRule, parts: &Parts<'a>) -> Vec<Signed<'a>> {
    let text = |text: &'a str| Signed::Bytes(Cow::Borrowed(text.as_bytes()));
    let owned = |bytes: Vec<u8>| Signed::Bytes(Cow::Owned(bytes));
    let pieces = rule.content.iter().map(|piece| match piece {
        Piece::Text(written) => text(written),
        Piece::Body => Signed::Body(&parts.request.body),
        // It may stand in the body, as a number.
        Piece::Timestamp => owned(parts.timestamp.clone().unwrap_or_default().into_bytes()),
        Piece::Id => text(parts.id.unwrap_or_default()),
        Piece::Method => text(&parts.request.method),
        Piece::Url => text(parts.url),
        Piece::UrlDecoded => owned(decoded(parts.url).into_bytes()),
        Piece::FormSorted => owned(form_sorted(parts.request)),
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
    // A form is in memory, since it is read there.
    let Some(body) = request.body.in_memory().filter(|_| is_form(request)) else { return bytes };
    let mut fields: Vec<_> = form_urlencoded::parse(body).collect();
    fields.sort();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes
}
