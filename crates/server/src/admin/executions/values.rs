//! One value of an execution by itself, whole or in slices.

use std::io;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use runtime::ResumeTokens;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value as Json;
use utoipa::{IntoParams, ToSchema};
use value::redact::masked_value;
use value::{Map, PublicForm, Value};

use super::recorded::{Cuts, Recorded, on_thread};
use super::{hidden, history, large};
use crate::admin::auth::credential::Credential;
use crate::admin::auth::scope::Scope;
use crate::admin::extract::{Query, Segment};
use crate::admin::{Problem, Shared};

/// A value, and the page of it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ValuesQuery {
    /// The place of the value in the execution, as a JSON pointer: the `at` of a `$large`, or any other. A step is named by
    /// its position or its name: `/steps/copy[2]/result`.
    #[param(example = "/payload/body")]
    at: String,
    /// From this entry of a list or an object, or character of a text, on; counted from 0.
    from: Option<usize>,
    /// Up to this one, which is left out.
    to: Option<usize>,
}

/// A value of an execution.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ValueView {
    /// Its place.
    at: String,
    /// `null`, `boolean`, `number`, `text`, `list`, `object` or `file`.
    r#type: &'static str,
    /// Its size as JSON, in bytes.
    bytes: usize,
    /// Number of its entries or characters; 1 for a number.
    total: usize,
    /// The value, or the slice of it.
    #[schema(value_type = value::Json)]
    value: Found,
}

/// A value of an execution
#[utoipa::path(
    get, path = "/api/v1/executions/{id}/values", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), ValuesQuery),
    responses((status = 200, description = "The value", body = ValueView)),
)]
pub(crate) async fn values(
    State(api): Shared,
    Extension(credential): Extension<Credential>,
    Segment(id): Segment,
    Query(query): Query<ValuesQuery>,
) -> Result<Response, Problem> {
    let detail = format!("the execution has no value at `{}`", query.at);
    let unknown = || Problem::not_found("unknown_value", detail.clone());
    let (tree, at, cuts) = match event_at(&query.at) {
        Some((index, rest)) => {
            let Recorded { events, cuts, .. } = api.recorded(&id).await?;
            let event = events.get(index).map(|event| history::event(index, event)).ok_or_else(unknown)?;
            (event, rest.to_owned(), cuts)
        }
        None => {
            let (detail, cuts) = api.detail(&id, &credential, None).await?;
            let detail = serde_json::to_value(detail).map_err(|error| Problem::internal(&error))?;
            let at = by_position(&detail, &query.at).ok_or_else(unknown)?;
            (detail, at, cuts)
        }
    };
    let (missing, memory) = (unknown(), cuts.memory());
    // Before the value is cut: two slices would be the parts of one token.
    let tokens = (!credential.scopes.allow(Scope::Run)).then(|| api.engine.context().resume_tokens());
    let body = on_thread(move || {
        let found = find(&tree, &at, &cuts).map_err(|error| Problem::internal(&error))?.ok_or(missing)?;
        let found = match &tokens {
            Some(tokens) => found.masked(tokens),
            None => found,
        };
        let (bytes, kind) = (found.bytes(), found.kind());
        let (value, total) = found.slice(query.from.unwrap_or(0), query.to);
        let view = ValueView { at: query.at, r#type: kind, bytes, total, value };
        serde_json::to_vec(&view).map_err(|error| Problem::internal(&error))
    });
    let mut response = ([(CONTENT_TYPE, "application/json")], body.await?).into_response();
    response.extensions_mut().insert(memory);
    Ok(response)
}

/// A value that was found.
enum Found {
    /// A value that may contain markers.
    Marked(Json, Cuts),
    /// A large value from the store, or a part of it.
    Large(Value),
}

impl Serialize for Found {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Marked(value, cuts) => cuts.whole(value).serialize(serializer),
            Self::Large(value) => PublicForm(value).serialize(serializer),
        }
    }
}

impl Found {
    /// Masks the tokens of resume addresses.
    fn masked(self, tokens: &ResumeTokens) -> Self {
        match self {
            Self::Marked(mut value, cuts) => {
                hidden::mask(&mut value, tokens);
                Self::Marked(value, cuts)
            }
            Self::Large(value) => Self::Large(masked_value(&value, tokens).unwrap_or(value)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Marked(value, cuts) => large::size(value) + cuts.missing_bytes(value),
            Self::Large(value) => large::size(&PublicForm(value)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Marked(value, _) => large::kind(value),
            Self::Large(Value::Map(_)) => "object",
            Self::Large(value) => value.kind(),
        }
    }

    /// A slice of the value, with the number of its entries or characters.
    fn slice(self, from: usize, to: Option<usize>) -> (Self, usize) {
        let count = |all: usize| to.unwrap_or(all).min(all).saturating_sub(from);
        match self {
            Self::Marked(value, cuts) => {
                let (value, total) = large::slice(&value, from, to);
                (Self::Marked(value, cuts), total)
            }
            Self::Large(Value::List(list)) => {
                let all = list.0.len();
                (Self::Large(list.0.iter().skip(from).take(count(all)).cloned().collect()), all)
            }
            Self::Large(Value::Map(map)) => {
                let some = map.iter().skip(from).take(count(map.len()));
                let some: Map = some.map(|(key, value)| (key.clone(), value.clone())).collect();
                (Self::Large(Value::from(some)), map.len())
            }
            Self::Large(Value::String(text)) => {
                let all = text.chars().count();
                let some: String = text.chars().skip(from).take(count(all)).collect();
                (Self::Large(Value::from(some)), all)
            }
            Self::Large(file @ Value::File(_)) => {
                let (file, total) = large::slice(&file.to_serde(), from, to);
                (Self::Large(Value::from_serde(file)), total)
            }
            scalar @ Self::Large(_) => (scalar, 1),
        }
    }
}

/// The value at a pointer. It reads at most one large value, or those in the text of a body, which blocks.
fn find(tree: &Json, at: &str, cuts: &Cuts) -> io::Result<Option<Found>> {
    let mut node = tree;
    let mut names = at.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
    loop {
        if let Some(cut) = cuts.find(node) {
            return Ok(names.try_fold(cuts.read(cut)?, |value, name| part(&value, &name)).map(Found::Large));
        }
        if let Some(file) = cuts.filled_file(node)? {
            let found = names.try_fold(&file, |file, name| file.get(&name)).cloned();
            return Ok(found.map(|found| Found::Marked(found, cuts.clone())));
        }
        let Some(name) = names.next() else { return Ok(Some(Found::Marked(node.clone(), cuts.clone()))) };
        let next = match node {
            Json::Object(entries) => entries.get(&name),
            Json::Array(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        node = next;
    }
}

/// A member of a value in its public form.
fn part(value: &Value, name: &str) -> Option<Value> {
    match value {
        Value::List(list) => list.0.get(name.parse::<usize>().ok()?).cloned(),
        Value::Map(map) => map.get(name).cloned(),
        Value::File(_) => value.to_serde().get(name).cloned().map(Value::from_serde),
        _ => None,
    }
}

/// The index of an event and the rest of the pointer, if it leads into the events.
fn event_at(at: &str) -> Option<(usize, &str)> {
    let rest = at.strip_prefix("/events/")?;
    let end = rest.find('/').unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

/// A pointer in which a step may be named, with its position in place of its name; `None` if there is no such step.
fn by_position(detail: &Json, at: &str) -> Option<String> {
    let Some(rest) = at.strip_prefix("/steps/") else { return Some(at.to_owned()) };
    let end = rest.find('/').unwrap_or(rest.len());
    let name = rest[..end].replace("~1", "/").replace("~0", "~");
    if name.parse::<usize>().is_ok() {
        return Some(at.to_owned());
    }
    let position = detail.get("steps")?.as_array()?.iter().position(|step| step["step"] == name.as_str())?;
    Some(format!("/steps/{position}{}", &rest[end..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_addressed_by_step_index_or_step_name() {
        let detail = json!({"steps": [{"step": "copy[2]", "result": {"a/b": 7}}], "payload": {"x": [1, 2]}});
        let check = |at: &str, expected: Option<Json>| {
            let found = by_position(&detail, at).and_then(|at| detail.pointer(&at).cloned());
            assert_eq!(found, expected, "{at}");
        };
        check("/payload/x/1", Some(json!(2)));
        check("/steps/0/result/a~1b", Some(json!(7)));
        check("/steps/copy[2]/result/a~1b", Some(json!(7)));
        check("/steps/copy[2]/nothing", None);
        check("/steps/1/result", None);
        check("", Some(detail.clone()));
        assert_eq!(event_at("/events/3/outcome/result"), Some((3, "/outcome/result")));
        assert_eq!(event_at("/events/x"), None);
    }
}
