//! Addresses with expressions in them: each value is encoded by its position, so that data cannot change an address.
//!
//! A value behind the host is one path segment or a part of one, a value behind `?` is one component of the query. A
//! value that begins the address, and an address that is one whole expression, are written as they are: they are the
//! base that an author keeps in a variable. A value inside the host may hold nothing that ends the host. The filter
//! `raw` at the end of an expression switches this off for it, `urlencode` says that its value is encoded already.

use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::expression::{EvaluationError, Expression};
use crate::template::{MAX_TEXT, Part, Template};
use crate::value::{MOST_WHOLE, Value};

/// Bytes that cannot stand in a path segment (RFC 3986, 3.3); `%` is one, so that nothing passes as encoded.
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
/// Bytes that cannot stand in a component of a query: all but the unreserved ones (RFC 3986, 2.3).
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A position in an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// At its very beginning.
    Start,
    /// In the scheme or the host.
    Host,
    /// Behind the host.
    Path,
    /// Behind `?` or `#`.
    Query,
}

/// The value of an input that is an address. `evaluate` gives the value of an expression.
///
/// # Errors
/// An expression has no value, a value would lead elsewhere than its position says, or the text grows beyond
/// [`MAX_TEXT`].
pub fn evaluate(
    template: &Template,
    evaluate: &mut dyn FnMut(&Expression) -> Result<Value, EvaluationError>,
) -> Result<Value, EvaluationError> {
    match template {
        Template::Literal(value) => Ok(value.clone()),
        Template::Expression(expression) => evaluate(expression),
        Template::Text(parts) => address(parts, evaluate).map(Value::from),
        Template::List(items) => items.iter().map(|item| self::evaluate(item, evaluate)).collect(),
        Template::Map(entries) => {
            let mut map = crate::value::Map::with_capacity(entries.len());
            for (key, value) in entries {
                map.insert(key.clone(), self::evaluate(value, evaluate)?);
            }
            Ok(Value::from(map))
        }
    }
}

/// Whether the value of an expression is written into an address as it is: its last filter is `raw`.
#[must_use]
pub fn is_raw(expression: &Expression) -> bool {
    last_filter(expression.text()) == Some("raw")
}

fn address(
    parts: &[Part],
    evaluate: &mut dyn FnMut(&Expression) -> Result<Value, EvaluationError>,
) -> Result<String, EvaluationError> {
    let mut output = String::new();
    // The values that may not make a dot segment, with the expressions that gave them.
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
        let value =
            value.loaded(MOST_WHOLE).map_err(|error| failed(expression, error.to_string()))?.to_text();
        let start = output.len();
        let filter = last_filter(expression.text());
        match (position(&output), filter) {
            (_, Some("raw")) | (Position::Start, _) => output.push_str(&value),
            (Position::Host, _) => output.push_str(in_host(expression, &value)?),
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
            return Err(failed(expression, format!("the text grows beyond {MAX_TEXT} bytes")));
        }
    }
    match checked.into_iter().find(|(range, _)| makes_dot_segment(&output, range)) {
        None => Ok(output),
        Some((_, expression)) => Err(failed(
            expression,
            "its value makes a `.` or `..` of the path, which would lead elsewhere".to_owned(),
        )),
    }
}

/// The position of what comes next in an address.
fn position(before: &str) -> Position {
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
        // `\` is a `/` to who reads addresses.
        None if rest.contains(['/', '\\']) => Position::Path,
        None => Position::Host,
    }
}

/// A value inside the host, or right behind the beginning of an address that is no path yet.
fn in_host<'v>(expression: &Expression, value: &'v str) -> Result<&'v str, EvaluationError> {
    let ends_it =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '\\' | '?' | '#' | '@' | '%');
    match value.chars().find(|c| ends_it(*c)) {
        None => Ok(value),
        Some(_) => {
            let message = "its value stands in the host of an address and holds what cannot stand there, such as \
                           `/`, `?` or `@`; where it is meant to, write `| raw` behind it";
            Err(failed(expression, message.to_owned()))
        }
    }
}

/// Whether a segment of the path that holds some of this range is `.` or `..`, also with its dots encoded.
fn makes_dot_segment(address: &str, range: &Range<usize>) -> bool {
    let start = address[..range.start].rfind('/').map_or(0, |slash| slash + 1);
    let length = address[range.end..].find(['/', '?', '#']).unwrap_or(address.len() - range.end);
    let is_dots = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    };
    !range.is_empty() && address[start..range.end + length].split('/').any(is_dots)
}

/// The name of the last filter of an expression, where it ends in one: `urlencode` of `a | urlencode`. The bar is outside
/// of quotes and brackets.
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

fn failed(expression: &Expression, message: String) -> EvaluationError {
    EvaluationError {
        message,
        expression: expression.text().to_owned(),
        span: expression.span(),
        exceeded: None,
    }
}

#[cfg(test)]
mod tests;
