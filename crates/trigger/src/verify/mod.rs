//! Whether a request comes from whom it should: signatures, tokens, and names with passwords, over the bytes as they came.
//!
//! Every reason for a refusal gives the same answer: what was wrong is for the log, not for a stranger. Signatures and
//! tokens are compared in constant time: as [`mac::Mac`], which can be compared in no other way.

mod content;
pub(crate) mod mac;
mod signature;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use model::automation::{Encoding, Verify};

use crate::rejection::Rejection;
use crate::webhook::Request;
use content::Signed;
use mac::Mac;

/// The most bytes of a header that is looked at.
const MAX_HEADER: usize = 4096;

/// A key, read where it is kept.
#[derive(Clone)]
pub struct Key {
    bytes: Vec<u8>,
    not_after: Option<Timestamp>,
}

impl Key {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it counts at this time.
    pub(crate) fn in_force(&self, now: Timestamp) -> bool {
        self.not_after.is_none_or(|until| now < until)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("***")
    }
}

/// What a request is verified by, with its secrets read.
#[derive(Clone, Debug)]
pub enum Proof<'a> {
    /// A rule with its keys.
    Keys(&'a Verify, Vec<Key>),
    /// A name with its password.
    Password {
        /// The name.
        user: String,
        /// The password, which is never empty.
        password: Key,
    },
}

/// Why a key cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// Nothing would be secret.
    #[error("the secret is empty")]
    Empty,
    /// It is not written as it should be.
    #[error("the secret is not written in the encoding that `keyEncoding` or the preset says")]
    Encoding,
}

impl Key {
    /// The key that a secret's text stands for.
    ///
    /// # Errors
    /// It is empty, or not in its encoding.
    pub fn read(
        text: &str,
        encoding: Encoding,
        prefix: Option<&str>,
        not_after: Option<Timestamp>,
    ) -> Result<Self, BadKey> {
        let text = prefix.and_then(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        let bytes = decode(text, encoding).ok_or(BadKey::Encoding)?;
        if bytes.is_empty() { Err(BadKey::Empty) } else { Ok(Self { bytes, not_after }) }
    }
}

/// What proved a request.
#[derive(Clone, Debug, Default)]
pub struct Proven<'a> {
    /// Which of the keys, counted from 0 as they are written; none where it was a password.
    pub key: Option<usize>,
    /// What its signature is over, piece by piece; nothing where there is none.
    signed: Vec<Signed<'a>>,
}

impl Proven<'_> {
    /// A hash of what is signed; none where nothing is, or where it cannot be read again. Blocks where the body is kept
    /// outside of memory.
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

/// Checks a request. `url` is the address that the sender was given, with what follows its token and the query; `now` is
/// the time that signatures are held against. Gives what proved it.
///
/// # Errors
/// 401, whatever the reason: it is given beside, for the log.
pub fn verify<'a>(
    proof: &'a Proof<'_>,
    request: &'a Request,
    url: &'a str,
    now: Timestamp,
) -> Result<Proven<'a>, (Rejection, Reason)> {
    let result = match proof {
        Proof::Password { user, password } => {
            basic(request, user, password.bytes()).map(|()| Proven::default())
        }
        Proof::Keys(verify, keys) => {
            let keys: Numbered<'_> = keys.iter().enumerate().filter(|(_, key)| key.in_force(now)).collect();
            match verify {
                Verify::Signature(rule) => signature::check(rule, &keys, request, url, now),
                Verify::Token { header, .. } => token(request, header, &keys),
                Verify::Basic { .. } => Err(Reason::Wrong),
            }
        }
    };
    result.map_err(|reason| (Rejection::unverified(), reason))
}

/// Why a request was refused, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The header that proves it is not there.
    #[error("the header with the proof is missing")]
    Missing,
    /// The header is there several times, or too long.
    #[error("the header with the proof is there several times, or too long")]
    Header,
    /// The header is not of the form that the sender's are.
    #[error("the header with the proof is not of its form")]
    Form,
    /// No key made it.
    #[error("the proof is wrong: another secret, or the request was changed on its way")]
    Wrong,
    /// The time is missing or not of its form.
    #[error("the time of the signature is missing or cannot be read")]
    Time,
    /// It is too old, or ahead.
    #[error("the signature is too old, or from the future: look at both clocks")]
    Late,
    /// The body is kept outside of memory, and larger than what a signature of this kind is checked over.
    #[error("the body is too large for a signature of this kind")]
    TooLarge,
    /// The body is kept outside of memory, and could not be read again.
    #[error("the body could not be read again")]
    Unreadable,
}

/// Keys in force, with their places among all.
type Numbered<'a> = Vec<(usize, &'a Key)>;

fn token<'a>(request: &Request, header: &str, keys: &Numbered<'_>) -> Result<Proven<'a>, Reason> {
    let sent = single(request, header)?.ok_or(Reason::Missing)?;
    // Every key is compared, and every byte of each.
    let found =
        keys.iter().fold(
            None,
            |found, (index, key)| {
                if Mac::from(&*key.bytes).is(sent) { found.or(Some(*index)) } else { found }
            },
        );
    let key = found.ok_or(Reason::Wrong)?;
    Ok(Proven { key: Some(key), signed: Vec::new() })
}

fn basic(request: &Request, user: &str, password: &[u8]) -> Result<(), Reason> {
    let sent = single(request, "authorization")?.ok_or(Reason::Missing)?;
    let sent = std::str::from_utf8(sent).map_err(|_| Reason::Form)?;
    let (scheme, credentials) = sent.split_once(' ').ok_or(Reason::Form)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(Reason::Form);
    }
    let credentials = decode(credentials.trim(), Encoding::Base64).ok_or(Reason::Form)?;
    let right = [user.as_bytes(), b":", password].concat();
    if Mac::from(&*right).is(&credentials) { Ok(()) } else { Err(Reason::Wrong) }
}

/// The value of a header that stands there once, if it does.
fn single<'a>(request: &'a Request, name: &str) -> Result<Option<&'a [u8]>, Reason> {
    let mut values = request.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    let first = values.next().map(|(_, value)| value.as_slice());
    if values.next().is_some() || first.is_some_and(|value| value.len() > MAX_HEADER) {
        return Err(Reason::Header);
    }
    Ok(first)
}

/// As [`single`], as text.
fn single_text<'a>(request: &'a Request, name: &str) -> Result<Option<&'a str>, Reason> {
    let value = single(request, name)?;
    value.map(|value| std::str::from_utf8(value).map(str::trim).map_err(|_| Reason::Form)).transpose()
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);

/// The bytes that a text stands for.
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
