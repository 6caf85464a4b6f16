//! JSON Schemas (draft 2020-12) that authors write: what the body of a request has to be.
//!
//! A schema stands by itself: it names nothing outside of it, so nothing is fetched. Its patterns run in time linear in
//! the text, so no body can make them hang.

mod keywords;
mod shape;

use std::fmt;
use std::sync::Arc;

use boon::{CompileError, Compiler, Draft, ErrorKind, SchemaIndex, Schemas, UrlLoader, ValidationError};

use crate::action::ResultType;
use crate::value::Value;

/// What the schema is called among schemas; nobody sees it.
const ADDRESS: &str = "schema:///";
/// The most characters of a message about a value.
const MAX_MESSAGE: usize = 300;

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct JsonSchema {
    inner: Arc<Inner>,
}

struct Inner {
    document: serde_json::Value,
    schemas: Schemas,
    root: SchemaIndex,
}

/// What is wrong, and where: a JSON Pointer (RFC 6901), empty for the whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Misfit {
    /// Where, in the schema if it is the schema that is wrong, else in the value.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
}

impl JsonSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// It is no valid schema, or names one outside of it; the place is in the schema.
    pub fn compile(document: serde_json::Value) -> Result<Self, Misfit> {
        check_references(&document)?;
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.use_loader(Box::new(NothingOutside));
        let mut schemas = Schemas::new();
        let compiled = compiler
            .add_resource(ADDRESS, document.clone())
            .and_then(|()| compiler.compile(ADDRESS, &mut schemas));
        match compiled {
            Ok(root) => Ok(Self { inner: Arc::new(Inner { document, schemas, root }) }),
            Err(CompileError::ValidationError { src, .. }) => Err(first(&src)),
            Err(error) => Err(Misfit { pointer: String::new(), message: brief(&error.to_string()) }),
        }
    }

    /// The words in it that are no keywords: where each stands, the word, and the keyword that was probably meant.
    /// Words that begin with `x-` are the author's own.
    #[must_use]
    pub fn strangers(&self) -> Vec<(String, String, Option<&'static str>)> {
        let mut found = Vec::new();
        // Other drafts have other keywords.
        if self
            .inner
            .document
            .get("$schema")
            .is_some_and(|draft| !draft.as_str().unwrap_or_default().contains("2020-12"))
        {
            return found;
        }
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

    /// Whether a value is as the schema says.
    ///
    /// # Errors
    /// The first place where it is not.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        let value = value.to_serde();
        self.inner.schemas.validate(&value, self.inner.root).map_err(|error| first(&error))
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

/// References lead to parts of the schema that exist.
fn check_references(document: &serde_json::Value) -> Result<(), Misfit> {
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
        wrong.get_or_insert(Misfit { pointer: format!("{at}/$ref"), message });
    });
    wrong.map_or(Ok(()), Err)
}

/// The first thing that is wrong: where several shapes were possible, that of the one that came furthest.
fn first(error: &ValidationError<'_, '_>) -> Misfit {
    let depth = |error: &ValidationError<'_, '_>| error.instance_location.tokens.len();
    let mut deepest = error;
    while let Some(cause) =
        deepest.causes.iter().reduce(|best, other| if depth(other) > depth(best) { other } else { best })
    {
        deepest = cause;
    }
    Misfit { pointer: deepest.instance_location.to_string(), message: brief(&words(&deepest.kind)) }
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
