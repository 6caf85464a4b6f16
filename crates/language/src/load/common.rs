//! Small readers that all parts of the loader share.

use std::ops::RangeInclusive;
use std::time::Duration;

use model::automation::SpannedName;
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::units::format_duration;
use text::yaml::{Entry, Field, Text};

use super::keys::is_identifier;

/// The maximum length of a name or id, in bytes.
pub(super) const MAX_NAME: usize = 100;

/// A text that is not blank and holds no expression.
pub(super) fn plain<'n>(field: Field<'n, '_>, diagnostics: &Diagnostics) -> Option<&'n str> {
    let name = field.name()?;
    no_expression(field.text()?, diagnostics).then_some(name)
}

/// Like [`plain`], with its span.
pub(super) fn named(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<SpannedName> {
    plain(field, diagnostics)?;
    let text = field.text()?;
    Some(SpannedName { name: text.value.clone(), span: inner(text) })
}

/// The span of the text itself, without its quotes.
pub(super) fn inner(text: &Text) -> Span {
    text.locate_span(0, text.value.len())
}

/// True if a text contains no expression; otherwise reports it.
pub(super) fn no_expression(text: &Text, diagnostics: &Diagnostics) -> bool {
    let Some(mark) = text.value.find("${{") else { return true };
    let end = text.value[mark..].find("}}").map_or(text.value.len(), |end| mark + end + 2);
    diagnostics.push(
        Diagnostic::error(
            "no-expression-here",
            "an expression cannot stand here",
            text.locate_span(mark, end),
        )
        .help("this is read when the file is loaded, before there is anything to compute with; write the value itself"),
    );
    false
}

/// The key of an entry, if it can be written after a dot in an expression. `what` names it: "a variable".
pub(super) fn entry_name(entry: &Entry, what: &str, diagnostics: &Diagnostics) -> Option<SpannedName> {
    let span = entry.key_span;
    if entry.key.len() > MAX_NAME || !is_identifier(&entry.key) {
        let message = format!("`{}` cannot be the name of {what}", shorten(&entry.key));
        let diagnostic = Diagnostic::error("invalid-name", message, span);
        let bare = entry.key.strip_prefix("vars.").filter(|bare| what == "a variable" && is_identifier(bare));
        diagnostics.push(match bare {
            Some(bare) => diagnostic
                .help(format!("write `{bare}` here; it is read as `vars.{bare}`"))
                .replace(span, bare.to_owned()),
            None => diagnostic.help(
                "a name has letters, digits and `_`, begins with no digit, and has at most 100 characters",
            ),
        });
        return None;
    }
    Some(SpannedName { name: entry.key.clone(), span })
}

/// True if a name has the form `connector.action`; otherwise reports it. The connector registry checks if the action
/// exists.
pub(super) fn action_name(action: &SpannedName, diagnostics: &Diagnostics) -> bool {
    if is_action_name(&action.name) {
        return true;
    }
    let message = format!("`{}` is no name of an action", shorten(&action.name));
    diagnostics.push(
        Diagnostic::error("invalid-action", message, action.span)
            .help("write the connector, a dot and the action, like `wiki.createPage`"),
    );
    false
}

/// True if a name has the form `connector.action`.
pub(super) fn is_action_name(name: &str) -> bool {
    let parts = name.split_once('.');
    parts.is_some_and(|(connector, name)| is_identifier(connector) && is_identifier(name))
}

/// A duration within bounds, both included.
pub(super) fn duration_within(
    field: Field<'_, '_>,
    name: &str,
    range: &RangeInclusive<Duration>,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    let duration = field.duration()?;
    if !range.contains(&duration) {
        let [start, end] = [*range.start(), *range.end()].map(format_duration);
        let message = format!("`{name}` must be from {start} to {end}, found {}", format_duration(duration));
        diagnostics.push(Diagnostic::error("out-of-range", message, field.span().unwrap_or_default()));
        return None;
    }
    Some(duration)
}

/// An excerpt of a file for a message: one line, bounded in length.
pub(super) fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.len() == text.len() && line.chars().count() <= 40 {
        return line.to_owned();
    }
    line.chars().take(39).chain(['…']).collect()
}
