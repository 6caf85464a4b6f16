//! Diagnostics: problems in the files of a project, with their spans.
//!
//! A checker pushes [`Diagnostic`]s into [`Diagnostics`], which then becomes a [`Report`]. A report can be rendered for
//! people ([`Report::render`]), programs ([`Report::to_json`]) and GitHub's build log ([`Report::to_github`]). All
//! problems of a file are reported at once.

mod collect;
mod nearest;
mod render;
mod report;
mod source;
mod utf16;

pub use collect::{Diagnostics, MAX_DIAGNOSTICS, StepScope};
pub use nearest::nearest;
pub use report::{DiagnosticEntry, Fix, Report};
pub use source::{Position, Source};
pub use utf16::Utf16Index;

use std::ops::Range;

/// A range of bytes in a file. Invariant: `start <= end`; `end` is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The offset after the last byte.
    pub end: u32,
}

impl Span {
    /// Creates the span from `start` to `end`; an `end` before `start` returns the empty span at `start`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Span {
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        Span { start, end: u32::try_from(end).unwrap_or(u32::MAX).max(start) }
    }

    /// Creates the empty span at an offset.
    #[must_use]
    pub fn at(offset: usize) -> Span {
        Span::new(offset, offset)
    }

    /// Returns the span as a range of byte offsets.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.range().len()
    }

    /// True if the span covers no byte; it still has a position.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns the smallest span that covers both.
    #[must_use]
    pub fn cover(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Span {
        Span::new(range.start, range.end)
    }
}

/// The severity of a diagnostic. Only an error prevents the use of a file.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    schemars::JsonSchema,
    utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably not as meant.
    Warning,
    /// A better way to write the same.
    Hint,
}

impl Severity {
    /// Returns the name shown to people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Hint => "hint",
        }
    }
}

/// A correction: replace `span` by `text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The span to replace.
    pub span: Span,
    /// The replacement text.
    pub text: String,
}

/// A problem in a file: message, position and suggested correction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable name of the kind of problem, in kebab-case: `unknown-key`.
    pub code: &'static str,
    /// The severity.
    pub severity: Severity,
    /// One sentence in lower case without a final stop; names from the file are in backticks.
    pub message: String,
    /// The span of the problem.
    pub span: Span,
    /// A short label beside the span.
    pub label: Option<String>,
    /// The way to correct the problem.
    pub help: Option<String>,
    /// All values that are allowed at the span, in documented order.
    pub allowed: Vec<String>,
    /// The allowed name closest to the wrong one. If set, `span` must cover exactly the wrong name.
    pub nearest: Option<String>,
    /// The id of the step with the problem; `None` outside of steps.
    pub step: Option<String>,
    /// The path to that step, which is the last element; empty for a step that is not nested (see `Automation::step_paths`).
    pub step_path: Box<[String]>,
    /// Related spans, each with a label.
    pub related: Vec<(Span, String)>,
    /// A correction that is safe to apply; `None` if there is none.
    pub replacement: Option<Replacement>,
    /// True if the text at `span` is a credential, which reports must mask.
    pub concealed: bool,
}

impl Diagnostic {
    /// Creates a diagnostic. See also [`error`](Self::error), [`warning`](Self::warning) and [`hint`](Self::hint).
    #[must_use]
    pub fn new(severity: Severity, code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Diagnostic {
            code,
            severity,
            message: message.into(),
            span,
            label: None,
            help: None,
            allowed: Vec::new(),
            nearest: None,
            step: None,
            step_path: Box::default(),
            related: Vec::new(),
            replacement: None,
            concealed: false,
        }
    }

    /// Creates an error, which prevents the use of the file.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Error, code, message, span)
    }

    /// Creates a warning.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Warning, code, message, span)
    }

    /// Creates a hint: a better way to write the same.
    #[must_use]
    pub fn hint(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Hint, code, message, span)
    }

    /// Sets the label beside the span.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the help text: how to correct the problem.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the allowed values.
    #[must_use]
    pub fn allowed<T: Into<String>>(mut self, allowed: impl IntoIterator<Item = T>) -> Self {
        self.allowed = allowed.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the closest allowed name, if there is one; see [`nearest`](fn@nearest).
    #[must_use]
    pub fn nearest(mut self, nearest: Option<impl Into<String>>) -> Self {
        self.nearest = nearest.map(Into::into);
        self
    }

    /// Sets the allowed names and the one closest to `found`.
    #[must_use]
    pub fn expected_names<'a>(self, found: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let close = nearest(found, names.iter().copied()).map(str::to_owned);
        self.allowed(names).nearest(close)
    }

    /// Sets the step. Without it, the collector sets the step of its current scope.
    #[must_use]
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }

    /// Adds a related span with a label.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }

    /// Sets the correction: replace `span` by `text`.
    #[must_use]
    pub fn replace(mut self, span: Span, text: impl Into<String>) -> Self {
        self.replacement = Some(Replacement { span, text: text.into() });
        self
    }

    /// Sets the correction, if there is one.
    #[must_use]
    pub fn replacement(self, replacement: Option<(Span, String)>) -> Self {
        match replacement {
            Some((span, text)) => self.replace(span, text),
            None => self,
        }
    }

    /// Marks the text at the span as a credential, which reports mask wherever they quote its line.
    #[must_use]
    pub fn concealed(mut self) -> Self {
        self.concealed = true;
        self
    }
}
