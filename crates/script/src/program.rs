//! The worker program: this executable, started again with the hidden subcommand.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The hidden subcommand that runs a worker.
pub const WORKER: &str = "code-worker";

static PROGRAM: OnceLock<(PathBuf, Vec<String>)> = OnceLock::new();

/// Sets the worker program and its arguments; the default is this program with the argument [`WORKER`]. Call it before a worker is
/// started.
pub fn set_worker_program(program: PathBuf, arguments: Vec<String>) {
    let _ = PROGRAM.set((program, arguments));
}

/// The worker program and its arguments.
#[must_use]
pub fn worker_program() -> (PathBuf, Vec<String>) {
    PROGRAM.get().cloned().unwrap_or_else(|| {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("cogwork"));
        (program, vec![WORKER.to_owned()])
    })
}

/// The command that starts a worker, without its descriptors 0 and 1.
pub(crate) fn command(program: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(program);
    // The worker cannot read time zone files: it uses UTC everywhere.
    command.args(arguments).env_clear().env("TZ", "UTC0").current_dir("/").stderr(Stdio::null());
    command
}
