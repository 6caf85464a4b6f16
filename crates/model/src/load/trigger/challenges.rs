//! The questions that well-known senders ask of an address, as data. To add one: a row of [`CHALLENGES`], and its case in
//! the trigger crate's tests. Sources: each sender's own reference of its webhooks, as of 2026.

use std::borrow::Cow;

use crate::automation::{
    ChallengeGuard as Guard, ChallengeResponse as Answer, ChallengeRule, Encoding, RequestField,
};

/// A sender's question.
pub(super) struct Row {
    /// What `challenge:` calls it.
    pub(super) name: &'static str,
    /// How it is asked and answered.
    pub(super) rule: ChallengeRule,
    /// Whether it is answered where `verify` has the preset of the same name, without being asked for.
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

/// What most are: a text in the query, given back to whoever asks. It is no HTML, and worth nothing to a stranger.
const fn echo(method: &'static str, parameter: &'static str) -> ChallengeRule {
    ChallengeRule {
        method,
        marks: &[],
        value: Some(query(parameter)),
        answer: Answer::Text,
        guard: Guard::Open,
    }
}

/// All challenges, by name.
pub(super) static CHALLENGES: &[Row] = &[
    // The secret with which it will sign comes in the question: trusted once, after a person has opened the pairing.
    Row {
        name: "asana",
        rule: ChallengeRule {
            method: "POST",
            marks: &[],
            value: Some(header("x-hook-secret")),
            answer: Answer::Header,
            guard: Guard::Pairing,
        },
        implied: false,
    },
    Row { name: "dropbox", rule: echo("GET", "challenge"), implied: false },
    Row {
        name: "meta",
        rule: ChallengeRule {
            method: "GET",
            marks: &[(query("hub.mode"), "subscribe")],
            value: Some(query("hub.challenge")),
            answer: Answer::Text,
            guard: Guard::Token(query("hub.verify_token")),
        },
        implied: false,
    },
    Row { name: "microsoftGraph", rule: echo("POST", "validationToken"), implied: false },
    Row {
        name: "okta",
        rule: ChallengeRule {
            method: "GET",
            marks: &[],
            value: Some(header("x-okta-verification-challenge")),
            answer: Answer::Json("verification"),
            guard: Guard::Verified,
        },
        implied: false,
    },
    Row {
        name: "slack",
        rule: ChallengeRule {
            method: "POST",
            marks: &[(body("/type"), "url_verification")],
            value: Some(body("/challenge")),
            answer: Answer::Text,
            guard: Guard::Verified,
        },
        implied: true,
    },
    Row {
        name: "trello",
        rule: ChallengeRule {
            method: "HEAD",
            marks: &[],
            value: None,
            answer: Answer::Nothing,
            guard: Guard::Open,
        },
        implied: true,
    },
    Row {
        name: "twitch",
        rule: ChallengeRule {
            method: "POST",
            marks: &[(header("twitch-eventsub-message-type"), "webhook_callback_verification")],
            value: Some(body("/challenge")),
            answer: Answer::Text,
            guard: Guard::Verified,
        },
        implied: true,
    },
    Row {
        name: "x",
        rule: ChallengeRule {
            method: "GET",
            marks: &[],
            value: Some(query("crc_token")),
            answer: Answer::Mac {
                value: None,
                mac: "response_token",
                prefix: "sha256=",
                encoding: Encoding::Base64,
            },
            guard: Guard::Open,
        },
        implied: true,
    },
    // Some of its senders leave out the signature of this one call.
    Row {
        name: "zoom",
        rule: ChallengeRule {
            method: "POST",
            marks: &[(body("/event"), "endpoint.url_validation")],
            value: Some(body("/payload/plainToken")),
            answer: Answer::Mac {
                value: Some("plainToken"),
                mac: "encryptedToken",
                prefix: "",
                encoding: Encoding::Hex,
            },
            guard: Guard::Open,
        },
        implied: true,
    },
];
