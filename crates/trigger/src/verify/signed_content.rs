//! The content that a signature covers, in segments, so that a large body is neither copied nor loaded into memory.

use std::borrow::Cow;
use std::io;

use model::automation::{SignatureRule, SignedPart};
use value::Data;

use crate::webhook::Request;

/// The parts of a request that a signature may cover.
pub(super) struct SignedParts<'a> {
    pub(super) request: &'a Request,
    pub(super) url: &'a str,
    pub(super) timestamp: Option<String>,
    pub(super) id: Option<&'a str>,
}

/// A segment of the signed content.
#[derive(Clone, Debug)]
pub(super) enum SignedSegment<'a> {
    /// Bytes in memory.
    Bytes(Cow<'a, [u8]>),
    /// The request body.
    Body(&'a Data),
}

impl SignedSegment<'_> {
    /// Calls `take` with all bytes. Blocks if the body is external.
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

/// The segments of the signed content, in order.
pub(super) fn signed_content<'a>(rule: &'a SignatureRule, parts: &SignedParts<'a>) -> Vec<SignedSegment<'a>> {
    let text = |text: &'a str| SignedSegment::Bytes(Cow::Borrowed(text.as_bytes()));
    let owned = |bytes: Vec<u8>| SignedSegment::Bytes(Cow::Owned(bytes));
    let pieces = rule.content.iter().map(|piece| match piece {
        SignedPart::Text(written) => text(written),
        SignedPart::Body => SignedSegment::Body(&parts.request.body),
        // The timestamp may be a number in the body.
        SignedPart::Timestamp => owned(parts.timestamp.clone().unwrap_or_default().into_bytes()),
        SignedPart::Id => text(parts.id.unwrap_or_default()),
        SignedPart::Method => text(&parts.request.method),
        SignedPart::Url => text(parts.url),
        SignedPart::UrlDecoded => owned(decode_url(parts.url).into_bytes()),
        SignedPart::FormSorted => owned(sorted_form(parts.request)),
    });
    pieces.collect()
}

/// Decodes those escapes of a URL that HubSpot decodes before it signs (its reference, "v3 signature").
fn decode_url(url: &str) -> String {
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

/// True if the body is a form.
pub(super) fn is_form(request: &Request) -> bool {
    let mut types = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    types.any(|(_, value)| value.to_ascii_lowercase().starts_with(b"application/x-www-form-urlencoded"))
}

fn sorted_form(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A form is in memory, because it is parsed there.
    let Some(body) = request.body.in_memory().filter(|_| is_form(request)) else { return bytes };
    let mut fields: Vec<_> = form_urlencoded::parse(body).collect();
    fields.sort();
    for (name, value) in fields {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes
}
