//! Keeps secrets out of what is stored, logged and answered: by value, wherever they stand, and by the names of fields.
//!
//! A text that is cut loses the end of a secret, and the rest of it is no secret that anybody knows. So texts are cut by
//! [`Redactor::redact_excerpt`], which hides first; and [`Redactor::redact_message`] hides the beginning of a secret before the mark [`TRUNCATION_MARK`],
//! for the texts that others have cut.

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

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// The mark at the end of a text that was cut. Whoever cuts a text that may hold a secret has to set it.
pub const TRUNCATION_MARK: char = '…';

/// Shorter secrets are hidden by field alone: they would mask half of every text (threat model 4.7).
const SHORTEST: usize = 8;

/// The most secrets that are known at one time; one more displaces the secret that was read least recently.
const MOST: usize = 1000;

/// What a query leaves as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The length at which [`Redactor::redact_excerpt`] cuts a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthLimit {
    /// So many characters.
    Chars(usize),
    /// So many bytes, or up to 3 fewer: no character is cut in two.
    Bytes(usize),
}

impl LengthLimit {
    /// The beginning of the text that is within the limit.
    fn head(self, text: &str) -> &str {
        let end = match self {
            // Fewer bytes than that are no more characters.
            Self::Chars(most) if text.len() <= most => text.len(),
            Self::Chars(most) => text.char_indices().nth(most).map_or(text.len(), |(at, _)| at),
            Self::Bytes(most) => text.floor_char_boundary(most),
        };
        text.get(..end).unwrap_or_default()
    }

    /// The limit for what follows `text`, which is within it.
    fn after(self, text: &str) -> Self {
        match self {
            Self::Chars(most) => Self::Chars(most.saturating_sub(text.chars().count())),
            Self::Bytes(most) => Self::Bytes(most.saturating_sub(text.len())),
        }
    }
}

/// The text, cut at so many characters with the mark [`TRUNCATION_MARK`]. It hides nothing: [`Redactor::redact_message`] has to come after it
/// where the text may hold a secret.
#[must_use]
pub fn truncate(text: &str, most: usize) -> Cow<'_, str> {
    let head = LengthLimit::Chars(most).head(text);
    if head.len() == text.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{head}{TRUNCATION_MARK}"))
    }
}

/// The secrets that were read, and a search for all of them at once. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    /// Every secret with the turn of its last read. There are at most [`MOST`].
    secrets: HashMap<Secret, AtomicU64>,
    /// The turn of the next read.
    turn: AtomicU64,
    /// Finds every form of every secret; `None` while there is none. Made when it is first needed: secrets come in groups.
    search: OnceLock<Option<Arc<Search>>>,
}

impl Known {
    fn make_search(&self) -> Option<Arc<Search>> {
        let mut forms: Vec<String> = self.secrets.keys().flat_map(|secret| forms(secret.expose())).collect();
        forms.sort_unstable();
        forms.dedup();
        if forms.is_empty() {
            return None;
        }
        // It can only fail for more patterns than there are.
        let whole = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&forms).ok()?;
        Some(Arc::new(Search { whole, forms, starts: OnceLock::new() }))
    }

    /// Notes a read of the secret; false where it is not known.
    fn touch(&self, secret: &Secret) -> bool {
        let Some(last) = self.secrets.get(secret) else { return false };
        last.store(self.turn.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        true
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Redactor")
    }
}

impl Redactor {
    /// Hides this secret from now on, in every form in which it is usually sent.
    pub fn add_secret(&self, secret: &str) {
        if secret.len() < SHORTEST {
            return;
        }
        let secret = Secret::new(secret);
        if self.0.read().unwrap_or_else(PoisonError::into_inner).touch(&secret) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.touch(&secret) {
            return;
        }
        if known.secrets.len() >= MOST {
            let last = |(_, last): &(&Secret, &AtomicU64)| last.load(Ordering::Relaxed);
            let oldest = known.secrets.iter().min_by_key(last).map(|(secret, _)| secret.clone());
            oldest.and_then(|oldest| known.secrets.remove(&oldest));
        }
        let turn = known.turn.fetch_add(1, Ordering::Relaxed);
        known.secrets.insert(secret, AtomicU64::new(turn));
        known.search = OnceLock::new();
    }

    /// Whether nothing is hidden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).secrets.is_empty()
    }

    /// The text without secrets.
    #[must_use]
    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.search() {
            Some(search) if search.is_match(text) => Cow::Owned(search.masked(text)),
            _ => Cow::Borrowed(text),
        }
    }

    /// The text of a message or a log line without secrets, and without the beginning of one that was cut off at the mark [`TRUNCATION_MARK`].
    #[must_use]
    pub fn redact_message<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.search().and_then(|search| search.masked_message(text)).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The text, cut with the mark [`TRUNCATION_MARK`] where it goes over the limit, secrets hidden first.
    ///
    /// A text within the limit is not searched: it is whole, and hidden where it is stored.
    #[must_use]
    pub fn redact_excerpt<'t>(&self, text: &'t str, limit: LengthLimit) -> Cow<'t, str> {
        if limit.head(text).len() == text.len() {
            return Cow::Borrowed(text);
        }
        let mut out = Excerpt { text: String::new(), limit, is_full: false };
        let mut done = 0;
        if let Some(search) = self.search() {
            for found in search.whole.find_iter(text) {
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

    /// The bytes without secrets; `None` where they hold none.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let search = self.search()?;
        search.whole.is_match(bytes).then(|| search.masked_bytes(bytes))
    }

    /// The value without secrets: in texts, in the keys of maps, and in files.
    #[must_use]
    pub fn redact_value(&self, value: Value) -> Value {
        let Some(search) = self.search() else { return value };
        search.masked_value(&value).unwrap_or(value)
    }

    /// The failure without secrets.
    #[must_use]
    pub fn redact_error(&self, mut error: ActionError) -> ActionError {
        let Some(search) = self.search() else { return error };
        if let Some(masked) = search.masked_message(&error.message) {
            error.message = masked;
        }
        let known = &mut *error;
        for text in [&mut known.code, &mut known.request_id].into_iter().flatten() {
            if let Some(masked) = search.masked_message(text) {
                *text = masked;
            }
        }
        if let Some(lost) = &mut known.lost_attempt {
            for text in [Some(&mut lost.message), lost.request_id.as_mut()].into_iter().flatten() {
                if let Some(masked) = search.masked_message(text) {
                    *text = masked;
                }
            }
        }
        if let Some(body) = &error.body
            && let Some(masked) = search.masked_value(body)
        {
            error.body = Some(masked);
        }
        error
    }

    fn search(&self) -> Option<Arc<Search>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.search.get_or_init(|| known.make_search()).clone()
    }
}

/// A text that grows up to a limit.
struct Excerpt {
    text: String,
    /// The room that is left.
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

/// A search for every form of every secret.
struct Search {
    whole: AhoCorasick,
    forms: Vec<String>,
    /// Finds what the forms begin with, each pattern by the place of its form. Made for the first text that was cut.
    starts: OnceLock<Option<AhoCorasick>>,
}

impl Search {
    fn is_match(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }

    /// The message without secrets and without the beginnings of some before [`TRUNCATION_MARK`]; `None` where it holds none.
    fn masked_message(&self, text: &str) -> Option<String> {
        let cut_off = self.cut_off(text);
        if cut_off.is_empty() {
            return self.is_match(text).then(|| self.masked(text));
        }
        let mut hidden: Vec<Range<usize>> = self.whole.find_iter(text).map(|found| found.range()).collect();
        hidden.extend(cut_off);
        hidden.sort_unstable_by_key(|range| range.start);
        let (mut out, mut done) = (String::with_capacity(text.len()), 0);
        for range in hidden {
            // One that begins within the one before it continues its mask.
            if range.start >= done {
                out.push_str(text.get(done..range.start).unwrap_or_default());
                out.push_str(MASK);
            }
            done = done.max(range.end);
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Some(out)
    }

    /// The places of beginnings of forms that end at a mark [`TRUNCATION_MARK`].
    fn cut_off(&self, text: &str) -> Vec<Range<usize>> {
        if !text.contains(TRUNCATION_MARK) {
            return Vec::new();
        }
        let starts = self.starts.get_or_init(|| {
            let starts = self.forms.iter().map(|form| &form.as_bytes()[..telling(form)]);
            AhoCorasick::builder().build(starts).ok()
        });
        let Some(starts) = starts else { return Vec::new() };
        let found = starts.find_overlapping_iter(text).filter_map(|found| {
            let form = self.forms.get(found.pattern().as_usize())?;
            let rest = text.get(found.start()..)?;
            let alike = form.bytes().zip(rest.bytes()).take_while(|(one, other)| one == other).count();
            let alike = form.floor_char_boundary(alike);
            rest.get(alike..)?.starts_with(TRUNCATION_MARK).then(|| found.start()..found.start() + alike)
        });
        found.collect()
    }

    fn masked(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.whole.replace_all_with(text, &mut out, |_, _, out| {
            out.push_str(MASK);
            true
        });
        out
    }

    fn masked_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        self.whole.replace_all_with_bytes(bytes, &mut out, |_, _, out| {
            out.extend_from_slice(MASK.as_bytes());
            true
        });
        out
    }

    /// The value without secrets; `None` where it holds none, so that nothing is copied.
    fn masked_value(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Null | Value::Bool(_) => None,
            Value::Number(number) => {
                let text = number.to_string();
                (text.len() >= SHORTEST && self.is_match(&text)).then(|| Value::from(self.masked(&text)))
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
                // What is kept outside stays as it came, as the body of a request does.
                let data = file.data.in_memory().filter(|bytes| self.whole.is_match(&bytes[..]));
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
            } else if let Some(place) = masked_map.get_mut(key) {
                *place = value;
            }
        }
        Some(masked_map)
    }
}

/// The length in bytes from which the beginning of a form tells a secret: 8, or half of a form that is shorter than 16.
fn telling(form: &str) -> usize {
    form.len().div_ceil(2).min(SHORTEST)
}

/// Every form in which a secret is usually sent.
fn forms(secret: &str) -> Vec<String> {
    let escaped = serde_json::Value::from(secret).to_string();
    let escaped = &escaped[1..escaped.len() - 1];
    let encoded = utf8_percent_encode(secret, ENCODED).to_string();
    let every_byte: String = secret.bytes().map(percent_encode_byte).collect();
    let mut forms = vec![
        secret.to_owned(),
        escaped.to_owned(),
        // Some escape the slash in JSON.
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
        // With what fills up the last characters, which are the secret's own where nothing follows.
        STANDARD.encode(secret),
        URL_SAFE.encode(secret),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
    ];
    for before in 0..3 {
        forms.extend(inside_base64(secret, before));
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// The text with the digits of its `%XX` in lower case, and its own letters as they are.
fn lower_escapes(encoded: &str) -> String {
    let mut left = 0_u8;
    let lower = |character: char| {
        let is_digit = left > 0;
        left = if character == '%' { 2 } else { left.saturating_sub(1) };
        if is_digit { character.to_ascii_lowercase() } else { character }
    };
    encoded.chars().map(lower).collect()
}

/// The text as a log line shows it: control characters escaped.
fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| LogLine::push_escaped(&mut out, character));
    out
}

/// How the secret looks inside base64 of a longer text, with so many bytes (modulo 3) before it: the characters that
/// depend on the secret alone. `Basic` is such a text, with the user's name before it.
fn inside_base64(secret: &str, before: usize) -> [String; 2] {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret.as_bytes());
    // A character is 6 bits: those that reach into the bytes before or behind are not the secret's own.
    let first = (before * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .map(|text| text.get(first..last).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
