//! From a file's text to its checked form: every problem at once, each with its place.
//!
//! A mapping's keys are declared once, in a table beside the code that lowers it; messages, the list of what is
//! allowed and the JSON Schema (see [`crate::schema`]) come from there. Whether a name means something (an action, a
//! connection, a step that an expression reads) is asked by the engine, which sees everything around a file.

mod automation;
mod codes;
mod connection;
mod header;
mod inputs;
pub(crate) mod keys;
mod policy;
mod steps;
mod template;
mod text;
mod trigger;

use std::sync::Arc;

use crate::automation::Automation;
use crate::connection::Connection;
use crate::diagnostic::{Diagnostic, Diagnostics, Report, Severity, Source};
use crate::yaml::{Node, parse};

pub(crate) use automation::AUTOMATION;
pub use codes::CODES;
pub(crate) use connection::CONNECTION;
pub(crate) use inputs::CONFIG_VAR;
pub(crate) use steps::{STEP_KEYS, VERBS};
pub use template::template;

/// What came of a file: its checked form where no error stands in the way, and everything there is to say.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The checked form; absent if the report has errors.
    pub value: Option<T>,
    /// Errors, warnings and hints, in the order of their places.
    pub report: Report,
}

/// Reads an Automation. `stem` is its file's name without folder and ending, the id where the file gives none.
#[must_use]
pub fn automation(source: Arc<Source>, stem: &str) -> Loaded<Automation> {
    read(source, |node, source, diagnostics| automation::read(node, stem, source, diagnostics))
}

/// Reads a connection. `stem` is its file's name without folder and ending: the connection's name.
#[must_use]
pub fn connection(source: Arc<Source>, stem: &str) -> Loaded<Connection> {
    read(source, |node, source, diagnostics| connection::read(node, stem, source, diagnostics))
}

fn read<T>(
    source: Arc<Source>,
    lower: impl FnOnce(&Node, Arc<Source>, &Diagnostics) -> Option<T>,
) -> Loaded<T> {
    let syntax = Diagnostics::new(source.clone());
    let node = parse(&syntax);
    let syntax = syntax.into_report();
    let meaning = Diagnostics::new(source.clone());
    let value = node.and_then(|node| lower(&node, source.clone(), &meaning));
    let meaning = meaning.into_report();
    if syntax.is_empty() {
        return Loaded { value: value.filter(|_| !meaning.has_errors()), report: meaning };
    }
    // What could not be read left a gap in the tree; what is said of the gap is said already.
    let told = |other: &&Diagnostic| {
        !syntax.diagnostics().iter().any(|first| {
            first.severity == Severity::Error
                && first.span.start <= other.span.end
                && other.span.start <= first.span.end
        })
    };
    let rest = meaning.diagnostics().iter().filter(told);
    let report = Report::new(source, syntax.diagnostics().iter().chain(rest).cloned());
    Loaded { value: value.filter(|_| !report.has_errors()), report }
}

#[cfg(test)]
pub(crate) mod tests;
