//! Reports: the sorted diagnostics of one file, and their output formats.

use super::{Diagnostic, Diagnostics, Severity, Source, Span, render};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The maximum length of a [`DiagnosticEntry`]'s snippet, in characters.
const MAX_SNIPPET: usize = 240;

/// The diagnostics of one file, sorted by position.
#[derive(Debug, Clone)]
pub struct Report {
    source: Arc<Source>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    dropped: usize,
}

/// The JSON form of a diagnostic. Lines and columns count from 1, columns in characters; ends are exclusive.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosticEntry {
    /// The path of the file.
    pub file: String,
    /// The first line of the span.
    pub line: usize,
    /// The first column of the span.
    pub column: usize,
    /// The last line.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    /// The severity.
    pub severity: Severity,
    /// The stable name of the kind of problem.
    pub code: String,
    /// The message, one sentence.
    pub message: String,
    /// The way to correct the problem.
    #[schema(required = true)]
    pub help: Option<String>,
    /// The allowed values.
    pub allowed: Vec<String>,
    /// The allowed name closest to the wrong one.
    #[schema(required = true)]
    pub nearest: Option<String>,
    /// The id of the step with the problem.
    #[schema(required = true)]
    pub step: Option<String>,
    /// The path to that step, which is the last element; empty for a step that is not nested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step_path: Vec<String>,
    /// The first line of the span, shortened.
    pub snippet: String,
    /// A correction that is safe to apply.
    #[schema(required = true)]
    pub fix: Option<Fix>,
}

/// The JSON form of a correction: replace a span by `text`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// The first line of the span.
    pub line: usize,
    /// The first column of the span.
    pub column: usize,
    /// The last line.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    /// The replacement text.
    pub text: String,
}

impl Report {
    /// Creates a report from diagnostics, with the limits of [`Diagnostics`].
    #[must_use]
    pub fn new(source: impl Into<Arc<Source>>, diagnostics: impl IntoIterator<Item = Diagnostic>) -> Self {
        let collector = Diagnostics::new(source);
        diagnostics.into_iter().for_each(|diagnostic| collector.push(diagnostic));
        collector.into_report()
    }

    /// Returns the report with further diagnostics of the same file.
    #[must_use]
    pub fn with(&self, more: impl IntoIterator<Item = Diagnostic>) -> Self {
        let mut all = Self::new(self.source.clone(), self.diagnostics.iter().cloned().chain(more));
        let kept = |severity| self.diagnostics.iter().filter(|kept| kept.severity == severity).count();
        all.errors += self.errors.saturating_sub(kept(Severity::Error));
        all.warnings += self.warnings.saturating_sub(kept(Severity::Warning));
        all.dropped += self.dropped;
        all
    }

    /// Sets the step path of each diagnostic from a map by step id.
    #[must_use]
    pub fn with_paths(mut self, paths: &HashMap<&str, Vec<&str>>) -> Self {
        for diagnostic in &mut self.diagnostics {
            let path =
                diagnostic.step.as_deref().and_then(|step| paths.get(step)).filter(|path| path.len() > 1);
            diagnostic.step_path = path.into_iter().flatten().map(|name| (*name).to_owned()).collect();
        }
        self
    }

    /// Removes the kept diagnostics with this code.
    #[must_use]
    pub fn without(self, code: &str) -> Self {
        self.retain(|diagnostic| diagnostic.code != code)
    }

    /// Removes the kept diagnostics for which `keep` returns false.
    #[must_use]
    pub fn retain(mut self, mut keep: impl FnMut(&Diagnostic) -> bool) -> Self {
        let (kept, removed): (Vec<_>, Vec<_>) =
            self.diagnostics.into_iter().partition(|diagnostic| keep(diagnostic));
        let count = |severity| removed.iter().filter(|diagnostic| diagnostic.severity == severity).count();
        self.errors = self.errors.saturating_sub(count(Severity::Error));
        self.warnings = self.warnings.saturating_sub(count(Severity::Warning));
        self.diagnostics = kept;
        self
    }

    /// True if the span of an error touches `span`. A further problem there may be a consequence of that error.
    #[must_use]
    pub fn has_error_at(&self, span: Span) -> bool {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).any(|error| {
            let (start, end) = (error.span.start.max(span.start), error.span.end.min(span.end));
            start < end || (start == end && (span.is_empty() || error.span.is_empty()))
        })
    }

    /// Creates a report from the kept diagnostics and the counts of all errors, warnings and hints.
    pub(super) fn counted(source: Arc<Source>, mut diagnostics: Vec<Diagnostic>, counts: [usize; 3]) -> Self {
        diagnostics.iter_mut().for_each(|diagnostic| clamp_spans(&source, diagnostic));
        diagnostics
            .sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.severity, diagnostic.span.end));
        let [errors, warnings, hints] = counts;
        let dropped = (errors + warnings + hints).saturating_sub(diagnostics.len());
        Report { source, diagnostics, errors, warnings, dropped }
    }

    /// Returns the file.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Returns the kept diagnostics, sorted by position.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// True if there are no diagnostics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// True if there are errors, so the file cannot be used.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Applies the corrections of errors and warnings, of overlapping ones the first. Returns the new text and the number of
    /// applied corrections; `None` if there are none.
    #[must_use]
    pub fn apply_fixes(&self) -> Option<(String, usize)> {
        let is_serious = |found: &&Diagnostic| found.severity != Severity::Hint;
        let serious = self.diagnostics.iter().filter(is_serious);
        let mut fixes: Vec<(Span, &str)> = serious.filter_map(render::correction).collect();
        fixes.sort_by_key(|(span, _)| *span);
        let original = self.source.text();
        let (mut text, mut end, mut applied) = (String::with_capacity(original.len()), 0, 0);
        for (span, replacement) in fixes {
            let range = span.range();
            // Two insertions at one place overlap too.
            if range.start < end || (applied > 0 && range.start == end && range.is_empty()) {
                continue;
            }
            let Some(before) = original.get(end..range.start) else { continue };
            text.push_str(before);
            text.push_str(replacement);
            (end, applied) = (range.end, applied + 1);
        }
        text.push_str(original.get(end..)?);
        (applied > 0).then_some((text, applied))
    }

    /// Returns the number of errors, including dropped ones.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// Returns the number of warnings, including dropped ones.
    #[must_use]
    pub fn warning_count(&self) -> usize {
        self.warnings
    }

    /// Returns the number of kept hints.
    #[must_use]
    pub fn hint_count(&self) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Hint).count()
    }

    /// Returns the number of diagnostics that were not kept.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Renders the diagnostics in the style of the Rust compiler, optionally with terminal colours. Empty if there are none.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let mut out = String::new();
        let masked = self.masked_source();
        for diagnostic in &self.diagnostics {
            out.push_str(&render::render(&masked, diagnostic, color));
            out.push_str("\n\n");
        }
        if self.dropped > 0 {
            let _ = writeln!(out, "{}: {} more problems are not shown\n", self.source.path(), self.dropped);
        }
        out
    }

    /// Returns the JSON forms of the diagnostics.
    #[must_use]
    pub fn entries(&self) -> Vec<DiagnosticEntry> {
        let masked = self.masked_source();
        self.diagnostics.iter().map(|diagnostic| self.entry(diagnostic, &masked)).collect()
    }

    /// Returns [`entries`](Self::entries) as a JSON array.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        // Entries hold only text and numbers, which always have a JSON form.
        serde_json::to_value(self.entries()).unwrap_or_default()
    }

    /// Renders one GitHub Actions workflow command per diagnostic.
    ///
    /// `folder` is the path of the project from the root of the repository; empty for the root.
    #[must_use]
    pub fn to_github(&self, folder: &str) -> String {
        let mut out = String::new();
        for entry in self.entries() {
            let level = match entry.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Hint => "notice",
            };
            let near = entry.nearest.as_ref().map(|near| format!("did you mean `{near}`?"));
            let message = [Some(entry.message.clone()), near, entry.help.clone()];
            let message = message.into_iter().flatten().collect::<Vec<_>>().join("; ");
            let file =
                if folder.is_empty() { entry.file.clone() } else { format!("{folder}/{}", entry.file) };
            // GitHub accepts columns only for a span within one line.
            let columns = if entry.line == entry.end_line {
                format!("col={},endColumn={},", entry.column, entry.end_column)
            } else {
                String::new()
            };
            let _ = writeln!(
                out,
                "::{level} file={},line={},endLine={},{columns}title={}::{}",
                escape_property(&file),
                entry.line,
                entry.end_line,
                escape_property(&entry.code),
                escape_data(&message),
            );
        }
        out
    }

    /// Returns the file with concealed spans replaced by as many `*` bytes.
    fn masked_source(&self) -> Arc<Source> {
        let concealed: Vec<Span> =
            self.diagnostics.iter().filter(|it| it.concealed).map(|it| it.span).collect();
        if concealed.is_empty() {
            return self.source.clone();
        }
        let is_concealed = |at: usize| concealed.iter().any(|span| span.range().contains(&at));
        let text = self.source.text().char_indices().map(|(at, c)| {
            let hidden = is_concealed(at) && !matches!(c, '\n' | '\r');
            if hidden { "*".repeat(c.len_utf8()) } else { c.to_string() }
        });
        Arc::new(Source::new(self.source.path(), text.collect::<String>()))
    }

    fn entry(&self, diagnostic: &Diagnostic, masked: &Source) -> DiagnosticEntry {
        let [line, column, end_line, end_column] = self.bounds(diagnostic.span);
        DiagnosticEntry {
            file: self.source.path().to_owned(),
            line,
            column,
            end_line,
            end_column,
            severity: diagnostic.severity,
            code: diagnostic.code.to_owned(),
            message: diagnostic.message.clone(),
            help: diagnostic.help.clone(),
            allowed: diagnostic.allowed.clone(),
            nearest: diagnostic.nearest.clone(),
            step: diagnostic.step.clone(),
            step_path: diagnostic.step_path.to_vec(),
            snippet: snippet(masked, line, column),
            fix: render::correction(diagnostic).map(|(span, text)| {
                let [line, column, end_line, end_column] = self.bounds(span);
                Fix { line, column, end_line, end_column, text: text.to_owned() }
            }),
        }
    }

    fn bounds(&self, span: Span) -> [usize; 4] {
        let span = self.source.clamp(span);
        let (start, end) =
            (self.source.position(span.start as usize), self.source.position(span.end as usize));
        [start.line, start.column, end.line, end.column]
    }
}

/// Clamps the spans of a diagnostic to its file: a parser may report one past the end.
fn clamp_spans(source: &Source, diagnostic: &mut Diagnostic) {
    diagnostic.span = source.clamp(diagnostic.span);
    diagnostic.related.iter_mut().for_each(|(span, _)| *span = source.clamp(*span));
    if let Some(replacement) = &mut diagnostic.replacement {
        replacement.span = source.clamp(replacement.span);
    }
}

/// Returns at most [`MAX_SNIPPET`] characters of a line, around a column.
fn snippet(source: &Source, line: usize, column: usize) -> String {
    let text = source.line(line).unwrap_or_default();
    let skipped = if column > MAX_SNIPPET { column - MAX_SNIPPET / 2 } else { 0 };
    text.chars().skip(skipped).take(MAX_SNIPPET).collect()
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let source = Source::new("automations/order.yaml", "name: x\nstepz:\n  - id: 1\n");
        let unknown =
            Diagnostic::error("unknown-key", "unknown key `stepz` in an automation", Span::new(8, 13))
                .label("not a key of an automation")
                .expected_names("stepz", ["name", "trigger", "steps"]);
        let early =
            Diagnostic::warning("short-name", "100% short,\nreally", Span::new(6, 7)).help("say more");
        Report::new(source, [unknown, early])
    }

    #[test]
    fn diagnostics_are_sorted_by_position() {
        let codes: Vec<_> = report().diagnostics().iter().map(|d| d.code).collect();
        assert_eq!(codes, ["short-name", "unknown-key"]);
        assert_eq!((report().error_count(), report().warning_count()), (1, 1));
    }

    #[test]
    fn further_diagnostics_are_sorted_in_and_counts_are_kept() {
        let flood = (0..300).map(|_| Diagnostic::warning("flood", "again", Span::at(0)));
        let first = Report::new(Source::new("a.yaml", "a: 1\n"), flood);
        let both = first.with([Diagnostic::error("grave", "really wrong", Span::new(0, 1))]);
        assert_eq!((both.error_count(), both.warning_count(), both.dropped()), (1, 300, 101));
        assert_eq!(both.diagnostics().first().map(|first| first.code), Some("grave"));
        let rest = both.without("flood");
        assert_eq!((rest.error_count(), rest.warning_count(), rest.dropped()), (1, 101, 101));
    }

    #[test]
    fn an_error_is_found_at_every_span_it_overlaps() {
        let report = report();
        let has_error = |start, end| report.has_error_at(Span::new(start, end));
        assert!(has_error(8, 13) && has_error(0, 9) && has_error(12, 20) && has_error(8, 8));
        // Next to the error, and at a warning.
        assert!(!has_error(13, 14) && !has_error(0, 8) && !has_error(6, 7));
    }

    #[test]
    fn the_json_form_has_position_names_and_fix() {
        let json = serde_json::to_string_pretty(&report().to_json()[1]).unwrap_or_default();
        insta::assert_snapshot!(json, @r#"
        {
          "file": "automations/order.yaml",
          "line": 2,
          "column": 1,
          "endLine": 2,
          "endColumn": 6,
          "severity": "error",
          "code": "unknown-key",
          "message": "unknown key `stepz` in an automation",
          "help": null,
          "allowed": [
            "name",
            "trigger",
            "steps"
          ],
          "nearest": "steps",
          "step": null,
          "snippet": "stepz:",
          "fix": {
            "line": 2,
            "column": 1,
            "endLine": 2,
            "endColumn": 6,
            "text": "steps"
          }
        }
        "#);
    }

    #[test]
    fn github_annotations_are_one_escaped_line_per_diagnostic() {
        insta::assert_snapshot!(report().to_github(""), @r#"
        ::warning file=automations/order.yaml,line=1,endLine=1,col=7,endColumn=8,title=short-name::100%25 short,%0Areally; say more
        ::error file=automations/order.yaml,line=2,endLine=2,col=1,endColumn=6,title=unknown-key::unknown key `stepz` in an automation; did you mean `steps`?
        "#);
    }

    #[test]
    fn github_annotations_name_files_relative_to_the_repository_root() {
        let over_lines = Diagnostic::error("x", "a: b, c::d", Span::new(5, 10));
        let report = Report::new(Source::new("50%,a:b.yaml", "name: x\nstepz: 1\n"), [over_lines]);
        assert_eq!(
            report.to_github("ops/flows"),
            "::error file=ops/flows/50%25%2Ca%3Ab.yaml,line=1,endLine=2,title=x::a: b, c::d\n"
        );
    }

    #[test]
    fn a_concealed_span_is_masked_in_every_output() {
        let source = Source::new("a.yaml", "token: \"hémlich\" # x\n");
        let hidden = Diagnostic::warning("literal-credential", "a credential", Span::new(8, 16)).concealed();
        let other = Diagnostic::error("other", "the comment", Span::new(18, 21));
        let report = Report::new(source, [hidden, other]);
        let all = format!("{}{}{}", report.render(true), report.to_json(), report.to_github(""));
        assert!(!all.contains("mlich"), "{all}");
        assert!(report.entries()[0].snippet.ends_with("\" # x"), "{all}");
    }

    #[test]
    fn diagnostics_are_rendered_in_the_style_of_rustc() {
        insta::assert_snapshot!(report().render(false), @r#"
        warning[short-name]: 100% short,\nreally
         --> automations/order.yaml:1:7
          |
        1 | name: x
          |       ^
          |
          = help: say more

        error[unknown-key]: unknown key `stepz` in an automation
         --> automations/order.yaml:2:1
          |
        2 | stepz:
          | ^^^^^ not a key of an automation
          |
          = note: allowed: `name`, `trigger`, `steps`
        help: did you mean `steps`?
          |
        2 - stepz:
        2 + steps:
          |
        "#);
        assert!(report().render(true).contains('\u{1b}'));
    }
}
