//! A JSONPath query over a document: it is refused, or evaluated within its budget.

#![no_main]

use expression::Expression;
use text::Span;
use value::{Budget, JsonLimits, Value};

const DOCUMENT: &[u8] = br#"{"a": [1, {"b": "x"}, [2, 3]], "c": {"d": null, "e": "text", "f": [true, 1.5]}}"#;

libfuzzer_sys::fuzz_target!(|input: &str| {
    let Ok(query) = Expression::compile(&format!("${input}"), Span::default()) else { return };
    let Ok(document) = Value::from_json(DOCUMENT, JsonLimits::default()) else { return };
    let _ = query.evaluate(&document, &Budget::inline());
});
