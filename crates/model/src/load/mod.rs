//! From a file's text to its checked form: every problem at once, each with its place.

mod template;

use std::sync::Arc;

use crate::automation::Automation;
use crate::connection::Connection;
use crate::diagnostic::{Diagnostics, Report, Source};

pub use template::template;

/// What came of a file: its checked form where no error stands in the way, and everything there is to say.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The checked form; absent if the report has errors.
    pub value: Option<T>,
    /// Errors, warnings and hints, in the order of their places.
    pub report: Report,
}

impl<T> Loaded<T> {
    fn new(value: Option<T>, diagnostics: Diagnostics) -> Self {
        let report = diagnostics.into_report();
        Self { value: value.filter(|_| !report.has_errors()), report }
    }
}

/// Reads an Automation. `stem` is its file's name without folder and ending, the id where the file gives none.
#[must_use]
pub fn automation(source: Arc<Source>, stem: &str) -> Loaded<Automation> {
    let _ = stem;
    Loaded::new(None, Diagnostics::new(source))
}

/// Reads a connection. `stem` is its file's name without folder and ending: the connection's name.
#[must_use]
pub fn connection(source: Arc<Source>, stem: &str) -> Loaded<Connection> {
    let _ = stem;
    Loaded::new(None, Diagnostics::new(source))
}
