//! DBOS, and the PostgreSQL that it keeps its workflows in.

use std::process::Command;

use super::{Place, Workload};
use crate::Error;
use crate::process::Process;

/// The program of its service, which `make bench PEERS=dbos` copies beside its packages.
const PROGRAM: &str = "measured.py";
/// The user that PostgreSQL runs as if this process is of root, whom it refuses.
const USER: &str = "postgres";

/// Starts PostgreSQL with its default durability, and returns it with the command of a service that runs one workload.
pub(super) async fn prepare(place: &Place, workload: Workload) -> Result<(Vec<Process>, Command), Error> {
    let database = postgres(place).await?;
    let (kind, count) = workload.arguments();
    let mut command = Command::new(place.installed.join("venv/bin/python"));
    command.current_dir(place.folder.path()).env("HOME", place.folder.path());
    command.arg(place.installed.join(PROGRAM)).arg(kind).arg(count.to_string());
    command.arg(place.address.port().to_string());
    command.arg(format!("postgresql://{USER}@{}/measured", place.inner[0]));
    Ok((vec![database], command))
}

async fn postgres(place: &Place) -> Result<Process, Error> {
    let programs = programs()?;
    let data = place.folder.path().join("postgres");
    // Its own user has to reach its folder, and owns it.
    place.run(Command::new("chmod").arg("755").arg(place.folder.path())).await?;
    place.run(Command::new("mkdir").arg(&data)).await?;
    if is_root() {
        place.run(Command::new("chown").arg(USER).arg(&data)).await?;
    }
    let files = data.join("data");
    place.run(as_user(&programs.join("initdb")).args(["-A", "trust", "-U", USER, "-D"]).arg(&files)).await?;
    let port = place.inner[0].port().to_string();
    let mut command = as_user(&programs.join("postgres"));
    command.arg("-D").arg(&files).args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-k"]).arg(&data);
    place.start(&mut command)
}

/// A command that runs as a user other than root.
fn as_user(program: &std::path::Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The folder of the newest PostgreSQL that Debian's package has installed.
fn programs() -> Result<std::path::PathBuf, Error> {
    let folder = std::path::Path::new("/usr/lib/postgresql");
    let versions = std::fs::read_dir(folder).map_err(Error::io(folder.display()))?;
    let newest = versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).max();
    let newest = newest.ok_or_else(|| {
        Error::Server("there is no PostgreSQL; install the package `postgresql`".to_owned())
    })?;
    Ok(folder.join(newest.to_string()).join("bin"))
}
