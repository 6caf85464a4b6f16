//! Canonical text of a template, used to compare two templates for equality.

use expression::template::{Part, Template};

/// Returns the canonical text of a template.
pub fn canonical_text(template: &Template) -> String {
    match template {
        Template::Literal(value) => value.to_json(),
        Template::Expression(expression) => format!("${{{{{}}}}}", expression.text()),
        Template::Text(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.to_string(),
                Part::Expression(expression) => format!("${{{{{}}}}}", expression.text()),
            })
            .collect(),
        Template::List(items) => {
            format!("[{}]", items.iter().map(canonical_text).collect::<Vec<_>>().join(","))
        }
        Template::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key}:{}", canonical_text(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
    }
}
