//! Filters that choose items of a list: by a test, or by an expression evaluated for each of them, `by`.

use std::collections::HashSet;

use value::Value;
use value::budget::BYTES_PER_UNIT;

use super::lists::{ok, short};
use super::{BY, Call};
use crate::compare::{self, HashKey};
use crate::failure::{EvalResult, Failure};
use crate::predicates::{self, Predicate};

/// `select`.
pub(super) fn select(call: &Call<'_>) -> EvalResult {
    choose(call, true, None, &call.rest.positional)
}

/// `reject`.
pub(super) fn reject(call: &Call<'_>) -> EvalResult {
    choose(call, false, None, &call.rest.positional)
}

/// `selectattr`.
pub(super) fn select_attribute(call: &Call<'_>) -> EvalResult {
    choose_by_attribute(call, true)
}

/// `rejectattr`.
pub(super) fn reject_attribute(call: &Call<'_>) -> EvalResult {
    choose_by_attribute(call, false)
}

fn choose_by_attribute(call: &Call<'_>, expected: bool) -> EvalResult {
    let Some((Value::String(attribute), arguments)) = call.rest.positional.split_first() else {
        return Err("takes the name of an attribute, as in `selectattr('status', 'eq', 'open')`".into());
    };
    choose(call, expected, Some(attribute), arguments)
}

/// The items for which the test returns `expected`. Without a test, the truth of the item counts.
fn choose(call: &Call<'_>, expected: bool, attribute: Option<&str>, arguments: &[Value]) -> EvalResult {
    let items = call.items()?;
    if let Some(by) = call.each(BY) {
        return keep(&items, call, |item| Ok(call.evaluate_for(by, item)?.is_truthy() == expected));
    }
    let (test, arguments) = match arguments.split_first() {
        None => (None, arguments),
        Some((Value::String(name), arguments)) => {
            let test = predicates::find(name).ok_or_else(|| format!("there is no test `{}`", short(name)))?;
            (Some(test), arguments)
        }
        Some(_) => return Err("takes the name of a test, as in `select('odd')`".into()),
    };
    let index = test.and_then(|test| Index::build(test, arguments, call).transpose()).transpose()?;
    keep(&items, call, |item| {
        let value = match attribute {
            Some(attribute) => call.evaluation.attribute(item, attribute)?,
            None => Some(item.clone()),
        };
        let holds = match (&index, test, &value) {
            (Some(index), _, Some(value)) => index.has(value, call)?,
            (_, Some(test), value) => test.apply(call.evaluation, value.as_ref(), arguments)?,
            (_, None, value) => value.as_ref().is_some_and(Value::is_truthy),
        };
        Ok(holds == expected)
    })
}

fn keep(
    items: &[Value],
    call: &Call<'_>,
    mut is_chosen: impl FnMut(&Value) -> Result<bool, Failure>,
) -> EvalResult {
    let mut chosen = Vec::new();
    for item in items {
        if is_chosen(item)? {
            call.budget().allocate_list(1)?;
            chosen.push(item.clone());
        }
    }
    ok(chosen)
}

/// `takeWhile`: the items before the first for which `by` is not true.
pub(super) fn take_while(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let by = call.each(BY).ok_or("`by` is missing")?;
    let mut taken = 0;
    while let Some(item) = items.get(taken)
        && call.evaluate_for(by, item)?.is_truthy()
    {
        taken += 1;
    }
    call.budget().allocate_list(taken)?;
    ok(items[..taken].to_vec())
}

/// The list operand of `in` as a hash table, so that the filter does not search the list for every item.
struct Index<'l>(HashSet<HashKey<&'l Value>>);

impl<'l> Index<'l> {
    fn build(test: &Predicate, arguments: &'l [Value], call: &Call<'_>) -> Result<Option<Self>, Failure> {
        let [Value::List(list)] = arguments else { return Ok(None) };
        if test.name != "in" {
            return Ok(None);
        }
        call.budget().allocate_list(list.0.len().saturating_mul(2))?;
        for item in &list.0 {
            compare::charge_whole(item, call.budget())?;
        }
        Ok(Some(Self(list.0.iter().map(HashKey).collect())))
    }

    fn has(&self, value: &Value, call: &Call<'_>) -> Result<bool, Failure> {
        compare::charge_whole(value, call.budget())?;
        call.budget().charge(1 + BYTES_PER_UNIT)?;
        Ok(self.0.contains(&HashKey(value)))
    }
}
