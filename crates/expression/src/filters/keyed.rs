//! Filters that compare the items of a list, or make a map of them, by a key: the items themselves, their `attribute`, or an
//! expression evaluated for each of them, `by`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use value::budget::ENTRY_MEMORY;
use value::{Map, Value};

use super::lists::{ok, pairs, short};
use super::{BY, Call};
use crate::arithmetic;
use crate::arithmetic::Arithmetic;
use crate::compare::{self, HashKey};
use crate::failure::{EvalResult, Failure};
use crate::text_form;

/// `dictsort`: sorts the entries of a map by key, or by value with `by='value'`.
pub(super) fn dictsort(call: &Call<'_>) -> EvalResult {
    let by_value = match call.text_argument("by")?.as_deref() {
        None | Some("key") => false,
        Some("value") => true,
        Some(_) => return Err("`by` is `key` or `value`".into()),
    };
    let mut pairs = pairs(call)?;
    let order = SortOptions::new(call);
    order.charge(pairs.iter().map(|(key, value)| if by_value { value } else { key }), call)?;
    pairs.sort_by(|a, b| if by_value { order.compare(&a.1, &b.1) } else { order.compare(&a.0, &b.0) });
    ok(pairs.into_iter().map(|(key, value)| Value::from(vec![key, value])).collect::<Vec<_>>())
}

/// The options of a sort: the arguments `case_sensitive` and `reverse` of the call.
struct SortOptions {
    case_sensitive: bool,
    reverse: bool,
}

impl SortOptions {
    fn new(call: &Call<'_>) -> Self {
        Self { case_sensitive: call.flag("case_sensitive"), reverse: call.flag("reverse") }
    }

    fn compare(&self, left: &Value, right: &Value) -> Ordering {
        let order = if self.case_sensitive {
            compare::order(left, right)
        } else {
            compare::order_folded(left, right)
        };
        if self.reverse { order.reverse() } else { order }
    }

    /// Charges a sort of these keys: each takes part in log2(n) comparisons.
    fn charge<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k Value>,
        call: &Call<'_>,
    ) -> Result<(), Failure> {
        let comparisons = (usize::BITS - keys.len().leading_zeros()) as usize;
        let mut units = 0_usize;
        for key in keys {
            units = units.saturating_add(compare::charge_whole(key, call.budget())?);
        }
        Ok(call.budget().charge(units.saturating_mul(comparisons))?)
    }
}

/// Fails if items were read and no item has the attribute: the name is wrong.
pub(super) fn check_attribute(attribute: &str, items: usize, found: bool) -> Result<(), Failure> {
    if items == 0 || found {
        return Ok(());
    }
    Err(format!("no item has `{}`", short(attribute)).into())
}

/// The keys of items: the value of `by`, or their `attribute`, `null` if an item lacks it, or the items themselves. Fails if no item
/// has the attribute and the call has no `default`.
fn keys<'i>(items: &'i [Value], call: &Call<'_>) -> Result<Vec<Cow<'i, Value>>, Failure> {
    if let Some(by) = call.each(BY) {
        call.budget().allocate_list(items.len())?;
        return items.iter().map(|item| call.evaluate_for(by, item).map(Cow::Owned)).collect();
    }
    let Some(attribute) = call.text_argument("attribute")? else {
        return Ok(items.iter().map(Cow::Borrowed).collect());
    };
    let paths: Vec<&str> = attribute.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
    call.budget().allocate_list(items.len().saturating_mul(paths.len().max(1)))?;
    let mut found = vec![false; paths.len()];
    let mut key = |item: &Value| -> Result<Cow<'i, Value>, Failure> {
        let mut part = |at: usize, path: &str| {
            let value = call.evaluation.attribute(item, path)?;
            found[at] |= value.is_some();
            Ok::<_, Failure>(value.unwrap_or_default())
        };
        Ok(Cow::Owned(match paths.as_slice() {
            [path] => part(0, path)?,
            paths => (0..).zip(paths).map(|(at, path)| part(at, path)).collect::<Result<Value, _>>()?,
        }))
    };
    let keys = items.iter().map(&mut key).collect::<Result<Vec<_>, _>>()?;
    if call.argument("default").is_none() {
        paths.iter().zip(found).try_for_each(|(path, found)| check_attribute(path, items.len(), found))?;
    }
    Ok(keys)
}

/// True if the items are compared by something else than themselves.
fn has_keys(call: &Call<'_>) -> bool {
    call.each(BY).is_some() || call.argument("attribute").is_some()
}

/// `sort`: sorts by the items, by `by`, or by `attribute` (several separated by commas).
pub(super) fn sort(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let order = SortOptions::new(call);
    if !has_keys(call) {
        order.charge(items.iter(), call)?;
        call.budget().allocate_list(items.len())?;
        // In place: the characters of a large text exist only once.
        let mut items = items.into_owned();
        items.sort_by(|a, b| order.compare(a, b));
        return ok(items);
    }
    let keys = keys(&items, call)?;
    order.charge(keys.iter().map(Cow::as_ref), call)?;
    call.budget().allocate_list(items.len().saturating_mul(2))?;
    let mut indices: Vec<usize> = (0..items.len()).collect();
    indices.sort_by(|a, b| order.compare(&keys[*a], &keys[*b]));
    ok(indices.into_iter().map(|index| items[index].clone()).collect::<Vec<_>>())
}

/// `min`: returns the first of the smallest items.
pub(super) fn min(call: &Call<'_>) -> EvalResult {
    select_extreme(call, Ordering::is_lt)
}

/// `max`: returns the last of the largest items.
pub(super) fn max(call: &Call<'_>) -> EvalResult {
    select_extreme(call, Ordering::is_ge)
}

fn select_extreme(call: &Call<'_>, replaces: fn(Ordering) -> bool) -> EvalResult {
    let items = call.items()?;
    let keys = keys(&items, call)?;
    let order = SortOptions::new(call);
    let mut best = None::<usize>;
    for at in 0..items.len() {
        let wins = match best {
            None => true,
            Some(best) => {
                compare::charge_order(&keys[at], &keys[best], call.budget())?;
                replaces(order.compare(&keys[at], &keys[best]))
            }
        };
        if wins {
            best = Some(at);
        }
    }
    Ok(best.map(|best| items[best].clone()))
}

/// `unique`: keeps the first of equal items.
pub(super) fn unique(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    call.budget().allocate_list(items.len().saturating_mul(2))?;
    let is_exact = call.flag("case_sensitive");
    let mut distinct = HashSet::new();
    let mut is_first = |key: Cow<'_, Value>| -> Result<bool, Failure> {
        compare::charge_whole(&key, call.budget())?;
        let key = if is_exact { key.into_owned() } else { lower_case(key, call)? };
        Ok(distinct.insert((std::mem::discriminant(&key), HashKey(key))))
    };
    let keep: Vec<bool> = match has_keys(call) {
        false => items.iter().map(|item| is_first(Cow::Borrowed(item))).collect::<Result<_, _>>()?,
        true => keys(&items, call)?.into_iter().map(is_first).collect::<Result<_, _>>()?,
    };
    drop(distinct);
    match items {
        Cow::Borrowed(items) => {
            let unique = items.iter().zip(keep).filter(|(_, keep)| *keep).map(|(item, _)| item.clone());
            ok(unique.collect::<Vec<_>>())
        }
        Cow::Owned(mut items) => {
            let mut keep = keep.into_iter();
            items.retain(|_| keep.next().unwrap_or_default());
            items.shrink_to_fit();
            ok(items)
        }
    }
}

/// A key whose text, or whose items that are texts, are in lower case.
fn lower_case(key: Cow<'_, Value>, call: &Call<'_>) -> Result<Value, Failure> {
    Ok(match key.as_ref() {
        Value::String(text) => {
            call.budget().allocate(text.len().saturating_mul(2))?;
            Value::from(text.to_lowercase())
        }
        Value::List(list) if list.0.iter().any(|item| matches!(item, Value::String(_))) => {
            call.budget().allocate_list(list.0.len())?;
            let items = list.0.iter().map(|item| match item {
                Value::String(_) => lower_case(Cow::Borrowed(item), call),
                other => Ok(other.clone()),
            });
            items.collect::<Result<Value, _>>()?
        }
        _ => key.into_owned(),
    })
}

/// `groupby`: returns pairs of a key and its items, sorted by key.
pub(super) fn groupby(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let default = call.argument("default").cloned();
    let mut keys = keys(&items, call)?;
    if let Some(default) = default {
        keys.iter_mut().filter(|key| key.is_null()).for_each(|key| *key = Cow::Owned(default.clone()));
    }
    let order = SortOptions::new(call);
    order.charge(keys.iter().map(Cow::as_ref), call)?;
    call.budget().allocate_list(items.len().saturating_mul(4))?;
    let mut indices: Vec<usize> = (0..items.len()).collect();
    indices.sort_by(|a, b| order.compare(&keys[*a], &keys[*b]));
    let groups = indices.chunk_by(|a, b| order.compare(&keys[*a], &keys[*b]).is_eq());
    let groups = groups.map(|group| {
        let members = group.iter().map(|index| items[*index].clone()).collect::<Vec<_>>();
        let key = group.last().map(|index| keys[*index].as_ref().clone()).unwrap_or_default();
        Value::from(vec![key, Value::from(members)])
    });
    ok(groups.collect::<Vec<_>>())
}

/// `toMap`: a map from the texts of `by` to `value`, or to the items.
pub(super) fn to_map(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let by = call.each(BY).ok_or("`by` is missing")?;
    call.budget().allocate(items.len().saturating_mul(ENTRY_MEMORY))?;
    let mut map = Map::with_capacity(items.len());
    for item in items.iter() {
        let key = match call.evaluate_for(by, item)? {
            key @ (Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Decimal(_)) => key,
            other => return Err(format!("a key is a text or a number, not a {}", other.kind()).into()),
        };
        let key = text_form::stringify(&key, call.budget())?;
        call.budget().allocate(key.len())?;
        let value = match call.each("value") {
            Some(value) => call.evaluate_for(value, item)?,
            None => item.clone(),
        };
        if map.insert(&*key, value).is_some() {
            let key = short(&key);
            return Err(format!(
                "two items have the key `{key}`; `groupby(by=…)` keeps all of them, `unique(by=…)` the first"
            )
            .into());
        }
    }
    ok(map)
}

/// `sum`: adds the items, their `attribute` or the values of `by` to `start`.
pub(super) fn sum(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let attribute = call.text_argument("attribute")?;
    let mut sum = call.argument("start").cloned().unwrap_or_else(|| Value::from(0));
    let mut found = attribute.is_none();
    for item in items.iter() {
        let value = match (call.each(BY), &attribute) {
            (Some(by), _) => Some(call.evaluate_for(by, item)?),
            (None, Some(attribute)) => call.evaluation.attribute(item, attribute)?,
            (None, None) => Some(item.clone()),
        };
        let Some(value) = value else { continue };
        found = true;
        let is_number = matches!(value, Value::Number(_) | Value::Bool(_) | Value::Decimal(_));
        if matches!(sum, Value::Number(_)) && !is_number {
            return Err(format!("takes numbers, not a {}", value.kind()).into());
        }
        sum = arithmetic::apply(Arithmetic::Add, &sum, &value, call.budget())?;
    }
    check_attribute(attribute.as_deref().unwrap_or_default(), items.len(), found)?;
    Ok(Some(sum))
}
