//! Bulk operations: their selection, their count, and their progress.

use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use model::Status;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exit::{CommandError, Exit};
use crate::output::{self, count, plain};
use crate::settings::Config;
use crate::signals::Signals;
use crate::{candidates, daemon, history, time};

/// The interval between polls of the progress.
const POLL: Duration = Duration::from_millis(500);

/// The executions of a command: their ids, or a filter.
#[derive(Args, Debug)]
pub(super) struct Selection {
    /// The ids, beginnings of them that no others have, or `latest`
    #[arg(value_name = "ID", add = ArgValueCandidates::new(candidates::executions))]
    ids: Vec<String>,
    /// All executions of this automation
    #[arg(long, value_name = "ID", conflicts_with = "ids", add = ArgValueCandidates::new(candidates::automations))]
    automation: Option<String>,
    /// All executions in one of these states: queued, running, waiting, succeeded, failed, cancelled, stuck
    #[arg(long, value_delimiter = ',', conflicts_with = "ids")]
    status: Vec<Status>,
    /// All executions since a time: a duration such as `2h` or `7d`, a day, or an instant
    #[arg(long, value_name = "MOMENT", conflicts_with = "ids")]
    since: Option<String>,
    /// With a filter: begin without a question
    #[arg(long)]
    yes: bool,
    /// With several executions: how many in a second, 1 to 100
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    per_second: u32,
}

/// The progress of an operation, as the daemon describes it.
#[derive(Debug, Deserialize)]
struct Progress {
    state: String,
    total: usize,
    done: usize,
    failed: usize,
    calling: Option<usize>,
    #[serde(default)]
    started: Vec<String>,
    #[serde(default)]
    failures: Vec<Failure>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    id: String,
    message: String,
}

impl Selection {
    /// The execution, if exactly one is named.
    pub(super) fn single(&self) -> Option<&str> {
        match self.ids.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Starts the operation that `body` describes on these executions, and follows it to its end. Ctrl-C stops it.
    pub(super) async fn run(&self, config: &Config, mut body: Value, as_json: bool) -> anyhow::Result<Exit> {
        let is_filter = self.ids.is_empty();
        if is_filter && self.automation.is_none() && self.status.is_empty() && self.since.is_none() {
            return Err(CommandError::usage(
                "say which executions: their ids, or --automation, --status or --since",
            ));
        }
        if is_filter {
            let since = self.since.as_deref().map(|text| time::moment(text, time::now()));
            let since = since.transpose().map_err(CommandError::usage)?;
            body["filter"] = json!({"automation": self.automation, "status": self.status, "since": since});
        } else {
            let mut ids = Vec::with_capacity(self.ids.len());
            for id in &self.ids {
                ids.push(history::id(config, id).await?.to_string());
            }
            body["ids"] = json!(ids);
        }
        body["perSecond"] = self.per_second.into();
        let path = daemon::path(&["executions", "bulk"]);
        let action = body["action"].as_str().unwrap_or_default().to_owned();
        if is_filter && !self.confirmed(config, &path, &body, &action).await? {
            return Ok(Exit::Failed);
        }
        let mut signals = Signals::listen()?;
        let begun: Value = daemon::post(config, &path, &body).await?;
        let path = daemon::path(&["executions", "bulk", begun["id"].as_str().unwrap_or_default()]);
        let ended = follow(config, &path, &mut signals).await?;
        conclude(&ended, &action, as_json)
    }

    /// Prints the number of executions, and asks for confirmation.
    async fn confirmed(
        &self,
        config: &Config,
        path: &str,
        body: &Value,
        action: &str,
    ) -> anyhow::Result<bool> {
        let mut body = body.clone();
        body["dryRun"] = true.into();
        let plan: Progress = serde_json::from_value(daemon::post(config, path, &body).await?)?;
        let calling = plan
            .calling
            .filter(|calling| *calling > 0)
            .map_or_else(String::new, |calling| format!("; {calling} of them call other systems again"));
        output::say(format_args!("{}{calling}", count(plan.total, "execution")));
        if plan.total == 0 || self.yes {
            return Ok(plan.total > 0);
        }
        if !output::can_ask() {
            return Err(CommandError::usage(format!("add --yes to {action} them")));
        }
        let answer = output::ask(&format!("{action} them? [y/N] "))?;
        Ok(answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")))
    }
}

/// Follows an operation until it ends.
async fn follow(config: &Config, path: &str, signals: &mut Signals) -> anyhow::Result<Value> {
    loop {
        let value: Value = daemon::fetch(config, path).await?;
        if value["state"] != "running" {
            return Ok(value);
        }
        tokio::select! {
            biased;
            () = signals.next() => {
                let _: Value = daemon::delete(config, path).await?;
            }
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

fn conclude(ended: &Value, action: &str, as_json: bool) -> anyhow::Result<Exit> {
    let progress: Progress = serde_json::from_value(ended.clone())?;
    if as_json {
        output::json(ended)?;
    } else {
        for id in &progress.started {
            output::data(id)?;
        }
        for failure in &progress.failures {
            output::warn(format_args!("{}: {}", failure.id, plain(&failure.message)));
        }
    }
    let Progress { state, total, done, failed, .. } = progress;
    let done_word = if action == "cancel" { "cancelled" } else { "replayed" };
    let stopped = if state == "stopped" { ", stopped" } else { "" };
    output::say(format_args!("{} of {total} {done_word}, {failed} failed{stopped}", done - failed.min(done)));
    Ok(if failed > 0 || state == "stopped" { Exit::Failed } else { Exit::Done })
}
