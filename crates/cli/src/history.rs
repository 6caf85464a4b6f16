//! The store of a project, opened read-only beside a daemon, and executions in the API's form.

use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use model::automation::Automation;
use model::execution::{DelayReason, Origin, WaitReason};
use model::{ActionError, DefinitionHash, ErrorKind, Event, ExecutionId};
use serde::Deserialize;
use serde_json::Value;
use server::Cuts;
use store::{ExecutionFilter, ExecutionRow, Page, SMALL_VALUE, Store};

use crate::exit::CommandError;
use crate::output::plain;
use crate::settings::Config;
use crate::time;
use crate::waiting::Waiting;

/// The keyword for the newest execution in place of an id.
pub(crate) const LATEST: &str = "latest";
/// The maximum number of printed executions for an ambiguous text.
const CANDIDATES: u32 = 10;

/// An execution in the form of `GET /api/v1/executions/{id}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    pub(crate) id: String,
    pub(crate) automation: String,
    pub(crate) origin: Origin,
    pub(crate) status: String,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) attempt: u32,
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) payload: Value,
    pub(crate) steps: Vec<Step>,
    pub(crate) waiting: Option<Waiting>,
    /// The waits that have ended.
    #[serde(default)]
    pub(crate) waits: Vec<Delay>,
    /// The status of the response to the caller, if the execution did not decide it.
    pub(crate) answered: Option<u16>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) response: Option<Value>,
    /// The executions that its events started.
    pub(crate) started: Option<Started>,
}

/// The executions that the events of an execution started.
#[derive(Debug, Deserialize)]
pub(crate) struct Started {
    /// The newest.
    pub(crate) executions: Vec<StartedExecution>,
    /// The number of all, in the form of a list's total.
    pub(crate) total: Value,
}

/// An execution that an event of another one started.
#[derive(Debug, Deserialize)]
pub(crate) struct StartedExecution {
    pub(crate) id: String,
    pub(crate) automation: String,
    pub(crate) status: String,
    pub(crate) event: String,
    pub(crate) step: Option<String>,
}

/// A wait of an execution, or of one of its steps.
#[derive(Debug, Deserialize)]
pub(crate) struct Delay {
    pub(crate) step: Option<String>,
    /// The cause: a [`DelayReason`] if no step requested the wait.
    reason: Value,
    pub(crate) ms: u64,
}

impl Delay {
    /// The cause of a wait that no step requested; `None` for a pause of a step.
    pub(crate) fn reason(&self) -> Option<DelayReason> {
        serde_json::from_value(self.reason.clone()).ok()
    }
}

/// A step of an execution, or one iteration of a step in a loop.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    /// Its id with its iterations: `copy[2]`.
    pub(crate) step: String,
    /// The action that it calls.
    pub(crate) action: Option<String>,
    pub(crate) connection: Option<String>,
    /// The last request that it sent.
    pub(crate) request: Option<Request>,
    /// The automation that it starts.
    pub(crate) automation: Option<String>,
    /// The executions that it started.
    #[serde(default)]
    pub(crate) executions: Vec<String>,
    pub(crate) status: String,
    pub(crate) attempts: u32,
    pub(crate) took_ms: Option<f64>,
    pub(crate) next_at: Option<Timestamp>,
    /// The wait reason.
    pub(crate) on: Option<WaitReason>,
    /// The signals received so far.
    #[serde(default)]
    pub(crate) signals: Vec<Signal>,
    /// The control flow that it started.
    pub(crate) left: Option<String>,
    pub(crate) result: Option<Value>,
    pub(crate) error: Option<ActionError>,
}

/// A request that a step sent.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) url: String,
}

/// A signal that a waiting step received.
#[derive(Debug, Deserialize)]
pub(crate) struct Signal {
    pub(crate) at: Timestamp,
    pub(crate) name: Option<String>,
    pub(crate) by: Option<String>,
}

/// The outcome of an execution.
#[derive(Debug, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub(crate) enum Outcome {
    Succeeded { result: Value },
    Failed { error: ActionError },
    Cancelled { reason: String },
    Stuck { error: ActionError },
}

/// An error on one line, with its step and the details of the remote system's response.
pub(crate) fn describe(error: &ActionError) -> String {
    let step = error.step.as_ref().map_or_else(String::new, |step| format!("step `{step}` failed: "));
    // The kind of a `fail` step is redundant.
    let kind = Some(error.kind.to_string()).filter(|_| error.kind != ErrorKind::Failed);
    let status = error.status.map(|status| format!("status {status}"));
    let code = error.code.as_ref().map(|code| format!("code {code}"));
    let request = error.request_id.as_ref().map(|id| format!("request {id}"));
    let known: Vec<String> = [kind, status, code, request].into_iter().flatten().collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    plain(&format!("{step}{}{known}", error.message_with_location())).into_owned()
}

/// Opens the store of a project read-only; `None` if the project has no store yet.
///
/// # Errors
/// It exists and cannot be opened, its path cannot be read, or a part of it is missing.
pub(crate) fn open(config: &Config) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let location = config.store_location();
    let exists = location.exists().with_context(|| format!("cannot read the store `{location}`"))?;
    if !exists {
        return Ok(None);
    }
    let store = engine::stores::open_read_only(&location)
        .with_context(|| format!("cannot read the store `{location}`"))?;
    Ok(Some(store))
}

/// The store of a project, which must exist.
///
/// # Errors
/// The store is missing or cannot be opened.
pub(crate) fn require(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    open(config)?.with_context(|| no_store(config))
}

/// The message that there is no store, with the options that select another one.
pub(crate) fn no_store(config: &Config) -> String {
    format!(
        "there is no store at `{}`, so nothing has run there; name the project with --dir, or the place of the store with --data-dir or \
         --store",
        config.store_location()
    )
}

/// The events of an execution without their large values, which are read when printed.
///
/// # Errors
/// The execution is deleted, or the store fails.
pub(crate) async fn events(store: &Arc<dyn Store>, id: ExecutionId) -> anyhow::Result<(Vec<Event>, Cuts)> {
    let cut = store.events_cut(id, SMALL_VALUE).await?;
    let cut = cut.with_context(|| format!("execution `{id}` was cleared away just now"))?;
    Ok(Cuts::new(store.clone(), id, cut))
}

/// The execution that `text` names: by its id, by an unambiguous prefix, or as `latest`.
///
/// # Errors
/// No execution matches, or several do.
pub(crate) async fn find(store: &dyn Store, text: &str) -> anyhow::Result<ExecutionRow> {
    if text == LATEST {
        let page = Page { before: None, limit: 1 };
        let newest = store.executions(&ExecutionFilter::default(), page).await?;
        return newest.into_iter().next().context("nothing has run yet");
    }
    let cleared = || format!("there is no execution `{text}`; it may have been cleared away by age");
    if let Ok(id) = text.parse() {
        return store.execution(id).await?.with_context(cleared);
    }
    if ExecutionId::range_for_prefix(text).is_none() {
        return Err(CommandError::usage(format!(
            "`{text}` is no execution id and no beginning of one; `cogwork executions list` shows them, and \
             `{LATEST}` is the newest"
        )));
    }
    let mut rows = store::executions_by_prefix(store, text, CANDIDATES + 1).await?;
    if rows.len() > 1 {
        return Err(CommandError::usage(ambiguous(text, &rows)));
    }
    rows.pop().with_context(cleared)
}

/// The error that a text is the prefix of several ids, with the ids.
fn ambiguous(text: &str, rows: &[ExecutionRow]) -> String {
    let shown = rows.iter().take(CANDIDATES as usize).map(|row| {
        let (started, status) = (time::local(row.started_at), row.status.as_str());
        format!("\n  {}  {started}  {}  {status}", row.id, row.automation)
    });
    let more = if rows.len() > CANDIDATES as usize { "\n  …" } else { "" };
    format!(
        "`{text}` is the beginning of several ids; give more of the one you mean:{}{more}",
        shown.collect::<String>()
    )
}

/// A definition that executions ran on; `None` if it cannot be loaded any more.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn definition(
    store: &dyn Store,
    hash: DefinitionHash,
) -> anyhow::Result<Option<Automation>> {
    Ok(store.definition(hash).await?.and_then(runtime::read_definition))
}

/// The id that `text` names: an id, an unambiguous prefix, or `latest`.
///
/// # Errors
/// No execution matches, or several do.
pub(crate) async fn id(config: &Config, text: &str) -> anyhow::Result<ExecutionId> {
    // Only the daemon may know a complete id.
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(find(&*require(config)?, text).await?.id),
    }
}
