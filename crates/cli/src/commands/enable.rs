//! `cogwork enable` and `cogwork disable`

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::plain;
use crate::{candidates, daemon};

const ENABLE_EXAMPLES: &str = "\
Examples:
  cogwork enable order-intake";

const DISABLE_EXAMPLES: &str = "\
Examples:
  cogwork disable order-intake";

/// Mount the trigger of an automation again
///
/// Sets `enabled: true` in its file, or in one trigger; no other byte of it changes. The daemon must run.
#[derive(Args, Debug)]
#[command(after_help = ENABLE_EXAMPLES)]
pub(crate) struct Enable {
    /// The automation's id, or `ID/TRIGGER` for one of several triggers
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    id: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// Unmount the trigger of an automation
///
/// Sets `enabled: false` in its file, or in one trigger; no other byte of it changes. Executions that run go on. The daemon must
/// run.
#[derive(Args, Debug)]
#[command(after_help = DISABLE_EXAMPLES)]
pub(crate) struct Disable {
    /// The automation's id, or `ID/TRIGGER` for one of several triggers
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    id: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Enable {
    const NAME: &'static str = "enable";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        set(context, &self.shown, &self.id, "enable")
    }
}

impl Subcommand for Disable {
    const NAME: &'static str = "disable";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        set(context, &self.shown, &self.id, "disable")
    }
}

fn set(context: &Context, shown: &DaemonOptions, id: &str, word: &str) -> anyhow::Result<Exit> {
    let config = shown.config(context)?;
    let path = daemon::path(&["automations", id, word]);
    let changed: Value = daemon::runtime()?.block_on(daemon::post(&config, &path, &json!({})))?;
    shown.say(&changed, format_args!("{word}d {}", plain(id)))?;
    Ok(Exit::Done)
}
