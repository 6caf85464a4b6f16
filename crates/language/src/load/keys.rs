//! The tables of keys and shapes that the loader reads by and the JSON Schemas are generated from.
//!
//! A mapping with fixed keys is an [`Object`]; it is declared once, beside the code that lowers it. Reading goes
//! through [`Object::open`], so a key missing from the table is an error, and a key in the table is in the schema.

use text::diagnostic::Diagnostics;
use text::yaml::{MapReader, Node};

/// A mapping with fixed keys.
#[derive(Debug)]
pub(crate) struct Object {
    /// The noun for messages, with its article: "a retry".
    pub(crate) what: &'static str,
    /// Its keys, in the order in which they are documented.
    pub(crate) keys: &'static [Key],
    /// Keys that exclude each other.
    pub(crate) choice: Choice,
}

/// Keys of an [`Object`] that exclude each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    /// None do.
    Any,
    /// Exactly one of these is required.
    ExactlyOne(&'static [&'static str]),
    /// At most one of these is allowed.
    AtMostOne(&'static [&'static str]),
    /// Exactly one of `one` is required; if `key` has this `value`, all of `all` are required instead.
    ExactlyOneUnless {
        /// The keys that exclude each other.
        one: &'static [&'static str],
        /// The deciding key and its value.
        when: (&'static str, &'static str),
        /// The keys that are then required.
        all: &'static [&'static str],
    },
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// The name as written in YAML.
    pub(crate) name: &'static str,
    /// The form of the value.
    pub(crate) shape: Shape,
    /// True if the key is required.
    pub(crate) required: bool,
    /// The description for authors, with the default.
    pub(crate) about: &'static str,
}

/// The form of the value of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Any text.
    Text,
    /// A text that is not blank.
    NonBlankText,
    /// A text of this form, an ECMA regular expression.
    Pattern(&'static str),
    /// `true` or `false`.
    Bool,
    /// Only `true`.
    ConstTrue,
    /// A whole number within these bounds, both included.
    Integer(i64, i64),
    /// A number within these bounds, both included.
    Number(f64, f64),
    /// A duration.
    Duration,
    /// A size in bytes.
    Size,
    /// One of these keywords.
    Enum(&'static [&'static str]),
    /// Empty, or this.
    Optional(&'static Shape),
    /// Any of these.
    AnyOf(&'static [Shape]),
    /// A list of these.
    List(&'static Shape),
    /// A list with at least one of these, or a single one.
    OneOrMore(&'static Shape),
    /// A mapping with fixed keys.
    Object(&'static Object),
    /// A mapping with names chosen by the author, of this form, to these.
    MapOf(&'static str, &'static Shape),
    /// As [`Shape::MapOf`], with at least one entry.
    NonEmptyMapOf(&'static str, &'static Shape),
    /// A bare or wrapped expression.
    Expression,
    /// An expression, or a literal list.
    ListOrExpression,
    /// A text that holds `${{ }}`.
    WrappedExpression,
    /// Any value, with `${{ }}` in its texts.
    Template,
    /// A list of steps, which may be empty.
    MaybeEmptySteps,
    /// A list of at least one step.
    Steps,
    /// A plain value or its long form, with its own schema.
    ConfigVar,
}

/// An identifier: a name that can follow a dot in an expression.
pub(crate) const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]*$";
/// The id of an Automation.
pub(crate) const AUTOMATION_ID: &str = "^[a-z0-9][a-z0-9-]*$";
/// Any text that is not empty.
pub(crate) const ANY_NAME: &str = "^";
/// A media type, such as `text/plain; charset=utf-8`.
pub(crate) const CONTENT_TYPE: &str = r"^[^\s/;]+/[^\s/;]+(\s*;.*)?$";

impl Key {
    /// An optional key.
    pub(crate) const fn new(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, required: false, about }
    }

    /// A required key.
    pub(crate) const fn required(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self { name, shape, required: true, about }
    }
}

impl Object {
    /// Opens a reader of this mapping with all its keys declared; misspelt keys are read as the nearest ones. Reports missing
    /// and conflicting keys, and a value that is not a mapping.
    pub(super) fn open<'n, 'd>(
        &'static self,
        node: &'n Node,
        diagnostics: &'d Diagnostics,
    ) -> Option<MapReader<'n, 'd>> {
        let long = super::long_form::long_form(self.what, node);
        let mut reader = MapReader::new_with_suggestion(node, self.what, long, diagnostics)?;
        self.keys.iter().for_each(|key| reader.allow(&[key.name]));
        reader.set_foreign_keys(super::other_dialects::foreign_keys_of(self.what));
        reader.set_conflict_help(super::other_dialects::instead_of_several(self.what));
        reader.correct_keys(|_| false);
        for key in self.keys.iter().filter(|key| key.required) {
            reader.required(key.name);
        }
        match self.choice {
            Choice::Any => {}
            // An unknown key was probably meant as one of these; it is reported itself.
            Choice::ExactlyOne(keys)
                if reader.unknown_entries().next().is_some() && !keys.iter().any(|key| reader.has(key)) => {}
            Choice::ExactlyOne(keys) => {
                reader.exactly_one_of(keys);
            }
            // The reader of the keys reports which one is missing.
            Choice::AtMostOne(keys) | Choice::ExactlyOneUnless { one: keys, .. } => {
                reader.at_most_one_of(keys);
            }
        }
        Some(reader)
    }
}

/// True if a key of this name takes an expression without `${{ }}` in a step or a trigger: `if`, `forEach`, `switch`.
#[must_use]
pub fn takes_expression(key: &str) -> bool {
    fn has(keys: &[Key], name: &str) -> bool {
        keys.iter().any(|key| within(key, &key.shape, name))
    }
    fn within(key: &Key, shape: &Shape, name: &str) -> bool {
        match shape {
            Shape::Expression | Shape::ListOrExpression => key.name == name,
            Shape::Object(inner) => has(inner.keys, name),
            Shape::AnyOf(shapes) => shapes.iter().any(|shape| within(key, shape, name)),
            Shape::List(Shape::Object(inner)) => has(inner.keys, name),
            _ => false,
        }
    }
    has(super::STEP_KEYS, key)
        || has(super::TRIGGER.keys, key)
        || super::VERBS.iter().any(|verb| has(verb.keys, key))
}

/// True if a key of this name exists anywhere in an automation.
pub(super) fn is_key(name: &str) -> bool {
    fn within(shape: &Shape, name: &str) -> bool {
        match shape {
            Shape::Object(inner) => among(inner.keys, name),
            Shape::Optional(inner) | Shape::List(inner) | Shape::OneOrMore(inner) => within(inner, name),
            Shape::MapOf(_, inner) | Shape::NonEmptyMapOf(_, inner) => within(inner, name),
            Shape::AnyOf(shapes) => shapes.iter().any(|shape| within(shape, name)),
            _ => false,
        }
    }
    fn among(keys: &[Key], name: &str) -> bool {
        keys.iter().any(|key| key.name == name || within(&key.shape, name))
    }
    among(super::AUTOMATION.keys, name)
        || among(super::TRIGGER.keys, name)
        || among(super::STEP_KEYS, name)
        || super::VERBS.iter().any(|verb| among(verb.keys, name))
}

/// True if `text` can follow a dot in an expression.
pub(super) fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
