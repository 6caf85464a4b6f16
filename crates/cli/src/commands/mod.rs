//! The table of subcommands. A new one is a file here and a line in [`COMMANDS`].

use clap::{ArgMatches, Command};

use crate::context::Context;
use crate::exit::Exit;

mod backup;
mod common;
mod completions;
mod connections;
mod connectors;
mod events;
mod executions;
mod import;
mod init;
mod list;
mod listen;
mod new;
mod pair;
mod plan;
mod polls;
mod run;
mod schema;
mod secrets;
mod serve;
mod start;
mod state;
mod subscriptions;
mod test;
mod validate;
mod version;

/// Every subcommand, in the order in which `--help` lists them.
pub(crate) const COMMANDS: &[Entry] = &[
    Entry::of::<init::Init>(),
    Entry::of::<new::New>(),
    Entry::of::<validate::Validate>(),
    Entry::of::<run::Run>(),
    Entry::of::<test::Test>(),
    Entry::of::<serve::Serve>(),
    Entry::of::<start::Start>(),
    Entry::of::<list::List>(),
    Entry::of::<listen::Listen>(),
    Entry::of::<plan::Plan>(),
    Entry::of::<pair::Pair>(),
    Entry::of::<executions::Executions>(),
    Entry::of::<events::Events>(),
    Entry::of::<polls::Polls>(),
    Entry::of::<subscriptions::Subscriptions>(),
    Entry::of::<state::State>(),
    Entry::of::<backup::Backup>(),
    Entry::of::<connections::Connections>(),
    Entry::of::<secrets::Secrets>(),
    Entry::of::<connectors::Connectors>(),
    Entry::of::<import::Import>(),
    Entry::of::<schema::Schema>(),
    Entry::of::<completions::Completions>(),
    Entry::of::<version::Version>(),
];

/// A subcommand: its arguments, and what it does.
pub(crate) trait Subcommand: clap::Args {
    /// The name of the subcommand.
    const NAME: &'static str;

    /// Runs it.
    ///
    /// # Errors
    /// The errors of the subcommand.
    fn run(self, context: &Context) -> anyhow::Result<Exit>;
}

/// A row of the table.
pub(crate) struct Entry {
    pub name: &'static str,
    pub(crate) define: fn() -> Command,
    pub(crate) run: fn(&ArgMatches, &Context) -> anyhow::Result<Exit>,
}

impl Entry {
    const fn of<T: Subcommand>() -> Self {
        Self {
            name: T::NAME,
            define: || T::augment_args(Command::new(T::NAME)),
            run: |matches, context| T::from_arg_matches(matches)?.run(context),
        }
    }
}
