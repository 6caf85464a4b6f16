//! `cogwork triggers`

use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;
use clap::{Args, Subcommand as Choice};
use clap_complete::engine::ArgValueCandidates;
use model::automation::{AutomationId, TriggerId, TriggerKey};
use serde_json::{Value, json};

use super::Subcommand;
use super::common::DaemonOptions;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::count;
use crate::{candidates, daemon};

const EXAMPLES: &str = "\
Examples:
  cogwork triggers move sync-orders changed paid
  cogwork triggers move sync-orders main nightly

It needs the daemon. Run it before the file has the new id.";

/// Manage the triggers of an automation
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Triggers {
    #[command(subcommand)]
    what: Command,
}

#[derive(Choice, Debug)]
enum Command {
    /// Move the addresses, positions, subscriptions and saved payloads of a trigger to another id
    ///
    /// Run it before the file has the new id: the trigger goes on with them under its old id until then. Nothing may be stored under
    /// the new id.
    #[command(after_help = "Examples:\n  cogwork triggers move sync-orders changed paid")]
    Move(Move),
}

#[derive(Args, Debug)]
struct Move {
    /// The automation's id
    #[arg(add = ArgValueCandidates::new(candidates::automations))]
    automation: String,
    /// The id that the trigger has had; `main` for that of `trigger: …`
    from: String,
    /// The id that it gets
    to: String,
    #[command(flatten)]
    shown: DaemonOptions,
}

impl Subcommand for Triggers {
    const NAME: &'static str = "triggers";

    fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let Command::Move(Move { automation, from, to, shown }) = &self.what;
        let config = shown.config(context)?;
        let path = format!("{}/move-trigger", daemon::path(&["automations", automation]));
        let body = json!({ "from": from, "to": to });
        let mut told: Value = daemon::runtime()?.block_on(daemon::post(&config, &path, &body))?;
        let payloads = move_payloads(&config.dir, automation, from, to)?;
        told["payloads"] = payloads.into();
        let is_stored = told["rows"].as_u64().is_some_and(|rows| rows > 0);
        let stored = is_stored.then(|| "what the daemon stores".to_owned());
        let payloads = (payloads > 0).then(|| count(payloads, "saved payload"));
        let moved: Vec<String> = stored.into_iter().chain(payloads).collect();
        let moved = if moved.is_empty() { "nothing".to_owned() } else { moved.join(" and ") };
        shown.say(&told, format_args!("moved {moved} of `{from}` to `{to}`"))?;
        Ok(Exit::Done)
    }
}

/// Moves the saved payloads of a trigger that lie in the project, and returns their number. None takes the place of another file.
fn move_payloads(project: &Path, automation: &str, from: &str, to: &str) -> anyhow::Result<usize> {
    let key = |trigger: &str| {
        let automation = AutomationId::parse(automation)?;
        Some(TriggerKey::new(automation, TriggerId::parse(trigger)?))
    };
    let (Some(from), Some(to)) = (key(from), key(to)) else { return Ok(0) };
    let folder = |key: &TriggerKey| project.join("payloads").join(key.name());
    let (from, to) = (folder(&from), folder(&to));
    let entries = match fs::read_dir(&from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", from.display())),
    };
    let mut moved = 0;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read `{}`", from.display()))?;
        // Each other trigger has a folder for its payloads, beside the payloads of `main`.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let target = to.join(entry.file_name());
        let failed = || format!("cannot move `{}` to `{}`", entry.path().display(), target.display());
        fs::create_dir_all(&to).with_context(failed)?;
        // Unlike a rename, a link never replaces a file.
        fs::hard_link(entry.path(), &target).with_context(failed)?;
        fs::remove_file(entry.path()).with_context(failed)?;
        moved += 1;
    }
    Ok(moved)
}
