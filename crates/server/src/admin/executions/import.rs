//! Imports of executions as JSON lines.

use std::io::Cursor;

use axum::extract::State;
use engine::transfer::{Imported, TransferError, import_executions};
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::admin::extract::{Answer, RawBody};
use crate::admin::{Problem, Shared};

/// The path of the route, whose body may be larger than others.
pub(crate) const PATH: &str = "/api/v1/executions/import";

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ImportedExecutions)]
pub struct ImportedView {
    /// The number of imported executions.
    pub executions: u64,
    /// The number of these that had not ended. They are cancelled.
    pub cancelled: u64,
    /// The number of executions that were refused.
    pub refused: u64,
    /// The first 20 of these.
    pub refusals: Vec<RefusedImport>,
    /// The time of the earliest end of an imported execution; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub earliest_end: Option<Timestamp>,
}

/// An execution that was not imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedImport {
    /// Its id.
    pub id: String,
    /// The reason.
    pub reason: String,
}

impl From<Imported> for ImportedView {
    fn from(imported: Imported) -> Self {
        let Imported { executions, cancelled, refused, refusals, earliest_end } = imported;
        let refusals = refusals.into_iter().map(|(id, reason)| RefusedImport { id: id.to_string(), reason });
        Self { executions, cancelled, refused, refusals: refusals.collect(), earliest_end }
    }
}

/// Import executions from JSON lines
///
/// The body has at most 32 MiB, in the form of `cogwork executions export --all`, with its first and its last line. Imported executions are
/// marked as such and never run; one that had not ended is cancelled. An execution whose id exists is refused, and the others are imported.
#[utoipa::path(
    post, path = "/api/v1/executions/import", tag = "executions",
    request_body(content = String, content_type = "application/x-ndjson"),
    responses((status = 200, description = "What was imported and what was refused", body = ImportedView)),
)]
pub(crate) async fn import(
    State(api): Shared,
    RawBody(body): RawBody,
) -> Result<Answer<ImportedView>, Problem> {
    let (store, now) = (api.engine.store().clone(), api.engine.clock().now());
    // On a thread of its own, since it reads and checks megabytes; to its end, since every execution is stored apart.
    let runtime = tokio::runtime::Handle::current();
    let work = tokio::task::spawn_blocking(move || {
        runtime.block_on(import_executions(&store, now, Cursor::new(body)))
    });
    let imported = api.to_its_end(work).await?.map_err(|error| Problem::internal(&error))?;
    match imported {
        Ok(imported) => Ok(Answer::ok(imported.into())),
        Err(TransferError::Store(error)) => Err(error.into()),
        Err(error @ TransferError::Io(_)) => Err(Problem::internal(&error)),
        Err(error) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_export", error.to_string())),
    }
}
