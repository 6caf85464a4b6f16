//! `cogwork subscriptions`

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table};
use crate::{daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork subscriptions
  cogwork subscriptions --json | jq '.subscriptions[] | select(.error)'

The daemon subscribes to the event of an automation while the automation is
enabled, and unsubscribes afterwards. It retries requests that fail.";

/// List webhook subscriptions at other services, and their errors
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Subscriptions {
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Subscriptions {
    const NAME: &'static str = "subscriptions";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let told: Value = daemon::runtime()?.block_on(daemon::fetch(&config, "/api/v1/subscriptions"))?;
        self.shown.print(&told, || print(&told))?;
        Ok(Exit::Done)
    }
}

fn print(told: &Value) -> anyhow::Result<()> {
    let all = told["subscriptions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        output::say("nothing is subscribed to");
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
