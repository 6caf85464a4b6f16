//! The data that an operation requests, computed on the JSON form of the tree.

use serde_json::Value;

use super::document::not_found;
use super::{EditError, Segment, TreeOperation};

/// The data after an operation.
pub(super) fn apply(mut data: Value, operation: &TreeOperation) -> Result<Value, EditError> {
    match operation {
        TreeOperation::Set { at, value, .. } => set(&mut data, at, value)?,
        TreeOperation::Remove { at } => {
            remove(&mut data, at)?;
        }
        TreeOperation::Insert { at, value } => insert(&mut data, at, value.clone())?,
        TreeOperation::Move { from, to } => {
            if !matches!(from.last(), Some(Segment::Index(_))) {
                return Err(EditError::Invalid("only items of lists can be moved".to_owned()));
            }
            let item = remove(&mut data, from)?;
            insert(&mut data, to, item)?;
        }
        TreeOperation::Splice { at, parts } => {
            let target = find(&mut data, at).ok_or_else(|| not_found(at))?;
            let mut text = target.as_str().ok_or_else(|| not_found(at))?.to_owned();
            for (range, insert) in parts.iter().rev() {
                if text.get(range.clone()).is_none() {
                    return Err(not_found(at));
                }
                text.replace_range(range.clone(), insert);
            }
            *target = Value::String(text);
        }
        TreeOperation::RenameKey { at, to } => {
            let value = remove(&mut data, at)?;
            let (_, parents) = at.split_last().ok_or_else(|| not_found(at))?;
            let map = find(&mut data, parents).and_then(Value::as_object_mut);
            let map = map.ok_or_else(|| not_found(at))?;
            if map.insert(to.clone(), value).is_some() {
                return Err(EditError::Invalid(format!("there is a key `{to}` already")));
            }
        }
    }
    Ok(data)
}

fn step<'v>(value: &'v mut Value, segment: &Segment) -> Option<&'v mut Value> {
    match segment {
        Segment::Key(key) => value.as_object_mut()?.get_mut(key),
        Segment::Index(index) => value.as_array_mut()?.get_mut(*index),
    }
}

fn find<'v>(data: &'v mut Value, at: &[Segment]) -> Option<&'v mut Value> {
    at.iter().try_fold(data, step)
}

fn set(data: &mut Value, at: &[Segment], new: &Value) -> Result<(), EditError> {
    let mut target = data;
    for (depth, segment) in at.iter().enumerate() {
        let path = || not_found(&at[..=depth]);
        if let Segment::Key(key) = segment {
            if target.is_null() {
                *target = Value::Object(serde_json::Map::new());
            }
            target = target.as_object_mut().ok_or_else(path)?.entry(key.clone()).or_insert(Value::Null);
        } else {
            target = step(target, segment).ok_or_else(path)?;
        }
    }
    *target = new.clone();
    Ok(())
}

fn remove(data: &mut Value, at: &[Segment]) -> Result<Value, EditError> {
    let missing = || not_found(at);
    let (last, parents) = at.split_last().ok_or_else(missing)?;
    let parent = find(data, parents).ok_or_else(missing)?;
    let removed = match last {
        Segment::Key(key) => parent.as_object_mut().and_then(|map| map.remove(key)),
        Segment::Index(index) => {
            parent.as_array_mut().filter(|items| *index < items.len()).map(|items| items.remove(*index))
        }
    };
    removed.ok_or_else(missing)
}

fn insert(data: &mut Value, at: &[Segment], new: Value) -> Result<(), EditError> {
    let missing = || not_found(at);
    let (last, parents) = at.split_last().ok_or_else(missing)?;
    let items = find(data, parents).and_then(Value::as_array_mut).ok_or_else(missing)?;
    match last {
        Segment::Index(index) if *index <= items.len() => items.insert(*index, new),
        _ => return Err(missing()),
    }
    Ok(())
}
