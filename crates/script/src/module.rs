//! A module: a text, its position in the author's file, and its digest.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The maximum length of a module's text, in bytes.
pub const MAX_SOURCE: usize = 1024 * 1024;

/// A module's text with its position.
#[derive(Clone, Debug)]
pub struct Module {
    source: Arc<str>,
    origin: Origin,
    digest: Digest,
}

/// The position of a module's text in the author's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, as messages name it.
    pub file: Arc<str>,
    /// The line of the module's first line, from 1.
    pub line: u32,
    /// The column of the first character of each line, from 1: in a YAML block, after its indentation.
    pub column: u32,
}

/// A line and a column, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// The SHA-256 of a module's text, by which workers identify it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub(crate) [u8; 32]);

impl Module {
    /// Creates a module of `source`, located at `origin`.
    #[must_use]
    pub fn new(source: impl Into<Arc<str>>, origin: Origin) -> Self {
        let source = source.into();
        let digest = Digest::of_source(&source);
        Self { source, origin, digest }
    }

    /// The text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its position.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The digest that identifies it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Origin {
    /// The start of `file`: for code in a file of its own.
    #[must_use]
    pub fn start_of(file: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), line: 1, column: 1 }
    }

    /// Converts a position in the module to a position in the author's file.
    #[must_use]
    pub fn place(&self, at: Position) -> Position {
        Position {
            line: self.line.saturating_add(at.line).saturating_sub(1),
            column: self.column.saturating_add(at.column).saturating_sub(1),
        }
    }
}

impl Digest {
    pub(crate) fn of_source(source: &str) -> Self {
        Self(Sha256::digest(source.as_bytes()).into())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}
