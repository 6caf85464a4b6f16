//! Other engines, installed beside this program by `make bench PEERS=…`, with what they need to do the same work.

mod dbos;
mod n8n;
mod node_red;
mod restate;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Error;
use crate::database::Database;
use crate::driver::{Connection, request};
use crate::process::{Process, Processors};
use crate::project::{self, body, scratch};

/// The path of a peer's workload.
const PATH: &str = "/webhook/measured";
/// The path of Restate that answers before the work is done.
const ASYNCHRONOUS_PATH: &str = "/webhook/measured/send";
/// The time limits of each part of its start, and of each answer during it.
const PATIENCE: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(30);
/// The number of bytes of its output that are reported if it does not start.
const OUTPUT_BYTES: usize = 2000;
/// The interval between two checks of its start.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Node-RED: one process, whose function nodes run in it, and which keeps nothing.
    NodeRed,
    /// n8n: one process, with another for the code of its nodes, and a SQLite database of its executions.
    N8n,
    /// DBOS: a Python process that records its workflows and their steps in PostgreSQL.
    Dbos,
    /// Restate: a server with a durable log, and a Node.js process whose steps it records.
    Restate,
}

/// The workloads for each peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// A webhook that is answered at once, with one step behind it.
    Asynchronous,
    /// A webhook that is answered after this many trivial steps.
    Steps(usize),
    /// A webhook that is answered after this many steps of code, each of which computes `fib(10)`.
    Fibs(usize),
    /// The same, with another code text in each step.
    DifferentFibs(usize),
}

impl Workload {
    pub(crate) const ALL: [Self; 5] =
        [Self::Asynchronous, Self::Steps(3), Self::Steps(40), Self::Fibs(40), Self::DifferentFibs(40)];

    /// The arguments of the programs of those peers that are programmed: the kind, and the number of steps.
    fn arguments(self) -> (&'static str, usize) {
        match self {
            Self::Asynchronous => ("asynchronous", 1),
            Self::Steps(count) => ("steps", count),
            Self::Fibs(count) | Self::DifferentFibs(count) => ("fibs", count),
        }
    }

    /// True if its steps run no code of an author.
    pub(crate) fn has_no_code(self) -> bool {
        matches!(self, Self::Asynchronous | Self::Steps(_))
    }

    /// The function `fib` in the code of a step.
    fn fib(self, number: usize) -> String {
        match self {
            Self::DifferentFibs(_) => project::different_fib(number),
            _ => project::FIB.to_owned(),
        }
    }

    /// The label of its rows.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Asynchronous => "asynchronous acks".to_owned(),
            Self::Steps(count) => format!("synchronous, {count} steps"),
            Self::Fibs(count) => format!("{count} code steps, `fib(10)` each"),
            Self::DifferentFibs(count) => format!("{count} code steps with different texts, `fib(10)` each"),
        }
    }
}

impl Peer {
    const ALL: [Self; 4] = [Self::NodeRed, Self::N8n, Self::Dbos, Self::Restate];

    /// The one of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Its name, which is that of its package.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeRed => "node-red",
            Self::N8n => "n8n",
            Self::Dbos => "dbos",
            Self::Restate => "restate",
        }
    }

    /// True if it records each step durably, as Cogwork does.
    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Self::Dbos | Self::Restate)
    }

    /// Starts it with one workload, and waits until it is ready. Otherwise the error has the end of its output.
    pub(crate) async fn start(
        self,
        processors: Processors,
        workload: Workload,
    ) -> Result<RunningPeer, Error> {
        let [address, inner @ ..] = free_addresses()?;
        let place = Place { installed: self.installed()?, folder: scratch()?, address, inner, processors };
        let said = |error: Error| Error::Server(format!("{}: {error}{}", self.name(), place.last_output()));
        let (process, parts) = self.come_up(&place, workload).await.map_err(said)?;
        Ok(RunningPeer { process, address, path: self.path(workload), _parts: parts, _folder: place.folder })
    }

    /// Starts its processes. The first that is returned answers the requests.
    async fn come_up(self, place: &Place, workload: Workload) -> Result<(Process, Parts), Error> {
        let (parts, mut command) = match self {
            Self::NodeRed => (Parts::default(), node_red::prepare(place, workload)?),
            Self::N8n => (Parts::default(), n8n::prepare(place, workload).await?),
            Self::Dbos => dbos::prepare(place, workload)?,
            Self::Restate => restate::prepare(place, workload)?,
        };
        let mut process = place.start(&mut command)?;
        if let Self::Restate = self {
            restate::register(place, &mut process).await?;
        }
        if let Some(path) = self.health() {
            let asked = request("GET", path, b"");
            place.wait_for(&mut process, place.address, "says that it is ready", &asked).await?;
        }
        let asked = request("POST", self.path(workload), &body());
        place.wait_for(&mut process, place.address, "does what is measured", &asked).await?;
        Ok((process, parts))
    }

    /// The path of the requests.
    fn path(self, workload: Workload) -> &'static str {
        match (self, workload) {
            (Self::Restate, Workload::Asynchronous) => ASYNCHRONOUS_PATH,
            _ => PATH,
        }
    }

    /// The path of its health check, if it has one. Its webhooks may be ready later.
    fn health(self) -> Option<&'static str> {
        match self {
            Self::NodeRed | Self::Dbos | Self::Restate => None,
            Self::N8n => Some("/healthz/readiness"),
        }
    }

    /// The folder in which `make bench PEERS=…` has installed it.
    fn installed(self) -> Result<PathBuf, Error> {
        let own = std::env::current_exe().map_err(Error::io("this program"))?;
        let target = own.parent().and_then(Path::parent).unwrap_or_else(|| Path::new("."));
        let folder = target.join("peers").join(self.name());
        if ["node_modules", "venv"].iter().any(|packages| folder.join(packages).is_dir()) {
            return Ok(folder);
        }
        let how = format!("make bench PEERS={}", self.name());
        Err(Error::Server(format!("there is no `{}`; install it with `{how}`", folder.display())))
    }
}

/// A peer that does its work.
pub(crate) struct RunningPeer {
    /// The process that answers.
    pub(crate) process: Process,
    /// The address that it answers at.
    pub(crate) address: SocketAddr,
    /// The path of the requests.
    pub(crate) path: &'static str,
    _parts: Parts,
    /// The folder that it works in.
    _folder: TempDir,
}

/// The other processes of a peer, which end when this is dropped.
#[derive(Default)]
#[expect(dead_code, reason = "they are held for as long as the peer runs")]
struct Parts {
    processes: Vec<Process>,
    database: Option<Database>,
}

/// The folder and the addresses of a peer.
struct Place {
    /// The folder that it is installed in.
    installed: PathBuf,
    /// The folder that it works in.
    folder: TempDir,
    /// The address of its requests.
    address: SocketAddr,
    /// The addresses between its own processes, if it has several.
    inner: [SocketAddr; 3],
    processors: Processors,
}

impl Place {
    /// A program of its package, without the settings of the benchmark's own environment.
    fn node(&self, script: &str) -> Command {
        let mut command = Command::new("node");
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("HOME", self.folder.path()).current_dir(self.folder.path());
        command.arg(self.installed.join("node_modules").join(script));
        command
    }

    /// Writes a file into its folder.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).map_err(Error::io(file.display()))?;
        Ok(file)
    }

    fn start(&self, command: &mut Command) -> Result<Process, Error> {
        self.processors.start_logged(command, &self.log())
    }

    /// Runs a program to its end, which must be a good one.
    async fn run(&self, command: &mut Command) -> Result<(), Error> {
        let mut process = self.start(command)?;
        let status = process.ended(PATIENCE).await?;
        if status.success() { Ok(()) } else { Err(Error::Server(status.to_string())) }
    }

    /// Asks until the answer is a good one, or the process has ended, or it took too long.
    async fn wait_for(
        &self,
        process: &mut Process,
        address: SocketAddr,
        what: &str,
        asked: &[u8],
    ) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        let mut last = String::new();
        while Instant::now() < until {
            match tokio::time::timeout(ANSWER, ask(address, asked)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = format!("no answer within {} s", ANSWER.as_secs()),
            }
            if let Some(status) = process.status()? {
                return Err(Error::Server(format!("it ended before it {what}: {status}")));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Err(Error::Server(format!("{} s have gone before it {what}: {last}", PATIENCE.as_secs())))
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("said.log")
    }

    /// The end of its output, on lines of its own; nothing if it is empty.
    fn last_output(&self) -> String {
        let text = std::fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(OUTPUT_BYTES)..]);
        if text.trim().is_empty() { String::new() } else { format!("; it said\n{}", text.trim_end()) }
    }
}

async fn ask(address: SocketAddr, asked: &[u8]) -> Result<(), Error> {
    let mut connection = Connection::open(address).await?;
    let answer = connection.ask(asked).await?;
    let text = String::from_utf8_lossy(answer.body);
    // n8n says with the same status that it does not work yet.
    match answer.status {
        200..=299 if !text.starts_with("n8n is starting up") => Ok(()),
        status => Err(Error::Server(format!("an answer of status {status}: {text}"))),
    }
}

/// Addresses that no process listens on. If another takes one before the peer does, the peer does not start.
fn free_addresses() -> Result<[SocketAddr; 4], Error> {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listen = || TcpListener::bind(anywhere).map_err(Error::io(anywhere));
    // All at one time, so that they differ.
    let listeners = [listen()?, listen()?, listen()?, listen()?];
    let mut addresses = [anywhere; 4];
    for (address, listener) in addresses.iter_mut().zip(&listeners) {
        *address = listener.local_addr().map_err(Error::io(anywhere))?;
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_named_after_its_package() {
        assert_eq!(Peer::parse("node-red"), Some(Peer::NodeRed));
        assert_eq!(Peer::parse("n8n"), Some(Peer::N8n));
        assert_eq!(Peer::parse("red"), None);
    }

    #[test]
    fn the_addresses_of_a_peer_differ() {
        let mut ports = free_addresses().expect("addresses").map(|address| address.port());
        ports.sort_unstable();
        assert!(ports[0] > 0 && ports.windows(2).all(|pair| pair[0] != pair[1]), "{ports:?}");
    }
}
