//! Lowering of patterns: a value, or matcher rules with a `$`.

use model::automation::SpannedName;
use model::test_suite::{Matcher, Pattern, Rule};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Entry, Field, Kind, Node};
use value::Value;

use super::super::common::no_expression;
use super::super::template::literal;

/// The matcher rules.
const RULES: [&str; 7] = ["$type", "$contains", "$startsWith", "$length", "$exactly", "$not", "$absent"];

pub(super) fn read(node: &Node, diagnostics: &Diagnostics) -> Pattern {
    let matcher = match &node.kind {
        Kind::Map(map) if is_rules(node) => rules(map.iter(), diagnostics),
        Kind::Map(map) => {
            let entries = map.iter().map(|entry| {
                let name = SpannedName { name: entry.key.clone(), span: entry.key_span };
                (name, read(&entry.value, diagnostics))
            });
            Matcher::Map(entries.collect())
        }
        Kind::List(items) => Matcher::List(items.iter().map(|item| read(item, diagnostics)).collect()),
        Kind::String(text) => {
            if let Some(at) = text.value.find("${{").filter(|at| !text.value[..*at].ends_with('$')) {
                diagnostics.push(
                    Diagnostic::error(
                        "no-expression-here",
                        "what is expected is written out",
                        text.locate_span(at, text.value.len()),
                    )
                    .help("compare two values with an expression below `that`: `result.id == steps.createPage.result.id`"),
                );
            }
            Matcher::Equal(literal_text(node))
        }
        _ => Matcher::Equal(literal(node, "what is expected", diagnostics)),
    };
    Pattern { span: node.head(), matcher }
}

/// The text itself, with `$${{` as `${{`.
fn literal_text(node: &Node) -> Value {
    Value::from(node.as_str().unwrap_or_default().replace("$${{", "${{"))
}

/// True if the mapping contains matcher rules in place of a value.
pub(super) fn is_rules(node: &Node) -> bool {
    node.as_map().is_some_and(|map| map.iter().any(is_rule))
}

fn is_rule(entry: &Entry) -> bool {
    entry.key.starts_with('$')
}

fn rules<'n>(entries: impl Iterator<Item = &'n Entry>, diagnostics: &Diagnostics) -> Matcher {
    let mut rules = Vec::new();
    for entry in entries {
        let name = RULES.iter().copied().find(|name| *name == entry.key);
        if !is_rule(entry) {
            let message = format!("`{}` cannot stand beside a rule", entry.key);
            diagnostics.push(
                Diagnostic::error("conflicting-keys", message, entry.key_span)
                    .help("a map has either entries to compare, or rules, which begin with `$`"),
            );
        } else if let Some(name) = name {
            rules.extend(rule(name, &entry.value, diagnostics));
        } else {
            let message = format!("there is no rule `{}`", entry.key);
            diagnostics.push(
                Diagnostic::error("unknown-key", message, entry.key_span).expected_names(&entry.key, RULES),
            );
        }
    }
    Matcher::Rules(rules)
}

fn rule(name: &'static str, node: &Node, diagnostics: &Diagnostics) -> Option<Rule> {
    let field = Field::new(node, name, diagnostics);
    match name {
        "$type" => {
            let found = field.choice(&Rule::TYPES)?;
            Rule::TYPES.into_iter().find(|kind| *kind == found).map(Rule::Type)
        }
        "$contains" => Some(Rule::Contains(Box::new(read(node, diagnostics)))),
        "$startsWith" => {
            let text = field.text().filter(|text| no_expression(text, diagnostics))?;
            Some(Rule::StartsWith(text.value.clone()))
        }
        "$length" => {
            let length = field.integer(0..=i64::from(u32::MAX));
            length.and_then(|length| usize::try_from(length).ok()).map(Rule::Length)
        }
        "$exactly" => Some(Rule::Exactly(literal(node, "what is expected", diagnostics))),
        "$not" => Some(Rule::Not(Box::new(read(node, diagnostics)))),
        _ if field.bool()? => Some(Rule::Absent),
        _ => {
            diagnostics.push(
                Diagnostic::error("unknown-value", "`$absent` is always true", node.span)
                    .help("for a value that must be there write `{$type: any}`"),
            );
            None
        }
    }
}
