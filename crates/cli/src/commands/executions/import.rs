//! `cogwork executions import`

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use engine::transfer::{Imported, import_executions};
use serde_json::json;

use crate::exit::Exit;
use crate::output::{self, count};
use crate::settings::{Config, Flags, PLACE};
use crate::time;

const EXAMPLES: &str = "\
Examples:
  cogwork executions import executions.jsonl
  zstd -dc orders.jsonl.zst | cogwork executions import -

It reads what `cogwork executions export --all` wrote, at another place or by an earlier
release. Stop the daemon before. Imported executions are marked as such and never run;
one that had not ended is cancelled. An execution whose id exists is refused. The rules
of retention hold for imported executions too, by their original times.";

/// Import executions from JSON lines
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Import {
    /// The file, or `-` for standard input
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) settings: Flags<PLACE>,
}

impl Import {
    pub(super) async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        let input: Box<dyn BufRead> = if self.file.as_os_str() == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(&self.file);
            Box::new(BufReader::new(file.with_context(|| format!("cannot read `{}`", self.file.display()))?))
        };
        let location = config.store_location();
        let store = store::open(&location, config.store())
            .with_context(|| format!("nothing was imported: cannot open the store `{location}`"))?;
        let imported = import_executions(&store, time::now(), input).await;
        store.close().await?;
        let imported = imported.context("the import ended before the end of the file")?;
        if self.json {
            let refusals = imported.refusals.iter().map(|(id, reason)| json!({"id": id, "reason": reason}));
            output::json(&json!({
                "executions": imported.executions,
                "cancelled": imported.cancelled,
                "refused": imported.refused,
                "refusals": refusals.collect::<Vec<_>>(),
            }))?;
        } else {
            said(&imported);
        }
        warn_of_retention(config, &imported);
        Ok(if imported.refused == 0 { Exit::Done } else { Exit::Failed })
    }
}

fn said(imported: &Imported) {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let cancelled = match imported.cancelled {
        0 => String::new(),
        some => format!("; {some} of them had not ended and are cancelled"),
    };
    output::say(format_args!("imported {}{cancelled}", count(number(imported.executions), "execution")));
    if imported.refused > 0 {
        output::say(format_args!("refused {}:", count(number(imported.refused), "execution")));
        for (id, reason) in &imported.refusals {
            output::say(format_args!("  {id}  {reason}"));
        }
        if imported.refused > imported.refusals.len() as u64 {
            output::say("  …");
        }
    }
}

/// Warns if the daemon will delete some of them by the retention of the settings.
fn warn_of_retention(config: &Config, imported: &Imported) {
    let Some(days) = config.retention.days else { return };
    let kept = Duration::from_secs(u64::from(days) * 24 * 3600);
    let old = imported.earliest_end.filter(|end| time::between(*end, time::now()) > kept);
    if let Some(end) = old {
        output::warn(format_args!(
            "imported executions are as old as {}, and the daemon deletes those that ended more than {days} days ago; \
             set `retention.days` before you start it to keep them",
            time::local(end)
        ));
    }
}
