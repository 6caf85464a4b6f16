//! Three of four daemons on one database fail at once: one is killed, one frozen, one cut off from the database. The fourth continues
//! all their executions, and each node that returns finds that it was declared dead.

use std::time::Duration;

use super::super::oracle::Sent;
use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::IN_DOUBT;
use crate::proxy::Proxy;
use postgres_server::Server;

/// The daemons, by their index: the first one stays.
const KILLED: usize = 1;
const CUT_OFF: usize = 2;
const FROZEN: usize = 3;
/// Up to how many effects after enough progress they fail.
const MAX_FURTHER_EFFECTS: usize = 60;
/// Maximum number of requests that the frozen one may send afterwards: those between the last check and the write when it froze, one
/// for each of its threads.
const MAX_LATE: u32 = 2;
/// The time limit for the end of their executions: they count as dead after ten seconds.
const TAKEN_OVER: Duration = Duration::from_secs(45);

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let proxy = Proxy::start(server.socket()).await?;
    let direct = Server::url(&[&server]);
    let mut stores = vec![direct; 4];
    stores[CUT_OFF] = proxy.url();
    let mut rig = Rig::new("cluster", effort.seed, Parts { ticks: true, stores, ..Parts::default() }).await?;
    rig.start().await?;
    rig.load();
    for round in 0..effort.rounds {
        if round > 0 {
            rig.start().await?;
        }
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        let cut_off = rig.url_at(CUT_OFF);
        let owed = rig.shared().oracle().open_numbers();
        rig.daemon_at(FROZEN)?.freeze()?;
        proxy.swallow();
        rig.kill_node(KILLED).await?;
        rig.avoid(FROZEN);
        rig.avoid(CUT_OFF);
        rig.shared().oracle().next_life();
        rig.daemon_at(CUT_OFF)?.wait_for_output("writes wait for the database").await?;
        let answer = rig.shared().send_to(rig.http(), &cut_off, Sent::Async).await;
        rig.blame((answer != Some(503)).then(|| format!("cut off from the database it answered {answer:?}")));
        // Their requests have arrived by now; the daemon that takes over repeats them.
        rig.shared().oracle().next_life();
        let stuck = "what the three had does not come to its end at the fourth";
        rig.wait(TAKEN_OVER, stuck, |oracle| oracle.have_ended(&owed)).await;
        rig.shared().oracle().thawed(&owed, MAX_LATE);
        rig.daemon_at(FROZEN)?.thaw()?;
        proxy.heal();
        for (index, how) in [(FROZEN, "frozen"), (CUT_OFF, "cut off")] {
            let status = rig.ended_node(index).await?;
            let is_right = status.code() == Some(IN_DOUBT);
            rig.blame((!is_right).then(|| format!("{how} and declared dead, it ended with {status}")));
        }
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    let late = rig.shared().oracle().late();
    rig.verdict().notes.push(format!("requests of the frozen one that it was about to send: {late}"));
    rig.settle().await
}
