//! The command line of Cogwork, and the only crate that prints.
//!
//! One file a subcommand in `commands/`, one line for it in the table there. Data goes to stdout, talk to stderr.

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
    if std::env::args_os().nth(1).is_some_and(|first| first == engine::CODE_WORKER) {
        return engine::serve_code();
    }
    settings::Environment::take();
    // Where a shell asks for completions, this answers and ends the process.
    candidates::answer(app::command);
    // Before anything makes a client for calls, which would fail without it.
    connector::install_crypto();
    app::run(std::env::args_os()).into()
}
