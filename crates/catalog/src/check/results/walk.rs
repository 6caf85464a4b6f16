//! From a type along a path to what stands at its end.

use model::ResultType;
use model::expression::Link;

/// A path that leads nowhere.
pub(super) struct Miss {
    /// Which of its links it is that leads nowhere.
    pub(super) at: usize,
    /// What stands before that link.
    pub(super) parent: ResultType,
}

/// What is at the end of `links` behind something of this type.
pub(super) fn walk(start: &ResultType, links: &[Link]) -> Result<ResultType, Miss> {
    let mut kind = start.clone();
    for (at, link) in links.iter().enumerate() {
        match follow(&kind, link) {
            Some(next) => kind = next,
            None => return Err(Miss { at, parent: kind }),
        }
    }
    Ok(kind)
}

/// The first of the links that leads to an entry of which nothing is said, in a map of which other entries are known.
pub(super) fn stranger(start: &ResultType, links: &[Link]) -> Option<Miss> {
    let mut kind = start.clone();
    for (at, link) in links.iter().enumerate() {
        let known = |kind: &ResultType| match (kind, link) {
            (ResultType::Object(object), Link::Name(name)) => object.field(name).is_some(),
            (kind, link) => follow_one(kind, link).is_some(),
        };
        if !kind.alternatives().iter().any(known) {
            return Some(Miss { at, parent: kind });
        }
        kind = follow(&kind, link)?;
    }
    None
}

/// What a link leads to; nothing where it leads nowhere whatever the value is. Of something that may be null it is what
/// it leads to otherwise: whether null is there, only a run can tell.
fn follow(kind: &ResultType, link: &Link) -> Option<ResultType> {
    let leads: Vec<ResultType> =
        kind.alternatives().iter().filter_map(|kind| follow_one(kind, link)).collect();
    if leads.is_empty() { None } else { Some(ResultType::one_of(leads)) }
}

fn follow_one(kind: &ResultType, link: &Link) -> Option<ResultType> {
    match (kind, link) {
        (ResultType::Any, _) => Some(ResultType::Any),
        (ResultType::List { items }, Link::Item | Link::Every) => Some((**items).clone()),
        (ResultType::Map { values }, Link::Name(_) | Link::Every) => Some((**values).clone()),
        // By a number: a map has text keys, but those that look like one are found too.
        (ResultType::Map { .. }, Link::Item) => Some(ResultType::Any),
        (ResultType::Object(object), Link::Name(name)) => match object.field(name) {
            Some(field) => Some(field.kind.clone()),
            None => object.open.then_some(ResultType::Any),
        },
        (ResultType::Object(object), Link::Every) if object.open => Some(ResultType::Any),
        (ResultType::Object(object), Link::Every) => {
            Some(ResultType::one_of(object.fields.iter().map(|field| field.kind.clone())))
        }
        (ResultType::File, Link::Name(name)) => match name.as_str() {
            "contentType" => Some(ResultType::Text),
            "filename" => Some(ResultType::Text.or_null()),
            "sha256" => Some(ResultType::Text),
            "size" => Some(ResultType::Integer),
            "data" => Some(ResultType::File),
            _ => None,
        },
        _ => None,
    }
}

/// The names that could stand behind something of this type; nothing if any could, or none.
pub(super) fn names(kind: &ResultType) -> Vec<&str> {
    let mut names = Vec::new();
    for kind in kind.alternatives() {
        let of_it: Vec<&str> = match kind {
            ResultType::Object(object) => object.names().collect(),
            ResultType::File => vec!["contentType", "filename", "size", "sha256", "data"],
            _ => continue,
        };
        names.extend(of_it);
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    names
}
