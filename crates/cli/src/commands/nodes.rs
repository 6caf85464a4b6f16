//! `cogwork nodes`

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table, plain};
use crate::{daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork nodes
  cogwork nodes --json | jq '.nodes[] | select(.dead)'

Daemons with the same PostgreSQL database share the work. Each execution has one
owner among them. A daemon that stops beating for 10 seconds is dead: the others
take over its executions and its part of the 128 shards, which say who fires
which schedules and polls.";

/// List the daemons that share the store, with the load of each
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Nodes {
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Nodes {
    const NAME: &'static str = "nodes";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let found: Value = daemon::runtime()?.block_on(daemon::fetch_quickly(&config, "/api/v1/nodes"))?;
        self.shown.print(&found, || print(&found))?;
        Ok(Exit::Done)
    }
}

fn print(found: &Value) -> anyhow::Result<()> {
    let nodes = found["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    if nodes.is_empty() {
        output::say("one daemon has the store to itself: only a store on PostgreSQL can be shared");
        return Ok(());
    }
    let mut table = Table::new(&[
        "NODE", "HOST", "ADDRESS", "DATA", "RELEASE", "JOINED", "STATE", "DEPLOYED", "SHARDS", "RUNNING",
        "QUEUED", "RESTING",
    ]);
    let now = time::now();
    for node in nodes {
        let text = |key: &str| node[key].as_str().unwrap_or_default();
        let number = |key: &str| node[key].to_string();
        let joined = text("joinedAt").parse::<Timestamp>().map(|at| time::ago(at, now)).unwrap_or_default();
        let state = match (node["dead"].as_bool(), node["answers"].as_bool()) {
            (Some(true), _) => "dead",
            (_, Some(true)) => "alive, answers",
            _ => "alive",
        };
        let (id, shards, queued) = (number("id"), number("shards"), number("queued"));
        let (running, resting) = (number("inFlight"), number("resting"));
        let deployed =
            node["deployment"].as_u64().map_or_else(|| "folder".to_owned(), |number| number.to_string());
        table.row([
            &id,
            text("host"),
            text("address"),
            text("dataDir"),
            text("release"),
            &joined,
            state,
            &deployed,
            &shards,
            &running,
            &queued,
            &resting,
        ]);
    }
    table.print()?;
    for node in nodes.iter().filter(|node| node["problem"].is_string()) {
        let problem = plain(node["problem"].as_str().unwrap_or_default());
        output::warn(format_args!("node {} is behind: {problem}", node["id"]));
    }
    for node in nodes {
        for difference in node["differences"].as_array().into_iter().flatten() {
            let difference = plain(difference.as_str().unwrap_or_default());
            output::warn(format_args!("node {}: {difference}", node["id"]));
        }
    }
    Ok(())
}
