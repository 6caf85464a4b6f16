//! `cogwork pair`

use std::time::Duration;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use jiff::Timestamp;
use model::AutomationId;
use serde::Deserialize;
use serde_json::json;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, plain};
use crate::settings::Config;
use crate::{candidates, daemon, time};

const EXAMPLES: &str = "\
Examples:
  cogwork pair task-changes

Start it, then register the automation's address with the sender.";

/// The interval between polls for the secret.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Wait for the signing secret that a webhook's sender chooses
///
/// Some senders (`challenge: asana`) send their signing secret when you register the address. The command trusts the
/// first one that arrives within ten minutes, and stores its secret encrypted under the name that `verify` reads. At
/// other times, and once a secret is stored, no sender is trusted.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pair {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    id: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// The deadline of a pairing, in the API's form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pairing {
    #[serde(default)]
    open_until: Option<Timestamp>,
}

impl Subcommand for Pair {
    const NAME: &'static str = "pair";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        daemon::runtime()?.block_on(pair(&config, &self.id, &self.shown))
    }
}

async fn pair(config: &Config, id: &str, shown: &DaemonOptions) -> anyhow::Result<Exit> {
    let id = AutomationId::parse(id)
        .ok_or_else(|| CommandError::usage(format!("`{}` is no automation's id", plain(id))))?;
    let path = format!("/api/v1/automations/{id}/pair");
    let opened: Pairing = daemon::post(config, &path, &json!({})).await?;
    let Some(until) = opened.open_until else { return Ok(Exit::Done) };
    output::say(format_args!("waiting for the sender until {}", time::in_zone(until, "UTC")));
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let pairing: Option<Pairing> = daemon::get(config, &path).await?;
        match pairing {
            Some(Pairing { open_until: Some(_) }) => {}
            Some(Pairing { open_until: None }) if time::now() < until => {
                shown.say(&json!({ "paired": true }), "paired: the sender's secret is kept")?;
                return Ok(Exit::Done);
            }
            Some(_) => anyhow::bail!("no sender came in time; run it again"),
            None => anyhow::bail!("the daemon has stopped"),
        }
    }
}
