//! A path that an expression reads, and the positions of its names in the file.

use expression::Expression;
use text::Source;
use text::diagnostic::{Diagnostic, Span};
use value::Key;

use super::ERROR;

/// Path that an expression reads.
#[derive(Clone, Copy)]
pub(super) struct PathRead<'r> {
    pub(super) source: &'r Source,
    pub(super) expression: &'r Expression,
    pub(super) path: &'r [Key],
}

impl PathRead<'_> {
    pub(super) fn position(&self, depth: usize) -> NamePosition {
        NamePosition::locate(self.source, self.expression, self.path, depth)
    }

    /// Adds the path that the first names of this one mean, in words and as a correction.
    pub(super) fn meant(&self, diagnostic: Diagnostic, names: usize, meant: &str) -> Diagnostic {
        let diagnostic = diagnostic.help(format!("did you mean `{meant}`?"));
        let Some(depth) = names.checked_sub(1) else { return diagnostic };
        let position = self.position(depth);
        let length = self.path.iter().take(names).map(|name| name.len() + 1).sum::<usize>() - 1;
        let end = position.span.end as usize;
        match position.exact {
            true => self.replace(diagnostic, Span::new(end.saturating_sub(length), end), meant),
            false => diagnostic,
        }
    }

    /// Adds the correction of a part of the expression.
    pub(super) fn replace(&self, diagnostic: Diagnostic, span: Span, text: &str) -> Diagnostic {
        diagnostic.replacement(text::yaml::replace_at(self.source, span, text))
    }

    /// Reports a computed state key: state is loaded before the step, so its keys must be literals.
    pub(super) fn state_key(&self) -> Option<Diagnostic> {
        if self.path.len() > 1 {
            return None;
        }
        let message = "keys of `state` must be literals";
        Some(
            Diagnostic::error("computed-state-key", message, self.position(0).span)
                .help("write `state.someKey`, or read it with a step: `action: state.get`"),
        )
    }

    /// Reports a member that is not in `known`.
    pub(super) fn member(&self, depth: usize, known: &[&str]) -> Option<Diagnostic> {
        let name = self.path.get(depth).filter(|name| !known.contains(&name.as_str()))?;
        let parent = self.path.get(..depth).unwrap_or_default().join(".");
        let position = self.position(depth);
        let diagnostic =
            Diagnostic::error("unknown-member", format!("`{parent}` has no `{name}`"), position.span);
        Some(position.nearest(diagnostic, name, known))
    }

    /// Reports a member that an error does not have.
    pub(super) fn error_member(&self) -> Option<Diagnostic> {
        let diagnostic = self.member(1, &ERROR)?;
        let name = self.path.get(1)?;
        let Some((_, meant)) = ERROR_WORDS.iter().find(|(word, _)| *word == name.as_str()) else {
            return Some(diagnostic);
        };
        let position = self.position(1);
        Some(match position.exact {
            true => diagnostic.nearest(Some(*meant)),
            false => diagnostic.help(format!("did you mean `{meant}`?")),
        })
    }
}

/// Terms of other tools for the members of an error.
const ERROR_WORDS: [(&str, &str); 7] = [
    ("statusCode", "status"),
    ("status_code", "status"),
    ("httpCode", "status"),
    ("msg", "message"),
    ("text", "message"),
    ("type", "kind"),
    ("reason", "message"),
];

/// Position of a name within a path.
pub(super) struct NamePosition {
    pub(super) span: Span,
    /// True if the span covers exactly the name; otherwise it covers the expression.
    pub(super) exact: bool,
}

impl NamePosition {
    /// Locates the name at `depth` of a path written with dots.
    pub(super) fn locate(source: &Source, expression: &Expression, path: &[Key], depth: usize) -> Self {
        let whole = Self { span: expression.span(), exact: false };
        let text = expression.text();
        let (Some(until), Some(name)) = (path.get(..=depth), path.get(depth)) else { return whole };
        let wanted = until.join(".");
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let found = text.match_indices(&wanted).find(|(at, _)| {
            let before = &text[..*at];
            let begins = !before.ends_with(part) && (!before.ends_with('.') || before.ends_with("$."));
            begins && !text[at + wanted.len()..].starts_with(part)
        });
        let place = found.and_then(|(at, _)| {
            let end = at + wanted.len();
            expression.place_in(source, end - name.len()..end)
        });
        place.map_or(whole, |span| Self { span, exact: true })
    }

    /// Lists the valid names and suggests the most similar: as a quick fix if the position is exact, else in words.
    pub(super) fn nearest(&self, diagnostic: Diagnostic, found: &str, names: &[&str]) -> Diagnostic {
        if self.exact {
            return diagnostic.expected_names(found, names.iter().copied());
        }
        let near = text::diagnostic::nearest(found, names.iter().copied());
        let help = near.map(|near| format!("did you mean `{near}`?"));
        help.into_iter().fold(diagnostic.allowed(names.iter().copied()), Diagnostic::help)
    }
}
