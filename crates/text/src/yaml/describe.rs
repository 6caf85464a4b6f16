//! Words for values in messages.

use super::error_messages::shorten;
use super::{Kind, Node};
use crate::diagnostic::Diagnostics;

/// Describes a value for a message.
pub(super) fn describe(node: &Node, diagnostics: &Diagnostics) -> String {
    match &node.kind {
        Kind::String(text) if is_expression(&text.value) => "an expression".to_owned(),
        Kind::String(text) => format!("the text `{}`", shorten(&text.value)),
        Kind::Integer(_) | Kind::Unsigned(_) | Kind::Float(_) => {
            format!("the number `{}`", shorten(diagnostics.source().slice(node.span)))
        }
        _ => node.kind_name().to_owned(),
    }
}

/// True if the text has an expression.
pub(super) fn is_expression(text: &str) -> bool {
    text.contains("${{")
}

/// Joins names for a message: `a`, `b` or `c`.
pub(super) fn join_names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
