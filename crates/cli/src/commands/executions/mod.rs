//! `cogwork executions`

mod bulk;
mod export;
mod import;
mod list;
mod replay;
mod show;
mod signal;
mod to_test;
pub(super) mod tree;
mod trial;

use clap::{Args, Subcommand as Choice};
use clap_complete::engine::ArgValueCandidates;
use model::LogLevel;
use serde_json::json;

use super::Subcommand;
use crate::commands::common::DaemonOptions;
use crate::context::{Context, LogProfile};
use crate::exit::Exit;
use crate::output::{self, BAD, QUIET, WARN, paint, plain_lines};
use crate::settings::{Config, Flags, PLACE};
use crate::{candidates, daemon, history, time};

const EXAMPLES: &str = "\
Examples:
  cogwork executions list --status failed --since 1d
  cogwork executions show latest
  cogwork executions logs latest
  cogwork executions export latest --output failure.html
  cogwork executions export --all --output executions.jsonl
  cogwork executions signal latest --option approve
  cogwork executions replay latest --from save
  cogwork executions try automations/order-desk.yaml latest
  cogwork executions cancel 019a2b3c

`list`, `show`, `logs` and `export` read the store directly, with or without a daemon. The
beginning of an id stands for the id where no other begins with it.";

/// The number of log lines per read.
const LINES: u32 = 1000;
/// The indentation of a message's continuation lines.
const MARGIN: &str = "    ";

/// Inspect, answer, replay, cancel and transfer executions
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Executions {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    List(list::List),
    Show(Show),
    Logs(Logs),
    Export(export::Export),
    Import(import::Import),
    Signal(signal::Signal),
    Replay(replay::Replay),
    Try(trial::Try),
    ToTest(to_test::ToTest),
    Cancel(Cancel),
}

/// Show one execution with its steps and its result or error
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork executions show latest\n  cogwork executions show latest --json | jq .outcome"
)]
struct Show {
    /// The execution's id, a beginning of it that no other has, or `latest`
    #[arg(add = ArgValueCandidates::new(candidates::executions))]
    id: String,
    /// Print JSON, with complete results
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags<PLACE>,
}

/// Show the log lines of one execution
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork executions logs latest\n  cogwork executions logs latest --json"
)]
struct Logs {
    /// The execution's id, a beginning of it that no other has, or `latest`
    #[arg(add = ArgValueCandidates::new(candidates::executions))]
    id: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// Cancel executions
///
/// The running step is aborted; steps under `finally` still run. It needs the daemon.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork executions cancel 019a2b3c --reason \"wrong order\"\n  cogwork executions cancel --automation order-desk --status waiting --yes"
)]
struct Cancel {
    #[command(flatten)]
    selection: bulk::Selection,
    /// The reason, for the history
    #[arg(long, default_value = "cancelled on the command line")]
    reason: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Executions {
    const NAME: &'static str = "executions";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let flags = match &self.what {
            Command::List(list) => &list.shown.settings,
            Command::Show(show) => &show.settings,
            Command::Logs(logs) => &logs.shown.settings,
            Command::Export(export) => &export.settings,
            Command::Import(import) => &import.shown.settings,
            Command::Signal(signal) => &signal.shown.settings,
            Command::Replay(replay) => &replay.shown.settings,
            Command::Try(trial) => &trial.shown.settings,
            Command::ToTest(what) => &what.settings,
            Command::Cancel(cancel) => &cancel.shown.settings,
        };
        let config = context.config(flags.given(), LogProfile::Tool)?;
        let runtime = daemon::runtime()?;
        match &self.what {
            Command::List(list) => runtime.block_on(list.run(&config)),
            Command::Show(show) => runtime.block_on(show::run(&config, &show.id, show.json)),
            Command::Logs(what) => runtime.block_on(logs(&config, &what.id, what.shown.json)),
            Command::Export(what) => runtime.block_on(what.run(&config)),
            Command::Import(what) => runtime.block_on(what.run(&config)),
            Command::Signal(what) => runtime.block_on(what.run(&config)),
            Command::Replay(what) => runtime.block_on(what.run(&config)),
            Command::Try(what) => runtime.block_on(what.run(&config, context.dir())),
            Command::ToTest(what) => runtime.block_on(what.run(&config)),
            Command::Cancel(what) => runtime.block_on(cancel(&config, what)),
        }
    }
}

async fn logs(config: &Config, id: &str, as_json: bool) -> anyhow::Result<Exit> {
    let store = history::require(config)?;
    let id = history::find(&*store, id).await?.id;
    let mut after = 0;
    let mut all = Vec::new();
    loop {
        let lines = store.logs(id, after, LINES).await?;
        after = after.saturating_add(LINES);
        let last = lines.len() < LINES as usize;
        if as_json {
            all.extend(lines);
        } else {
            for line in lines {
                let level = match line.level {
                    LogLevel::Debug => paint(QUIET, "debug"),
                    LogLevel::Info => "info ".to_owned(),
                    LogLevel::Warn => paint(WARN, "warn "),
                    LogLevel::Error => paint(BAD, "error"),
                };
                let (at, step) = (time::local_precise(line.at), line.step.as_deref().unwrap_or("-"));
                output::data(format_args!(
                    "{} {level} {step}  {}",
                    paint(QUIET, at),
                    plain_lines(&line.message, MARGIN)
                ))?;
            }
        }
        if last {
            break;
        }
    }
    if as_json {
        output::json(&json!({"id": id, "logs": all}))?;
    }
    Ok(Exit::Done)
}

async fn cancel(config: &Config, what: &Cancel) -> anyhow::Result<Exit> {
    let Some(id) = what.selection.single() else {
        let body = json!({"action": "cancel", "reason": what.reason});
        return what.selection.run(config, body, what.shown.json).await;
    };
    let id = history::id(config, id).await?;
    let path = format!("/api/v1/executions/{id}/cancel");
    let answer: serde_json::Value = daemon::post(config, &path, &json!({"reason": what.reason})).await?;
    let cancelled = answer["cancelled"].as_bool().unwrap_or_default();
    if what.shown.json {
        output::json(&answer)?;
    }
    output::say(if cancelled { "it ends" } else { "it had come to its end before" });
    Ok(if cancelled { Exit::Done } else { Exit::Failed })
}
