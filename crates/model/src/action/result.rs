//! Static types of results: the type of `steps.<id>.results`.
//!
//! They differ from [`InputType`](super::InputType): a result is never coerced or defaulted, may be null or a union, and may
//! have optional fields. Parts of types are shared, so cloning is cheap.

use std::sync::Arc;

use serde::Serialize;
use value::Value;

use super::{InputSpec, InputType};

/// The maximum number of alternatives of a union; a larger one becomes `Any`.
const MAX_ALTERNATIVES: usize = 16;
/// The maximum number of problems that [`ResultType::type_mismatches`] returns.
const MAX_MISMATCHES: usize = 20;

/// The static type of a result or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ResultType {
    /// Any value.
    #[default]
    Any,
    /// Null.
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
        #[schema(value_type = Vec<String>)]
        options: Arc<[String]>,
    },
    /// A list of one type.
    List {
        /// The type of every item.
        #[schema(value_type = Box<ResultType>, no_recursion)]
        items: Arc<ResultType>,
    },
    /// A map with any keys and values of one type.
    Map {
        /// The type of every value.
        #[schema(value_type = Box<ResultType>, no_recursion)]
        values: Arc<ResultType>,
    },
    /// A map with known fields.
    Object(Arc<ObjectType>),
    /// A file.
    File,
    /// A union of types, such as text or null.
    OneOf {
        /// The alternatives. Invariant: none is `Any` or `OneOf`.
        #[schema(value_type = Vec<ResultType>, no_recursion)]
        types: Arc<[ResultType]>,
    },
}

/// The type of a map with known fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectType {
    /// The connector's name for it, such as `Page`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The fields, in documented order.
    pub fields: Vec<ResultField>,
    /// True if there may be further, unknown fields.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// A field of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultField {
    /// The key.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    #[schema(no_recursion)]
    pub kind: ResultType,
    /// True if the field may be absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The meaning, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl ResultType {
    /// The maximum number of parts of a type, where shared parts count each time. Bounds the work of printing and comparing.
    pub const MAX_PARTS: usize = 5_000;

    /// Returns the type of lists of `items`.
    #[must_use]
    pub fn list(items: Self) -> Self {
        Self::List { items: Arc::new(items) }
    }

    /// Returns the type of maps with any keys and values of this type.
    #[must_use]
    pub fn map(values: Self) -> Self {
        Self::Map { values: Arc::new(values) }
    }

    /// Returns the type of maps with exactly these fields.
    pub fn object<N: Into<String>>(fields: impl IntoIterator<Item = (N, Self)>) -> Self {
        let fields = fields.into_iter().map(|(name, kind)| ResultField::new(name, kind));
        Self::Object(Arc::new(ObjectType { name: None, fields: fields.collect(), open: false }))
    }

    /// Returns the union of the types; `Any` for none.
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

    /// Returns the union with null.
    #[must_use]
    pub fn or_null(self) -> Self {
        Self::one_of([self, Self::Null])
    }

    /// True if the type has at most [`MAX_PARTS`](Self::MAX_PARTS) parts.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        subtract_parts(self, Self::MAX_PARTS).is_some()
    }

    /// Returns the alternatives of a union; any other type is its own only alternative.
    #[must_use]
    pub fn alternatives(&self) -> &[Self] {
        if let Self::OneOf { types } = self { types } else { std::slice::from_ref(self) }
    }

    /// Returns the map type with known entries that this type is or contains; of a union, the first.
    #[must_use]
    pub fn object_within(&self) -> Option<&ObjectType> {
        match self {
            Self::Object(object) => Some(object),
            Self::List { items: inner } | Self::Map { values: inner } => inner.object_within(),
            Self::OneOf { types } => types.iter().find_map(Self::object_within),
            _ => None,
        }
    }

    /// Infers the type of a value.
    #[must_use]
    pub fn infer(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) | Value::Decimal(_) => Self::Text,
            Value::List(list) if list.0.is_empty() => Self::list(Self::Any),
            Value::List(list) => Self::list(Self::one_of(list.0.iter().map(Self::infer))),
            Value::Map(map) => Self::object(map.iter().map(|(key, value)| (&**key, Self::infer(value)))),
            Value::File(_) => Self::File,
        }
    }

    /// Describes the type for messages and reference pages.
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

    /// Returns the parts of a value that do not have this type, each with its path; empty if the value matches.
    #[must_use]
    pub fn type_mismatches(&self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        collect_mismatches(self, value, "", &mut found);
        found.truncate(MAX_MISMATCHES);
        found
    }

    /// True if the outermost kind of the value matches this type.
    #[must_use]
    pub fn accepts_kind(&self, value: &Value) -> bool {
        self.alternatives().iter().any(|kind| kind.accepts(value))
    }

    /// True if the outermost kind of the value matches this type, which is not a union.
    fn accepts(&self, value: &Value) -> bool {
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

/// Converts the type of an input to the type of its value.
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
    /// Returns the field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&ResultField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.fields.iter().map(|field| field.name.as_str())
    }
}

impl ResultField {
    /// Creates a required field.
    pub fn new(name: impl Into<String>, kind: ResultType) -> Self {
        Self { name: name.into(), kind, optional: false, description: None }
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }
}

/// Subtracts the number of parts of a type from `budget`; `None` if it is too small.
fn subtract_parts(kind: &ResultType, budget: usize) -> Option<usize> {
    let left = budget.checked_sub(1)?;
    match kind {
        ResultType::List { items: inner } | ResultType::Map { values: inner } => subtract_parts(inner, left),
        ResultType::Object(object) => {
            object.fields.iter().try_fold(left, |left, field| subtract_parts(&field.kind, left))
        }
        ResultType::OneOf { types } => types.iter().try_fold(left, |left, kind| subtract_parts(kind, left)),
        _ => Some(left),
    }
}

/// Appends the parts of `value` that do not have the type `kind`.
fn collect_mismatches(kind: &ResultType, value: &Value, path: &str, found: &mut Vec<String>) {
    if found.len() >= MAX_MISMATCHES {
        return;
    }
    let mut push = |problem: String| {
        found.push(if path.is_empty() { problem } else { format!("`{path}` {problem}") });
    };
    match (kind, value) {
        (ResultType::OneOf { types }, value) => {
            let mut admitting = types.iter().filter(|kind| kind.accepts(value));
            match (admitting.next(), admitting.next()) {
                (None, _) => push(format!("must be {}, found {}", kind.describe(), value.kind())),
                (Some(only), None) => collect_mismatches(only, value, path, found),
                // Several alternatives have this kind: one must match completely.
                (Some(_), Some(_)) => {
                    let mut admitting = types.iter().filter(|kind| kind.accepts(value));
                    if !admitting.any(|kind| kind.type_mismatches(value).is_empty()) {
                        push(format!("fits none of {}", kind.describe()));
                    }
                }
            }
        }
        (kind, value) if !kind.accepts(value) => {
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
            map.iter()
                .for_each(|(key, value)| collect_mismatches(values, value, &join_path(path, key), found));
        }
        (ResultType::Object(object), Value::Map(map)) => {
            for field in &object.fields {
                match map.get(&field.name) {
                    Some(value) => {
                        collect_mismatches(&field.kind, value, &join_path(path, &field.name), found)
                    }
                    None if field.optional => {}
                    None => found.push(format!("`{}` is missing", join_path(path, &field.name))),
                }
            }
            let unknown = map.keys().filter(|key| !object.open && object.field(key).is_none());
            found.extend(unknown.map(|key| format!("`{}` is not declared", join_path(path, key))));
        }
        _ => {}
    }
}

fn join_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use value::JsonLimits;

    use super::*;

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
    fn a_matching_value_has_no_mismatches() {
        check(&page(), r#"{"id":"1","parentId":null,"status":"draft"}"#, &[]);
        check(&page(), r#"{"id":"1","parentId":"2","tags":["a"],"status":"current"}"#, &[]);
        check(&ResultType::Any, r#"{"anything":[1]}"#, &[]);
        check(&ResultType::Number, "1", &[]);
        check(&ResultType::one_of([page(), ResultType::map(ResultType::Integer)]), r#"{"a":1}"#, &[]);
    }

    #[test]
    fn every_mismatch_has_its_path() {
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
    fn a_union_is_flat_and_any_absorbs_it() {
        let text_or_null = ResultType::Text.or_null();
        assert_eq!(ResultType::one_of([text_or_null.clone(), ResultType::Text]), text_or_null);
        assert_eq!(text_or_null.clone().or_null(), text_or_null);
        assert_eq!(ResultType::one_of([text_or_null, ResultType::Any]), ResultType::Any);
        assert_eq!(ResultType::one_of([]), ResultType::Any);
    }

    #[test]
    fn a_value_matches_its_inferred_type() {
        for json in [r#"{"a":[1,"x",null],"b":{}}"#, "[]", "1.5", "[[true],[1]]"] {
            let value = Value::from_json(json.as_bytes(), JsonLimits::default()).expect("JSON");
            assert_eq!(ResultType::infer(&value).type_mismatches(&value), Vec::<String>::new(), "{json}");
        }
    }

    #[test]
    fn a_type_is_bounded_up_to_the_maximum_number_of_parts() {
        let with_fields = |count: usize| {
            ResultType::object((0..count).map(|number| (format!("f{number}"), ResultType::Text)))
        };
        // The object itself is a part.
        assert!(with_fields(ResultType::MAX_PARTS - 1).is_bounded());
        assert!(!with_fields(ResultType::MAX_PARTS).is_bounded());
    }
}
