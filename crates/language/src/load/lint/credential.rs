//! Literals that look like credentials: well-known token formats anywhere in a file, comments included, and random text
//! under a key such as `password`.
//!
//! The diagnostics never show a credential: its span is redacted in each rendering.

use text::diagnostic::{Diagnostic, Source, Span};
use text::yaml::{Entry, Kind};

pub(super) const CODE: &str = "literal-credential";

/// Known token formats: the prefix, the minimum length of the rest, and a description of the token.
const PREFIXES: &[(&str, usize, &str)] = &[
    ("AIza", 35, "a Google API key"),
    ("AKIA", 16, "an AWS access key"),
    ("ASIA", 16, "an AWS access key"),
    ("ATATT3x", 40, "an Atlassian API token"),
    ("ATCTT3x", 40, "an Atlassian API token"),
    ("GOCSPX-", 20, "a Google client secret"),
    ("SG.", 40, "a SendGrid key"),
    ("dckr_pat_", 20, "a Docker token"),
    ("dop_v1_", 40, "a DigitalOcean token"),
    ("figd_", 30, "a Figma token"),
    ("ghp_", 30, "a GitHub token"),
    ("gho_", 30, "a GitHub token"),
    ("ghu_", 30, "a GitHub token"),
    ("ghs_", 30, "a GitHub token"),
    ("ghr_", 30, "a GitHub token"),
    ("github_pat_", 22, "a GitHub token"),
    ("glpat-", 20, "a GitLab token"),
    ("hf_", 30, "a Hugging Face token"),
    ("hvs.", 20, "a Vault token"),
    ("lin_api_", 30, "a Linear key"),
    ("npm_", 30, "an npm token"),
    ("ntn_", 30, "a Notion token"),
    ("pypi-", 40, "a PyPI token"),
    ("rk_live_", 16, "a Stripe key"),
    ("rk_test_", 16, "a Stripe key"),
    ("shpat_", 30, "a Shopify token"),
    ("shpss_", 30, "a Shopify secret"),
    ("sk-", 32, "an API key"),
    ("sk_live_", 16, "a Stripe key"),
    ("sk_test_", 16, "a Stripe key"),
    ("whsec_", 16, "a webhook's signing secret"),
    ("xapp-", 20, "a Slack token"),
    ("xoxa-", 20, "a Slack token"),
    ("xoxb-", 20, "a Slack token"),
    ("xoxp-", 20, "a Slack token"),
    ("xoxr-", 20, "a Slack token"),
    ("xoxs-", 20, "a Slack token"),
    ("ya29.", 20, "a Google access token"),
];

/// URLs that grant write access to anyone who knows them, and their service.
const ADDRESSES: [(&str, &str); 3] = [
    ("hooks.slack.com/services/", "a Slack webhook's address"),
    ("discord.com/api/webhooks/", "a Discord webhook's address"),
    ("discordapp.com/api/webhooks/", "a Discord webhook's address"),
];

/// Last words of credential keys, in lower case without separators.
const TELLING: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authkey",
    "authorization",
    "credential",
    "credentials",
];
/// Keys that end like these and are no credentials: list cursors.
const HARMLESS: [&str; 4] = ["pagetoken", "synctoken", "continuationtoken", "continuetoken"];

/// Texts that mark a credential as an example.
const EXAMPLES: [&str; 16] = [
    "example",
    "changeme",
    "placeholder",
    "your",
    "xxx",
    "dummy",
    "sample",
    "fake",
    "redacted",
    "insert",
    "replace",
    "todo",
    "***",
    "...",
    "…",
    "<",
];

/// All credentials of a known format in a file, in any context.
pub(super) fn in_text(source: &Source) -> impl Iterator<Item = Diagnostic> {
    let text = source.text();
    let mut found: Vec<(Span, &str)> = Vec::new();
    found.extend(tokens(text).filter_map(|(at, token)| {
        let (what, length) = known(token)?;
        Some((Span::new(at, at + length), what))
    }));
    found.extend(private_keys(text));
    for (address, what) in ADDRESSES {
        found.extend(after(text, address, is_address).map(|(span, _)| (span, what)));
    }
    for scheme in ["Bearer ", "Basic ", "bearer ", "basic "] {
        let random = |(span, value): (Span, &str)| (value.len() >= 16 && is_random(value)).then_some(span);
        found.extend(after(text, scheme, is_base64).filter_map(random).map(|span| (span, "a credential")));
    }
    found.extend(addresses(text));
    let mut told: Vec<(Span, &str)> = Vec::new();
    for (span, what) in found {
        if told.iter().all(|(told, _)| span.end <= told.start || told.end <= span.start) {
            told.push((span, what));
        }
    }
    told.into_iter().map(|(span, what)| diagnostic(what, span))
}

/// A literal under a credential key.
pub(super) fn under_key(entry: &Entry) -> Option<Diagnostic> {
    let Kind::String(text) = &entry.value.kind else { return None };
    let name: String = entry.key.chars().filter(char::is_ascii_alphanumeric).collect();
    let value = text.value.trim();
    let fits = is_telling(&name.to_ascii_lowercase()) && !value.contains("${{") && is_random(value);
    let is_place = value.contains("://") || value.starts_with(['/', '.', '$']);
    (fits && !is_place).then(|| diagnostic("a credential", text.locate_span(0, text.value.len())))
}

/// Headers that contain only a credential, in lower case.
const HEADERS: [&str; 9] = [
    "authorization",
    "proxy-authorization",
    "api-key",
    "apikey",
    "x-api-key",
    "x-apikey",
    "x-auth-token",
    "x-access-token",
    "private-token",
];

/// A literal in a credential header that a step sends, in any format.
pub(super) fn in_header(entry: &Entry) -> Option<Diagnostic> {
    let Kind::String(text) = &entry.value.kind else { return None };
    let name = entry.key.to_ascii_lowercase();
    let value = text.value.trim();
    let secret = value.split_whitespace().last().unwrap_or_default();
    let is_written = secret.len() >= 4 && !value.contains("${{") && !is_example(secret);
    let start = text.value.rfind(secret)?;
    (HEADERS.contains(&name.as_str()) && is_written)
        .then(|| diagnostic("a credential", text.locate_span(start, start + secret.len())))
}

fn diagnostic(what: &str, span: Span) -> Diagnostic {
    Diagnostic::warning(CODE, format!("this looks like {what} written into the file"), span)
        .help(
            "whoever can read the file has it: keep it outside, and read `${{ secrets.NAME }}` in a connection or in a \
             configuration variable with `secret: true`",
        )
        .concealed()
}

fn is_telling(name: &str) -> bool {
    TELLING.iter().any(|telling| name.ends_with(telling))
        && !HARMLESS.iter().any(|harmless| name.ends_with(harmless))
}

/// Describes a token of a known format, with its length.
fn known(token: &str) -> Option<(&'static str, usize)> {
    let trimmed = token.trim_end_matches(['.', '-']);
    if is_example(trimmed) {
        return None;
    }
    let is_web_token = || {
        let parts: Vec<&str> = trimmed.split('.').collect();
        parts.len() == 3
            && parts.iter().all(|part| part.len() >= 10)
            && parts[..2].iter().all(|p| p.starts_with("eyJ"))
    };
    if trimmed.starts_with("eyJ") && is_web_token() {
        return Some(("a JSON web token", trimmed.len()));
    }
    let (prefix, least, what) = PREFIXES.iter().find(|(prefix, ..)| trimmed.starts_with(prefix))?;
    let rest = &trimmed[prefix.len()..];
    let is_key_id = *least != 16
        || !prefix.starts_with('A')
        || rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    // `sk-circle-with-a-dot-2` is a name of words.
    let is_name = rest.matches(['-', '_', '.']).count() * 8 > rest.len();
    (rest.len() >= *least && is_key_id && !is_name && is_random(rest)).then_some((what, trimmed.len()))
}

/// The runs of letters, digits, `_`, `-` and `.`, each with its offset.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let start = text.as_ptr() as usize;
    text.split(move |c| !part(c))
        .filter(|token| token.len() >= 16)
        .map(move |token| (token.as_ptr() as usize - start, token))
}

fn private_keys(text: &str) -> impl Iterator<Item = (Span, &'static str)> {
    text.match_indices("-----BEGIN ").filter_map(|(at, mark)| {
        let line = text[at..].lines().next()?;
        let is_key = line.contains("PRIVATE KEY-----");
        let end =
            text[at + mark.len()..].find("-----END ").map_or(at + line.len(), |end| at + mark.len() + end);
        (is_key && !is_example(&text[at..end])).then_some((Span::new(at, end), "a private key"))
    })
}

/// The texts after each occurrence of a prefix, up to the first character that does not match; examples are omitted.
fn after<'t>(
    text: &'t str,
    mark: &'static str,
    fits: fn(char) -> bool,
) -> impl Iterator<Item = (Span, &'t str)> {
    text.match_indices(mark).filter_map(move |(at, _)| {
        let start = at + mark.len();
        let value = text[start..].split(|c| !fits(c)).next().unwrap_or_default();
        let whole = value.len() >= 16 && !is_example(value);
        whole.then(|| (Span::new(start, start + value.len()), value))
    })
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '=' | '~')
}

fn is_address(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/')
}

/// Credentials in URLs: `https://user:password@host`, `?token=…`.
fn addresses(text: &str) -> Vec<(Span, &'static str)> {
    let mut found = Vec::new();
    for (at, mark) in text.match_indices("://") {
        let start = at + mark.len();
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | ')' | ',' | '}');
        let address = text[start..].split(ends).next().unwrap_or_default();
        let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
        if let Some(password) = password(authority) {
            let offset = start + password.as_ptr() as usize - authority.as_ptr() as usize;
            found.push((Span::new(offset, offset + password.len()), "a password in an address"));
        }
        let query = address.split_once('?').map_or("", |(_, query)| query);
        for pair in query.split('#').next().unwrap_or_default().split('&') {
            let Some((name, value)) = pair.split_once('=') else { continue };
            let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            if is_telling(&name.to_ascii_lowercase()) && !value.contains("${{") && is_random(value) {
                let offset = start + value.as_ptr() as usize - address.as_ptr() as usize;
                found.push((Span::new(offset, offset + value.len()), "a credential in an address"));
            }
        }
    }
    found
}

/// The password of `user:password@host`.
fn password(authority: &str) -> Option<&str> {
    let (user, _host) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    let stands_for_one = |word: &&str| password.eq_ignore_ascii_case(word);
    let is_example =
        is_example(password) || ["password", "pass", "pwd", "secret", "token"].iter().any(stands_for_one);
    (!password.is_empty() && !password.contains(['$', '{', '}', '*']) && !is_example).then_some(password)
}

/// True if a text marks itself as an example, or is a sequence such as `abcdef123456`.
fn is_example(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    EXAMPLES.iter().any(|mark| lower.contains(mark)) || is_row(text)
}

/// True if most characters equal or succeed the previous one.
fn is_row(text: &str) -> bool {
    let bytes = text.as_bytes();
    let neighbours = bytes.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
    neighbours * 2 > bytes.len()
}

/// The minimum entropy of a secret, in bits by the frequency of its characters. Eight different characters have 24.
const LEAST_BITS: f64 = 24.0;

/// True if a text looks random, like a generated token or a good password: long, varied, with digits among letters
/// or three kinds of characters. Words and identifiers do not: `changeMeSoon`, `main-wiki-token`.
fn is_random(text: &str) -> bool {
    if text.len() < 8 || text.chars().any(char::is_whitespace) || is_example(text) {
        return false;
    }
    let has = |kind: fn(&char) -> bool| text.chars().any(|c| kind(&c));
    let (lower, upper) = (has(char::is_ascii_lowercase), has(char::is_ascii_uppercase));
    let digit = has(char::is_ascii_digit);
    let other = text.chars().any(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.' | '/' | ':'));
    let kinds = [lower, upper, digit, other].into_iter().filter(|kind| *kind).count();
    let mixed = if digit { kinds >= 2 } else { kinds >= 3 };
    mixed && bits(text) >= LEAST_BITS
}

/// The entropy of a text by the frequency of its characters (Shannon), times its length.
#[expect(clippy::cast_precision_loss, reason = "a measure of short texts")]
fn bits(text: &str) -> f64 {
    let mut counts = std::collections::HashMap::new();
    text.chars().for_each(|c| *counts.entry(c).or_insert(0_usize) += 1);
    let length = text.chars().count() as f64;
    counts.values().map(|&count| -(count as f64) * (count as f64 / length).log2()).sum()
}
