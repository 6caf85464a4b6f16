//! Patterns (`pattern`, `patternProperties`): ECMA-262 regular expressions without look-around and back-references, matched in
//! time linear in the text.

use regex_automata::meta::Regex;
use value::budget::{Budget, Exceeded};

/// The bytes of a compiled pattern that add one unit of work to the cost of each byte of text. In the worst case a match
/// takes about 0.8 ns per byte of text and KiB of pattern.
const BYTES_PER_UNIT: usize = 64 << 10;
/// The fixed cost of a match, in units of work.
const MATCH: usize = 10;

/// A compiled pattern.
pub(super) struct Pattern {
    regex: Regex,
    /// The pattern as the schema has it.
    pub(super) source: String,
    /// The cost of a byte of text, in units of work.
    cost: usize,
}

impl Pattern {
    /// Compiles a pattern; `None` if it cannot be matched in linear time, or is too large.
    pub(super) fn compile(source: &str) -> Option<Self> {
        let regex = Regex::new(&jsonschema_regex::to_rust_regex(source).ok()?).ok()?;
        let cost = 1 + regex.memory_usage() / BYTES_PER_UNIT;
        Some(Self { regex, source: source.to_owned(), cost })
    }

    /// Returns true if the pattern matches anywhere in `text`.
    ///
    /// # Errors
    /// Returns an error if the budget is spent.
    pub(super) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, Exceeded> {
        budget.charge(text.len().saturating_mul(self.cost).saturating_add(MATCH))?;
        Ok(self.regex.is_match(text))
    }
}
