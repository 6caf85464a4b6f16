//! `cogwork messages`

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, Subcommand as Choice};
use clap_complete::engine::ArgValueCandidates;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table};
use crate::settings::Config;
use crate::{candidates, daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork messages list
  cogwork messages show take-orders 5d41402abc4b2a76b9719d911017c592
  cogwork messages retry take-orders 5d41402abc4b2a76b9719d911017c592
  cogwork messages drop take-orders 5d41402abc4b2a76b9719d911017c592

All of them need the daemon.";

/// Inspect, retry and drop messages of brokers that started nothing
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Messages {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// List the messages, the newest first
    #[command(
        after_help = "Examples:\n  cogwork messages list\n  cogwork messages list --json | jq '.messages[].error'"
    )]
    List(DaemonOptions),
    /// Show one message with its content
    #[command(after_help = "Examples:\n  cogwork messages show take-orders 5d41402abc4b2a76b9719d911017c592")]
    Show(One),
    /// Start an execution with a message, and remove it from the list
    #[command(
        after_help = "Examples:\n  cogwork messages retry take-orders 5d41402abc4b2a76b9719d911017c592"
    )]
    Retry(One),
    /// Remove a message from the list
    #[command(after_help = "Examples:\n  cogwork messages drop take-orders 5d41402abc4b2a76b9719d911017c592")]
    Drop(One),
}

#[derive(Args, Debug)]
struct One {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    /// The message's id in the list
    message: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Messages {
    const NAME: &'static str = "messages";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let shown = match &self.what {
            Command::List(shown)
            | Command::Show(One { shown, .. })
            | Command::Retry(One { shown, .. })
            | Command::Drop(One { shown, .. }) => shown,
        };
        let config = shown.config(context)?;
        daemon::runtime()?.block_on(send(&config, &self.what, shown))
    }
}

async fn send(config: &Config, what: &Command, shown: &DaemonOptions) -> anyhow::Result<Exit> {
    let path = |one: &One| daemon::path(&["messages", &one.automation, &one.message]);
    match what {
        Command::List(_) => {
            let told: Value = daemon::fetch(config, "/api/v1/messages").await?;
            shown.print(&told, || list(&told))?;
        }
        Command::Show(one) => {
            let told: Value = daemon::fetch(config, &path(one)).await?;
            shown.print(&told, || show(&told))?;
        }
        Command::Retry(one) => {
            let path = daemon::path(&["messages", &one.automation, &one.message, "retry"]);
            let told: Value = daemon::post(config, &path, &json!({})).await?;
            shown.say(&told, "accepted; the message is no longer in the list")?;
        }
        Command::Drop(one) => {
            let told: Value = daemon::delete(config, &path(one)).await?;
            shown.say(&told, "dropped")?;
        }
    }
    Ok(Exit::Done)
}

fn list(told: &Value) -> anyhow::Result<()> {
    let messages = told["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        output::say("no message is in the list");
        return Ok(());
    }
    let mut table = Table::new(&["AUTOMATION", "ID", "SOURCE", "AT", "ERROR"]);
    for message in messages {
        let at = message["at"].as_str().and_then(|at| at.parse().ok()).map(time::local).unwrap_or_default();
        table.row([
            text(&message["automation"]),
            text(&message["id"]),
            text(&message["source"]),
            &at,
            text(&message["error"]),
        ]);
    }
    table.print()?;
    Ok(())
}

fn show(told: &Value) -> anyhow::Result<()> {
    let content = &told["content"];
    let size = format!("{} bytes", told["size"]);
    let size = if told["cut"] == true { format!("{size}, of which only a part is kept") } else { size };
    let rows = [
        ("message", text(&told["message"]).to_owned()),
        ("source", text(&told["source"]).to_owned()),
        ("key", text(&told["key"]).to_owned()),
        ("size", size),
        ("error", text(&told["error"]).to_owned()),
        ("headers", content["headers"].to_string()),
        ("properties", content["properties"].to_string()),
    ];
    for (name, value) in rows {
        output::data(format_args!("{name:<10} {value}"))?;
    }
    let body = BASE64_STANDARD.decode(text(&content["body"])).unwrap_or_default();
    match String::from_utf8(body) {
        Ok(body) => output::data(format_args!("\n{body}"))?,
        Err(_) => output::data(format_args!("\nthe body is no text; `--json` has it in base64"))?,
    }
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
