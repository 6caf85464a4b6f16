//! The audit log, to be read and exported.

use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::admin::extract::{self, Answer, Query};
use crate::admin::{Problem, Shared};
use crate::audit::{Entry, Filter};

/// Default and maximum number of entries on a page.
const PAGE: usize = 100;
const MOST: usize = 1000;

/// Filter and page of the entries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct AuditQuery {
    /// From this time on.
    since: Option<Timestamp>,
    /// Before this time: the `next` of the page before.
    until: Option<Timestamp>,
    /// A part of the credential's name.
    by: Option<String>,
    /// The word for the operation, such as `start` or `changeFile`.
    action: Option<String>,
    /// A part of the path, or of the id of the execution that was started.
    about: Option<String>,
    /// Maximum number: 1 to 1000, 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Audit {
    /// Newest first.
    entries: Vec<Entry>,
    /// The `until` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Timestamp>,
}

/// Entries of the audit log: changes, starts, answers and cancellations
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "tokens", params(AuditQuery),
    responses((status = 200, description = "A page of the audit log", body = Audit)),
)]
pub(crate) async fn list(
    State(api): Shared,
    Query(query): Query<AuditQuery>,
) -> Result<Answer<Audit>, Problem> {
    let limit = extract::limit(query.limit, PAGE, MOST)?;
    let audit = api.audit.clone();
    let AuditQuery { since, until, by, action, about, .. } = query;
    let filter = Filter { since, until, by, action, about };
    let read = move || audit.read(&filter, limit);
    let entries = tokio::task::spawn_blocking(read).await.map_err(|error| Problem::internal(&error))?;
    let entries = entries.map_err(|error| Problem::internal(&error))?;
    let next = entries.last().filter(|_| entries.len() == limit).map(|entry| entry.at);
    Ok(Answer::ok(Audit { entries, next }))
}
