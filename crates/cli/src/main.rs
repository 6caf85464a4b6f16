//! The command line of Cogwork, and the only crate that prints.
//!
//! One file per subcommand in `commands/`, one line for it in the table there. Data goes to stdout, messages to stderr.
//!
//! Modules, in reading order:
//!
//! * `app`: the root command
//! * `commands`: the subcommands, one file each
//! * `settings`: the settings; `table.rs` has a row for each
//! * `context`: the project and the settings of a command
//! * `project`: loads the files of a project without a daemon
//! * `paths`: resolves paths of arguments
//! * `scaffold`: writes new files
//! * `daemon`: calls a running daemon
//! * `history`: reads the store beside a daemon
//! * `output`: prints, as the only module
//! * `mask`: hides credentials in URLs
//! * `service`: outside a project, commands use the installed service
//! * `progress`: shows an execution as it runs
//! * `waiting`: waits and delays as text
//! * `time`: times and durations as text
//! * `logging`: the log of the program
//! * `exit`: exit codes
//! * `signals`: system signals
//! * `secrets`: the names of the secrets on this machine
//! * `schemas`: the JSON Schemas of a project, with its own connectors
//! * `data`: JSON arguments
//! * `candidates`: completions for shells
//! * `store_server`: the server of the store, which steps may not reach
//! * `failpoint`: faults that tests inject

mod app;
mod context;
mod exit;
mod logging;
mod mask;
mod output;

mod settings;

mod candidates;
mod daemon;
mod data;
mod failpoint;
mod history;
mod paths;
mod progress;
mod project;
mod secrets;
mod service;
mod signals;
mod store_server;
mod time;
mod waiting;

mod scaffold;
mod schemas;

mod commands;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    allocator::configure();
    if std::env::args_os().nth(1).is_some_and(|first| first == catalog::CODE_WORKER) {
        return catalog::serve_code();
    }
    settings::Environment::take();
    // If a shell requests completions, this answers and ends the process.
    candidates::answer(app::command);
    // Before any HTTP client is created, which would fail without it.
    connector::install_crypto();
    app::run(std::env::args_os()).into()
}
