//! `text.split`: splits a text into a list, such as the path fragment of a webhook.

use std::sync::Arc;

use async_trait::async_trait;
use model::{ActionError, ActionSpec, InputType, ResultType};
use value::{Map, Value};

use super::super::{defaulted, input_error, optional, pure_spec, required, text_of};
use crate::action::{Action, Call};

struct Split {
    spec: ActionSpec,
}

/// Returns the action.
pub(super) fn split() -> Arc<dyn Action> {
    let inputs = vec![
        required("text", InputType::Text, "The text to split."),
        defaulted("separator", InputType::Text, "/", "The text between the pieces."),
        optional(
            "limit",
            InputType::Integer { min: Some(1), max: None },
            "The largest number of pieces; the last one contains the rest.",
        ),
        defaulted("trim", InputType::Boolean, false, "`true` removes white space around each piece."),
        defaulted("skipEmpty", InputType::Boolean, false, "`true` omits empty pieces."),
    ];
    let example: Map = [("text", Value::from("orders/2026/17"))].into_iter().collect();
    let mut spec = pure_spec("text.split", "Split a text into a list", inputs, Value::from(example));
    spec.result = Some("the pieces, in order".to_owned());
    spec.results = ResultType::list(ResultType::Text);
    Arc::new(Split { spec })
}

#[async_trait]
impl Action for Split {
    fn spec(&self) -> &ActionSpec {
        &self.spec
    }

    async fn call(&self, call: Call<'_>) -> Result<Value, ActionError> {
        let flag = |name| call.inputs.get(name).and_then(Value::as_bool).unwrap_or(false);
        let limit = call.inputs.get("limit").and_then(Value::as_i64);
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let separator = text_of(call.inputs, "separator");
        if separator.is_empty() {
            return Err(input_error("`separator` must not be empty"));
        }
        Ok(pieces(text_of(call.inputs, "text"), separator, limit, flag("trim"), flag("skipEmpty")))
    }
}

fn pieces(text: &str, separator: &str, limit: usize, trim: bool, skip_empty: bool) -> Value {
    let tidy = |piece: &str| Value::from(if trim { piece.trim() } else { piece });
    let mut found = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (piece, after) = match text.split_once(separator) {
            // The last allowed part keeps the rest, including separators.
            Some((piece, after)) if found.len() + 1 < limit => (piece, Some(after)),
            _ => (text, None),
        };
        let piece = tidy(piece);
        if !(skip_empty && piece.as_str() == Some("")) {
            found.push(piece);
        }
        rest = after;
    }
    Value::from(found)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(text: &str, limit: usize, trim: bool, skip_empty: bool, expected: &str) {
        assert_eq!(pieces(text, "/", limit, trim, skip_empty).to_json(), expected);
    }

    #[test]
    fn a_text_is_split_at_its_separator() {
        check("orders/2026/17", usize::MAX, false, false, r#"["orders","2026","17"]"#);
        check("/a/", usize::MAX, false, false, r#"["","a",""]"#);
        check("", usize::MAX, false, false, r#"[""]"#);
    }

    #[test]
    fn empty_parts_and_whitespace_are_removed_on_request() {
        check("/ a //b / ", usize::MAX, true, true, r#"["a","b"]"#);
        check(" a /b", usize::MAX, true, false, r#"["a","b"]"#);
        check("", usize::MAX, false, true, "[]");
    }

    #[test]
    fn the_last_part_keeps_the_remainder() {
        check("a/b/c/d", 2, false, false, r#"["a","b/c/d"]"#);
        check("a/b", 1, false, false, r#"["a/b"]"#);
        check("//a/b", 2, false, true, r#"["a","b"]"#);
    }
}
