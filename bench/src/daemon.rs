//! The measured daemon: the real binary over a project, with its measured state.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::stores::Location;
use store::{ExecutionFilter, ExecutionRow, Page, Store};

use crate::Error;
use crate::driver::{Connection, request};
use crate::process::{Process, Processors};
use crate::project::Project;

/// The time limit in which a daemon ends the executions that it accepted.
const DRAIN: Duration = Duration::from_secs(60);
/// The interval between two checks of it.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A running daemon.
pub(crate) struct Daemon {
    process: Process,
    hooks: SocketAddr,
    admin: SocketAddr,
    data: PathBuf,
    store: Arc<dyn Store>,
    /// From starting the program to its first answer that it is ready.
    pub(crate) came_up_in: Duration,
}

impl Daemon {
    /// Starts one over the project and waits until it is ready.
    pub(crate) async fn start(processors: Processors, project: &Project) -> Result<Self, Error> {
        Self::start_with(processors, project, &[]).await
    }

    /// The same with further arguments.
    pub(crate) async fn start_with(
        processors: Processors,
        project: &Project,
        arguments: &[&str],
    ) -> Result<Self, Error> {
        Self::start_on(processors, project, Location::from(project.data()), arguments).await
    }

    /// Starts one that shares a store on PostgreSQL with others.
    pub(crate) async fn join(processors: Processors, project: &Project, url: &str) -> Result<Self, Error> {
        Self::join_with(processors, project, url, &[]).await
    }

    /// The same with further arguments.
    pub(crate) async fn join_with(
        processors: Processors,
        project: &Project,
        url: &str,
        arguments: &[&str],
    ) -> Result<Self, Error> {
        let location = Location::parse(url, project.path())?;
        Self::start_on(processors, project, location, &[&["--store", url], arguments].concat()).await
    }

    /// Starts one with its own store, or one on PostgreSQL, by the command that `wrap` makes of its program.
    pub(crate) async fn start_wrapped(
        processors: Processors,
        project: &Project,
        url: Option<&str>,
        arguments: &[&str],
        wrap: impl FnOnce(&Path) -> Command,
    ) -> Result<Self, Error> {
        let (command, mut arguments) = (wrap(&program()?), arguments.to_vec());
        let location = match url {
            None => Location::from(project.data()),
            Some(url) => {
                arguments.extend(["--store", url]);
                Location::parse(url, project.path())?
            }
        };
        Self::run(processors, project, location, command, &arguments).await
    }

    async fn start_on(
        processors: Processors,
        project: &Project,
        location: Location,
        arguments: &[&str],
    ) -> Result<Self, Error> {
        Self::run(processors, project, location, Command::new(program()?), arguments).await
    }

    async fn run(
        processors: Processors,
        project: &Project,
        location: Location,
        mut command: Command,
        arguments: &[&str],
    ) -> Result<Self, Error> {
        let file = project.data().join("daemon.json");
        // The settings of the benchmark's own environment are not the daemon's.
        command.env_clear();
        command.arg("serve").arg("--dir").arg(project.path());
        command.args(["--hooks", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(arguments);
        let started = Instant::now();
        let mut process = processors.start(&mut command)?;
        let id = process.id();
        let (hooks, admin) = process.wait_for(&file, |text| addresses(text, id)).await?;
        // It listens already: the answer comes once it serves.
        let mut connection = Connection::open(hooks).await?;
        let ready = request("GET", "/readyz", b"");
        while connection.ask(&ready).await?.status != 200 {
            tokio::task::yield_now().await;
        }
        let came_up_in = started.elapsed();
        let store = engine::stores::open_read_only(&location)?;
        Ok(Self { process, hooks, admin, data: project.data(), store, came_up_in })
    }

    /// The address of the webhooks.
    pub(crate) fn hooks(&self) -> SocketAddr {
        self.hooks
    }

    /// The address of its API.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The token of its API.
    pub(crate) fn token(&self) -> Result<String, Error> {
        let file = self.data.join("admin-token");
        let token = std::fs::read_to_string(&file).map_err(Error::io(file.display()))?;
        Ok(token.trim().to_owned())
    }

    /// The path of an automation's webhook.
    pub(crate) async fn path(&self, automation: &str) -> Result<String, Error> {
        let addresses = self.store.addresses().await?;
        let found = addresses.iter().find(|address| address.trigger.name() == automation);
        let found = found.ok_or_else(|| Error::Server(format!("`{automation}` has no address")))?;
        Ok(format!("/trigger/{}", found.live))
    }

    /// The paths of all webhooks.
    pub(crate) async fn paths(&self) -> Result<Vec<String>, Error> {
        let addresses = self.store.addresses().await?;
        Ok(addresses.iter().map(|address| format!("/trigger/{}", address.live)).collect())
    }

    /// Comes back once every execution that was accepted has come to its end, and that is on disk.
    pub(crate) async fn drained(&self) -> Result<(), Error> {
        self.drained_to(0).await
    }

    /// Comes back once at most this many executions have not come to their end.
    pub(crate) async fn drained_to(&self, left: u64) -> Result<(), Error> {
        let until = Instant::now() + DRAIN;
        loop {
            let unfinished = self.store.unfinished_count().await?;
            if unfinished <= left {
                return Ok(());
            }
            if Instant::now() > until {
                let seconds = DRAIN.as_secs();
                return Err(Error::Server(format!(
                    "{unfinished} executions were left after {seconds} s, expected {left}"
                )));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Comes back once it has used no processor time for `time`.
    pub(crate) async fn idle_for(&self, time: Duration) -> Result<(), Error> {
        let until = Instant::now() + DRAIN;
        let mut before = None;
        while Instant::now() < until {
            let now = self.process.processor_time();
            if before == Some(now) {
                return Ok(());
            }
            before = Some(now);
            tokio::time::sleep(time).await;
        }
        Err(Error::Server("the daemon did not come to rest".to_owned()))
    }

    /// The number of suspended executions.
    pub(crate) async fn suspended(&self) -> Result<usize, Error> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.store.list_suspended(after, 1000).await?;
            let Some(last) = page.last() else { return Ok(count) };
            after = Some(last.execution);
            count += page.len();
        }
    }

    /// A page of its executions, the newest first.
    pub(crate) async fn executions(
        &self,
        filter: &ExecutionFilter,
        page: Page,
    ) -> Result<Vec<ExecutionRow>, Error> {
        Ok(self.store.executions(filter, page).await?)
    }

    /// The size of its store on disk, in bytes.
    pub(crate) async fn stored(&self) -> Result<u64, Error> {
        let info = self.store.info().await?;
        Ok(info.bytes + info.blob_bytes)
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

/// The addresses of the hook listener and of the API from `daemon.json`, if it is this process that wrote it.
fn addresses(text: &str, id: u32) -> Option<(SocketAddr, SocketAddr)> {
    let daemon: serde_json::Value = serde_json::from_str(text).ok()?;
    if daemon["pid"].as_u64() != Some(u64::from(id)) {
        return None;
    }
    let address = |name: &str| daemon[name].as_str()?.parse().ok();
    Some((address("hooks")?, address("admin")?))
}

/// The daemon's program, which is built together with this one.
fn program() -> Result<PathBuf, Error> {
    let own = std::env::current_exe().map_err(Error::io("this program"))?;
    let program = own.with_file_name(format!("cogwork{}", std::env::consts::EXE_SUFFIX));
    if program.is_file() {
        return Ok(program);
    }
    let command = "cargo build --profile dist -p cli --bin cogwork";
    Err(Error::Server(format!("there is no `{}`; build it with `{command}`", program.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_file_of_another_process_is_ignored() {
        let text = r#"{"pid":7,"admin":"127.0.0.1:2","hooks":"127.0.0.1:1"}"#;
        let found = addresses(text, 7).map(|found| (found.0.port(), found.1.port()));
        assert_eq!(found, Some((1, 2)));
        assert_eq!(addresses(text, 8), None);
        assert_eq!(addresses("{\"pid\":7", 7), None);
    }
}
