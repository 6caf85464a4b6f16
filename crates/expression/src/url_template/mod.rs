//! URLs with expressions in them. Each value is encoded for its position, so that data cannot change the structure of a URL.
//!
//! A value after the host is one path segment or a part of one, a value after `?` is one component of the query. A value at
//! the start of the URL, and a URL that is one whole expression, are inserted unencoded: they are the base URL that an author
//! keeps in a variable. A value inside the host may not contain a character that ends the host. The filter `raw` at the end
//! of an expression switches encoding off for it; the filter `urlencode` marks its value as encoded already.

use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use value::budget::Budget;
use value::{MAX_LOADED_BYTES, Value};

use crate::template::{Part, Template};
use crate::text_form::MAX_TEXT;
use crate::{EvaluationError, Expression};

/// Bytes to encode in a path segment (RFC 3986, 3.3), `%` included: a value counts as not encoded yet.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');
/// Bytes to encode in a component of a query: all but the unreserved ones (RFC 3986, 2.3).
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The position of a value in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// At its start.
    Start,
    /// In the scheme or the host.
    Host,
    /// After the host.
    Path,
    /// After `?` or `#`.
    Query,
}

/// Evaluates an input that is a URL. `evaluate` evaluates one expression; the files that it inserts are charged to `budget`.
///
/// # Errors
/// Returns an error if an expression fails, a value would change the structure of the URL, or the text grows beyond
/// [`MAX_TEXT`].
pub fn evaluate(
    template: &Template,
    budget: &Budget,
    evaluate: &mut dyn FnMut(&Expression) -> Result<Value, EvaluationError>,
) -> Result<Value, EvaluationError> {
    match template {
        Template::Literal(value) => Ok(value.clone()),
        Template::Expression(expression) => evaluate(expression),
        Template::Text(parts) => render(parts, budget, evaluate).map(Value::from),
        Template::List(items) => items.iter().map(|item| self::evaluate(item, budget, evaluate)).collect(),
        Template::Map(entries) => {
            let mut map = value::Map::with_capacity(entries.len());
            for (key, value) in entries {
                map.insert(key.clone(), self::evaluate(value, budget, evaluate)?);
            }
            Ok(Value::from(map))
        }
    }
}

/// True if the last filter of the expression is `raw`, so that its value is inserted into a URL unencoded.
#[must_use]
pub fn is_raw(expression: &Expression) -> bool {
    last_filter(expression.text()) == Some("raw")
}

fn render(
    parts: &[Part],
    budget: &Budget,
    evaluate: &mut dyn FnMut(&Expression) -> Result<Value, EvaluationError>,
) -> Result<String, EvaluationError> {
    let mut output = String::new();
    // The values that may not form a dot segment, with their expressions.
    let mut checked: Vec<(Range<usize>, &Expression)> = Vec::new();
    for part in parts {
        let expression = match part {
            Part::Text(text) => {
                output.push_str(text);
                continue;
            }
            Part::Expression(expression) => expression,
        };
        let value = evaluate(expression)?;
        let value = value
            .load_files(MAX_LOADED_BYTES, budget)
            .map_err(|error| evaluation_error(expression, error.to_string()))?
            .to_text();
        let start = output.len();
        let filter = last_filter(expression.text());
        match (position_after(&output), filter) {
            (_, Some("raw")) | (Position::Start, _) => output.push_str(&value),
            (Position::Host, _) => output.push_str(check_host_value(expression, &value)?),
            (Position::Path, Some("urlencode")) => {
                checked.push((start..start + value.len(), expression));
                output.push_str(&value);
            }
            (Position::Query, Some("urlencode")) => output.push_str(&value),
            (Position::Path, _) => {
                output.extend(utf8_percent_encode(&value, SEGMENT));
                checked.push((start..output.len(), expression));
            }
            (Position::Query, _) => output.extend(utf8_percent_encode(&value, COMPONENT)),
        }
        if output.len() > MAX_TEXT {
            return Err(evaluation_error(expression, format!("the text grows beyond {MAX_TEXT} bytes")));
        }
    }
    match checked.into_iter().find(|(range, _)| makes_dot_segment(&output, range)) {
        None => Ok(output),
        Some((_, expression)) => Err(evaluation_error(
            expression,
            "its value makes a `.` or `..` of the path, which would lead elsewhere".to_owned(),
        )),
    }
}

/// The position of the text that follows `before` in a URL.
fn position_after(before: &str) -> Position {
    if before.is_empty() {
        return Position::Start;
    }
    let scheme = before.split_once("://").filter(|(scheme, _)| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        scheme.bytes().all(allowed)
    });
    let rest = scheme.map_or(before, |(_, rest)| rest);
    match rest.find(['?', '#']) {
        Some(_) => Position::Query,
        // URL parsers treat `\` as `/`.
        None if rest.contains(['/', '\\']) => Position::Path,
        None => Position::Host,
    }
}

/// Checks a value inside the host, or directly after a base URL whose path has not begun.
fn check_host_value<'v>(expression: &Expression, value: &'v str) -> Result<&'v str, EvaluationError> {
    let ends_it =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '\\' | '?' | '#' | '@' | '%');
    match value.chars().find(|c| ends_it(*c)) {
        None => Ok(value),
        Some(_) => {
            let message = "its value is part of the URL's host and has a character that a host cannot contain, such as `/`, \
                           `?` or `@`; if that is intended, add `| raw` to the expression";
            Err(evaluation_error(expression, message.to_owned()))
        }
    }
}

/// True if a path segment that overlaps `range` is `.` or `..`, plain or percent-encoded.
fn makes_dot_segment(address: &str, range: &Range<usize>) -> bool {
    let start = address[..range.start].rfind('/').map_or(0, |slash| slash + 1);
    let length = address[range.end..].find(['/', '?', '#']).unwrap_or(address.len() - range.end);
    let is_dots = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    };
    !range.is_empty() && address[start..range.end + length].split('/').any(is_dots)
}

/// The name of the last filter of an expression: `urlencode` in `a | urlencode`. `None` if the expression does not end with
/// a filter. Ignores bars inside quotes and brackets.
fn last_filter(text: &str) -> Option<&str> {
    let (mut quote, mut depth, mut bar) = (None, 0_usize, None);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => drop(bytes.next()),
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            (None, b'|') if depth == 0 => bar = Some(at),
            _ => {}
        }
    }
    let name = text[bar? + 1..].trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn evaluation_error(expression: &Expression, message: String) -> EvaluationError {
    EvaluationError {
        message,
        expression: expression.text().to_owned(),
        span: expression.span(),
        exceeded: None,
    }
}

#[cfg(test)]
mod tests;
