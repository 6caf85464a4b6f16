//! `text.*`: splitting, joining, matching and replacing text.

mod pattern;
mod split;

use std::sync::Arc;

use model::{InputType, ResultType};
use serde_json::json;
use value::Value;

use super::pure::PureActionSpec;
use super::{defaulted, required, text_of};
use crate::action::Action;

/// The largest output in bytes, equal to the limit of a step's result.
const MAX_OUTPUT: usize = 16 << 20;

/// Returns the actions of the connector.
pub(crate) fn actions() -> Vec<Arc<dyn Action>> {
    vec![split::split(), join(), pattern::replace(), pattern::matches()]
}

fn join() -> Arc<dyn Action> {
    let declared = PureActionSpec {
        name: "text.join",
        title: "Join a list into a text",
        about: None,
        inputs: vec![
            required(
                "items",
                InputType::List { items: Box::new(InputType::Any) },
                "The items; a list or map among them is written as JSON.",
            ),
            defaulted("separator", InputType::Text, ", ", "The text between two items."),
            defaulted("skipEmpty", InputType::Boolean, false, "`true` omits empty items."),
        ],
        gives: ("the text", ResultType::Text),
        example: json!({"items": ["orders", "2026", "17"], "separator": "/"}),
        run: |inputs| {
            let skip_empty = super::pure::flag(inputs, "skipEmpty");
            let items = inputs.get("items").and_then(Value::as_list).unwrap_or_default();
            let items: Vec<String> =
                items.iter().map(Value::to_text).filter(|item| !(skip_empty && item.is_empty())).collect();
            bounded(items.join(text_of(inputs, "separator")))
        },
    };
    declared.action()
}

fn bounded(text: String) -> Result<Value, String> {
    if text.len() > MAX_OUTPUT {
        return Err(format!("the text is larger than {} MiB", MAX_OUTPUT >> 20));
    }
    Ok(Value::from(text))
}
