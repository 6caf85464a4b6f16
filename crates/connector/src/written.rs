//! What is known of the inputs of a step before it runs: what stands in its file.

use model::template::Part;
use model::{Map, Template, Value};

/// The inputs of a step as its author wrote them.
pub struct Written<'a> {
    /// What was written for an input.
    pub input: &'a dyn Fn(&str) -> Option<&'a Template>,
    /// Whether the step names a connection.
    pub has_connection: bool,
}

/// Why a call with these inputs can only fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputProblem {
    /// The input.
    pub input: String,
    /// What is wrong, ready to be put behind the input's name and a colon.
    pub message: String,
    /// The way out.
    pub help: String,
}

impl InputProblem {
    pub(crate) fn new(input: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { input: input.to_owned(), message: message.into(), help: help.into() }
    }
}

impl<'a> Written<'a> {
    /// The value of an input, if it holds no expression.
    pub(crate) fn literal(&self, name: &str) -> Option<&'a Value> {
        (self.input)(name)?.literal().filter(|value| !value.is_null())
    }

    /// An input of text alone, as the map that a call is given; empty if it holds an expression.
    pub(crate) fn alone_as_text(&self, name: &str) -> Map {
        let text = self.literal(name).filter(|value| matches!(value, Value::String(_) | Value::Number(_)));
        text.into_iter().map(|value| (name, Value::from(value.to_text()))).collect()
    }

    /// True if an input is certain to be there and not empty when the step runs.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        match (self.input)(name) {
            None | Some(Template::Expression(_)) => false,
            Some(Template::Literal(Value::Map(map))) => !map.is_empty(),
            Some(Template::Literal(value)) => !value.is_null(),
            Some(_) => true,
        }
    }

    /// The names of the entries of an input that is a map, if they are known.
    pub(crate) fn keys(&self, name: &str) -> Option<Vec<&'a str>> {
        match (self.input)(name)? {
            Template::Map(entries) => Some(entries.iter().map(|(key, _)| &**key).collect()),
            Template::Literal(Value::Map(map)) => Some(map.keys().collect()),
            Template::Literal(Value::Null) => Some(Vec::new()),
            _ => None,
        }
    }

    /// The entries of an input that is a map and that hold no expression.
    pub(crate) fn literal_entries(&self, name: &str) -> Map {
        match (self.input)(name) {
            Some(Template::Map(entries)) => {
                let known =
                    entries.iter().filter_map(|(key, value)| Some((&**key, value.literal()?.clone())));
                known.collect()
            }
            Some(Template::Literal(Value::Map(map))) => Map::clone(map),
            _ => Map::new(),
        }
    }

    /// The text that an input begins with, and true if that is all of it.
    pub(crate) fn beginning(&self, name: &str) -> Option<(&'a str, bool)> {
        match (self.input)(name)? {
            Template::Literal(Value::String(text)) => Some((text, true)),
            Template::Text(parts) => match parts.first()? {
                Part::Text(text) => Some((text, false)),
                Part::Expression(_) => None,
            },
            _ => None,
        }
    }
}
