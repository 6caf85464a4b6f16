//! What an action gives, as far as it is known before it runs: the type of `steps.<id>.results`.
//!
//! A type of its own beside [`InputType`](super::InputType): a result is never bent or defaulted, may be null or one of
//! several types, and knows fields that are absent at times. Types are shared, so cloning one is cheap.

use std::sync::Arc;

use serde::Serialize;

use super::{InputSpec, InputType};
use crate::value::Value;

/// The most types that one may be one of; of more nothing is known.
const MAX_ALTERNATIVES: usize = 16;
/// How many problems of one value [`ResultType::type_mismatches`] tells.
const MAX_MISMATCHES: usize = 20;

/// The type of a result or of a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ResultType {
    /// Anything: nothing is known of it.
    #[default]
    Any,
    /// Nothing at all.
    Null,
    /// A text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// One of these texts.
    Choice {
        /// The texts.
        options: Arc<[String]>,
    },
    /// A list of one type.
    List {
        /// The type of every item.
        items: Arc<ResultType>,
    },
    /// A map with any keys and values of one type.
    Map {
        /// The type of every value.
        values: Arc<ResultType>,
    },
    /// A map with known entries.
    Object(Arc<ObjectType>),
    /// Bytes, with the members that [`Value::get`] gives of a file.
    File,
    /// One of several types, such as a text or null.
    OneOf {
        /// The types, none of them `Any` or `OneOf` itself.
        types: Arc<[ResultType]>,
    },
}

/// A map with known entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectType {
    /// What its connector calls it, such as `Page`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The entries, in the order in which they are documented.
    pub fields: Vec<ResultField>,
    /// Whether there may be further entries, of which nothing is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// One entry of an [`ObjectType`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResultField {
    /// Its key.
    pub name: String,
    /// What stands there.
    #[serde(rename = "type")]
    pub kind: ResultType,
    /// Whether it may be absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// What it means, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl ResultType {
    /// The most parts that a type may have, shared ones counted each time: whoever prints or compares types goes through
    /// all of them.
    pub const MAX_PARTS: usize = 5_000;

    /// A list of this type.
    #[must_use]
    pub fn list(items: Self) -> Self {
        Self::List { items: Arc::new(items) }
    }

    /// A map with any keys and values of this type.
    #[must_use]
    pub fn map(values: Self) -> Self {
        Self::Map { values: Arc::new(values) }
    }

    /// A map with these entries and no others, all of them always there.
    pub fn object<N: Into<String>>(fields: impl IntoIterator<Item = (N, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, kind)| ResultField::new(name, kind));
        Self::Object(Arc::new(ObjectType { name: None, fields: fields.collect(), open: false }))
    }

    /// One of these types; of none nothing is known.
    #[must_use]
    pub fn one_of(types: impl IntoIterator<Item = Self>) -> Self {
        let mut distinct: Vec<Self> = Vec::new();
        for kind in types {
            for kind in kind.alternatives() {
                if !distinct.contains(kind) {
                    distinct.push(kind.clone());
                }
            }
            if kind == Self::Any || distinct.len() > MAX_ALTERNATIVES {
                return Self::Any;
            }
        }
        match distinct.len() {
            0 => Self::Any,
            1 => distinct.remove(0),
            _ => Self::OneOf { types: distinct.into() },
        }
    }

    /// This type or null.
    #[must_use]
    pub fn or_null(self) -> Self {
        Self::one_of([self, Self::Null])
    }

    /// Whether it has at most [`MAX_PARTS`](Self::MAX_PARTS) parts.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        count(self, Self::MAX_PARTS).is_some()
    }

    /// The types that it may be: itself, unless it is one of several.
    #[must_use]
    pub fn alternatives(&self) -> &[Self] {
        if let Self::OneOf { types } = self { types } else { std::slice::from_ref(self) }
    }

    /// What is known of a value that is known.
    #[must_use]
    pub fn infer(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::Text,
            Value::List(list) if list.0.is_empty() => Self::list(Self::Any),
            Value::List(list) => Self::list(Self::one_of(list.0.iter().map(Self::infer))),
            Value::Map(map) => Self::object(map.iter().map(|(key, value)| (&**key, Self::infer(value)))),
            Value::File(_) => Self::File,
        }
    }

    /// The type in the words of messages and reference pages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Any => "anything".into(),
            Self::Null => "null".into(),
            Self::Text => "text".into(),
            Self::Integer => "whole number".into(),
            Self::Number => "number".into(),
            Self::Boolean => "true or false".into(),
            Self::Choice { options } => format!("one of {}", options.join(", ")),
            Self::List { items } => format!("list of {}", items.describe()),
            Self::Map { values } => format!("map of {}", values.describe()),
            Self::Object(object) => object.name.clone().unwrap_or_else(|| "map".into()),
            Self::File => "file".into(),
            Self::OneOf { types } => types.iter().map(Self::describe).collect::<Vec<_>>().join(" or "),
        }
    }

    /// What of a value is not of this type, each with its path; nothing if it fits.
    #[must_use]
    pub fn type_mismatches(&self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        collect_mismatches(self, value, "", &mut found);
        found.truncate(MAX_MISMATCHES);
        found
    }

    /// True if a value may be of this type, going by its outermost kind alone.
    #[must_use]
    pub fn admits_kind(&self, value: &Value) -> bool {
        self.alternatives().iter().any(|kind| kind.admits(value))
    }

    /// Whether a value of this type can be said to be this value, going by its outermost kind alone.
    fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _)
            | (Self::Null, Value::Null)
            | (Self::Text | Self::Choice { .. }, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::List { .. }, Value::List(_))
            | (Self::Map { .. } | Self::Object(_), Value::Map(_))
            | (Self::File, Value::File(_)) => true,
            (Self::Integer, Value::Number(number)) => !number.is_f64(),
            _ => false,
        }
    }
}

/// An input that was given, as it is read.
impl From<&InputType> for ResultType {
    fn from(kind: &InputType) -> Self {
        match kind {
            InputType::Any => Self::Any,
            InputType::Text | InputType::Url => Self::Text,
            InputType::Integer { .. } => Self::Integer,
            InputType::Number => Self::Number,
            InputType::Boolean => Self::Boolean,
            InputType::Choice { options } => Self::Choice { options: options.clone().into() },
            InputType::List { items } => Self::list(items.as_ref().into()),
            InputType::Map { values } => Self::map(values.as_ref().into()),
            InputType::Object { fields } => {
                let field = |field: &InputSpec| ResultField {
                    name: field.name.clone(),
                    kind: (&field.kind).into(),
                    optional: !field.required && field.default.is_none(),
                    description: field.description.clone(),
                };
                let fields = fields.iter().map(field).collect();
                Self::Object(Arc::new(ObjectType { name: None, fields, open: false }))
            }
            InputType::File => Self::File,
        }
    }
}

impl ObjectType {
    /// The entry of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&ResultField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The names of the entries.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.fields.iter().map(|field| field.name.as_str())
    }
}

impl ResultField {
    /// An entry that is always there.
    pub fn new(name: impl Into<String>, kind: ResultType) -> Self {
        Self { name: name.into(), kind, optional: false, description: None }
    }

    /// With its meaning.
    #[must_use]
    pub fn about(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }
}

/// What is left of `budget` once every part of a type is counted; nothing if it does not suffice.
fn count(kind: &ResultType, budget: usize) -> Option<usize> {
    let left = budget.checked_sub(1)?;
    match kind {
        ResultType::List { items: inner } | ResultType::Map { values: inner } => count(inner, left),
        ResultType::Object(object) => {
            object.fields.iter().try_fold(left, |left, field| count(&field.kind, left))
        }
        ResultType::OneOf { types } => types.iter().try_fold(left, |left, kind| count(kind, left)),
        _ => Some(left),
    }
}

/// Notes what of a value is not of a type.
fn collect_mismatches(kind: &ResultType, value: &Value, path: &str, found: &mut Vec<String>) {
    if found.len() >= MAX_MISMATCHES {
        return;
    }
    let mut push = |words: String| {
        found.push(if path.is_empty() { words } else { format!("`{path}` {words}") });
    };
    match (kind, value) {
        (ResultType::OneOf { types }, value) => {
            let mut admitting = types.iter().filter(|kind| kind.admits(value));
            match (admitting.next(), admitting.next()) {
                (None, _) => push(format!("must be {}, found {}", kind.describe(), value.kind())),
                (Some(only), None) => collect_mismatches(only, value, path, found),
                // Of several that it may be, one has to fit.
                (Some(_), Some(_)) => {
                    let mut admitting = types.iter().filter(|kind| kind.admits(value));
                    if !admitting.any(|kind| kind.type_mismatches(value).is_empty()) {
                        push(format!("fits none of {}", kind.describe()));
                    }
                }
            }
        }
        (kind, value) if !kind.admits(value) => {
            push(format!("must be {}, found {}", kind.describe(), value.kind()));
        }
        (ResultType::Choice { options }, Value::String(text))
            if !options.iter().any(|one| **one == **text) =>
        {
            push(format!("must be {}, found `{text}`", kind.describe()));
        }
        (ResultType::List { items }, Value::List(list)) => {
            for (index, item) in list.0.iter().enumerate() {
                collect_mismatches(items, item, &format!("{path}[{index}]"), found);
            }
        }
        (ResultType::Map { values }, Value::Map(map)) => {
            map.iter().for_each(|(key, value)| collect_mismatches(values, value, &below(path, key), found));
        }
        (ResultType::Object(object), Value::Map(map)) => {
            for field in &object.fields {
                match map.get(&field.name) {
                    Some(value) => collect_mismatches(&field.kind, value, &below(path, &field.name), found),
                    None if field.optional => {}
                    None => found.push(format!("`{}` is missing", below(path, &field.name))),
                }
            }
            let unknown = map.keys().filter(|key| !object.open && object.field(key).is_none());
            found.extend(unknown.map(|key| format!("`{}` is not declared", below(path, key))));
        }
        _ => {}
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::value::JsonLimits;

    fn page() -> ResultType {
        let mut fields = vec![
            ResultField::new("id", ResultType::Text),
            ResultField::new("parentId", ResultType::Text.or_null()),
            ResultField::new("tags", ResultType::list(ResultType::Text)),
            ResultField::new(
                "status",
                ResultType::Choice { options: ["current", "draft"].map(str::to_owned).into() },
            ),
        ];
        fields[2].optional = true;
        ResultType::Object(Arc::new(ObjectType { name: Some("Page".into()), fields, open: false }))
    }

    fn check(kind: &ResultType, json: &str, expected: &[&str]) {
        let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
        assert_eq!(kind.type_mismatches(&value), expected, "{json}");
    }

    #[test]
    fn a_value_that_fits_has_no_misfits() {
        check(&page(), r#"{"id":"1","parentId":null,"status":"draft"}"#, &[]);
        check(&page(), r#"{"id":"1","parentId":"2","tags":["a"],"status":"current"}"#, &[]);
        check(&ResultType::Any, r#"{"anything":[1]}"#, &[]);
        check(&ResultType::Number, "1", &[]);
        check(&ResultType::one_of([page(), ResultType::map(ResultType::Integer)]), r#"{"a":1}"#, &[]);
    }

    #[test]
    fn every_misfit_is_told_with_its_path() {
        check(
            &ResultType::list(page()),
            r#"[{"parentId":3,"tags":["a",null],"status":"gone","more":1}]"#,
            &[
                "`[0].id` is missing",
                "`[0].parentId` must be text or null, found number",
                "`[0].tags[1]` must be text, found null",
                "`[0].status` must be one of current, draft, found `gone`",
                "`[0].more` is not declared",
            ],
        );
        check(&ResultType::Integer, "1.5", &["must be whole number, found number"]);
        check(
            &ResultType::one_of([page(), ResultType::map(ResultType::Integer)]),
            r#"{"a":"x"}"#,
            &["fits none of Page or map of whole number"],
        );
    }

    #[test]
    fn a_union_is_flat_and_says_nothing_where_anything_may_be() {
        let text_or_null = ResultType::Text.or_null();
        assert_eq!(ResultType::one_of([text_or_null.clone(), ResultType::Text]), text_or_null);
        assert_eq!(text_or_null.clone().or_null(), text_or_null);
        assert_eq!(ResultType::one_of([text_or_null, ResultType::Any]), ResultType::Any);
        assert_eq!(ResultType::one_of([]), ResultType::Any);
    }

    #[test]
    fn a_known_value_has_the_type_that_it_fits() {
        for json in [r#"{"a":[1,"x",null],"b":{}}"#, "[]", "1.5", "[[true],[1]]"] {
            let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
            assert_eq!(ResultType::infer(&value).type_mismatches(&value), Vec::<String>::new(), "{json}");
        }
    }
}
