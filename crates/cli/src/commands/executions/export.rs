//! `cogwork executions export`

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use engine::transfer::{Exported, export_executions};
use model::{AutomationId, Status};
use server::ExportFormat;
use store::ExecutionFilter;

use crate::exit::{CommandError, Exit};
use crate::output::{self, count};
use crate::settings::{Config, Flags, PLACE};
use crate::{candidates, history, time};

const EXAMPLES: &str = "\
Examples:
  cogwork executions export latest --output failure.html
  cogwork executions export 019a2b3c --format json | jq .logs
  cogwork executions export --all --output executions.jsonl
  cogwork executions export --automation order-desk --since 30d | zstd > orders.jsonl.zst

One execution is a page without a script: verdict, timeline, steps, values, log lines and
source. Several are JSON lines, with their definitions and files, which `cogwork
executions import` reads; `jq -c 'select(.execution)'` leaves the executions alone.";

/// Write one execution as a page for a ticket, or many as JSON lines
///
/// Secrets and credentials are masked; files are not.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Export {
    /// The execution's id, a beginning of it that no other has, or `latest`
    #[arg(add = ArgValueCandidates::new(candidates::executions))]
    id: Option<String>,
    /// All executions, as JSON lines
    #[arg(long, conflicts_with_all = ["id", "automation", "status", "since", "until"])]
    all: bool,
    /// All executions of this automation, as JSON lines
    #[arg(long, value_name = "ID", conflicts_with = "id", add = ArgValueCandidates::new(candidates::automations))]
    automation: Option<String>,
    /// All executions in one of these states: queued, running, waiting, succeeded, failed, cancelled, stuck
    #[arg(long, value_delimiter = ',', conflicts_with = "id")]
    status: Vec<Status>,
    /// All executions since a time: a duration such as `2h` or `7d`, a day, or an instant
    #[arg(long, value_name = "MOMENT", conflicts_with = "id")]
    since: Option<String>,
    /// All executions before a time
    #[arg(long, value_name = "MOMENT", conflicts_with = "id")]
    until: Option<String>,
    /// The form of one execution: `html` cuts values at 4 KiB, `json` has them whole
    #[arg(long, value_enum, default_value_t, requires = "id")]
    format: Format,
    /// The file to write; standard output without it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) settings: Flags<PLACE>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    #[default]
    Html,
    Json,
}

impl Export {
    pub(super) async fn run(&self, config: &Config) -> anyhow::Result<Exit> {
        match (&self.id, self.filter()?) {
            (Some(id), _) => self.one(config, id).await,
            (None, Some(filter)) => self.many(config, &filter).await,
            (None, None) => Err(CommandError::usage(
                "say which executions: an id, --all, or --automation, --status, --since or --until",
            )),
        }
    }

    /// The filter of many executions; `None` if no option names some.
    fn filter(&self) -> anyhow::Result<Option<ExecutionFilter>> {
        let moment = |text: &Option<String>| {
            let moment = text.as_deref().map(|text| time::moment(text, time::now()));
            moment.transpose().map_err(CommandError::usage)
        };
        let automation = self.automation.as_deref().map(|name| {
            AutomationId::parse(name)
                .ok_or_else(|| CommandError::usage(format!("`{name}` cannot be the id of an automation")))
        });
        let is_set = self.all
            || self.automation.is_some()
            || !self.status.is_empty()
            || self.since.is_some()
            || self.until.is_some();
        let filter = ExecutionFilter {
            automation: automation.transpose()?,
            status: self.status.clone(),
            since: moment(&self.since)?,
            until: moment(&self.until)?,
            ..ExecutionFilter::default()
        };
        Ok(is_set.then_some(filter))
    }

    async fn one(&self, config: &Config, id: &str) -> anyhow::Result<Exit> {
        let store = history::require(config)?;
        let row = history::find(&*store, id).await?;
        let id = row.id;
        let (events, cuts) = history::events(&store, id).await?;
        let automation = history::definition(&*store, row.definition).await?;
        let logs = server::export_lines(&*store, id).await?;
        let format = match self.format {
            Format::Html => ExportFormat::Html,
            Format::Json => ExportFormat::Json,
        };
        let write = move |out: &mut dyn Write| {
            server::export(row, events, &cuts, logs, automation.as_ref(), format, out)
        };
        match &self.output {
            None => output::written(write).await?,
            Some(path) => {
                let file = path.clone();
                let written = tokio::task::spawn_blocking(move || {
                    let mut out = BufWriter::new(File::create(file)?);
                    write(&mut out)?;
                    out.flush()
                });
                written.await?.with_context(|| format!("cannot write `{}`", path.display()))?;
                output::say(format_args!("written to {}", path.display()));
            }
        }
        Ok(Exit::Done)
    }

    async fn many(&self, config: &Config, filter: &ExecutionFilter) -> anyhow::Result<Exit> {
        let store = history::require(config)?;
        let release = env!("CARGO_PKG_VERSION");
        let exported = match &self.output {
            None => {
                let out = BufWriter::new(io::stdout());
                export_executions(&*store, filter, release, time::now(), out).await?
            }
            Some(path) => {
                let partial = partial(path);
                let write = || format!("cannot write `{}`", path.display());
                let file = create(&partial).with_context(write)?;
                let exported = export_executions(
                    &*store,
                    filter,
                    release,
                    time::now(),
                    BufWriter::new(file.try_clone()?),
                )
                .await;
                if exported.is_err() {
                    // It is incomplete; if it cannot be removed, its name shows that.
                    let _ = std::fs::remove_file(&partial);
                }
                let exported = exported.with_context(write)?;
                file.sync_all().and_then(|()| std::fs::rename(&partial, path)).with_context(write)?;
                exported
            }
        };
        print_summary(&exported);
        Ok(Exit::Done)
    }
}

fn print_summary(exported: &Exported) {
    let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let unfinished = match exported.unfinished {
        0 => String::new(),
        some => format!("; {some} of them had not ended, and an import cancels those"),
    };
    output::say(format_args!("exported {}{unfinished}", count(number(exported.executions), "execution")));
}

/// The name of an incomplete file.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Creates a file that only its owner can read, since payloads and results may be confidential.
fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
