//! Filters over lists and maps.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use super::{Call, find};
use crate::budget::BYTES_PER_UNIT;
use crate::expression::arithmetic;
use crate::expression::compare::{self, HashKey};
use crate::expression::evaluation::{Evaluated, Failure, Values};
use crate::expression::predicates::{self, Predicate};
use crate::expression::program::Arithmetic;
use crate::value::{Map, Value};

fn defined(value: impl Into<Value>) -> Evaluated {
    Ok(Some(value.into()))
}

/// `safe` and `raw`: the value itself.
pub(super) fn same(call: &Call<'_>) -> Evaluated {
    call.value().cloned().map(Some)
}

/// `default`: another value in the place of one that is undefined, or with `boolean` of one that does not hold.
pub(super) fn default(call: &Call<'_>) -> Evaluated {
    let other = || call.argument("default_value").cloned().unwrap_or_else(|| Value::from(""));
    Ok(Some(match &call.subject {
        Some(value) if value.is_true() || !call.flag("boolean") => value.clone(),
        _ => other(),
    }))
}

/// `length`.
pub(super) fn length(call: &Call<'_>) -> Evaluated {
    defined(match call.value()? {
        Value::String(text) => {
            call.budget().read(text.len())?;
            text.chars().count()
        }
        Value::List(list) => list.0.len(),
        Value::Map(map) => map.len(),
        other => return Err(format!("a {} has no length", other.kind()).into()),
    })
}

/// `attr`: a member by its name.
pub(super) fn attr(call: &Call<'_>) -> Evaluated {
    let name = call.argument("name").ok_or("`name` is missing")?;
    call.evaluation.item(call.value()?, name)
}

/// `first`.
pub(super) fn first(call: &Call<'_>) -> Evaluated {
    match call.value()? {
        Value::List(list) => Ok(list.0.first().cloned()),
        Value::String(text) => Ok(text.chars().next().map(character)),
        Value::Map(map) => Ok(map.keys().next().map(Value::from)),
        other => Err(format!("a {} has no first item", other.kind()).into()),
    }
}

/// `last`.
pub(super) fn last(call: &Call<'_>) -> Evaluated {
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
pub(super) fn list(call: &Call<'_>) -> Evaluated {
    if let Value::List(_) = call.value()? {
        return same(call);
    }
    let items = call.items()?.into_owned();
    defined(items)
}

/// `reverse`: of a list or a text.
pub(super) fn reverse(call: &Call<'_>) -> Evaluated {
    match call.value()? {
        Value::String(text) => {
            call.budget().allocate(text.len())?;
            let mut reversed = String::with_capacity(text.len());
            reversed.extend(text.chars().rev());
            defined(reversed)
        }
        _ => {
            let items = call.items()?;
            call.budget().list(items.len())?;
            defined(items.iter().rev().cloned().collect::<Vec<_>>())
        }
    }
}

/// `items`: the keys of a map with their values, as lists of two.
pub(super) fn items(call: &Call<'_>) -> Evaluated {
    let pairs = pairs(call)?;
    defined(pairs.into_iter().map(|(key, value)| Value::from(vec![key, value])).collect::<Vec<_>>())
}

fn pairs(call: &Call<'_>) -> Result<Vec<(Value, Value)>, Failure> {
    let Value::Map(map) = call.value()? else {
        return Err(format!("takes a map, not a {}", call.value()?.kind()).into());
    };
    let keys: usize = map.keys().map(str::len).sum();
    call.budget().list(map.len().saturating_mul(4))?;
    call.budget().allocate(keys)?;
    Ok(map.iter().map(|(key, value)| (Value::from(key.as_str()), value.clone())).collect())
}

/// `dictsort`: the entries of a map, sorted by key, or by value with `by='value'`.
pub(super) fn dictsort(call: &Call<'_>) -> Evaluated {
    let by_value = match call.text_argument("by")?.as_deref() {
        None | Some("key") => false,
        Some("value") => true,
        Some(_) => return Err("`by` is `key` or `value`".into()),
    };
    let mut pairs = pairs(call)?;
    let order = Order::of(call);
    order.charge(pairs.iter().map(|(key, value)| if by_value { value } else { key }), call)?;
    pairs.sort_by(|a, b| if by_value { order.compare(&a.1, &b.1) } else { order.compare(&a.0, &b.0) });
    defined(pairs.into_iter().map(|(key, value)| Value::from(vec![key, value])).collect::<Vec<_>>())
}

/// The order of a sort: `case_sensitive` and `reverse` of its call.
struct Order {
    case_sensitive: bool,
    reverse: bool,
}

impl Order {
    fn of(call: &Call<'_>) -> Self {
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

    /// Charges a sort of these keys: each takes part in as many comparisons as the list can be halved.
    fn charge<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k Value>,
        call: &Call<'_>,
    ) -> Result<(), Failure> {
        let halvings = (usize::BITS - keys.len().leading_zeros()) as usize;
        let mut units = 0_usize;
        for key in keys {
            units = units.saturating_add(compare::charge_whole(key, call.budget())?);
        }
        Ok(call.budget().work(units.saturating_mul(halvings))?)
    }
}

/// The values by which items are compared: themselves, or their `attribute`, `null` where it is missing.
fn keys<'i>(items: &'i [Value], call: &Call<'_>) -> Result<Vec<Cow<'i, Value>>, Failure> {
    let Some(attribute) = call.text_argument("attribute")? else {
        return Ok(items.iter().map(Cow::Borrowed).collect());
    };
    let paths: Vec<&str> = attribute.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
    call.budget().list(items.len().saturating_mul(paths.len().max(1)))?;
    let key = |item: &Value| -> Result<Cow<'i, Value>, Failure> {
        let part = |path: &str| call.evaluation.attribute(item, path).map(Option::unwrap_or_default);
        Ok(Cow::Owned(match paths.as_slice() {
            [path] => part(path)?,
            paths => paths.iter().map(|path| part(path)).collect::<Result<Value, _>>()?,
        }))
    };
    items.iter().map(key).collect()
}

/// `sort`, by `attribute` (several with commas between them) if that is given.
pub(super) fn sort(call: &Call<'_>) -> Evaluated {
    let items = call.items()?;
    let keys = keys(&items, call)?;
    let order = Order::of(call);
    order.charge(keys.iter().map(Cow::as_ref), call)?;
    call.budget().list(items.len().saturating_mul(2))?;
    let mut places: Vec<usize> = (0..items.len()).collect();
    places.sort_by(|a, b| order.compare(&keys[*a], &keys[*b]));
    defined(places.into_iter().map(|place| items[place].clone()).collect::<Vec<_>>())
}

/// `min`: the first of the least.
pub(super) fn min(call: &Call<'_>) -> Evaluated {
    extreme(call, Ordering::is_lt)
}

/// `max`: the last of the greatest.
pub(super) fn max(call: &Call<'_>) -> Evaluated {
    extreme(call, Ordering::is_ge)
}

fn extreme(call: &Call<'_>, replaces: fn(Ordering) -> bool) -> Evaluated {
    let items = call.items()?;
    let keys = keys(&items, call)?;
    let order = Order::of(call);
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

/// `unique`: the first of those that are equal.
pub(super) fn unique(call: &Call<'_>) -> Evaluated {
    let items = call.items()?;
    let mut keys = keys(&items, call)?;
    call.budget().list(items.len().saturating_mul(2))?;
    for key in &mut keys {
        compare::charge_whole(key, call.budget())?;
        if let (Value::String(text), false) = (key.as_ref(), call.flag("case_sensitive")) {
            call.budget().allocate(text.len().saturating_mul(2))?;
            *key = Cow::Owned(Value::from(text.to_lowercase()));
        }
    }
    let mut seen = HashSet::with_capacity(items.len());
    let first = |key: &Cow<'_, Value>| std::mem::discriminant(key.as_ref());
    let kept: Vec<bool> = keys.iter().map(|key| seen.insert((first(key), HashKey(key)))).collect();
    let unique = items.iter().zip(kept).filter(|(_, kept)| *kept).map(|(item, _)| item.clone());
    defined(unique.collect::<Vec<_>>())
}

/// `groupby`: lists of a key and the items that have it, sorted by key.
pub(super) fn groupby(call: &Call<'_>) -> Evaluated {
    let items = call.items()?;
    let default = call.argument("default").cloned();
    let mut keys = keys(&items, call)?;
    if let Some(default) = default {
        keys.iter_mut().filter(|key| key.is_null()).for_each(|key| *key = Cow::Owned(default.clone()));
    }
    let order = Order::of(call);
    order.charge(keys.iter().map(Cow::as_ref), call)?;
    call.budget().list(items.len().saturating_mul(4))?;
    let mut places: Vec<usize> = (0..items.len()).collect();
    places.sort_by(|a, b| order.compare(&keys[*a], &keys[*b]));
    let groups = places.chunk_by(|a, b| order.compare(&keys[*a], &keys[*b]).is_eq());
    let groups = groups.map(|group| {
        let members = group.iter().map(|place| items[*place].clone()).collect::<Vec<_>>();
        let key = group.last().map(|place| keys[*place].as_ref().clone()).unwrap_or_default();
        Value::from(vec![key, Value::from(members)])
    });
    defined(groups.collect::<Vec<_>>())
}

/// `sum`, from `start`.
pub(super) fn sum(call: &Call<'_>) -> Evaluated {
    let items = call.items()?;
    let attribute = call.text_argument("attribute")?;
    let mut sum = call.argument("start").cloned().unwrap_or_else(|| Value::from(0));
    for item in items.iter() {
        let value = match &attribute {
            Some(attribute) => call.evaluation.attribute(item, attribute)?,
            None => Some(item.clone()),
        };
        let Some(value) = value else { continue };
        if matches!(sum, Value::Number(_)) && !matches!(value, Value::Number(_) | Value::Bool(_)) {
            return Err(format!("takes numbers, not a {}", value.kind()).into());
        }
        sum = arithmetic::apply(Arithmetic::Add, &sum, &value, call.budget())?;
    }
    Ok(Some(sum))
}

/// `batch`: lists of `count` items; the last is filled up with `fill_with`.
pub(super) fn batch(call: &Call<'_>) -> Evaluated {
    let items = call.items()?;
    let count = count(call)?;
    call.budget().list(items.len().saturating_mul(2))?;
    let mut batches: Vec<Vec<Value>> = items.chunks(count).map(<[Value]>::to_vec).collect();
    if let (Some(fill), Some(last)) = (call.argument("fill_with"), batches.last_mut()) {
        call.budget().list(count - last.len())?;
        last.resize(count, fill.clone());
    }
    defined(batches.into_iter().map(Value::from).collect::<Vec<_>>())
}

/// `slice`: `count` lists of about the same length; the shorter ones are filled up with `fill_with`.
pub(super) fn slice(call: &Call<'_>) -> Evaluated {
    let items = call.items()?;
    let count = count(call)?;
    call.budget().list(items.len().saturating_add(count.saturating_mul(2)))?;
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
    defined(slices)
}

fn count(call: &Call<'_>) -> Result<usize, Failure> {
    let count = call.count("count")?.filter(|count| *count > 0);
    count.ok_or_else(|| "`count` is a whole number above zero".into())
}

/// `chain`: the items of several lists, or the entries of several maps, later ones first.
pub(super) fn chain(call: &Call<'_>) -> Evaluated {
    let values: Vec<&Value> = std::iter::once(call.value()?).chain(&call.rest.positional).collect();
    if values.iter().all(|value| matches!(value, Value::Map(_))) {
        let mut chained = Map::new();
        for map in values.iter().filter_map(|value| value.as_map()) {
            call.budget().allocate(map.len() * crate::budget::ENTRY_MEMORY)?;
            map.iter().for_each(|(key, value)| {
                chained.insert(key.clone(), value.clone());
            });
        }
        return defined(chained);
    }
    let mut chained = Vec::new();
    for value in values {
        let items = call.evaluation.items(value)?;
        call.budget().list(items.len())?;
        chained.extend_from_slice(&items);
    }
    defined(chained)
}

/// `zip`: lists of the first items, the second items and so on, as many as the shortest list has.
pub(super) fn zip(call: &Call<'_>) -> Evaluated {
    let values = std::iter::once(call.value()?).chain(&call.rest.positional);
    let lists = values.map(|value| call.evaluation.items(value)).collect::<Result<Vec<_>, _>>()?;
    let length = lists.iter().map(|list| list.len()).min().unwrap_or_default();
    call.budget().list(length.saturating_mul(lists.len() + 1))?;
    let row = |at: usize| lists.iter().map(|list| list[at].clone()).collect::<Value>();
    defined((0..length).map(row).collect::<Vec<_>>())
}

/// `map`: an `attribute` of each item, or what another filter makes of it.
pub(super) fn map(call: &Call<'_>) -> Evaluated {
    let items = call.items()?;
    call.budget().list(items.len())?;
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
        call.budget().work(values.positional.len() + values.named.len())?;
        let value = call.evaluation.filter(filter, Some(item.clone()), values)?;
        mapped.push(value.ok_or(crate::expression::evaluation::UNDEFINED)?);
    }
    defined(mapped)
}

fn map_attribute(call: &Call<'_>, items: &[Value], attribute: &Value, default: Option<&Value>) -> Evaluated {
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
    defined(mapped)
}

/// A name for a message; one that is too long comes from data.
fn short(name: &str) -> &str {
    if name.len() > 100 { "…" } else { name }
}

/// `select`.
pub(super) fn select(call: &Call<'_>) -> Evaluated {
    choose(call, true, None, &call.rest.positional)
}

/// `reject`.
pub(super) fn reject(call: &Call<'_>) -> Evaluated {
    choose(call, false, None, &call.rest.positional)
}

/// `selectattr`.
pub(super) fn select_attribute(call: &Call<'_>) -> Evaluated {
    choose_by_attribute(call, true)
}

/// `rejectattr`.
pub(super) fn reject_attribute(call: &Call<'_>) -> Evaluated {
    choose_by_attribute(call, false)
}

fn choose_by_attribute(call: &Call<'_>, wanted: bool) -> Evaluated {
    let Some((Value::String(attribute), arguments)) = call.rest.positional.split_first() else {
        return Err("takes the name of an attribute, as in `selectattr('status', 'eq', 'open')`".into());
    };
    choose(call, wanted, Some(attribute), arguments)
}

/// The items for which a test gives `wanted`. Without a test it is whether they hold as a condition.
fn choose(call: &Call<'_>, wanted: bool, attribute: Option<&str>, arguments: &[Value]) -> Evaluated {
    let items = call.items()?;
    let (test, arguments) = match arguments.split_first() {
        None => (None, arguments),
        Some((Value::String(name), arguments)) => {
            let test = predicates::find(name).ok_or_else(|| format!("there is no test `{}`", short(name)))?;
            (Some(test), arguments)
        }
        Some(_) => return Err("takes the name of a test, as in `select('odd')`".into()),
    };
    let index = test.and_then(|test| Index::of(test, arguments, call).transpose()).transpose()?;
    let mut chosen = Vec::new();
    for item in items.iter() {
        let value = match attribute {
            Some(attribute) => call.evaluation.attribute(item, attribute)?,
            None => Some(item.clone()),
        };
        let holds = match (&index, test, &value) {
            (Some(index), _, Some(value)) => index.has(value, call)?,
            (_, Some(test), value) => test.apply(call.evaluation, value.as_ref(), arguments)?,
            (_, None, value) => value.as_ref().is_some_and(Value::is_true),
        };
        if holds == wanted {
            call.budget().list(1)?;
            chosen.push(item.clone());
        }
    }
    defined(chosen)
}

/// The list of `in` as a hash table: each item is looked up in it, and the list is not searched again and again.
struct Index<'l>(HashSet<HashKey<'l>>);

impl<'l> Index<'l> {
    fn of(test: &Predicate, arguments: &'l [Value], call: &Call<'_>) -> Result<Option<Self>, Failure> {
        let [Value::List(list)] = arguments else { return Ok(None) };
        if test.name != "in" {
            return Ok(None);
        }
        call.budget().list(list.0.len().saturating_mul(2))?;
        for item in &list.0 {
            compare::charge_whole(item, call.budget())?;
        }
        Ok(Some(Self(list.0.iter().map(HashKey).collect())))
    }

    fn has(&self, value: &Value, call: &Call<'_>) -> Result<bool, Failure> {
        compare::charge_whole(value, call.budget())?;
        call.budget().work(1 + BYTES_PER_UNIT)?;
        Ok(self.0.contains(&HashKey(value)))
    }
}
