//! `cogwork subscriptions`

use clap::{Args, Subcommand as Choice};
use clap_complete::engine::ArgValueCandidates;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table};
use crate::{candidates, daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork subscriptions
  cogwork subscriptions --json | jq '.subscriptions[] | select(.error)'
  cogwork subscriptions try on-push
  cogwork subscriptions forget on-push

The daemon subscribes to the event of an automation while the automation is
enabled, and unsubscribes afterwards. It retries requests that fail; `try`
retries them at once. `forget` ends the attempts to unsubscribe from an
application that is gone.";

/// List webhook subscriptions at other services, and their errors
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Subscriptions {
    #[command(subcommand)]
    what: Option<Command>,
    #[command(flatten)]
    shown: DaemonOptions,
}

#[derive(Choice, Debug)]
enum Command {
    Try(Try),
    Forget(Forget),
}

/// Attempt the pending requests of an automation's subscriptions now
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork subscriptions try on-push")]
struct Try {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// Forget an automation's subscriptions that could not be removed at the other service, without calling it
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork subscriptions forget on-push")]
struct Forget {
    /// The automation's id; its file may be gone
    automation: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Subscriptions {
    const NAME: &'static str = "subscriptions";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (automation, shown, word) = match &self.what {
            None => {
                let config = self.shown.config(context)?;
                let found: Value =
                    daemon::runtime()?.block_on(daemon::fetch(&config, "/api/v1/subscriptions"))?;
                self.shown.print(&found, || print(&found))?;
                return Ok(Exit::Done);
            }
            Some(Command::Try(one)) => (&one.automation, &one.shown, "try"),
            Some(Command::Forget(one)) => (&one.automation, &one.shown, "forget"),
        };
        let config = shown.config(context)?;
        let path = daemon::path(&["subscriptions", automation, word]);
        let found: Value = daemon::runtime()?.block_on(daemon::post(&config, &path, &json!({})))?;
        shown.print(&found, || print(&found))?;
        // A requested attempt that failed is a failure of the command.
        let failed =
            found["subscriptions"].as_array().into_iter().flatten().any(|one| one["error"].is_string());
        Ok(if failed { Exit::Failed } else { Exit::Done })
    }
}

fn print(told: &Value) -> anyhow::Result<()> {
    let all = told["subscriptions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        output::say("there are no subscriptions");
        return Ok(());
    }
    let mut table = Table::new(&["AUTOMATION", "EVENT", "STATE", "SINCE", "ERROR"]);
    let now = time::now();
    for one in all {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        let since = text("since").parse::<Timestamp>().map(|at| time::ago(at, now)).unwrap_or_default();
        table.row([text("automation"), text("event"), text("state"), &since, text("error")]);
    }
    table.print()?;
    Ok(())
}
