//! `inputs` and `configVars`: the parameters of an automation and its named constants.

use model::action::{InputSpec, InputType};
use model::automation::ConfigVar;
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use text::yaml::{Entry, Field, MapReader, Node};
use value::Value;

use super::Unreadable;
use super::common::{entry_name, shorten};
use super::keys::{Choice, Key, Object, Shape};
use super::template::{literal, template};

/// Type names of other languages.
const TYPE_ALIASES: [(&str, &str); 11] = [
    ("array", "list"),
    ("bool", "boolean"),
    ("dict", "map"),
    ("double", "number"),
    ("enum", "choice"),
    ("float", "number"),
    ("int", "integer"),
    ("long", "integer"),
    ("select", "choice"),
    ("str", "text"),
    ("string", "text"),
];
/// The keywords of input types.
const TYPES: [&str; 9] = ["text", "integer", "number", "boolean", "choice", "list", "map", "object", "any"];

static INPUT: Object = Object {
    what: "an input",
    keys: &[
        Key::new(
            "type",
            Shape::Enum(&TYPES),
            "The type of the value: text, integer, number, boolean, choice (one of `options`), list, map (or object), any. \
             Default: choice with `options`, else any.",
        ),
        Key::new("required", Shape::Bool, "`true` if it must be given. Default: false."),
        Key::new("default", Shape::Template, "The value if it is not given. No expressions."),
        Key::new("description", Shape::Text, "The meaning, for people."),
        Key::new("options", Shape::List(&Shape::Text), "The values of a choice."),
    ],
    choice: Choice::Any,
};

/// An input in its long form, or in its short form: the type alone.
pub(super) const DECLARED: Shape = Shape::AnyOf(&[Shape::Enum(&SHORT_TYPES), Shape::Object(&INPUT)]);

/// The types that need no other key.
const SHORT_TYPES: [&str; 8] = ["text", "integer", "number", "boolean", "list", "map", "object", "any"];

/// The long form of a configuration variable.
pub(crate) static CONFIG_VAR: Object = Object {
    what: "a configuration variable",
    keys: &[
        Key::required("value", Shape::Template, "The value; may read `env` and, if it is secret, `secrets`."),
        Key::new(
            "secret",
            Shape::Bool,
            "`true`: the value is never shown, logged or stored. Default: false.",
        ),
    ],
    choice: Choice::Any,
};

pub(super) fn inputs(
    field: Field<'_, '_>,
    unreadable: &mut Unreadable,
    diagnostics: &Diagnostics,
) -> Vec<InputSpec> {
    if let Some(node) = field.node().filter(|node| node.as_list().is_some()) {
        report_list(node, "inputs", diagnostics);
        unreadable.note("inputs");
        unreadable.note_names(node);
        return Vec::new();
    }
    entries(field, "inputs", unreadable, |entry| declared(entry, "an input", diagnostics))
}

/// Reads the declared data of an own event; `None` if it cannot be read completely.
pub(super) fn event_data(field: Field<'_, '_>, diagnostics: &Diagnostics) -> Option<Vec<InputSpec>> {
    if let Some(node) = field.node().filter(|node| node.as_list().is_some()) {
        report_list(node, "data", diagnostics);
        return None;
    }
    field.entries()?.iter().map(|entry| declared(entry, "a field", diagnostics)).collect()
}

fn report_list(node: &Node, key: &str, diagnostics: &Diagnostics) {
    let message = format!("expected a mapping for `{key}`, found a list");
    let help = format!("write each name with its type: `{key}: {{name: text}}`");
    diagnostics.push(Diagnostic::error("wrong-type", message, node.head()).help(help));
}

/// Returns the first declaration in the short form.
pub(super) fn short_form(field: Field<'_, '_>) -> Option<Span> {
    let entries = field.node()?.as_map()?.iter();
    entries.into_iter().find(|entry| entry.value.as_str().is_some()).map(|entry| entry.value.span)
}

/// Lowers the inputs of an approval's form.
pub(super) fn form(
    field: Field<'_, '_>,
    unreadable: &mut Unreadable,
    diagnostics: &Diagnostics,
) -> Vec<InputSpec> {
    entries(field, "form", unreadable, |entry| declared(entry, "an input", diagnostics))
}

/// Reads each entry; records the name of an entry that cannot be read.
fn entries<T>(
    field: Field<'_, '_>,
    key: &'static str,
    unreadable: &mut Unreadable,
    read: impl Fn(&Entry) -> Option<T>,
) -> Vec<T> {
    let Some(entries) = field.entries() else {
        if field.is_present() {
            unreadable.note(key);
        }
        return Vec::new();
    };
    let mut found = Vec::with_capacity(entries.len());
    for entry in entries {
        match read(entry) {
            Some(value) => found.push(value),
            None => unreadable.note_name(&entry.key),
        }
    }
    found
}

/// Reads `name: number`, or the long form.
fn declared(entry: &Entry, what: &str, diagnostics: &Diagnostics) -> Option<InputSpec> {
    if entry.value.as_str().is_none() {
        return input(entry, what, diagnostics);
    }
    let name = entry_name(entry, what, diagnostics);
    let word = Field::new(&entry.value, &entry.key, diagnostics).choice_or_alias(&TYPES, &TYPE_ALIASES)?;
    if word == "choice" {
        let help = format!("write `{}: {{options: [small, large]}}`", entry.key);
        let message = "a choice needs the key `options`";
        diagnostics.push(Diagnostic::error("missing-key", message, entry.value.span).help(help));
        return None;
    }
    let kind = kind(Some(word), None);
    Some(InputSpec { name: name?.name, kind, required: false, default: None, description: None })
}

fn input(entry: &Entry, what: &str, diagnostics: &Diagnostics) -> Option<InputSpec> {
    let name = entry_name(entry, what, diagnostics);
    let mut reader = INPUT.open(&entry.value, diagnostics)?;
    let word = reader.take("type").choice_or_alias(&TYPES, &TYPE_ALIASES);
    let options = options(&mut reader, word, diagnostics);
    let kind = kind(word, options);
    let required = reader.take("required").bool().unwrap_or(false);
    let default = reader.take("default").node().map(|node| literal(node, "a default", diagnostics));
    if let (Some(default), Some(node)) = (&default, reader.take("default").node())
        && let Err(found) = fits(&kind, default)
    {
        let message = format!("this default is {found}, but the input takes {}", kind.describe());
        diagnostics.push(Diagnostic::error("default-type", message, node.head()));
    }
    if required && default.is_some() {
        let message = "an input that has to be given has no use for a default";
        diagnostics.push(
            Diagnostic::warning("unused-setting", message, reader.key_span("default"))
                .help("remove `default`, or `required: true`"),
        );
    }
    let description = reader.take("description").string().map(str::to_owned);
    reader.finish();
    Some(InputSpec { name: name?.name, kind, required, default, description })
}

fn options(
    reader: &mut MapReader<'_, '_>,
    word: Option<&str>,
    diagnostics: &Diagnostics,
) -> Option<Vec<String>> {
    let span = reader.key_span("options");
    let field = reader.take("options");
    if word == Some("choice") && !field.is_present() {
        diagnostics.push(
            Diagnostic::error("missing-key", "a choice needs the key `options`", reader.key_span("type"))
                .help("add the texts to choose from: `options: [small, large]`"),
        );
    }
    let texts = field.strings()?;
    if let Some(word) = word.filter(|word| *word != "choice") {
        let message = format!("`options` belongs to the type `choice`, this is `{word}`");
        diagnostics.push(Diagnostic::error("conflicting-keys", message, span).help("remove one of the two"));
    }
    let mut found: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        if found.iter().any(|other| other == text) {
            let message = format!("the option `{}` is named twice", shorten(text));
            diagnostics.push(Diagnostic::warning("duplicate-value", message, span));
        } else {
            found.push(text.to_owned());
        }
    }
    if found.is_empty() {
        diagnostics.push(Diagnostic::error("empty-list", "`options` has nothing to choose from", span));
    }
    Some(found)
}

fn kind(word: Option<&str>, options: Option<Vec<String>>) -> InputType {
    let any = || Box::new(InputType::Any);
    match (word, options) {
        (None | Some("choice"), Some(options)) => InputType::Choice { options },
        (Some("text"), _) => InputType::Text,
        (Some("integer"), _) => InputType::integer(),
        (Some("number"), _) => InputType::Number,
        (Some("boolean"), _) => InputType::Boolean,
        (Some("list"), _) => InputType::List { items: any() },
        (Some("map" | "object"), _) => InputType::Map { values: any() },
        _ => InputType::Any,
    }
}

/// Checks that a default has the type; the error describes the value.
fn fits(kind: &InputType, value: &Value) -> Result<(), String> {
    let fits = match (kind, value) {
        (InputType::Any, _)
        | (InputType::Text, Value::String(_))
        | (InputType::Number, Value::Number(_))
        | (InputType::Boolean, Value::Bool(_))
        | (InputType::List { .. }, Value::List(_))
        | (InputType::Map { .. }, Value::Map(_)) => true,
        (InputType::Integer { .. }, Value::Number(number)) => number.is_i64() || number.is_u64(),
        (InputType::Choice { options }, Value::String(text)) => {
            options.iter().any(|option| **option == **text)
        }
        _ => false,
    };
    match value {
        _ if fits => Ok(()),
        Value::Null => Err("nothing".to_owned()),
        Value::String(_) | Value::Number(_) => Err(format!("`{}`", shorten(&value.to_text()))),
        other => Err(format!("a {}", other.kind())),
    }
}

pub(super) fn config_vars(
    field: Field<'_, '_>,
    unreadable: &mut Unreadable,
    diagnostics: &Diagnostics,
) -> Vec<ConfigVar> {
    entries(field, "configVars", unreadable, |entry| config_var(entry, diagnostics))
}

/// `name: value`, or the long form. Any mapping with `value` or `secret` is the long form: if a misspelt
/// `secert` made it a plain value, the secret would be shown.
fn config_var(entry: &Entry, diagnostics: &Diagnostics) -> Option<ConfigVar> {
    let name = entry_name(entry, "a configuration variable", diagnostics);
    let node = &entry.value;
    if node.get("value").is_none() && node.get("secret").is_none() {
        return Some(ConfigVar { name: name?, value: template(node, diagnostics), secret: false });
    }
    let mut reader = CONFIG_VAR.open(node, diagnostics)?;
    let value = reader.take("value").node().map(|node| template(node, diagnostics));
    let secret = reader.take("secret").bool();
    reader.finish();
    Some(ConfigVar { name: name?, value: value?, secret: secret.unwrap_or(false) })
}
