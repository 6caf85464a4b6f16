//! From a file's text to its checked form: every problem at once, each with its place.

use std::sync::Arc;

use crate::automation::Automation;
use crate::connection::Connection;
use crate::diagnostic::{Diagnostic, Severity, Source};

/// What came of a file: its checked form where no error stands in the way, and everything there is to say.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The checked form; absent if any diagnostic is an error.
    pub value: Option<T>,
    /// Errors, warnings and hints, in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

impl<T> Loaded<T> {
    /// Whether an error stands in the way.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// Reads an Automation. `stem` is its file's name without folder and ending, the id where the file gives none.
#[must_use]
pub fn automation(source: Arc<Source>, stem: &str) -> Loaded<Automation> {
    let _ = (source, stem);
    Loaded { value: None, diagnostics: Vec::new() }
}

/// Reads a connection. `stem` is its file's name without folder and ending: the connection's name.
#[must_use]
pub fn connection(source: Arc<Source>, stem: &str) -> Loaded<Connection> {
    let _ = (source, stem);
    Loaded { value: None, diagnostics: Vec::new() }
}
