//! An expression and the body that it reads: it is refused, or evaluated within its budget.

#![no_main]

use expression::Expression;
use text::Span;
use value::{Budget, JsonLimits, Map, Value};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (expression, body) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(expression) = Expression::compile(expression, Span::default()) else { return };
    let body = Value::from_json(body.as_bytes(), JsonLimits::default()).unwrap_or_default();
    let scope = Value::from(Map::from_iter([("b", body)]));
    let _ = expression.evaluate(&scope, &Budget::inline());
});
