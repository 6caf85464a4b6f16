//! `webhook.dedup` and `webhook.rateLimit`: repeated and too frequent deliveries.

use std::borrow::Cow;
use std::time::Duration;

use model::automation::{Dedup, DedupBy, RateLimit, RequestField, Verify};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, Node};

use super::presets::PRESETS;
use crate::load::common::{duration_within, shorten};
use crate::load::keys::{Choice, Key, Object, Shape};

const DAY: Duration = Duration::from_secs(86_400);
/// The default deduplication window (webhook security 2.6).
const WINDOW: Duration = Duration::from_secs(7 * 86_400);
const LONGEST_WINDOW: Duration = Duration::from_secs(30 * 86_400);
/// The maximum number of requests of a rate limit.
const MAX_RATE: i64 = 1_000_000;

static BY: Object = Object {
    what: "a place in a request",
    keys: &[
        Key::new("header", Shape::NonBlankText, "The header with the id."),
        Key::new(
            "json",
            Shape::Pattern("^/"),
            "The place of the id in a JSON body, as a JSON Pointer: `/id`.",
        ),
    ],
    choice: Choice::ExactlyOne(&["header", "json"]),
};

pub(super) static DEDUP: Object = Object {
    what: "a deduplication",
    keys: &[
        Key::new(
            "by",
            Shape::AnyOf(&[Shape::Enum(&["id", "mac"]), Shape::Object(&BY)]),
            "What identifies a delivery: the sender's id, if `verify` knows it (id); the signed content (mac); or a header or a place in the body. Default: id.",
        ),
        Key::new(
            "window",
            Shape::Duration,
            "How long a delivery is remembered, 1m to 30d, independent of the history. Default: 7d.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) static RATE_LIMIT: Object = Object {
    what: "a rate limit",
    keys: &[
        Key::required("max", Shape::Integer(1, MAX_RATE), "How many requests are accepted."),
        Key::new("per", Shape::Duration, "The period, 1s to 1d. Default: 1s."),
        Key::new(
            "burst",
            Shape::Integer(1, MAX_RATE),
            "How many may arrive at once after a quiet period. Default: as many as `max`.",
        ),
    ],
    choice: Choice::Any,
};

/// Lowers `dedup`: the source of the key that identifies a repeated delivery.
pub(super) fn dedup(
    field: Field<'_, '_>,
    webhook: &Node,
    verify: Option<&Verify>,
    diagnostics: &Diagnostics,
) -> Option<Dedup> {
    let node = field.node()?;
    let mut reader = DEDUP.open(node, diagnostics)?;
    let by = reader.take("by");
    let window = duration_within(
        reader.take("window"),
        "window",
        &(Duration::from_secs(60)..=LONGEST_WINDOW),
        diagnostics,
    );
    reader.finish();
    let by = match by.node() {
        Some(place) if place.as_map().is_some() => DedupBy::Field(place_of(place, diagnostics)?),
        by_word => {
            let word = if by_word.is_some() { by.choice(&["id", "mac"])? } else { "id" };
            if is_unread(webhook, verify) {
                // The invalid value has been reported; its intention is unknown.
                return None;
            }
            match word {
                "mac" => signed(by, verify)?,
                _ => DedupBy::Field(id_of_sender(node, webhook, verify, diagnostics)?),
            }
        }
    };
    Some(Dedup { by, window: window.unwrap_or(WINDOW) })
}

fn place_of(node: &Node, diagnostics: &Diagnostics) -> Option<RequestField> {
    let mut reader = BY.open(node, diagnostics)?;
    let (header, json) = (reader.take("header"), reader.take("json"));
    let header = header.name().map(|name| RequestField::Header(Cow::Owned(name.to_ascii_lowercase())));
    let pointer = json.name().and_then(|pointer| {
        if pointer.starts_with('/') {
            return Some(RequestField::Body(Cow::Owned(pointer.to_owned())));
        }
        let message = format!("`{}` is no JSON Pointer; it begins with `/`, as `/id`", shorten(pointer));
        json.error("invalid-name", message);
        None
    });
    reader.finish();
    header.or(pointer)
}

/// True if `verify` is present but cannot be read.
fn is_unread(webhook: &Node, verify: Option<&Verify>) -> bool {
    verify.is_none() && webhook.get("verify").is_some_and(|verify| verify.as_str().is_none())
}

fn signed(by: Field<'_, '_>, verify: Option<&Verify>) -> Option<DedupBy> {
    if matches!(verify, Some(Verify::Signature(_))) {
        return Some(DedupBy::Signed);
    }
    by.error("missing-key", "`mac` needs a signature; add `verify` with the preset of the sender");
    None
}

/// The location of the sender's delivery id, from `verify` or its preset.
fn id_of_sender(
    node: &Node,
    webhook: &Node,
    verify: Option<&Verify>,
    diagnostics: &Diagnostics,
) -> Option<RequestField> {
    if let Some(Verify::Signature(rule)) = verify
        && let Some(id) = &rule.id
    {
        return Some(RequestField::Header(Cow::Owned(id.clone())));
    }
    let preset = webhook.get("verify").and_then(|verify| verify.get("preset")).and_then(Node::as_str);
    let known = PRESETS.iter().find(|known| Some(known.name) == preset).and_then(|known| known.id.clone());
    if known.is_none() {
        let message = "it is not known where the sender's id stands";
        diagnostics.push(
            Diagnostic::error("missing-key", message, node.head())
                .help("say it: `by: {header: X-Event-Id}` or `by: {json: /id}`"),
        );
    }
    known
}

/// Lowers `rateLimit`.
pub(super) fn rate(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<RateLimit> {
    let mut reader = RATE_LIMIT.open(field.node()?, diagnostics)?;
    let count =
        |field: Field<'_, '_>| field.integer(1..=MAX_RATE).and_then(|count| u32::try_from(count).ok());
    let max = count(reader.take("max"));
    let per = duration_within(reader.take("per"), "per", &(Duration::from_secs(1)..=DAY), diagnostics);
    let burst = count(reader.take("burst"));
    reader.finish();
    let max = max?;
    Some(RateLimit { max, per: per.unwrap_or(Duration::from_secs(1)), burst: burst.unwrap_or(max) })
}
