//! The compiled form of a schema: a node per subschema, with its keywords in evaluation order.

use value::{Number, Value};

use super::pattern::Pattern;

/// The index of a node in its [`Program`].
pub(super) type Id = usize;

/// A compiled schema.
pub(super) struct Program {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Id,
    /// The dynamic anchors of each resource: the number of the name, and the node.
    pub(super) dynamic_anchors: Vec<Vec<(usize, Id)>>,
    /// The number of distinct names of dynamic anchors.
    pub(super) anchor_names: usize,
}

/// A compiled subschema.
#[derive(Default)]
pub(super) struct Node {
    pub(super) keywords: Vec<Keyword>,
    /// `unevaluatedProperties`, evaluated after all keywords.
    pub(super) unevaluated_properties: Option<Id>,
    /// `unevaluatedItems`, evaluated after all keywords.
    pub(super) unevaluated_items: Option<Id>,
    /// The resource (`$id`) that the subschema belongs to.
    pub(super) resource: usize,
    /// True if the node is the target of a reference and reaches another reference. Results of such nodes are memoized during a
    /// check, because every exponential set of paths goes through them.
    pub(super) memoized: bool,
}

impl Node {
    /// Returns true if every value is valid.
    pub(super) fn is_trivial(&self) -> bool {
        self.keywords.is_empty() && self.unevaluated_properties.is_none() && self.unevaluated_items.is_none()
    }
}

/// A keyword of a subschema, or several keywords that are evaluated together.
pub(super) enum Keyword {
    /// The schema `false`.
    False,
    Type(Types),
    Const(Value),
    Enum(Vec<Value>),
    Ref(Id),
    /// `$dynamicRef`, with the number of the anchor's name if the target has such a dynamic anchor.
    DynamicRef(Id, Option<usize>),
    MinProperties(usize),
    MaxProperties(usize),
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    Members(Members),
    PropertyNames(Id),
    DependentSchemas(Vec<(String, Id)>),
    MinItems(usize),
    MaxItems(usize),
    UniqueItems,
    Items {
        prefix: Vec<Id>,
        rest: Option<Id>,
    },
    Contains {
        schema: Id,
        /// `minContains`, if present.
        min: Option<usize>,
        max: Option<usize>,
    },
    MinLength(usize),
    MaxLength(usize),
    Pattern(Pattern),
    Minimum(Number),
    Maximum(Number),
    ExclusiveMinimum(Number),
    ExclusiveMaximum(Number),
    MultipleOf(Number),
    Not(Id),
    AllOf(Vec<Id>),
    AnyOf(Vec<Id>),
    OneOf(Vec<Id>),
    If {
        condition: Id,
        then: Option<Id>,
        otherwise: Option<Id>,
    },
}

/// `properties`, `patternProperties` and `additionalProperties`.
pub(super) struct Members {
    pub(super) properties: indexmap::IndexMap<String, Id>,
    pub(super) patterns: Vec<(Pattern, Id)>,
    pub(super) additional: Additional,
}

/// `additionalProperties`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Additional {
    /// The keyword is absent.
    Unspecified,
    /// The keyword is `false`.
    Denied,
    Schema(Id),
}

impl Keyword {
    /// Calls `visit` with the subschemas of the keyword, without the targets of references.
    pub(super) fn children(&self, visit: &mut dyn FnMut(Id)) {
        match self {
            Self::PropertyNames(id) | Self::Not(id) | Self::Contains { schema: id, .. } => visit(*id),
            Self::AllOf(ids) | Self::AnyOf(ids) | Self::OneOf(ids) => ids.iter().copied().for_each(visit),
            Self::DependentSchemas(named) => named.iter().for_each(|(_, id)| visit(*id)),
            Self::Items { prefix, rest } => prefix.iter().chain(rest).copied().for_each(visit),
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().for_each(visit);
            }
            Self::Members(members) => {
                members.properties.values().copied().for_each(&mut *visit);
                members.patterns.iter().for_each(|(_, id)| visit(*id));
                if let Additional::Schema(id) = members.additional {
                    visit(id);
                }
            }
            _ => {}
        }
    }
}

/// A set of the types of JSON.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

const INTEGER: usize = 3;
/// The types, in the order of messages.
const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

impl Types {
    /// Adds the type of this name; ignores an unknown name.
    pub(super) fn insert(&mut self, name: &str) {
        if let Some(index) = TYPES.iter().position(|known| *known == name) {
            self.0 |= 1 << index;
        }
    }

    /// Returns true if no type is in the set.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if `value` has one of the types.
    pub(super) fn contain(self, value: &Value) -> bool {
        let index = TYPES.iter().position(|name| *name == type_name(value)).unwrap_or_default();
        let has = |index: usize| self.0 & (1 << index) != 0;
        has(index) || (has(INTEGER) && matches!(value, Value::Number(number) if is_integer(number)))
    }

    /// The names of the types.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        TYPES
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| self.0 & (1 << index) != 0)
            .map(|(_, name)| name)
    }
}

/// The name of a value's type. A file never occurs here, since checks replace files by maps.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) | Value::Decimal(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) | Value::File(_) => "object",
    }
}

fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}
