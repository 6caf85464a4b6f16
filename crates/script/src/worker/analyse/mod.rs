//! Analyses a module: checks its syntax, and finds the names it uses.
//!
//! QuickJS decides if a text is JavaScript; a parser's tree shows its content. A cursor walks the tree without
//! recursion, since its author decides how deep it is.

mod references;
mod state;
mod types;

use rquickjs::{Context, Module, Runtime};
use tree_sitter::{Node, TreeCursor};

use super::failure::{self, CODE};
use super::prepare::{parse, position, prepare};
use crate::module::Position;
use crate::module_info::{Export, ModuleInfo, SyntaxError};

/// The analysis of a module, or its syntax errors.
pub(crate) fn check(source: &str) -> Result<ModuleInfo, Vec<SyntaxError>> {
    let (compiled, prepared) = (compile(source), prepare(source));
    match (compiled, prepared) {
        // QuickJS resolves imports and does not report their position.
        (Err(error), Err(import)) if error.message.starts_with("could not load module") => {
            return Err(vec![import]);
        }
        (Err(error), _) => return Err(vec![types::explain(source, error)]),
        (Ok(()), Err(error)) => return Err(vec![error]),
        (Ok(()), Ok(_)) => {}
    }
    let Some(tree) = parse(source) else { return Ok(ModuleInfo::default()) };
    let code = Code { source, root: tree.root_node() };
    let exported = code.exported();
    let function = exported.and_then(|(_, node)| code.resolve(node));
    if let Some(error) = function.and_then(|node| code.no_function(node)) {
        return Err(vec![error]);
    }
    let mut module_info = ModuleInfo { export: exported.map(|(export, _)| export), ..ModuleInfo::default() };
    if let Some(function) = function {
        let parameters = code.parameters(function);
        module_info.parameters = parameters.iter().map(|node| code.plain_name(*node)).collect();
        let read = references::find(&code, function, parameters.get(1).copied());
        let rest = parameters.iter().any(|node| node.kind() == "rest_pattern");
        (module_info.references, module_info.whole) = (read.references, read.whole || rest);
    }
    module_info.whole |= function.is_none();
    state::find(&code, &mut module_info);
    Ok(module_info)
}

/// Compiles the text with QuickJS, without running it.
fn compile(source: &str) -> Result<(), SyntaxError> {
    let start = Position { line: 1, column: 1 };
    let broken = |error: rquickjs::Error| SyntaxError { message: error.to_string(), at: start };
    let runtime = Runtime::new().map_err(broken)?;
    let context = Context::full(&runtime).map_err(broken)?;
    context.with(|ctx| {
        if Module::declare(ctx.clone(), CODE, source.as_bytes()).is_ok() {
            return Ok(());
        }
        let thrown = ctx.catch();
        let text = |key: &str| {
            thrown.as_object().and_then(|error| error.get::<_, String>(key).ok()).unwrap_or_default()
        };
        let at = failure::places(&text("stack"), 0).first().map_or(start, |place| place.at);
        Err(SyntaxError { message: text("message"), at })
    })
}

/// A module's text with its syntax tree.
struct Code<'tree> {
    source: &'tree str,
    root: Node<'tree>,
}

impl<'tree> Code<'tree> {
    fn text(&self, node: Node<'_>) -> &'tree str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    fn at(&self, node: Node<'_>) -> Position {
        position(self.source, node)
    }

    /// The form of the export, and its node.
    fn exported(&self) -> Option<(Export, Node<'tree>)> {
        let mut assigned = None;
        for node in children(self.root) {
            match node.kind() {
                "export_statement" => {
                    let default = children(node).into_iter().any(|child| child.kind() == "default");
                    let given =
                        node.child_by_field_name("value").or_else(|| node.child_by_field_name("declaration"));
                    if let Some(given) = given.filter(|_| default).or_else(|| self.named_default(node)) {
                        return Some((Export::Default, given));
                    }
                }
                "expression_statement" => {
                    let assignment =
                        node.named_child(0).filter(|node| node.kind() == "assignment_expression");
                    let left = assignment.and_then(|node| node.child_by_field_name("left"));
                    if left.is_some_and(|left| self.text(left) == "module.exports") {
                        assigned = assignment.and_then(|node| node.child_by_field_name("right")).or(assigned);
                    }
                }
                _ => {}
            }
        }
        assigned.map(|node| (Export::ModuleExports, node))
    }

    /// The name in `export {name as default}`.
    fn named_default(&self, export: Node<'tree>) -> Option<Node<'tree>> {
        let clause = children(export).into_iter().find(|child| child.kind() == "export_clause")?;
        let specifiers = children(clause).into_iter();
        specifiers
            .filter(|node| {
                node.child_by_field_name("alias").is_some_and(|alias| self.text(alias) == "default")
            })
            .find_map(|node| node.child_by_field_name("name"))
    }

    /// Resolves a name at the module's top level to the function or value itself.
    fn resolve(&self, node: Node<'tree>) -> Option<Node<'tree>> {
        let mut node = node;
        while node.kind() == "parenthesized_expression" {
            node = node.named_child(0)?;
        }
        if node.kind() != "identifier" {
            return Some(node);
        }
        let name = self.text(node);
        let statements = children(self.root).into_iter();
        let declarations =
            statements.map(|statement| statement.child_by_field_name("declaration").unwrap_or(statement));
        declarations.flat_map(|node| [vec![node], children(node)].concat()).find_map(|node| {
            let named = node.child_by_field_name("name").is_some_and(|own| self.text(own) == name);
            match node.kind() {
                "variable_declarator" if named => node.child_by_field_name("value"),
                _ if named => Some(node),
                _ => None,
            }
        })
    }

    /// Reports an export that certainly cannot be called.
    fn no_function(&self, node: Node<'_>) -> Option<SyntaxError> {
        let what = match node.kind() {
            "object" => "an object",
            "array" => "a list",
            "class" | "class_declaration" => "a class",
            "generator_function" | "generator_function_declaration" => "a generator",
            "string" | "template_string" => "a text",
            "number" => "a number",
            "true" | "false" | "null" | "undefined" | "regex" => "a value",
            _ => return None,
        };
        let message = format!(
            "the code exports {what}, and a function is wanted: `export default async (context, stepResults) => {{ … }}`"
        );
        Some(SyntaxError { message, at: self.at(node) })
    }

    /// The parameters of a function.
    fn parameters(&self, function: Node<'tree>) -> Vec<Node<'tree>> {
        if let Some(only) = function.child_by_field_name("parameter") {
            return vec![only];
        }
        let list = function.child_by_field_name("parameters").map(children).unwrap_or_default();
        list.into_iter().filter(|node| node.is_named() && node.kind() != "comment").collect()
    }

    /// The name of a parameter, if it is not a pattern; a default value is ignored.
    fn plain_name(&self, parameter: Node<'_>) -> Option<String> {
        let name = match parameter.kind() {
            "assignment_pattern" => parameter.child_by_field_name("left")?,
            _ => parameter,
        };
        (name.kind() == "identifier").then(|| self.text(name).to_owned())
    }

    /// A literal text: a string without escapes, or a template without substitutions.
    fn literal(&self, node: Node<'_>) -> Option<&'tree str> {
        let parts = children(node);
        let is_plain =
            parts.iter().all(|part| !matches!(part.kind(), "escape_sequence" | "template_substitution"));
        if !matches!(node.kind(), "string" | "template_string") || !is_plain {
            return None;
        }
        let text = self.text(node);
        text.get(1..text.len().checked_sub(1)?)
    }
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

/// All nodes below `root` in preorder; `enters` decides whether to descend into a node.
fn visit<'tree>(root: Node<'tree>, mut enters: impl FnMut(Node<'tree>) -> bool) {
    let mut cursor: TreeCursor<'tree> = root.walk();
    loop {
        let into = enters(cursor.node());
        if into && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
