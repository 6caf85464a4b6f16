//! The executions that the events of an execution started.

use model::{ExecutionId, Status};
use serde::Serialize;
use store::{ExecutionFilter, ExecutionRow, ExecutionStore, Page};
use utoipa::ToSchema;

use super::execution::PAGE;
use super::execution_list::TotalView;

/// The executions that the events of an execution started: own events that it sent, and events of the engine about it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StartedExecutions)]
pub struct StartedView {
    /// Newest first, at most 50; `GET /api/v1/executions?startedBy=` has all.
    executions: Vec<StartedExecution>,
    /// Their number.
    total: TotalView,
}

/// An execution that an event started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct StartedExecution {
    id: String,
    automation: String,
    status: Status,
    /// The name of the event.
    event: String,
    /// The step that sent the event, with its iteration indices; absent for an event of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

impl StartedView {
    /// Reads the newest executions that the events of an execution started; `None` without any. `shown` is the status that people
    /// are shown.
    ///
    /// # Errors
    /// The store failed.
    pub async fn read(
        store: &dyn ExecutionStore,
        sender: ExecutionId,
        shown: impl Fn(&ExecutionRow) -> Status,
    ) -> Result<Option<Self>, store::Error> {
        let filter = ExecutionFilter { sender: Some(sender), ..ExecutionFilter::default() };
        let rows = store.executions(&filter, Page { before: None, limit: PAGE }).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let total = TotalView::read(store, &filter).await?;
        let executions = rows.iter().map(|row| StartedExecution {
            id: row.id.to_string(),
            automation: row.automation.to_string(),
            status: shown(row),
            event: row.origin.emitted_event().unwrap_or_default().to_owned(),
            step: row.origin.sender_step().map(str::to_owned),
        });
        Ok(Some(Self { executions: executions.collect(), total }))
    }
}
