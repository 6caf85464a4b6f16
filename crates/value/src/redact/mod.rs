//! Redaction: keeps secrets out of stored data, logs and responses.
//!
//! SecretSet secrets are replaced wherever they occur; headers and query parameters with the name of a credential are replaced
//! whatever their value.
//!
//! Truncation can cut off the end of a secret, and the remainder no longer matches. Therefore
//! [`Redactor::redact_excerpt`] redacts before it truncates, and [`Redactor::redact_message`] also replaces the beginning of
//! a secret directly before the mark [`TRUNCATION_MARK`], for texts that other code has truncated.

mod encodings;
mod matcher;
mod names;
mod secret;
mod unescape;
mod walk;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use matcher::{SecretAutomaton, SecretMatcher};
pub use names::{is_credential_name, query_without_credentials};
pub use secret::Secret;
pub use walk::{Mask, masked_value};

use text::TRUNCATION_MARK;

use crate::Value;

/// The replacement for a secret.
pub const MASK: &str = "***";

/// The minimum length of a secret, in bytes. Shorter ones are redacted by field name only: replacing them everywhere would
/// mask half of every text (threat model 4.7).
const MIN_SECRET_BYTES: usize = 8;

/// The maximum number of known secrets; a further one evicts the least recently read.
const MAX_SECRETS: usize = 1000;

/// The maximum number of secrets in each tier of automata but the last, which takes all others. A new secret has only the
/// first tier built again; a tier that is full moves into the next one. So the cost of a secret does not depend on the number
/// of secrets: with 1,000 of them it is that of some 15, and a search runs over at most three automata.
const TIERS: [usize; 2] = [10, 100];

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

/// Replaces all known secrets in texts and values. Cheap to clone; all clones share one set of secrets.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<SecretSet>>);

/// The known secrets and their matcher.
#[derive(Default)]
struct SecretSet {
    /// The secrets, each with the logical time of its last read. Invariant: at most [`MAX_SECRETS`].
    secrets: HashMap<Secret, AtomicU64>,
    /// The logical time of the next read.
    clock: AtomicU64,
    /// The secrets by tier. An evicted secret stays in the last tier until that one is built again.
    tiers: [Tier; TIERS.len() + 1],
    /// The matcher over all tiers; `None` if there are no secrets.
    matcher: OnceLock<Option<Arc<SecretMatcher>>>,
}

/// A part of the secrets, with an automaton of its own.
#[derive(Default)]
struct Tier {
    secrets: Vec<Secret>,
    /// Built on first use, because secrets are added in groups.
    automaton: OnceLock<Option<Arc<SecretAutomaton>>>,
}

impl SecretSet {
    fn build_matcher(&self) -> Option<Arc<SecretMatcher>> {
        let automaton =
            |tier: &Tier| tier.automaton.get_or_init(|| SecretAutomaton::build(&tier.secrets)).clone();
        SecretMatcher::new(self.tiers.iter().filter_map(automaton).collect())
    }

    /// Adds a secret to the first tier, and moves the secrets of full tiers.
    fn add(&mut self, secret: Secret) {
        let mut moved = vec![secret];
        for (number, tier) in self.tiers.iter_mut().enumerate() {
            tier.automaton = OnceLock::new();
            tier.secrets.append(&mut moved);
            match TIERS.get(number) {
                Some(&most) if tier.secrets.len() > most => moved = std::mem::take(&mut tier.secrets),
                Some(_) => break,
                None => {
                    // An evicted secret that was added again came twice.
                    let mut seen = HashSet::new();
                    tier.secrets
                        .retain(|secret| self.secrets.contains_key(secret) && seen.insert(secret.clone()));
                }
            }
        }
        self.matcher = OnceLock::new();
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
        set.secrets.insert(secret.clone(), AtomicU64::new(now));
        set.add(secret);
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
            Some(matcher) => matcher.masked_text(text).map_or(Cow::Borrowed(text), Cow::Owned),
            None => Cow::Borrowed(text),
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
            for found in matcher.matches(text.as_bytes()) {
                out.push(text.get(done..found.start).unwrap_or_default());
                if out.is_full {
                    break;
                }
                out.push(MASK);
                done = found.end;
            }
        }
        out.push(text.get(done..).unwrap_or_default());
        Cow::Owned(out.text)
    }

    /// Redacts bytes; `None` if they contain no secret.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let matcher = self.matcher()?;
        matcher.masked_bytes(bytes)
    }

    /// Redacts a value: its texts, numbers, map keys and files in memory.
    #[must_use]
    pub fn redact_value(&self, value: Value) -> Value {
        let Some(matcher) = self.matcher() else { return value };
        masked_value(&value, &*matcher).unwrap_or(value)
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

#[cfg(test)]
mod tests;
