//! The level of the language that a definition needs.

use text::diagnostic::Span;

/// A level of the language: the version of its words. Daemons that do not know a level cannot read definitions of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u32);

impl Default for Level {
    fn default() -> Self {
        Self::FIRST
    }
}

impl Level {
    /// The level of release 0.1.0. It needs nothing of the daemons beside this one.
    pub const FIRST: Self = Self(1);
    /// The level of the second part of the language.
    pub const SECOND: Self = Self(2);
    /// The highest level that this release knows.
    pub const KNOWN: Self = Self::SECOND;

    /// Returns the level with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A word for which a definition needs a level above the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeveledWord {
    /// The level.
    pub level: Level,
    /// The word, as written.
    pub word: String,
    /// The span of the word in the automation's file, or of the id if the word is in `project.yaml`.
    pub span: Span,
}
