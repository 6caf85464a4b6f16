//! Challenges: requests by which a sender verifies the owner of a webhook URL, and the responses that it expects.

use std::borrow::Cow;

use expression::Expression;
use expression::template::Template;

use super::Encoding;

/// A challenge that a webhook answers without starting an execution.
#[derive(Clone, Debug)]
pub struct Challenge {
    /// The name of the preset, or `echo`; for logs.
    pub name: &'static str,
    /// The rule to recognise and answer it.
    pub rule: ChallengeRule,
    /// The source of its secret.
    pub key: ChallengeKey,
}

/// The source of a challenge's secret.
#[derive(Clone, Debug)]
pub enum ChallengeKey {
    /// No secret.
    None,
    /// A secret for challenges only. Its expression may read `secrets` and `env`.
    Dedicated(Template),
    /// The key that the sender signs requests with.
    FromVerify,
}

/// The rule of a challenge: how to recognise it, and how to respond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChallengeRule {
    /// The HTTP method.
    pub method: &'static str,
    /// Fields that must have these texts in a challenge.
    pub markers: &'static [(RequestField, &'static str)],
    /// The field with the text for the response; `None` if the method alone identifies the challenge.
    pub value: Option<RequestField>,
    /// The response.
    pub response: ChallengeResponse,
    /// The requests that get the response.
    pub guard: ChallengeGuard,
}

/// The response to a challenge, with the status 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeResponse {
    /// No body.
    Empty,
    /// The text as `text/plain`.
    Text,
    /// The same header with the same text.
    Header,
    /// A JSON object with the text under this name.
    Json(&'static str),
    /// A JSON object with the HMAC-SHA-256 of the text.
    Mac {
        /// The name of the text itself; `None` if it is not returned.
        value: Option<&'static str>,
        /// The name of the MAC.
        mac: &'static str,
        /// The prefix of the MAC.
        prefix: &'static str,
        /// The encoding of the MAC.
        encoding: Encoding,
    },
}

/// The condition for responding to a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengeGuard {
    /// Responds to everyone: the response is of no use to an attacker.
    Open,
    /// Requires the webhook's `verify`, if it has one.
    Verified,
    /// Requires the secret of the challenge in this field.
    Token(RequestField),
    /// Responds to the first challenge after a person has started pairing. Its text becomes the secret of `verify`.
    Pairing,
}

/// A field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestField {
    /// The query parameter with this name.
    Query(Cow<'static, str>),
    /// The header with this name, in lower case.
    Header(Cow<'static, str>),
    /// The value in a JSON body at this JSON Pointer (RFC 6901).
    Body(Cow<'static, str>),
}

impl Challenge {
    /// Calls `visit` with every expression of the challenge.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        if let ChallengeKey::Dedicated(secret) = &self.key {
            secret.expressions(visit);
        }
    }
}
