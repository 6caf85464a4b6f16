//! The values of `state.*` steps, to be read and corrected.

use axum::extract::State;
use http::StatusCode;
use runtime::{StateScope, StateValue};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use value::Value;

use crate::admin::extract::{self, Answer, Body, Query, Segment, Segments};
use crate::admin::{Problem, Shared};

/// Values on a page where no number is given.
const PAGE: u32 = 100;
/// Maximum number of values on a page.
const MOST: u32 = 1000;

/// A page of values.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Values {
    /// By key.
    values: Vec<StateValue>,
    /// The `after` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Filter and page of the values.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ListQuery {
    /// True for the state of test executions, which is separate.
    #[serde(default)]
    #[param(required = false)]
    test: bool,
    /// The `next` of the page before.
    after: Option<String>,
    /// Maximum number: 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// The state to which the value belongs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ValueQuery {
    /// True for the state of test executions, which is separate.
    #[serde(default)]
    #[param(required = false)]
    test: bool,
}

fn scope(text: &str, test: bool) -> Result<StateScope, Problem> {
    StateScope::parse(text, test).ok_or_else(|| {
        let detail = format!("`{text}` is no scope; use `shared`, or the id of an automation");
        Problem::not_found("unknown_scope", detail)
    })
}

/// Values of a scope, by key
///
/// The scope is `shared`, or the id of an automation (`automation:shared` for one that is called so).
#[utoipa::path(
    get, path = "/api/v1/state/{scope}", tag = "state",
    params(("scope" = String, Path, description = "`shared`, or the id of an automation"), ListQuery),
    responses((status = 200, description = "A page of them", body = Values)),
)]
pub(crate) async fn list(
    State(api): Shared,
    Segment(name): Segment,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Values>, Problem> {
    let limit = extract::limit(query.limit, PAGE, MOST)?;
    let scope = scope(&name, query.test)?;
    let (values, next) = api.engine.context().list_state(&scope, query.after.as_deref(), limit).await?;
    Ok(Answer::ok(Values { values, next }))
}

/// One value
#[utoipa::path(
    get, path = "/api/v1/state/{scope}/{key}", tag = "state",
    params(
        ("scope" = String, Path, description = "`shared`, or the id of an automation"),
        ("key" = String, Path, description = "The key"),
        ValueQuery,
    ),
    responses((status = 200, description = "The value", body = StateValue)),
)]
pub(crate) async fn show(
    State(api): Shared,
    Segments(name, key): Segments,
    Query(query): Query<ValueQuery>,
) -> Result<Answer<StateValue>, Problem> {
    let found = api.engine.context().read_state(&scope(&name, query.test)?, &key).await?;
    let unknown =
        || Problem::not_found("unknown_state", format!("the state of `{name}` has no value `{key}`"));
    Ok(Answer::ok(found.ok_or_else(unknown)?))
}

/// A value to keep.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ValueBody {
    /// At most 1 MiB as JSON.
    #[schema(value_type = value::Json)]
    value: serde_json::Value,
    /// Lifetime of the value; without it, the value never expires.
    #[schema(example = "1d")]
    ttl: Option<String>,
}

/// Keep a value
#[utoipa::path(
    put, path = "/api/v1/state/{scope}/{key}", tag = "state", request_body = ValueBody,
    params(
        ("scope" = String, Path, description = "`shared`, or the id of an automation"),
        ("key" = String, Path, description = "The key"),
        ValueQuery,
    ),
    responses((status = 200, description = "The stored values", body = StateValue)),
)]
pub(crate) async fn put(
    State(api): Shared,
    Segments(name, key): Segments,
    Query(query): Query<ValueQuery>,
    Body(ValueBody { value, ttl }): Body<ValueBody>,
) -> Result<Answer<StateValue>, Problem> {
    let scope = scope(&name, query.test)?;
    let ttl = ttl.map(|ttl| text::units::parse_fixed_period(&ttl)).transpose().map_err(|error| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", format!("`ttl`: {error}"))
    })?;
    let (engine, value) = (api.engine.clone(), Value::from_serde(value));
    let kept =
        api.to_its_end(async move { engine.context().write_state(&scope, &key, value, ttl).await }).await??;
    Ok(Answer::ok(kept))
}

/// The result of a deletion
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deleted {
    /// False where there was none.
    deleted: bool,
}

/// Forget a value
#[utoipa::path(
    delete, path = "/api/v1/state/{scope}/{key}", tag = "state",
    params(
        ("scope" = String, Path, description = "`shared`, or the id of an automation"),
        ("key" = String, Path, description = "The key"),
        ValueQuery,
    ),
    responses((status = 200, description = "Whether there was one", body = Deleted)),
)]
pub(crate) async fn delete(
    State(api): Shared,
    Segments(name, key): Segments,
    Query(query): Query<ValueQuery>,
) -> Result<Answer<Deleted>, Problem> {
    let scope = scope(&name, query.test)?;
    let engine = api.engine.clone();
    let deleted = api.to_its_end(async move { engine.context().delete_state(&scope, &key).await }).await??;
    Ok(Answer::ok(Deleted { deleted }))
}
