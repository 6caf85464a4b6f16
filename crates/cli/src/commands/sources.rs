//! `cogwork sources`

use clap::Args;
use serde_json::Value;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table};
use crate::{daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork sources
  cogwork sources --json | jq '.sources[] | select(.state == \"failing\")'

It needs the daemon.";

/// List the consumers of brokers with their state, their error and the messages that wait
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Sources {
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Sources {
    const NAME: &'static str = "sources";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let told: Value = daemon::runtime()?.block_on(daemon::fetch(&config, "/api/v1/sources"))?;
        self.shown.print(&told, || list(&told))?;
        Ok(Exit::Done)
    }
}

/// The error of a source, or what keeps its messages from starting an execution exactly once.
fn problem(source: &Value) -> String {
    match (source["error"].as_str(), source["unidentified"].as_u64()) {
        (Some(error), _) => error.to_owned(),
        (None, Some(count @ 1..)) => format!("no-message-id: {count} messages may start twice"),
        (None, _) => String::new(),
    }
}

fn list(told: &Value) -> anyhow::Result<()> {
    let sources = told["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
    if sources.is_empty() {
        output::say("no trigger takes messages of a broker");
        return Ok(());
    }
    let mut table = Table::new(&["AUTOMATION", "CONSUMER", "STATE", "LAG", "ACCEPTED", "LAST", "ERROR"]);
    let now = time::now();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for source in sources {
        let last = source["lastAt"].as_str().and_then(|at| at.parse().ok());
        let last = last.map_or_else(|| "never".to_owned(), |at| time::ago(at, now));
        table.row([
            text(&source["automation"]).as_str(),
            &source["consumer"].to_string(),
            &text(&source["state"]),
            &source["lag"].as_u64().map(|lag| lag.to_string()).unwrap_or_default(),
            &source["accepted"].to_string(),
            &last,
            &problem(source),
        ]);
    }
    table.print()?;
    Ok(())
}
