//! An execution as one file to hand in with a ticket: a static page without script, or JSON.

mod page;

use std::io;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use catalog::{Deployment, Graph};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use model::automation::Automation;
use model::{Event, LogLine};
use serde::{Deserialize, Serialize};
use store::{ExecutionRow, ExecutionStore};
use text::diagnostic::Report;
use utoipa::{IntoParams, ToSchema};

use super::execution;
use super::execution::ExecutionDetail;
use super::recorded::{Cuts, Recorded};
use crate::admin::extract::{Query, Segment};
use crate::admin::{Problem, Shared};

/// Log lines read at one time.
const LINES: u32 = 1000;
/// Maximum number of log lines of an export.
const MOST_LINES: usize = 10_000;

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// One static page without script: verdict, timeline, steps, values cut at 4 KiB, log lines, source.
    #[default]
    Html,
    /// Everything as JSON, values whole.
    Json,
}

/// The form of an export.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct ExportQuery {
    /// `html`, one static page without script, or `json`, with whole values; `html` where it is not given.
    #[serde(default)]
    #[param(inline)]
    format: ExportFormat,
}

/// An execution with all that belongs to it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Export {
    execution: ExecutionDetail,
    /// The version that it ran on; absent if that is no longer known.
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<ExportedDefinition>,
    /// Its log lines, at most 10,000.
    #[schema(value_type = Vec<value::Json>)]
    logs: Vec<LogLine>,
}

/// The version that an exported execution ran on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ExportedDefinition {
    hash: String,
    path: String,
    source: String,
    graph: Graph,
}

impl ExportedDefinition {
    fn new(automation: &Automation) -> Self {
        let source = automation.source.clone();
        let deployment =
            Deployment::old(std::sync::Arc::new(automation.clone()), Report::new(source.clone(), []));
        Self {
            hash: automation.definition.to_string(),
            path: source.path().to_owned(),
            source: source.text().to_owned(),
            graph: Graph::new(automation, &deployment.plan, None),
        }
    }
}

/// Reads the log lines of an execution.
///
/// # Errors
/// The store failed.
pub async fn export_lines(
    store: &dyn ExecutionStore,
    id: model::ExecutionId,
) -> Result<Vec<LogLine>, store::Error> {
    let mut lines = Vec::new();
    while lines.len() < MOST_LINES {
        let after = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        let page = store.logs(id, after, LINES).await?;
        let is_last = page.len() < LINES as usize;
        lines.extend(page);
        if is_last {
            break;
        }
    }
    Ok(lines)
}

/// Writes an execution as one file, for a reader of a store without a daemon too. Credentials are masked as the API masks
/// them. Blocks while it reads large values, one at a time.
///
/// # Errors
/// The store is damaged or fails, or the writer fails.
pub fn export(
    row: ExecutionRow,
    events: Vec<Event>,
    cuts: &Cuts,
    logs: Vec<LogLine>,
    automation: Option<&Automation>,
    format: ExportFormat,
    mut writer: impl io::Write,
) -> io::Result<()> {
    let execution = execution::detail(row, events, cuts, None, automation).map_err(io::Error::other)?;
    let export = Export { execution, definition: automation.map(ExportedDefinition::new), logs };
    match format {
        ExportFormat::Html => writer.write_all(page::render(export, cuts).as_bytes()),
        ExportFormat::Json => cuts.write(&serde_json::to_value(&export)?, true, writer),
    }
}

/// An execution as one file
#[utoipa::path(
    get, path = "/api/v1/executions/{id}/export", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), ExportQuery),
    responses(
        (status = 200, description = "The file, as an attachment", content((String = "text/html"), (Export = "application/json"))),
    ),
)]
pub(crate) async fn route(
    State(api): Shared,
    Segment(id): Segment,
    Query(query): Query<ExportQuery>,
) -> Result<Response, Problem> {
    let Recorded { row, events, cuts } = api.recorded(&id).await?;
    let id = row.id;
    let automation = api.engine.records().automation_of(&row).await;
    let logs = export_lines(&**api.engine.store(), id).await?;
    let memory = cuts.memory();
    let format = query.format;
    let body = cuts
        .written(move |cuts, parts| export(row, events, cuts, logs, automation.as_deref(), format, parts));
    let (kind, ending) = match format {
        ExportFormat::Html => ("text/html; charset=utf-8", "html"),
        ExportFormat::Json => ("application/json", "json"),
    };
    // An attachment: the texts of others in it are never opened under this origin.
    let name = HeaderValue::from_str(&format!("attachment; filename=\"execution-{id}.{ending}\""));
    let name = name.map_err(|error| Problem::internal(&error))?;
    let headers = [(CONTENT_TYPE, HeaderValue::from_static(kind)), (CONTENT_DISPOSITION, name)];
    let mut response = (StatusCode::OK, headers, body).into_response();
    response.extensions_mut().insert(memory);
    Ok(response)
}
