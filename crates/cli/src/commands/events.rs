//! `cogwork events`

use clap::{Args, Subcommand as Choice};
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, count};
use crate::settings::Config;
use crate::{daemon, data};

const EXAMPLES: &str = "\
Examples:
  cogwork events emit order-17-paid --data '{\"amount\": 12.5}'
  cogwork events emit nightly-import-done";

/// The sender of the events, for the history.
const BY: &str = "the command line";

/// Send events to the executions that wait for them
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    Emit(Emit),
}

/// Send an event to every execution that waits for its name
///
/// Executions that wait receive it at once. It is kept for 7 days for executions that were accepted before and wait for it
/// later. It needs the daemon.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Emit {
    /// The event's name, as in the `waitFor` steps
    name: String,
    /// The data, which is the result of those steps, as JSON; `@file` reads a file, `-` reads stdin
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Events {
    const NAME: &'static str = "events";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Command::Emit(emit) = &self.what;
        let config = emit.shown.config(context)?;
        daemon::runtime()?.block_on(send(&config, emit))
    }
}

async fn send(config: &Config, emit: &Emit) -> anyhow::Result<Exit> {
    let mut body = json!({ "name": emit.name, "by": BY });
    if let Some(given) = &emit.data {
        body["data"] = data::read(given)?;
    }
    let told: Value = daemon::post(config, "/api/v1/events", &body).await?;
    if emit.shown.json {
        output::json(&told)?;
    } else {
        match told["delivered"].as_u64().unwrap_or_default() {
            0 => {
                let later = match told["kept"].as_bool() {
                    Some(true) => {
                        "it is kept for 7 days for executions that were accepted before and wait for it later"
                    }
                    _ => {
                        "it is not kept: no automation in force waits for such an event, or it is too large, or too many are kept"
                    }
                };
                output::say(format_args!("nobody waits for `{}` now; {later}", output::plain(&emit.name)));
            }
            steps => {
                let steps = usize::try_from(steps).unwrap_or(usize::MAX);
                output::say(format_args!("sent to {}", count(steps, "step")));
            }
        }
    }
    Ok(Exit::Done)
}
