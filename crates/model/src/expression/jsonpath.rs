//! JSONPath (RFC 9535) on `jsonpath-rust`.

use jsonpath_rust::parser::model::{JpQuery, Segment, Selector};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;

use super::path::{self, Segment as Step};
use super::{Reference, SyntaxError};
use crate::value::Value;

pub(super) struct Query {
    query: JpQuery,
    /// The whole query where it names one place at most: walked like a plain path, so that a miss names it.
    singular: Option<Vec<Step>>,
    names: Vec<String>,
}

/// Longer queries are refused before the parser sees them.
const MAX_LENGTH: usize = 4096;

impl Query {
    pub(super) fn compile(text: &str) -> Result<Self, SyntaxError> {
        let error = |message: String| SyntaxError { message, at: 0..text.len() };
        if text.len() > MAX_LENGTH {
            return Err(error(format!("a JSONPath query may have at most {MAX_LENGTH} bytes")));
        }
        let query = parse_json_path(text)
            .map_err(|cause| error(format!("not a JSONPath query: {}", brief(&cause))))?;
        let steps: Vec<Option<Step>> = query.segments.iter().map(step).collect();
        let names = steps
            .iter()
            .map_while(|step| match step {
                Some(Step::Name(name)) => Some(name.clone()),
                _ => None,
            })
            .collect();
        let singular = steps.into_iter().collect();
        Ok(Self { query, singular, names })
    }

    pub(super) fn references(&self) -> Vec<Reference> {
        let optional = self.singular.is_none();
        if self.names.is_empty() {
            Vec::new()
        } else {
            vec![Reference { path: self.names.clone(), optional }]
        }
    }

    pub(super) fn evaluate(&self, scope: &Value) -> Result<Value, String> {
        if let Some(steps) = &self.singular {
            return path::walk(scope, steps);
        }
        let found = js_path_process(&self.query, scope).map_err(|cause| brief(&cause))?;
        Ok(found.into_iter().map(|found| found.val().clone()).collect())
    }
}

/// A segment that names at most one place.
fn step(segment: &Segment) -> Option<Step> {
    match segment {
        Segment::Selector(Selector::Name(name)) => Some(Step::Name(name.clone())),
        Segment::Selector(Selector::Index(index)) => Some(Step::Index(*index)),
        _ => None,
    }
}

fn brief(cause: &impl std::fmt::Display) -> String {
    let text = cause.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next_back().unwrap_or("it cannot be read").trim_start_matches("= ").to_owned()
}
