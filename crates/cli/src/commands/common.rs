//! Shared helpers of the subcommands that print a response of the daemon.

use clap::Args;
use serde::Serialize;

use crate::context::{Context, LogProfile};
use crate::output;
use crate::settings::{Config, Flags, PLACE};

/// The output format, and the location of the project.
#[derive(Args, Debug)]
pub(super) struct DaemonOptions {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) settings: Flags<PLACE>,
}

impl DaemonOptions {
    /// The settings of the project.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn config(&self, context: &Context) -> anyhow::Result<Config> {
        context.config(self.settings.given(), LogProfile::Tool)
    }

    /// Prints a result: JSON for programs, or text for people.
    ///
    /// # Errors
    /// It cannot be printed.
    pub(super) fn print(
        &self,
        told: &impl Serialize,
        in_words: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.json { output::json(told) } else { in_words() }
    }

    /// Prints a result whose text is one message on stderr instead of data.
    ///
    /// # Errors
    /// It cannot be printed.
    pub(super) fn say(&self, told: &impl Serialize, words: impl std::fmt::Display) -> anyhow::Result<()> {
        self.print(told, || {
            output::say(words);
            Ok(())
        })
    }
}
