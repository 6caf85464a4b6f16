//! Filters over lists and maps.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use value::budget::BYTES_PER_UNIT;
use value::{Map, Value};

use super::{Call, find};
use crate::arithmetic;
use crate::compare::{self, HashKey};
use crate::evaluation::{EvalResult, Failure, Values};
use crate::predicates::{self, Predicate};
use crate::program::Arithmetic;

fn ok(value: impl Into<Value>) -> EvalResult {
    Ok(Some(value.into()))
}

/// `safe` and `raw`: returns the value unchanged.
pub(super) fn identity(call: &Call<'_>) -> EvalResult {
    call.value().cloned().map(Some)
}

/// `default`: replaces an undefined value and null, with `boolean` any falsy value.
pub(super) fn default(call: &Call<'_>) -> EvalResult {
    let other = || call.argument("default_value").cloned().unwrap_or_else(|| Value::from(""));
    Ok(Some(match &call.subject {
        Some(value) if value.is_truthy() || !(value.is_null() || call.flag("boolean")) => value.clone(),
        _ => other(),
    }))
}

/// `length`.
pub(super) fn length(call: &Call<'_>) -> EvalResult {
    ok(match call.value()? {
        Value::String(text) => {
            call.budget().charge_text(text.len())?;
            text.chars().count()
        }
        Value::List(list) => list.0.len(),
        Value::Map(map) => map.len(),
        other => return Err(format!("a {} has no length", other.kind()).into()),
    })
}

/// `attr`: returns a member by name.
pub(super) fn attr(call: &Call<'_>) -> EvalResult {
    let name = call.argument("name").ok_or("`name` is missing")?;
    call.evaluation.item(call.value()?, name)
}

/// `first`.
pub(super) fn first(call: &Call<'_>) -> EvalResult {
    match call.value()? {
        Value::List(list) => Ok(list.0.first().cloned()),
        Value::String(text) => Ok(text.chars().next().map(character)),
        Value::Map(map) => Ok(map.keys().next().map(Value::from)),
        other => Err(format!("a {} has no first item", other.kind()).into()),
    }
}

/// `last`.
pub(super) fn last(call: &Call<'_>) -> EvalResult {
    match call.value()? {
        Value::List(list) => Ok(list.0.last().cloned()),
        Value::String(text) => Ok(text.chars().next_back().map(character)),
        other => Err(format!("a {} has no last item", other.kind()).into()),
    }
}

fn character(c: char) -> Value {
    Value::from(c.encode_utf8(&mut [0; 4]) as &str)
}

/// `list`.
pub(super) fn list(call: &Call<'_>) -> EvalResult {
    if let Value::List(_) = call.value()? {
        return identity(call);
    }
    let items = call.items()?.into_owned();
    ok(items)
}

/// `reverse`: reverses a list or a text.
pub(super) fn reverse(call: &Call<'_>) -> EvalResult {
    match call.value()? {
        Value::String(text) => {
            call.budget().allocate(text.len())?;
            let mut reversed = String::with_capacity(text.len());
            reversed.extend(text.chars().rev());
            ok(reversed)
        }
        _ => {
            let items = call.items()?;
            call.budget().allocate_list(items.len())?;
            ok(items.iter().rev().cloned().collect::<Vec<_>>())
        }
    }
}

/// `items`: converts a map to a list of pairs of key and value.
pub(super) fn items(call: &Call<'_>) -> EvalResult {
    let pairs = pairs(call)?;
    ok(pairs.into_iter().map(|(key, value)| Value::from(vec![key, value])).collect::<Vec<_>>())
}

fn pairs(call: &Call<'_>) -> Result<Vec<(Value, Value)>, Failure> {
    let Value::Map(map) = call.value()? else {
        return Err(format!("takes a map, not a {}", call.value()?.kind()).into());
    };
    let keys: usize = map.keys().map(str::len).sum();
    call.budget().allocate_list(map.len().saturating_mul(4))?;
    call.budget().allocate(keys)?;
    Ok(map.iter().map(|(key, value)| (Value::from(key.as_str()), value.clone())).collect())
}

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

/// The sort keys of items: the items, or their `attribute`, `null` if an item lacks it. Fails if no item has it and the call
/// has no `default`.
fn keys<'i>(items: &'i [Value], call: &Call<'_>) -> Result<Vec<Cow<'i, Value>>, Failure> {
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

/// `sort`: sorts by the items, or by `attribute` (several separated by commas).
pub(super) fn sort(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let order = SortOptions::new(call);
    if call.argument("attribute").is_none() {
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
        let key = match key.as_ref() {
            Value::String(text) if !is_exact => {
                call.budget().allocate(text.len().saturating_mul(2))?;
                Value::from(text.to_lowercase())
            }
            _ => key.into_owned(),
        };
        Ok(distinct.insert((std::mem::discriminant(&key), HashKey(key))))
    };
    let keep: Vec<bool> = match call.argument("attribute") {
        None => items.iter().map(|item| is_first(Cow::Borrowed(item))).collect::<Result<_, _>>()?,
        Some(_) => keys(&items, call)?.into_iter().map(is_first).collect::<Result<_, _>>()?,
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

/// `sum`: adds the items to `start`.
pub(super) fn sum(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let attribute = call.text_argument("attribute")?;
    let mut sum = call.argument("start").cloned().unwrap_or_else(|| Value::from(0));
    let mut found = attribute.is_none();
    for item in items.iter() {
        let value = match &attribute {
            Some(attribute) => call.evaluation.attribute(item, attribute)?,
            None => Some(item.clone()),
        };
        let Some(value) = value else { continue };
        found = true;
        if matches!(sum, Value::Number(_)) && !matches!(value, Value::Number(_) | Value::Bool(_)) {
            return Err(format!("takes numbers, not a {}", value.kind()).into());
        }
        sum = arithmetic::apply(Arithmetic::Add, &sum, &value, call.budget())?;
    }
    check_attribute(attribute.as_deref().unwrap_or_default(), items.len(), found)?;
    Ok(Some(sum))
}

/// `batch`: splits into lists of `count` items; pads the last with `fill_with`.
pub(super) fn batch(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let count = count(call)?;
    call.budget().allocate_list(items.len().saturating_mul(2))?;
    let mut batches: Vec<Vec<Value>> = items.chunks(count).map(<[Value]>::to_vec).collect();
    if let (Some(fill), Some(last)) = (call.argument("fill_with"), batches.last_mut()) {
        call.budget().allocate_list(count - last.len())?;
        last.resize(count, fill.clone());
    }
    ok(batches.into_iter().map(Value::from).collect::<Vec<_>>())
}

/// `slice`: splits into `count` lists of about the same length; pads the shorter ones with `fill_with`.
pub(super) fn slice(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    let count = count(call)?;
    call.budget().allocate_list(items.len().saturating_add(count.saturating_mul(2)))?;
    let (each, longer) = (items.len() / count, items.len() % count);
    let mut slices = Vec::with_capacity(count);
    let mut rest: &[Value] = &items;
    for at in 0..count {
        let (part, after) = rest.split_at(each + usize::from(at < longer));
        rest = after;
        let mut part = part.to_vec();
        if let (Some(fill), true) = (call.argument("fill_with"), at >= longer) {
            part.push(fill.clone());
        }
        slices.push(Value::from(part));
    }
    ok(slices)
}

fn count(call: &Call<'_>) -> Result<usize, Failure> {
    let count = call.count("count")?.filter(|count| *count > 0);
    count.ok_or_else(|| "`count` is a whole number above zero".into())
}

/// `chain`: concatenates lists, or merges maps, later entries taking precedence.
pub(super) fn chain(call: &Call<'_>) -> EvalResult {
    let values: Vec<&Value> = std::iter::once(call.value()?).chain(&call.rest.positional).collect();
    if values.iter().all(|value| matches!(value, Value::Map(_))) {
        let mut chained = Map::new();
        for map in values.iter().filter_map(|value| value.as_map()) {
            call.budget().allocate(map.len() * value::budget::ENTRY_MEMORY)?;
            map.iter().for_each(|(key, value)| {
                chained.insert(key.clone(), value.clone());
            });
        }
        return ok(chained);
    }
    let mut chained = Vec::new();
    for value in values {
        let items = call.evaluation.items(value)?;
        call.budget().allocate_list(items.len())?;
        chained.extend_from_slice(&items);
    }
    ok(chained)
}

/// `zip`: returns lists of the first items, the second items and so on, up to the shortest list.
pub(super) fn zip(call: &Call<'_>) -> EvalResult {
    let values = std::iter::once(call.value()?).chain(&call.rest.positional);
    let lists = values.map(|value| call.evaluation.items(value)).collect::<Result<Vec<_>, _>>()?;
    let length = lists.iter().map(|list| list.len()).min().unwrap_or_default();
    call.budget().allocate_list(length.saturating_mul(lists.len() + 1))?;
    let row = |at: usize| lists.iter().map(|list| list[at].clone()).collect::<Value>();
    ok((0..length).map(row).collect::<Vec<_>>())
}

/// `map`: returns an `attribute` of each item, or the result of another filter.
pub(super) fn map(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    call.budget().allocate_list(items.len())?;
    let mut options = Values { positional: call.rest.positional.clone(), named: call.rest.named.clone() };
    if let Some(attribute) = options.take("attribute") {
        let default = options.take("default");
        return map_attribute(call, &items, &attribute, default.as_ref());
    }
    let Some(Value::String(name)) = options.positional.first() else {
        return Err("takes the name of a filter, as in `map('upper')`, or `attribute='name'`".into());
    };
    let filter = find(name).ok_or_else(|| format!("there is no filter `{}`", short(name)))?;
    let mut mapped = Vec::with_capacity(items.len());
    for item in items.iter() {
        let values = Values { positional: options.positional[1..].to_vec(), named: options.named.clone() };
        call.budget().charge(values.positional.len() + values.named.len())?;
        let value = call.evaluation.filter(filter, Some(item.clone()), values)?;
        mapped.push(value.ok_or(crate::evaluation::UNDEFINED)?);
    }
    ok(mapped)
}

fn map_attribute(call: &Call<'_>, items: &[Value], attribute: &Value, default: Option<&Value>) -> EvalResult {
    let mut mapped = Vec::with_capacity(items.len());
    for item in items {
        let found = match attribute {
            Value::String(path) => call.evaluation.attribute(item, path)?,
            key => call.evaluation.item(item, key)?,
        };
        match found.as_ref().or(default) {
            Some(value) => mapped.push(value.clone()),
            None => {
                let name = attribute.to_text();
                return Err(format!("an item has no `{}`; `default=…` gives a value", short(&name)).into());
            }
        }
    }
    ok(mapped)
}

/// A name for a message. A long name comes from data and is omitted.
fn short(name: &str) -> &str {
    if name.len() > 100 { "…" } else { name }
}

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
    let (test, arguments) = match arguments.split_first() {
        None => (None, arguments),
        Some((Value::String(name), arguments)) => {
            let test = predicates::find(name).ok_or_else(|| format!("there is no test `{}`", short(name)))?;
            (Some(test), arguments)
        }
        Some(_) => return Err("takes the name of a test, as in `select('odd')`".into()),
    };
    let index = test.and_then(|test| Index::build(test, arguments, call).transpose()).transpose()?;
    let mut chosen = Vec::new();
    for item in items.iter() {
        let value = match attribute {
            Some(attribute) => call.evaluation.attribute(item, attribute)?,
            None => Some(item.clone()),
        };
        let holds = match (&index, test, &value) {
            (Some(index), _, Some(value)) => index.has(value, call)?,
            (_, Some(test), value) => test.apply(call.evaluation, value.as_ref(), arguments)?,
            (_, None, value) => value.as_ref().is_some_and(Value::is_truthy),
        };
        if holds == expected {
            call.budget().allocate_list(1)?;
            chosen.push(item.clone());
        }
    }
    ok(chosen)
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
