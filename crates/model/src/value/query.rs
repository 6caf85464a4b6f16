//! How the two expression languages look at a [`Value`] without copying it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jsonpath_rust::query::queryable::Queryable;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};

use super::{File, List, MOST_WHOLE, Map, Value};

impl Queryable for Value {
    fn get(&self, key: &str) -> Option<&Self> {
        // A child segment names exactly one member, so look-up by header case does not apply here.
        if let Self::Map(map) = self { map.get(key) } else { None }
    }

    fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::List(list) = self { Some(&list.0) } else { None }
    }

    fn as_object(&self) -> Option<Vec<(&str, &Self)>> {
        if let Self::Map(map) = self {
            Some(map.iter().map(|(key, value)| (key.as_ref(), value)).collect())
        } else {
            None
        }
    }

    fn as_str(&self) -> Option<&str> {
        self.as_str()
    }

    fn as_i64(&self) -> Option<i64> {
        self.as_i64()
    }

    fn as_f64(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    fn as_bool(&self) -> Option<bool> {
        self.as_bool()
    }

    fn null() -> Self {
        Self::Null
    }

    fn extension_custom(_name: &str, _args: Vec<Cow<'_, Self>>) -> Self {
        Self::Null
    }
}

/// A value as the expression language sees it; lists, maps and files are shared.
impl From<&Value> for minijinja::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::from(()),
            Value::Bool(value) => Self::from(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) => Self::from(integer),
                (_, Some(integer)) => Self::from(integer),
                _ => Self::from(number.as_f64().unwrap_or_default()),
            },
            // What is short is copied into place, what is long is shared.
            Value::String(text) if text.is_heap_allocated() => Self::from(Arc::<str>::from(text.clone())),
            Value::String(text) => Self::from(text.as_str()),
            Value::List(list) => Self::from_dyn_object(list.clone()),
            Value::Map(map) => Self::from_dyn_object(map.clone()),
            Value::File(file) => Self::from_dyn_object(file.clone()),
        }
    }
}

/// Why a result of the expression language is not a [`Value`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotAValue {
    /// It is undefined: something it names does not exist.
    Undefined,
    /// It is of a kind that has no JSON form, such as a function.
    Kind(&'static str),
    /// It is larger than a result may be.
    TooLarge,
}

/// The most items that one expression may produce, over all levels.
const MAX_ITEMS: usize = 1_000_000;

pub(crate) fn from_expression(value: &minijinja::Value) -> Result<Value, NotAValue> {
    let mut left = MAX_ITEMS;
    convert(value, &mut left)
}

fn convert(value: &minijinja::Value, left: &mut usize) -> Result<Value, NotAValue> {
    *left = left.checked_sub(1).ok_or(NotAValue::TooLarge)?;
    if let Some(object) = value.as_object() {
        if let Some(map) = object.downcast::<Map>() {
            return Ok(Value::Map(map));
        }
        if let Some(list) = object.downcast::<List>() {
            return Ok(Value::List(list));
        }
        if let Some(file) = object.downcast::<File>() {
            return Ok(Value::File(file));
        }
    }
    match value.kind() {
        ValueKind::Undefined => Err(NotAValue::Undefined),
        ValueKind::None => Ok(Value::Null),
        ValueKind::Bool => Ok(Value::Bool(value.is_true())),
        ValueKind::Number => number(value),
        ValueKind::String => Ok(value.to_str().map_or(Value::Null, Value::from)),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|_| NotAValue::Kind("iterator"))?;
            items.map(|item| convert(&item, left)).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter().map_err(|_| NotAValue::Kind("map"))? {
                let item = value.get_item(&key).map_err(|_| NotAValue::Kind("map"))?;
                map.insert(key.to_string(), convert(&item, left)?);
            }
            Ok(Value::from(map))
        }
        ValueKind::Bytes => Err(NotAValue::Kind("bytes")),
        _ => Err(NotAValue::Kind("function or object")),
    }
}

fn number(value: &minijinja::Value) -> Result<Value, NotAValue> {
    if value.is_integer() {
        if let Some(integer) = value.as_i64() {
            return Ok(Value::from(integer));
        }
        if let Ok(integer) = u64::try_from(value.clone()) {
            return Ok(Value::from(integer));
        }
        return Err(NotAValue::Kind("number over 64 bits"));
    }
    f64::try_from(value.clone()).map(Value::from).map_err(|_| NotAValue::Kind("number"))
}

/// A value as it goes into a text: with all bytes of its files, if that is no more than may be.
fn whole(value: Value) -> Result<Value, fmt::Error> {
    value.loaded(MOST_WHOLE).map_err(|_| fmt::Error)
}

impl Object for Map {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<minijinja::Value> {
        self.get(key).map(Into::into)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let keys = self.keys().map(minijinja::Value::from).collect();
        Enumerator::Values(keys)
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.len())
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&whole(Value::Map(self.clone()))?.to_json())
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        self.0.get(key.as_usize()?).map(Into::into)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&whole(Value::List(self.clone()))?.to_json())
    }
}

impl Object for File {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<minijinja::Value> {
        Value::File(self.clone()).get(key).as_ref().map(Into::into)
    }

    fn is_true(self: &Arc<Self>) -> bool {
        !self.data.is_empty()
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&whole(Value::File(self.clone()))?.to_text())
    }
}
