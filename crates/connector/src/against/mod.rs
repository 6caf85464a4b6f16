//! Compares the examples and the results of a connector with the public OpenAPI description of its service (2.0, 3.0, 3.1),
//! without calling the service.
//!
//! The request of each example must be one of the described operations: its path, its parameters and its body with no key that the
//! description does not have. The answer of an example must fit the described response, and each declared field of the results must
//! be described.

mod operation;
mod results;
mod schema;

use serde_json::Value;

use crate::action::Action;
use crate::import::Document;
use crate::manifest::{self, Shown};
use crate::registry::Registry;
use crate::stages::StatusExample;
use operation::Exchange;

/// A difference between a connector and the description of its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The full name of the action.
    pub action: String,
    /// The difference, as a sentence for people.
    pub message: String,
}

/// Compares the actions of a connector with an OpenAPI document. Actions that send no request are left out, and so are raw requests,
/// whose example is any request.
///
/// # Errors
/// Returns a message if the document is not OpenAPI, or if there is no such connector.
pub fn differences(registry: &Registry, name: &str, document: &Value) -> Result<Vec<Difference>, String> {
    let document = Document::new(document)?;
    let connector = registry.connector(name).ok_or_else(|| format!("there is no connector `{name}`"))?;
    let mut found = Vec::new();
    for action in connector.actions.iter().filter_map(|action| registry.action(action)) {
        if action.is_raw() {
            continue;
        }
        let messages = match manifest::show(&**action) {
            None => continue,
            Some(Err(words)) => vec![words],
            Some(Ok(shown)) => match Exchange::find(&document, &shown) {
                None => vec![format!("the document has no operation for `{}`", shown.request)],
                Some(exchange) => {
                    let mut messages = exchange.request_differences(&shown);
                    messages.extend(exchange.answer_differences(action.example_answer()));
                    match action.example_status() {
                        None => messages.extend(exchange.result_differences(&action.answer_type())),
                        Some(status) => messages.extend(status_differences(&document, &**action, status)),
                    }
                    messages
                }
            },
        };
        let action = action.spec().name.clone();
        found.extend(messages.into_iter().map(|message| Difference { action: action.clone(), message }));
    }
    Ok(found)
}

/// Returns the differences between the last look at the operation of an example and the document.
fn status_differences(document: &Document<'_>, action: &dyn Action, status: &StatusExample) -> Vec<String> {
    let shown = Shown { request: status.request.clone(), body: None, headers: value::Map::new() };
    let Some(exchange) = Exchange::find(document, &shown) else {
        return vec![format!("the document has no operation for `{}`", shown.request)];
    };
    let mut messages = exchange.request_differences(&shown);
    messages.extend(exchange.answer_differences(Some(&status.answer)));
    messages.extend(exchange.result_differences(&action.answer_type()));
    messages.into_iter().map(|words| format!("the look at the operation: {words}")).collect()
}

#[cfg(test)]
mod tests;
