//! Reads the result types of a manifest: named types in the `types` section, and the `results` of actions.
//!
//! A type is a simple type (`text`), the name of a declared type (`Page`), or a mapping with `type` and the keys that
//! belong to it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use model::action::{ObjectType, ResultField, ResultType};
use text::Span;
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::{Field, MapReader, Node};

/// The types without further keys.
const SIMPLE: [&str; 7] = ["any", "null", "text", "integer", "number", "boolean", "file"];
/// The types that need further keys.
const COMPOUND: [&str; 4] = ["choice", "list", "map", "object"];
/// The `types` section of a manifest.
pub(super) struct Types<'n, 'd> {
    declared: Vec<DeclaredType<'n>>,
    diagnostics: &'d Diagnostics,
}

struct DeclaredType<'n> {
    name: &'n str,
    span: Span,
    node: &'n Node,
    resolution: RefCell<Resolution>,
    /// True if a type or an action refers to it.
    used: Cell<bool>,
}

/// The state of resolving a declared type. A reference to a type in progress is a recursion.
enum Resolution {
    Pending,
    InProgress,
    Done(ResultType),
}

/// A type with the keys that accompany it.
struct TypeWithDoc {
    kind: ResultType,
    description: Option<String>,
    optional: bool,
}

impl<'n, 'd> Types<'n, 'd> {
    /// Reads and resolves all declared types.
    pub(super) fn read(field: Field<'n, 'd>, diagnostics: &'d Diagnostics) -> Self {
        let mut declared = Vec::new();
        for entry in field.entries().into_iter().flatten() {
            check_name(&entry.key, entry.key_span, diagnostics);
            declared.push(DeclaredType {
                name: &entry.key,
                span: entry.key_span,
                node: &entry.value,
                resolution: RefCell::new(Resolution::Pending),
                used: Cell::new(false),
            });
        }
        let types = Self { declared, diagnostics };
        for declared in &types.declared {
            types.resolve(declared);
        }
        types
    }

    /// Reads the `results` of an action, and returns the type with its description; `None` if the key is absent.
    pub(super) fn results(&self, field: Field<'_, '_>) -> Option<(ResultType, String)> {
        let described = self.read_type(field.node()?, false);
        let words = described.description.unwrap_or_else(|| described.kind.describe());
        Some((described.kind, words))
    }

    /// Warns about unused types.
    pub(super) fn warn_unused(&self) {
        for unused in self.declared.iter().filter(|declared| !declared.used.get()) {
            let message = format!("the type `{}` is used by no action", unused.name);
            let help = "name it in the `results` of an action, or remove it";
            self.diagnostics.push(Diagnostic::warning("unused-type", message, unused.span).help(help));
        }
    }

    fn resolve(&self, declared: &DeclaredType<'n>) -> ResultType {
        if let Resolution::Done(kind) = &*declared.resolution.borrow() {
            return kind.clone();
        }
        declared.resolution.replace(Resolution::InProgress);
        let mut kind = match self.read_type(declared.node, false).kind {
            ResultType::Object(object) => {
                let name = Some(declared.name.to_owned());
                ResultType::Object(Arc::new(ObjectType { name, ..Arc::unwrap_or_clone(object) }))
            }
            kind => kind,
        };
        if !kind.is_bounded() {
            let message =
                format!("the type `{}` has more than {} parts", declared.name, ResultType::MAX_PARTS);
            let help = "write `any` for what need not be known";
            self.diagnostics.push(Diagnostic::error("type-too-large", message, declared.span).help(help));
            kind = ResultType::Any;
        }
        declared.resolution.replace(Resolution::Done(kind.clone()));
        kind
    }

    /// Reads a type with its `description`, and with `optional` if it is the type of a field.
    fn read_type(&self, node: &Node, is_field: bool) -> TypeWithDoc {
        let mut described = TypeWithDoc { kind: ResultType::Any, description: None, optional: false };
        if node.as_map().is_none() {
            described.kind = self.named_type(Field::new(node, "type", self.diagnostics), &SIMPLE);
            return described;
        }
        let what = if is_field { "a field" } else { "a type" };
        let Some(mut reader) = MapReader::new(node, what, self.diagnostics) else { return described };
        described.kind = self.read_mapping(&mut reader);
        described.description = reader.take("description").name().map(str::to_owned);
        if reader.take("nullable").bool() == Some(true) {
            described.kind = described.kind.or_null();
        }
        if is_field {
            described.optional = reader.take("optional").bool().unwrap_or(false);
        }
        reader.finish();
        described
    }

    /// Reads the type of a mapping: the key `type`, and the keys that belong to this type.
    fn read_mapping(&self, reader: &mut MapReader<'_, '_>) -> ResultType {
        let field = reader.required("type");
        let inner = |field: Field<'_, '_>| {
            field.node().map(|node| self.read_type(node, false).kind).unwrap_or_default()
        };
        match field.node().and_then(Node::as_str) {
            Some("choice") => {
                let options = reader.required("options").strings().unwrap_or_default();
                ResultType::Choice { options: options.into_iter().map(str::to_owned).collect() }
            }
            Some("list") => ResultType::list(inner(reader.required("items"))),
            Some("map") => ResultType::map(inner(reader.required("values"))),
            Some("object") => self.read_object(reader),
            _ => self.named_type(field, &[&SIMPLE[..], &COMPOUND[..]].concat()),
        }
    }

    fn read_object(&self, reader: &mut MapReader<'_, '_>) -> ResultType {
        let entries = reader.required("fields").entries().into_iter().flatten();
        let fields = entries.map(|entry| {
            let TypeWithDoc { kind, description, optional } = self.read_type(&entry.value, true);
            ResultField { name: entry.key.clone(), kind, optional, description }
        });
        let fields = fields.collect();
        let open = reader.take("open").bool().unwrap_or(false);
        ResultType::Object(Arc::new(ObjectType { name: None, fields, open }))
    }

    /// Reads a type from a single word: declared of `words`, or the name of a declared type.
    fn named_type(&self, field: Field<'_, '_>, words: &[&str]) -> ResultType {
        let Some(node) = field.node() else { return ResultType::Any };
        if node.is_null() {
            return ResultType::Null;
        }
        let names = self.declared.iter().map(|declared| declared.name);
        let words: Vec<&str> = words.iter().copied().chain(names).collect();
        match Field::new(node, "type", self.diagnostics).choice(&words) {
            Some("null") => ResultType::Null,
            Some("text") => ResultType::Text,
            Some("integer") => ResultType::Integer,
            Some("number") => ResultType::Number,
            Some("boolean") => ResultType::Boolean,
            Some("file") => ResultType::File,
            Some(name) => self.declared_type(name, node.span),
            None => ResultType::Any,
        }
    }

    /// Returns the declared type of this name; `any` if there is none.
    fn declared_type(&self, name: &str, span: Span) -> ResultType {
        let Some(declared) = self.declared.iter().find(|declared| declared.name == name) else {
            return ResultType::Any;
        };
        declared.used.set(true);
        if !matches!(&*declared.resolution.borrow(), Resolution::InProgress) {
            return self.resolve(declared);
        }
        let message = format!("the type `{}` comes to itself, so it has no end", declared.name);
        let help = "write `any` where it begins again";
        self.diagnostics.push(Diagnostic::error("circular-type", message, span).help(help));
        ResultType::Any
    }
}

/// Checks that the name of a type begins with a capital letter, which keeps it distinct from future built-in types.
fn check_name(name: &str, span: Span, diagnostics: &Diagnostics) {
    let good =
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_alphanumeric());
    if !good {
        let message =
            format!("`{name}` is no name of a type; use letters and digits, a capital letter first");
        diagnostics.push(Diagnostic::error("invalid-name", message, span));
    }
}
