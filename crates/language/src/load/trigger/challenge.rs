//! `webhook.challenge`: the handshake of a sender before its first delivery.

use std::borrow::Cow;

use model::automation::{
    Challenge, ChallengeGuard, ChallengeKey, ChallengeResponse, ChallengeRule, RequestField, Verify,
};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader, Node};

use super::challenges::{CHALLENGES, ChallengePreset};
use super::verify::secret;
use crate::load::keys::{Choice, Key, Object, Shape};
use crate::load::response_headers;

/// `none` and the names of the presets, in the order of [`CHALLENGES`].
pub(super) static WORDS: &[&str] = &words();
const METHODS: [(&str, &str); 2] = [("GET", "GET"), ("POST", "POST")];

const fn words() -> [&'static str; CHALLENGES.len() + 1] {
    let mut words = ["none"; CHALLENGES.len() + 1];
    let mut at = 0;
    while at < CHALLENGES.len() {
        words[at + 1] = CHALLENGES[at].name;
        at += 1;
    }
    words
}

pub(super) static CHALLENGE: Object = Object {
    what: "a challenge",
    keys: &[
        Key::new("preset", Shape::Enum(WORDS), "The sender whose challenge it is."),
        Key::new(
            "secret",
            Shape::Template,
            "The token that the request must contain (`meta`), or the key that signs the answer (`x`, `zoom`; default: the secret of `verify`).",
        ),
        Key::new("query", Shape::NonBlankText, "Instead of a preset: the query parameter that is returned."),
        Key::new("header", Shape::NonBlankText, "Instead of a preset: the header that is returned."),
        Key::new(
            "method",
            Shape::Enum(&["GET", "POST"]),
            "With `query` or `header`: the method of the challenge. Default: GET.",
        ),
    ],
    choice: Choice::ExactlyOne(&["preset", "query", "header"]),
};

/// Lowers `challenge`, or the challenge that the `verify` preset implies.
pub(super) fn lower(
    field: Field<'_, '_>,
    webhook: &Node,
    verify: Option<&Verify>,
    diagnostics: &Diagnostics,
) -> Option<Challenge> {
    let signs = webhook.get("verify").and_then(|verify| verify.get("preset")).and_then(Node::as_str);
    let Some(node) = field.node() else {
        let preset_row =
            CHALLENGES.iter().find(|preset_row| preset_row.implied && Some(preset_row.name) == signs)?;
        verify?;
        let key = if needs_key(&preset_row.rule) { ChallengeKey::FromVerify } else { ChallengeKey::None };
        return Some(Challenge { name: preset_row.name, rule: preset_row.rule.clone(), key });
    };
    if node.as_map().is_none() {
        let preset_row = preset_row(field.choice(WORDS)?)?;
        return of_row(preset_row, None, signs, verify, node, diagnostics);
    }
    let mut reader = CHALLENGE.open(node, diagnostics)?;
    let challenge = match reader.take("preset") {
        preset if preset.is_present() => {
            own_only(&reader, &["method"], "`preset`", diagnostics);
            let own = reader.take("secret").node();
            preset
                .choice(WORDS)
                .and_then(preset_row)
                .and_then(|preset_row| of_row(preset_row, own, signs, verify, node, diagnostics))
        }
        _ => {
            own_only(&reader, &["secret"], "`query` and `header`", diagnostics);
            echo(&mut reader, diagnostics)
        }
    };
    reader.finish();
    challenge
}

fn preset_row(name: &str) -> Option<&'static ChallengePreset> {
    CHALLENGES.iter().find(|preset_row| preset_row.name == name)
}

fn needs_key(rule: &ChallengeRule) -> bool {
    matches!(rule.response, ChallengeResponse::Mac { .. }) || matches!(rule.guard, ChallengeGuard::Token(_))
}

fn of_row(
    preset_row: &ChallengePreset,
    own: Option<&Node>,
    signs: Option<&str>,
    verify: Option<&Verify>,
    node: &Node,
    diagnostics: &Diagnostics,
) -> Option<Challenge> {
    let ChallengePreset { name, rule, .. } = preset_row;
    let lacks = |message: String, help: &str| {
        diagnostics.push(Diagnostic::error("missing-key", message, node.head()).help(help));
        None
    };
    let key = match own {
        Some(own) if needs_key(rule) => ChallengeKey::Dedicated(secret(own, diagnostics)?),
        Some(own) => {
            let message = format!("`secret` means nothing for the challenge of `{name}`");
            diagnostics
                .push(Diagnostic::error("unused-setting", message, own.head()).help("remove `secret`"));
            return None;
        }
        // A key that signs other content too could be tricked into signing such content.
        None if matches!(rule.response, ChallengeResponse::Mac { .. })
            && verify.is_some()
            && signs == Some(name) =>
        {
            ChallengeKey::FromVerify
        }
        None if needs_key(rule) => {
            let message = format!("the challenge of `{name}` needs the key `secret`");
            return lacks(
                message,
                &format!("write `challenge: {{preset: {name}, secret: \"${{{{ secrets.NAME }}}}\"}}`"),
            );
        }
        None => ChallengeKey::None,
    };
    if rule.guard == ChallengeGuard::Pairing && verify.and_then(Verify::secret_name).is_none() {
        let message = format!("the secret that `{name}` sends has nowhere to go");
        return lacks(
            message,
            &format!("add `verify: {{preset: {name}, secret: \"${{{{ secrets.NAME }}}}\"}}` to the webhook"),
        );
    }
    Some(Challenge { name, rule: rule.clone(), key })
}

/// A custom challenge: a text that is echoed.
fn echo(reader: &mut MapReader<'_, '_>, diagnostics: &Diagnostics) -> Option<Challenge> {
    let (query, name) = (reader.take("query"), reader.take("header"));
    let method = reader.take("method").one_of(&METHODS).unwrap_or("GET");
    let (value, response) = match (query.name(), name.name()) {
        (Some(query), None) => (RequestField::Query(Cow::Owned(query.to_owned())), ChallengeResponse::Text),
        (None, Some(sent)) if response_headers::name(sent, name.span().unwrap_or_default(), diagnostics) => {
            (RequestField::Header(Cow::Owned(sent.to_ascii_lowercase())), ChallengeResponse::Header)
        }
        _ => return None,
    };
    let rule =
        ChallengeRule { method, markers: &[], value: Some(value), response, guard: ChallengeGuard::Open };
    Some(Challenge { name: "echo", rule, key: ChallengeKey::None })
}

fn own_only(reader: &MapReader<'_, '_>, keys: &[&str], beside: &str, diagnostics: &Diagnostics) {
    for key in keys.iter().filter(|key| reader.has(key)) {
        let message = format!("`{key}` means nothing beside {beside}");
        diagnostics.push(
            Diagnostic::error("unused-setting", message, reader.key_span(key))
                .help(format!("remove `{key}`")),
        );
    }
}
