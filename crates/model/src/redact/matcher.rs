//! The search for secrets: automata over all encodings of all secrets.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, FindIter, MatchKind};

use super::encodings::{encodings_of, min_prefix_len};
use super::{MASK, MIN_SECRET_BYTES, TRUNCATION_MARK};
use crate::connection::Secret;
use crate::value::{File, List, Map, Value};

/// An automaton that matches every encoding of some secrets.
pub(super) struct SecretAutomaton {
    /// Matches whole encodings.
    whole: AhoCorasick,
    /// All encodings of these secrets.
    encodings: Vec<String>,
    /// Matches the shortest recognised prefixes of `encodings`, with the same indices. Built for the first truncated text.
    prefixes: OnceLock<Option<AhoCorasick>>,
}

impl SecretAutomaton {
    /// Builds the automaton; `None` if there are no secrets. The cost is proportional to their total length.
    pub(super) fn build(secrets: &[Secret]) -> Option<Arc<Self>> {
        let mut encodings: Vec<String> =
            secrets.iter().flat_map(|secret| encodings_of(secret.expose())).collect();
        encodings.sort_unstable();
        encodings.dedup();
        if encodings.is_empty() {
            return None;
        }
        // Building fails only above the automaton's limit on patterns, which the limit of secrets rules out.
        let whole = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&encodings).ok()?;
        Some(Arc::new(Self { whole, encodings, prefixes: OnceLock::new() }))
    }

    /// Returns the ranges of prefixes of encodings that end directly before [`TRUNCATION_MARK`].
    fn truncated_secrets(&self, text: &str) -> Vec<Range<usize>> {
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
}

/// Finds and replaces every encoding of every secret, with a few automata.
pub(super) struct SecretMatcher(Vec<Arc<SecretAutomaton>>);

/// The ranges of secrets in a text, in order. Ranges of different automata that overlap are one range.
pub(super) struct Matches<'m, 't>(Vec<Peekable<FindIter<'m, 't>>>);

impl Iterator for Matches<'_, '_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let first = |found: &mut Peekable<FindIter<'_, '_>>| found.peek().map(|found| found.start());
        let start = self.0.iter_mut().filter_map(first).min()?;
        let mut end = start;
        // A range that is extended may overlap further matches of any automaton.
        while let Some(next) = self.0.iter_mut().find_map(|matches| {
            matches.next_if(|found| found.start() == start || found.start() < end).map(|found| found.end())
        }) {
            end = end.max(next);
        }
        Some(start..end)
    }
}

impl SecretMatcher {
    /// Combines automata; `None` if there are none.
    pub(super) fn new(automata: Vec<Arc<SecretAutomaton>>) -> Option<Arc<Self>> {
        (!automata.is_empty()).then(|| Arc::new(Self(automata)))
    }

    pub(super) fn is_match(&self, text: impl AsRef<[u8]>) -> bool {
        self.0.iter().any(|automaton| automaton.whole.is_match(text.as_ref()))
    }

    /// Returns the ranges of secrets. In a text they are at character boundaries.
    pub(super) fn matches<'t>(&self, text: &'t (impl AsRef<[u8]> + ?Sized)) -> Matches<'_, 't> {
        Matches(self.0.iter().map(|automaton| automaton.whole.find_iter(text.as_ref()).peekable()).collect())
    }

    /// Masks secrets, and prefixes of secrets before [`TRUNCATION_MARK`]; `None` if there are none.
    pub(super) fn masked_message(&self, text: &str) -> Option<String> {
        let mut hidden: Vec<Range<usize>> = self.matches(text).collect();
        if text.contains(TRUNCATION_MARK) {
            hidden.extend(self.0.iter().flat_map(|automaton| automaton.truncated_secrets(text)));
            hidden.sort_unstable_by_key(|range| range.start);
        }
        (!hidden.is_empty()).then(|| mask(text, hidden))
    }

    pub(super) fn masked(&self, text: &str) -> String {
        mask(text, self.matches(text))
    }

    pub(super) fn masked_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let (mut out, mut done) = (Vec::with_capacity(bytes.len()), 0);
        for range in self.matches(bytes) {
            out.extend_from_slice(bytes.get(done..range.start).unwrap_or_default());
            out.extend_from_slice(MASK.as_bytes());
            done = range.end;
        }
        out.extend_from_slice(bytes.get(done..).unwrap_or_default());
        out
    }

    /// Masks secrets in a value; `None` if it contains none, so that nothing is copied.
    pub(super) fn masked_value(&self, value: &Value) -> Option<Value> {
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
                let data = file.data.in_memory().filter(|bytes| self.is_match(&bytes[..]));
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

/// Replaces the ranges, which are sorted by their start. Overlapping ranges share one mask.
fn mask(text: &str, ranges: impl IntoIterator<Item = Range<usize>>) -> String {
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        if range.start >= done {
            out.push_str(text.get(done..range.start).unwrap_or_default());
            out.push_str(MASK);
        }
        done = done.max(range.end);
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}
