//! `cogwork restore`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, count};
use crate::settings::Config;
use crate::time;

const EXAMPLES: &str = "\
Examples:
  cogwork restore /var/backups/cogwork-monday
  cogwork restore /var/backups/cogwork-monday --replace
  cogwork restore /var/backups/cogwork-monday --data-dir ../drill     try a backup elsewhere

Stop the daemon before. The backup is checked as a whole, with every large value, before
anything changes; a crash leaves the earlier store or the restored one. `--replace` keeps
the earlier store in a folder `replaced-…` of the data folder, until you delete it.

A backup of an earlier release is migrated; one of a later release is refused. The
backup has no `master.key`: put the key of the restored store into the data folder.";

/// Restore a backup
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// The folder that `cogwork backup` made
    from: PathBuf,
    /// Replace the store that is there; it is kept in a folder beside the restored one
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Restore {
    const NAME: &'static str = "restore";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let to = config.store_location();
        let restored = match engine::stores::restore(&self.from, &to, self.replace, time::now()) {
            Ok(restored) => restored,
            Err(error @ store::Error::Locked { .. }) => {
                return Err(anyhow::Error::from(error).context("nothing was restored: the store is in use"));
            }
            Err(error @ store::Error::Occupied { .. }) => {
                return Err(CommandError::usage(format!(
                    "{error}; give --replace to replace it (it is kept), or --data-dir to restore elsewhere"
                )));
            }
            Err(error) => {
                // A damaged backup does not mean that the active store is damaged.
                output::error(format_args!("nothing was restored: {error}"));
                return Ok(Exit::Failed);
            }
        };
        let key_is_missing = key_is_missing(&config);
        if self.shown.json {
            output::json(&json!({
                "store": to.to_string(),
                "executions": restored.executions,
                "blobs": restored.blobs,
                "bytes": restored.bytes,
                "replaced": restored.replaced,
            }))?;
        } else {
            output::say(format_args!(
                "restored {} and {} ({} bytes) to `{to}`",
                count(usize::try_from(restored.executions).unwrap_or(usize::MAX), "execution"),
                count(usize::try_from(restored.blobs).unwrap_or(usize::MAX), "large value"),
                restored.bytes,
            ));
            if let Some(replaced) = &restored.replaced {
                output::say(format_args!("the earlier store is in `{}`", replaced.display()));
            }
        }
        if key_is_missing {
            output::warn(format_args!(
                "there is no `{}`: without the key of the restored store its secrets cannot be decrypted; put the key there, \
                 or set the secrets again",
                config.keys().file.display()
            ));
        }
        Ok(Exit::Done)
    }
}

/// True if nothing provides the key of the stored secrets.
fn key_is_missing(config: &Config) -> bool {
    let keys = config.keys();
    keys.given.is_none() && !keys.file.exists()
}
