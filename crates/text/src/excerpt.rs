//! Shortened and escaped texts, for messages and log lines.

use std::borrow::Cow;

/// The mark at the end of a truncated text. Code that truncates a text with possible secrets must append it.
pub const TRUNCATION_MARK: char = '…';

/// Truncates `text` to `max` characters, and appends [`TRUNCATION_MARK`] if it was longer.
///
/// It does not redact. Pass the result through a redactor of messages if the text may contain a secret.
#[must_use]
pub fn truncate(text: &str, max: usize) -> Cow<'_, str> {
    let cut = text.char_indices().nth(max).and_then(|(end, _)| text.get(..end));
    cut.map_or(Cow::Borrowed(text), |head| Cow::Owned(format!("{head}{TRUNCATION_MARK}")))
}

/// Appends a character, escaped if it is a control character other than a line break or a tab.
pub fn push_escaped(text: &mut String, character: char) {
    match character {
        '\n' | '\t' => text.push(character),
        control if control.is_control() => text.extend(control.escape_default()),
        plain => text.push(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_text_ends_with_an_ellipsis() {
        assert_eq!(truncate("größe", 5), "größe");
        assert_eq!(truncate("größer", 5), "größe…");
    }
}
