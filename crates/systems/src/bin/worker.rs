//! The worker that the tests start: what the hidden subcommand of the product does.

use std::process::ExitCode;

fn main() -> ExitCode {
    script::work(systems::TASKS)
}
