//! The daemon under measurement: the real binary over a project, and what tells how it does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use store::{SqliteStore, Store as _};

use crate::Error;
use crate::driver::{Connection, request};
use crate::process::{Process, Processors};
use crate::project::Project;

/// How long a daemon may take to end the executions that it accepted.
const DRAIN: Duration = Duration::from_secs(60);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(2);

/// A running daemon.
pub(crate) struct Daemon {
    process: Process,
    hooks: SocketAddr,
    store: SqliteStore,
    /// From starting the program to its first answer that it is ready.
    pub(crate) came_up_in: Duration,
}

impl Daemon {
    /// Starts one over the project and waits until it is ready.
    pub(crate) async fn start(processors: Processors, project: &Project) -> Result<Self, Error> {
        let file = project.data().join("daemon.json");
        let program = program()?;
        let mut command = Command::new(&program);
        // Settings of whoever measures are not the daemon's.
        command.env_clear();
        command.arg("serve").arg("--dir").arg(project.path());
        command.args(["--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let started = Instant::now();
        let mut process = processors.start(&mut command)?;
        let id = process.id();
        let hooks = process.wait_for(&file, |text| address(text, id)).await?;
        // It listens already: the answer comes once it serves.
        let mut connection = Connection::open(hooks).await?;
        let ready = request("GET", "/readyz", b"");
        while connection.ask(&ready).await?.status != 200 {
            tokio::task::yield_now().await;
        }
        let came_up_in = started.elapsed();
        let store = SqliteStore::open_read_only(project.data())?;
        Ok(Self { process, hooks, store, came_up_in })
    }

    /// Where requests on webhooks arrive.
    pub(crate) fn hooks(&self) -> SocketAddr {
        self.hooks
    }

    /// The path of an automation's webhook.
    pub(crate) async fn path(&self, automation: &str) -> Result<String, Error> {
        let addresses = self.store.addresses().await?;
        let found = addresses.iter().find(|address| address.automation.as_str() == automation);
        let found = found.ok_or_else(|| Error::Server(format!("`{automation}` has no address")))?;
        Ok(format!("/trigger/{}", found.live))
    }

    /// Comes back once every execution that was accepted has come to its end, and that is on disk.
    pub(crate) async fn drained(&self) -> Result<(), Error> {
        let until = Instant::now() + DRAIN;
        while self.store.unfinished_count().await? > 0 {
            if Instant::now() > until {
                return Err(Error::Server(format!("executions were left after {} s", DRAIN.as_secs())));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Its process.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        self.store.close().await?;
        self.process.stop().await
    }
}

/// The address of the hook listener from `daemon.json`, if it is this process that wrote it.
fn address(text: &str, id: u32) -> Option<SocketAddr> {
    let daemon: serde_json::Value = serde_json::from_str(text).ok()?;
    if daemon["pid"].as_u64() != Some(u64::from(id)) {
        return None;
    }
    daemon["hooks"].as_str()?.parse().ok()
}

/// The daemon's program, which is built together with this one.
fn program() -> Result<PathBuf, Error> {
    let own = std::env::current_exe().map_err(Error::io("this program"))?;
    let program = own.with_file_name(format!("cogwork{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    let command = "cargo build --release -p cli --bin cogwork";
    Err(Error::Server(format!("there is no `{}`; build it with `{command}`", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_of_another_process_is_not_this_ones() {
        let text = r#"{"pid":7,"admin":"127.0.0.1:2","hooks":"127.0.0.1:1"}"#;
        assert_eq!(address(text, 7), "127.0.0.1:1".parse().ok());
        assert_eq!(address(text, 8), None);
        assert_eq!(address("{\"pid\":7", 7), None);
    }
}
