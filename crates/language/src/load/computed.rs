//! Settings that an expression may compute: numbers, durations, and names out of a list.

use std::time::Duration;

use expression::Expression;
use model::automation::setting::{CountRule, DurationRule};
use model::automation::{NameSelection, NameSetting, Setting, SpannedName};
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Field, Kind, MapReader, Node, Text, replace_within};

use super::common::{duration_within, named, shorten};
use super::keys::{Choice, Key, Object, Shape};
use super::lint::begins_with_root;
use super::policy::small;
use super::template::computed;

/// A whole number of the rule's range, or the expression that computes one.
pub(super) fn count(
    field: Field<'_, '_>,
    rule: &CountRule,
    diagnostics: &Diagnostics,
) -> Option<Setting<u32>> {
    setting(field, rule.name, diagnostics, |field| field.integer(rule.range()).map(small))
}

/// A duration of the rule's range, or the expression that computes one.
pub(super) fn duration(
    field: Field<'_, '_>,
    rule: &DurationRule,
    diagnostics: &Diagnostics,
) -> Option<Setting<Duration>> {
    let key = last_key(rule.name);
    setting(field, rule.name, diagnostics, |field| duration_within(field, key, &rule.range(), diagnostics))
}

/// Returns `max` of `retry.max`.
fn last_key(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}

fn setting<'n, 'd, T>(
    field: Field<'n, 'd>,
    name: &'static str,
    diagnostics: &Diagnostics,
    literal: impl FnOnce(Field<'n, 'd>) -> Option<T>,
) -> Option<Setting<T>> {
    let node = field.node()?;
    let Kind::String(text) = &node.kind else { return literal(field).map(Setting::Literal) };
    if text.value.contains("${{") {
        let expression = computed(node, last_key(name), diagnostics);
        return Some(Setting::Computed(expression.unwrap_or_else(|| Expression::placeholder(node.span))));
    }
    if let Some(diagnostic) = bare_expression(node, text, diagnostics) {
        diagnostics.push(diagnostic);
        return None;
    }
    literal(field).map(Setting::Literal)
}

/// Reports a text that begins with a name of expressions, such as `inputs.limit`, where a value is expected.
fn bare_expression(node: &Node, text: &Text, diagnostics: &Diagnostics) -> Option<Diagnostic> {
    let value = text.value.trim();
    if !begins_with_root(value) || Expression::compile(value, node.span).is_err() {
        return None;
    }
    let message = format!("this is the text `{value}` itself: a value is read in `${{{{ }}}}`");
    let meant = format!("${{{{ {value} }}}}");
    let fix = replace_within(diagnostics.source(), text, 0..text.value.len(), &meant);
    let diagnostic = Diagnostic::error("bare-expression", message, node.span);
    Some(diagnostic.help(format!("write `{meant}`")).replacement(fix))
}

/// A name out of a list: its mapping, and the words for messages.
pub(super) struct Selection {
    /// The mapping.
    object: &'static Object,
    /// The key of the setting: `connection`.
    key: &'static str,
    /// The key of the expression: `name`.
    selector: &'static str,
    /// The selected things, for messages: "connections".
    things: &'static str,
    /// The reason for the list: "credentials".
    reason: &'static str,
}

pub(super) static CONNECTION: Selection = Selection {
    object: &CONNECTION_KEYS,
    key: "connection",
    selector: "name",
    things: "connections",
    reason: "credentials",
};

pub(super) static CALL: Selection =
    Selection { object: &CALL_KEYS, key: "call", selector: "id", things: "automations", reason: "code" };

pub(crate) static CONNECTION_KEYS: Object = Object {
    what: "a computed connection",
    keys: &[
        Key::required(
            "name",
            Shape::WrappedExpression,
            "An expression in `${{ }}`: the name of one of `of`.",
        ),
        Key::required(
            "of",
            Shape::OneOrMore(&Shape::NonBlankText),
            "The connections that it can be. Any other name fails the step before anything is sent.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) static CALL_KEYS: Object = Object {
    what: "a computed call",
    keys: &[
        Key::required("id", Shape::WrappedExpression, "An expression in `${{ }}`: the id of one of `of`."),
        Key::required(
            "of",
            Shape::OneOrMore(&Shape::Pattern(super::keys::AUTOMATION_ID)),
            "The automations that it can be. Any other id fails the step before anything starts.",
        ),
    ],
    choice: Choice::Any,
};

impl Selection {
    /// Reads the mapping; `None` if it is not complete. `is_name` checks a name of `of` and reports a wrong one.
    pub(super) fn read(
        &'static self,
        node: &Node,
        diagnostics: &Diagnostics,
        is_name: impl Fn(&SpannedName) -> bool,
    ) -> Option<NameSelection> {
        let mut reader = MapReader::new(node, self.object.what, diagnostics)?;
        reader.allow(&[self.selector, "of"]);
        reader.correct_keys(|_| false);
        let name = self.expression(reader.required(self.selector), diagnostics);
        let of = self.names(reader.take("of"), node.head(), diagnostics, is_name);
        let span = node.head();
        reader.finish();
        Some(NameSelection { name: name?, of: of?, span })
    }

    /// Reports an expression in place of the name itself. Returns true if there is one.
    pub(super) fn refuse_expression(&self, field: Field<'_, '_>, diagnostics: &Diagnostics) -> bool {
        let Some(text) = field.node().and_then(Node::as_text).filter(|text| text.value.contains("${{"))
        else {
            return false;
        };
        let Self { key, selector, things, reason, .. } = self;
        let message =
            format!("data cannot choose any {reason}: the {things} that `{key}` can be must be in the file");
        let written = text.value.trim();
        let help = format!(
            "list them: `{key}: {{{selector}: \"{written}\", of: [NAME, …]}}`; another name fails the step"
        );
        let span = text.locate_span(0, text.value.len());
        diagnostics.push(Diagnostic::error("no-expression-here", message, span).help(help));
        true
    }

    fn expression(&self, field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Expression> {
        let Self { key, selector, things, .. } = self;
        let node = field.node()?;
        match &node.kind {
            Kind::String(text) if text.value.contains("${{") => {
                let expression = computed(node, selector, diagnostics);
                Some(expression.unwrap_or_else(|| Expression::placeholder(node.span)))
            }
            Kind::String(text) => {
                diagnostics.push(bare_expression(node, text, diagnostics).unwrap_or_else(|| {
                    let message =
                        format!("`{selector}` selects one of the {things} in `of`, so it is an expression");
                    let help = format!("write `${{{{ … }}}}`; or name it alone: `{key}: {}`", text.value);
                    Diagnostic::error("wrong-type", message, node.head()).help(help)
                }));
                None
            }
            _ => {
                let message = format!("expected an expression for `{selector}`, found {}", node.kind_name());
                diagnostics.push(Diagnostic::error("wrong-type", message, node.head()));
                None
            }
        }
    }

    fn names(
        &self,
        field: Field<'_, '_>,
        place: Span,
        diagnostics: &Diagnostics,
        is_name: impl Fn(&SpannedName) -> bool,
    ) -> Option<Vec<SpannedName>> {
        let Self { key, things, reason, .. } = self;
        if !field.is_present() {
            let message = format!("`of` is missing: without it data could choose any {reason}");
            let help = format!("list the {things} that `{key}` can be: `of: [NAME, …]`");
            diagnostics.push(Diagnostic::error("missing-key", message, place).help(help));
            return None;
        }
        let items = field.one_or_more()?;
        if items.is_empty() {
            field.error("empty-list", format!("`of` names none of the {things} that `{key}` can be"));
            return None;
        }
        if items.len() > NameSetting::MAX_NAMES {
            let message = format!("`of` has at most {} names, found {}", NameSetting::MAX_NAMES, items.len());
            field.error("out-of-range", message);
            return None;
        }
        let mut names: Vec<SpannedName> = Vec::with_capacity(items.len());
        for name in items.into_iter().filter_map(|item| named(item, diagnostics)) {
            if names.iter().any(|known| known.name == name.name) {
                let message = format!("`{}` is named twice", shorten(&name.name));
                diagnostics.push(Diagnostic::warning("duplicate-value", message, name.span));
            } else if is_name(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then_some(names)
    }
}
