//! Verification of webhook senders: signatures, tokens and passwords.

use std::time::Duration;

use expression::template::Template;
use expression::{Expression, Reference};
use jiff::Timestamp;

/// The proof that a webhook's sender must provide in addition to the URL.
#[derive(Clone, Debug)]
pub enum Verify {
    /// A signature with one of the keys.
    Signature(Box<SignatureRule>),
    /// One of the keys itself, in a header.
    Token {
        /// The name of the header, in lower case.
        header: String,
        /// The accepted keys.
        keys: Vec<VerifyKey>,
    },
    /// A user name and a password (RFC 7617).
    Basic {
        /// The user name.
        user: Template,
        /// The password.
        password: Template,
    },
}

/// A key of a sender. Several are valid during a key rotation.
#[derive(Clone, Debug)]
pub struct VerifyKey {
    /// The secret. Its expression may read `secrets` and `env`.
    pub secret: Template,
    /// The encoding of its bytes.
    pub encoding: Encoding,
    /// The prefix to strip, such as `whsec_`.
    pub prefix: Option<String>,
    /// The end of its validity; `None` if unlimited.
    pub not_after: Option<Timestamp>,
}

/// The rule of a signature: its location, algorithm and signed content.
#[derive(Clone, Debug)]
pub struct SignatureRule {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The accepted keys.
    pub keys: Vec<VerifyKey>,
    /// The names of the headers that may contain it, in lower case. A trailing `*` matches any number.
    pub headers: Vec<String>,
    /// The format of the header.
    pub format: Format,
    /// The encoding of the signature.
    pub encoding: Encoding,
    /// The timestamp; `None` if the sender sends none.
    pub timestamp: Option<TimestampRule>,
    /// The header with the message id, in lower case; `None` if no id is signed.
    pub id: Option<String>,
    /// The parts of the signed content, in order.
    pub content: Vec<SignedPart>,
    /// The query parameter with the body's SHA-256 in hex, which must match unless the body is a form.
    pub body_digest: Option<&'static str>,
}

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-1.
    Sha1,
    /// HMAC with SHA-256.
    Sha256,
    /// HMAC with SHA-384.
    Sha384,
    /// HMAC with SHA-512.
    Sha512,
    /// Ed25519, with the public key.
    Ed25519,
}

/// An encoding of bytes as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The bytes themselves.
    Text,
    /// Hexadecimal, in either case.
    Hex,
    /// Base64, with or without padding.
    Base64,
    /// Base64 with the URL-safe alphabet.
    Base64Url,
}

/// The format of a signature header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// The whole header is the signature, after a prefix.
    Plain {
        /// The prefix, such as `sha256=`.
        prefix: String,
    },
    /// `key=value` pairs, where the values of one key are signatures.
    Pairs {
        /// The separator of pairs.
        separator: char,
        /// The key of the signatures.
        select: String,
    },
    /// Signatures separated by spaces, each after a tag and a comma: `v1,… v1,…`.
    Tagged {
        /// The tag.
        tag: String,
    },
}

/// The timestamp of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampRule {
    /// The location of the timestamp.
    pub source: TimestampSource,
    /// The format.
    pub unit: TimeUnit,
    /// The maximum age. A timestamp may be at most a minute in the future.
    pub tolerance: Duration,
}

/// The location of a signature's timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimestampSource {
    /// The header with this name, in lower case.
    Header(String),
    /// The value of this key in the pairs of the signature header.
    Pair(String),
    /// The value of this top-level key of a JSON body.
    Body(String),
}

/// A format of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Milliseconds,
    /// RFC 3339.
    Rfc3339,
}

/// A part of the signed content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedPart {
    /// A constant text.
    Text(String),
    /// The unchanged body.
    Body,
    /// The text of the timestamp.
    Timestamp,
    /// The message id.
    Id,
    /// The HTTP method.
    Method,
    /// The URL as configured at the sender, with its query.
    Url,
    /// The URL, with the characters decoded that `hubspot` decodes.
    UrlDecoded,
    /// The fields of a form, sorted by name and concatenated as names and values; empty for any other body.
    FormSorted,
}

impl Verify {
    /// Returns the name of the secret if there is exactly one key and it is `${{ secrets.NAME }}`.
    #[must_use]
    pub fn secret_name(&self) -> Option<String> {
        let keys = match self {
            Self::Signature(rule) => &rule.keys,
            Self::Token { keys, .. } => keys,
            Self::Basic { .. } => return None,
        };
        let [key] = keys.as_slice() else { return None };
        let mut references = key.secret.references();
        match references.pop() {
            Some(Reference { path, .. }) if references.is_empty() => match &*path {
                [root, name] if root == "secrets" => Some(name.to_string()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the keys; empty for `Basic`.
    #[must_use]
    pub fn keys(&self) -> &[VerifyKey] {
        match self {
            Self::Signature(rule) => &rule.keys,
            Self::Token { keys, .. } => keys,
            Self::Basic { .. } => &[],
        }
    }

    /// Calls `visit` with every expression of the rule.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Signature(rule) => rule.keys.iter().for_each(|key| key.secret.expressions(visit)),
            Self::Token { keys, .. } => keys.iter().for_each(|key| key.secret.expressions(visit)),
            Self::Basic { user, password } => {
                user.expressions(visit);
                password.expressions(visit);
            }
        }
    }
}
