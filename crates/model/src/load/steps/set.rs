//! `set`: names values.

use std::sync::Arc;

use super::VerbSpec;
use super::reader::StepReader;
use crate::automation::Verb;
use crate::diagnostic::Diagnostic;
use crate::load::common::entry_name;
use crate::load::keys::{IDENTIFIER, Key, Shape};
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
