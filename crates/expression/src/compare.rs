//! Comparisons of values under a [`Budget`]: equality, order, containment, and numeric comparison.
//!
//! In expressions a boolean equals its number (`true == 1`); in JSONPath values of different types are never equal.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use value::budget::{Budget, Exceeded};
use value::{Number, Value};

use super::decimals;

/// A number for arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numeric {
    Integer(i128),
    Float(f64),
}

impl Numeric {
    pub(super) fn from_number(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Self::Integer(integer.into()),
            (_, Some(integer)) => Self::Integer(integer.into()),
            _ => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    /// The number of a numeric or boolean value; `None` for other types.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Some(Self::from_number(number)),
            Value::Bool(value) => Some(Self::Integer((*value).into())),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a float is what is asked for")]
    pub(super) fn to_float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => left.cmp(&right),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
            (Self::Integer(left), Self::Float(right)) => order_mixed(left, right),
            (Self::Float(left), Self::Integer(right)) => order_mixed(right, left).reverse(),
        }
    }
}

/// Compares an integer and a float exactly, also beyond the integers that a float can represent.
fn order_mixed(integer: i128, float: f64) -> Ordering {
    // Integers here have 64 bits, so these bounds exceed all of them.
    if float >= 1e30 {
        return Ordering::Less;
    }
    if float <= -1e30 {
        return Ordering::Greater;
    }
    let whole = float.trunc();
    #[expect(clippy::cast_possible_truncation, reason = "it is within the range of an i128")]
    let order = integer.cmp(&(whole as i128));
    order.then(0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
}

/// Compares two numbers.
pub(super) fn order_numbers(left: &Number, right: &Number) -> Ordering {
    Numeric::from_number(left).order(Numeric::from_number(right))
}

/// Equality as expressions define it.
pub(super) fn equal(left: &Value, right: &Value, budget: &Budget) -> Result<bool, Exceeded> {
    if let (Some(left), Some(right)) = (Numeric::from_value(left), Numeric::from_value(right)) {
        budget.charge(1)?;
        return Ok(left.order(right).is_eq());
    }
    if matches!((left, right), (Value::Decimal(_), _) | (_, Value::Decimal(_))) {
        budget.charge(decimals::OPERATION)?;
        return Ok(decimals::order(left, right).is_some_and(Ordering::is_eq));
    }
    equal_with(left, right, budget, equal)
}

/// Equality as JSONPath defines it.
pub(super) fn equal_json(left: &Value, right: &Value, budget: &Budget) -> Result<bool, Exceeded> {
    if let (Value::Number(left), Value::Number(right)) = (left, right) {
        budget.charge(1)?;
        return Ok(order_numbers(left, right).is_eq());
    }
    equal_with(left, right, budget, equal_json)
}

fn equal_with(
    left: &Value,
    right: &Value,
    budget: &Budget,
    inner: fn(&Value, &Value, &Budget) -> Result<bool, Exceeded>,
) -> Result<bool, Exceeded> {
    budget.charge(1)?;
    match (left, right) {
        (Value::String(left), Value::String(right)) if left.len() == right.len() => {
            budget.charge_text(left.len())?;
            Ok(left == right)
        }
        (Value::List(left), Value::List(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.0.len() != right.0.len() {
                return Ok(false);
            }
            for (left, right) in left.0.iter().zip(&right.0) {
                if !inner(left, right, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(left), Value::Map(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ok(true);
            }
            if left.len() != right.len() {
                return Ok(false);
            }
            for (key, left) in left.iter() {
                budget.charge_text(key.len())?;
                let Some(right) = right.get(key) else { return Ok(false) };
                if !inner(left, right, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::File(left), Value::File(right)) => {
            budget.charge_text(left.data.in_memory().map_or(0, bytes::Bytes::len))?;
            Ok(left == right)
        }
        (Value::Null, Value::Null) => Ok(true),
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        _ => Ok(false),
    }
}

/// Orders two values: by type first (null, boolean, number, text, list, map, file), then by content. Call [`charge_order`]
/// before, because a sort cannot fail half-way.
pub(super) fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right),
        (Value::Decimal(_), _) | (_, Value::Decimal(_)) => {
            decimals::order(left, right).unwrap_or_else(|| rank(left).cmp(&rank(right)))
        }
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::List(left), Value::List(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ordering::Equal;
            }
            let items = left.0.iter().zip(&right.0).map(|(left, right)| order(left, right));
            items.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.0.len().cmp(&right.0.len()))
        }
        (Value::Map(left), Value::Map(right)) => {
            if Arc::ptr_eq(left, right) {
                return Ordering::Equal;
            }
            let entries = left.iter().zip(right.iter()).map(|((left_key, left), (right_key, right))| {
                left_key.cmp(right_key).then_with(|| order(left, right))
            });
            entries.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::File(left), Value::File(right)) => {
            let bytes = |file: &value::File| file.data.in_memory().cloned();
            left.data.len().cmp(&right.data.len()).then_with(|| bytes(left).cmp(&bytes(right)))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) | Value::Decimal(_) => 2,
        Value::String(_) => 3,
        Value::List(_) => 4,
        Value::Map(_) => 5,
        Value::File(_) => 6,
    }
}

/// As [`order`], but ignores the case of ASCII letters in texts, and in the texts of lists, which are keys of several parts.
pub(super) fn order_folded(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
            let mut parts = left.0.iter().zip(&right.0).map(|(left, right)| order_folded(left, right));
            parts.find(|order| order.is_ne()).unwrap_or_else(|| left.0.len().cmp(&right.0.len()))
        }
        (Value::String(left), Value::String(right)) => {
            let right = right.bytes().map(|byte| byte.to_ascii_lowercase());
            left.bytes().map(|byte| byte.to_ascii_lowercase()).cmp(right)
        }
        _ => order(left, right),
    }
}

/// Charges one comparison of two values by the size of the smaller.
pub(super) fn charge_order(left: &Value, right: &Value, budget: &Budget) -> Result<(), Exceeded> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => budget.charge_text(left.len().min(right.len())),
        (Value::List(_) | Value::Map(_) | Value::File(_), _) if rank(left) == rank(right) => {
            charge_whole(left, budget).map(drop)
        }
        (Value::Decimal(_), _) | (_, Value::Decimal(_)) => budget.charge(decimals::OPERATION),
        _ => budget.charge(1),
    }
}

/// Charges a traversal of a value, shared parts as often as they occur, and returns the units.
pub(super) fn charge_whole(value: &Value, budget: &Budget) -> Result<usize, Exceeded> {
    let own = match value {
        Value::String(text) => text.len() / value::budget::BYTES_PER_UNIT + 1,
        Value::File(file) => {
            file.data.in_memory().map_or(1, bytes::Bytes::len) / value::budget::BYTES_PER_UNIT + 1
        }
        Value::Decimal(_) => decimals::OPERATION,
        _ => 1,
    };
    budget.charge(own)?;
    match value {
        Value::List(list) => list.0.iter().try_fold(own, |sum, item| Ok(sum + charge_whole(item, budget)?)),
        Value::Map(map) => map.iter().try_fold(own, |sum, (key, item)| {
            let units = key.len() / value::budget::BYTES_PER_UNIT + 1;
            budget.charge(units)?;
            Ok(sum + units + charge_whole(item, budget)?)
        }),
        _ => Ok(own),
    }
}

/// The hasher of map entries, with a random key per process against forged collisions.
static ENTRIES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A value as a key of a hash table, with the equality of [`equal`].
pub(super) struct HashKey<V>(pub(super) V);

impl<V: Borrow<Value>> PartialEq for HashKey<V> {
    fn eq(&self, other: &Self) -> bool {
        // The caller charged the work when it created the keys.
        equal(self.0.borrow(), other.0.borrow(), &Budget::default()).unwrap_or(false)
    }
}

impl<V: Borrow<Value>> Eq for HashKey<V> {}

impl<V: Borrow<Value>> Hash for HashKey<V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.0.borrow(), state);
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    if let Some(number) = Numeric::from_value(value) {
        2_u8.hash(state);
        match number {
            Numeric::Integer(integer) => integer.hash(state),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole and within the range of an i128"
            )]
            Numeric::Float(float) if float.trunc() == float && float.abs() < 1e30 => {
                (float as i128).hash(state)
            }
            Numeric::Float(float) => float.to_bits().hash(state),
        }
        return;
    }
    if let Value::Decimal(number) = value {
        // As an equal integer or float.
        2_u8.hash(state);
        let whole = number.to_integer().filter(|whole| whole.unsigned_abs() < 10_u128.pow(30));
        match whole.filter(|whole| value::Decimal::from(*whole) == **number) {
            Some(whole) => whole.hash(state),
            None => number.to_float().to_bits().hash(state),
        }
        return;
    }
    rank(value).hash(state);
    match value {
        Value::String(text) => text.hash(state),
        Value::List(list) => {
            list.0.len().hash(state);
            list.0.iter().for_each(|item| hash(item, state));
        }
        // Equality ignores the order of entries.
        Value::Map(map) => {
            map.len().hash(state);
            let sum = map.iter().fold(0_u64, |sum, (key, item)| {
                let mut entry = ENTRIES.build_hasher();
                key.hash(&mut entry);
                hash(item, &mut entry);
                sum.wrapping_add(entry.finish())
            });
            sum.hash(state);
        }
        Value::File(file) => file.data.len().hash(state),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Decimal(_) => {}
    }
}

/// The indices of a slice, in order, as Python and RFC 9535 (section 2.3.4.2) define them; none for a step of zero.
pub(super) fn slice_indices(
    length: usize,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> impl Iterator<Item = usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let normal = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let (first, last) = if step >= 0 {
        let start = normal(start.unwrap_or(0)).clamp(0, length);
        (start, normal(end.unwrap_or(length)).clamp(0, length))
    } else {
        let start = start.map_or(length - 1, normal).clamp(-1, length - 1);
        (start, end.map_or(-1, normal).clamp(-1, length - 1))
    };
    let mut next = first;
    std::iter::from_fn(move || {
        let inside = if step > 0 { next < last } else { step < 0 && next > last };
        let index = inside.then(|| usize::try_from(next).ok()).flatten()?;
        next = next.saturating_add(step);
        Some(index)
    })
}
