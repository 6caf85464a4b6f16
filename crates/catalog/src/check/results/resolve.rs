//! Resolves a path within a type.

use expression::Link;
use model::ResultType;

/// Failed resolution of a path.
pub(in crate::check) struct Unresolved {
    /// Index of the link that cannot be followed.
    pub(super) at: usize,
    /// Type before that link.
    pub(super) parent: ResultType,
}

/// Returns the type at the end of `links`, starting from a type.
pub(in crate::check) fn resolve(start: &ResultType, links: &[Link]) -> Result<ResultType, Unresolved> {
    let mut kind = start.clone();
    for (at, link) in links.iter().enumerate() {
        match follow(&kind, link) {
            Some(next) => kind = next,
            None => return Err(Unresolved { at, parent: kind }),
        }
    }
    Ok(kind)
}

/// Returns the first link to an undeclared entry of an open map that declares other entries.
pub(super) fn first_undeclared(start: &ResultType, links: &[Link]) -> Option<Unresolved> {
    let mut kind = start.clone();
    for (at, link) in links.iter().enumerate() {
        let known = |kind: &ResultType| match (kind, link) {
            (ResultType::Object(object), Link::Name(name)) => object.field(name).is_some(),
            (kind, link) => follow_one(kind, link).is_some(),
        };
        if !kind.alternatives().iter().any(known) {
            return Some(Unresolved { at, parent: kind });
        }
        kind = follow(&kind, link)?;
    }
    None
}

/// Returns the type a link leads to; `None` if it leads nowhere for any value. Ignores null alternatives, since only
/// a run shows whether the value is null.
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
        // A numeric index: map keys are text, but keys of digits are found too.
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

/// Returns the declared members of a type, each with its type.
pub(in crate::check) fn field_types(kind: &ResultType) -> Vec<(String, ResultType)> {
    let member = |name: &str| (name.to_owned(), follow(kind, &Link::Name(name.into())).unwrap_or_default());
    names(kind).into_iter().map(member).collect()
}

/// Returns the names declared for a type; empty if all or none are possible.
pub(super) fn names(kind: &ResultType) -> Vec<&str> {
    let mut names = Vec::new();
    for kind in kind.alternatives() {
        let declared: Vec<&str> = match kind {
            ResultType::Object(object) => object.names().collect(),
            ResultType::File => vec!["contentType", "filename", "size", "sha256", "data"],
            _ => continue,
        };
        names.extend(declared);
    }
    let mut known = std::collections::HashSet::new();
    names.retain(|name| known.insert(*name));
    names
}
