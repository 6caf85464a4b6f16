//! JSON built by string interpolation: `'{"text": "${{ inputs.text }}"}'` breaks at the first quote in a value.

use expression::template::{TemplateToken, tokenize};
use model::InputType;
use model::automation::{Automation, DeclaredTrigger, Trigger};
use text::diagnostic::{Diagnostic, Span};
use text::yaml::Text;

use super::bare_expression::TextPlace;

const CODE: &str = "json-from-text";

/// Keys whose value is sent as JSON if it is a map or a list.
const SENT_AS_JSON: [&str; 2] = ["body", "json"];

/// Filters whose result is text that is not JSON without quotes.
const TEXT_FILTERS: [&str; 8] =
    ["base64", "capitalize", "formatDate", "hash", "lower", "title", "upper", "urlencode"];

/// Checks a text. `span` is the span of its node, `action` the action of the enclosing step.
pub(super) fn check(
    text: &Text,
    span: Span,
    place: &TextPlace<'_>,
    action: Option<&str>,
) -> Option<Diagnostic> {
    let value = text.value.trim();
    if !value.starts_with(['{', '[']) || !value.ends_with(['}', ']']) {
        return None;
    }
    if !value.contains("${{") {
        return below_json(text, span, place.keys);
    }
    let mut filled = String::with_capacity(value.len());
    let (mut quoted, mut unquoted) = (None, None);
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
                match is_quoted {
                    true => drop(quoted.get_or_insert((offset, source))),
                    false if is_text(source, place.automation) => {
                        unquoted.get_or_insert((offset, source));
                    }
                    false => {}
                }
            }
            TemplateToken::Unclosed { .. } => return None,
        }
    }
    let (offset, source) = quoted.or(unquoted)?;
    serde_json::from_str::<serde::de::IgnoredAny>(&filled).ok()?;
    let lead = source.len() - source.trim_start().len();
    let at = text.locate_span(offset + lead, offset + lead + source.trim().len());
    if quoted.is_none() {
        let message = "this JSON is put together as text: the text of the value has no quotes in it";
        let end = Span::at(at.end as usize);
        return Some(
            Diagnostic::warning(CODE, message, at)
                .help(format!("write `${{{{ {} | tojson }}}}`", source.trim()))
                .replace(end, " | tojson"),
        );
    }
    let message =
        "this JSON is put together as text: a quote, a backslash or a line break in the value breaks it";
    let diagnostic = Diagnostic::warning(CODE, message, at);
    let keys = place.keys;
    let is_raw = action.is_some_and(|action| action.ends_with(".rawRequest"));
    let is_sent = keys.last().is_some_and(|key| SENT_AS_JSON.contains(key) || (is_raw && *key == "data"))
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

/// JSON text under a key that is encoded as JSON anyway: the caller would receive it as a quoted string.
fn below_json(text: &Text, span: Span, keys: &[&str]) -> Option<Diagnostic> {
    let value = text.value.trim();
    serde_json::from_str::<serde::de::IgnoredAny>(value)
        .ok()
        .filter(|_| keys.ends_with(&["respond", "json"]))?;
    let diagnostic = Diagnostic::warning(CODE, "this JSON is a text, so the caller gets it in quotes", span);
    let is_line = !text.style.is_block() && !value.contains('\n');
    let help = if is_line {
        format!("write the value itself: `{value}`")
    } else {
        "write the value itself, as YAML".to_owned()
    };
    let diagnostic = diagnostic.help(help);
    Some(if is_line { diagnostic.replace(span, value) } else { diagnostic })
}

/// True if an expression yields text that is not JSON: a text input, a part of a request, or the result of a text filter.
fn is_text(source: &str, automation: Option<&Automation>) -> bool {
    let source = source.trim();
    if let Some((_, filter)) = source.rsplit_once('|') {
        let name = filter.split('(').next().unwrap_or_default().trim();
        return TEXT_FILTERS.contains(&name) && !filter.contains(['~', '+']);
    }
    let Some(automation) = automation else { return false };
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if let Some(name) = source.strip_prefix("inputs.") {
        return automation.inputs.iter().any(|input| {
            input.name == name && matches!(input.kind, InputType::Text | InputType::Choice { .. })
        });
    }
    let parts = ["trigger.results.queryParameters.", "trigger.results.headers."];
    let part = parts.iter().find_map(|part| source.strip_prefix(part));
    let is_webhook = |trigger: &DeclaredTrigger| matches!(trigger.on, Trigger::Webhook(_));
    automation.triggers.iter().any(is_webhook) && part.is_some_and(is_name)
}

/// True if the end of a JSON fragment is inside a string. `is_quoted` is the state at its start.
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
