//! `cogwork polls`

use clap::{Args, Subcommand as Choice};
use clap_complete::engine::ArgValueCandidates;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table};
use crate::settings::Config;
use crate::{candidates, daemon, data, time};

const EXAMPLES: &str = "\
Examples:
  cogwork polls list
  cogwork polls show new-orders
  cogwork polls now new-orders
  cogwork polls rewind changed-pages '\"2026-03-02T08:00:00Z\"'
  cogwork polls reset new-orders

All of them need the daemon.";

/// Inspect and reset polls
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Polls {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// List the polls with their next time and last result
    #[command(
        after_help = "Examples:\n  cogwork polls list\n  cogwork polls list --json | jq '.polls[].nextAt'"
    )]
    List(DaemonOptions),
    /// Show one poll with its cursor, error and latest results
    #[command(after_help = "Examples:\n  cogwork polls show new-orders")]
    Show(One),
    /// Poll now
    #[command(after_help = "Examples:\n  cogwork polls now new-orders")]
    Now(One),
    /// Delete the cursor and all known ids of a poll, and poll again from the beginning
    #[command(after_help = "Examples:\n  cogwork polls reset new-orders")]
    Reset(One),
    /// Continue a poll from another cursor, and delete all known ids
    #[command(
        after_help = "Examples:\n  cogwork polls rewind changed-pages '\"2026-03-02T08:00:00Z\"'\n  cogwork polls rewind new-orders 4711"
    )]
    Rewind(Rewind),
}

#[derive(Args, Debug)]
struct One {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Args, Debug)]
struct Rewind {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    /// The cursor as JSON: for an event an instant, otherwise a value of the trigger's `cursor`; `@file` reads a file
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    cursor: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Polls {
    const NAME: &'static str = "polls";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let shown = match &self.what {
            Command::List(shown)
            | Command::Show(One { shown, .. })
            | Command::Now(One { shown, .. })
            | Command::Reset(One { shown, .. })
            | Command::Rewind(Rewind { shown, .. }) => shown,
        };
        let config = shown.config(context)?;
        daemon::runtime()?.block_on(send(&config, &self.what, shown))
    }
}

async fn send(config: &Config, what: &Command, shown: &DaemonOptions) -> anyhow::Result<Exit> {
    let path = |automation: &str, what: &str| daemon::path(&["polls", automation, what]);
    let nothing = json!({});
    let told: Value = match what {
        Command::List(_) => daemon::fetch(config, "/api/v1/polls").await?,
        Command::Show(one) => daemon::fetch(config, &daemon::path(&["polls", &one.automation])).await?,
        Command::Now(one) => daemon::post(config, &path(&one.automation, "now"), &nothing).await?,
        Command::Reset(one) => daemon::post(config, &path(&one.automation, "reset"), &nothing).await?,
        Command::Rewind(one) => {
            let body = json!({ "cursor": data::read(&one.cursor)? });
            daemon::post(config, &path(&one.automation, "rewind"), &body).await?
        }
    };
    // A requested poll that failed is a failure of the command.
    let failed = matches!(what, Command::Now(_)) && told["error"].is_string();
    match what {
        Command::List(_) => shown.print(&told, || list(&told))?,
        Command::Show(_) => shown.print(&told, || show(&told))?,
        Command::Now(_) => shown.say(&told, result_text(&told))?,
        Command::Reset(_) => shown.say(&told, "reset; the next poll is the first, and is made at once")?,
        Command::Rewind(_) => shown.say(&told, "rewound; the next poll is made at once")?,
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn list(told: &Value) -> anyhow::Result<()> {
    let polls = told["polls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if polls.is_empty() {
        output::say("nothing is polled");
        return Ok(());
    }
    let mut table = Table::new(&["AUTOMATION", "EVERY", "NEXT", "LAST", "FOUND"]);
    let now = time::now();
    for poll in polls {
        let last = match (poll["error"].as_str(), instant(&poll["polledAt"])) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(at)) => time::ago(at, now),
            (None, None) => "never".to_owned(),
        };
        let next = instant(&poll["nextAt"]).map(time::local).unwrap_or_default();
        table.row([
            text(&poll["automation"]),
            text(&poll["every"]),
            &next,
            &last,
            &poll["found"].to_string(),
        ]);
    }
    table.print()?;
    Ok(())
}

fn show(told: &Value) -> anyhow::Result<()> {
    let at = |key: &str| instant(&told[key]).map_or_else(|| "never".to_owned(), time::local);
    let mut rows = vec![
        ("every", text(&told["every"]).to_owned()),
        ("next", at("nextAt")),
        ("last", at("polledAt")),
        ("found", format!("{}, last {}", told["found"], at("foundAt"))),
        ("cursor", told["cursor"].to_string()),
    ];
    if let Some(error) = told["error"].as_str() {
        rows.push(("error", format!("{error} ({} in a row)", told["failures"])));
    }
    for (name, value) in rows {
        output::data(format_args!("{name:<8} {value}"))?;
    }
    for entry in told["latest"].as_array().into_iter().flatten() {
        let at = instant(&entry["at"]).map(time::local).unwrap_or_default();
        output::data(format_args!("{at}  {}", result_text(entry)))?;
    }
    Ok(())
}

/// The result of a poll as text.
fn result_text(entry: &Value) -> String {
    match entry["error"].as_str() {
        Some(error) => format!("failed: {error}"),
        None if entry["found"] == 0 => "no changes".to_owned(),
        None => format!("{} new", entry["found"]),
    }
}

fn instant(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
