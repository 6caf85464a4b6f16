//! Reads GraphQL calls.

use std::sync::Arc;

use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::MapReader;
use value::Value;

use super::action::Wired;
use crate::manifest::{Example, RequestLocation};

/// The query or mutation of an action.
pub(super) struct GraphqlCall {
    pub(super) query: String,
}

pub(super) fn read(mut reader: MapReader<'_, '_>) -> Option<GraphqlCall> {
    let query = reader.required("query").name().map(str::to_owned);
    reader.finish();
    Some(GraphqlCall { query: query? })
}

/// Adds the query to the body, and to the body of the example, which shows the variables only.
pub(super) fn add_query(
    call: &GraphqlCall,
    fixed: &mut Vec<(RequestLocation, Value)>,
    example: Option<&mut Example>,
) {
    let query = Value::from(call.query.as_str());
    fixed.push((RequestLocation::Body(Some(vec!["query".to_owned()])), query.clone()));
    if let Some(Example { body: Some(Value::Map(body)), .. }) = example {
        let shown = body.iter().map(|(name, value)| (name.clone(), value.clone()));
        *body = Arc::new([("query".into(), query)].into_iter().chain(shown).collect());
    }
}

/// Reports variables that the query does not declare.
pub(super) fn check(call: Option<&GraphqlCall>, wired: &[Wired], diagnostics: &Diagnostics) {
    let Some(call) = call else { return };
    for input in wired {
        for variable in input.wire.places.iter().filter_map(variable) {
            if !declares(&call.query, variable) {
                let message = format!("the query declares no variable `${variable}`");
                diagnostics.push(Diagnostic::error("wrong-place", message, input.span));
            }
        }
    }
}

/// The key of GraphQL requests with the variables.
pub(super) const VARIABLES: &str = "variables";

fn variable(place: &RequestLocation) -> Option<&str> {
    match place {
        RequestLocation::Body(Some(path)) => match path.as_slice() {
            [variables, name] if variables == VARIABLES => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// True if the query uses the variable, of which the declaration is one use.
fn declares(query: &str, name: &str) -> bool {
    query.split('$').skip(1).any(|rest| {
        rest.strip_prefix(name)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    })
}
