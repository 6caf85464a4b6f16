//! JSONPath (RFC 9535): `jsonpath-rust` reads a query, [`evaluation`] evaluates it under a budget.

mod evaluation;
mod reading;
mod types;

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;

use super::evaluation::Failure;
use super::path::{self, Segment as Step};
use super::{Reference, SyntaxError};
use crate::budget::Budget;
use crate::value::Value;

pub(super) struct Query {
    query: JpQuery,
    /// The whole query where it names one place at most: walked like a plain path, so that a miss names it.
    singular: Option<Box<[Step<Box<str>>]>>,
    /// Whether its own path is known to its end.
    whole: bool,
}

/// Longer queries are refused before the parser sees them.
const MAX_LENGTH: usize = 4096;

impl Query {
    /// The query, and the paths that it reads, its own first.
    pub(super) fn compile(text: &str) -> Result<(Self, Vec<Reference>), SyntaxError> {
        let error = |message: String| SyntaxError::new(message, 0..text.len());
        if text.len() > MAX_LENGTH {
            return Err(error(format!("a JSONPath query may have at most {MAX_LENGTH} bytes")));
        }
        if let Some(at) = wrong_space(text) {
            let message =
                "not a JSONPath query: a name with a space in it is written in brackets: `['first name']`";
            return Err(SyntaxError::new(message, at));
        }
        let query = parse_json_path(text)
            .map_err(|cause| error(format!("not a JSONPath query: {}", brief(&cause))))?;
        types::check(&query).map_err(|message| error(format!("not a JSONPath query: {message}")))?;
        let singular: Option<Box<[_]>> = query.segments.iter().map(step).collect();
        let references = reading::references(&query, singular.is_some());
        let begins = matches!(query.segments.first(), Some(Segment::Selector(Selector::Name(_))));
        let whole = begins && query.segments.iter().all(|segment| matches!(segment, Segment::Selector(_)));
        Ok((Self { query, singular, whole }, references))
    }

    /// Whether it names one place at most.
    pub(super) fn is_singular(&self) -> bool {
        self.singular.is_some()
    }

    /// Whether its own path is known to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    pub(super) fn evaluate(&self, scope: &Value, budget: &Budget) -> Result<Value, Failure> {
        if let Some(steps) = &self.singular {
            return Ok(path::walk(scope, steps.iter().map(Step::as_ref), path::item)?);
        }
        let nodes = evaluation::Evaluation::new(scope, budget).nodes(&self.query.segments)?;
        budget.list(nodes.len())?;
        Ok(nodes.into_iter().cloned().collect())
    }
}

/// A word that follows another, or a dot, after nothing but spaces, outside of quotes: nowhere in RFC 9535, but
/// `jsonpath-rust` takes `$.a b` for the name `a b`, and `$. a` in some places.
fn wrong_space(text: &str) -> Option<std::ops::Range<usize>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    let (mut quote, mut escaped, mut last, mut spaced) = (None, false, ' ', false);
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c.is_ascii_whitespace() => {
                spaced = true;
                continue;
            }
            None if spaced && (is_word(last) || last == '.') && is_word(c) => {
                let end = text[at..].find(|c| !is_word(c)).map_or(text.len(), |length| at + length);
                return Some(at..end);
            }
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None => {}
        }
        // What stands in quotes is no word, and neither are the quotes.
        last = if quote.is_some() { ' ' } else { c };
        spaced = false;
    }
    None
}

/// A segment that names at most one place.
fn step(segment: &Segment) -> Option<Step<Box<str>>> {
    match segment {
        Segment::Selector(Selector::Name(name)) => Some(Step::Name(name.as_str().into())),
        Segment::Selector(Selector::Index(index)) => Some(Step::Index(*index)),
        _ => None,
    }
}

fn brief(cause: &impl std::fmt::Display) -> String {
    let text = cause.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next_back().unwrap_or("it cannot be read").trim_start_matches("= ").to_owned()
}
