//! `cogwork addresses`

use clap::{Args, Subcommand as Choice};
use clap_complete::engine::ArgValueCandidates;
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, plain};
use crate::settings::Config;
use crate::{candidates, daemon};

const EXAMPLES: &str = "\
Examples:
  cogwork addresses rotate order-intake
  cogwork addresses rotate order-intake --test --yes

`cogwork list --addresses` prints the addresses. It needs the daemon.";

/// Replace an address whose token has become known
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Addresses {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    Rotate(Rotate),
}

/// Give an automation a new live or test address; the previous one leads nowhere from then on
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork addresses rotate order-intake\n  cogwork addresses rotate order-intake --test --yes"
)]
struct Rotate {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    /// Replace the test address; the default is the live address
    #[arg(long)]
    test: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Addresses {
    const NAME: &'static str = "addresses";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Command::Rotate(what) = &self.what;
        let config = what.shown.config(context)?;
        daemon::runtime()?.block_on(what.run(&config))
    }
}

impl Rotate {
    async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        let (address, key) = if self.test { ("test", "testUrl") } else { ("live", "liveUrl") };
        if !self.yes && !self.confirmed(address)? {
            return Ok(Exit::Done);
        }
        let path = format!("{}/rotate-token", daemon::path(&["automations", &self.automation]));
        let told: Value = daemon::post(config, &path, &json!({ "address": address })).await?;
        self.shown.print(&told, || {
            match told[key].as_str() {
                Some(url) => output::data(url)?,
                // The new token is used once the trigger receives requests again.
                None => output::say("rotated; its trigger receives no requests now"),
            }
            Ok(())
        })?;
        Ok(Exit::Done)
    }

    /// Asks for confirmation: senders that have the previous address get 404.
    fn confirmed(&self, address: &str) -> anyhow::Result<bool> {
        if !output::can_ask() {
            return Err(CommandError::usage("add --yes to replace the address"));
        }
        let id = plain(&self.automation);
        let question = format!("replace the {address} address of {id}? senders that use it get 404 [y/N] ");
        let answer = output::ask(&question)?;
        Ok(answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes")))
    }
}
