//! Other engines, installed beside this program by `make bench PEERS=…`, with what they need to do the same work.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Error;
use crate::driver::{Connection, request};
use crate::process::{Process, Processors};
use crate::project::{FIB, scratch};

/// Where a peer is asked to work.
pub(crate) const PATH: &str = "/measured";
/// How long one may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(50);

/// Another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Node-RED: one process, whose function nodes run in it, and which keeps nothing.
    NodeRed,
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
    /// The one of this name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        (name == Self::NodeRed.name()).then_some(Self::NodeRed)
    }

    /// Its name, which is that of its package.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NodeRed => "node-red",
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
            Self::NodeRed => node_red(&self.installed()?, folder.path(), address, workload)?,
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
    connection.ask(asked).await.is_ok_and(|answer| answer.status == 200)
}

/// Node-RED without its editor, with one flow.
fn node_red(
    installed: &Path,
    folder: &Path,
    address: SocketAddr,
    workload: Workload,
) -> Result<Command, Error> {
    let settings = json!({
        "uiPort": address.port(),
        "uiHost": address.ip().to_string(),
        "httpAdminRoot": false,
        "flowFile": "flows.json",
        "logging": { "console": { "level": "off" } },
    });
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        std::fs::write(&file, text).map_err(Error::io(file.display()))
    };
    write("settings.js", format!("module.exports = {settings};\n"))?;
    write("flows.json", flows(workload).to_string())?;
    let mut command = Command::new("node");
    command.arg(installed.join("node_modules/node-red/red.js"));
    command.arg("--settings").arg(folder.join("settings.js")).arg("--userDir").arg(folder);
    Ok(command)
}

/// The nodes of a flow, one behind the other.
fn flows(workload: Workload) -> Value {
    let (count, code) = match workload {
        Workload::Asynchronous => (1, "msg.order = msg.payload.orderId;\nreturn msg;".to_owned()),
        Workload::ThreeSteps => (3, "msg.total = (msg.total ?? 0) + 1;\nreturn msg;".to_owned()),
        Workload::FortyFibs => (40, format!("{FIB}\nmsg.payload = {{ value: fib(10) }};\nreturn msg;")),
    };
    let name = |number: usize| format!("step{number}");
    // An answer that comes at once stands beside the steps, any other behind them.
    let (first, last) = match workload {
        Workload::Asynchronous => (json!([["answer", name(0)]]), json!([[]])),
        _ => (json!([[name(0)]]), json!([["answer"]])),
    };
    let mut nodes = vec![
        json!({"id": "flow", "type": "tab", "label": "measured", "disabled": false}),
        json!({"id": "in", "type": "http in", "z": "flow", "url": PATH, "method": "post", "upload": false, "wires": first}),
        json!({"id": "answer", "type": "http response", "z": "flow", "statusCode": "200", "headers": {}, "wires": []}),
    ];
    nodes.extend((0..count).map(|number| {
        let wires = if number + 1 < count { json!([[name(number + 1)]]) } else { last.clone() };
        json!({
            "id": name(number), "type": "function", "z": "flow", "func": code, "outputs": 1, "timeout": 0, "noerr": 0,
            "initialize": "", "finalize": "", "libs": [], "wires": wires,
        })
    }));
    nodes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wire_of_a_flow_leads_to_a_node() {
        for workload in Workload::ALL {
            let nodes = flows(workload);
            let nodes = nodes.as_array().expect("a list");
            let ids: Vec<&Value> = nodes.iter().map(|node| &node["id"]).collect();
            let wires = nodes.iter().filter_map(|node| node["wires"].as_array()).flatten();
            for wire in wires.filter_map(Value::as_array).flatten() {
                assert!(ids.contains(&wire), "{wire} in {workload:?}");
            }
        }
    }

    #[test]
    fn a_peer_goes_by_the_name_of_its_package() {
        assert_eq!(Peer::of("node-red"), Some(Peer::NodeRed));
        assert_eq!(Peer::of("red"), None);
    }
}
