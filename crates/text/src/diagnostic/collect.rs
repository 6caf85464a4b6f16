//! Collector of the diagnostics of one file.

use super::{Diagnostic, Report, Severity, Source};
use std::cell::RefCell;
use std::sync::Arc;

/// The maximum number of diagnostics kept for a file. Further ones are only counted, but errors replace warnings and hints.
pub const MAX_DIAGNOSTICS: usize = 200;

/// Collects the diagnostics of one file.
///
/// Nested readers share it by reference; it has interior mutability and is not `Sync`.
#[derive(Debug)]
pub struct Diagnostics {
    source: Arc<Source>,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    hints: usize,
    step: Option<String>,
}

impl Diagnostics {
    /// Creates an empty collector for a file.
    #[must_use]
    pub fn new(source: impl Into<Arc<Source>>) -> Self {
        Diagnostics { source: source.into(), state: RefCell::default() }
    }

    /// Returns the file.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Adds a diagnostic. Above [`MAX_DIAGNOSTICS`] it is only counted, except that an error replaces a warning or hint.
    pub fn push(&self, mut diagnostic: Diagnostic) {
        let mut state = self.state.borrow_mut();
        match diagnostic.severity {
            Severity::Error => state.errors += 1,
            Severity::Warning => state.warnings += 1,
            Severity::Hint => state.hints += 1,
        }
        if diagnostic.step.is_none() {
            diagnostic.step.clone_from(&state.step);
        }
        if state.kept.len() < MAX_DIAGNOSTICS {
            state.kept.push(diagnostic);
        } else if diagnostic.severity == Severity::Error
            && let Some(lesser) = state.kept.iter_mut().rev().find(|kept| kept.severity != Severity::Error)
        {
            *lesser = diagnostic;
        }
    }

    /// Returns the number of errors so far. Compare it before and after an operation to detect new ones.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.state.borrow().errors
    }

    /// Attributes all diagnostics to this step until the returned guard is dropped. Scopes nest.
    #[must_use = "the scope ends when the value is dropped"]
    pub fn in_step(&self, step: impl Into<String>) -> StepScope<'_> {
        StepScope { outer: self.state.borrow_mut().step.replace(step.into()), diagnostics: self }
    }

    /// Creates the report.
    #[must_use]
    pub fn into_report(self) -> Report {
        let state = self.state.into_inner();
        Report::counted(self.source, state.kept, [state.errors, state.warnings, state.hints])
    }
}

/// Guard of a step's scope; see [`Diagnostics::in_step`].
#[derive(Debug)]
pub struct StepScope<'d> {
    diagnostics: &'d Diagnostics,
    outer: Option<String>,
}

impl Drop for StepScope<'_> {
    fn drop(&mut self) {
        self.diagnostics.state.borrow_mut().step = self.outer.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Span;

    fn collector() -> Diagnostics {
        Diagnostics::new(Source::new("a.yaml", "a: 1\n"))
    }

    #[test]
    fn a_flood_is_capped_and_counted() {
        let diagnostics = collector();
        for _ in 0..500 {
            diagnostics.push(Diagnostic::warning("flood", "again", Span::at(0)));
        }
        let report = diagnostics.into_report();
        assert_eq!(report.diagnostics().len(), MAX_DIAGNOSTICS);
        assert_eq!(report.dropped(), 300);
        assert!(!report.has_errors());
    }

    #[test]
    fn an_error_after_a_flood_of_warnings_is_kept() {
        let diagnostics = collector();
        for _ in 0..MAX_DIAGNOSTICS {
            diagnostics.push(Diagnostic::warning("flood", "again", Span::at(0)));
        }
        diagnostics.push(Diagnostic::error("grave", "really wrong", Span::at(1)));
        let report = diagnostics.into_report();
        assert!(report.has_errors());
        assert!(report.diagnostics().iter().any(|kept| kept.code == "grave"));
    }

    #[test]
    fn a_diagnostic_belongs_to_the_innermost_step_unless_it_names_one() {
        let diagnostics = collector();
        let outer = diagnostics.in_step("outer");
        {
            let _inner = diagnostics.in_step("inner");
            diagnostics.push(Diagnostic::error("x", "one", Span::at(0)));
        }
        diagnostics.push(Diagnostic::error("x", "two", Span::at(1)));
        diagnostics.push(Diagnostic::error("x", "three", Span::at(2)).step("other"));
        drop(outer);
        diagnostics.push(Diagnostic::error("x", "four", Span::at(3)));
        let report = diagnostics.into_report();
        let steps: Vec<_> = report.diagnostics().iter().map(|d| d.step.as_deref()).collect();
        assert_eq!(steps, [Some("inner"), Some("outer"), Some("other"), None]);
    }
}
