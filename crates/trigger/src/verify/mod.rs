//! Verification of requests: signatures, tokens, and basic authentication, over the bytes as received.
//!
//! Every failure returns the same response: the reason goes to the log and not to the sender. Signatures and tokens are compared
//! in constant time with [`mac::Mac`], which has no other comparison.

pub(crate) mod mac;
mod signature;
mod signed_content;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use model::automation::{Encoding, Verify};

use crate::rejection::Rejection;
use crate::webhook::Request;
use mac::Mac;
use signed_content::SignedSegment;

/// The longest header that is read, in bytes.
const MAX_HEADER: usize = 4096;

/// A key for verification, decoded.
#[derive(Clone)]
pub struct Key {
    bytes: Vec<u8>,
    not_after: Option<Timestamp>,
}

impl Key {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True if the key is valid at this time.
    pub(crate) fn is_valid_at(&self, now: Timestamp) -> bool {
        self.not_after.is_none_or(|until| now < until)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("***")
    }
}

/// The method to verify a request, with its secrets.
#[derive(Clone, Debug)]
pub enum Verifier<'a> {
    /// A rule with its keys.
    Keys(Cow<'a, Verify>, Vec<Key>),
    /// Basic authentication.
    Password {
        /// The name.
        user: String,
        /// The password, which is never empty.
        password: Key,
    },
}

impl Verifier<'_> {
    /// Returns the same with a rule of its own, for another thread.
    #[must_use]
    pub fn into_owned(self) -> Verifier<'static> {
        match self {
            Self::Keys(verify, keys) => Verifier::Keys(Cow::Owned(verify.into_owned()), keys),
            Self::Password { user, password } => Verifier::Password { user, password },
        }
    }
}

/// An error of decoding a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The secret is empty.
    #[error("the secret is empty")]
    Empty,
    /// The secret has another encoding.
    #[error("the secret is not in the encoding that `keyEncoding` or the preset specifies")]
    Encoding,
}

impl Key {
    /// Decodes a key from a secret's text.
    ///
    /// # Errors
    /// Returns an error if the key is empty or has another encoding.
    pub fn parse(
        text: &str,
        encoding: Encoding,
        prefix: Option<&str>,
        not_after: Option<Timestamp>,
    ) -> Result<Self, KeyError> {
        let text = prefix.and_then(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        let bytes = decode(text, encoding).ok_or(KeyError::Encoding)?;
        if bytes.is_empty() { Err(KeyError::Empty) } else { Ok(Self { bytes, not_after }) }
    }
}

/// The result of a successful verification.
#[derive(Clone, Debug, Default)]
pub struct Verified<'a> {
    /// The index of the matching key, in the order of the file; `None` for a password.
    pub key: Option<usize>,
    /// The signed content; empty if the request is not signed.
    signed: Vec<SignedSegment<'a>>,
}

impl Verified<'_> {
    /// A hash of the signed content; `None` if there is none, or it cannot be read again. Blocks if the body is external.
    #[must_use]
    pub fn signed_hash(&self) -> Option<[u8; 32]> {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        for piece in &self.signed {
            piece.for_each_chunk(|bytes| context.update(bytes)).ok()?;
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        (!self.signed.is_empty()).then_some(hash)
    }
}

/// Verifies a request. `url` is the address that the sender knows, with the path fragment and the query; `now` is the time to
/// check timestamps against.
///
/// # Errors
/// 401 for every reason; the reason itself is for the log.
pub fn verify<'a>(
    verifier: &'a Verifier<'_>,
    request: &'a Request,
    url: &'a str,
    now: Timestamp,
) -> Result<Verified<'a>, (Rejection, Reason)> {
    let result = match verifier {
        Verifier::Password { user, password } => {
            verify_basic(request, user, password.bytes()).map(|()| Verified::default())
        }
        Verifier::Keys(verify, keys) => {
            let keys: ValidKeys<'_> =
                keys.iter().enumerate().filter(|(_, key)| key.is_valid_at(now)).collect();
            match &**verify {
                Verify::Signature(rule) => signature::check(rule, &keys, request, url, now),
                Verify::Token { header, .. } => verify_token(request, header, &keys),
                Verify::Basic { .. } => Err(Reason::Wrong),
            }
        }
    };
    result.map_err(|reason| (Rejection::unverified(), reason))
}

/// The reason of a failed verification, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The header with the credential is missing.
    #[error("the header with the signature or token is missing")]
    Missing,
    /// The header with the credential occurs several times, or is too long.
    #[error("the header with the signature or token occurs several times, or is too long")]
    Header,
    /// The header with the credential is malformed.
    #[error("the header with the signature or token is malformed")]
    Form,
    /// No key matches.
    #[error("the signature or token is wrong: the secret differs, or the request was changed in transit")]
    Wrong,
    /// The timestamp is missing or malformed.
    #[error("the timestamp of the signature is missing or malformed")]
    Time,
    /// The timestamp is too old or in the future.
    #[error("the signature is too old, or from the future: check both clocks")]
    Late,
    /// The body is external and too large for a signature algorithm that needs the whole message.
    #[error("the body is too large for a signature of this kind")]
    TooLarge,
    /// The body is external and cannot be read again.
    #[error("the body could not be read again")]
    Unreadable,
}

/// Valid keys, with their indices among all keys.
type ValidKeys<'a> = Vec<(usize, &'a Key)>;

fn verify_token<'a>(request: &Request, header: &str, keys: &ValidKeys<'_>) -> Result<Verified<'a>, Reason> {
    let sent = single_header(request, header)?.ok_or(Reason::Missing)?;
    // Compare every key, each in constant time.
    let found = keys.iter().fold(None, |found, (index, key)| {
        if Mac::from(&*key.bytes).matches(sent) { found.or(Some(*index)) } else { found }
    });
    let key = found.ok_or(Reason::Wrong)?;
    Ok(Verified { key: Some(key), signed: Vec::new() })
}

fn verify_basic(request: &Request, user: &str, password: &[u8]) -> Result<(), Reason> {
    let sent = single_header(request, "authorization")?.ok_or(Reason::Missing)?;
    let sent = std::str::from_utf8(sent).map_err(|_| Reason::Form)?;
    let (scheme, credentials) = sent.split_once(' ').ok_or(Reason::Form)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(Reason::Form);
    }
    let credentials = decode(credentials.trim(), Encoding::Base64).ok_or(Reason::Form)?;
    let right = [user.as_bytes(), b":", password].concat();
    if Mac::from(&*right).matches(&credentials) { Ok(()) } else { Err(Reason::Wrong) }
}

/// The value of a header; `None` if it is missing. A repeated header is an error.
fn single_header<'a>(request: &'a Request, name: &str) -> Result<Option<&'a [u8]>, Reason> {
    let mut values = request.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    let first = values.next().map(|(_, value)| value.as_slice());
    if values.next().is_some() || first.is_some_and(|value| value.len() > MAX_HEADER) {
        return Err(Reason::Header);
    }
    Ok(first)
}

/// As [`single_header`], as text.
fn single_text<'a>(request: &'a Request, name: &str) -> Result<Option<&'a str>, Reason> {
    let value = single_header(request, name)?;
    value.map(|value| std::str::from_utf8(value).map(str::trim).map_err(|_| Reason::Form)).transpose()
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);

/// Decodes a text.
fn decode(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Text => Some(text.as_bytes().to_vec()),
        Encoding::Hex => hex::decode(text).ok(),
        Encoding::Base64 => BASE64.decode(text).ok(),
        Encoding::Base64Url => BASE64_URL.decode(text).ok(),
    }
}

#[cfg(test)]
mod tests;
