//! `cogwork deployments`

use anyhow::Context as _;
use clap::{Args, Subcommand as Choice};
use jiff::Timestamp;
use serde_json::{Value, json};
use server::Client;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Table, plain};
use crate::settings::Config;
use crate::{daemon, time};

/// The path of deployments in the API.
pub(super) const PATH: &str = "/api/v1/deployments";

const EXAMPLES: &str = "\
Examples:
  cogwork deployments
  cogwork deployments list --json | jq '.deployments[0]'
  cogwork deployments rollback 7

The last 50 generations are kept. `rollback` deploys the files of one again, as the next
generation. `cogwork push` deploys a project folder.";

/// List what was deployed to the daemons that share a store, and go back to it
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Deployments {
    #[command(subcommand)]
    what: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Choice, Debug)]
enum Command {
    List(List),
    Rollback(Rollback),
}

/// List the deployed generations and the daemons that run each
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork deployments list")]
struct List {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// Deploy the files of an earlier generation again
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  cogwork deployments rollback 7")]
struct Rollback {
    /// The number of the generation
    #[arg(value_name = "N")]
    generation: u64,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// The daemon to ask.
#[derive(Args, Debug)]
pub(super) struct Target {
    /// The API of a daemon elsewhere, with the token in COGWORK_ADMIN_TOKEN; default: the daemon of the data folder
    #[arg(long, value_name = "URL")]
    to: Option<String>,
}

impl Target {
    /// Returns a client of the daemon.
    ///
    /// # Errors
    /// No daemon runs, its files cannot be read, or there is no token.
    pub(super) fn client(&self, config: &Config) -> anyhow::Result<Client> {
        let Some(base) = &self.to else { return daemon::require(config) };
        let token = config.admin_token.as_ref();
        let token = token.context("--to needs a token with the scope `write` in COGWORK_ADMIN_TOKEN")?;
        Ok(Client::new(base, token)?)
    }
}

impl Subcommand for Deployments {
    const NAME: &'static str = "deployments";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let runtime = daemon::runtime()?;
        match self.what {
            None => runtime.block_on(self.list.run(context))?,
            Some(Command::List(list)) => runtime.block_on(list.run(context))?,
            Some(Command::Rollback(rollback)) => runtime.block_on(rollback.run(context))?,
        }
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, context: &Context) -> anyhow::Result<()> {
        let daemon = self.target.client(&self.shown.config(context)?)?;
        let found: Value = daemon.get(PATH).await?;
        self.shown.print(&found, || print(&found))
    }
}

impl Rollback {
    async fn run(self, context: &Context) -> anyhow::Result<()> {
        let daemon = self.target.client(&self.shown.config(context)?)?;
        let found: Value = daemon.get(PATH).await?;
        let follows = &found["deployments"][0]["generation"];
        let path = format!("{PATH}/{}/restore", self.generation);
        let deployed: Value = daemon.post(&path, &json!({ "follows": follows })).await?;
        self.shown.say(&deployed, words(&deployed))
    }
}

/// The result of a deployment as text.
pub(super) fn words(deployed: &Value) -> String {
    let generation = &deployed["deployment"]["generation"];
    match deployed["isNew"].as_bool() {
        Some(true) => {
            format!("deployed as generation {generation}; the other daemons take it within seconds")
        }
        _ => format!("nothing is different from generation {generation}, which is deployed"),
    }
}

fn print(found: &Value) -> anyhow::Result<()> {
    let deployments = found["deployments"].as_array().map(Vec::as_slice).unwrap_or_default();
    if deployments.is_empty() {
        output::say("nothing was deployed: each daemon runs the files of its project folder");
        return Ok(());
    }
    let now = time::now();
    let mut table = Table::new(&["GENERATION", "DEPLOYED", "BY", "FROM", "FILES", "DAEMONS", "NOTE"]);
    for deployment in deployments {
        let text = |key: &str| plain(deployment[key].as_str().unwrap_or_default()).to_string();
        let at = text("at").parse::<Timestamp>().map(|at| time::ago(at, now)).unwrap_or_default();
        let nodes = deployment["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let nodes: Vec<String> = nodes.iter().map(Value::to_string).collect();
        let (generation, files) = (deployment["generation"].to_string(), deployment["files"].to_string());
        let (by, note) = (text("by"), text("note"));
        table.row([&generation, &at, &by, &text("source"), &files, &nodes.join(" "), &note]);
    }
    table.print()?;
    Ok(())
}
