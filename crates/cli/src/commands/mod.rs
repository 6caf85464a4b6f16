//! The table of subcommands. A new one is a file here and a line in [`COMMANDS`].

use clap::{ArgMatches, Command};

use crate::context::Context;
use crate::exit::Exit;

mod addresses;
mod audit;
mod backup;
mod common;
mod completions;
mod connections;
mod connectors;
mod deployments;
mod doctor;
mod enable;
mod events;
mod executions;
mod fix;
mod import;
mod init;
mod list;
mod listen;
mod migrate;
mod new;
mod nodes;
mod pair;
mod payloads;
mod plan;
mod polls;
mod push;
mod restore;
mod run;
mod schema;
mod secrets;
mod serve;
mod start;
mod state;
mod subscriptions;
mod test;
mod token;
mod ui;
mod validate;
mod version;

/// Every subcommand, in the order in which `--help` lists them.
pub(crate) const COMMANDS: &[Entry] = &[
    Entry::new::<init::Init>(),
    Entry::new::<new::New>(),
    Entry::new::<validate::Validate>(),
    Entry::new::<fix::Fix>(),
    Entry::new::<run::Run>(),
    Entry::new::<test::Test>(),
    Entry::new::<serve::Serve>(),
    Entry::new::<ui::Ui>(),
    Entry::new::<start::Start>(),
    Entry::new::<list::List>(),
    Entry::new::<enable::Enable>(),
    Entry::new::<enable::Disable>(),
    Entry::new::<listen::Listen>(),
    Entry::new::<payloads::Payloads>(),
    Entry::new::<addresses::Addresses>(),
    Entry::new::<plan::Plan>(),
    Entry::new::<pair::Pair>(),
    Entry::new::<executions::Executions>(),
    Entry::new::<events::Events>(),
    Entry::new::<polls::Polls>(),
    Entry::new::<subscriptions::Subscriptions>(),
    Entry::new::<push::Push>(),
    Entry::new::<deployments::Deployments>(),
    Entry::new::<nodes::Nodes>(),
    Entry::new::<state::State>(),
    Entry::new::<doctor::Doctor>(),
    Entry::new::<backup::Backup>(),
    Entry::new::<restore::Restore>(),
    Entry::new::<migrate::Migrate>(),
    Entry::new::<connections::Connections>(),
    Entry::new::<secrets::Secrets>(),
    Entry::new::<token::Token>(),
    Entry::new::<audit::Audit>(),
    Entry::new::<connectors::Connectors>(),
    Entry::new::<import::Import>(),
    Entry::new::<schema::Schema>(),
    Entry::new::<completions::Completions>(),
    Entry::new::<version::Version>(),
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
    const fn new<T: Subcommand>() -> Self {
        Self {
            name: T::NAME,
            define: || T::augment_args(Command::new(T::NAME)),
            run: |matches, context| T::from_arg_matches(matches)?.run(context),
        }
    }
}
