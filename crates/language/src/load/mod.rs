//! Loads a file's text into its checked form and reports all problems together, each with its span.
//!
//! A mapping's keys are declared once, in a table beside the code that lowers it; messages, the lists of allowed keys
//! and the JSON Schema (see [`crate::schema`]) are derived from it. The catalog checks whether names exist (an action, a
//! connection, a step that an expression reads), since it sees the whole project.

mod allow_comments;
mod automation;
mod code;
mod codes;
mod common;
mod computed;
mod connection;
mod defaults;
mod described;
mod inputs;
pub(crate) mod keys;
mod level;
mod lint;
mod locate;
mod long_form;
mod other_dialects;
mod partial;
mod policy;
mod project;
mod response_headers;
mod steps;
mod template;
mod test_suite;
mod trigger;

use std::sync::Arc;

use model::automation::Automation;
use model::connection::Connection;
use model::described::DescribedStatements;
use model::project::Project;
use model::test_suite::Suite;
use text::diagnostic::{Diagnostic, Diagnostics, Report, Severity, Source};
use text::yaml::{Node, parse};

pub use allow_comments::{apply_allow_comments, filter_allowed};
pub(crate) use automation::AUTOMATION;
pub use codes::{CHECK_WARNING_CODES, CODES};
pub(crate) use computed::CONNECTION_KEYS;
pub(crate) use connection::CONNECTION;
pub(crate) use inputs::CONFIG_VAR;
pub use keys::takes_expression;
pub use locate::{PathSegment, extent_at_path, key_span, span_at_path, step_key_span};
pub use partial::{Partial, Unreadable};
pub(crate) use project::PROJECT;
pub(crate) use steps::{STEP_KEYS, VERBS, is_step_id};
pub use template::template;
pub(crate) use test_suite::SUITE;
pub(crate) use trigger::TRIGGER;
pub use trigger::event_webhook;

/// The result of loading a file: its checked form if it has no error, and all diagnostics.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The checked form; absent if the report has errors.
    pub value: Option<T>,
    /// The readable part of a file whose report has errors.
    pub partial: Option<Partial<T>>,
    /// Errors, warnings and hints, sorted by position.
    pub report: Report,
}

impl<T> Loaded<T> {
    /// A result with only this report.
    #[must_use]
    pub fn rejected(report: Report) -> Self {
        Self { value: None, partial: None, report }
    }

    /// The value for further checks, with its unknown parts. Never run it.
    #[must_use]
    pub fn for_checking(&self) -> Option<(&T, &Unreadable)> {
        let partial = self.partial.as_ref().map(|partial| (&partial.value, &partial.unreadable));
        self.value.as_ref().map(|value| (value, Unreadable::NONE)).or(partial)
    }

    /// Wraps the value.
    pub fn map<U>(self, wrap: impl Fn(T) -> U) -> Loaded<U> {
        let partial = self.partial.map(|partial| partial.map(&wrap));
        Loaded { value: self.value.map(wrap), partial, report: self.report }
    }

    fn new(partial: Option<Partial<T>>, report: Report) -> Self {
        match partial {
            // A gap without an error is impossible; if it occurred, the file would still not be used.
            Some(partial) if !report.has_errors() && partial.unreadable.is_empty() => {
                Self { value: Some(partial.value), partial: None, report }
            }
            partial => Self { value: None, partial, report },
        }
    }
}

/// Loads an automation. `stem` is its file name without folder and extension, the default id.
#[must_use]
pub fn automation(source: Arc<Source>, stem: &str) -> Loaded<Automation> {
    let lower =
        |node: &Node, source, diagnostics: &Diagnostics| automation::read(node, stem, source, diagnostics);
    let mut loaded = read(source, lower, lint::automation);
    if !loaded.report.is_empty()
        && let Some((automation, _)) = loaded.for_checking()
    {
        loaded.report = loaded.report.clone().with_paths(&automation.step_paths());
    }
    loaded
}

/// Loads a connection. `stem` is its file name without folder and extension: the name of the connection.
#[must_use]
pub fn connection(source: Arc<Source>, stem: &str) -> Loaded<Connection> {
    let lower =
        |node: &Node, source, diagnostics: &Diagnostics| connection::read(node, stem, source, diagnostics);
    read(source, lower, |node, source, _, _| lint::connection(node, source))
}

/// Loads the described statements of a connection.
#[must_use]
pub fn described_statements(source: Arc<Source>) -> Loaded<DescribedStatements> {
    let lower = |node: &Node, _, diagnostics: &Diagnostics| described::read(node, diagnostics);
    read(source, lower, |_, _, _, _| Vec::new())
}

/// Loads `project.yaml`.
#[must_use]
pub fn project(source: Arc<Source>) -> Loaded<Project> {
    let lower = |node: &Node, source, diagnostics: &Diagnostics| project::read(node, source, diagnostics);
    read(source, lower, |node, source, _, _| lint::file(node, source))
}

/// Loads a test file. `stem` is its name without folder and `.test.yaml`: the default id of the automation.
#[must_use]
pub fn test_suite(source: Arc<Source>, stem: &str) -> Loaded<Suite> {
    let lower =
        |node: &Node, source, diagnostics: &Diagnostics| test_suite::read(node, stem, source, diagnostics);
    read(source, lower, |node, source, _, _| test_suite::doubtful(lint::file(node, source), source))
}

fn read<T>(
    source: Arc<Source>,
    lower: impl FnOnce(&Node, Arc<Source>, &Diagnostics) -> Option<Partial<T>>,
    doubt: impl FnOnce(&Node, &Source, Option<&T>, bool) -> Vec<Diagnostic>,
) -> Loaded<T> {
    let syntax = Diagnostics::new(source.clone());
    let node = parse(&syntax);
    let syntax = syntax.into_report();
    let meaning = Diagnostics::new(source.clone());
    let partial = node.as_ref().and_then(|node| lower(node, source.clone(), &meaning));
    let meaning = meaning.into_report();
    let whole = syntax.is_empty() && !meaning.has_errors();
    let value = partial.as_ref().map(|partial| &partial.value);
    let doubtful = node.map_or_else(Vec::new, |node| doubt(&node, &source, value, whole));
    // An error in this span makes a warning about it superfluous.
    let doubtful = doubtful.into_iter().filter(|found| !meaning.has_error_at(found.span));
    let meaning = meaning.with(doubtful);
    if syntax.is_empty() {
        return Loaded::new(partial, meaning);
    }
    // An unreadable node leaves a gap in the tree; the gap itself has been reported.
    let told = |other: &&Diagnostic| {
        !syntax.diagnostics().iter().any(|first| {
            first.severity == Severity::Error
                && first.span.start <= other.span.end
                && other.span.start <= first.span.end
        })
    };
    let rest = meaning.diagnostics().iter().filter(told);
    let report = Report::new(source, syntax.diagnostics().iter().chain(rest).cloned());
    Loaded::new(partial, report)
}

#[cfg(test)]
pub(crate) mod tests;
