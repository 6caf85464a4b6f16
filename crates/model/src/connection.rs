//! SpannedName credentials as they are written, and secrets that cannot be printed.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::automation::SpannedName;
use crate::diagnostic::{Source, Span};
use crate::template::Template;

/// A checked connection file: a type that a connector declares, and its inputs, which may name secrets.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The name that steps use: the file's stem.
    pub name: String,
    /// The type, such as `wiki.basic`, with its place.
    pub kind: String,
    /// Where the type is written.
    pub kind_span: Span,
    /// The inputs by name with the place of each; only `env` and `secrets` exist in their expressions, read when a step runs.
    pub with: Vec<(SpannedName, Template)>,
    /// What a person says it is for.
    pub description: Option<String>,
    /// The file it was read from.
    pub source: Arc<Source>,
}

/// A text that is never printed, logged or stored: its `Debug` and `Display` are `***`.
/// Its bytes are wiped when the last clone is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Seals `text`.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::new(Zeroizing::new(text.as_ref().to_owned())))
    }

    /// The text itself. Only the request builder and the redactor open it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::hash::Hash for Secret {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.expose().hash(state);
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}
