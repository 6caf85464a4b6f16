//! `cogwork executions export`

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCandidates;
use server::ExportFormat;

use crate::exit::Exit;
use crate::output;
use crate::settings::{Config, Flags, PLACE};
use crate::{candidates, history};

/// Write one execution as a file to hand in with a ticket
///
/// The page has no script: verdict, timeline, steps, values, log lines and source. Secrets and credentials are masked.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  cogwork executions export latest --output failure.html\n  cogwork executions export 019a2b3c --format json | jq .logs"
)]
pub(super) struct Export {
    /// The execution's id, a beginning of it that no other has, or `latest`
    #[arg(add = ArgValueCandidates::new(candidates::executions))]
    id: String,
    /// `html` cuts values at 4 KiB, `json` has them whole
    #[arg(long, value_enum, default_value_t)]
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
        let store = history::require(config)?;
        let row = history::find(&*store, &self.id).await?;
        let id = row.id;
        let events =
            store.events(id).await?.with_context(|| format!("execution `{id}` was cleared away just now"))?;
        let automation = history::definition(&*store, row.definition).await?;
        let logs = server::export_lines(&*store, id).await?;
        let format = match self.format {
            Format::Html => ExportFormat::Html,
            Format::Json => ExportFormat::Json,
        };
        let text =
            server::export(row, events, logs, automation.as_ref(), format).context("the store is damaged")?;
        match &self.output {
            None => output::data(text)?,
            Some(path) => {
                std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
                output::say(format_args!("written to {}", path.display()));
            }
        }
        Ok(Exit::Done)
    }
}
