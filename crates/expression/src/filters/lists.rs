//! Filters over lists and maps.

use value::{Map, Value};

use super::{BY, Call, find};
use crate::evaluation::{UNDEFINED, Values};
use crate::failure::{EvalResult, Failure};

pub(super) fn ok(value: impl Into<Value>) -> EvalResult {
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

pub(super) fn pairs(call: &Call<'_>) -> Result<Vec<(Value, Value)>, Failure> {
    let Value::Map(map) = call.value()? else {
        return Err(format!("takes a map, not a {}", call.value()?.kind()).into());
    };
    let keys: usize = map.keys().map(str::len).sum();
    call.budget().allocate_list(map.len().saturating_mul(4))?;
    call.budget().allocate(keys)?;
    Ok(map.iter().map(|(key, value)| (Value::from(key.as_str()), value.clone())).collect())
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

/// `flatten`: replaces each list in a list by its items; other items stay.
pub(super) fn flatten(call: &Call<'_>) -> EvalResult {
    let Value::List(list) = call.value()? else {
        return Err(format!("takes a list, not a {}", call.value()?.kind()).into());
    };
    let length = list.0.iter().map(|item| item.as_list().map_or(1, <[Value]>::len)).sum();
    call.budget().charge(list.0.len())?;
    call.budget().allocate_list(length)?;
    let mut flat = Vec::with_capacity(length);
    for item in &list.0 {
        flat.extend_from_slice(item.as_list().unwrap_or(std::slice::from_ref(item)));
    }
    ok(flat)
}

/// `map`: returns the value of `by` for each item, its `attribute`, or the result of another filter.
pub(super) fn map(call: &Call<'_>) -> EvalResult {
    let items = call.items()?;
    call.budget().allocate_list(items.len())?;
    if let Some(by) = call.each(BY) {
        if !call.rest.positional.is_empty() || !call.rest.named.is_empty() {
            return Err("`by` takes the place of all other arguments".into());
        }
        return items.iter().map(|item| call.evaluate_for(by, item)).collect::<Result<Value, _>>().map(Some);
    }
    let mut options = Values { positional: call.rest.positional.clone(), named: call.rest.named.clone() };
    if let Some(attribute) = options.take("attribute") {
        let default = options.take("default");
        if let Some((name, _)) = options.named.first() {
            return Err(format!("there is no argument `{name}`; it takes attribute, default, by").into());
        }
        if !options.positional.is_empty() {
            return Err("takes the name of a filter or `attribute`, not both".into());
        }
        return map_attribute(call, &items, &attribute, default.as_ref());
    }
    let Some(Value::String(name)) = options.positional.first() else {
        return Err("takes the name of a filter, as in `map('upper')`, or `by=item.name`".into());
    };
    let filter = find(name).ok_or_else(|| format!("there is no filter `{}`", short(name)))?;
    let mut mapped = Vec::with_capacity(items.len());
    for item in items.iter() {
        let values = Values { positional: options.positional[1..].to_vec(), named: options.named.clone() };
        call.budget().charge(values.positional.len() + values.named.len())?;
        let value = call.evaluation.filter(filter, Some(item.clone()), values, &[])?;
        mapped.push(value.ok_or(UNDEFINED)?);
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
pub(super) fn short(name: &str) -> &str {
    if name.len() > 100 { "…" } else { name }
}
