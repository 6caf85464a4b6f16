//! Problems found in what people write, each with its place.
//!
//! A checker pushes [`Diagnostic`]s into [`Diagnostics`] while it reads; when it is done the collector becomes a
//! [`Report`], which can be shown to a person ([`Report::render`]), to a program ([`Report::to_json`]) or to a
//! build log ([`Report::to_github`]). All problems of a file are reported at once.

mod collect;
mod nearest;
mod render;
mod report;
mod source;

pub use collect::{Diagnostics, MAX_DIAGNOSTICS, StepScope};
pub use nearest::nearest;
pub use report::{DiagnosticEntry, Fix, Report};
pub use source::{Position, Source};

use std::ops::Range;

/// A stretch of a file, in bytes from its start; `end` is exclusive and never before `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The stretch from `start` to `end`; an `end` before `start` gives the empty span at `start`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Span {
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        Span { start, end: u32::try_from(end).unwrap_or(u32::MAX).max(start) }
    }

    /// The empty span at an offset.
    #[must_use]
    pub fn at(offset: usize) -> Span {
        Span::new(offset, offset)
    }

    /// The same stretch as a range of byte offsets.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.range().len()
    }

    /// Whether it covers no byte; it still has a place.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The smallest span that covers both.
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

/// How grave a problem is. Only an error keeps a file from being used.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
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
    /// The word shown to people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Hint => "hint",
        }
    }
}

/// A correction that a reader can apply: put `text` in the place of `span`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// What to take away.
    pub span: Span,
    /// What to write there.
    pub text: String,
}

/// One problem: what is wrong, where, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable name of the kind of problem, in kebab-case: `unknown-key`.
    pub code: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// One sentence: lower case, no final stop, the thing in backticks.
    pub message: String,
    /// The place that is wrong.
    pub span: Span,
    /// A few words beside the place.
    pub label: Option<String>,
    /// The way out.
    pub help: Option<String>,
    /// Everything that would have been right there, in the order in which it is documented.
    pub allowed: Vec<String>,
    /// The right name closest to the one found. `span` must then cover exactly the wrong name.
    pub nearest: Option<String>,
    /// Id of the step that the problem is in.
    pub step: Option<String>,
    /// The way to that step, itself last; empty where nothing is around it (see `Automation::step_paths`).
    pub step_path: Box<[String]>,
    /// Other places that explain this one, each with a few words.
    pub related: Vec<(Span, String)>,
    /// The correction, when one is certain enough to offer.
    pub replacement: Option<Replacement>,
    /// Whether what stands at `span` is shown to nobody: a credential.
    pub concealed: bool,
}

impl Diagnostic {
    /// A problem of any severity; [`error`](Self::error), [`warning`](Self::warning) and [`hint`](Self::hint) are shorter.
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

    /// A problem that keeps the file from being used.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Error, code, message, span)
    }

    /// A problem that the file can be used in spite of.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Warning, code, message, span)
    }

    /// A better way to write the same.
    #[must_use]
    pub fn hint(code: &'static str, message: impl Into<String>, span: Span) -> Self {
        Self::new(Severity::Hint, code, message, span)
    }

    /// Words beside the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// What would have been right there.
    #[must_use]
    pub fn allowed<T: Into<String>>(mut self, allowed: impl IntoIterator<Item = T>) -> Self {
        self.allowed = allowed.into_iter().map(Into::into).collect();
        self
    }

    /// The closest right name, if there is one; see [`nearest`](fn@nearest).
    #[must_use]
    pub fn nearest(mut self, nearest: Option<impl Into<String>>) -> Self {
        self.nearest = nearest.map(Into::into);
        self
    }

    /// The names allowed, and the closest of them to the `found` one, in one call.
    #[must_use]
    pub fn expected_names<'a>(self, found: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let close = nearest(found, names.iter().copied()).map(str::to_owned);
        self.allowed(names).nearest(close)
    }

    /// The step that the problem is in. A problem without one gets the step that the collector is in.
    #[must_use]
    pub fn step(mut self, step: impl Into<String>) -> Self {
        self.step = Some(step.into());
        self
    }

    /// Another place that explains this one.
    #[must_use]
    pub fn related(mut self, span: Span, words: impl Into<String>) -> Self {
        self.related.push((span, words.into()));
        self
    }

    /// The correction: `text` in the place of `span`.
    #[must_use]
    pub fn replace(mut self, span: Span, text: impl Into<String>) -> Self {
        self.replacement = Some(Replacement { span, text: text.into() });
        self
    }

    /// What stands at the place is shown to nobody, whatever is told of its line.
    #[must_use]
    pub fn concealed(mut self) -> Self {
        self.concealed = true;
        self
    }
}
