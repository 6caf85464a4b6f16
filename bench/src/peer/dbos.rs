//! DBOS, and the PostgreSQL that it keeps its workflows in.

use std::process::Command;

use super::{Parts, Place, Workload};
use crate::Error;
use crate::database::Database;

/// The program of its service, which `make bench PEERS=dbos` copies beside its packages.
const PROGRAM: &str = "measured.py";

/// Starts PostgreSQL with its default durability, and returns it with the command of a service that runs one workload.
pub(super) fn prepare(place: &Place, workload: Workload) -> Result<(Parts, Command), Error> {
    let database = Database::start(place.processors)?;
    let (kind, count) = workload.arguments();
    let mut command = Command::new(place.installed.join("venv/bin/python"));
    command.current_dir(place.folder.path()).env("HOME", place.folder.path());
    command.arg(place.installed.join(PROGRAM)).arg(kind).arg(count.to_string());
    command.arg(place.address.port().to_string());
    command.arg(format!("postgresql://cogwork@/measured?host={}", database.socket_folder().display()));
    Ok((Parts { database: Some(database), ..Parts::default() }, command))
}
