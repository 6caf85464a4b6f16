//! `cogwork executions replay`

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bulk::Selection;
use crate::commands::common::DaemonOptions;
use crate::exit::{CommandError, Exit};
use crate::output::{self, QUIET, count, paint};
use crate::settings::Config;
use crate::{daemon, data, history};

const EXAMPLES: &str = "\
Examples:
  cogwork executions replay latest --dry-run
  cogwork executions replay 019a2b3c --from save     the steps before `save` keep their results
  cogwork executions replay 019a2b3c --from copy[2]  the third iteration of a loop
  cogwork executions replay 019a2b3c --payload @order.json --test
  cogwork executions replay --automation order-desk --status failed --since 1d

A replay really calls other systems. It prints the id of the new execution.";

/// Run executions again, as new ones
///
/// A replay is a new execution with the recorded payload and with idempotency keys of its own. It needs the daemon.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    #[command(flatten)]
    selection: Selection,
    /// Begin at this step: the steps before it keep their recorded results. In a loop with its iteration: `copy[2]`
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// The data in place of the recorded one, as JSON: the body of a request, the inputs of a manual start, the data of a
    /// poll; `@file` reads a file, `-` reads stdin
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Run on the version that the execution ran on, in place of the one in force
    #[arg(long)]
    original: bool,
    /// Run as a test, with a state of its own
    #[arg(long)]
    test: bool,
    /// Start nothing; print the steps that would call other systems
    #[arg(long)]
    dry_run: bool,
    /// Wait for the end; exit with 1 if it fails
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) shown: DaemonOptions,
}

/// The response of the daemon.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    execution_id: Option<String>,
    kept_steps: usize,
    #[serde(default)]
    kept: Vec<String>,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    step: String,
    action: String,
    writes: bool,
    list: String,
    called: bool,
}

impl Replay {
    pub(super) async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        let definition = if self.original { "original" } else { "current" };
        // Without the flag each replay is a test if its execution was one.
        let test = self.test.then_some(true);
        let Some(id) = self.selection.single() else {
            if self.from.is_some() || self.payload.is_some() || self.dry_run || self.wait {
                return Err(CommandError::usage(
                    "--from, --payload, --dry-run and --wait take the id of one execution",
                ));
            }
            let body = json!({"action": "replay", "definition": definition, "test": test});
            return self.selection.run(config, body, self.shown.json).await;
        };
        let id = history::id(config, id).await?;
        let mut body = json!({
            "from": self.from, "definition": definition, "test": test, "dryRun": self.dry_run,
        });
        if let Some(given) = &self.payload {
            let given = data::read(given)?;
            let known: Value = daemon::fetch(config, &format!("/api/v1/executions/{id}")).await?;
            body["payload"] = payload(known["payload"]["kind"].as_str().unwrap_or_default(), given)?;
        }
        let path = format!("/api/v1/executions/{id}/replay");
        let value: Value = daemon::post(config, &path, &body).await?;
        let answer: Answer = serde_json::from_value(value.clone())?;
        let Some(new) = &answer.execution_id else {
            if self.shown.json {
                output::json(&value)?;
            } else {
                plan(&answer, self.payload.is_some())?;
            }
            return Ok(Exit::Done);
        };
        if self.shown.json && !self.wait {
            output::json(&value)?;
        } else if !self.wait {
            output::data(new)?;
        }
        if self.wait { crate::commands::start::watch(config, new.parse()?).await } else { Ok(Exit::Done) }
    }
}

/// The payload in the API's form.
fn payload(kind: &str, given: Value) -> anyhow::Result<Value> {
    match kind {
        "webhook" => Ok(json!({ "body": given })),
        "manual" => Ok(json!({ "kind": "manual", "inputs": given })),
        "poll" => Ok(json!({ "data": given })),
        _ => Err(CommandError::usage(format!("an execution that a {kind} started takes no --payload"))),
    }
}

/// Prints the plan of a replay. `is_edited` is true if it has a payload of its own.
fn plan(answer: &Answer, is_edited: bool) -> anyhow::Result<()> {
    if answer.kept_steps > 0 {
        let of = if is_edited { ", made from the recorded payload" } else { "" };
        let (kept, ids) = (count(answer.kept_steps, "step"), answer.kept.join(", "));
        output::data(format_args!("{kept} keep their results{of}: {ids}"))?;
    }
    if answer.calls.is_empty() {
        output::data("no step calls another system")?;
    }
    for call in &answer.calls {
        let effect = if call.writes { "writes" } else { "reads " };
        let list = if call.list == "steps" { String::new() } else { format!(", in `{}`", call.list) };
        let again = if call.called { "" } else { ", not called before" };
        output::data(format_args!(
            "{effect} {}  {}{}",
            call.step,
            call.action,
            paint(QUIET, format!("{list}{again}"))
        ))?;
    }
    Ok(())
}
