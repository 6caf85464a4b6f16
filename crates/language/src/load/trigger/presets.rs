//! The signature schemes of well-known senders, as data. To add one: a row of [`PRESETS`], and its golden vector in the
//! trigger crate's tests. Sources: each sender's own webhook reference, as of 2026.

use std::borrow::Cow;

use model::automation::{Algorithm, Encoding, RequestField, TimeUnit};

/// The verification of a sender.
pub(crate) struct Preset {
    /// The value of `preset:` that selects it.
    pub(crate) name: &'static str,
    /// The signature scheme.
    pub(crate) scheme: Scheme,
    /// The location of the delivery id, signed or not, for `dedup`.
    pub(crate) id: Option<RequestField>,
}

/// The kinds of proof.
pub(crate) enum Scheme {
    /// A signature.
    Signature(Signature),
    /// The secret itself, in a header.
    Token(&'static str),
    /// A name and a password.
    Basic,
}

/// The parts of a signature.
#[derive(Clone, Copy)]
pub(crate) struct Signature {
    pub(crate) algorithm: Algorithm,
    pub(crate) header: &'static str,
    pub(crate) format: Form,
    pub(crate) encoding: Encoding,
    pub(crate) key_encoding: Encoding,
    pub(crate) key_prefix: &'static str,
    /// The location of the timestamp, its unit, and its maximum age in seconds.
    pub(crate) timestamp: Option<(Time, TimeUnit, u64)>,
    pub(crate) id: Option<&'static str>,
    /// The signed content, with the placeholders `{body}`, `{timestamp}`, `{id}`, `{method}`, `{url}`, `{urlDecoded}`,
    /// `{formSorted}`.
    pub(crate) content: &'static str,
    pub(crate) body_digest: Option<&'static str>,
}

/// The format of the header.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Plain(&'static str),
    Pairs(char, &'static str),
    Tagged(&'static str),
}

/// The location of the timestamp.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    Header(&'static str),
    Pair(&'static str),
    Body(&'static str),
}

/// A SHA-256 HMAC of the body in hex, which most senders vary.
const USUAL: Signature = Signature {
    algorithm: Algorithm::Sha256,
    header: "x-hmac-hash",
    format: Form::Plain(""),
    encoding: Encoding::Hex,
    key_encoding: Encoding::Text,
    key_prefix: "",
    timestamp: None,
    id: None,
    content: "{body}",
    body_digest: None,
};

const STANDARD: Signature = Signature {
    header: "webhook-signature",
    format: Form::Tagged("v1"),
    encoding: Encoding::Base64,
    key_encoding: Encoding::Base64,
    key_prefix: "whsec_",
    timestamp: Some((Time::Header("webhook-timestamp"), TimeUnit::Seconds, 300)),
    id: Some("webhook-id"),
    content: "{id}.{timestamp}.{body}",
    ..USUAL
};

const GITHUB: Signature =
    Signature { header: "x-hub-signature-256", format: Form::Plain("sha256="), ..USUAL };

const fn signed(name: &'static str, signature: Signature) -> Preset {
    Preset { name, scheme: Scheme::Signature(signature), id: None }
}

/// Like [`signed`], with the header that contains the delivery id.
const fn with_header(name: &'static str, id: &'static str, signature: Signature) -> Preset {
    Preset { name, scheme: Scheme::Signature(signature), id: Some(RequestField::Header(Cow::Borrowed(id))) }
}

/// Like [`signed`], with the location of its id in the body.
const fn with_pointer(name: &'static str, id: &'static str, signature: Signature) -> Preset {
    Preset { name, scheme: Scheme::Signature(signature), id: Some(RequestField::Body(Cow::Borrowed(id))) }
}

/// All presets, by name.
pub(crate) static PRESETS: &[Preset] = &[
    signed("asana", Signature { header: "x-hook-signature", ..USUAL }),
    Preset { name: "basic", scheme: Scheme::Basic, id: None },
    signed(
        "discord",
        Signature {
            algorithm: Algorithm::Ed25519,
            header: "x-signature-ed25519",
            key_encoding: Encoding::Hex,
            timestamp: Some((Time::Header("x-signature-timestamp"), TimeUnit::Seconds, 300)),
            content: "{timestamp}{body}",
            ..USUAL
        },
    ),
    signed("docusign", Signature { header: "x-docusign-signature-*", encoding: Encoding::Base64, ..USUAL }),
    with_header("github", "x-github-delivery", GITHUB),
    Preset {
        name: "gitlab",
        scheme: Scheme::Token("x-gitlab-token"),
        id: Some(RequestField::Header(Cow::Borrowed("idempotency-key"))),
    },
    signed("hmac", USUAL),
    signed(
        "hubspot",
        Signature {
            header: "x-hubspot-signature-v3",
            encoding: Encoding::Base64,
            timestamp: Some((Time::Header("x-hubspot-request-timestamp"), TimeUnit::Milliseconds, 300)),
            content: "{method}{urlDecoded}{body}{timestamp}",
            ..USUAL
        },
    ),
    with_header(
        "jira",
        "x-atlassian-webhook-identifier",
        Signature { header: "x-hub-signature", format: Form::Plain("sha256="), ..USUAL },
    ),
    with_header(
        "linear",
        "linear-delivery",
        Signature {
            header: "linear-signature",
            timestamp: Some((Time::Body("webhookTimestamp"), TimeUnit::Milliseconds, 60)),
            ..USUAL
        },
    ),
    signed("meta", GITHUB),
    with_pointer(
        "notion",
        "/id",
        Signature { header: "x-notion-signature", format: Form::Plain("sha256="), ..USUAL },
    ),
    with_pointer(
        "paddle",
        "/event_id",
        Signature {
            header: "paddle-signature",
            format: Form::Pairs(';', "h1"),
            timestamp: Some((Time::Pair("ts"), TimeUnit::Seconds, 300)),
            content: "{timestamp}:{body}",
            ..USUAL
        },
    ),
    with_pointer(
        "pagerduty",
        "/event/id",
        Signature { header: "x-pagerduty-signature", format: Form::Pairs(',', "v1"), ..USUAL },
    ),
    Preset { name: "sharedToken", scheme: Scheme::Token("x-webhook-token"), id: None },
    with_header(
        "shopify",
        "x-shopify-webhook-id",
        Signature { header: "x-shopify-hmac-sha256", encoding: Encoding::Base64, ..USUAL },
    ),
    with_pointer(
        "slack",
        "/event_id",
        Signature {
            header: "x-slack-signature",
            format: Form::Plain("v0="),
            timestamp: Some((Time::Header("x-slack-request-timestamp"), TimeUnit::Seconds, 300)),
            content: "v0:{timestamp}:{body}",
            ..USUAL
        },
    ),
    with_pointer(
        "square",
        "/event_id",
        Signature {
            header: "x-square-hmacsha256-signature",
            encoding: Encoding::Base64,
            content: "{url}{body}",
            ..USUAL
        },
    ),
    signed("standardWebhooks", STANDARD),
    signed(
        "standardWebhooksEd25519",
        Signature {
            algorithm: Algorithm::Ed25519,
            format: Form::Tagged("v1a"),
            key_prefix: "whpk_",
            ..STANDARD
        },
    ),
    with_pointer(
        "stripe",
        "/id",
        Signature {
            header: "stripe-signature",
            format: Form::Pairs(',', "v1"),
            timestamp: Some((Time::Pair("t"), TimeUnit::Seconds, 300)),
            content: "{timestamp}.{body}",
            ..USUAL
        },
    ),
    signed(
        "svix",
        Signature {
            header: "svix-signature",
            timestamp: Some((Time::Header("svix-timestamp"), TimeUnit::Seconds, 300)),
            id: Some("svix-id"),
            ..STANDARD
        },
    ),
    Preset {
        name: "telegram",
        scheme: Scheme::Token("x-telegram-bot-api-secret-token"),
        id: Some(RequestField::Body(Cow::Borrowed("/update_id"))),
    },
    signed(
        "trello",
        Signature {
            algorithm: Algorithm::Sha1,
            header: "x-trello-webhook",
            encoding: Encoding::Base64,
            content: "{body}{url}",
            ..USUAL
        },
    ),
    with_header(
        "twilio",
        "i-twilio-idempotency-token",
        Signature {
            algorithm: Algorithm::Sha1,
            header: "x-twilio-signature",
            encoding: Encoding::Base64,
            content: "{url}{formSorted}",
            body_digest: Some("bodySHA256"),
            ..USUAL
        },
    ),
    signed(
        "twitch",
        Signature {
            header: "twitch-eventsub-message-signature",
            format: Form::Plain("sha256="),
            timestamp: Some((Time::Header("twitch-eventsub-message-timestamp"), TimeUnit::Rfc3339, 600)),
            id: Some("twitch-eventsub-message-id"),
            content: "{id}{timestamp}{body}",
            ..USUAL
        },
    ),
    signed(
        "x",
        Signature {
            header: "x-twitter-webhooks-signature",
            format: Form::Plain("sha256="),
            encoding: Encoding::Base64,
            ..USUAL
        },
    ),
    signed(
        "zendesk",
        Signature {
            header: "x-zendesk-webhook-signature",
            encoding: Encoding::Base64,
            timestamp: Some((Time::Header("x-zendesk-webhook-signature-timestamp"), TimeUnit::Rfc3339, 300)),
            content: "{timestamp}{body}",
            ..USUAL
        },
    ),
    signed(
        "zoom",
        Signature {
            header: "x-zm-signature",
            format: Form::Plain("v0="),
            timestamp: Some((Time::Header("x-zm-request-timestamp"), TimeUnit::Seconds, 300)),
            content: "v0:{timestamp}:{body}",
            ..USUAL
        },
    ),
];
