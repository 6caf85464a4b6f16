//! Patterns (`pattern`, `patternProperties`): regular expressions of ECMA-262 without look-around and back-references,
//! matched in time linear in the text.

use regex_automata::meta::Regex;

use crate::budget::{Budget, Exceeded};

/// The bytes of a compiled pattern that make each byte of text cost another unit of work. In the worst case a match
/// takes some 0.8 ns for every byte of the text and every KiB of the pattern.
const BYTES_PER_UNIT: usize = 64 << 10;
/// The units of work that a match costs whatever the text is.
const MATCH: usize = 10;

/// A compiled pattern.
pub(super) struct Pattern {
    regex: Regex,
    /// As the schema has it.
    pub(super) source: String,
    /// The units of work that a byte of text costs.
    cost: usize,
}

impl Pattern {
    /// Compiles a pattern; `None` if it uses what cannot be matched in linear time, or is too large.
    pub(super) fn compile(source: &str) -> Option<Self> {
        let regex = Regex::new(&jsonschema_regex::to_rust_regex(source).ok()?).ok()?;
        let cost = 1 + regex.memory_usage() / BYTES_PER_UNIT;
        Some(Self { regex, source: source.to_owned(), cost })
    }

    /// Returns true if the pattern matches anywhere in `text`.
    ///
    /// # Errors
    /// The budget is spent.
    pub(super) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, Exceeded> {
        budget.work(text.len().saturating_mul(self.cost).saturating_add(MATCH))?;
        Ok(self.regex.is_match(text))
    }
}
