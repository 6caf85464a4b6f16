//! How a sender asks of an address whether it is meant, before it sends anything to it, and what it wants to hear.

use std::borrow::Cow;

use super::Encoding;
use crate::expression::Expression;
use crate::template::Template;

/// A question that is answered without an execution.
#[derive(Clone, Debug)]
pub struct Challenge {
    /// Whose question it is, for logs: the name of the preset, or `echo`.
    pub name: &'static str,
    /// How it is asked and answered.
    pub rule: ChallengeRule,
    /// The secret that it takes.
    pub key: ChallengeKey,
}

/// The secret of a challenge.
#[derive(Clone, Debug)]
pub enum ChallengeKey {
    /// It takes none.
    None,
    /// One of its own; may read `secrets` and `env`.
    Dedicated(Template),
    /// The one that the sender signs with.
    FromVerify,
}

/// How a challenge is asked, and what it is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChallengeRule {
    /// The method that it is asked with.
    pub method: &'static str,
    /// What tells it from any other request: places with the text that has to stand there.
    pub marks: &'static [(RequestField, &'static str)],
    /// Where the text stands that the answer is made of; none where it is asked by its method alone.
    pub value: Option<RequestField>,
    /// What is given back.
    pub answer: ChallengeResponse,
    /// Who is answered.
    pub guard: ChallengeGuard,
}

/// What a challenge is answered with, with the status 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeResponse {
    /// Nothing else.
    Nothing,
    /// The text, as `text/plain`.
    Text,
    /// The header with the text, as it came.
    Header,
    /// The text as JSON, under this name.
    Json(&'static str),
    /// The HMAC-SHA-256 of the text as JSON.
    Mac {
        /// The name of the text itself, where it is given back too.
        value: Option<&'static str>,
        /// The name of the MAC.
        mac: &'static str,
        /// What stands before the MAC.
        prefix: &'static str,
        /// How the MAC is written.
        encoding: Encoding,
    },
}

/// Who gets the answer of a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengeGuard {
    /// Whoever asks: the answer is worth nothing to a stranger.
    Open,
    /// Whoever is let in by `verify`, where there is one.
    Verified,
    /// Whoever knows the secret of the challenge, which stands at this place.
    Token(RequestField),
    /// The first one to ask after a person has opened the pairing: what it sends becomes the secret of `verify`.
    Pairing,
}

/// A place in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestField {
    /// The parameter of the query with this name.
    Query(Cow<'static, str>),
    /// The header with this name, in lower case.
    Header(Cow<'static, str>),
    /// In a JSON body, where this JSON Pointer (RFC 6901) leads.
    Body(Cow<'static, str>),
}

impl Challenge {
    /// Calls `visit` with every expression in it.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        if let ChallengeKey::Dedicated(secret) = &self.key {
            secret.expressions(visit);
        }
    }
}
