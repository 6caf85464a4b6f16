//! Renders diagnostics in the style of the Rust compiler, with `annotate-snippets`.
//!
//! That crate panics on a span outside its text or inside a character, and reads the whole text for each diagnostic.
//! Therefore every span is clamped first, and the crate gets only the lines to show.

use super::{Diagnostic, Severity, Source, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use std::borrow::Cow;

/// The maximum number of allowed names shown; further ones are only counted.
const MAX_ALLOWED: usize = 40;
/// The maximum number of allowed names shown together with a suggested one.
const MAX_ALLOWED_WITH_SUGGESTION: usize = 32;
/// The maximum distance, in lines, at which a related span is shown with its text.
const MAX_DISTANCE: usize = 2_000;
/// The maximum length of a window, in bytes; longer ones are shown in part.
const MAX_LINE: usize = 2_000;

/// Returns the correction: the explicit one, otherwise the replacement by the nearest name.
pub(super) fn correction(diagnostic: &Diagnostic) -> Option<(Span, &str)> {
    match (&diagnostic.replacement, &diagnostic.nearest) {
        (Some(replacement), _) => Some((replacement.span, &replacement.text)),
        (None, Some(name)) => Some((diagnostic.span, name)),
        (None, None) => None,
    }
}

pub(super) fn render(source: &Source, diagnostic: &Diagnostic, color: bool) -> String {
    let window = Window::for_diagnostic(source, diagnostic);
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Hint => Level::NOTE.with_name("hint"),
    };
    let mut primary = AnnotationKind::Primary.span(window.range(source, diagnostic.span));
    if let Some(label) = &diagnostic.label {
        primary = primary.label(printable(label));
    }
    let mut snippet = window.snippet(source).annotation(primary);
    let mut notes = Vec::new();
    for (span, label) in &diagnostic.related {
        if window.shows(source, *span) {
            let range = window.range(source, *span);
            snippet = snippet.annotation(AnnotationKind::Context.span(range).label(printable(label)));
        } else {
            notes.push(Level::NOTE.message(format!("line {}: {}", line_of(source, *span), printable(label))));
        }
    }
    if let Some(step) = &diagnostic.step {
        let path = diagnostic.step_path.join(" › ");
        let step = if path.is_empty() { step } else { &path };
        notes.push(Level::NOTE.message(format!("in step `{}`", printable(step))));
    }
    if !diagnostic.allowed.is_empty() {
        let max = if diagnostic.nearest.is_some() { MAX_ALLOWED_WITH_SUGGESTION } else { MAX_ALLOWED };
        notes.push(
            Level::NOTE.message(format!("allowed: {}", printable(&list_allowed(&diagnostic.allowed, max)))),
        );
    }
    if let Some(help) = &diagnostic.help {
        notes.push(Level::HELP.message(printable(help)));
    }
    let main = level
        .primary_title(printable(&diagnostic.message))
        .id(diagnostic.code)
        .element(snippet)
        .elements(notes);
    let mut groups = vec![main];
    groups.extend(patch(source, diagnostic));
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&groups)
}

/// Creates a patch of the correction; `None` if it does not fit on one line of the window.
fn patch<'a>(source: &'a Source, diagnostic: &'a Diagnostic) -> Option<Group<'a>> {
    let (span, text) = correction(diagnostic)?;
    let span = source.clamp(span);
    let window = Window::lines(source, line_of(source, span), line_of(source, Span::at(span.end as usize)));
    if text.contains(['\n', '\r']) || source.slice(span).contains(['\n', '\r']) || !window.shows(source, span)
    {
        return None;
    }
    let range = window.range(source, span);
    if window.text(source).get(range.clone()) != Some(source.slice(span)) {
        return None;
    }
    let title = match &diagnostic.nearest {
        Some(name) if diagnostic.replacement.is_none() => format!("did you mean `{}`?", printable(name)),
        _ => "write it like this".to_owned(),
    };
    let patch = Patch::new(range, printable(text));
    Some(Level::HELP.secondary_title(title).element(window.snippet(source).patch(patch)))
}

fn list_allowed(names: &[String], max: usize) -> String {
    let shown: Vec<String> = names.iter().take(max).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(max) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn line_of(source: &Source, span: Span) -> usize {
    source.position(span.start as usize).line
}

/// The lines of a file that a diagnostic shows.
struct Window {
    first_line: usize,
    span: Span,
}

impl Window {
    fn for_diagnostic(source: &Source, diagnostic: &Diagnostic) -> Window {
        let line = line_of(source, diagnostic.span);
        let near = diagnostic.related.iter().map(|(span, _)| line_of(source, *span));
        let near: Vec<usize> = near.filter(|other| other.abs_diff(line) <= MAX_DISTANCE).collect();
        let first = near.iter().copied().fold(line, usize::min);
        let last = near.iter().copied().fold(line, usize::max);
        let window = Window::lines(source, first, last);
        if window.span.len() <= MAX_LINE { window } else { Window::single_line(source, diagnostic.span) }
    }

    fn lines(source: &Source, first: usize, last: usize) -> Window {
        let start = source.line_span(first).unwrap_or_default();
        Window { first_line: first, span: start.cover(source.line_span(last).unwrap_or(start)) }
    }

    /// Creates a window of the span's first line; a very long line ends shortly after the span.
    fn single_line(source: &Source, span: Span) -> Window {
        let line = line_of(source, span);
        let window = Window::lines(source, line, line);
        if window.span.len() <= MAX_LINE {
            return window;
        }
        // Starts at the start of the line, so that the shown column is right.
        let end = (span.end as usize).min(window.span.end as usize).max(span.start as usize) + 200;
        let end = source.clamp(Span::at(end.min(window.span.end as usize)));
        Window { first_line: line, span: Span::new(window.span.start as usize, end.start as usize) }
    }

    fn text<'a>(&self, source: &'a Source) -> &'a str {
        source.slice(self.span)
    }

    fn snippet<'a, T: Clone>(&self, source: &'a Source) -> Snippet<'a, T> {
        let text = self.text(source);
        Snippet::source(text).line_start(self.first_line).path(printable(source.path()))
    }

    fn shows(&self, source: &Source, span: Span) -> bool {
        let span = source.clamp(span);
        self.span.start <= span.start && span.end <= self.span.end
    }

    /// Returns the span as offsets into the window's text, truncated to its first line.
    fn range(&self, source: &Source, span: Span) -> std::ops::Range<usize> {
        let base = self.span.start as usize;
        let text = self.text(source);
        let span = source.clamp(span);
        let start = text.floor_char_boundary((span.start as usize).saturating_sub(base));
        let end = text.ceil_char_boundary((span.end as usize).saturating_sub(base)).max(start);
        let end = text[start..end].find(['\n', '\r']).map_or(end, |line_break| start + line_break);
        start..end
    }
}

/// Escapes control and bidirectional formatting characters, so that a file cannot send escape sequences to the terminal or
/// disguise its text.
fn printable(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.chars().any(hidden) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if hidden(c) { c.escape_default().collect::<String>() } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Report;
    use proptest::prelude::*;

    fn any_span() -> impl Strategy<Value = Span> {
        (0usize..120, 0usize..120).prop_map(|(start, end)| Span::new(start, end))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_span_or_text_makes_the_renderer_panic(
            text in prop_oneof!["[ -~\n\r\t]{0,60}", "\\PC{0,30}", "(?s).{0,30}", "[a\u{feff}\u{200b}日\u{301}\u{1b}\u{0}\n]{0,20}"],
            span in any_span(),
            related in proptest::collection::vec(any_span(), 0..3),
            replaced in any_span(),
            words in "(?s).{0,12}",
            color: bool,
        ) {
            let mut diagnostic = Diagnostic::error("any-code", words.as_str(), span)
                .label(words.as_str())
                .help(words.as_str())
                .allowed([words.as_str()])
                .step(words.as_str())
                .replace(replaced, words.as_str());
            for other in related {
                diagnostic = diagnostic.related(other, words.as_str());
            }
            let report = Report::new(Source::new(words, text), [diagnostic.clone()]);
            prop_assert!(report.render(color).contains("any-code"));
            let escapes = report.render(false).contains('\u{1b}');
            prop_assert!(!escapes);
            diagnostic.replacement = None;
            diagnostic.nearest = Some(String::from("near"));
            let report = Report::new(report.source().clone(), [diagnostic]);
            prop_assert!(report.render(color).contains("any-code"));
            prop_assert_eq!(report.entries().len(), 1);
            prop_assert_eq!(report.to_github("").lines().count(), 1);
        }
    }

    #[test]
    fn a_very_long_line_is_truncated_but_keeps_its_column() {
        let text = format!("{}wrong{}", "a".repeat(100_000), "b".repeat(100_000));
        let report = Report::new(
            Source::new("long.yaml", text),
            [Diagnostic::error("x", "wrong here", Span::new(100_000, 100_005))],
        );
        let shown = report.render(false);
        assert!(shown.contains("long.yaml:1:100001"), "{shown}");
        assert!(shown.len() < 2_000, "{}", shown.len());
        assert!(report.entries()[0].snippet.contains("wrong"));
    }

    #[test]
    fn a_distant_related_span_is_shown_as_a_line_number() {
        let text = format!("a: 1\n{}a: 2\n", "# filler\n".repeat(3_000));
        let second = text.len() - 5;
        let report = Report::new(
            Source::new("far.yaml", text),
            [Diagnostic::error("x", "twice", Span::new(second, second + 1))
                .related(Span::new(0, 1), "first here")],
        );
        assert!(report.render(false).contains("line 1: first here"), "{}", report.render(false));
    }
}
