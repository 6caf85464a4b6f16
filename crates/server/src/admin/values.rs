//! One value of an execution by itself, whole or in slices.
#![allow(unused_qualifications, reason = "the macro that describes a route writes them")]

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::described::AnyJson;
use super::extract::{Answer, Query, Segment};
use super::{Problem, Shared, history, large};

/// Which value, and how much of it.
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
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ValueView {
    /// Its place.
    at: String,
    /// `null`, `boolean`, `number`, `text`, `list`, `object` or `file`.
    r#type: &'static str,
    /// Its size as JSON, in bytes.
    bytes: usize,
    /// How many entries or characters it has; 1 for a number.
    total: usize,
    /// The value, or the slice of it.
    #[schema(value_type = AnyJson)]
    value: Value,
}

/// A value of an execution
#[utoipa::path(
    get, path = "/api/v1/executions/{id}/values", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), ValuesQuery),
    responses((status = 200, description = "The value", body = ValueView)),
)]
pub(crate) async fn values(
    State(api): Shared,
    Segment(id): Segment,
    Query(query): Query<ValuesQuery>,
) -> Result<Answer<ValueView>, Problem> {
    let unknown = || {
        let detail = format!("the execution has no value at `{}`", query.at);
        Problem::not_found("unknown_value", detail)
    };
    let found = match event_at(&query.at) {
        Some((index, rest)) => {
            let (_, events) = api.execution(&id).await?;
            let event = events.get(index).map(|event| history::event(index, event)).ok_or_else(unknown)?;
            event.pointer(rest).cloned()
        }
        None => {
            let detail =
                serde_json::to_value(api.detail(&id).await?).map_err(|error| Problem::internal(&error))?;
            find(&detail, &query.at).cloned()
        }
    };
    let found = found.ok_or_else(unknown)?;
    let (value, total) = large::slice(&found, query.from.unwrap_or(0), query.to);
    Ok(Answer::ok(ValueView {
        at: query.at,
        r#type: large::kind(&found),
        bytes: large::size(&found),
        total,
        value,
    }))
}

/// The index of an event and the rest of the pointer, if it leads into the events.
fn event_at(at: &str) -> Option<(usize, &str)> {
    let rest = at.strip_prefix("/events/")?;
    let end = rest.find('/').unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

/// The value at a pointer, in which a step may be named.
fn find<'a>(detail: &'a Value, at: &str) -> Option<&'a Value> {
    let Some(rest) = at.strip_prefix("/steps/") else { return detail.pointer(at) };
    let end = rest.find('/').unwrap_or(rest.len());
    let steps = detail.get("steps")?.as_array()?;
    let name = rest[..end].replace("~1", "/").replace("~0", "~");
    let step = match name.parse::<usize>() {
        Ok(index) => steps.get(index),
        Err(_) => steps.iter().find(|step| step["step"] == name.as_str()),
    };
    step?.pointer(&rest[end..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_found_by_the_position_and_by_the_name_of_its_step() {
        let detail = json!({"steps": [{"step": "copy[2]", "result": {"a/b": 7}}], "payload": {"x": [1, 2]}});
        let check =
            |at: &str, expected: Option<Value>| assert_eq!(find(&detail, at).cloned(), expected, "{at}");
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
