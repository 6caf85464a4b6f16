//! The table of subcommands. To add one: a file here and a line in [`GROUPS`].

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
mod messages;
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
mod sources;
mod start;
mod state;
mod subscriptions;
mod test;
mod token;
mod triggers;
mod ui;
mod validate;
mod version;

/// Every subcommand, under the headings of `--help`.
pub(crate) const GROUPS: &[(&str, &[Entry])] = &[
    (
        "Begin",
        &[
            Entry::new::<init::Init>(),
            Entry::new::<new::New>(),
            Entry::new::<run::Run>(),
            Entry::new::<serve::Serve>(),
            Entry::new::<ui::Ui>(),
        ],
    ),
    (
        "Write and check",
        &[
            Entry::new::<validate::Validate>(),
            Entry::new::<fix::Fix>(),
            Entry::new::<test::Test>(),
            Entry::new::<plan::Plan>(),
            Entry::new::<schema::Schema>(),
        ],
    ),
    (
        "Automations in the daemon",
        &[
            Entry::new::<list::List>(),
            Entry::new::<start::Start>(),
            Entry::new::<enable::Enable>(),
            Entry::new::<enable::Disable>(),
            Entry::new::<listen::Listen>(),
            Entry::new::<payloads::Payloads>(),
            Entry::new::<pair::Pair>(),
            Entry::new::<addresses::Addresses>(),
            Entry::new::<triggers::Triggers>(),
        ],
    ),
    (
        "Executions and what they share",
        &[
            Entry::new::<executions::Executions>(),
            Entry::new::<events::Events>(),
            Entry::new::<state::State>(),
            Entry::new::<polls::Polls>(),
            Entry::new::<sources::Sources>(),
            Entry::new::<messages::Messages>(),
            Entry::new::<subscriptions::Subscriptions>(),
        ],
    ),
    (
        "Connect to other systems",
        &[
            Entry::new::<connectors::Connectors>(),
            Entry::new::<import::Import>(),
            Entry::new::<connections::Connections>(),
            Entry::new::<secrets::Secrets>(),
        ],
    ),
    (
        "Operate",
        &[
            Entry::new::<doctor::Doctor>(),
            Entry::new::<token::Token>(),
            Entry::new::<audit::Audit>(),
            Entry::new::<backup::Backup>(),
            Entry::new::<restore::Restore>(),
            Entry::new::<migrate::Migrate>(),
        ],
    ),
    (
        "Several daemons on one store",
        &[Entry::new::<push::Push>(), Entry::new::<deployments::Deployments>(), Entry::new::<nodes::Nodes>()],
    ),
    ("This program", &[Entry::new::<completions::Completions>(), Entry::new::<version::Version>()]),
];

/// All subcommands.
pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    GROUPS.iter().flat_map(|(_, entries)| *entries)
}

/// A subcommand: its arguments and its action.
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
