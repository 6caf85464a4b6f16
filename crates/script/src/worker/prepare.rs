//! Rewrites a module into a function that evaluates it, which QuickJS runs in its place.
//!
//! QuickJS evaluates a module once. To evaluate it for each run, its text becomes the body of a function, with every
//! character in its column, one line lower: `export default` becomes an assignment, other exports are removed. A real parser
//! finds the insertion points; QuickJS has verified before that the text alone is a complete module, so nothing in it can
//! close the enclosing function.

use tree_sitter::{Node, Parser, Tree};

use crate::module::Position;
use crate::module_info::SyntaxError;

/// The number of lines before the module's first in the wrapped text.
pub(super) const LINES_BEFORE: u32 = 1;

/// A module's text, prepared for evaluation.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The module's text without the wrapper.
    pub(super) source: String,
    /// A module whose default export evaluates the author's: `(module, exports) => promise or value`, which is the
    /// author's function, or `undefined` if it is in `module.exports`.
    pub(super) wrapped: String,
}

/// Parses a module's text. QuickJS reports its errors better. The byte offsets of nodes are correct; their line numbers may
/// be wrong, see [`position`].
pub(super) fn parse(source: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_javascript::LANGUAGE.into()).ok()?;
    let tree = parser.parse(source, None)?;
    if !tree.root_node().has_error() {
        return Some(tree);
    }
    // The parser inserts a statement end after an `export` at the end of its line.
    let mended = joined(source).and_then(|joined| parser.parse(joined, None));
    Some(mended.filter(|mended| !mended.root_node().has_error()).unwrap_or(tree))
}

/// The same text, byte for byte, with only spaces between each `export` and its declaration on a later line.
fn joined(source: &str) -> Option<Vec<u8>> {
    let mut bytes = source.as_bytes().to_vec();
    let mut from = 0;
    let mut has_changed = false;
    while let Some(found) = source.get(from..)?.find("export") {
        let start = from + found + "export".len();
        let end = source.len() - behind_space(source.get(start..)?).len();
        if source.get(start..end)?.contains('\n') && source.get(end..)?.starts_with(['d', '{']) {
            bytes.get_mut(start..end)?.fill(b' ');
            has_changed = true;
        }
        from = end.max(start);
    }
    has_changed.then_some(bytes)
}

/// The text after spaces and comments.
fn behind_space(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let behind = match rest.get(..2) {
            Some("//") => rest.split_once('\n').map(|(_, behind)| behind),
            Some("/*") => rest.split_once("*/").map(|(_, behind)| behind),
            _ => None,
        };
        match behind {
            Some(behind) => rest = behind.trim_start(),
            None => return rest,
        }
    }
}

/// The position of a node; columns count characters.
pub(super) fn position(source: &str, node: Node<'_>) -> Position {
    let before = source.get(..node.start_byte()).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
    let lines = before.bytes().filter(|byte| *byte == b'\n').count();
    Position { line: number(lines), column: number(line.chars().count()) }
}

/// Prepares a module's text.
///
/// # Errors
/// It has an `import`, or an export from another module.
pub(super) fn prepare(source: &str) -> Result<Prepared, SyntaxError> {
    let mut edit =
        Edit { name: free_name(source), bytes: source.as_bytes().to_vec(), inserts: Vec::new(), last: None };
    let mut is_async = false;
    if let Some(tree) = parse(source) {
        let root = tree.root_node();
        let mut cursor = root.walk();
        for node in root.children(&mut cursor) {
            match node.kind() {
                "import_statement" => return Err(no_modules(source, node)),
                "export_statement" => edit.export(source, node)?,
                "hash_bang_line" => edit.blank(node.start_byte(), node.end_byte()),
                _ => {}
            }
        }
        is_async = awaits(root);
    }
    Ok(Prepared { source: source.to_owned(), wrapped: edit.wrap(is_async) })
}

fn no_modules(source: &str, node: Node<'_>) -> SyntaxError {
    let message = "code has no other modules to import: write what it needs into it".to_owned();
    SyntaxError { message, at: position(source, node) }
}

/// A name that does not occur in the text, and that fits with brackets in place of `default`.
fn free_name(source: &str) -> String {
    (0..100)
        .map(|number| format!("_{number}"))
        .find(|name| !source.contains(name.as_str()))
        .unwrap_or_default()
}

/// A text under modification.
struct Edit {
    name: String,
    bytes: Vec<u8>,
    /// Texts to insert, with their offsets.
    inserts: Vec<(usize, &'static str)>,
    /// The name of the default export, if it has one.
    last: Option<String>,
}

impl Edit {
    /// Removes an `export`, and keeps the default value.
    fn export(&mut self, source: &str, node: Node<'_>) -> Result<(), SyntaxError> {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let child = |kind: &str| children.iter().find(|child| child.kind() == kind);
        if node.child_by_field_name("source").is_some() {
            return Err(no_modules(source, node));
        }
        if let Some(clause) = child("export_clause") {
            self.clause(source, *clause);
            // Terminates the previous statement.
            self.blank(node.start_byte(), node.end_byte());
            self.put(node.start_byte(), ";");
            return Ok(());
        }
        if let Some(keyword) = child("export") {
            self.blank(keyword.start_byte(), keyword.end_byte());
        }
        let Some(default) = child("default") else { return Ok(()) };
        self.blank(default.start_byte(), default.end_byte());
        let declared = node.child_by_field_name("declaration").and_then(|it| it.child_by_field_name("name"));
        if let Some(name) = declared {
            self.last = source.get(name.byte_range()).map(str::to_owned);
            return Ok(());
        }
        // In brackets, so that the function does not get that name.
        let assignment = format!(";({})=", self.name);
        self.put(default.start_byte(), &assignment);
        let value = node.child_by_field_name("value").or_else(|| node.child_by_field_name("declaration"));
        if let Some(end) = value.and_then(end_of_function) {
            self.inserts.push((end, ";"));
        }
        Ok(())
    }

    /// Finds `name as default` in `export {…}`.
    fn clause(&mut self, source: &str, clause: Node<'_>) {
        let mut cursor = clause.walk();
        for specifier in clause.named_children(&mut cursor) {
            let text =
                |field| specifier.child_by_field_name(field).and_then(|node| source.get(node.byte_range()));
            if text("alias") == Some("default") {
                self.last = text("name").map(str::to_owned);
            }
        }
    }

    /// Replaces a range by spaces, except line ends, so that everything else keeps its position.
    fn blank(&mut self, start: usize, end: usize) {
        for byte in self.bytes.iter_mut().take(end).skip(start).filter(|byte| !matches!(byte, b'\n' | b'\r'))
        {
            *byte = b' ';
        }
    }

    /// Overwrites the text at an offset.
    fn put(&mut self, start: usize, text: &str) {
        for (byte, new) in self.bytes.iter_mut().skip(start).zip(text.bytes()) {
            *byte = new;
        }
    }

    fn wrap(mut self, is_async: bool) -> String {
        self.inserts.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, text) in &self.inserts {
            self.bytes.splice(at..at, text.bytes());
        }
        let body = String::from_utf8_lossy(&self.bytes);
        let (name, keyword) = (&self.name, if is_async { "async " } else { "" });
        let last = self.last.map(|last| format!("{name}={last};")).unwrap_or_default();
        format!(
            "export default (module, exports) => {{ let {name}; return ({keyword}() => {{\n{body}\n{last}return {name}}})()}};"
        )
    }
}

/// The end of an anonymous function at the start of a default export: it ends like a declaration there, whatever follows
/// on the next line.
fn end_of_function(value: Node<'_>) -> Option<usize> {
    let mut node = value;
    loop {
        if matches!(
            node.kind(),
            "function_expression" | "generator_function" | "class" | "function_declaration"
        ) {
            return Some(node.end_byte());
        }
        let first = node.child(0)?;
        if first.start_byte() != value.start_byte() || matches!(node.kind(), "arrow_function") {
            return None;
        }
        node = first;
    }
}

/// True if the module has a top-level `await`.
fn awaits(root: Node<'_>) -> bool {
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        if node.kind() == "await" {
            return true;
        }
        let is_function = matches!(
            node.kind(),
            "function_expression"
                | "function_declaration"
                | "generator_function"
                | "generator_function_declaration"
                | "arrow_function"
                | "method_definition"
                | "class_static_block"
        );
        if !is_function && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
        }
    }
}
