//! Bodies that were sent compressed (`Content-Encoding: gzip`), inflated within a bound.

use std::io::Read as _;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use model::value::Data;

use super::content_type::MOST_PARSED;
use super::values;
use crate::Rejection;

/// True if the body of a request with these headers was sent compressed.
#[must_use]
pub fn is_compressed(headers: &[(String, Vec<u8>)]) -> bool {
    matches!(encoding(headers), Encoding::Gzip)
}

pub(super) enum Encoding {
    /// The bytes are the body.
    Identity,
    /// The bytes are the body in the format of RFC 1952.
    Gzip,
    /// Any other encoding, or several.
    Other,
}

pub(super) fn encoding(headers: &[(String, Vec<u8>)]) -> Encoding {
    let values = values(headers, "content-encoding");
    let words = values.iter().flat_map(|value| value.split(','));
    let words = words.map(|word| word.trim().to_ascii_lowercase());
    let words: Vec<String> = words.filter(|word| !matches!(word.as_str(), "" | "identity")).collect();
    match words.as_slice() {
        [] => Encoding::Identity,
        [word] if matches!(word.as_str(), "gzip" | "x-gzip") => Encoding::Gzip,
        _ => Encoding::Other,
    }
}

/// The inflated body: at most `max_body` bytes, and at most 25 MiB whatever it is, since it is in memory.
///
/// # Errors
/// 413 for more bytes, 400 for bytes that are not gzip (`bad_encoding`), 503 where they cannot be read.
pub(super) fn inflate(body: &Data, max_body: usize) -> Result<Data, Rejection> {
    let most = max_body.min(MOST_PARSED);
    let sent = body.load(max_body).map_err(|_| {
        Rejection::unavailable("the request could not be read; try again", super::RETRY_AFTER)
    })?;
    let mut inflated = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let read = MultiGzDecoder::new(&sent[..]).take(limit).read_to_end(&mut inflated);
    if inflated.len() > most {
        return Err(Rejection::payload_too_large(most));
    }
    if let Err(error) = read {
        let message = format!("request body is not the gzip that its content-encoding says: {error}");
        return Err(Rejection::bad_request("bad_encoding", message));
    }
    Ok(Data::from(Bytes::from(inflated)))
}
