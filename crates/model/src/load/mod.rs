//! From a file's text to its checked form: every problem at once, each with its place.
//!
//! A mapping's keys are declared once, in a table beside the code that lowers it; messages, the list of what is
//! allowed and the JSON Schema (see [`crate::schema`]) come from there. Whether a name means something (an action, a
//! connection, a step that an expression reads) is asked by the engine, which sees everything around a file.

mod allow;
mod automation;
mod code;
mod codes;
mod connection;
mod draft;
mod foreign;
mod header;
mod inputs;
pub(crate) mod keys;
mod lint;
mod place;
mod policy;
mod short;
mod steps;
mod template;
mod text;
mod trial;
mod trigger;

use std::sync::Arc;

use crate::automation::Automation;
use crate::connection::Connection;
use crate::diagnostic::{Diagnostic, Diagnostics, Report, Severity, Source};
use crate::trial::Suite;
use crate::yaml::{Node, parse};

pub use allow::{allow, not_allowed};
pub(crate) use automation::AUTOMATION;
pub use codes::{CODES, OTHER_DOUBTS};
pub(crate) use connection::CONNECTION;
pub use draft::{Draft, Gaps};
pub(crate) use inputs::CONFIG_VAR;
pub use place::{Part, place_of};
pub(crate) use steps::{STEP_KEYS, VERBS};
pub use template::template;
pub(crate) use trial::SUITE;
pub(crate) use trigger::TRIGGER;
pub use trigger::event_webhook;

/// What came of a file: its checked form where no error stands in the way, and everything there is to say.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The checked form; absent if the report has errors.
    pub value: Option<T>,
    /// What could be read of a file whose report has errors.
    pub draft: Option<Draft<T>>,
    /// Errors, warnings and hints, in the order of their places.
    pub report: Report,
}

impl<T> Loaded<T> {
    /// What came of a file that has nothing but this report.
    #[must_use]
    pub fn refused(report: Report) -> Self {
        Self { value: None, draft: None, report }
    }

    /// What there is to check further, and what of it is not what the file says. Never to be run.
    #[must_use]
    pub fn to_check(&self) -> Option<(&T, &Gaps)> {
        let draft = self.draft.as_ref().map(|draft| (&draft.value, &draft.gaps));
        self.value.as_ref().map(|value| (value, Gaps::NONE)).or(draft)
    }

    /// The same in another wrapping.
    pub fn map<U>(self, wrap: impl Fn(T) -> U) -> Loaded<U> {
        let draft = self.draft.map(|draft| draft.map(&wrap));
        Loaded { value: self.value.map(wrap), draft, report: self.report }
    }

    fn new(draft: Option<Draft<T>>, report: Report) -> Self {
        match draft {
            // A gap without an error cannot be; if it were, the file would still not be used.
            Some(draft) if !report.has_errors() && draft.gaps.is_empty() => {
                Self { value: Some(draft.value), draft: None, report }
            }
            draft => Self { value: None, draft, report },
        }
    }
}

/// Reads an Automation. `stem` is its file's name without folder and ending, the id where the file gives none.
#[must_use]
pub fn automation(source: Arc<Source>, stem: &str) -> Loaded<Automation> {
    let lower =
        |node: &Node, source, diagnostics: &Diagnostics| automation::read(node, stem, source, diagnostics);
    let mut loaded = read(source, lower, lint::automation);
    if !loaded.report.is_empty()
        && let Some((automation, _)) = loaded.to_check()
    {
        loaded.report = loaded.report.clone().with_paths(&automation.step_paths());
    }
    loaded
}

/// Reads a connection. `stem` is its file's name without folder and ending: the connection's name.
#[must_use]
pub fn connection(source: Arc<Source>, stem: &str) -> Loaded<Connection> {
    let lower =
        |node: &Node, source, diagnostics: &Diagnostics| connection::read(node, stem, source, diagnostics);
    read(source, lower, |node, source, _, _| lint::file(node, source))
}

/// Reads a file of tests. `stem` is its name without folder and `.test.yaml`: the Automation's id where the file gives none.
#[must_use]
pub fn trial(source: Arc<Source>, stem: &str) -> Loaded<Suite> {
    let lower = |node: &Node, source, diagnostics: &Diagnostics| trial::read(node, stem, source, diagnostics);
    read(source, lower, |node, source, _, _| trial::doubtful(lint::file(node, source), source))
}

fn read<T>(
    source: Arc<Source>,
    lower: impl FnOnce(&Node, Arc<Source>, &Diagnostics) -> Option<Draft<T>>,
    doubt: impl FnOnce(&Node, &Source, Option<&T>, bool) -> Vec<Diagnostic>,
) -> Loaded<T> {
    let syntax = Diagnostics::new(source.clone());
    let node = parse(&syntax);
    let syntax = syntax.into_report();
    let meaning = Diagnostics::new(source.clone());
    let draft = node.as_ref().and_then(|node| lower(node, source.clone(), &meaning));
    let meaning = meaning.into_report();
    let whole = syntax.is_empty() && !meaning.has_errors();
    let value = draft.as_ref().map(|draft| &draft.value);
    let doubtful = node.map_or_else(Vec::new, |node| doubt(&node, &source, value, whole));
    // What is wrong in a place is told; that it is doubtful too adds nothing.
    let doubtful = doubtful.into_iter().filter(|found| !meaning.has_error_at(found.span));
    let meaning = meaning.with(doubtful);
    if syntax.is_empty() {
        return Loaded::new(draft, meaning);
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
    Loaded::new(draft, report)
}

#[cfg(test)]
pub(crate) mod tests;
