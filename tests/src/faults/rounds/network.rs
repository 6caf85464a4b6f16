//! A daemon is cut off from the database by the network between them: the database listens in a network namespace of its own, at the
//! other end of a virtual cable.

use std::ffi::OsStr;
use std::time::Duration;

use super::super::oracle::Sent;
use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::tools::{needs_root, run as command};
use super::super::{Effort, Error, Verdict};
use super::IN_DOUBT;
use postgres_server::{Server, Setup};

/// The daemon that reaches the database over the cable. The others use its socket.
const CUT_OFF: usize = 1;
const DAEMONS: usize = 3;
/// Up to how many effects after enough progress it is cut off.
const MAX_FURTHER_EFFECTS: usize = 60;
/// The time limit for the end of its executions: it counts as dead after ten seconds.
const TAKEN_OVER: Duration = Duration::from_secs(45);
/// An unused link-layer address: frames to it are lost without any error.
const NOBODY: &str = "02:00:00:00:00:01";

/// The packets that are lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// The packets to the database, and the packets from it.
    Both,
    ToDatabase,
    FromDatabase,
    /// The cable is out at the database.
    Cable,
}

const KINDS: [Lost; 4] = [Lost::Both, Lost::FromDatabase, Lost::ToDatabase, Lost::Cable];

/// A cable between this machine and a namespace.
struct Cable {
    namespace: String,
    ends: [String; 2],
    addresses: [String; 2],
}

impl Cable {
    async fn lay(random: &mut fastrand::Rng) -> Result<Self, Error> {
        let number = random.u16(..);
        // Addresses that are set aside for tests of networks.
        let [high, low] = number.to_be_bytes();
        let address = |last: u8| format!("198.{}.{low}.{}", 18 + (high & 1), (high & 0xfc) | last);
        let cable = Self {
            namespace: format!("cogwork-{number:04x}"),
            ends: ["a", "b"].map(|end| format!("cw{number:04x}{end}")),
            addresses: [1, 2].map(address),
        };
        let [here, there] = &cable.ends;
        let [near, far] = cable.addresses.each_ref().map(|address| format!("{address}/30"));
        let made = ip(&["netns", "add", &cable.namespace]).await;
        made.map_err(|error| Error::NotHere(format!("no network namespace can be made: {error}")))?;
        ip(&["link", "add", here, "type", "veth", "peer", "name", there, "netns", &cable.namespace]).await?;
        ip(&["address", "add", &near, "dev", here]).await?;
        ip(&["link", "set", here, "up"]).await?;
        cable.inside(&["address", "add", &far, "dev", there]).await?;
        cable.inside(&["link", "set", there, "up"]).await?;
        Ok(cable)
    }

    async fn inside(&self, arguments: &[&str]) -> Result<(), Error> {
        ip(&[&["-n", &self.namespace], arguments].concat()).await
    }

    fn url(&self) -> String {
        format!("postgres://cogwork@{}/postgres?sslmode=disable", self.addresses[1])
    }

    async fn cut(&self, lost: Lost) -> Result<(), Error> {
        let ([here, there], [near, far]) = (&self.ends, &self.addresses);
        let to = |address| ["neighbour", "replace", address, "lladdr", NOBODY, "nud", "permanent", "dev"];
        if matches!(lost, Lost::Both | Lost::ToDatabase) {
            ip(&[&to(far)[..], &[here]].concat()).await?;
        }
        if matches!(lost, Lost::Both | Lost::FromDatabase) {
            self.inside(&[&to(near)[..], &[there]].concat()).await?;
        }
        if matches!(lost, Lost::Cable) {
            self.inside(&["link", "set", there, "down"]).await?;
        }
        Ok(())
    }

    async fn heal(&self, lost: Lost) -> Result<(), Error> {
        let ([here, there], [near, far]) = (&self.ends, &self.addresses);
        if matches!(lost, Lost::Both | Lost::ToDatabase) {
            ip(&["neighbour", "delete", far, "dev", here]).await?;
        }
        if matches!(lost, Lost::Both | Lost::FromDatabase) {
            self.inside(&["neighbour", "delete", near, "dev", there]).await?;
        }
        if matches!(lost, Lost::Cable) {
            self.inside(&["link", "set", there, "up"]).await?;
        }
        Ok(())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The cable is deleted with the namespace.
        let _ = std::process::Command::new("ip").args(["netns", "delete", &self.namespace]).status();
    }
}

async fn ip(arguments: &[&str]) -> Result<(), Error> {
    command("ip", &arguments.iter().map(OsStr::new).collect::<Vec<_>>()).await
}

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    needs_root()?;
    let cable = Cable::lay(&mut fastrand::Rng::new()).await?;
    let network = Some((cable.namespace.clone(), cable.addresses[1].clone()));
    let server = Server::start_as(Setup { network, ..Setup::default() })?;
    let mut stores = vec![Server::url(&[&server]); DAEMONS];
    stores[CUT_OFF] = cable.url();
    let mut rig = Rig::new("network", effort.seed, Parts { ticks: true, stores, ..Parts::default() }).await?;
    for round in 0..effort.rounds as usize {
        rig.start().await?;
        if round == 0 {
            rig.load();
        }
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        let lost = KINDS[round % KINDS.len()];
        let url = rig.url_at(CUT_OFF);
        cable.cut(lost).await?;
        rig.avoid(CUT_OFF);
        let owed = rig.shared().oracle().open_numbers();
        rig.daemon_at(CUT_OFF)?.wait_for_output("writes wait for the database").await?;
        let answer = rig.shared().send_to(rig.http(), &url, Sent::Async).await;
        rig.blame((answer != Some(503)).then(|| format!("cut off ({lost:?}) it answered {answer:?}")));
        // The daemons that take over repeat the effects that it had begun.
        rig.shared().oracle().next_life();
        let stuck = format!("what the daemon that is cut off ({lost:?}) had does not come to its end");
        rig.wait(TAKEN_OVER, &stuck, |oracle| oracle.have_ended(&owed)).await;
        cable.heal(lost).await?;
        let status = rig.ended_node(CUT_OFF).await?;
        let is_right = status.code() == Some(IN_DOUBT);
        rig.blame(
            (!is_right).then(|| format!("cut off ({lost:?}) and declared dead, it ended with {status}")),
        );
        rig.all_live("while another is cut off")?;
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}
