//! Texts that a comment truncates: `message: Order #${{ id }} arrived` is the text `Order`.

use text::diagnostic::{Diagnostic, Source, Span};
use text::yaml::{Kind, Node, Style};

const CODE: &str = "comment-in-text";

/// Checks a plain scalar or an absent value for a trailing comment that was probably meant as part of the text.
pub(super) fn check(node: &Node, key: Span, source: &Source) -> Option<Diagnostic> {
    let (from, start) = match &node.kind {
        Kind::String(text) if text.style == Style::Plain => {
            (node.span.range().end, Some(node.span.range().start))
        }
        // `color: #fff` has no value.
        Kind::Null if source.slice(node.span).is_empty() => (key.range().end, None),
        _ => return None,
    };
    let rest = source.text().get(from..)?.lines().next()?;
    let behind = if start.is_none() { rest.strip_prefix(':')? } else { rest };
    let blank = behind.len() - behind.trim_start_matches([' ', '\t']).len();
    let comment = behind[blank..].strip_prefix('#').filter(|_| blank > 0)?;
    let comment = comment.trim_end();
    let is_text =
        comment.starts_with(|c: char| !c.is_whitespace() && !matches!(c, '#' | '!' | '-' | '=' | '*'));
    if !is_text && !comment.trim_start().starts_with("${{") {
        return None;
    }
    let hash = from + (rest.len() - behind.len()) + blank;
    let end = hash + 1 + comment.len();
    let place = Span::new(hash, end);
    let start = start.unwrap_or(hash);
    let whole = source.text().get(start..end)?;
    let message = match start == hash {
        true => "a comment begins here, so there is no value".to_owned(),
        false => format!(
            "a comment begins here, so the text ends with `{}`",
            last_word(source.text().get(start..from)?)
        ),
    };
    let diagnostic = Diagnostic::warning(CODE, message, place);
    let quoted = match whole {
        text if !text.contains(['"', '\\']) => format!("\"{text}\""),
        text => format!("'{}'", text.replace('\'', "''")),
    };
    Some(
        diagnostic
            .help(format!(
                "quote the whole text: `{quoted}`; put a comment on its own line, or a space behind `#`"
            ))
            .replace(Span::new(start, end), quoted),
    )
}

fn last_word(text: &str) -> &str {
    text.split_whitespace().next_back().unwrap_or_default()
}
