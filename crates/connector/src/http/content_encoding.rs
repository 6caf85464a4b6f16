//! Decompression of response bodies while they are read, within the limit of their decompressed size.

use std::io::{self, Write};

use ::http::HeaderMap;
use ::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, RANGE};
use flate2::write::MultiGzDecoder;

/// The codings that compress, of which only gzip is requested and decoded.
const COMPRESSIONS: [&str; 6] = ["br", "compress", "deflate", "gzip", "x-gzip", "zstd"];

/// The `Accept-Encoding` to add to a request; `None` if the author set one, or requests a range, whose bytes would be compressed.
pub(super) fn accepted(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_plain = !headers.contains_key(ACCEPT_ENCODING) && !headers.contains_key(RANGE);
    is_plain.then_some(HeaderValue::from_static("gzip"))
}

/// The bytes that are decompressed at a time, into up to some thousand times as many.
const COMPRESSED_PART: usize = 512;

/// The reason why a body cannot be read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It is larger than the limit, after decompression.
    TooLarge,
    /// It is not what `Content-Encoding` says.
    Invalid(String),
}

/// A body, decoded as it arrives.
pub(super) enum BodyReader {
    Plain(Bounded),
    /// One or several members (RFC 1952, 2.2).
    Gzip(Box<MultiGzDecoder<Bounded>>),
}

/// The bytes of a body up to a limit.
pub(super) struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + chunk.len() > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(chunk);
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BodyReader {
    /// Chooses the decoder by the headers of the response, and removes the headers that do not hold for the decoded body. `request` has the
    /// author's headers.
    ///
    /// # Errors
    /// Returns an error if the body has a compression that was not requested.
    pub(super) fn for_response(
        request: &HeaderMap,
        response: &mut HeaderMap,
        most: usize,
    ) -> Result<Self, BodyError> {
        let codings = codings(response);
        let body = Bounded { bytes: Vec::new(), most };
        match codings.as_slice() {
            [one] if matches!(one.as_str(), "gzip" | "x-gzip") => {
                response.remove(CONTENT_ENCODING);
                response.remove(CONTENT_LENGTH);
                Ok(Self::Gzip(Box::new(MultiGzDecoder::new(body))))
            }
            some if some.iter().any(|coding| COMPRESSIONS.contains(&coding.as_str()))
                && !request.contains_key(ACCEPT_ENCODING) =>
            {
                let message = format!(
                    "it is compressed as `{}`, though only `gzip` was asked for; with a header `accept-encoding` of your \
                     own you get the bytes as they are",
                    some.join(", ")
                );
                Err(BodyError::Invalid(message))
            }
            _ => Ok(Self::Plain(body)),
        }
    }

    /// Splits bytes that arrived into parts that grow little when they are decompressed.
    pub(super) fn parts<'b>(&self, chunk: &'b [u8]) -> std::slice::Chunks<'b, u8> {
        match self {
            Self::Plain(_) => chunk.chunks(chunk.len().max(1)),
            Self::Gzip(_) => chunk.chunks(COMPRESSED_PART),
        }
    }

    /// Makes room for a body of this length.
    pub(super) fn expect(&mut self, length: usize) {
        if let Self::Plain(body) = self {
            body.bytes.reserve_exact(length);
        }
    }

    /// The bytes so far, decompressed.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(body) => body.bytes.len(),
            Self::Gzip(decoder) => decoder.get_ref().bytes.len(),
        }
    }

    /// Adds the next bytes that arrived.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), BodyError> {
        match self {
            Self::Plain(body) => body.write_all(chunk),
            Self::Gzip(decoder) => decoder.write_all(chunk),
        }
        .map_err(body_error)
    }

    /// Returns the whole body. A truncated compressed body is an error; no body at all is empty.
    pub(super) fn finish(self, has_bytes: bool) -> Result<Vec<u8>, BodyError> {
        match self {
            Self::Plain(body) => Ok(body.bytes),
            Self::Gzip(_) if !has_bytes => Ok(Vec::new()),
            Self::Gzip(decoder) => {
                decoder.finish().map(|body| body.bytes).map_err(|error| match error.kind() {
                    io::ErrorKind::FileTooLarge => BodyError::TooLarge,
                    _ => BodyError::Invalid(format!("its gzip data is damaged or cut off ({error})")),
                })
            }
        }
    }
}

fn body_error(error: io::Error) -> BodyError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => BodyError::TooLarge,
        _ => BodyError::Invalid(error.to_string()),
    }
}

/// The codings of a body without `identity`, in the order in which they were applied.
fn codings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let words = values.flat_map(|value| value.split(',')).map(|word| word.trim().to_ascii_lowercase());
    words.filter(|word| !matches!(word.as_str(), "" | "identity")).collect()
}
