//! Inputs of a step before it runs, as far as its file determines them.

use expression::Template;
use expression::template::Part;
use language::load::PathSegment;
use value::{Map, Value};

/// The unevaluated inputs of a step.
pub struct StaticInputs<'a> {
    /// Returns the template of an input; `None` if the step does not set it.
    pub template: &'a dyn Fn(&str) -> Option<&'a Template>,
    /// True if the step names a connection.
    pub has_connection: bool,
    /// The types of the connections that the step may use, as far as they are known.
    pub connection_types: Vec<String>,
}

/// A reason why a call with these inputs can only fail, or is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputProblem {
    /// The name of the input.
    pub input: String,
    /// The way to the part of the input that the problem is in; empty for the whole input.
    pub path: Vec<PathSegment>,
    /// The problem, as a phrase to follow the input's name and a colon.
    pub message: String,
    /// The suggested fix.
    pub help: String,
    /// The literal that is meant in place of the value.
    pub meant: Option<String>,
    /// Another input that is meant to have the second name.
    pub renamed: Option<(String, &'static str)>,
    /// The code; `None` for `wrong-input`.
    pub code: Option<&'static str>,
    /// True for a warning, which has a code.
    pub is_warning: bool,
}

impl InputProblem {
    /// Creates an error.
    #[must_use]
    pub fn new(input: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            input: input.to_owned(),
            path: Vec::new(),
            message: message.into(),
            help: help.into(),
            meant: None,
            renamed: None,
            code: None,
            is_warning: false,
        }
    }

    /// Adds the duration that a text means, such as `1d` for `1 day`.
    #[must_use]
    pub fn with_duration(self, text: &str) -> Self {
        let Some(meant) = text::units::suggest_duration(text) else { return self };
        Self { help: format!("write `{meant}`"), meant: Some(meant), ..self }
    }

    /// Adds the address that a text without a scheme means.
    #[must_use]
    pub fn with_scheme(self, text: &str) -> Self {
        let host = text.split('/').next().unwrap_or_default();
        let is_host = host.contains('.')
            && !host.starts_with('.')
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "./-_~%?=&".contains(c));
        if !is_host || !is_plain {
            return self;
        }
        let meant = format!("https://{text}");
        Self {
            help: format!("an address begins with its scheme: write `{meant}`"),
            meant: Some(meant),
            ..self
        }
    }

    /// Adds the name that another input is meant to have.
    pub(crate) fn with_renamed(self, input: &str, name: &'static str) -> Self {
        Self { renamed: Some((input.to_owned(), name)), ..self }
    }

    /// Makes it a warning with this code.
    #[must_use]
    pub fn into_warning(self, code: &'static str) -> Self {
        Self { code: Some(code), is_warning: true, ..self }
    }

    /// Gives the error a code of its own.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Places it at a part of the input.
    #[must_use]
    pub fn at(self, path: Vec<PathSegment>) -> Self {
        Self { path, ..self }
    }
}

impl<'a> StaticInputs<'a> {
    /// Returns the value of an input without expressions.
    #[must_use]
    pub fn literal(&self, name: &str) -> Option<&'a Value> {
        (self.template)(name)?.literal().filter(|value| !value.is_null())
    }

    /// Returns the part of an input that its file determines: of a map its literal entries, of a list all items; `None` if there is none.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<Value> {
        known_part((self.template)(name)?).filter(|value| !value.is_null())
    }

    /// Returns an input that is literal text as the input map of a call; the map is empty if the input holds an
    /// expression.
    pub(crate) fn literal_text(&self, name: &str) -> Map {
        let text = self.literal(name).filter(|value| matches!(value, Value::String(_) | Value::Number(_)));
        text.into_iter().map(|value| (name, Value::from(value.to_text()))).collect()
    }

    /// True if the input is certain to be set and not empty when the step runs.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        match (self.template)(name) {
            None | Some(Template::Expression(_)) => false,
            Some(Template::Literal(Value::Map(map))) => !map.is_empty(),
            Some(Template::Literal(value)) => !value.is_null(),
            Some(_) => true,
        }
    }

    /// Returns the keys of an input that is a map; `None` if they are not known.
    #[must_use]
    pub fn keys(&self, name: &str) -> Option<Vec<&'a str>> {
        match (self.template)(name)? {
            Template::Map(entries) => Some(entries.iter().map(|(key, _)| &**key).collect()),
            Template::Literal(Value::Map(map)) => Some(map.keys().collect()),
            Template::Literal(Value::Null) => Some(Vec::new()),
            _ => None,
        }
    }

    /// Returns the literal entries of an input that is a map.
    #[must_use]
    pub fn literal_entries(&self, name: &str) -> Map {
        match (self.template)(name) {
            Some(Template::Map(entries)) => {
                let known =
                    entries.iter().filter_map(|(key, value)| Some((&**key, value.literal()?.clone())));
                known.collect()
            }
            Some(Template::Literal(Value::Map(map))) => Map::clone(map),
            _ => Map::new(),
        }
    }

    /// True if the input is certain to be a list or a map when the step runs.
    pub(crate) fn is_structure(&self, name: &str) -> bool {
        matches!(
            (self.template)(name),
            Some(Template::Map(_) | Template::List(_) | Template::Literal(Value::Map(_) | Value::List(_)))
        )
    }

    /// Returns the literal prefix of a text input, and true if it is the whole text.
    #[must_use]
    pub fn text_prefix(&self, name: &str) -> Option<(&'a str, bool)> {
        match (self.template)(name)? {
            Template::Literal(Value::String(text)) => Some((text, true)),
            Template::Text(parts) => match parts.first()? {
                Part::Text(text) => Some((text, false)),
                Part::Expression(_) => None,
            },
            _ => None,
        }
    }
}

fn known_part(template: &Template) -> Option<Value> {
    match template {
        Template::Literal(value) => Some(value.clone()),
        Template::Expression(_) | Template::Text(_) => None,
        Template::List(items) => items.iter().map(known_part).collect::<Option<Vec<_>>>().map(Value::from),
        Template::Map(entries) => {
            let known = entries.iter().filter_map(|(key, value)| Some((&**key, known_part(value)?)));
            Some(Value::from(known.collect::<Map>()))
        }
    }
}
