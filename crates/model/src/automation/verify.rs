//! How a webhook tells that a request comes from whom it should.

use std::time::Duration;

use jiff::Timestamp;

use crate::expression::{Expression, Reference};
use crate::template::Template;

/// Who may start a webhook beside whoever knows its address.
#[derive(Clone, Debug)]
pub enum Verify {
    /// Whoever signs with one of the keys.
    Signature(Box<SignatureRule>),
    /// Whoever sends one of the keys as it is.
    Token {
        /// In which header, in lower case.
        header: String,
        /// The keys.
        keys: Vec<VerifyKey>,
    },
    /// Whoever sends a name and a password (RFC 7617).
    Basic {
        /// The name.
        user: Template,
        /// The password.
        password: Template,
    },
}

/// A key of a sender. Several are in force while one takes the place of another.
#[derive(Clone, Debug)]
pub struct VerifyKey {
    /// The secret; may read `secrets` and `env`.
    pub secret: Template,
    /// How its bytes are written.
    pub encoding: Encoding,
    /// What stands before it and is no part of it, such as `whsec_`.
    pub prefix: Option<String>,
    /// From when on it counts no more.
    pub not_after: Option<Timestamp>,
}

/// A signature: over what, made how, and where it stands.
#[derive(Clone, Debug)]
pub struct SignatureRule {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The keys, any of which may have made it.
    pub keys: Vec<VerifyKey>,
    /// The headers that it may stand in, in lower case; one that ends in `*` stands for that name with any number.
    pub headers: Vec<String>,
    /// How the header is read.
    pub format: Format,
    /// How the signature's bytes are written.
    pub encoding: Encoding,
    /// When it was made, where the sender says so.
    pub timestamp: Option<TimestampRule>,
    /// The header with the message's id, in lower case, where it is signed.
    pub id: Option<String>,
    /// What is signed, piece by piece.
    pub content: Vec<SignedPart>,
    /// The parameter of the query with the body's SHA-256 in hex, which must be right where the body is no form.
    pub body_digest: Option<&'static str>,
}

/// How signatures are made.
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
    /// Ed25519; the key is the public one.
    Ed25519,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Text,
    /// Hexadecimal, in either case.
    Hex,
    /// Base64, with or without its padding.
    Base64,
    /// Base64 with the alphabet of URLs.
    Base64Url,
}

/// How the header of a signature is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// The whole of it is the signature, behind this prefix.
    Plain {
        /// Such as `sha256=`.
        prefix: String,
    },
    /// `key=value` pairs; those of one key are signatures.
    Pairs {
        /// What stands between pairs.
        separator: char,
        /// The key of a signature.
        select: String,
    },
    /// Signatures behind a tag and a comma, with spaces between: `v1,… v1,…`.
    Tagged {
        /// The tag.
        tag: String,
    },
}

/// When a signature was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampRule {
    /// Where it stands.
    pub place: TimestampSource,
    /// How it is written.
    pub unit: TimeUnit,
    /// How old it may be. How far it may be ahead is a minute.
    pub tolerance: Duration,
}

/// Where the time of a signature stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimestampSource {
    /// In this header, in lower case.
    Header(String),
    /// Under this key of the signature's pairs.
    Pair(String),
    /// At the top of a JSON body, under this key.
    Body(String),
}

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds since 1970.
    Seconds,
    /// Milliseconds since 1970.
    Milliseconds,
    /// RFC 3339.
    Rfc3339,
}

/// A piece of what is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedPart {
    /// This text.
    Text(String),
    /// The body, byte for byte as it came.
    Body,
    /// The time, as it was sent.
    Timestamp,
    /// The message's id.
    Id,
    /// The method.
    Method,
    /// The address that the sender was given, with its query.
    Url,
    /// The same, with the characters decoded that `hubspot` decodes.
    UrlDecoded,
    /// The fields of a form, sorted by name, names and values in a row; nothing of any other body.
    FormSorted,
}

impl Verify {
    /// The name of its only secret, where that is read as it is: `NAME` of `${{ secrets.NAME }}`.
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

    /// The keys of a sender, where it is known by some.
    #[must_use]
    pub fn keys(&self) -> &[VerifyKey] {
        match self {
            Self::Signature(rule) => &rule.keys,
            Self::Token { keys, .. } => keys,
            Self::Basic { .. } => &[],
        }
    }

    /// Calls `visit` with every expression in it.
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
