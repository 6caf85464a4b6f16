//! All problems of one file, ready to be shown.

use super::{Diagnostic, Diagnostics, Severity, Source, Span, render};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Longest piece of a line that an [`DiagnosticEntry`] quotes, in characters.
const MAX_SNIPPET: usize = 240;

/// The problems of one file, in the order of their places.
#[derive(Debug, Clone)]
pub struct Report {
    source: Arc<Source>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    dropped: usize,
}

/// One problem as a program reads it. Lines and columns count from 1, columns in characters, ends are exclusive.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosticEntry {
    /// The file's name.
    pub file: String,
    /// Line of the place that is wrong.
    pub line: usize,
    /// Column of the place that is wrong.
    pub column: usize,
    /// Line of its end.
    pub end_line: usize,
    /// Column after its last character.
    pub end_column: usize,
    /// How grave it is.
    pub severity: Severity,
    /// Stable name of the kind of problem.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// The way out.
    pub help: Option<String>,
    /// What would have been right there.
    pub allowed: Vec<String>,
    /// The right name closest to the one found.
    pub nearest: Option<String>,
    /// The step that it is in.
    pub step: Option<String>,
    /// The way to that step where others are around it, itself last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step_path: Vec<String>,
    /// The line of the place, shortened.
    pub snippet: String,
    /// A correction that can be applied as it is.
    pub fix: Option<Fix>,
}

/// A correction: `text` in the place of a stretch of the file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// Line of the stretch.
    pub line: usize,
    /// Column of the stretch.
    pub column: usize,
    /// Line of its end.
    pub end_line: usize,
    /// Column after its last character.
    pub end_column: usize,
    /// What to write there.
    pub text: String,
}

impl Report {
    /// A report over diagnostics made elsewhere; the rules of [`Diagnostics`] apply.
    #[must_use]
    pub fn new(source: impl Into<Arc<Source>>, diagnostics: impl IntoIterator<Item = Diagnostic>) -> Self {
        let collector = Diagnostics::new(source);
        diagnostics.into_iter().for_each(|diagnostic| collector.push(diagnostic));
        collector.into_report()
    }

    /// This report with more about the same file.
    #[must_use]
    pub fn with(&self, more: impl IntoIterator<Item = Diagnostic>) -> Self {
        let mut all = Self::new(self.source.clone(), self.diagnostics.iter().cloned().chain(more));
        let kept = |severity| self.diagnostics.iter().filter(|kept| kept.severity == severity).count();
        all.errors += self.errors.saturating_sub(kept(Severity::Error));
        all.warnings += self.warnings.saturating_sub(kept(Severity::Warning));
        all.dropped += self.dropped;
        all
    }

    /// The report with the way to the step of each problem, by the step's id.
    #[must_use]
    pub fn with_paths(mut self, paths: &HashMap<&str, Vec<&str>>) -> Self {
        for diagnostic in &mut self.diagnostics {
            let path =
                diagnostic.step.as_deref().and_then(|step| paths.get(step)).filter(|path| path.len() > 1);
            diagnostic.step_path = path.into_iter().flatten().map(|name| (*name).to_owned()).collect();
        }
        self
    }

    /// The report without the problems of one kind, as far as they were kept.
    #[must_use]
    pub fn without(self, code: &str) -> Self {
        self.retain(|told| told.code != code)
    }

    /// The report with those problems alone of which `keep` holds, as far as they were kept.
    #[must_use]
    pub fn retain(mut self, mut keep: impl FnMut(&Diagnostic) -> bool) -> Self {
        let (kept, taken): (Vec<_>, Vec<_>) = self.diagnostics.into_iter().partition(|told| keep(told));
        let count = |severity| taken.iter().filter(|told| told.severity == severity).count();
        self.errors = self.errors.saturating_sub(count(Severity::Error));
        self.warnings = self.warnings.saturating_sub(count(Severity::Warning));
        self.diagnostics = kept;
        self
    }

    /// Whether an error was told whose place touches this one, so that what else is wrong there may follow from it.
    #[must_use]
    pub fn has_error_at(&self, span: Span) -> bool {
        self.diagnostics.iter().filter(|told| told.severity == Severity::Error).any(|told| {
            let (start, end) = (told.span.start.max(span.start), told.span.end.min(span.end));
            start < end || (start == end && (span.is_empty() || told.span.is_empty()))
        })
    }

    /// `counts` are of all errors, warnings and hints, whether kept or not.
    pub(super) fn counted(source: Arc<Source>, mut diagnostics: Vec<Diagnostic>, counts: [usize; 3]) -> Self {
        diagnostics.iter_mut().for_each(|diagnostic| within(&source, diagnostic));
        diagnostics
            .sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.severity, diagnostic.span.end));
        let [errors, warnings, hints] = counts;
        let dropped = (errors + warnings + hints).saturating_sub(diagnostics.len());
        Report { source, diagnostics, errors, warnings, dropped }
    }

    /// The file.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The problems kept, in the order of their places.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Whether nothing at all was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Whether the file cannot be used.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors, those not kept included.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// Number of warnings, those not kept included.
    #[must_use]
    pub fn warning_count(&self) -> usize {
        self.warnings
    }

    /// Number of hints that were kept.
    #[must_use]
    pub fn hint_count(&self) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Hint).count()
    }

    /// Number of problems that were found but not kept.
    #[must_use]
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// The problems as a person reads them, in the look of the Rust compiler, with terminal colours if asked.
    /// Empty when there are none.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let mut out = String::new();
        let shown = self.shown();
        for diagnostic in &self.diagnostics {
            out.push_str(&render::render(&shown, diagnostic, color));
            out.push_str("\n\n");
        }
        if self.dropped > 0 {
            let _ = writeln!(out, "{}: {} more problems are not shown\n", self.source.path(), self.dropped);
        }
        out
    }

    /// The problems as a program reads them.
    #[must_use]
    pub fn entries(&self) -> Vec<DiagnosticEntry> {
        let shown = self.shown();
        self.diagnostics.iter().map(|diagnostic| self.entry(diagnostic, &shown)).collect()
    }

    /// [`entries`](Self::entries) as a JSON list.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        // Entries hold only text and numbers, which always have a JSON form.
        serde_json::to_value(self.entries()).unwrap_or_default()
    }

    /// One workflow command a problem, as GitHub Actions reads them from a build log. `folder` is where the files are, seen
    /// from the top of the repository; empty for the top itself.
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
            // Columns are taken only within one line.
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

    /// The file as it may be shown: with `*` for what is concealed, in as many bytes.
    fn shown(&self) -> Arc<Source> {
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

    fn entry(&self, diagnostic: &Diagnostic, shown: &Source) -> DiagnosticEntry {
        let [line, column, end_line, end_column] = self.corners(diagnostic.span);
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
            snippet: snippet(shown, line, column),
            fix: render::correction(diagnostic).map(|(span, text)| {
                let [line, column, end_line, end_column] = self.corners(span);
                Fix { line, column, end_line, end_column, text: text.to_owned() }
            }),
        }
    }

    fn corners(&self, span: Span) -> [usize; 4] {
        let span = self.source.clamp(span);
        let (start, end) =
            (self.source.position(span.start as usize), self.source.position(span.end as usize));
        [start.line, start.column, end.line, end.column]
    }
}

/// Moves the places of a diagnostic into its file: a parser may name one behind the end, where something is missing.
fn within(source: &Source, diagnostic: &mut Diagnostic) {
    diagnostic.span = source.clamp(diagnostic.span);
    diagnostic.related.iter_mut().for_each(|(span, _)| *span = source.clamp(*span));
    if let Some(replacement) = &mut diagnostic.replacement {
        replacement.span = source.clamp(replacement.span);
    }
}

/// The line around a column, at most [`MAX_SNIPPET`] characters of it.
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
    fn problems_come_in_the_order_of_their_places() {
        let codes: Vec<_> = report().diagnostics().iter().map(|d| d.code).collect();
        assert_eq!(codes, ["short-name", "unknown-key"]);
        assert_eq!((report().error_count(), report().warning_count()), (1, 1));
    }

    #[test]
    fn more_about_a_file_is_sorted_in_and_nothing_counted_is_lost() {
        let flood = (0..300).map(|_| Diagnostic::warning("flood", "again", Span::at(0)));
        let first = Report::new(Source::new("a.yaml", "a: 1\n"), flood);
        let both = first.with([Diagnostic::error("grave", "really wrong", Span::new(0, 1))]);
        assert_eq!((both.error_count(), both.warning_count(), both.dropped()), (1, 300, 101));
        assert_eq!(both.diagnostics().first().map(|first| first.code), Some("grave"));
        let rest = both.without("flood");
        assert_eq!((rest.error_count(), rest.warning_count(), rest.dropped()), (1, 101, 101));
    }

    #[test]
    fn an_error_is_told_at_every_place_that_it_touches() {
        let report = report();
        let told = |start, end| report.has_error_at(Span::new(start, end));
        assert!(told(8, 13) && told(0, 9) && told(12, 20) && told(8, 8));
        // Beside it, and where there is only a warning.
        assert!(!told(13, 14) && !told(0, 8) && !told(6, 7));
    }

    #[test]
    fn a_program_reads_place_names_and_correction() {
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
    fn a_build_log_gets_one_escaped_line_a_problem() {
        insta::assert_snapshot!(report().to_github(""), @r#"
        ::warning file=automations/order.yaml,line=1,endLine=1,col=7,endColumn=8,title=short-name::100%25 short,%0Areally; say more
        ::error file=automations/order.yaml,line=2,endLine=2,col=1,endColumn=6,title=unknown-key::unknown key `stepz` in an automation; did you mean `steps`?
        "#);
    }

    #[test]
    fn a_build_log_names_the_file_from_the_top_of_the_repository() {
        let over_lines = Diagnostic::error("x", "a: b, c::d", Span::new(5, 10));
        let report = Report::new(Source::new("50%,a:b.yaml", "name: x\nstepz: 1\n"), [over_lines]);
        assert_eq!(
            report.to_github("ops/flows"),
            "::error file=ops/flows/50%25%2Ca%3Ab.yaml,line=1,endLine=2,title=x::a: b, c::d\n"
        );
    }

    #[test]
    fn what_is_concealed_is_shown_to_nobody_whatever_is_told_of_its_line() {
        let source = Source::new("a.yaml", "token: \"hémlich\" # x\n");
        let hidden = Diagnostic::warning("literal-credential", "a credential", Span::new(8, 16)).concealed();
        let other = Diagnostic::error("other", "the comment", Span::new(18, 21));
        let report = Report::new(source, [hidden, other]);
        let all = format!("{}{}{}", report.render(true), report.to_json(), report.to_github(""));
        assert!(!all.contains("mlich"), "{all}");
        assert!(report.entries()[0].snippet.ends_with("\" # x"), "{all}");
    }

    #[test]
    fn a_person_reads_it_as_from_the_compiler() {
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
