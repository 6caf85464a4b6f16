//! The challenges of well-known senders, as data. To add one: a row of [`CHALLENGES`], and its case in the trigger
//! crate's tests. Sources: each sender's own webhook reference, as of 2026.

use std::borrow::Cow;

use model::automation::{ChallengeGuard, ChallengeResponse, ChallengeRule, Encoding, RequestField};

/// A sender's challenge.
pub(super) struct ChallengePreset {
    /// The value of `challenge:` that selects it.
    pub(super) name: &'static str,
    /// The form of the request and of the response.
    pub(super) rule: ChallengeRule,
    /// True if the `verify` preset of the same name enables it.
    pub(super) implied: bool,
}

const fn query(name: &'static str) -> RequestField {
    RequestField::Query(Cow::Borrowed(name))
}

const fn header(name: &'static str) -> RequestField {
    RequestField::Header(Cow::Borrowed(name))
}

const fn body(pointer: &'static str) -> RequestField {
    RequestField::Body(Cow::Borrowed(pointer))
}

/// The usual form: the response echoes a query parameter. It is not served as HTML and reveals nothing.
const fn echo(method: &'static str, parameter: &'static str) -> ChallengeRule {
    ChallengeRule {
        method,
        markers: &[],
        value: Some(query(parameter)),
        response: ChallengeResponse::Text,
        guard: ChallengeGuard::Open,
    }
}

/// All challenges, by name.
pub(super) static CHALLENGES: &[ChallengePreset] = &[
    // The challenge delivers the future signing secret: trusted once, after a person has opened the pairing.
    ChallengePreset {
        name: "asana",
        rule: ChallengeRule {
            method: "POST",
            markers: &[],
            value: Some(header("x-hook-secret")),
            response: ChallengeResponse::Header,
            guard: ChallengeGuard::Pairing,
        },
        implied: false,
    },
    ChallengePreset { name: "dropbox", rule: echo("GET", "challenge"), implied: false },
    ChallengePreset {
        name: "meta",
        rule: ChallengeRule {
            method: "GET",
            markers: &[(query("hub.mode"), "subscribe")],
            value: Some(query("hub.challenge")),
            response: ChallengeResponse::Text,
            guard: ChallengeGuard::Token(query("hub.verify_token")),
        },
        implied: false,
    },
    ChallengePreset { name: "microsoftGraph", rule: echo("POST", "validationToken"), implied: false },
    ChallengePreset {
        name: "okta",
        rule: ChallengeRule {
            method: "GET",
            markers: &[],
            value: Some(header("x-okta-verification-challenge")),
            response: ChallengeResponse::Json("verification"),
            guard: ChallengeGuard::Verified,
        },
        implied: false,
    },
    ChallengePreset {
        name: "slack",
        rule: ChallengeRule {
            method: "POST",
            markers: &[(body("/type"), "url_verification")],
            value: Some(body("/challenge")),
            response: ChallengeResponse::Text,
            guard: ChallengeGuard::Verified,
        },
        implied: true,
    },
    ChallengePreset {
        name: "trello",
        rule: ChallengeRule {
            method: "HEAD",
            markers: &[],
            value: None,
            response: ChallengeResponse::Empty,
            guard: ChallengeGuard::Open,
        },
        implied: true,
    },
    ChallengePreset {
        name: "twitch",
        rule: ChallengeRule {
            method: "POST",
            markers: &[(header("twitch-eventsub-message-type"), "webhook_callback_verification")],
            value: Some(body("/challenge")),
            response: ChallengeResponse::Text,
            guard: ChallengeGuard::Verified,
        },
        implied: true,
    },
    ChallengePreset {
        name: "x",
        rule: ChallengeRule {
            method: "GET",
            markers: &[],
            value: Some(query("crc_token")),
            response: ChallengeResponse::Mac {
                value: None,
                mac: "response_token",
                prefix: "sha256=",
                encoding: Encoding::Base64,
            },
            guard: ChallengeGuard::Open,
        },
        implied: true,
    },
    // Some of its senders do not sign this one call.
    ChallengePreset {
        name: "zoom",
        rule: ChallengeRule {
            method: "POST",
            markers: &[(body("/event"), "endpoint.url_validation")],
            value: Some(body("/payload/plainToken")),
            response: ChallengeResponse::Mac {
                value: Some("plainToken"),
                mac: "encryptedToken",
                prefix: "",
                encoding: Encoding::Hex,
            },
            guard: ChallengeGuard::Open,
        },
        implied: true,
    },
];
