//! Equality of values as JSON Schema defines it, under a budget, for `const`, `enum` and `uniqueItems`.
//!
//! Numbers are equal if their mathematical values are; the order of keys is irrelevant.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};

use value::budget::{Budget, Exceeded};
use value::{Number, Value};

/// The memory of an item in the hash table of [`duplicate`], in bytes.
const ENTRY: usize = 48;

/// A canonical form of a number, equal for equal numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Exact {
    Integer(i128),
    /// The bits of a float that is not an integer, or exceeds 128 bits.
    Float(u64),
}

fn exact(number: &Number) -> Exact {
    if let Some(integer) = integer(number) {
        return Exact::Integer(integer);
    }
    let float = number.as_f64().unwrap_or_default();
    // Every such float is an integer within the range of `i128`.
    if float.fract() == 0.0 && float.abs() < 1e38 {
        #[expect(clippy::cast_possible_truncation, reason = "it is an integer within the range")]
        return Exact::Integer(float as i128);
    }
    Exact::Float(float.to_bits())
}

/// The integer value of a number in integer notation.
pub(super) fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Compares two values for equality.
///
/// # Errors
/// Returns an error if the budget is spent.
pub(super) fn equal(one: &Value, other: &Value, budget: &Budget) -> Result<bool, Exceeded> {
    budget.charge(1)?;
    Ok(match (one, other) {
        (Value::Number(one), Value::Number(other)) => exact(one) == exact(other),
        (Value::String(one), Value::String(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            budget.charge_text(one.len())?;
            one == other
        }
        (Value::List(one), Value::List(other)) => {
            if one.0.len() != other.0.len() {
                return Ok(false);
            }
            for (one, other) in one.0.iter().zip(&other.0) {
                if !equal(one, other, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(one), Value::Map(other)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (key, one) in one.iter() {
                budget.charge_text(key.len())?;
                let Some(other) = other.get(key) else { return Ok(false) };
                if !equal(one, other, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (one, other) => one == other,
    })
}

/// Finds the first item that equals an earlier one and returns the positions of both.
///
/// # Errors
/// Returns an error if the budget is spent.
pub(super) fn duplicate(items: &[Value], budget: &Budget) -> Result<Option<(usize, usize)>, Exceeded> {
    budget.allocate(items.len().saturating_mul(ENTRY))?;
    // The hash key is random per process, which prevents forged collisions.
    let state = RandomState::new();
    let mut positions: HashMap<u64, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut hash = digest(item, &state, budget)?;
        // Linear probing: of two different items with the same hash, the later one takes the next slot.
        while let Some(&earlier) = positions.get(&hash) {
            if equal(&items[earlier], item, budget)? {
                return Ok(Some((earlier, index)));
            }
            hash = hash.wrapping_add(1);
        }
        positions.insert(hash, index);
    }
    Ok(None)
}

/// A hash that equal values share.
fn digest(value: &Value, state: &RandomState, budget: &Budget) -> Result<u64, Exceeded> {
    budget.charge(4)?;
    let mut hasher = state.build_hasher();
    std::mem::discriminant(value).hash(&mut hasher);
    match value {
        Value::Null | Value::Decimal(_) | Value::File(_) => {}
        Value::Bool(value) => value.hash(&mut hasher),
        Value::Number(number) => exact(number).hash(&mut hasher),
        Value::String(text) => {
            budget.charge_text(text.len())?;
            text.as_str().hash(&mut hasher);
        }
        Value::List(list) => {
            for item in &list.0 {
                digest(item, state, budget)?.hash(&mut hasher);
            }
        }
        Value::Map(map) => {
            let mut sum = 0_u64;
            for (key, value) in map.iter() {
                budget.charge_text(key.len())?;
                let entry = (state.hash_one(key.as_str()), digest(value, state, budget)?);
                sum = sum.wrapping_add(state.hash_one(entry));
            }
            sum.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}
