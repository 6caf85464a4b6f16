//! Redaction: keeps secrets out of stored data, logs and responses.
//!
//! SecretSet secrets are replaced wherever they occur; headers and query parameters with the name of a credential are replaced
//! whatever their value.
//!
//! Truncation can cut off the end of a secret, and the remainder no longer matches. Therefore
//! [`Redactor::redact_excerpt`] redacts before it truncates, and [`Redactor::redact_message`] also replaces the beginning of
//! a secret directly before the mark [`TRUNCATION_MARK`], for texts that other code has truncated.

mod names;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode_byte, utf8_percent_encode};

pub use names::{is_credential_name, query_without_credentials};

use crate::action::ActionError;
use crate::connection::Secret;
use crate::execution::LogLine;
use crate::value::{File, List, Map, Value};

/// The replacement for a secret.
pub const MASK: &str = "***";

/// The mark at the end of a truncated text. Code that truncates a text with possible secrets must append it.
pub const TRUNCATION_MARK: char = '…';

/// The minimum length of a secret, in bytes. Shorter ones are redacted by field name only: replacing them everywhere would
/// mask half of every text (threat model 4.7).
const MIN_SECRET_BYTES: usize = 8;

/// The maximum number of known secrets; a further one evicts the least recently read.
const MAX_SECRETS: usize = 1000;

/// The encode set of a query: all but the unreserved characters.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The maximum length of a text for [`Redactor::redact_excerpt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthLimit {
    /// The number of characters.
    Chars(usize),
    /// The number of bytes. The text may end up to 3 bytes earlier, at a character boundary.
    Bytes(usize),
}

impl LengthLimit {
    /// Returns the longest prefix of `text` within the limit.
    fn head(self, text: &str) -> &str {
        let end = match self {
            // A text has no more characters than bytes.
            Self::Chars(max) if text.len() <= max => text.len(),
            Self::Chars(max) => text.char_indices().nth(max).map_or(text.len(), |(at, _)| at),
            Self::Bytes(max) => text.floor_char_boundary(max),
        };
        text.get(..end).unwrap_or_default()
    }

    /// Returns the limit that remains after `text`, which must be within the limit.
    fn after(self, text: &str) -> Self {
        match self {
            Self::Chars(max) => Self::Chars(max.saturating_sub(text.chars().count())),
            Self::Bytes(max) => Self::Bytes(max.saturating_sub(text.len())),
        }
    }
}

/// Truncates `text` to `max` characters, and appends [`TRUNCATION_MARK`] if it was longer.
///
/// It does not redact. Pass the result through [`Redactor::redact_message`] if the text may contain a secret.
#[must_use]
pub fn truncate(text: &str, max: usize) -> Cow<'_, str> {
    let head = LengthLimit::Chars(max).head(text);
    if head.len() == text.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{head}{TRUNCATION_MARK}"))
    }
}

/// Replaces all known secrets in texts, values and errors. Cheap to clone; all clones share one set of secrets.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<SecretSet>>);

/// The known secrets and their matcher.
#[derive(Default)]
struct SecretSet {
    /// The secrets, each with the logical time of its last read. Invariant: at most [`MAX_SECRETS`].
    secrets: HashMap<Secret, AtomicU64>,
    /// The logical time of the next read.
    clock: AtomicU64,
    /// The matcher of all secrets; `None` if there are none. Built on first use, because secrets are added in groups.
    matcher: OnceLock<Option<Arc<SecretMatcher>>>,
}

impl SecretSet {
    fn build_matcher(&self) -> Option<Arc<SecretMatcher>> {
        let mut encodings: Vec<String> =
            self.secrets.keys().flat_map(|secret| encodings_of(secret.expose())).collect();
        encodings.sort_unstable();
        encodings.dedup();
        if encodings.is_empty() {
            return None;
        }
        // Building fails only above the automaton's limit on patterns, which `MAX_SECRETS` rules out.
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&encodings).ok()?;
        Some(Arc::new(SecretMatcher { automaton, encodings, prefixes: OnceLock::new() }))
    }

    /// Records a read of the secret. Returns false if the secret is not in the set.
    fn touch(&self, secret: &Secret) -> bool {
        let Some(last) = self.secrets.get(secret) else { return false };
        last.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        true
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Redactor")
    }
}

impl Redactor {
    /// Adds a secret. From now on it is redacted in each of its usual encodings.
    pub fn add_secret(&self, secret: &str) {
        if secret.len() < MIN_SECRET_BYTES {
            return;
        }
        let secret = Secret::new(secret);
        if self.0.read().unwrap_or_else(PoisonError::into_inner).touch(&secret) {
            return;
        }
        let mut set = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if set.touch(&secret) {
            return;
        }
        if set.secrets.len() >= MAX_SECRETS {
            let last = |(_, last): &(&Secret, &AtomicU64)| last.load(Ordering::Relaxed);
            let oldest = set.secrets.iter().min_by_key(last).map(|(secret, _)| secret.clone());
            oldest.and_then(|oldest| set.secrets.remove(&oldest));
        }
        let now = set.clock.fetch_add(1, Ordering::Relaxed);
        set.secrets.insert(secret, AtomicU64::new(now));
        set.matcher = OnceLock::new();
    }

    /// True if no secret is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).secrets.is_empty()
    }

    /// Redacts a text.
    #[must_use]
    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.matcher() {
            Some(matcher) if matcher.is_match(text) => Cow::Owned(matcher.masked(text)),
            _ => Cow::Borrowed(text),
        }
    }

    /// Redacts a message or a log line, including the beginning of a secret that was truncated at [`TRUNCATION_MARK`].
    #[must_use]
    pub fn redact_message<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.matcher()
            .and_then(|matcher| matcher.masked_message(text))
            .map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Redacts a text and truncates it to the limit, with [`TRUNCATION_MARK`] at its end.
    ///
    /// A text within the limit is returned unchanged: it is complete, so the redaction before storing it finds its secrets.
    #[must_use]
    pub fn redact_excerpt<'t>(&self, text: &'t str, limit: LengthLimit) -> Cow<'t, str> {
        if limit.head(text).len() == text.len() {
            return Cow::Borrowed(text);
        }
        let mut out = Excerpt { text: String::new(), limit, is_full: false };
        let mut done = 0;
        if let Some(matcher) = self.matcher() {
            for found in matcher.automaton.find_iter(text) {
                out.push(text.get(done..found.start()).unwrap_or_default());
                if out.is_full {
                    break;
                }
                out.push(MASK);
                done = found.end();
            }
        }
        out.push(text.get(done..).unwrap_or_default());
        Cow::Owned(out.text)
    }

    /// Redacts bytes; `None` if they contain no secret.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let matcher = self.matcher()?;
        matcher.automaton.is_match(bytes).then(|| matcher.masked_bytes(bytes))
    }

    /// Redacts a value: its texts, numbers, map keys and files in memory.
    #[must_use]
    pub fn redact_value(&self, value: Value) -> Value {
        let Some(matcher) = self.matcher() else { return value };
        matcher.masked_value(&value).unwrap_or(value)
    }

    /// Redacts an error: its message, code, request ids and body.
    #[must_use]
    pub fn redact_error(&self, mut error: ActionError) -> ActionError {
        let Some(matcher) = self.matcher() else { return error };
        if let Some(masked) = matcher.masked_message(&error.message) {
            error.message = masked;
        }
        let details = &mut *error;
        for text in [&mut details.code, &mut details.request_id].into_iter().flatten() {
            if let Some(masked) = matcher.masked_message(text) {
                *text = masked;
            }
        }
        if let Some(lost) = &mut details.lost_attempt {
            for text in [Some(&mut lost.message), lost.request_id.as_mut()].into_iter().flatten() {
                if let Some(masked) = matcher.masked_message(text) {
                    *text = masked;
                }
            }
        }
        if let Some(body) = &error.body
            && let Some(masked) = matcher.masked_value(body)
        {
            error.body = Some(masked);
        }
        error
    }

    fn matcher(&self) -> Option<Arc<SecretMatcher>> {
        let set = self.0.read().unwrap_or_else(PoisonError::into_inner);
        set.matcher.get_or_init(|| set.build_matcher()).clone()
    }
}

/// A text under construction, truncated at a limit.
struct Excerpt {
    text: String,
    /// The remaining length.
    limit: LengthLimit,
    is_full: bool,
}

impl Excerpt {
    fn push(&mut self, text: &str) {
        if self.is_full {
            return;
        }
        let head = self.limit.head(text);
        self.text.push_str(head);
        self.limit = self.limit.after(head);
        if head.len() < text.len() {
            self.text.push(TRUNCATION_MARK);
            self.is_full = true;
        }
    }
}

/// Finds and replaces every encoding of every secret.
struct SecretMatcher {
    /// Matches whole encodings.
    automaton: AhoCorasick,
    /// All encodings of all secrets.
    encodings: Vec<String>,
    /// Matches the shortest recognised prefixes of `encodings`, with the same indices. Built for the first truncated text.
    prefixes: OnceLock<Option<AhoCorasick>>,
}

impl SecretMatcher {
    fn is_match(&self, text: &str) -> bool {
        self.automaton.is_match(text)
    }

    /// Masks secrets, and prefixes of secrets before [`TRUNCATION_MARK`]; `None` if there are none.
    fn masked_message(&self, text: &str) -> Option<String> {
        let truncated = self.truncated_secrets(text);
        if truncated.is_empty() {
            return self.is_match(text).then(|| self.masked(text));
        }
        let mut hidden: Vec<Range<usize>> =
            self.automaton.find_iter(text).map(|found| found.range()).collect();
        hidden.extend(truncated);
        hidden.sort_unstable_by_key(|range| range.start);
        let (mut out, mut done) = (String::with_capacity(text.len()), 0);
        for range in hidden {
            // Overlapping matches share one mask.
            if range.start >= done {
                out.push_str(text.get(done..range.start).unwrap_or_default());
                out.push_str(MASK);
            }
            done = done.max(range.end);
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Some(out)
    }

    /// Returns the ranges of prefixes of encodings that end directly before [`TRUNCATION_MARK`].
    fn truncated_secrets(&self, text: &str) -> Vec<Range<usize>> {
        if !text.contains(TRUNCATION_MARK) {
            return Vec::new();
        }
        let prefixes = self.prefixes.get_or_init(|| {
            let prefixes =
                self.encodings.iter().map(|encoding| &encoding.as_bytes()[..min_prefix_len(encoding)]);
            AhoCorasick::builder().build(prefixes).ok()
        });
        let Some(prefixes) = prefixes else { return Vec::new() };
        let found = prefixes.find_overlapping_iter(text).filter_map(|found| {
            let encoding = self.encodings.get(found.pattern().as_usize())?;
            let rest = text.get(found.start()..)?;
            let alike = encoding.bytes().zip(rest.bytes()).take_while(|(one, other)| one == other).count();
            let alike = encoding.floor_char_boundary(alike);
            rest.get(alike..)?.starts_with(TRUNCATION_MARK).then(|| found.start()..found.start() + alike)
        });
        found.collect()
    }

    fn masked(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.automaton.replace_all_with(text, &mut out, |_, _, out| {
            out.push_str(MASK);
            true
        });
        out
    }

    fn masked_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        self.automaton.replace_all_with_bytes(bytes, &mut out, |_, _, out| {
            out.extend_from_slice(MASK.as_bytes());
            true
        });
        out
    }

    /// Masks secrets in a value; `None` if it contains none, so that nothing is copied.
    fn masked_value(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Null | Value::Bool(_) => None,
            Value::Number(number) => {
                let text = number.to_string();
                (text.len() >= MIN_SECRET_BYTES && self.is_match(&text))
                    .then(|| Value::from(self.masked(&text)))
            }
            Value::String(text) => self.is_match(text).then(|| Value::from(self.masked(text))),
            Value::List(list) => {
                let changed: Vec<Option<Value>> = list.0.iter().map(|item| self.masked_value(item)).collect();
                changed.iter().any(Option::is_some).then(|| {
                    let items = list.0.iter().zip(changed);
                    let items = items.map(|(item, changed)| changed.unwrap_or_else(|| item.clone()));
                    Value::List(Arc::new(List(items.collect())))
                })
            }
            Value::Map(map) => self.masked_map(map).map(|map| Value::Map(Arc::new(map))),
            Value::File(file) => {
                let filename = file.filename.as_deref().filter(|name| self.is_match(name));
                // Bytes outside of memory stay unchanged, as the body of a request does.
                let data = file.data.in_memory().filter(|bytes| self.automaton.is_match(&bytes[..]));
                let data = data.map(|bytes| self.masked_bytes(bytes));
                (filename.is_some() || data.is_some()).then(|| {
                    Value::File(Arc::new(File {
                        content_type: file.content_type.clone(),
                        filename: match filename {
                            Some(name) => Some(self.masked(name).into()),
                            None => file.filename.clone(),
                        },
                        data: data.map_or_else(|| file.data.clone(), Into::into),
                    }))
                })
            }
        }
    }

    fn masked_map(&self, map: &Map) -> Option<Map> {
        let changed: Vec<(bool, Option<Value>)> =
            map.iter().map(|(key, value)| (self.is_match(key), self.masked_value(value))).collect();
        if !changed.iter().any(|(key, value)| *key || value.is_some()) {
            return None;
        }
        let mut masked_map = map.clone();
        for ((key, old), (key_changed, value)) in map.iter().zip(changed) {
            let value = value.unwrap_or_else(|| old.clone());
            if key_changed {
                masked_map.remove(key);
                masked_map.insert(self.masked(key), value);
            } else if let Some(slot) = masked_map.get_mut(key) {
                *slot = value;
            }
        }
        Some(masked_map)
    }
}

/// Returns the minimum length, in bytes, at which a prefix of an encoding counts as a secret: 8, or half of an encoding that
/// is shorter than 16.
fn min_prefix_len(encoding: &str) -> usize {
    encoding.len().div_ceil(2).min(MIN_SECRET_BYTES)
}

/// Returns the usual encodings of a secret, without those that are too short to match.
fn encodings_of(secret: &str) -> Vec<String> {
    let escaped = serde_json::Value::from(secret).to_string();
    let escaped = &escaped[1..escaped.len() - 1];
    let encoded = utf8_percent_encode(secret, UNRESERVED).to_string();
    let every_byte: String = secret.bytes().map(percent_encode_byte).collect();
    let mut encodings = vec![
        secret.to_owned(),
        escaped.to_owned(),
        // Some JSON encoders escape the slash.
        escaped.replace('/', "\\/"),
        escape_controls(secret),
        every_byte.to_ascii_lowercase(),
        every_byte,
        lower_escapes(&encoded),
        lower_escapes(&encoded).replace("%20", "+"),
        encoded.replace("%20", "+"),
        encoded,
        hex::encode(secret),
        hex::encode_upper(secret),
        // Padded: if nothing follows the secret, the last characters depend on it alone.
        STANDARD.encode(secret),
        URL_SAFE.encode(secret),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ];
    for before in 0..3 {
        encodings.extend(inside_base64(secret, before));
    }
    encodings.retain(|encoding| encoding.len() >= MIN_SECRET_BYTES);
    encodings.sort_unstable();
    encodings.dedup();
    encodings
}

/// Converts the hex digits of percent escapes to lower case.
fn lower_escapes(encoded: &str) -> String {
    let mut left = 0_u8;
    let lower = |character: char| {
        let is_digit = left > 0;
        left = if character == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { character.to_ascii_lowercase() } else { character }
    };
    encoded.chars().map(lower).collect()
}

/// Escapes control characters as log lines do.
fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| LogLine::push_escaped(&mut out, character));
    out
}

/// Returns the part of the base64 of a longer text that depends on the secret alone, with `before` bytes (modulo 3) before
/// the secret. `Basic` credentials are such a text: the user name precedes the password.
fn inside_base64(secret: &str, before: usize) -> [String; 2] {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret.as_bytes());
    // A character encodes 6 bits. Those that share bits with a neighbouring byte do not depend on the secret alone.
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .map(|text| text.get(first..last).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
