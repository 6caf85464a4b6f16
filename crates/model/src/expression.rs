//! Expressions of both kinds, compiled once: JSONPath (they begin with `$`) and MiniJinja (anything else).
//!
//! An expression is evaluated over a scope: a map of the names in force (`trigger`, `steps`, `vars`, …). Missing
//! data is an error that names the path, unless `| default(…)` or `is defined` asks for it. Nothing is copied to
//! evaluate: both languages look at the shared [`Value`]s themselves. Every evaluation is charged to a [`Budget`].

mod arithmetic;
mod compare;
mod comparison;
mod constant;
mod depth;
mod evaluation;
mod filters;
mod functions;
mod jinja;
mod jsonpath;
mod known;
mod moment;
mod path;
mod predicates;
mod program;
mod reading;
mod strange;
mod text;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use self::evaluation::Failure;
use crate::budget::{Budget, Exceeded};
use crate::diagnostic::Span;
use crate::value::Value;

pub use comparison::{Compared, Side};
pub use constant::Constant;
pub use functions::{FUNCTIONS, Function, TABLE, apply};
pub use moment::Moment;
pub use reading::{Link, Reference, Whole};
pub(crate) use text::interpolated;

/// The operators and other constructs of expressions.
const OPERATORS: [&str; 24] = [
    "!=", "%", "*", "**", "+", "-", "/", "//", "<", "<=", "==", ">", ">=", "[:]", "[]", "and", "if", "in",
    "list", "map", "not", "not in", "or", "~",
];
/// The parts and functions of JSONPath that visit more than one node.
const JSONPATH: [&str; 10] =
    ["$", "*", "..", "count", "filter", "length", "match", "search", "slice", "value"];

/// Every kind of name that expressions can use, with every name of it: `("filter", "upper")`.
pub fn vocabulary() -> impl Iterator<Item = (&'static str, &'static str)> {
    let filters = filters::TABLE.iter().map(|row| ("filter", row.name));
    let tests = predicates::TABLE.iter().map(|predicate| ("test", predicate.name));
    let functions = functions::names().map(|name| ("function", name));
    let operators = OPERATORS.iter().map(|name| ("operator", *name));
    let jsonpath = JSONPATH.iter().map(|name| ("jsonpath", *name));
    filters.chain(tests).chain(functions).chain(operators).chain(jsonpath)
}

/// A compiled expression. Cheap to clone.
#[derive(Clone)]
pub struct Expression {
    inner: Arc<Inner>,
}

struct Inner {
    text: Box<str>,
    span: Span,
    code: Code,
    references: Box<[Reference]>,
}

enum Code {
    /// A path of names: walked without any engine. It is what it refers to.
    Names,
    /// A path of names and numbers.
    Path(path::Path),
    /// Boxed like the next, since most are paths and there are very many.
    Jinja(Box<jinja::Program>),
    JsonPath(Box<jsonpath::Query>),
    /// Stands for what could not be compiled, in a file that has errors. Has no value.
    Unreadable,
}

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// Where, in bytes of the expression's text.
    pub at: std::ops::Range<usize>,
    /// The way out, where what is written is known from elsewhere.
    pub help: Option<Cow<'static, str>>,
    /// The name of the problem, where it is neither the form nor a name.
    pub code: Option<&'static str>,
    /// Where it is a filter, test or function that does not exist: whether one with nearly that name does.
    pub unknown: Option<Unknown>,
}

/// A name of a filter, test or function that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The one that was probably meant.
    pub nearest: Option<String>,
}

impl SyntaxError {
    /// What is wrong with the form of an expression.
    pub(crate) fn new(message: impl Into<String>, at: std::ops::Range<usize>) -> Self {
        Self { message: message.into(), at, help: None, code: None, unknown: None }
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} in `{expression}`")]
pub struct EvaluationError {
    /// What is wrong, with the path that is missing where one is.
    pub message: String,
    /// The expression's text.
    pub expression: String,
    /// Where it is written.
    pub span: Span,
    /// The limit that ended the evaluation, if one did.
    pub exceeded: Option<Exceeded>,
}

impl EvaluationError {
    fn new(failure: Failure, expression: &Expression) -> Self {
        let (message, exceeded) = match failure {
            Failure::Message(message) => (message, None),
            Failure::Exceeded(exceeded) => (exceeded.to_string(), Some(exceeded)),
        };
        Self { message, expression: expression.text().to_owned(), span: expression.span(), exceeded }
    }
}

impl Expression {
    /// Compiles `text`, without the `${{ }}` around it. `span` is where it is written, for messages.
    ///
    /// # Errors
    /// The text is neither a JSONPath query nor a MiniJinja expression; the place is within `text`.
    pub fn compile(text: &str, span: Span) -> Result<Self, SyntaxError> {
        let trimmed = text.trim();
        let lead = text.len() - text.trim_start().len();
        // The parsers count bytes, and may stop in the middle of a character.
        let shift = |mut error: SyntaxError| {
            let (start, end) = (error.at.start.min(trimmed.len()), error.at.end.min(trimmed.len()));
            error.at = trimmed.floor_char_boundary(start) + lead..trimmed.ceil_char_boundary(end) + lead;
            error
        };
        if trimmed.is_empty() {
            return Err(SyntaxError::new("the expression is empty", 0..text.len()));
        }
        if let Some((name, help)) = strange::variable(trimmed) {
            let message = format!(
                "`{name}` is another tool's: names have no `$` here, and a JSONPath begins with `$.`"
            );
            let at = lead..lead + name.len();
            return Err(SyntaxError { help: Some(help.into()), ..SyntaxError::new(message, at) });
        }
        let (code, references) = if trimmed.starts_with('$') {
            let (query, references) = jsonpath::Query::compile(trimmed).map_err(shift)?;
            (Code::JsonPath(Box::new(query)), references)
        } else if let Some(path) = path::Path::parse(trimmed) {
            let reference = Reference::of(path.links(trimmed), false);
            let code = if reference.rest.is_empty() { Code::Names } else { Code::Path(path) };
            (code, vec![reference])
        } else {
            let (program, references) = jinja::Program::compile(trimmed).map_err(shift)?;
            (Code::Jinja(Box::new(program)), references)
        };
        let (text, references) = (trimmed.into(), references.into());
        Ok(Self { inner: Arc::new(Inner { text, span, code, references }) })
    }

    /// What stands for an expression that cannot be compiled while the rest of its file is checked. It reads nothing.
    pub(crate) fn unreadable(span: Span) -> Self {
        let (text, references) = ("…".into(), Box::default());
        Self { inner: Arc::new(Inner { text, span, code: Code::Unreadable, references }) }
    }

    /// The expression as it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Where it is written.
    #[must_use]
    pub fn span(&self) -> Span {
        self.inner.span
    }

    /// What it reads, as far as that is known before it runs.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.inner.references
    }

    /// What its value is, if it is nothing but what it reads.
    #[must_use]
    pub fn whole(&self) -> Option<Whole<'_>> {
        // What the value is made of comes first among what is read.
        let first = self.inner.references.first()?;
        match &self.inner.code {
            Code::Names | Code::Path(_) => Some(Whole::One(first)),
            Code::Jinja(program) => program.is_whole().then_some(Whole::One(first)),
            Code::JsonPath(query) if !query.is_whole() => None,
            Code::JsonPath(query) if query.is_singular() => Some(Whole::One(first)),
            Code::JsonPath(_) => Some(Whole::Every(first)),
            Code::Unreadable => None,
        }
    }

    /// Its value over `scope`, a map of the names in force, charged to `budget`.
    ///
    /// # Errors
    /// Something it reads is missing, an operation does not fit its values, or a limit was reached.
    pub fn evaluate(&self, scope: &Value, budget: &Budget) -> Result<Value, EvaluationError> {
        self.evaluate_at(scope, None, budget)
    }

    /// As [`Expression::evaluate`], with what `now()` and `uuid()` give.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_at(
        &self,
        scope: &Value,
        moment: Option<&Arc<dyn Moment>>,
        budget: &Budget,
    ) -> Result<Value, EvaluationError> {
        let result = match &self.inner.code {
            Code::Names => path::walk_names(self.inner.references.iter().flat_map(|read| &read.path), scope)
                .map_err(Failure::from),
            Code::Path(path) => path.walk(&self.inner.text, scope).map_err(Failure::from),
            Code::Jinja(program) => program.evaluate(&self.inner.text, scope, moment, budget),
            Code::JsonPath(query) => query.evaluate(scope, budget),
            Code::Unreadable => Err("this expression could not be read".into()),
        };
        result.map_err(|failure| self.error(failure))
    }

    /// The error for an evaluation that was given up because its time is over.
    #[must_use]
    pub fn out_of_time(&self) -> EvaluationError {
        self.error(Failure::Exceeded(Exceeded::Stopped))
    }

    /// The error for a failure of this expression.
    pub(crate) fn error(&self, failure: Failure) -> EvaluationError {
        EvaluationError::new(failure, self)
    }

    /// Whether it asks for `now()` or `uuid()`, so that it may give something else when it is evaluated again.
    #[must_use]
    pub fn is_dated(&self) -> bool {
        matches!(&self.inner.code, Code::Jinja(program) if program.is_dated())
    }

    /// Whether it asks for `now()`.
    #[must_use]
    pub fn reads_clock(&self) -> bool {
        matches!(&self.inner.code, Code::Jinja(program) if program.reads_clock())
    }

    /// The parts of it, as a condition, that are the same whatever it reads; none of most.
    #[must_use]
    pub fn constants(&self) -> Vec<Constant> {
        match &self.inner.code {
            Code::Jinja(_) => constant::find(&self.inner.text),
            Code::Names | Code::Path(_) | Code::JsonPath(_) | Code::Unreadable => Vec::new(),
        }
    }

    /// What it compares with `==`, `!=` and `in`; nothing of a path or a query.
    #[must_use]
    pub fn comparisons(&self) -> Vec<Compared> {
        match &self.inner.code {
            Code::Jinja(_) => comparison::find(&self.inner.text),
            Code::Names | Code::Path(_) | Code::JsonPath(_) | Code::Unreadable => Vec::new(),
        }
    }

    /// Whether a condition holds over `scope`.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn holds(&self, scope: &Value, budget: &Budget) -> Result<bool, EvaluationError> {
        self.evaluate(scope, budget).map(|value| value.is_true())
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "${{{{ {} }}}}", self.inner.text)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.inner.text == other.inner.text
    }
}

#[cfg(test)]
mod tests;
