//! Patterns (`pattern`, `patternProperties`): ECMA-262 regular expressions without look-around and back-references, matched in
//! time linear in the text.

use value::budget::{Budget, Exceeded};

/// A compiled pattern.
pub(super) struct Pattern {
    pattern: crate::pattern::Pattern,
    /// The pattern as the schema has it.
    pub(super) source: String,
}

impl Pattern {
    /// Compiles a pattern; `None` if it cannot be matched in linear time, or is too large.
    pub(super) fn compile(source: &str) -> Option<Self> {
        let pattern = crate::pattern::Pattern::of_schema(&jsonschema_regex::to_rust_regex(source).ok()?)?;
        Some(Self { pattern, source: source.to_owned() })
    }

    /// Returns true if the pattern matches anywhere in `text`.
    ///
    /// # Errors
    /// Returns an error if the budget is spent.
    pub(super) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, Exceeded> {
        self.pattern.is_match(text, budget)
    }
}
