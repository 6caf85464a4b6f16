//! Other engines, installed beside this program by `make bench PEERS=…`, with what they need to do the same work.

mod n8n;
mod node_red;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Error;
use crate::driver::{Connection, request};
use crate::process::{Process, Processors};
use crate::project::scratch;

/// Where a peer is asked to work.
pub(crate) const PATH: &str = "/webhook/measured";
/// How long one may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(50);

/// Another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Node-RED: one process, whose function nodes run in it, and which keeps nothing.
    NodeRed,
    /// n8n: one process, with another for the code of its nodes, and a SQLite database of what has run.
    N8n,
}

/// What is asked of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// A webhook that is answered at once, with one step behind it.
    Asynchronous,
    /// A webhook that is answered after three trivial steps.
    ThreeSteps,
    /// A webhook that is answered after forty steps of code, each of which computes `fib(10)`.
    FortyFibs,
}

impl Workload {
    pub(crate) const ALL: [Self; 3] = [Self::Asynchronous, Self::ThreeSteps, Self::FortyFibs];

    /// What its rows are called.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Asynchronous => "asynchronous acks",
            Self::ThreeSteps => "synchronous, 3 steps",
            Self::FortyFibs => "40 code steps, `fib(10)` each",
        }
    }
}

impl Peer {
    const ALL: [Self; 2] = [Self::NodeRed, Self::N8n];

    /// The one of this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Its name, which is that of its package.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeRed => "node-red",
            Self::N8n => "n8n",
        }
    }

    /// Starts it with one workload, and waits until it does it.
    pub(crate) async fn start(
        self,
        processors: Processors,
        workload: Workload,
    ) -> Result<(Process, TempDir, SocketAddr), Error> {
        let folder = scratch()?;
        let address = free_address()?;
        let mut command = match self {
            Self::NodeRed => node_red::command(&self.installed()?, folder.path(), address, workload)?,
            Self::N8n => n8n::command(&self.installed()?, folder.path(), address, workload)?,
        };
        let process = processors.start(&mut command)?;
        let (asked, until) = (request("POST", PATH, b"{}"), Instant::now() + PATIENCE);
        while !answers(address, &asked).await {
            if Instant::now() > until {
                return Err(Error::Server(format!("{} did not come up", self.name())));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok((process, folder, address))
    }

    /// Where `make bench PEERS=…` has installed it.
    fn installed(self) -> Result<PathBuf, Error> {
        let own = std::env::current_exe().map_err(Error::io("this program"))?;
        let target = own.parent().and_then(Path::parent).unwrap_or_else(|| Path::new("."));
        let folder = target.join("peers").join(self.name());
        if folder.join("node_modules").is_dir() {
            return Ok(folder);
        }
        let how = format!("make bench PEERS={}", self.name());
        Err(Error::Server(format!("there is no `{}`; install it with `{how}`", folder.display())))
    }
}

/// A port that nobody listens on. Somebody might before the peer does: then it does not come up.
fn free_address() -> Result<SocketAddr, Error> {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind(anywhere).map_err(Error::io(anywhere))?;
    listener.local_addr().map_err(Error::io(anywhere))
}

async fn answers(address: SocketAddr, asked: &[u8]) -> bool {
    let Ok(mut connection) = Connection::open(address).await else { return false };
    // n8n says with the same status that it does not work yet.
    let works = |body: &[u8]| !body.starts_with(b"n8n is starting up");
    connection.ask(asked).await.is_ok_and(|answer| answer.status == 200 && works(answer.body))
}

/// Writes a file into the folder that a peer works in.
fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let file = folder.join(name);
    std::fs::write(&file, text).map_err(Error::io(file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_goes_by_the_name_of_its_package() {
        assert_eq!(Peer::of("node-red"), Some(Peer::NodeRed));
        assert_eq!(Peer::of("n8n"), Some(Peer::N8n));
        assert_eq!(Peer::of("red"), None);
    }
}
