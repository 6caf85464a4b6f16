//! JSON Schemas (draft 2020-12) that authors write: what the body of a request has to be.
//!
//! A schema stands by itself: it names nothing outside of it, so nothing is fetched. `boon` checks the schema when it is
//! compiled; values are checked by an evaluator of our own, whose work and memory are charged to a [`Budget`]. The cost of
//! a check is linear in the size of the value, for recursive schemas too (see `evaluate`).

mod assertions;
mod compare;
mod compile;
mod evaluate;
mod explain;
mod keywords;
mod message;
mod pattern;
mod program;
mod references;
mod scopes;
mod shape;
mod unevaluated;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use boon::{CompileError, Compiler, Draft, ErrorKind, Schemas, UrlLoader};

use crate::action::ResultType;
use crate::budget::{Budget, Exceeded};
use crate::value::{Map, Value};

use evaluate::Evaluation;
use program::Program;
use references::ADDRESS;

/// The most characters of a message about a value.
const MAX_MESSAGE: usize = 300;

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct JsonSchema {
    inner: Arc<Inner>,
}

struct Inner {
    document: serde_json::Value,
    program: Program,
}

/// A failure of a value to fit its schema, or of a schema to be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValidationError {
    /// The place as a JSON Pointer (RFC 6901), empty for the whole: in the schema if that is wrong, else in the value.
    pub pointer: String,
    /// The message, in words that follow the place.
    pub message: String,
}

/// A limit that ended a check before it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// A limit of the budget.
    #[error("{0}")]
    Budget(#[from] Exceeded),
    /// The depth of subschemas inside one another.
    #[error("it leads through more than {MAX_DEPTH} parts of the schema inside one another")]
    Depth,
}

/// The reason to refuse a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The value does not fit the schema.
    #[error("{0}")]
    Invalid(ValidationError),
    /// The check is not decided within its limits.
    #[error("{0}")]
    TooCostly(#[from] LimitExceeded),
}

use evaluate::MAX_DEPTH;

impl JsonSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// It is no valid schema of draft 2020-12, or names one outside of it; the place is in the schema.
    pub fn compile(document: serde_json::Value) -> Result<Self, ValidationError> {
        check_draft(&document)?;
        check_references(&document)?;
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.use_loader(Box::new(NothingOutside));
        let mut schemas = Schemas::new();
        let compiled = compiler
            .add_resource(ADDRESS, document.clone())
            .and_then(|()| compiler.compile(ADDRESS, &mut schemas));
        match compiled {
            Ok(_) => {
                let program = compile::compile(&document)?;
                Ok(Self { inner: Arc::new(Inner { document, program }) })
            }
            Err(CompileError::ValidationError { src, .. }) => Err(first(&src)),
            Err(error) => Err(ValidationError { pointer: String::new(), message: brief(&error.to_string()) }),
        }
    }

    /// The words in it that are no keywords: where each stands, the word, and the keyword that was probably meant.
    /// Words that begin with `x-` are the author's own.
    #[must_use]
    pub fn strangers(&self) -> Vec<(String, String, Option<&'static str>)> {
        let mut found = Vec::new();
        keywords::walk(&self.inner.document, &mut |schema, at| {
            for word in schema.keys().filter(|word| !word.starts_with("x-")) {
                if !keywords::names().any(|name| name == word) {
                    let near = crate::diagnostic::nearest(word, keywords::names());
                    found.push((format!("{at}/{}", keywords::escaped(word)), word.clone(), near));
                }
            }
        });
        found
    }

    /// Checks a value, and finds the first place where it does not fit. The message is made of what the decision leaves of
    /// the budget; a plain one takes its place where that is too little.
    ///
    /// # Errors
    /// The value does not fit, or the budget is spent before that is decided.
    pub fn check(&self, value: &Value, budget: &Budget) -> Result<(), CheckError> {
        let value = without_files(value, budget).map_err(LimitExceeded::from)?;
        let mut evaluation = Evaluation::new(&self.inner.program, budget);
        if evaluation.is_valid(self.inner.program.root, &value, scopes::OUTSIDE)? {
            return Ok(());
        }
        let error = explain::explain(&mut evaluation, &value).unwrap_or_else(|_| ValidationError {
            pointer: String::new(),
            message: "is not as it must be; where, takes too much to find out".to_owned(),
        });
        Err(CheckError::Invalid(ValidationError { message: brief(&error.message), ..error }))
    }

    /// Decides if a value fits, without a message.
    ///
    /// # Errors
    /// The budget is spent.
    pub fn is_valid(&self, value: &Value, budget: &Budget) -> Result<bool, LimitExceeded> {
        let value = without_files(value, budget)?;
        Evaluation::new(&self.inner.program, budget).is_valid(
            self.inner.program.root,
            &value,
            scopes::OUTSIDE,
        )
    }

    /// What is known of a value that is as the schema says.
    #[must_use]
    pub fn result_type(&self) -> ResultType {
        shape::of(&self.inner.document)
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.inner.document)
    }
}

/// Refuses to load anything.
struct NothingOutside;

impl UrlLoader for NothingOutside {
    fn load(&self, _: &str) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
        Err(OUTSIDE.into())
    }
}

const OUTSIDE: &str = "a schema can only name parts of itself, like `#/$defs/order`";

/// Refuses a schema of another draft: its keywords would mean something else.
fn check_draft(document: &serde_json::Value) -> Result<(), ValidationError> {
    let Some(draft) = document.get("$schema").and_then(serde_json::Value::as_str) else { return Ok(()) };
    let name = draft.trim_end_matches('#').trim_start_matches("https://").trim_start_matches("http://");
    if name == "json-schema.org/draft/2020-12/schema" {
        return Ok(());
    }
    let message = "names another draft than 2020-12; leave it out, and write a list under `items` as `prefixItems`, \
        `additionalItems` as `items`, `dependencies` as `dependentRequired` or `dependentSchemas`";
    Err(ValidationError { pointer: "/$schema".to_owned(), message: message.to_owned() })
}

/// The value with its files in the form in which they are seen outside: maps with their bytes as text or base64.
fn without_files<'v>(value: &'v Value, budget: &Budget) -> Result<Cow<'v, Value>, Exceeded> {
    budget.work(1)?;
    match value {
        Value::File(file) => {
            // Text as base64, and once more as a value.
            budget.allocate(file.data.here().map_or(0, bytes::Bytes::len).saturating_mul(3))?;
            Ok(Cow::Owned(Value::from_serde(value.to_serde())))
        }
        Value::List(list) => {
            let mut changed = None;
            for (index, item) in list.0.iter().enumerate() {
                if let Cow::Owned(item) = without_files(item, budget)? {
                    if changed.is_none() {
                        budget.list(list.0.len())?;
                    }
                    changed.get_or_insert_with(|| list.0.clone())[index] = item;
                }
            }
            Ok(changed.map_or(Cow::Borrowed(value), |items| Cow::Owned(Value::from(items))))
        }
        Value::Map(map) => {
            let mut changed: Option<Map> = None;
            for (key, member) in map.iter() {
                if let Cow::Owned(member) = without_files(member, budget)? {
                    if changed.is_none() {
                        budget.allocate(map.len().saturating_mul(crate::budget::ENTRY_MEMORY))?;
                    }
                    changed.get_or_insert_with(|| Map::clone(map)).insert(key.clone(), member);
                }
            }
            Ok(changed.map_or(Cow::Borrowed(value), |map| Cow::Owned(Value::from(map))))
        }
        _ => Ok(Cow::Borrowed(value)),
    }
}

/// References lead to parts of the schema that exist.
fn check_references(document: &serde_json::Value) -> Result<(), ValidationError> {
    let mut wrong = None;
    let mut has_ids = false;
    keywords::walk(document, &mut |schema, at| {
        has_ids |= schema.contains_key("$id");
        let Some(target) = schema.get("$ref").and_then(serde_json::Value::as_str) else { return };
        let message = match target.strip_prefix('#') {
            // Within a part with an address of its own, names begin there.
            _ if has_ids => return,
            None => OUTSIDE.to_owned(),
            Some(pointer) if pointer.starts_with('/') && document.pointer(pointer).is_none() => {
                format!("there is no `{target}` in this schema")
            }
            Some(_) => return,
        };
        wrong.get_or_insert(ValidationError { pointer: format!("{at}/$ref"), message });
    });
    wrong.map_or(Ok(()), Err)
}

/// The first thing that is wrong in a schema: where several shapes were possible, that of the one that came furthest.
fn first(error: &boon::ValidationError<'_, '_>) -> ValidationError {
    let depth = |error: &boon::ValidationError<'_, '_>| error.instance_location.tokens.len();
    let mut deepest = error;
    while let Some(cause) =
        deepest.causes.iter().reduce(|best, other| if depth(other) > depth(best) { other } else { best })
    {
        deepest = cause;
    }
    ValidationError { pointer: deepest.instance_location.to_string(), message: brief(&words(&deepest.kind)) }
}

/// What is wrong, in words that follow the place.
fn words(kind: &ErrorKind<'_, '_>) -> String {
    let ticked =
        |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match kind {
        ErrorKind::Type { got, want } => {
            let want: Vec<String> = want.iter().map(|kind| kind.to_string()).collect();
            format!("must be {}, found {got}", want.join(" or "))
        }
        ErrorKind::Required { want } => format!("needs {}", ticked(want.clone())),
        ErrorKind::AdditionalProperties { got } => {
            format!("must not have {}", ticked(got.iter().map(AsRef::as_ref).collect()))
        }
        // Of its own parts a schema says so of patterns.
        ErrorKind::Format { got, want: "regex", err } => {
            let why = err.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("`{}` is no pattern that can be used: {why}", got.as_str().unwrap_or_default())
        }
        ErrorKind::FalseSchema => "must not be there".to_owned(),
        ErrorKind::Not => "is what it must not be".to_owned(),
        ErrorKind::AnyOf | ErrorKind::OneOf(None) => "is none of what it may be".to_owned(),
        ErrorKind::OneOf(Some(_)) => "is several of what it may be one of".to_owned(),
        other => other.to_string(),
    }
}

fn brief(text: &str) -> String {
    if text.chars().count() <= MAX_MESSAGE {
        return text.to_owned();
    }
    text.chars().take(MAX_MESSAGE).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
