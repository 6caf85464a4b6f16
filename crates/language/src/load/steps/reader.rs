//! The reader that verbs are lowered from.

use std::sync::Arc;

use expression::Expression;
use expression::template::Template;
use model::automation::{Block, SpannedName};
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Field, MapReader, Node};

use super::{Steps, beside_empty, present_verbs};
use crate::load::Unreadable;
use crate::load::common::{entry_name, named};
use crate::load::keys::Object;
use crate::load::template::{condition, expression, template};

/// A step whose verb is known; its keys are declared.
pub(super) struct StepReader<'n, 'd, 's> {
    map: &'s mut MapReader<'n, 'd>,
    steps: &'s mut Steps<'d>,
    id: &'s Arc<str>,
}

impl<'n, 'd, 's> StepReader<'n, 'd, 's> {
    pub(super) fn new(map: &'s mut MapReader<'n, 'd>, steps: &'s mut Steps<'d>, id: &'s Arc<str>) -> Self {
        Self { map, steps, id }
    }

    /// The record of unreadable names.
    pub(super) fn unreadable(&mut self) -> &mut Unreadable {
        &mut self.steps.unreadable
    }

    /// Records that the value of a key could not be read; `verb` means the verb itself. The problem has been
    /// reported.
    pub(super) fn note(&mut self, key: &'static str) {
        self.steps.unreadable.note_in_step(self.id, key);
    }

    /// A placeholder for a condition that could not be read.
    pub(super) fn placeholder_expression(&mut self, key: &'static str) -> Expression {
        self.note("verb");
        Expression::placeholder(self.key_span(key))
    }

    pub(super) fn diagnostics(&self) -> &'d Diagnostics {
        self.map.diagnostics()
    }

    /// The value of a key.
    pub(super) fn take(&mut self, key: &'static str) -> Field<'n, 'd> {
        self.map.take(key)
    }

    /// Reports a missing key.
    pub(super) fn required(&mut self, key: &'static str) {
        self.map.required(key);
    }

    /// A list of at least one step inside the value of a key.
    pub(super) fn list_of_steps(&mut self, node: &Node, key: &str) -> Option<Block> {
        self.steps.block(node, key)
    }

    /// The span of a key.
    pub(super) fn key_span(&self, key: &str) -> Span {
        self.map.key_span(key)
    }

    /// A text without expressions.
    pub(super) fn named(&mut self, key: &'static str) -> Option<SpannedName> {
        named(self.take(key), self.diagnostics())
    }

    /// A condition, or the value of a `switch`: a bare or wrapped expression.
    pub(super) fn condition(&mut self, key: &'static str) -> Option<Expression> {
        condition(self.take(key).node()?, key, self.diagnostics())
    }

    /// An expression, or a literal list.
    pub(super) fn items(&mut self, key: &'static str) -> Option<Template> {
        let node = self.take(key).node()?;
        if let Some(items) = node.as_list() {
            if items.is_empty() {
                let message = format!("`{key}` has no items, so its steps never run");
                self.diagnostics().push(
                    Diagnostic::warning("empty-list", message, node.span)
                        .help("list the items, or write an expression that gives them"),
                );
            }
            return Some(template(node, self.diagnostics()));
        }
        if node.as_bool().is_some() {
            let message = format!("expected an expression or a list for `{key}`, found {}", node.kind_name());
            self.diagnostics().push(Diagnostic::error("wrong-type", message, node.span));
            return None;
        }
        expression(node, key, self.diagnostics()).map(Template::Expression)
    }

    /// A mapping with fixed keys.
    pub(super) fn object(&mut self, key: &'static str, object: &'static Object) -> Option<MapReader<'n, 'd>> {
        object.open(self.take(key).node()?, self.diagnostics())
    }

    /// A list of at least one step.
    pub(super) fn block(&mut self, key: &'static str) -> Option<Block> {
        let node = self.take(key).node()?;
        self.steps.block(node, key)
    }

    /// Lists of steps by name, at least one. `what` names the names: "a branch".
    pub(super) fn blocks(&mut self, key: &'static str, what: &str) -> Option<Vec<(Arc<str>, Block)>> {
        let field = self.take(key);
        let entries = field.entries()?;
        if entries.is_empty() {
            let span = field.span().unwrap_or_default();
            let message = format!("`{key}` has no steps");
            self.diagnostics().push(
                Diagnostic::error("empty-steps", message, span).help(format!("add {what}: `name: [steps]`")),
            );
            return None;
        }
        let mut blocks = Vec::with_capacity(entries.len());
        for entry in entries {
            entry_name(entry, what, self.diagnostics());
            let block = self.steps.block(&entry.value, &entry.key);
            blocks.push((Arc::from(entry.key.as_str()), block.unwrap_or_default()));
        }
        Some(blocks)
    }

    /// Lists of steps by case value, at least one.
    pub(super) fn cases(&mut self, key: &'static str) -> Option<Vec<(SpannedName, Block)>> {
        let field = self.take(key);
        let entries = field.entries()?;
        if entries.is_empty() {
            let message = format!("`{key}` has no steps");
            let diagnostic = Diagnostic::error("empty-steps", message, field.span().unwrap_or_default());
            self.diagnostics().push(diagnostic.help("add a case: `value: [steps]`"));
        }
        let mut cases = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
            cases.push((name, self.steps.block(&entry.value, &entry.key).unwrap_or_default()));
        }
        Some(cases)
    }

    /// The text under a key; a placeholder if it could not be read.
    pub(super) fn text_or_stand_in(&mut self, key: &'static str) -> Option<SpannedName> {
        let named = self.named(key);
        if named.is_none() && self.take(key).is_present() { Some(self.stand_in(key)) } else { named }
    }

    /// A placeholder at the span of a reported problem, which suppresses follow-up problems there.
    pub(super) fn stand_in(&mut self, key: &'static str) -> SpannedName {
        self.note(key);
        let span = self.take(key).span().unwrap_or_else(|| self.key_span(key));
        SpannedName { name: String::new(), span }
    }

    /// The steps of a list in place of lists by name: each item is a step, or a list of steps.
    pub(super) fn nameless_blocks(&mut self, items: &[Node]) -> Vec<(Arc<str>, Block)> {
        let mut blocks = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let list = match (item.as_list(), item.as_map()) {
                (Some(list), _) => list,
                (None, Some(map)) if !present_verbs(map).is_empty() => std::slice::from_ref(item),
                _ => {
                    self.unreadable().note_names(item);
                    continue;
                }
            };
            blocks.push((Arc::from(index.to_string()), self.steps.steps(list)));
        }
        blocks
    }

    /// A mapping from names to values with expressions. `what` names the names: "a variable".
    pub(super) fn templates(&mut self, key: &'static str) -> Option<Vec<(SpannedName, Template)>> {
        let diagnostics = self.diagnostics();
        if !beside_empty(self.map, key).is_empty() {
            return None;
        }
        let entries = self.take(key).entries()?;
        let read = entries.iter().map(|entry| {
            let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
            (name, template(&entry.value, diagnostics))
        });
        Some(read.collect())
    }
}
