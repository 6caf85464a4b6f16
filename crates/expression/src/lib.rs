//! Expressions of both languages, compiled once: JSONPath (beginning with `$`) and MiniJinja (all others).
//!
//! An expression is evaluated over a scope: a map of the names it can use (`trigger`, `steps`, `vars`, …). Missing data is an
//! error that names the path, unless the expression handles it with `| default(…)` or `is defined`. Evaluation copies no data:
//! both languages read the shared [`Value`]s. Every evaluation is charged to a [`Budget`].
//!
//! A [`Template`] is a text or a value with expressions, [`url_template`] such a URL; a [`JsonSchema`] checks the body of a request.
//!
//! Modules, in reading order:
//!
//! * `jinja`: parses MiniJinja
//! * `jsonpath`: parses JSONPath
//! * `tokens`: the tokens of both
//! * `depth`: bounds the nesting of an expression
//! * `path`: a path into values
//! * `operation`: the operations of a program
//! * `program`: a compiled expression
//! * `evaluation`: evaluates a program
//! * `failure`: why an evaluation failed
//! * `arithmetic`: numbers
//! * `decimals`: exact numbers
//! * `compare`: the order of values
//! * `equality`: the equality of values
//! * `truth`: the truth of conditions as far as one value decides it
//! * `text_operations`: operations on texts
//! * `text_form`: the text of a value
//! * `eval_clock`: the clock of an evaluation
//! * `pattern`: regular expressions
//! * `filters`: the table of filters
//! * `predicates`: the table of tests
//! * `functions`: the table of functions
//! * `signature`: their parameters
//! * `literal_arguments`: their literal arguments
//! * `dependencies`: the paths that an expression reads
//! * `constant`: expressions without paths
//! * `comparison`: comparisons that can never hold
//! * `symbols`: the names that an expression can use
//! * `loose_filters`: filters that apply to less than they were meant for
//! * `misread`: texts that mean something else than they seem to
//! * `later_words`: words that came after release 0.1.0
//! * `other_dialects`: habits from other languages
//! * `rewrite`: corrections
//! * `arrow_functions`: corrections of functions of JavaScript
//! * `unfinished`: expressions that an author is still writing
//! * `template`: texts and values with expressions
//! * `url_template`: URLs with expressions
//! * `json_schema`: checks bodies: `compile` builds the program, `evaluate` decides, `failure` finds the first mismatch

mod arithmetic;
mod arrow_functions;
mod compare;
mod comparison;
mod constant;
mod decimals;
mod dependencies;
mod depth;
mod equality;
mod eval_clock;
mod evaluation;
mod failure;
mod filters;
mod functions;
mod jinja;
mod jsonpath;
mod later_words;
mod literal_arguments;
mod loose_filters;
mod misread;
mod operation;
mod other_dialects;
mod path;
mod pattern;
mod predicates;
mod program;
mod rewrite;
mod signature;
mod symbols;
mod text_form;
mod text_operations;
mod tokens;
mod truth;
mod unfinished;

pub mod json_schema;
pub mod template;
pub mod url_template;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use text::diagnostic::{Source, Span};
use value::Value;
use value::budget::{Budget, Exceeded};

use self::failure::Failure;

pub use comparison::{ComparisonSite, Operand};
pub use constant::Constant;
pub use dependencies::{DirectPath, Link, Reference};
pub use equality::{RequiredEquality, equality_key};
pub use eval_clock::EvalClock;
pub use functions::{FUNCTIONS, Function, TABLE, apply};
pub use json_schema::JsonSchema;
pub use loose_filters::LooseFilter;
pub use misread::{Meaning, MisreadText, is_pattern};
pub use operation::{Form, LateDefault, Operation, OperationKind, TypedOperand};
pub use template::Template;
pub use unfinished::item_at_end;

/// The operators and other syntax elements of expressions.
const OPERATORS: [&str; 24] = [
    "!=", "%", "*", "**", "+", "-", "/", "//", "<", "<=", "==", ">", ">=", "[:]", "[]", "and", "if", "in",
    "list", "map", "not", "not in", "or", "~",
];
/// The segments, selectors and functions of JSONPath.
const JSONPATH: [&str; 10] =
    ["$", "*", "..", "count", "filter", "length", "match", "search", "slice", "value"];

/// All names that expressions can use, each with its kind: `("filter", "upper")`.
pub fn vocabulary() -> impl Iterator<Item = (&'static str, &'static str)> {
    let filters = filters::TABLE.iter().map(|row| ("filter", row.name));
    let tests = predicates::TABLE.iter().map(|predicate| ("test", predicate.name));
    let functions = functions::names().map(|name| ("function", name));
    let operators = OPERATORS.iter().map(|name| ("operator", *name));
    let jsonpath = JSONPATH.iter().map(|name| ("jsonpath", *name));
    filters.chain(tests).chain(functions).chain(operators).chain(jsonpath)
}

/// The call of a filter or function with its parameters: `sort(reverse=, by=)`. `None` if there is none of this name.
#[must_use]
pub fn usage(name: &str) -> Option<String> {
    match filters::find(name) {
        Some(filters::Filter::Builtin(row)) => Some(row.usage()),
        Some(filters::Filter::Function(function)) => Some(function.usage()),
        None => functions::find(name).map(Function::usage),
    }
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
    /// A path of names, walked without an engine. The reference holds the path.
    Names,
    /// A path of names and indices.
    Path(path::Path),
    /// Boxed, like the next variant, because most expressions are paths and there are very many.
    Jinja(Box<jinja::Program>),
    JsonPath(Box<jsonpath::Query>),
    /// A placeholder for an expression that does not compile, in a file with errors. It has no value.
    Placeholder,
}

impl Code {
    /// Compiles a text without white space around it. The location and the fix of an error are within that text.
    fn compile(text: &str) -> Result<(Self, Vec<Reference>), SyntaxError> {
        if let Some((name, help)) = other_dialects::variable(text) {
            let message = format!(
                "`{name}` is syntax of another tool: names have no `$` here, and a JSONPath begins with `$.`"
            );
            let error = SyntaxError::new(message, 0..name.len());
            return Err(SyntaxError {
                help: Some(help.into()),
                fix: rewrite::variable(text).map(Box::new),
                ..error
            });
        }
        Ok(if text.starts_with('$') {
            let (query, references) = jsonpath::Query::compile(text)?;
            (Code::JsonPath(Box::new(query)), references)
        } else if let Some(path) = path::Path::parse(text) {
            let reference = Reference::new(path.links(text), false);
            let code = if reference.suffix.is_empty() { Code::Names } else { Code::Path(path) };
            (code, vec![reference])
        } else {
            let (program, references) = jinja::Program::compile(text)?;
            (Code::Jinja(Box::new(program)), references)
        })
    }
}

/// True if a fix leads to an expression that compiles, or has another error.
fn is_correct(text: &str, error: &SyntaxError, (at, replacement): &(std::ops::Range<usize>, String)) -> bool {
    let (Some(before), Some(after)) = (text.get(..at.start), text.get(at.end..)) else { return false };
    let fixed = format!("{before}{replacement}{after}");
    fixed.trim() == fixed && Code::compile(&fixed).err().is_none_or(|other| other.message != error.message)
}

/// An error of compiling an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The message.
    pub message: String,
    /// The location, in bytes of the expression's text.
    pub at: std::ops::Range<usize>,
    /// The equivalent in this language, if the construct is known from another one.
    pub help: Option<Cow<'static, str>>,
    /// The diagnostic code, if it is not that of a syntax error or an unknown name.
    pub code: Option<&'static str>,
    /// For an unknown filter, test or function: the most similar name.
    pub unknown: Option<UnknownName>,
    /// A correction that leads to an expression without this error: the replacement of a range of the text.
    pub fix: Option<Box<(std::ops::Range<usize>, String)>>,
}

/// An unknown name of a filter, test or function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The most similar known name.
    pub nearest: Option<String>,
}

impl SyntaxError {
    /// Creates an error of the expression's syntax.
    pub(crate) fn new(message: impl Into<String>, at: std::ops::Range<usize>) -> Self {
        Self { message: message.into(), at, help: None, code: None, unknown: None, fix: None }
    }
}

/// An error of evaluating an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} in `{expression}`")]
pub struct EvaluationError {
    /// The message, with the missing path if data is missing.
    pub message: String,
    /// The expression's text.
    pub expression: String,
    /// The span of the expression in its file.
    pub span: Span,
    /// The limit that ended the evaluation; `None` for other errors.
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
    /// Compiles `text`, the inside of `${{ }}`. `span` is its span in the file, for messages.
    ///
    /// # Errors
    /// Returns an error if the text is neither a JSONPath query nor a MiniJinja expression; the location is within `text`.
    pub fn compile(text: &str, span: Span) -> Result<Self, SyntaxError> {
        let trimmed = text.trim();
        let lead = text.len() - text.trim_start().len();
        // The parsers count bytes, and may stop in the middle of a character.
        let shift = |at: &std::ops::Range<usize>| {
            let (start, end) = (at.start.min(trimmed.len()), at.end.min(trimmed.len()));
            trimmed.floor_char_boundary(start) + lead..trimmed.ceil_char_boundary(end) + lead
        };
        if trimmed.is_empty() {
            return Err(SyntaxError::new("the expression is empty", 0..text.len()));
        }
        let (code, references) = Code::compile(trimmed).map_err(|mut error| {
            error.fix = error.fix.take().filter(|fix| is_correct(trimmed, &error, fix));
            error.at = shift(&error.at);
            if let Some(fix) = &mut error.fix {
                fix.0 = shift(&fix.0);
            }
            error
        })?;
        let (text, references) = (trimmed.into(), references.into());
        Ok(Self { inner: Arc::new(Inner { text, span, code, references }) })
    }

    /// Creates a placeholder for an expression that does not compile, so that the rest of its file can be checked. It reads nothing.
    pub fn placeholder(span: Span) -> Self {
        let (text, references) = ("…".into(), Box::default());
        Self { inner: Arc::new(Inner { text, span, code: Code::Placeholder, references }) }
    }

    /// The source text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// The span in the file.
    #[must_use]
    pub fn span(&self) -> Span {
        self.inner.span
    }

    /// The place in the file of a part of the expression, in bytes of its text; `None` if the file has escapes or line breaks in the
    /// expression, so that its text differs.
    #[must_use]
    pub fn place_in(&self, source: &Source, part: std::ops::Range<usize>) -> Option<Span> {
        let whole = self.span();
        let start = whole.start as usize;
        (source.slice(whole) == self.text()).then(|| Span::new(start + part.start, start + part.end))
    }

    /// The paths that the expression reads, as far as they are known statically.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.inner.references
    }

    /// The path whose value is the value of the expression; `None` if the expression computes anything.
    #[must_use]
    pub fn direct_path(&self) -> Option<DirectPath<'_>> {
        // The path of the value comes first among the references.
        let first = self.inner.references.first()?;
        match &self.inner.code {
            Code::Names | Code::Path(_) => Some(DirectPath::One(first)),
            Code::Jinja(program) => program.is_direct_path().then_some(DirectPath::One(first)),
            Code::JsonPath(query) if !query.is_direct_path() => None,
            Code::JsonPath(query) if query.is_singular() => Some(DirectPath::One(first)),
            Code::JsonPath(_) => Some(DirectPath::Every(first)),
            Code::Placeholder => None,
        }
    }

    /// Evaluates the expression over `scope`, a map of the names it can use, charged to `budget`.
    ///
    /// # Errors
    /// Returns an error if data is missing, an operation does not support its operands, or a limit is exceeded.
    pub fn evaluate(&self, scope: &Value, budget: &Budget) -> Result<Value, EvaluationError> {
        self.evaluate_with_clock(scope, None, budget)
    }

    /// As [`Expression::evaluate`], with `clock` as the source of `now()` and `uuid()`.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_with_clock(
        &self,
        scope: &Value,
        clock: Option<&Arc<dyn EvalClock>>,
        budget: &Budget,
    ) -> Result<Value, EvaluationError> {
        let result = match &self.inner.code {
            Code::Names => path::walk_names(self.inner.references.iter().flat_map(|read| &read.path), scope)
                .map_err(Failure::from),
            Code::Path(path) => path.walk(&self.inner.text, scope).map_err(Failure::from),
            Code::Jinja(program) => program.evaluate(&self.inner.text, scope, clock, budget),
            Code::JsonPath(query) => query.evaluate(scope, budget),
            Code::Placeholder => Err("this expression could not be read".into()),
        };
        result.map_err(|failure| self.error(failure))
    }

    /// The error for an evaluation that was abandoned at its time limit.
    #[must_use]
    pub fn timeout_error(&self) -> EvaluationError {
        self.error(Failure::Exceeded(Exceeded::Stopped))
    }

    /// Converts a failure of this expression to an error with its text and span.
    pub(crate) fn error(&self, failure: Failure) -> EvaluationError {
        EvaluationError::new(failure, self)
    }

    /// True if the expression calls `now()` or `uuid()`, so that its value may differ between evaluations.
    #[must_use]
    pub fn is_nondeterministic(&self) -> bool {
        matches!(&self.inner.code, Code::Jinja(program) if program.is_nondeterministic())
    }

    /// True if the expression calls `now()`.
    #[must_use]
    pub fn reads_clock(&self) -> bool {
        matches!(&self.inner.code, Code::Jinja(program) if program.reads_clock())
    }

    /// The path of each item, if the value is a list of the values at a path: `x | map(by=item.id)`.
    #[must_use]
    pub fn item_path(&self) -> Option<Reference> {
        self.in_jinja(dependencies::find_item_path)
    }

    /// Applies `find` to the text, if it is parsed as Jinja; else nothing is found.
    fn in_jinja<T: Default>(&self, find: fn(&str) -> T) -> T {
        match &self.inner.code {
            Code::Jinja(_) => find(&self.inner.text),
            Code::Names | Code::Path(_) | Code::JsonPath(_) | Code::Placeholder => T::default(),
        }
    }

    /// The constant operands of the expression as a condition. Most conditions have none.
    #[must_use]
    pub fn constants(&self) -> Vec<Constant> {
        self.in_jinja(constant::find_constants)
    }

    /// The locations of values without an `else` whose absence nothing handles: `'x' if flag`.
    #[must_use]
    pub fn values_without_else(&self) -> Vec<std::ops::Range<usize>> {
        match &self.inner.code {
            Code::Jinja(_) if self.inner.text.contains(" if ") => {
                comparison::values_without_else(&self.inner.text)
            }
            _ => Vec::new(),
        }
    }

    /// The comparisons with `==`, `!=` and `in`. A path or a query has none.
    #[must_use]
    pub fn comparisons(&self) -> Vec<ComparisonSite> {
        self.in_jinja(comparison::find_comparisons)
    }

    /// The orders, sums and truths whose meaning depends on types. With `is_condition` the truth of the whole counts too.
    #[must_use]
    pub fn operations(&self, is_condition: bool) -> Vec<Operation> {
        match &self.inner.code {
            Code::Jinja(_) => operation::find_operations(&self.inner.text, is_condition),
            Code::Names | Code::Path(_) if is_condition => {
                operation::find_operations(&self.inner.text, is_condition)
            }
            Code::Names | Code::Path(_) | Code::JsonPath(_) | Code::Placeholder => Vec::new(),
        }
    }

    /// The form of the value, as far as the outermost operation says it.
    #[must_use]
    pub fn form(&self) -> Form {
        self.in_jinja(operation::find_form)
    }

    /// The uses of `default` that come too late for null.
    #[must_use]
    pub fn late_defaults(&self) -> Vec<LateDefault> {
        self.in_jinja(operation::find_late_defaults)
    }

    /// The locations between adjacent string literals, which are read as one, in bytes of the text.
    #[must_use]
    pub fn joined_texts(&self) -> Vec<std::ops::Range<usize>> {
        self.in_jinja(operation::find_joined_texts)
    }

    /// The literal texts that are meant as a regular expression or as a list.
    #[must_use]
    pub fn misread_texts(&self) -> Vec<MisreadText> {
        self.in_jinja(misread::find_misread_texts)
    }

    /// The filters that apply to less than they were probably meant for.
    #[must_use]
    pub fn loose_filters(&self) -> Vec<LooseFilter> {
        self.in_jinja(loose_filters::find_loose_filters)
    }

    /// The first equality between a member of `variable` and another value without which the condition is not true.
    #[must_use]
    pub fn required_equality(&self, variable: &str) -> Option<RequiredEquality> {
        match &self.inner.code {
            Code::Jinja(_) => equality::find_required(self, variable),
            Code::Names | Code::Path(_) | Code::JsonPath(_) | Code::Placeholder => None,
        }
    }

    /// A part of the expression as an expression of its own.
    fn part(&self, text: &str, program: jinja::Program) -> Self {
        let code = Code::Jinja(Box::new(program));
        let inner = Inner { text: text.into(), span: self.inner.span, code, references: Box::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Evaluates the expression as a condition.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn is_true(&self, scope: &Value, budget: &Budget) -> Result<bool, EvaluationError> {
        self.evaluate(scope, budget).map(|value| value.is_truthy())
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
