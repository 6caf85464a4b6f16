//! Finds the state keys that a module names.

use std::collections::HashSet;

use tree_sitter::Node;

use super::{Code, visit};
use crate::module_info::{ModuleInfo, StateKey};

/// The maximum number of reported keys.
const MAX: usize = 1_000;

/// Finds `context.state.get("key")` and the like, also if `state` was destructured before. Every member named
/// `.state` counts: an extra key costs a read of the store, a missed key would be unavailable.
pub(super) fn find(code: &Code<'_>, module_info: &mut ModuleInfo) {
    let names = names(code);
    visit(code.root, |node| {
        if node.kind() == "call_expression"
            && let Some(function) =
                node.child_by_field_name("function").filter(|it| it.kind() == "member_expression")
            && let Some(object) =
                function.child_by_field_name("object").filter(|it| is_state(code, &names, *it))
            && let Some(method) = function.child_by_field_name("property").map(|property| code.text(property))
            && matches!(method, "get" | "set" | "delete")
        {
            let key = node.child_by_field_name("arguments").and_then(|arguments| arguments.named_child(0));
            note(code, module_info, method, key, object);
        }
        module_info.state.len() < MAX && module_info.computed_keys.len() < MAX
    });
}

fn note(
    code: &Code<'_>,
    module_info: &mut ModuleInfo,
    method: &str,
    key: Option<Node<'_>>,
    object: Node<'_>,
) {
    let Some((node, key)) = key.and_then(|key| Some((key, code.literal(key)?))) else {
        module_info.computed_keys.push(code.at(key.unwrap_or(object)));
        return;
    };
    let (read, written) = (method == "get", method != "get");
    match module_info.state.iter_mut().find(|known| known.key == key) {
        Some(known) => {
            known.read |= read;
            known.written |= written;
        }
        None => module_info.state.push(StateKey { key: key.to_owned(), read, written, at: code.at(node) }),
    }
}

fn is_state(code: &Code<'_>, names: &HashSet<&str>, node: Node<'_>) -> bool {
    match node.kind() {
        "member_expression" => {
            node.child_by_field_name("property").is_some_and(|it| code.text(it) == "state")
        }
        "identifier" => names.contains(code.text(node)),
        _ => false,
    }
}

/// The names bound to the state: by `({state}) =>`, `const {state: s} = context`, `const s = context.state`.
fn names<'tree>(code: &Code<'tree>) -> HashSet<&'tree str> {
    let mut names = HashSet::new();
    visit(code.root, |node| {
        match node.kind() {
            "shorthand_property_identifier_pattern" if code.text(node) == "state" => {
                names.insert("state");
            }
            "pair_pattern"
                if node.child_by_field_name("key").is_some_and(|key| code.text(key) == "state") =>
            {
                names.extend(node.child_by_field_name("value").map(|value| code.text(value)));
            }
            "variable_declarator" => {
                let value =
                    node.child_by_field_name("value").filter(|value| value.kind() == "member_expression");
                let property = value.and_then(|value| value.child_by_field_name("property"));
                if property.is_some_and(|property| code.text(property) == "state") {
                    names.extend(node.child_by_field_name("name").map(|name| code.text(name)));
                }
            }
            _ => {}
        }
        true
    });
    names
}
