//! `cogwork executions import`

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use engine::transfer::{MAX_PART_BYTES, Part, Parts, import_executions};
use server::{ImportedView, RefusedImport};

use crate::commands::common::DaemonOptions;
use crate::daemon;
use crate::exit::Exit;
use crate::output::{self, count};
use crate::settings::Config;
use crate::time;

const EXAMPLES: &str = "\
Examples:
  cogwork executions import executions.jsonl
  zstd -dc orders.jsonl.zst | cogwork executions import -

It reads what `cogwork executions export --all` wrote, at another place or by an earlier
release, and imports through the daemon if one runs. Imported executions are marked as such
and never run; one that had not ended is cancelled. An execution whose id exists is refused.
The rules of retention hold for imported executions too, by their original times.";

/// The context of an error in the middle of a file.
const ENDED_EARLY: &str = "the import ended before the end of the file";
/// The maximum number of rejections that are named.
const NAMED: usize = 20;

/// Import executions from JSON lines
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Import {
    /// The file, or `-` for standard input
    file: PathBuf,
    #[command(flatten)]
    pub(super) shown: DaemonOptions,
}

impl Import {
    pub(super) async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        let input: Box<dyn BufRead> = if self.file.as_os_str() == "-" {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(&self.file);
            Box::new(BufReader::new(file.with_context(|| format!("cannot read `{}`", self.file.display()))?))
        };
        let is_running = daemon::runs(config).await?;
        let imported =
            if is_running { through_daemon(config, input).await? } else { into_store(config, input).await? };
        if self.shown.json {
            output::json(&imported)?;
        } else {
            print_summary(&imported);
        }
        warn_of_retention(config, &imported, is_running);
        Ok(if imported.refused == 0 { Exit::Done } else { Exit::Failed })
    }
}

async fn into_store(config: &Config, input: Box<dyn BufRead>) -> anyhow::Result<ImportedView> {
    let location = config.store_location();
    let store = engine::stores::open(&location, config.store())
        .with_context(|| format!("nothing was imported: cannot open the store `{location}`"))?;
    let imported = import_executions(&store, time::now(), input).await;
    store.close().await?;
    Ok(imported.context(ENDED_EARLY)?.into())
}

/// Sends the file in parts. The executions of a part that was sent stay imported.
async fn through_daemon(config: &Config, input: Box<dyn BufRead>) -> anyhow::Result<ImportedView> {
    let mut parts = Parts::new(input)?;
    let mut all = ImportedView::default();
    while let Some(part) = parts.next_part().context(ENDED_EARLY)? {
        match part {
            Part::Export(lines) => {
                let sent = daemon::post_lines(config, "/api/v1/executions/import", lines).await;
                add(&mut all, sent.context(ENDED_EARLY)?);
            }
            Part::TooLarge(id) => {
                let most = text::units::format_size(MAX_PART_BYTES as u64);
                let reason = format!(
                    "with its files it has more than {most}: stop the daemon, and import the file again"
                );
                let refusals = vec![RefusedImport { id: id.to_string(), reason }];
                add(&mut all, ImportedView { refused: 1, refusals, ..ImportedView::default() });
            }
        }
    }
    Ok(all)
}

/// Adds the result of a part.
fn add(all: &mut ImportedView, part: ImportedView) {
    all.executions += part.executions;
    all.cancelled += part.cancelled;
    all.refused += part.refused;
    all.refusals.extend(part.refusals);
    all.refusals.truncate(NAMED);
    all.earliest_end = all.earliest_end.into_iter().chain(part.earliest_end).min();
}

fn print_summary(imported: &ImportedView) {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let cancelled = match imported.cancelled {
        0 => String::new(),
        some => format!("; {some} of them had not ended and are cancelled"),
    };
    output::say(format_args!("imported {}{cancelled}", count(number(imported.executions), "execution")));
    if imported.refused > 0 {
        output::say(format_args!("refused {}:", count(number(imported.refused), "execution")));
        for RefusedImport { id, reason } in &imported.refusals {
            output::say(format_args!("  {id}  {reason}"));
        }
        if imported.refused > imported.refusals.len() as u64 {
            output::say("  …");
        }
    }
}

/// Warns if the daemon will prune some of them by the configured retention.
fn warn_of_retention(config: &Config, imported: &ImportedView, is_running: bool) {
    let Some(days) = config.retention.days else { return };
    let kept = Duration::from_secs(u64::from(days) * 24 * 3600);
    let old = imported.earliest_end.filter(|end| time::between(*end, time::now()) > kept);
    if let Some(end) = old {
        let way_out = if is_running {
            "set `retention.days` and start it again"
        } else {
            "set `retention.days` before you start it"
        };
        output::warn(format_args!(
            "imported executions are as old as {}, and the daemon deletes those that ended more than {days} days ago; \
             {way_out} to keep them",
            time::local(end)
        ));
    }
}
