//! `cogwork executions show`

use std::sync::Arc;

use anyhow::Context as _;
use model::automation::Automation;
use model::diagnostic::Source;
use model::execution::Event;
use serde_json::Value;
use store::{SqliteStore, Store};

use super::tree;
use crate::exit::Exit;
use crate::history::{self, Execution, Outcome};
use crate::output::{self, BAD, GOOD, QUIET, STRONG, WARN, cut, paint, plain};
use crate::settings::Config;
use crate::{project, time};

/// The most characters of a payload.
const PAYLOAD: usize = 200;

/// Shows one execution.
pub(super) async fn run(config: &Config, id: &str, json: bool) -> anyhow::Result<Exit> {
    let store = history::require(config)?;
    let row = history::find(&store, id).await?;
    let (id, origin) = (row.id, row.origin.word());
    let events =
        store.events(id).await?.with_context(|| format!("execution `{id}` was cleared away just now"))?;
    let automation = definition(&store, &events).await?;
    let waits = store.waits(id).await?;
    let value = server::describe(row, events, &waits).context("the store is damaged")?;
    if json {
        output::json(&value)?;
        return Ok(Exit::Done);
    }
    let execution: Execution = serde_json::from_value(value).context("an execution that is none")?;
    head(&execution, origin)?;
    for line in tree::lines(automation.as_ref(), &execution.steps) {
        output::data(line)?;
    }
    tail(&execution)?;
    Ok(Exit::Done)
}

/// The definition that it ran on, which gives the steps their order; none where it cannot be read any more.
async fn definition(store: &SqliteStore, events: &[Event]) -> anyhow::Result<Option<Automation>> {
    let Some(Event::Started { definition, .. }) = events.first() else { return Ok(None) };
    let Some(definition) = store.definition(*definition).await? else { return Ok(None) };
    let stem = project::stem(&definition.path).to_owned();
    let source = Arc::new(Source::new(definition.path, definition.text));
    Ok(model::load::automation(source, &stem).value)
}

fn head(execution: &Execution, origin: &str) -> anyhow::Result<()> {
    let fact = |name: &str, value: &str| {
        output::data(format_args!("{}  {value}", paint(QUIET, format_args!("{name:<10}"))))
    };
    fact("execution", &paint(STRONG, &execution.id))?;
    fact("automation", &execution.automation)?;
    fact("status", &status(&execution.status))?;
    let took = execution.finished_at.map(|end| time::took(time::between(execution.started_at, end)));
    let took = took.map_or_else(String::new, |took| format!(", took {took}"));
    fact("started", &format!("{} by {origin}{took}", time::local(execution.started_at)))?;
    if execution.attempt > 1 {
        fact("attempt", &execution.attempt.to_string())?;
    }
    if let Some(at) = execution.retry_at {
        fact("next try", &time::local(at))?;
    }
    fact("payload", &paint(QUIET, plain(&cut(&payload(&execution.payload), PAYLOAD))))?;
    output::data("")?;
    Ok(())
}

/// What matters of a payload on one line.
fn payload(payload: &Value) -> String {
    match payload["kind"].as_str() {
        Some("webhook") => {
            let text = payload["body"]["data"].as_str().unwrap_or_default();
            let kind = payload["body"]["contentType"].as_str().unwrap_or_default();
            format!("{} {kind} {text}", payload["method"].as_str().unwrap_or_default())
        }
        Some("manual") => payload["inputs"].to_string(),
        _ => payload["scheduledAt"].as_str().unwrap_or_default().to_owned(),
    }
}

fn tail(execution: &Execution) -> anyhow::Result<()> {
    output::data("")?;
    if let Some(response) = &execution.response {
        output::data(format_args!("{}  {}", paint(STRONG, "answered"), response["status"]))?;
    }
    match &execution.outcome {
        None => output::data(paint(QUIET, "it has not come to its end"))?,
        Some(Outcome::Succeeded { result }) => {
            output::data(format_args!(
                "{}\n{}",
                paint(STRONG, "result"),
                serde_json::to_string_pretty(result)?
            ))?;
        }
        Some(Outcome::Failed { error } | Outcome::Stuck { error }) => {
            output::data(format_args!("{}  {}", paint(BAD.bold(), "error"), history::describe(error)))?;
        }
        Some(Outcome::Cancelled { reason }) => {
            output::data(format_args!("{}  {}", paint(WARN.bold(), "cancelled"), plain(reason)))?;
        }
    }
    Ok(())
}

fn status(word: &str) -> String {
    let style = match word {
        "succeeded" => GOOD,
        "failed" | "stuck" => BAD,
        "cancelled" => WARN,
        _ => STRONG,
    };
    paint(style, word)
}
