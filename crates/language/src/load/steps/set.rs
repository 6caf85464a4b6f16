//! `set`: defines variables.

use std::sync::Arc;

use model::automation::Verb;
use text::diagnostic::Diagnostic;
use text::yaml::Node;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::common::entry_name;
use crate::load::keys::{IDENTIFIER, Key, Shape, is_identifier};
use crate::load::template::template;

pub(super) static SET: VerbSpec = VerbSpec {
    word: "set",
    what: "a `set` step",
    about: "Sets variables: `total` is then `vars.total`. Its result is the values.",
    marks: &["set"],
    keys: &[Key::required(
        "set",
        Shape::NonEmptyMapOf(IDENTIFIER, &Shape::Template),
        "Names and their values, which may contain `${{ }}`.",
    )],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let diagnostics = step.diagnostics();
    let field = step.take("set");
    if let Some((name, value)) = field.node().and_then(Node::as_str).and_then(assignment) {
        let (node, meant) = (field.node()?, format!("{{{name}: {value}}}"));
        let message = "`set` takes names and values, not an assignment";
        diagnostics.push(
            Diagnostic::error("wrong-type", message, node.head())
                .help(format!("write `set: {meant}`"))
                .replace(node.span, meant),
        );
        step.unreadable().note_name(name);
        return None;
    }
    let entries = field.entries()?;
    if entries.is_empty() {
        let span = field.span().unwrap_or_default();
        let diagnostic = Diagnostic::error("empty-set", "`set` names no values", span);
        diagnostics.push(diagnostic.help("add one: `name: value`"));
    }
    let mut values = Vec::with_capacity(entries.len());
    for entry in entries {
        let name = entry_name(entry, "a variable", diagnostics);
        let value = template(&entry.value, diagnostics);
        if name.is_none() {
            step.unreadable().note_name(&entry.key);
        }
        values.push((Arc::from(entry.key.as_str()), value));
    }
    Some(Verb::Set(values))
}

/// The name and the literal of `total = 1`.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let is_text = value.len() > 1
        && ['\'', '"'].iter().any(|quote| value.starts_with(*quote) && value.ends_with(*quote))
        && value.matches(['\'', '"', '\\']).count() == 2;
    let is_literal = is_text || value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
    (is_identifier(name) && is_literal).then_some((name, value))
}
