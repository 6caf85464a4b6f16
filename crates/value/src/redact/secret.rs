//! Secret texts that cannot be printed.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A text that is never printed, logged or stored: `Debug` and `Display` print `***`.
///
/// Its bytes are zeroed when the last clone is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Creates a secret from `text`.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::new(Zeroizing::new(text.as_ref().to_owned())))
    }

    /// Returns the secret in the text of a file or an input: without the byte-order mark that some editors write, and without white space
    /// at the end, which nobody sees.
    #[must_use]
    pub fn in_file(text: &str) -> &str {
        text.strip_prefix('\u{feff}').unwrap_or(text).trim_end()
    }

    /// Returns the text. For the request builder and the redactor only.
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
