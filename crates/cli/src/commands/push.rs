//! `cogwork push`

use clap::Args;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use super::deployments::{self, Target};
use super::plan::{self, Planned};
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, count, plain};
use crate::project;
use crate::settings::Config;

const EXAMPLES: &str = "\
Examples:
  cogwork push --note 'retry the invoices'
  cogwork push --dry-run
  COGWORK_ADMIN_TOKEN=… cogwork push --dir flows --to http://10.0.0.4:7071
  cogwork deployments                    what was deployed before

The files of --dir are checked as by `cogwork validate` and become the next generation of the
definitions, which every daemon on the same PostgreSQL database takes within seconds, all
files together or none. Secrets, settings and the data folder are never deployed.";

/// Deploy the project folder to all daemons that share a store on PostgreSQL
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Push {
    /// A description of the deployment
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Show what would change, and deploy nothing
    #[arg(long)]
    dry_run: bool,
    /// The generation to replace, if it has changes that were made in the web UI or over the API
    #[arg(long, value_name = "N")]
    over: Option<u64>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Push {
    const NAME: &'static str = "push";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        project::require(&config.dir)?;
        let checked = authoring::check_project(&config.dir, &[])?;
        if checked.errors() > 0 {
            output::reports(&checked.reports);
            output::say(format_args!("{}; nothing was deployed", count(checked.errors(), "error")));
            return Ok(Exit::Failed);
        }
        crate::daemon::runtime()?.block_on(self.push(&config))
    }
}

impl Push {
    async fn push(&self, config: &Config) -> anyhow::Result<Exit> {
        let daemon = self.target.client(config)?;
        let found: Value = daemon.get(deployments::PATH).await?;
        let newest = &found["deployments"][0];
        let files = engine::deployable_files(&config.dir);
        let planned: Planned = daemon.post("/api/v1/plan", &json!({ "files": files })).await?;
        if !self.shown.json {
            plan::print_changes(&planned)?;
        }
        if self.dry_run {
            self.shown.say(&planned, "nothing was deployed, as --dry-run says")?;
            return Ok(Exit::Done);
        }
        let generation = newest["generation"].as_u64().unwrap_or_default();
        let is_edit = newest["source"] == "edit" && planned.has_changes();
        if is_edit && self.over != Some(generation) {
            let text = |key: &str| plain(newest[key].as_str().unwrap_or_default()).to_string();
            output::error(format_args!(
                "generation {generation} was made outside of this folder: {}, by {}; take over what is to stay, as \
                 listed above, and push with `--over {generation}`",
                text("note"),
                text("by"),
            ));
            return Ok(Exit::Failed);
        }
        let follows = self.over.unwrap_or(generation);
        let body = json!({ "files": files, "note": self.note, "follows": follows });
        let deployed: Value = daemon.post(deployments::PATH, &body).await?;
        self.shown.say(&deployed, deployments::words(&deployed))?;
        Ok(Exit::Done)
    }
}
