//! Regular expressions without look-around and back-references, matched in time linear in the text and charged to a budget.

use std::sync::Arc;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::meta::{Config, Regex};
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::{captures::Captures, syntax};
use regex_automata::{Input, Span};
use value::budget::{Budget, Exceeded};

/// The largest memory of a compiled pattern, in bytes; the same as for `text.match`.
const MAX_PATTERN: usize = 1 << 20;
/// The longest source of a pattern that an evaluation compiles, in bytes.
const MAX_SOURCE: usize = 4096;
/// The work of compiling a pattern, in units: about 50 µs.
const COMPILE: usize = 20_000;
/// The work of compiling a byte of its source, in units.
const COMPILE_BYTE: usize = 1_000;
/// The bytes of a compiled pattern that add one unit of work to the cost of each byte of text. In the worst case a match
/// takes about 0.8 ns per byte of text and KiB of pattern.
const BYTES_PER_UNIT: usize = 64 << 10;
/// The fixed cost of a match, in units of work.
const MATCH: usize = 10;
/// The bytes that a search reads between two charges.
const READ: usize = 4096;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// The cost of a byte of text, in units of work.
    cost: usize,
    /// Finds the end of a match and tells how many bytes it has read; `None` for a pattern that it does not support, and where no
    /// repeated searches are needed.
    scanner: Option<Box<DFA>>,
}

impl Pattern {
    /// Compiles the pattern of a JSON Schema in the syntax of this engine; `None` if it is invalid or too large.
    pub(super) fn of_schema(source: &str) -> Option<Self> {
        Some(Self::new(Regex::new(source).ok()?, None))
    }

    /// Compiles a pattern of an expression.
    ///
    /// # Errors
    /// Returns an error if the pattern is invalid, or larger than [`MAX_PATTERN`].
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        if source.len() > MAX_SOURCE {
            return Err(format!("it has more than {MAX_SOURCE} bytes"));
        }
        let hir = syntax::parse(source).map_err(|error| last_line(&error.to_string()))?;
        let config = Config::new()
            .nfa_size_limit(Some(MAX_PATTERN))
            .onepass_size_limit(Some(MAX_PATTERN))
            .hybrid_cache_capacity(MAX_PATTERN);
        let regex = Regex::builder().configure(config).build_from_hir(&hir);
        let regex = regex.map_err(|error| match error.size_limit() {
            Some(_) => format!("it takes more than {} MiB", MAX_PATTERN >> 20),
            None => last_line(&error.to_string()),
        })?;
        let nfa = NFA::compiler()
            .configure(
                NFA::config().nfa_size_limit(Some(MAX_PATTERN)).which_captures(thompson::WhichCaptures::None),
            )
            .build_from_hir(&hir);
        let config = DFA::config().cache_capacity(MAX_PATTERN).skip_cache_capacity_check(true);
        let scanner = nfa.ok().and_then(|nfa| DFA::builder().configure(config).build_from_nfa(nfa).ok());
        Ok(Self::new(regex, scanner.map(Box::new)))
    }

    /// As [`Pattern::compile`], charged: a pattern from data is compiled in the evaluation.
    ///
    /// # Errors
    /// Returns an outer error if the budget is spent.
    pub(super) fn compile_charged(
        source: &str,
        budget: &Budget,
    ) -> Result<Result<Arc<Self>, String>, Exceeded> {
        budget.charge(source.len().min(MAX_SOURCE).saturating_mul(COMPILE_BYTE).saturating_add(COMPILE))?;
        let compiled = Self::compile(source);
        if let Ok(pattern) = &compiled {
            budget.allocate(pattern.regex.memory_usage())?;
        }
        Ok(compiled.map(Arc::new))
    }

    fn new(regex: Regex, scanner: Option<Box<DFA>>) -> Self {
        let cost = 1 + regex.memory_usage() / BYTES_PER_UNIT;
        Self { regex, cost, scanner }
    }

    /// Returns true if the pattern matches anywhere in `text`.
    ///
    /// # Errors
    /// Returns an error if the budget is spent.
    pub(super) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, Exceeded> {
        budget.charge(text.len().saturating_mul(self.cost).saturating_add(MATCH))?;
        Ok(self.regex.is_match(text))
    }

    /// The matches in a text, from left to right. Each search is charged by the bytes that it reads: a pattern such as `.*b|a` may
    /// read up to the end of the text for each match.
    pub(super) fn matches<'p, 't>(&'p self, text: &'t str, budget: &'p Budget) -> Matches<'p, 't> {
        let cache = self.scanner.as_deref().map(DFA::create_cache);
        let captures = self.regex.create_captures();
        Matches { pattern: self, captures, cache, text, at: 0, last_end: None, budget }
    }
}

/// The searches for the matches in a text.
pub(super) struct Matches<'p, 't> {
    pattern: &'p Pattern,
    captures: Captures,
    cache: Option<Cache>,
    text: &'t str,
    at: usize,
    /// The end of the match before, next to which no empty match counts.
    last_end: Option<usize>,
    budget: &'p Budget,
}

/// The end of the next match.
enum NextEnd {
    Known(usize),
    NoMatch,
    /// The scanner does not support the pattern or the text.
    Unknown,
}

impl Matches<'_, '_> {
    /// Finds the next match; `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if the budget is spent.
    pub(super) fn next(&mut self) -> Result<Option<&Captures>, Exceeded> {
        loop {
            let start = self.at;
            if start > self.text.len() {
                return Ok(None);
            }
            self.budget.charge(MATCH)?;
            let end = match self.next_end(start)? {
                NextEnd::Known(end) => end,
                NextEnd::Unknown => self.text.len(),
                NextEnd::NoMatch => {
                    self.at = self.text.len() + 1;
                    return Ok(None);
                }
            };
            self.budget.charge((end - start).saturating_mul(self.pattern.cost))?;
            let input = Input::new(self.text).range(start..end);
            self.pattern.regex.search_captures(&input, &mut self.captures);
            let Some(Span { start, end }) = self.captures.get_match().map(|found| found.span()) else {
                self.at = self.text.len() + 1;
                return Ok(None);
            };
            // An empty match moves on by a character, so that the searches end.
            let next = self.text[end..].chars().next().map_or(1, char::len_utf8);
            self.at = if start == end { end + next } else { end };
            if start == end && self.last_end == Some(end) {
                continue;
            }
            self.last_end = Some(end);
            return Ok(Some(&self.captures));
        }
    }

    /// Finds the end of the leftmost match, charged by the bytes read.
    fn next_end(&mut self, start: usize) -> Result<NextEnd, Exceeded> {
        let (Some(scanner), Some(cache)) = (&self.pattern.scanner, &mut self.cache) else {
            return Ok(NextEnd::Unknown);
        };
        let input = Input::new(self.text).range(start..);
        let Ok(mut state) = scanner.start_state_forward(cache, &input) else { return Ok(NextEnd::Unknown) };
        let (mut end, mut at) = (None, start);
        for chunk in self.text.as_bytes()[start..].chunks(READ) {
            let begin = at;
            for byte in chunk {
                let Ok(next) = scanner.next_state(cache, state, *byte) else { return Ok(NextEnd::Unknown) };
                state = next;
                if state.is_match() {
                    // A match is known one byte behind its end.
                    end = Some(at);
                } else if state.is_dead() {
                    self.budget.charge(at - begin)?;
                    return Ok(end.map_or(NextEnd::NoMatch, NextEnd::Known));
                } else if state.is_quit() {
                    return Ok(NextEnd::Unknown);
                }
                at += 1;
            }
            self.budget.charge(chunk.len())?;
        }
        let Ok(last) = scanner.next_eoi_state(cache, state) else { return Ok(NextEnd::Unknown) };
        let end = if last.is_match() { Some(self.text.len()) } else { end };
        Ok(end.map_or(NextEnd::NoMatch, NextEnd::Known))
    }
}

/// The reason of an error whose message shows the pattern first.
fn last_line(message: &str) -> String {
    message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
