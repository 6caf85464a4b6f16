//! Values with expressions in them, compiled once: what stands under `with`, `set`, `body` and the like.

use std::sync::Arc;

use crate::budget::Budget;
use crate::expression::{EvaluationError, Expression, Moment, Reference};
use crate::value::{Map, Value};

/// A value as it is written. What holds no `${{ }}` is a literal; a text that is one whole expression keeps the
/// expression's type; anything else in text becomes text.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// No expression anywhere below.
    Literal(Value),
    /// One whole expression.
    Expression(Expression),
    /// Text with expressions in it.
    Text(Arc<[Part]>),
    /// A list with expressions somewhere below.
    List(Vec<Template>),
    /// A map with expressions somewhere below.
    Map(Vec<(Arc<str>, Template)>),
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Itself.
    Text(Arc<str>),
    /// Its value, as text.
    Expression(Expression),
}

/// The most bytes that a text with expressions may become: the limit of a step's result.
pub const MAX_TEXT: usize = 16 << 20;

impl Template {
    /// The value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self::Literal(Value::Null)
    }

    /// The value over `scope`. All its expressions share `budget`.
    ///
    /// # Errors
    /// An expression has no value, a text grows beyond [`MAX_TEXT`], or the budget is spent.
    pub fn evaluate(&self, scope: &Value, budget: &Budget) -> Result<Value, EvaluationError> {
        self.evaluate_at(scope, None, budget)
    }

    /// As [`Template::evaluate`], with what `now()` and `uuid()` give.
    ///
    /// # Errors
    /// As [`Template::evaluate`].
    pub fn evaluate_at(
        &self,
        scope: &Value,
        moment: Option<&Arc<dyn Moment>>,
        budget: &Budget,
    ) -> Result<Value, EvaluationError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Expression(expression) => expression.evaluate_at(scope, moment, budget),
            Self::Text(parts) => text(parts, scope, moment, budget),
            Self::List(items) => items.iter().map(|item| item.evaluate_at(scope, moment, budget)).collect(),
            Self::Map(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for (key, template) in entries {
                    map.insert(key.clone(), template.evaluate_at(scope, moment, budget)?);
                }
                Ok(Value::from(map))
            }
        }
    }

    /// The value, if it holds no expression.
    #[must_use]
    pub fn literal(&self) -> Option<&Value> {
        if let Self::Literal(value) = self { Some(value) } else { None }
    }

    /// Calls `visit` with every expression below, in the order they are written.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Literal(_) => {}
            Self::Expression(expression) => visit(expression),
            Self::Text(parts) => parts.iter().for_each(|part| {
                if let Part::Expression(expression) = part {
                    visit(expression);
                }
            }),
            Self::List(items) => items.iter().for_each(|item| item.expressions(visit)),
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.expressions(visit)),
        }
    }

    /// Every path that an expression below reads.
    #[must_use]
    pub fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        self.expressions(&mut |expression| references.extend_from_slice(expression.references()));
        references
    }
}

fn text(
    parts: &[Part],
    scope: &Value,
    moment: Option<&Arc<dyn Moment>>,
    budget: &Budget,
) -> Result<Value, EvaluationError> {
    let mut output = String::new();
    for part in parts {
        match part {
            Part::Text(text) => output.push_str(text),
            Part::Expression(expression) => {
                let value = expression.evaluate_at(scope, moment, budget)?;
                let value =
                    crate::expression::interpolated(&value, MAX_TEXT - output.len().min(MAX_TEXT), budget)
                        .map_err(|failure| expression.error(failure))?;
                output.push_str(&value);
            }
        }
    }
    Ok(Value::from(output))
}

/// A stretch of a text: either plain, or what stands between `${{` and `}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stretch<'a> {
    /// Plain text; `$${{` has become `${{`.
    Plain(String),
    /// The inside of an expression and where it begins, in bytes of the text.
    Expression {
        /// The text between the marks.
        inside: &'a str,
        /// Where `inside` begins.
        offset: usize,
    },
    /// A `${{` without its `}}`, and where it stands.
    Open {
        /// Where the mark begins.
        offset: usize,
    },
}

/// Cuts `text` at its expressions. A `}}` inside a quoted text of the expression does not end it.
#[must_use]
pub fn stretches(text: &str) -> Vec<Stretch<'_>> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(mark) = text[at..].find("${{").map(|position| at + position) {
        if text[..mark].ends_with('$') && mark > at {
            // `$${{` stands for `${{` itself.
            plain.push_str(&text[at..mark - 1]);
            plain.push_str("${{");
            at = mark + 3;
            continue;
        }
        plain.push_str(&text[at..mark]);
        if !plain.is_empty() {
            found.push(Stretch::Plain(std::mem::take(&mut plain)));
        }
        let offset = mark + 3;
        let Some(length) = closing(&text[offset..]) else {
            found.push(Stretch::Open { offset: mark });
            return found;
        };
        found.push(Stretch::Expression { inside: &text[offset..offset + length], offset });
        at = offset + length + 2;
    }
    plain.push_str(&text[at..]);
    if !plain.is_empty() {
        found.push(Stretch::Plain(plain));
    }
    found
}

/// Where the quote stands that is never closed, in an expression without end that begins at `offset` of a text; nothing
/// where it has no `}}` at all.
#[must_use]
pub(crate) fn open_quote(text: &str, offset: usize) -> Option<usize> {
    let inside = text.get(offset..)?;
    if !inside.contains("}}") {
        return None;
    }
    let mut open: Option<(usize, u8)> = None;
    let mut bytes = inside.bytes().enumerate();
    while let Some((position, byte)) = bytes.next() {
        match (open, byte) {
            (Some(_), b'\\') => {
                bytes.next();
            }
            (Some((_, quote)), _) if byte == quote => open = None,
            (None, b'\'' | b'"') => open = Some((position, byte)),
            _ => {}
        }
    }
    open.map(|(position, _)| offset + position)
}

/// Where the `}}` stands that ends an expression: outside its quotes, and not the end of a `{…}` inside it.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate().peekable();
    while let Some((position, byte)) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => {
                bytes.next();
            }
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'{') => depth += 1,
            (None, b'}') if depth > 0 => depth -= 1,
            (None, b'}') if bytes.peek().is_some_and(|(_, next)| *next == b'}') => return Some(position),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let show = |stretch| match stretch {
            Stretch::Plain(plain) => format!("text:{plain}"),
            Stretch::Expression { inside, .. } => format!("expression:{inside}"),
            Stretch::Open { offset } => format!("open at {offset}"),
        };
        stretches(text).into_iter().map(show).collect()
    }

    #[test]
    fn text_is_cut_at_its_expressions() {
        assert_eq!(cut("Order ${{ a.b }}!"), ["text:Order ", "expression: a.b ", "text:!"]);
        assert_eq!(cut("${{ a }}${{ b }}"), ["expression: a ", "expression: b "]);
        assert_eq!(cut("plain {{ x }}"), ["text:plain {{ x }}"]);
    }

    #[test]
    fn braces_and_quotes_inside_an_expression_do_not_end_it() {
        assert_eq!(cut("${{ '}}' ~ x }}."), ["expression: '}}' ~ x ", "text:."]);
        assert_eq!(cut("${{ {'a': {'b': 1}} }}"), ["expression: {'a': {'b': 1}} "]);
        assert_eq!(cut(r"${{ 'it\'s }}' }}"), [r"expression: 'it\'s }}' "]);
    }

    #[test]
    fn a_doubled_dollar_is_the_mark_itself() {
        assert_eq!(cut("use $${{ x }} here"), ["text:use ${{ x }} here"]);
    }

    #[test]
    fn a_mark_without_its_end_is_found() {
        assert_eq!(cut("a ${{ b }"), ["text:a ", "open at 2"]);
    }
}
