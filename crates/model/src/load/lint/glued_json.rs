//! JSON that is put together as a text: `'{"text": "${{ inputs.text }}"}'` breaks at the first quote of a value.

use crate::diagnostic::{Diagnostic, Span};
use crate::template::{TemplateToken, tokenize};
use crate::yaml::Text;

const CODE: &str = "json-from-text";

/// Keys whose value is sent as JSON if it is a map or a list.
const SENT_AS_JSON: [&str; 2] = ["body", "json"];

/// Checks a text with expressions. `span` is that of its node, `keys` are those around it.
pub(super) fn check(text: &Text, span: Span, keys: &[&str]) -> Option<Diagnostic> {
    let value = text.value.trim();
    if !value.starts_with(['{', '['])
        || !value.ends_with(['}', ']'])
        || !value.contains("${{")
        || !value.contains('"')
    {
        return None;
    }
    let mut filled = String::with_capacity(value.len());
    let mut first = None;
    let mut is_quoted = false;
    let mut plain = true;
    for token in tokenize(&text.value) {
        match token {
            TemplateToken::Plain(part) => {
                is_quoted = ends_in_quotes(&part, is_quoted);
                filled.push_str(&part);
            }
            TemplateToken::Expression { source, offset } => {
                plain &= !source.contains(['"', '\\', '\'', '\n']);
                filled.push(if is_quoted { 'x' } else { '0' });
                if is_quoted {
                    first.get_or_insert((offset, source));
                }
            }
            TemplateToken::Unclosed { .. } => return None,
        }
    }
    let (offset, source) = first?;
    serde_json::from_str::<serde::de::IgnoredAny>(&filled).ok()?;
    let lead = source.len() - source.trim_start().len();
    let place = text.locate_span(offset + lead, offset + lead + source.trim().len());
    let message =
        "this JSON is put together as text: a quote, a backslash or a line break in the value breaks it";
    let diagnostic = Diagnostic::warning(CODE, message, place);
    let is_sent = keys.last().is_some_and(|key| SENT_AS_JSON.contains(key))
        && keys.iter().any(|key| ["with", "respond"].contains(key));
    let is_line = !text.style.is_block() && !value.contains('\n');
    if is_sent && is_line && plain {
        return Some(
            diagnostic
                .help(format!("write the value itself, which is sent as JSON: `{value}`"))
                .replace(span, value),
        );
    }
    Some(diagnostic.help(
        "write the value itself, as YAML, where it is sent as JSON; or encode each part, without the quotes around it: \
         `{\"text\": ${{ inputs.text | tojson }}}`",
    ))
}

/// True if the end of a part of JSON is inside of a string. `is_quoted` says so of its beginning.
fn ends_in_quotes(part: &str, mut is_quoted: bool) -> bool {
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if is_quoted => drop(bytes.next()),
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
    }
    is_quoted
}
