//! Decompression of bodies with `Content-Encoding: gzip`, within a limit.

use std::io::Read as _;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use value::{Data, Reserved};

use super::content_type::MAX_PARSED_BYTES;
use super::header_values;
use crate::Rejection;

/// True if the body of a request with these headers is compressed.
#[must_use]
pub fn is_compressed(headers: &[(String, Vec<u8>)]) -> bool {
    matches!(encoding(headers), Encoding::Gzip)
}

pub(super) enum Encoding {
    /// No encoding.
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// Any other encoding, or several.
    Other,
}

pub(super) fn encoding(headers: &[(String, Vec<u8>)]) -> Encoding {
    let values = header_values(headers, "content-encoding");
    let words = values.iter().flat_map(|value| value.split(','));
    let words = words.map(|word| word.trim().to_ascii_lowercase());
    let words: Vec<String> = words.filter(|word| !matches!(word.as_str(), "" | "identity")).collect();
    match words.as_slice() {
        [] => Encoding::Identity,
        [word] if matches!(word.as_str(), "gzip" | "x-gzip") => Encoding::Gzip,
        _ => Encoding::Other,
    }
}

/// Returns true if a body in memory has at most `most` bytes once it is inflated. Keeps nothing of it.
#[must_use]
pub fn inflates_within(body: &Data, most: usize) -> bool {
    let Some(sent) = body.in_memory() else { return false };
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let inflated = std::io::copy(&mut MultiGzDecoder::new(&sent[..]).take(limit), &mut std::io::sink());
    // A body that is not gzip is refused without being inflated.
    inflated.map_or(true, |inflated| inflated < limit)
}

/// Inflates a body to at most `max_body` bytes, and at most 25 MiB, since the result is in memory.
///
/// # Errors
/// 413 if the result is larger, 400 if the bytes are not gzip (`bad_encoding`), 503 if they cannot be read.
pub(super) fn inflate(body: &Data, max_body: usize) -> Result<Data, Rejection> {
    let most = max_body.min(MAX_PARSED_BYTES);
    // Few bodies are inflated at a time, so these need no other bound.
    let sent = body.load(max_body, &Reserved::uncounted(max_body)).map_err(|_| {
        Rejection::unavailable("the request could not be read; try again", super::RETRY_AFTER)
    })?;
    let mut inflated = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let read = MultiGzDecoder::new(&sent[..]).take(limit).read_to_end(&mut inflated);
    if inflated.len() > most {
        return Err(Rejection::payload_too_large(most));
    }
    if let Err(error) = read {
        let message = format!("request body is not valid gzip, as its content-encoding states: {error}");
        return Err(Rejection::bad_request("bad_encoding", message));
    }
    Ok(Data::from(Bytes::from(inflated)))
}
