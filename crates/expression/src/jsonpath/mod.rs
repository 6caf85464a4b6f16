//! JSONPath (RFC 9535): `jsonpath-rust` parses a query, [`evaluation`] evaluates it under a budget.

mod dependencies;
mod evaluation;
mod types;

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use value::Value;
use value::budget::Budget;

use super::failure::Failure;
use super::path::{self, Segment as Step};
use super::{Reference, SyntaxError};

pub(super) struct Query {
    query: JpQuery,
    /// The segments of a singular query, which is walked like a plain path, so that its error names the missing member.
    singular: Option<Box<[Step<Box<str>>]>>,
    /// True if its path is statically known to its end.
    is_direct_path: bool,
}

/// The longest query, in bytes; longer ones are rejected before parsing.
const MAX_LENGTH: usize = 4096;

impl Query {
    /// Compiles a query and returns it with the paths that it reads, its own first.
    pub(super) fn compile(text: &str) -> Result<(Self, Vec<Reference>), SyntaxError> {
        let error = |message: String| SyntaxError::new(message, 0..text.len());
        if text.len() > MAX_LENGTH {
            return Err(error(format!("a JSONPath query may have at most {MAX_LENGTH} bytes")));
        }
        if let Some(at) = invalid_space(text) {
            let message =
                "not a JSONPath query: a name with a space in it is written in brackets: `['first name']`";
            return Err(SyntaxError::new(message, at));
        }
        let query = parse_json_path(text)
            .map_err(|cause| error(format!("not a JSONPath query: {}", last_line(&cause))))?;
        types::check(&query).map_err(|message| error(format!("not a JSONPath query: {message}")))?;
        let singular: Option<Box<[_]>> = query.segments.iter().map(step).collect();
        let references = dependencies::references(&query, singular.is_some());
        let begins = matches!(query.segments.first(), Some(Segment::Selector(Selector::Name(_))));
        let whole = begins && query.segments.iter().all(|segment| matches!(segment, Segment::Selector(_)));
        Ok((Self { query, singular, is_direct_path: whole }, references))
    }

    /// True if the query selects at most one node.
    pub(super) fn is_singular(&self) -> bool {
        self.singular.is_some()
    }

    /// True if the path of the query is statically known to its end.
    pub(super) fn is_direct_path(&self) -> bool {
        self.is_direct_path
    }

    pub(super) fn evaluate(&self, scope: &Value, budget: &Budget) -> Result<Value, Failure> {
        if let Some(steps) = &self.singular {
            return Ok(path::walk(scope, steps.iter().map(Step::as_ref), path::item)?);
        }
        let nodes = evaluation::Evaluation::new(scope, budget).nodes(&self.query.segments)?;
        budget.allocate_list(nodes.len())?;
        Ok(nodes.into_iter().cloned().collect())
    }
}

/// The range of a word that follows another word or a dot after white space, outside quotes. RFC 9535 has no such syntax, but
/// `jsonpath-rust` parses `$.a b` as the name `a b`, and accepts `$. a` in some positions.
fn invalid_space(text: &str) -> Option<std::ops::Range<usize>> {
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
        // Quotes and quoted text are not words.
        last = if quote.is_some() { ' ' } else { c };
        spaced = false;
    }
    None
}

/// The step of a segment that selects at most one node; `None` for other segments.
fn step(segment: &Segment) -> Option<Step<Box<str>>> {
    match segment {
        Segment::Selector(Selector::Name(name)) => Some(Step::Name(name.as_str().into())),
        Segment::Selector(Selector::Index(index)) => Some(Step::Index(*index)),
        _ => None,
    }
}

fn last_line(cause: &impl std::fmt::Display) -> String {
    let text = cause.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next_back().unwrap_or("it cannot be read").trim_start_matches("= ").to_owned()
}
