//! The analysis of reads of the second parameter.

use tree_sitter::Node;

use super::{Code, children, visit};
use crate::module_info::Reference;

/// The maximum number of reported references.
const MAX: usize = 2_000;
/// The maximum depth of a pattern such as `{a: {b}}` that is followed.
const MAX_DEPTH: usize = 8;

/// The reads of a parameter by a function.
#[derive(Default)]
pub(super) struct Read {
    /// The reads with literal keys.
    pub(super) references: Vec<Reference>,
    /// True if there may be others.
    pub(super) whole: bool,
}

/// The reads of a parameter of `function`, which may be named or destructured.
pub(super) fn find(code: &Code<'_>, function: Node<'_>, parameter: Option<Node<'_>>) -> Read {
    let mut read =
        Read { whole: !is_function(function) || uses_arguments(code, function), ..Read::default() };
    let Some(parameter) = parameter else { return read };
    let found = &mut read;
    let pattern = match parameter.kind() {
        "assignment_pattern" => parameter.child_by_field_name("left").unwrap_or(parameter),
        _ => parameter,
    };
    match pattern.kind() {
        "object_pattern" => taken_apart(code, pattern, found),
        "identifier" => named(code, function, pattern, found),
        _ => found.whole = true,
    }
    read.whole |= read.references.len() > MAX;
    read.references.truncate(MAX);
    read
}

/// True if a function reads its parameters by index, through `arguments`.
fn uses_arguments(code: &Code<'_>, function: Node<'_>) -> bool {
    let mut found = false;
    visit(function, |node| {
        found |= node.kind() == "identifier" && code.text(node) == "arguments";
        !found
    });
    found
}

/// The references by name: `stepResults.list.results`, `stepResults["list"]`, `const {list} = stepResults`.
fn named(code: &Code<'_>, function: Node<'_>, parameter: Node<'_>, found: &mut Read) {
    let name = code.text(parameter);
    visit(function, |node| {
        if node.id() != function.id() && is_function(node) && hides(code, node, name) {
            return false;
        }
        let is_name = matches!(node.kind(), "identifier" | "shorthand_property_identifier");
        if is_name && node.id() != parameter.id() && code.text(node) == name {
            if let Some(reference) = path(code, node) {
                found.references.push(reference);
            } else if let Some(pattern) = assigned_to(node) {
                taken_apart(code, pattern, found);
            } else {
                found.whole = true;
            }
        }
        found.references.len() <= MAX
    });
}

/// The pattern that destructures a name: `const {list} = stepResults`.
fn assigned_to(node: Node<'_>) -> Option<Node<'_>> {
    let parent = node.parent().filter(|parent| parent.kind() == "variable_declarator")?;
    let is_value = parent.child_by_field_name("value").is_some_and(|value| value.id() == node.id());
    parent.child_by_field_name("name").filter(|name| is_value && name.kind() == "object_pattern")
}

/// The path that begins at a name.
fn path(code: &Code<'_>, name: Node<'_>) -> Option<Reference> {
    let mut path = Vec::new();
    let mut first = None;
    let mut optional = false;
    let mut node = name;
    while let Some(parent) = node.parent().filter(|parent| begins_with(*parent, node)) {
        let key = match parent.kind() {
            "member_expression" => {
                parent.child_by_field_name("property").map(|property| (code.text(property), property))
            }
            _ => parent.child_by_field_name("index").and_then(|index| Some((code.literal(index)?, index))),
        };
        let Some((key, place)) = key else { break };
        optional |= !path.is_empty() && parent.child_by_field_name("optional_chain").is_some();
        optional |= children(parent).iter().any(|child| !path.is_empty() && child.kind() == "optional_chain");
        first.get_or_insert(place);
        path.push(key.to_owned());
        node = parent;
    }
    let first = first?;
    optional |= node.parent().is_some_and(|parent| has_fallback(code, parent, node));
    Some(Reference { path, at: code.at(first), length: length(code, first), optional })
}

fn begins_with(parent: Node<'_>, node: Node<'_>) -> bool {
    matches!(parent.kind(), "member_expression" | "subscript_expression")
        && parent.child_by_field_name("object").is_some_and(|object| object.id() == node.id())
}

/// `… ?? x` and `… || x`: a missing value is expected.
fn has_fallback(code: &Code<'_>, parent: Node<'_>, node: Node<'_>) -> bool {
    let is_left = parent.child_by_field_name("left").is_some_and(|left| left.id() == node.id());
    let operator = parent.child_by_field_name("operator").map(|operator| code.text(operator));
    parent.kind() == "binary_expression" && is_left && matches!(operator, Some("??" | "||"))
}

/// The references of a pattern: `{list: {results}, other = {}}`.
fn taken_apart(code: &Code<'_>, pattern: Node<'_>, found: &mut Read) {
    let mut open = vec![(pattern, None::<Reference>)];
    while let Some((pattern, above)) = open.pop() {
        for entry in children(pattern) {
            let (entry, optional) = match entry.kind() {
                "object_assignment_pattern" => match entry.child_by_field_name("left") {
                    Some(left) => (left, true),
                    None => continue,
                },
                _ => (entry, false),
            };
            let (key, value) = match entry.kind() {
                "shorthand_property_identifier_pattern" => (entry, None),
                "pair_pattern" => match entry.child_by_field_name("key") {
                    Some(key) => (key, entry.child_by_field_name("value")),
                    None => continue,
                },
                // A rest element reads everything.
                kind => {
                    found.whole |= kind == "rest_pattern";
                    continue;
                }
            };
            let (optional, value) = match value.filter(|value| value.kind() == "assignment_pattern") {
                Some(default) => (true, default.child_by_field_name("left")),
                None => (optional, value),
            };
            let Some(name) = key_text(code, key) else {
                found.whole = true;
                continue;
            };
            let reference = match &above {
                None => Reference { path: vec![name], at: code.at(key), length: length(code, key), optional },
                Some(above) => {
                    let path = [above.path.clone(), vec![name]].concat();
                    Reference { path, optional: above.optional || optional, ..above.clone() }
                }
            };
            match value.filter(|value| value.kind() == "object_pattern" && reference.path.len() < MAX_DEPTH) {
                Some(inner) => open.push((inner, Some(reference))),
                None => found.references.push(reference),
            }
            if found.references.len() > MAX {
                return;
            }
        }
    }
}

fn key_text(code: &Code<'_>, key: Node<'_>) -> Option<String> {
    match key.kind() {
        "property_identifier" | "shorthand_property_identifier_pattern" => Some(code.text(key).to_owned()),
        "string" => code.literal(key).map(str::to_owned),
        _ => None,
    }
}

fn length(code: &Code<'_>, node: Node<'_>) -> u32 {
    u32::try_from(code.text(node).chars().count()).unwrap_or(u32::MAX)
}

fn is_function(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "function_expression"
            | "function_declaration"
            | "generator_function"
            | "generator_function_declaration"
            | "arrow_function"
            | "method_definition"
    )
}

/// True if a parameter of an inner function has the same name.
fn hides(code: &Code<'_>, function: Node<'_>, name: &str) -> bool {
    code.parameters(function).into_iter().any(|parameter| code.plain_name(parameter).as_deref() == Some(name))
}
