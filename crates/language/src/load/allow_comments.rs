//! Warnings that an author suppresses in place: `# cogwork: allow(no-retry)` after a line, or on the line above it.
//!
//! A comment covers the problems that begin on its line; if a multi-line text begins there, the whole text. Errors cannot
//! be suppressed. A comment without effect is reported as `unused-allow`.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use text::diagnostic::{Diagnostic, Diagnostics, Report, Severity, Source, Span, nearest};
use text::yaml::{Kind, Node, parse};

use super::codes::{ALLOWED_ERROR_CODES, CHECK_WARNING_CODES, CODES};

/// The code of warnings about comments that suppress nothing.
const CODE: &str = "unused-allow";
/// The prefix of these comments.
const MARK: &str = "cogwork:";
/// The maximum number of comments of a file that are read.
const MOST: usize = 1000;
/// Warnings that depend on the machine: their absence does not make the comment unused.
const OF_MACHINE: [&str; 1] = ["missing-secret"];

/// One code of a comment.
struct Allowed<'s> {
    code: &'s str,
    span: Span,
    /// The lines that it covers.
    lines: RangeInclusive<usize>,
}

/// Removes the warnings and hints that comments of the file suppress, and reports comments that suppress nothing. Call once,
/// when all diagnostics of the file are known.
#[must_use]
pub fn apply_allow_comments(report: Report) -> Report {
    let source = report.source().clone();
    if !source.text().contains(MARK) {
        return report;
    }
    let (allowed, mut found) = read(&source);
    let line = |diagnostic: &Diagnostic| source.position(diagnostic.span.start as usize).line;
    let mut used = HashSet::new();
    let rest_of_report = report.retain(|diagnostic| {
        let at = line(diagnostic);
        let hits = allowed
            .iter()
            .enumerate()
            .filter(|(_, allowed)| allowed.code == diagnostic.code && allowed.lines.contains(&at));
        let mut is_off = false;
        for (index, allowed) in hits {
            let can_be_off = can_be_off(diagnostic);
            if used.insert(index) && !can_be_off {
                let message = format!("`{}` is an error here, which cannot be switched off", allowed.code);
                found.push(
                    Diagnostic::warning(CODE, message, allowed.span)
                        .help("correct it, and remove the comment"),
                );
            }
            is_off |= can_be_off;
        }
        !is_off
    });
    let has_errors = rest_of_report.has_errors();
    // Warnings that are absent from a file with errors may appear once the errors are corrected.
    let rest = allowed.iter().enumerate().filter(|(index, _)| !used.contains(index));
    found.extend(rest.filter_map(|(_, allowed)| unused(allowed, has_errors)));
    if found.is_empty() { rest_of_report } else { rest_of_report.with(found) }
}

/// Like [`apply_allow_comments`] for separate diagnostics: returns the unsuppressed ones.
#[must_use]
pub fn filter_allowed(source: &Source, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    if found.is_empty() || !source.text().contains(MARK) {
        return found;
    }
    let (allowed, _) = read(source);
    let is_off = |diagnostic: &Diagnostic| {
        let line = source.position(diagnostic.span.start as usize).line;
        let hits = |allowed: &Allowed<'_>| allowed.code == diagnostic.code && allowed.lines.contains(&line);
        can_be_off(diagnostic) && allowed.iter().any(hits)
    };
    found.into_iter().filter(|diagnostic| !is_off(diagnostic)).collect()
}

/// True if a comment may switch the diagnostic off.
fn can_be_off(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity != Severity::Error || ALLOWED_ERROR_CODES.contains(&diagnostic.code)
}

fn unused(allowed: &Allowed<'_>, has_errors: bool) -> Option<Diagnostic> {
    let others = || CHECK_WARNING_CODES.iter().chain(ALLOWED_ERROR_CODES).copied();
    let names = || CODES.iter().map(|(code, _)| *code).chain(others());
    if !names().any(|name| name == allowed.code) {
        let message = format!("there is no warning `{}` to switch off", allowed.code);
        return Some(match nearest(allowed.code, names()) {
            Some(near) => Diagnostic::warning(CODE, message, allowed.span).nearest(Some(near)),
            None => Diagnostic::warning(CODE, message, allowed.span)
                .help("the name of a warning stands in brackets behind its first word: `warning[no-retry]`"),
        });
    }
    if has_errors || OF_MACHINE.contains(&allowed.code) {
        return None;
    }
    let message = format!("there is no `{}` on this line to switch off", allowed.code);
    Some(
        Diagnostic::warning(CODE, message, allowed.span)
            .help("remove the comment, or put it on the line that is told of, or on the line above it"),
    )
}

/// Reads the codes that the comments of a file name, and diagnostics of malformed comments.
fn read(source: &Source) -> (Vec<Allowed<'_>>, Vec<Diagnostic>) {
    let text = source.text();
    let syntax = Diagnostics::new(Source::new(source.path(), text));
    let tree = parse(&syntax);
    let mut texts = Texts::default();
    tree.iter().for_each(|node| texts.collect(node, node.span));
    let (mut allowed, mut found) = (Vec::new(), Vec::new());
    for (at, _) in text.match_indices(MARK).take(MOST) {
        let start = text[..at].rfind('\n').map_or(0, |line_break| line_break + 1);
        let before = text[start..at].trim_end_matches([' ', '\t']);
        let Some(hash) = before.strip_suffix('#').map(|before| start + before.len()) else { continue };
        let begins = text[..hash].chars().next_back().is_none_or(char::is_whitespace);
        if !begins || texts.places.iter().any(|text| text.range().contains(&hash)) {
            continue;
        }
        let line = source.position(at).line;
        let stands_alone = text[start..hash].trim().is_empty();
        let line = if stands_alone { next_line(source, line) } else { line };
        let lines = line..=texts.last_line(source, line);
        let rest = text[at + MARK.len()..].lines().next().unwrap_or_default();
        match codes(rest) {
            Some(codes) => allowed.extend(codes.into_iter().map(|(offset, code)| {
                let from = at + MARK.len() + offset;
                Allowed { code, span: Span::new(from, from + code.len()), lines: lines.clone() }
            })),
            None => {
                let message = "this comment cannot be read, so it switches nothing off";
                let span = Span::new(hash, at + MARK.len() + rest.trim_end().len());
                found.push(
                    Diagnostic::warning(CODE, message, span)
                        .help("write `# cogwork: allow(no-retry)`, with the name of the warning"),
                );
            }
        }
    }
    (allowed, found)
}

/// The codes in `allow(a, b)`, each with its offset.
fn codes(text: &str) -> Option<Vec<(usize, &str)>> {
    let list = text.trim_start().strip_prefix("allow")?.trim_start().strip_prefix('(')?;
    let list = &list[..list.find(')')?];
    let place = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let codes: Vec<_> = list.split(',').map(str::trim).map(|code| (place(code), code)).collect();
    codes.iter().all(|(_, code)| !code.is_empty()).then_some(codes)
}

/// The next line that is neither blank nor a comment.
fn next_line(source: &Source, line: usize) -> usize {
    let lines = source.text().lines().enumerate().skip(line);
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    lines.map(|(index, text)| (index + 1, text)).find(|(_, text)| is_content(text)).map_or(line, |(at, _)| at)
}

/// The spans of the texts of a tree.
#[derive(Default)]
struct Texts {
    /// The texts without their keys, and the keys.
    places: Vec<Span>,
    /// The texts with their keys, since the text of a block scalar begins on the line after its key.
    with_keys: Vec<Span>,
}

impl Texts {
    /// `whole` is the node with its key.
    fn collect(&mut self, node: &Node, whole: Span) {
        match &node.kind {
            Kind::List(items) => items.iter().for_each(|item| self.collect(item, item.span)),
            Kind::Map(map) => {
                for entry in map {
                    self.places.push(entry.key_span);
                    self.collect(&entry.value, entry.key_span.cover(entry.value.span));
                }
            }
            Kind::String(_) => {
                self.places.push(node.span);
                self.with_keys.push(whole);
            }
            _ => {}
        }
    }

    /// The last line of the texts that begin on a line.
    fn last_line(&self, source: &Source, line: usize) -> usize {
        let here = self.with_keys.iter().filter(|text| source.position(text.start as usize).line == line);
        // The end of a block scalar may be the indentation of the next line.
        let end = |text: &Span| {
            let length = source.slice(*text).trim_end().len();
            source.position((text.start as usize + length).saturating_sub(1)).line
        };
        here.map(end).max().unwrap_or(line).max(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Compares an automation's report after suppression: the code of each problem, with its line.
    fn check(steps: &str, expected: &[&str]) {
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n{steps}");
        let source = Arc::new(Source::new("a.yaml", text.as_str()));
        let report = apply_allow_comments(crate::load::automation(source.clone(), "a").report);
        let told = report.diagnostics().iter();
        let told: Vec<String> = told
            .map(|told| format!("{} {}", told.code, source.position(told.span.start as usize).line))
            .collect();
        assert_eq!(told, expected, "\n{text}\n{}", report.render(false));
    }

    #[test]
    fn an_allow_comment_on_or_above_a_line_suppresses_a_warning() {
        let braces = "  - set: {_a: '{{ x }}'}";
        check(&format!("{braces}\n"), &["braces-without-dollar 3"]);
        check(&format!("{braces} # cogwork: allow(braces-without-dollar)\n"), &[]);
        check(
            &format!("  # cogwork: allow(braces-without-dollar): a template\n  # of theirs\n\n{braces}\n"),
            &[],
        );
        check(
            "  # cogwork: allow(yaml-surprise, braces-without-dollar)\n  - set: {_a: '{{ x }}', _b: yes}\n",
            &[],
        );
    }

    #[test]
    fn an_allow_comment_covers_only_its_own_line() {
        let two =
            "  - set: {_a: '{{ x }}'} # cogwork: allow(braces-without-dollar)\n  - set: {_a: '{{ x }}'}\n";
        check(two, &["braces-without-dollar 4"]);
    }

    #[test]
    fn an_allow_comment_above_a_multiline_text_covers_all_of_it() {
        let block = "  - set:\n      # cogwork: allow(braces-without-dollar)\n      _a: |\n        one\n        {{ x }}\n  - set: {_b: '{{ x }}'}\n";
        check(block, &["braces-without-dollar 8"]);
        let in_text =
            "  - set:\n      _a: |\n        # cogwork: allow(braces-without-dollar)\n        {{ x }}\n";
        check(in_text, &["braces-without-dollar 6"]);
        let in_quotes = "  - set: {_a: ' # cogwork: allow(braces-without-dollar)', _b: '{{ x }}'}\n";
        check(in_quotes, &["braces-without-dollar 3"]);
    }

    #[test]
    fn an_unused_allow_comment_is_reported() {
        check("  - set: {_a: b} # cogwork: allow(braces-without-dollar)\n", &["unused-allow 3"]);
        check(
            "  - set: {_a: '{{ x }}'} # cogwork: allow(brace-without-dollar)\n",
            &["braces-without-dollar 3", "unused-allow 3"],
        );
        check("  - set: {_a: b} # cogwork: alow(no-retry)\n", &["unused-allow 3"]);
        check("  - set: {_a: b} # cogwork: allow()\n", &["unused-allow 3"]);
        check("  - set: {_a: b} # see cogwork: allow(no-retry)\n", &[]);
        check("  - set: {_a: b} # cogwork: allow(missing-secret)\n", &[]);
    }

    #[test]
    fn an_error_cannot_be_suppressed() {
        check("  - sett: {_a: b} # cogwork: allow(unknown-key)\n", &["unknown-key 3", "unused-allow 3"]);
        check("  - sett: {_a: b} # cogwork: allow(yaml-surprise)\n", &["unknown-key 3"]);
        let broken = "  - set: {_a: '{{ x }}'} # cogwork: allow(braces-without-dollar)\n- x: [\n";
        let text = format!("trigger: {{manual: {{}}}}\nsteps:\n{broken}");
        let report =
            apply_allow_comments(crate::load::automation(Arc::new(Source::new("a.yaml", text)), "a").report);
        assert!(report.has_errors());
        assert_eq!(report.warning_count(), 0, "{}", report.render(false));
    }
}
