//! `data.*`: conversions of JSON and XML between text and values. The actions for CSV are in the crate `systems`.

mod xml;

use std::sync::Arc;

use model::{InputSpec, InputType, ResultType};
use serde_json::json;
use value::{Map, Value};

use super::pure::{PureActionSpec, flag, function};
use super::{defaulted, optional, required};
use crate::action::Action;

/// The largest output in bytes, equal to the limit of a step's result.
const MAX_OUTPUT: usize = 16 << 20;

/// Returns the actions of the connector.
pub(crate) fn actions() -> Vec<Arc<dyn Action>> {
    let declared = [parse_json(), to_json(), parse_xml(), to_xml()];
    declared.into_iter().map(PureActionSpec::action).collect()
}

fn parse_json() -> PureActionSpec {
    PureActionSpec {
        name: "data.parseJson",
        title: "Parse JSON",
        about: Some("Numbers keep all their digits."),
        inputs: vec![document("The JSON: text, or a file.")],
        gives: ("the parsed value", ResultType::Any),
        example: json!({"data": "{\"orderId\": \"17\", \"quantity\": 2}"}),
        run: |inputs| function("parseJson", inputs),
    }
}

fn to_json() -> PureActionSpec {
    PureActionSpec {
        name: "data.toJson",
        title: "Write values as JSON",
        about: None,
        inputs: vec![
            required("value", InputType::Any, "The value; a file becomes its text, or base64."),
            defaulted(
                "pretty",
                InputType::Boolean,
                false,
                "`true` writes it over several lines, for people.",
            ),
        ],
        gives: ("the JSON, as text", ResultType::Text),
        example: json!({"value": {"orderId": "17", "quantity": 2}, "pretty": true}),
        run: |inputs| {
            let value = inputs.get("value").cloned().unwrap_or_default();
            if !flag(inputs, "pretty") {
                return bounded(value.to_json());
            }
            serde_json::to_string_pretty(&value.to_serde())
                .map_err(|error| error.to_string())
                .and_then(bounded)
        },
    }
}

fn parse_xml() -> PureActionSpec {
    PureActionSpec {
        name: "data.parseXml",
        title: "Parse XML",
        about: Some(
            "The document is a map with the name of its root. An element becomes its text, or a map if it has attributes or children: attributes under `@name`, children under their names, text under `#text`. Children of one name become a \
             list. Entities are not expanded, and nothing is fetched.",
        ),
        inputs: vec![
            document("The XML: text, or a file."),
            optional(
                "lists",
                InputType::List { items: Box::new(InputType::Text) },
                "Names of elements that become a list even if there is only one.",
            ),
        ],
        gives: ("the document as a map", ResultType::map(ResultType::Any)),
        example: json!({"data": "<order id=\"17\"><item>pen</item></order>", "lists": ["item"]}),
        run: |inputs| function("parseXml", inputs),
    }
}

fn to_xml() -> PureActionSpec {
    PureActionSpec {
        name: "data.toXml",
        title: "Write values as XML",
        about: Some(
            "Accepts the result of `data.parseXml`: a map with one root; `@name` is an attribute, `#text` text, a list repeats its element.",
        ),
        inputs: vec![
            required(
                "value",
                InputType::Map { values: Box::new(InputType::Any) },
                "The document: a map with one entry, its root.",
            ),
            defaulted("declaration", InputType::Boolean, true, "`true`: it begins with `<?xml …?>`."),
        ],
        gives: ("the XML, as text", ResultType::Text),
        example: json!({"value": {"order": {"@id": "17", "item": ["pen", "ink"]}}}),
        run: |inputs| {
            let empty = Map::new();
            let value = inputs.get("value").and_then(Value::as_map).unwrap_or(&empty);
            xml::render(value, flag(inputs, "declaration")).map(Value::from)
        },
    }
}

fn document(about: &str) -> InputSpec {
    required("data", InputType::Any, about)
}

fn bounded(text: String) -> Result<Value, String> {
    if text.len() > MAX_OUTPUT {
        return Err(format!("the text is larger than {} MiB", MAX_OUTPUT >> 20));
    }
    Ok(Value::from(text))
}
