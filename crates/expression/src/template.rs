//! Templates: values with `${{ }}` expressions in them, compiled once. `with`, `set` and `body` hold templates.

use std::sync::Arc;

use value::budget::Budget;
use value::{Map, Value};

use crate::text_form::{MAX_TEXT, interpolate};
use crate::{EvalClock, EvaluationError, Expression, Reference};

/// A value that may contain expressions. A value without `${{ }}` is a literal, a text that is one whole expression keeps
/// the expression's type, and any other text with expressions evaluates to text.
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

/// A part of a [`Template::Text`].
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Literal text.
    Text(Arc<str>),
    /// An expression, whose value is inserted as text.
    Expression(Expression),
}

impl Template {
    /// The value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self::Literal(Value::Null)
    }

    /// Evaluates the template over `scope`. All its expressions share `budget`.
    ///
    /// # Errors
    /// Returns an error if an expression fails, a text grows beyond [`MAX_TEXT`], or the budget is spent.
    pub fn evaluate(&self, scope: &Value, budget: &Budget) -> Result<Value, EvaluationError> {
        self.evaluate_with_clock(scope, None, budget)
    }

    /// As [`Template::evaluate`], with `clock` as the source of `now()` and `uuid()`.
    ///
    /// # Errors
    /// As [`Template::evaluate`].
    pub fn evaluate_with_clock(
        &self,
        scope: &Value,
        clock: Option<&Arc<dyn EvalClock>>,
        budget: &Budget,
    ) -> Result<Value, EvaluationError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Expression(expression) => expression.evaluate_with_clock(scope, clock, budget),
            Self::Text(parts) => evaluate_text(parts, scope, clock, budget),
            Self::List(items) => {
                items.iter().map(|item| item.evaluate_with_clock(scope, clock, budget)).collect()
            }
            Self::Map(entries) => {
                let mut map = Map::with_capacity(entries.len());
                for (key, template) in entries {
                    map.insert(key.clone(), template.evaluate_with_clock(scope, clock, budget)?);
                }
                Ok(Value::from(map))
            }
        }
    }

    /// The literal value; `None` if the template contains an expression.
    #[must_use]
    pub fn literal(&self) -> Option<&Value> {
        if let Self::Literal(value) = self { Some(value) } else { None }
    }

    /// Calls `visit` with every expression of the template, in document order.
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

    /// Every path that the template's expressions read.
    #[must_use]
    pub fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        self.expressions(&mut |expression| references.extend_from_slice(expression.references()));
        references
    }
}

fn evaluate_text(
    parts: &[Part],
    scope: &Value,
    clock: Option<&Arc<dyn EvalClock>>,
    budget: &Budget,
) -> Result<Value, EvaluationError> {
    let mut output = String::new();
    for part in parts {
        match part {
            Part::Text(text) => output.push_str(text),
            Part::Expression(expression) => {
                let value = expression.evaluate_with_clock(scope, clock, budget)?;
                let value = interpolate(&value, MAX_TEXT - output.len().min(MAX_TEXT), budget)
                    .map_err(|failure| expression.error(failure))?;
                output.push_str(&value);
            }
        }
    }
    Ok(Value::from(output))
}

/// A token of a template text: plain text, or the source of an expression between `${{` and `}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateToken<'a> {
    /// Plain text; `$${{` has become `${{`.
    Plain(String),
    /// An expression.
    Expression {
        /// The source between `${{` and `}}`.
        source: &'a str,
        /// Byte offset of `source` in the text.
        offset: usize,
    },
    /// A `${{` without its `}}`.
    Unclosed {
        /// Byte offset of the `${{`.
        offset: usize,
    },
}

/// Splits `text` into plain text and expressions. A `}}` inside a quoted string of an expression does not end it.
#[must_use]
pub fn tokenize(text: &str) -> Vec<TemplateToken<'_>> {
    let mut tokens = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(mark) = text[at..].find("${{").map(|position| at + position) {
        if text[..mark].ends_with('$') && mark > at {
            // `$${{` is the escape of `${{`.
            plain.push_str(&text[at..mark - 1]);
            plain.push_str("${{");
            at = mark + 3;
            continue;
        }
        plain.push_str(&text[at..mark]);
        if !plain.is_empty() {
            tokens.push(TemplateToken::Plain(std::mem::take(&mut plain)));
        }
        let offset = mark + 3;
        let Some(length) = expression_end(&text[offset..]) else {
            tokens.push(TemplateToken::Unclosed { offset: mark });
            return tokens;
        };
        tokens.push(TemplateToken::Expression { source: &text[offset..offset + length], offset });
        at = offset + length + 2;
    }
    plain.push_str(&text[at..]);
    if !plain.is_empty() {
        tokens.push(TemplateToken::Plain(plain));
    }
    tokens
}

/// The offset of the unclosed quote in an unclosed expression, whose source begins at `offset` of `text`. `None` if all
/// quotes are closed or no `}}` follows.
#[must_use]
pub fn unclosed_quote(text: &str, offset: usize) -> Option<usize> {
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

/// The offset of the `}}` that ends an expression: the first one outside quotes and outside an inner `{…}`.
fn expression_end(text: &str) -> Option<usize> {
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
    use text::diagnostic::Span;

    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let show = |stretch| match stretch {
            TemplateToken::Plain(plain) => format!("text:{plain}"),
            TemplateToken::Expression { source, .. } => format!("expression:{source}"),
            TemplateToken::Unclosed { offset } => format!("open at {offset}"),
        };
        tokenize(text).into_iter().map(show).collect()
    }

    #[test]
    fn text_is_split_at_its_expressions() {
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
    fn a_doubled_dollar_escapes_the_expression_mark() {
        assert_eq!(cut("use $${{ x }} here"), ["text:use ${{ x }} here"]);
    }

    #[test]
    fn an_unclosed_expression_is_found() {
        assert_eq!(cut("a ${{ b }"), ["text:a ", "open at 2"]);
    }

    #[test]
    fn a_rendered_text_is_bounded() {
        let expression = Expression::compile("x", Span::default()).expect("it compiles");
        let template = Template::Text([Part::Text("y".into()), Part::Expression(expression)].into());
        let evaluate = |bytes: usize| {
            let scope = Value::from(Map::from_iter([("x", Value::from("x".repeat(bytes)))]));
            template.evaluate(&scope, &Budget::default())
        };
        let whole = evaluate(MAX_TEXT - 1).expect("it fits");
        assert_eq!(whole.to_text().len(), MAX_TEXT);
        let error = evaluate(MAX_TEXT).expect_err("it is too long");
        assert!(error.message.contains("grows beyond 16777216 bytes"), "{}", error.message);
    }
}
