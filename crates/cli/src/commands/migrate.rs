//! `cogwork migrate`

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use engine::stores::{self, Location};
use serde_json::json;
use store::migration::{Migrated, Progress};
use value::Secret;

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::{CommandError, Exit};
use crate::output::{self, Table};
use crate::settings::Config;
use crate::{daemon, failpoint, time};

const EXAMPLES: &str = "\
Examples:
  cogwork migrate --to postgres://cogwork:PASSWORD@db.example.com/cogwork
  cogwork migrate --store postgres://cogwork@db.example.com/cogwork --to ./data
  cogwork migrate --to \"$COGWORK_NEW_STORE\" --json
  cogwork migrate --undo                          let daemons start on a store that was moved

Stop all daemons before. Everything in the store is moved: executions with their events,
logs, waits and files, definitions, state, secrets, polls, schedules, addresses, and
records of deduplication. Unfinished executions go on at the first daemon that starts on
the new store. The old store is only read, and after both were compared it is marked as
moved, so that no daemon starts on it by mistake.

If the command is interrupted, run it again: it goes on where it stopped. `master.key`
is not in the store: keep the data folder, or take the key along.";

/// The minimum interval between progress messages.
const PAUSE: Duration = Duration::from_secs(2);

/// Move the store to another place: from a file to PostgreSQL, or back
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Migrate {
    /// The new place: `postgres://USER:PASSWORD@HOST/DATABASE`, or the path of a file or a folder; it must be empty
    #[arg(long, value_name = "URL", required_unless_present = "undo", value_parser = secret)]
    to: Option<Secret>,
    /// Remove the mark of a store that was moved: daemons start on it again, without what happened since on the new one
    #[arg(long, conflicts_with = "to")]
    undo: bool,
    #[command(flatten)]
    shown: DaemonOptions,
}

/// A text that is never shown: the address has a password.
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

impl Subcommand for Migrate {
    const NAME: &'static str = "migrate";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let config = self.shown.config(context)?;
        let from = config.store_location();
        let runtime = daemon::runtime()?;
        match &self.to {
            Some(to) => {
                let to = Location::parse(to.expose(), &config.dir)
                    .map_err(|error| CommandError::usage(error.to_string()))?;
                runtime.block_on(self.migrate(&config, &from, &to))
            }
            None => runtime.block_on(self.undo(&from)),
        }
    }
}

impl Migrate {
    async fn migrate(&self, config: &Config, from: &Location, to: &Location) -> anyhow::Result<Exit> {
        let mut shown = Shown::default();
        let mut tell = |progress: Progress| shown.report(&progress);
        let moved = stores::migrate(from, to, time::now(), failpoint::from_env(), &mut tell).await;
        let moved = moved.with_context(|| format!("cannot move `{from}` to `{to}`"))?;
        let is_equal = moved.is_equal();
        if self.shown.json {
            output::json(&described(&moved, from, to))?;
        } else {
            print(&moved)?;
        }
        if !is_equal {
            output::error(format_args!(
                "the stores differ, so `{from}` stays the store: it was changed while it was moved, or `{to}` was; delete what \
                 is at `{to}`, and run the command again"
            ));
            return Ok(Exit::Failed);
        }
        output::say(format_args!(
            "moved `{from}` to `{to}`; set `store` (or COGWORK_STORE) to the new place and start the daemon. `{from}` has \
             everything still, and is marked: no daemon starts on it until `cogwork migrate --undo`"
        ));
        if from.is_shared() {
            output::say(
                "deployed definitions are not moved: `cogwork push` deploys the project to a database, and with a file the \
                 daemon reads the project folder",
            );
        }
        let keys = config.keys();
        if keys.given.is_none() && keys.file.exists() {
            output::say(format_args!(
                "the stored secrets need the key `{}`: keep the data folder, or take the key along",
                keys.file.display()
            ));
        }
        Ok(Exit::Done)
    }

    async fn undo(&self, from: &Location) -> anyhow::Result<Exit> {
        let mut shown = Shown::default();
        let mut tell = |progress: Progress| shown.report(&progress);
        let undone = stores::undo_migration(from, &mut tell).await;
        let undone = undone.with_context(|| format!("cannot change `{from}`"))?;
        if self.shown.json {
            output::json(&json!({"store": from.to_string(), "movedTo": undone}))?;
        }
        match undone {
            Some(to) => output::warn(format_args!(
                "daemons start on `{from}` again; what happened since the move is in `{to}` only: never run daemons on both"
            )),
            None => output::say(format_args!("`{from}` was not moved")),
        }
        Ok(Exit::Done)
    }
}

/// The progress as text, at a limited rate.
#[derive(Default)]
struct Shown {
    last: Option<std::time::Instant>,
}

impl Shown {
    fn report(&mut self, progress: &Progress) {
        match progress {
            Progress::Waiting { host } => output::say(format_args!(
                "a daemon on `{host}` did not sign off; watching for some seconds whether it still runs"
            )),
            Progress::Resumed => output::say("going on with the migration that was interrupted"),
            Progress::Moving(kind, count) => self.now_and_then(format_args!("{kind}: {count} moved")),
            Progress::Comparing(kind, _) => self.now_and_then(format_args!("{kind}: comparing")),
        }
    }

    fn now_and_then(&mut self, text: std::fmt::Arguments<'_>) {
        if self.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            self.last = Some(std::time::Instant::now());
            output::say(text);
        }
    }
}

fn print(moved: &Migrated) -> anyhow::Result<()> {
    let mut table = Table::new(&["KIND", "ROWS", "IN THE NEW PLACE", "HASH", "EQUAL"]);
    for (kind, source, target) in &moved.kinds {
        let hash = source.hash();
        let hash = hash.get(..12).unwrap_or_default();
        let equal = if source == target { "yes" } else { "NO" };
        table.row([kind.as_str(), &source.count.to_string(), &target.count.to_string(), hash, equal]);
    }
    Ok(table.print()?)
}

fn described(moved: &Migrated, from: &Location, to: &Location) -> serde_json::Value {
    let kinds = moved.kinds.iter().map(|(kind, source, target)| {
        json!({
            "kind": kind,
            "rows": {"source": source.count, "target": target.count},
            "hash": {"source": source.hash(), "target": target.hash()},
            "equal": source == target,
        })
    });
    json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "kinds": kinds.collect::<Vec<_>>(),
        "moved": moved.is_equal(),
    })
}
