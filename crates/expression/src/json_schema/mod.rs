//! JSON Schemas (draft 2020-12) that authors write to validate the body of a request.
//!
//! A schema is self-contained: it refers to nothing outside, so nothing is fetched. `boon` validates the schema itself when it
//! is compiled; this module evaluates values, charging work and memory to a [`Budget`]. The cost of a check is linear in the
//! size of the value, for recursive schemas too (see `evaluate`).

mod assertions;
mod compare;
mod compile;
mod evaluate;
mod failure;
mod keywords;
mod message;
mod pattern;
mod program;
mod references;
mod scopes;
mod unevaluated;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use boon::{CompileError, Compiler, Draft, ErrorKind, Schemas, UrlLoader};
use value::budget::{Budget, Exceeded};
use value::{Map, Value};

use evaluate::Evaluation;
use message::truncate;
use program::Program;
use references::ADDRESS;

/// The longest message about a value, in characters.
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

/// An error of a value that does not match its schema, or of an invalid schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValidationError {
    /// A JSON Pointer (RFC 6901), empty for the root: into the schema if the schema is invalid, else into the value.
    pub pointer: String,
    /// The message, phrased to follow the pointer.
    pub message: String,
}

/// A limit that ended a check before it had a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// A limit of the budget.
    #[error("{0}")]
    Budget(#[from] Exceeded),
    /// The nesting of subschemas.
    #[error("it leads through more than {MAX_DEPTH} nested parts of the schema")]
    Depth,
}

/// The reason to reject a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The value does not match the schema.
    #[error("{0}")]
    Invalid(ValidationError),
    /// The check exceeded its limits.
    #[error("{0}")]
    TooCostly(#[from] LimitExceeded),
}

use evaluate::MAX_DEPTH;

impl JsonSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Returns an error if it is not a valid schema of draft 2020-12 or refers to another document; the pointer is into the schema.
    pub fn compile(document: serde_json::Value) -> Result<Self, ValidationError> {
        check_draft(&document)?;
        check_references(&document)?;
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.use_loader(Box::new(RejectLoader));
        let mut schemas = Schemas::new();
        let compiled = compiler
            .add_resource(ADDRESS, document.clone())
            .and_then(|()| compiler.compile(ADDRESS, &mut schemas));
        match compiled {
            Ok(_) => {
                let program = compile::compile(&document)?;
                Ok(Self { inner: Arc::new(Inner { document, program }) })
            }
            Err(CompileError::ValidationError { src, .. }) => Err(deepest_error(&src)),
            Err(error) => {
                Err(ValidationError { pointer: String::new(), message: truncate(&error.to_string()) })
            }
        }
    }

    /// The keys that are not keywords of JSON Schema: the pointer of each, the key, and the most similar keyword. Keys with the
    /// prefix `x-` are extensions and not included.
    #[must_use]
    pub fn unknown_keywords(&self) -> Vec<(String, String, Option<&'static str>)> {
        let mut found = Vec::new();
        keywords::visit_schemas(&self.inner.document, &mut |schema, at| {
            for word in schema.keys().filter(|word| !word.starts_with("x-")) {
                if !keywords::names().any(|name| name == word) {
                    let near = text::diagnostic::nearest(word, keywords::names());
                    found.push((format!("{at}/{}", keywords::escape_token(word)), word.clone(), near));
                }
            }
        });
        found
    }

    /// Checks a value and finds the first mismatch. The budget that the check leaves pays for the message; if it is too small,
    /// the message is generic.
    ///
    /// # Errors
    /// Returns an error if the value does not match, or the budget is spent before the check ends.
    pub fn check(&self, value: &Value, budget: &Budget) -> Result<(), CheckError> {
        let value = without_files(value, budget).map_err(LimitExceeded::from)?;
        let mut evaluation = Evaluation::new(&self.inner.program, budget);
        if evaluation.is_valid(self.inner.program.root, &value, scopes::ROOT)? {
            return Ok(());
        }
        let error = failure::find_failure(&mut evaluation, &value).unwrap_or_else(|_| ValidationError {
            pointer: String::new(),
            message: "does not match the schema; finding the place would take too much work".to_owned(),
        });
        Err(CheckError::Invalid(ValidationError { message: truncate(&error.message), ..error }))
    }

    /// Returns true if the value matches, without building a message.
    ///
    /// # Errors
    /// Returns an error if the budget is spent.
    pub fn is_valid(&self, value: &Value, budget: &Budget) -> Result<bool, LimitExceeded> {
        let value = without_files(value, budget)?;
        Evaluation::new(&self.inner.program, budget).is_valid(self.inner.program.root, &value, scopes::ROOT)
    }

    /// The schema as it was written.
    #[must_use]
    pub fn document(&self) -> &serde_json::Value {
        &self.inner.document
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.inner.document)
    }
}

/// A loader that rejects every address.
struct RejectLoader;

impl UrlLoader for RejectLoader {
    fn load(&self, _: &str) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
        Err(EXTERNAL_REFERENCE.into())
    }
}

const EXTERNAL_REFERENCE: &str = "a schema can only name parts of itself, like `#/$defs/order`";

/// Rejects a schema of another draft, whose keywords have other meanings.
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

/// Replaces files by their public form: maps with the bytes as text or base64.
fn without_files<'v>(value: &'v Value, budget: &Budget) -> Result<Cow<'v, Value>, Exceeded> {
    budget.charge(1)?;
    match value {
        Value::File(file) => {
            // The base64 text, and the same once more as a value.
            budget.allocate(file.data.in_memory().map_or(0, bytes::Bytes::len).saturating_mul(3))?;
            Ok(Cow::Owned(Value::from_serde(value.to_serde())))
        }
        Value::List(list) => {
            let mut changed = None;
            for (index, item) in list.0.iter().enumerate() {
                if let Cow::Owned(item) = without_files(item, budget)? {
                    if changed.is_none() {
                        budget.allocate_list(list.0.len())?;
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
                        budget.allocate(map.len().saturating_mul(value::budget::ENTRY_MEMORY))?;
                    }
                    changed.get_or_insert_with(|| Map::clone(map)).insert(key.clone(), member);
                }
            }
            Ok(changed.map_or(Cow::Borrowed(value), |map| Cow::Owned(Value::from(map))))
        }
        _ => Ok(Cow::Borrowed(value)),
    }
}

/// Checks that every reference leads to an existing part of the schema.
fn check_references(document: &serde_json::Value) -> Result<(), ValidationError> {
    let mut wrong = None;
    let mut has_ids = false;
    keywords::visit_schemas(document, &mut |schema, at| {
        has_ids |= schema.contains_key("$id");
        let Some(target) = schema.get("$ref").and_then(serde_json::Value::as_str) else { return };
        let message = match target.strip_prefix('#') {
            // Inside a subschema with its own `$id`, references start there.
            _ if has_ids => return,
            None => EXTERNAL_REFERENCE.to_owned(),
            Some(pointer) if pointer.starts_with('/') && document.pointer(pointer).is_none() => {
                format!("there is no `{target}` in this schema")
            }
            Some(_) => return,
        };
        wrong.get_or_insert(ValidationError { pointer: format!("{at}/$ref"), message });
    });
    wrong.map_or(Ok(()), Err)
}

/// The first error of an invalid schema. Of several alternatives, that of the alternative with the deepest error.
fn deepest_error(error: &boon::ValidationError<'_, '_>) -> ValidationError {
    let depth = |error: &boon::ValidationError<'_, '_>| error.instance_location.tokens.len();
    let mut deepest = error;
    while let Some(cause) =
        deepest.causes.iter().reduce(|best, other| if depth(other) > depth(best) { other } else { best })
    {
        deepest = cause;
    }
    ValidationError {
        pointer: deepest.instance_location.to_string(),
        message: truncate(&describe(&deepest.kind)),
    }
}

/// The message of an error, phrased to follow the pointer.
fn describe(kind: &ErrorKind<'_, '_>) -> String {
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
        // In the meta-schema, this format occurs for patterns only.
        ErrorKind::Format { got, want: "regex", err } => {
            let why = err.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("`{}` is not a supported pattern: {why}", got.as_str().unwrap_or_default())
        }
        ErrorKind::FalseSchema => "must not be present".to_owned(),
        ErrorKind::Not => "matches a schema that it must not match".to_owned(),
        ErrorKind::AnyOf | ErrorKind::OneOf(None) => "matches none of the allowed schemas".to_owned(),
        ErrorKind::OneOf(Some(_)) => "matches more than one of the allowed schemas".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
