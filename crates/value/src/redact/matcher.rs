//! The search for secrets: automata over all encodings of all secrets.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use aho_corasick::{AhoCorasick, FindIter, MatchKind};
use text::TRUNCATION_MARK;

use super::encodings::{encodings_of, min_prefix_len};
use super::unescape::{Escapes, Parts};
use super::walk::Mask;
use super::{MASK, Secret};

/// An automaton that matches every encoding of some secrets.
pub(super) struct SecretAutomaton {
    /// Matches whole encodings.
    whole: AhoCorasick,
    /// All encodings of these secrets.
    encodings: Vec<String>,
    /// The length of the shortest encoding.
    shortest: usize,
    /// The length of the longest encoding.
    longest: usize,
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
        let lengths = || encodings.iter().map(String::len);
        let (shortest, longest) = (lengths().min().unwrap_or_default(), lengths().max().unwrap_or_default());
        Some(Arc::new(Self { whole, encodings, shortest, longest, prefixes: OnceLock::new() }))
    }

    /// Returns the ranges of prefixes of encodings that end directly before [`TRUNCATION_MARK`].
    fn truncated_secrets(&self, text: &[u8]) -> Vec<Range<usize>> {
        let prefixes = self.prefixes.get_or_init(|| {
            let prefixes =
                self.encodings.iter().map(|encoding| &encoding.as_bytes()[..min_prefix_len(encoding)]);
            AhoCorasick::builder().build(prefixes).ok()
        });
        let Some(prefixes) = prefixes else { return Vec::new() };
        let mut mark = [0; 4];
        let mark = TRUNCATION_MARK.encode_utf8(&mut mark).as_bytes();
        let found = prefixes.find_overlapping_iter(text).filter_map(|found| {
            let encoding = self.encodings.get(found.pattern().as_usize())?;
            let rest = text.get(found.start()..)?;
            let alike = encoding.bytes().zip(rest).take_while(|(one, other)| one == *other).count();
            let alike = encoding.floor_char_boundary(alike);
            rest.get(alike..)?.starts_with(mark).then(|| found.start()..found.start() + alike)
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

    fn plain_matches<'t>(&self, text: &'t [u8]) -> Matches<'_, 't> {
        Matches(self.0.iter().map(|automaton| automaton.whole.find_iter(text).peekable()).collect())
    }

    /// Returns the ranges of secrets, in order and without overlaps. In a text they are at character boundaries.
    pub(super) fn matches(&self, text: &[u8]) -> Vec<Range<usize>> {
        // Escapes make a text longer. Most headers end here.
        if self.0.iter().all(|automaton| text.len() < automaton.shortest) {
            return Vec::new();
        }
        let mut found: Vec<Range<usize>> = self.plain_matches(text).collect();
        self.each_unescaped(text, |decoded, source| {
            found.extend(self.plain_matches(decoded).map(|range| source(&range)));
        });
        merged(found)
    }

    /// Calls `look` with each part of the text without its escapes, for each kind; with the escapes of a text inside of JSON too. The
    /// second argument converts a range of the decoded text to one of `text`. A part has each secret whole that has an escape.
    fn each_unescaped(
        &self,
        text: &[u8],
        mut look: impl FnMut(&[u8], &dyn Fn(&Range<usize>) -> Range<usize>),
    ) {
        if !Escapes::may_be_in(text) {
            return;
        }
        let longest = self.0.iter().map(|automaton| automaton.longest).max().unwrap_or_default();
        let plain = |kind: Escapes| kind.source_bytes(longest);
        let nested = Escapes::ALL.map(plain).into_iter().max().unwrap_or_default();
        for outer in Parts::new(text, Escapes::Json, Escapes::Json.source_bytes(nested)) {
            look(&outer.text, &|range| outer.source(range));
            for inner in Escapes::ALL.into_iter().flat_map(|kind| Parts::new(&outer.text, kind, plain(kind)))
            {
                look(&inner.text, &|range| outer.source(&inner.source(range)));
            }
        }
        for part in
            [Escapes::Html, Escapes::Percent].into_iter().flat_map(|kind| Parts::new(text, kind, plain(kind)))
        {
            look(&part.text, &|range| part.source(range));
        }
    }

    /// Masks secrets, and prefixes of secrets before [`TRUNCATION_MARK`]; `None` if there are none.
    pub(super) fn masked_message(&self, text: &str) -> Option<String> {
        let mut hidden = self.matches(text.as_bytes());
        if text.contains(TRUNCATION_MARK) {
            hidden.extend(self.truncated(text.as_bytes()));
            self.each_unescaped(text.as_bytes(), |decoded, source| {
                hidden.extend(self.truncated(decoded).map(|range| source(&range)));
            });
            hidden = merged(hidden);
        }
        (!hidden.is_empty()).then(|| mask(text, hidden))
    }

    fn truncated<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Range<usize>> + 't {
        self.0.iter().flat_map(|automaton| automaton.truncated_secrets(text))
    }
}

impl Mask for SecretMatcher {
    fn masked_text(&self, text: &str) -> Option<String> {
        let found = self.matches(text.as_bytes());
        (!found.is_empty()).then(|| mask(text, found))
    }

    fn masked_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let found = self.matches(bytes);
        (!found.is_empty()).then(|| mask_bytes(bytes, found))
    }
}

/// Sorts ranges, and joins overlapping ranges.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
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

/// Replaces the ranges, which are in order and do not overlap.
fn mask_bytes(bytes: &[u8], ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<u8> {
    let (mut out, mut done) = (Vec::with_capacity(bytes.len()), 0);
    for range in ranges {
        out.extend_from_slice(bytes.get(done..range.start).unwrap_or_default());
        out.extend_from_slice(MASK.as_bytes());
        done = range.end;
    }
    out.extend_from_slice(bytes.get(done..).unwrap_or_default());
    out
}
