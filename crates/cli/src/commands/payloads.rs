//! `cogwork payloads`

use clap::{Args, Subcommand as Choice};
use clap_complete::engine::ArgValueCandidates;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table, plain};
use crate::settings::Config;
use crate::{candidates, daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork payloads list order-intake
  cogwork payloads show order-intake first
  cogwork payloads rename order-intake first without-items
  cogwork payloads remove order-intake first

`cogwork listen ID --save NAME` saves one, and `cogwork start ID --saved NAME` starts with it.
All of them need the daemon.";

/// Manage the saved payloads of an automation
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Payloads {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// List the saved payloads of an automation
    #[command(
        after_help = "Examples:\n  cogwork payloads list order-intake\n  cogwork payloads list order-intake --json | jq -r '.payloads[].name'"
    )]
    List(List),
    /// Print a saved payload as JSON
    #[command(after_help = "Examples:\n  cogwork payloads show order-intake first | jq .headers")]
    Show(One),
    /// Rename a saved payload; never over another one
    #[command(after_help = "Examples:\n  cogwork payloads rename order-intake first without-items")]
    Rename(Rename),
    /// Remove a saved payload
    #[command(after_help = "Examples:\n  cogwork payloads remove order-intake first")]
    Remove(One),
}

#[derive(Args, Debug)]
struct List {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Args, Debug)]
struct One {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    /// The name of the payload
    #[arg(add = ArgValueCandidates::new(candidates::payloads))]
    name: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Args, Debug)]
struct Rename {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    /// The name of the payload
    #[arg(add = ArgValueCandidates::new(candidates::payloads))]
    name: String,
    /// The new name: letters, digits, `.`, `_` and `-`
    to: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Payloads {
    const NAME: &'static str = "payloads";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let shown = match &self.what {
            Command::List(List { shown, .. })
            | Command::Show(One { shown, .. })
            | Command::Rename(Rename { shown, .. })
            | Command::Remove(One { shown, .. }) => shown,
        };
        let config = shown.config(context)?;
        daemon::runtime()?.block_on(send(&config, &self.what))
    }
}

async fn send(config: &Config, what: &Command) -> anyhow::Result<Exit> {
    let path = |automation: &str, rest: &[&str]| {
        daemon::path(&[&["automations", automation, "payloads"][..], rest].concat())
    };
    match what {
        Command::List(what) => {
            let told: Value = daemon::fetch(config, &path(&what.automation, &[])).await?;
            what.shown.print(&told, || list(&told))?;
        }
        Command::Show(what) => {
            let told: Value = daemon::fetch(config, &path(&what.automation, &[&what.name])).await?;
            output::json(&told)?;
        }
        Command::Rename(what) => {
            let path = path(&what.automation, &[&what.name, "rename"]);
            let told: Value = daemon::post(config, &path, &json!({ "to": what.to })).await?;
            let now = plain(told["path"].as_str().unwrap_or_default()).into_owned();
            what.shown.say(&told, format_args!("now {now}"))?;
        }
        Command::Remove(what) => {
            let told: Value = daemon::delete(config, &path(&what.automation, &[&what.name])).await?;
            let was_there = told["deleted"] == true;
            what.shown
                .say(&told, if was_there { "removed" } else { "there is no payload with this name" })?;
            return Ok(if was_there { Exit::Done } else { Exit::Failed });
        }
    }
    Ok(Exit::Done)
}

fn list(told: &Value) -> anyhow::Result<()> {
    let payloads = told["payloads"].as_array().map(Vec::as_slice).unwrap_or_default();
    if payloads.is_empty() {
        output::say("no payload is saved; save one with `cogwork listen ID --save NAME`");
        return Ok(());
    }
    let text = |value: &Value| plain(value.as_str().unwrap_or_default()).into_owned();
    let mut table = Table::new(&["NAME", "KIND", "METHOD", "CONTENT TYPE", "BYTES", "SAVED"]);
    for payload in payloads {
        let saved = payload["savedAt"].as_str().and_then(|at| at.parse().ok()).map(time::local);
        table.row([
            &text(&payload["name"]),
            &text(&payload["kind"]),
            &text(&payload["method"]),
            &text(&payload["contentType"]),
            &payload["bytes"].to_string(),
            &saved.unwrap_or_default(),
        ]);
    }
    table.print()?;
    Ok(())
}
