//! `webhook.verify`: authentication of the sender.

use std::time::Duration;

use expression::template::Template;
use model::automation::{
    Algorithm, Encoding, Format, SignatureRule, SignedPart, TimeUnit, TimestampRule, TimestampSource, Verify,
    VerifyKey,
};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, Kind, MapReader, Node};

use super::presets::{Form, PRESETS, Preset, Scheme, Signature, Time};
use crate::load::common::{duration_within, shorten};
use crate::load::keys::{Choice, Key, Object, Shape};
use crate::load::template::template;

/// The maximum number of active keys.
const MAX_KEYS: usize = 4;
const ENCODINGS: [(&str, Encoding); 4] = [
    ("text", Encoding::Text),
    ("hex", Encoding::Hex),
    ("base64", Encoding::Base64),
    ("base64url", Encoding::Base64Url),
];
const ALGORITHMS: [(&str, Algorithm); 5] = [
    ("sha256", Algorithm::Sha256),
    ("sha1", Algorithm::Sha1),
    ("sha384", Algorithm::Sha384),
    ("sha512", Algorithm::Sha512),
    ("ed25519", Algorithm::Ed25519),
];
const SIGNED_PARTS: [(&str, SignedPart); 7] = [
    ("body", SignedPart::Body),
    ("timestamp", SignedPart::Timestamp),
    ("id", SignedPart::Id),
    ("method", SignedPart::Method),
    ("url", SignedPart::Url),
    ("urlDecoded", SignedPart::UrlDecoded),
    ("formSorted", SignedPart::FormSorted),
];
/// The names of the presets, in the order of [`PRESETS`].
pub(super) static NAMES: &[&str] = &names();

const fn names() -> [&'static str; PRESETS.len()] {
    let mut names = [""; PRESETS.len()];
    let mut at = 0;
    while at < PRESETS.len() {
        names[at] = PRESETS[at].name;
        at += 1;
    }
    names
}

static KEY: Object = Object {
    what: "a key",
    keys: &[
        Key::required("secret", Shape::Template, "The secret: `${{ secrets.NAME }}`."),
        Key::new("notAfter", Shape::Text, "The time after which it is invalid, as RFC 3339."),
    ],
    choice: Choice::Any,
};

static TIMESTAMP: Object = Object {
    what: "a timestamp",
    keys: &[
        Key::required("header", Shape::NonBlankText, "The header with the time of the signature."),
        Key::new("unit", Shape::Enum(&["s", "ms", "rfc3339"]), "Its format. Default: s."),
        Key::new("tolerance", Shape::Duration, "The largest age. Default: 5m."),
    ],
    choice: Choice::Any,
};

pub(in crate::load) static VERIFY: Object = Object {
    what: "a verification",
    keys: &[
        Key::new(
            "preset",
            Shape::Enum(NAMES),
            "How the sender signs. The other keys change parts of it. Default: hmac, the SHA-256 of the body in hex.",
        ),
        Key::new("secret", Shape::Template, "The secret shared with the sender: `${{ secrets.NAME }}`."),
        Key::new(
            "keys",
            Shape::List(&Shape::Object(&KEY)),
            "Several valid secrets, at most 4, for the rotation of a secret.",
        ),
        Key::new("header", Shape::NonBlankText, "The header with the signature, or with the token."),
        Key::new(
            "algorithm",
            Shape::Enum(&["sha256", "sha1", "sha384", "sha512", "ed25519"]),
            "HMAC with this digest, or Ed25519.",
        ),
        Key::new("prefix", Shape::Text, "The text before the signature in its header, such as `sha256=`."),
        Key::new("encoding", Shape::Enum(&["hex", "base64", "base64url"]), "The encoding of the signature."),
        Key::new(
            "keyEncoding",
            Shape::Enum(&["text", "hex", "base64", "base64url"]),
            "The encoding of the secret.",
        ),
        Key::new(
            "content",
            Shape::NonBlankText,
            "The signed text, with `{body}`, `{timestamp}`, `{id}`, `{method}`, `{url}`, `{urlDecoded}`, `{formSorted}`.",
        ),
        Key::new(
            "timestamp",
            Shape::Object(&TIMESTAMP),
            "The time of the signature; one that is too old is rejected.",
        ),
        Key::new("id", Shape::NonBlankText, "The header with the message's id, if the sender signs it."),
        Key::new("user", Shape::Template, "The name, for `preset: basic`."),
        Key::new("password", Shape::Template, "The password, for `preset: basic`: `${{ secrets.NAME }}`."),
    ],
    choice: Choice::ExactlyOneUnless {
        one: &["secret", "keys"],
        when: ("preset", "basic"),
        all: &["user", "password"],
    },
};

/// Lowers `verify`; `None` for `none`, and for a value that cannot be read.
pub(super) fn lower(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Verify> {
    let node = field.node()?;
    if node.as_str().is_some() {
        let _ = field.choice(&["none"]);
        return None;
    }
    let mut reader = VERIFY.open(node, diagnostics)?;
    let preset = reader.take("preset");
    let given = preset.choice(NAMES);
    if preset.is_present() && given.is_none() {
        reader.finish_open();
        return None;
    }
    let preset = PRESETS.iter().find(|preset| preset.name == given.unwrap_or("hmac"))?;
    let verify = of_preset(preset, &mut reader, node, diagnostics);
    reader.finish();
    verify
}

fn of_preset(
    preset: &Preset,
    reader: &mut MapReader<'_, '_>,
    node: &Node,
    diagnostics: &Diagnostics,
) -> Option<Verify> {
    match &preset.scheme {
        Scheme::Basic => {
            unused(reader, &["secret", "keys", "header"], preset, diagnostics);
            unused(reader, SIGNATURE_ONLY, preset, diagnostics);
            let mut part = |key| Some(template(reader.required(key).node()?, diagnostics));
            let (user, password) = (part("user"), part("password"));
            Some(Verify::Basic { user: user?, password: password? })
        }
        Scheme::Token(header) => {
            unused(reader, &["user", "password"], preset, diagnostics);
            unused(reader, SIGNATURE_ONLY, preset, diagnostics);
            let own = reader.take("header").name().map(str::to_ascii_lowercase);
            let keys = keys(reader, node, Encoding::Text, "", diagnostics)?;
            Some(Verify::Token { header: own.unwrap_or_else(|| (*header).to_owned()), keys })
        }
        Scheme::Signature(signature) => {
            unused(reader, &["user", "password"], preset, diagnostics);
            signature_rule(signature, reader, node, diagnostics).map(|rule| Verify::Signature(Box::new(rule)))
        }
    }
}

/// The keys that apply only to signatures.
const SIGNATURE_ONLY: &[&str] =
    &["algorithm", "prefix", "encoding", "keyEncoding", "content", "timestamp", "id"];

fn unused(reader: &MapReader<'_, '_>, keys: &[&str], preset: &Preset, diagnostics: &Diagnostics) {
    for key in keys.iter().filter(|key| reader.has(key)) {
        let message = format!("`{key}` means nothing for `preset: {}`", preset.name);
        diagnostics.push(
            Diagnostic::error("unused-setting", message, reader.key_span(key))
                .help(format!("remove `{key}`")),
        );
    }
}

fn signature_rule(
    preset: &Signature,
    reader: &mut MapReader<'_, '_>,
    node: &Node,
    diagnostics: &Diagnostics,
) -> Option<SignatureRule> {
    let key_encoding = reader.take("keyEncoding").one_of(&ENCODINGS).unwrap_or(preset.key_encoding);
    let keys = keys(reader, node, key_encoding, preset.key_prefix, diagnostics);
    let header = reader.take("header").name().map(str::to_ascii_lowercase);
    let prefix = reader.take("prefix").string();
    let format = match (prefix, preset.format) {
        (Some(prefix), _) => Format::Plain { prefix: prefix.to_owned() },
        (None, Form::Plain(prefix)) => Format::Plain { prefix: prefix.to_owned() },
        (None, Form::Pairs(separator, select)) => Format::Pairs { separator, select: select.to_owned() },
        (None, Form::Tagged(tag)) => Format::Tagged { tag: tag.to_owned() },
    };
    let timestamp = match reader.take("timestamp").node() {
        Some(node) => timestamp(node, diagnostics),
        None => preset.timestamp.map(|(source, unit, tolerance)| TimestampRule {
            source: match source {
                Time::Header(name) => TimestampSource::Header(name.to_owned()),
                Time::Pair(key) => TimestampSource::Pair(key.to_owned()),
                Time::Body(key) => TimestampSource::Body(key.to_owned()),
            },
            unit,
            tolerance: Duration::from_secs(tolerance),
        }),
    };
    let id = reader.take("id").name().map(str::to_ascii_lowercase);
    let written = reader.take("content");
    let content = written.name().unwrap_or(preset.content);
    let id = id.or_else(|| preset.id.map(str::to_owned));
    let content = pieces(content, &written, timestamp.is_some(), id.is_some(), diagnostics);
    Some(SignatureRule {
        algorithm: reader.take("algorithm").one_of(&ALGORITHMS).unwrap_or(preset.algorithm),
        keys: keys?,
        headers: vec![header.unwrap_or_else(|| preset.header.to_owned())],
        format,
        encoding: reader.take("encoding").one_of(&ENCODINGS[1..]).unwrap_or(preset.encoding),
        timestamp,
        id,
        content,
        body_digest: preset.body_digest,
    })
}

fn timestamp(node: &Node, diagnostics: &Diagnostics) -> Option<TimestampRule> {
    const UNITS: [(&str, TimeUnit); 3] =
        [("s", TimeUnit::Seconds), ("ms", TimeUnit::Milliseconds), ("rfc3339", TimeUnit::Rfc3339)];
    let mut reader = TIMESTAMP.open(node, diagnostics)?;
    let header = reader.take("header").name().map(str::to_ascii_lowercase);
    let unit = reader.take("unit").one_of(&UNITS).unwrap_or(TimeUnit::Seconds);
    let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let tolerance = duration_within(reader.take("tolerance"), "tolerance", &range, diagnostics);
    reader.finish();
    let tolerance = tolerance.unwrap_or(Duration::from_secs(300));
    Some(TimestampRule { source: TimestampSource::Header(header?), unit, tolerance })
}

fn keys(
    reader: &mut MapReader<'_, '_>,
    node: &Node,
    encoding: Encoding,
    prefix: &str,
    diagnostics: &Diagnostics,
) -> Option<Vec<VerifyKey>> {
    let key = |secret: Template, not_after| VerifyKey {
        secret,
        encoding,
        prefix: (!prefix.is_empty()).then(|| prefix.to_owned()),
        not_after,
    };
    if let Some(node) = reader.take("secret").node() {
        return Some(vec![key(secret(node, diagnostics)?, None)]);
    }
    let field = reader.take("keys");
    if !field.is_present() {
        diagnostics.push(
            Diagnostic::error("missing-key", "a verification needs the key `secret` or `keys`", node.head())
                .help("add `secret: ${{ secrets.NAME }}`, the secret that the sender signs with"),
        );
        return None;
    }
    let items = field.list()?;
    if items.is_empty() {
        field.error("empty-list", "`keys` names no key, so that nobody could start it");
    }
    if items.len() > MAX_KEYS {
        field.error("out-of-range", format!("there may be at most {MAX_KEYS} keys"));
    }
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        let mut reader = KEY.open(item, diagnostics)?;
        let secret = reader.take("secret").node().and_then(|node| secret(node, diagnostics));
        let not_after = reader.take("notAfter");
        let until = not_after.name().map(str::parse::<jiff::Timestamp>);
        if matches!(until, Some(Err(_))) {
            not_after.error(
                "invalid-time",
                "`notAfter` is an instant as in RFC 3339, such as `2027-01-31T00:00:00Z`",
            );
        }
        reader.finish();
        keys.push(key(secret?, until.and_then(Result::ok)));
    }
    Some(keys)
}

/// A secret; an empty one would accept everyone.
pub(super) fn secret(node: &Node, diagnostics: &Diagnostics) -> Option<Template> {
    let secret = template(node, diagnostics);
    let empty = matches!(&node.kind, Kind::Null) || node.as_str().is_some_and(|text| text.trim().is_empty());
    if empty {
        diagnostics.push(
            Diagnostic::error("empty-text", "an empty secret would let everybody in", node.head())
                .help("write `${{ secrets.NAME }}`"),
        );
        return None;
    }
    Some(secret)
}

/// The pieces of the signed content.
fn pieces(
    text: &str,
    field: &Field<'_, '_>,
    has_timestamp: bool,
    has_id: bool,
    diagnostics: &Diagnostics,
) -> Vec<SignedPart> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        if !before.is_empty() {
            pieces.push(SignedPart::Text(before.to_owned()));
        }
        let (name, behind) = after.split_once('}').unwrap_or((after, ""));
        match SIGNED_PARTS.iter().find(|(known, _)| *known == name) {
            Some((_, SignedPart::Timestamp)) if !has_timestamp => {
                lacks(field, "timestamp", "`timestamp: {header: …}`")
            }
            Some((_, SignedPart::Id)) if !has_id => lacks(field, "id", "`id: NAME-OF-THE-HEADER`"),
            Some((_, piece)) => pieces.push(piece.clone()),
            None => diagnostics.push(
                Diagnostic::error(
                    "unknown-value",
                    format!("`{{{}}}` is no piece of a request", shorten(name)),
                    field.span().unwrap_or_default(),
                )
                .expected_names(name, SIGNED_PARTS.iter().map(|(known, _)| *known)),
            ),
        }
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(SignedPart::Text(rest.to_owned()));
    }
    pieces
}

fn lacks(field: &Field<'_, '_>, piece: &str, way_out: &str) {
    field.error(
        "missing-key",
        format!("`{{{piece}}}` is signed, but it is not said where it stands; add {way_out}"),
    );
}
