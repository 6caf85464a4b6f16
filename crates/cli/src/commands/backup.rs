//! `cogwork backup`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, count};

const EXAMPLES: &str = "\
Examples:
  cogwork backup /var/backups/cogwork-monday
  cogwork backup ../copy --json | jq .executions
  cogwork serve --data-dir ../copy               continue with the copy

The copy is the store as it was at one moment. A daemon may run meanwhile. The copy
does not contain `master.key`, which encrypts the stored secrets: keep it elsewhere,
and put it into the copy before you start a daemon on it.";

/// Copy the store to a new folder
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Backup {
    /// The new folder; it must not exist
    to: PathBuf,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Backup {
    const NAME: &'static str = "backup";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let from = config.store_location();
        let made = engine::stores::back_up(&from, &self.to)
            .with_context(|| format!("cannot back up the store `{}`", from))?;
        match self.shown.json {
            true => output::json(&json!({
                "path": made.path,
                "executions": made.executions,
                "blobs": made.blobs,
                "bytes": made.bytes,
            }))?,
            false => output::say(format_args!(
                "copied {} and {} ({} bytes) to `{}`",
                count(usize::try_from(made.executions).unwrap_or(usize::MAX), "execution"),
                count(usize::try_from(made.blobs).unwrap_or(usize::MAX), "large value"),
                made.bytes,
                made.path.display()
            )),
        }
        Ok(Exit::Done)
    }
}
