//! A standby takes the place of its primary, or is gone.

use std::time::Duration;

use super::super::rig::{PROGRESS, Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::IN_DOUBT;
use super::database::until_refused;
use crate::proxy::Proxy;
use postgres_server::Server;

/// Up to how many effects after enough progress it fails.
const MAX_FURTHER_EFFECTS: usize = 60;
/// The time limit for the detection and the recovery.
const PATIENCE: Duration = Duration::from_secs(45);
/// Commits that wait for the standby, by the process that waits.
const WAITING: &str = "SELECT coalesce(string_agg(pid::text, ',' ORDER BY pid), '') FROM pg_stat_activity \
    WHERE wait_event = 'SyncRep' AND application_name = 'cogwork'";
/// A daemon asks the server about a commit that has waited for ten seconds.
const WAITS_LONG: &str = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' \
    AND application_name = 'cogwork' AND clock_timestamp() - state_change > '13 s'";

/// A primary with a standby, each behind an address that stays.
struct Pair {
    primary: Server,
    standby: Server,
    addresses: [Proxy; 2],
}

impl Pair {
    async fn start() -> Result<Self, Error> {
        let primary = Server::start()?;
        let standby = primary.standby()?;
        let addresses = [Proxy::start(primary.socket()).await?, Proxy::start(standby.socket()).await?];
        Ok(Self { primary, standby, addresses })
    }

    fn url(&self) -> String {
        Proxy::url_of(&self.addresses)
    }

    /// From now on commits wait for the standby.
    fn wait_for_standby(&self) -> Result<(), Error> {
        self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        self.primary.sql("SELECT pg_reload_conf()")?;
        self.primary.until("SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'")?;
        Ok(())
    }

    /// The primary dies, and the standby takes its place.
    fn fail_over(&mut self) -> Result<(), Error> {
        self.primary.stop()?;
        self.standby.promote()?;
        Ok(())
    }

    /// Gives the new primary a standby in place of the old one.
    fn complete(self) -> Result<Self, Error> {
        let Self { standby: primary, addresses, .. } = self;
        let standby = primary.standby()?;
        addresses[0].lead_to(primary.socket());
        addresses[1].lead_to(standby.socket());
        Ok(Self { primary, standby, addresses })
    }
}

async fn rig(name: &'static str, effort: Effort, pair: &Pair) -> Result<Rig, Error> {
    let parts = Parts { ticks: true, stores: vec![pair.url()], ..Parts::default() };
    let mut rig = Rig::new(name, effort.seed, parts).await?;
    rig.start().await?;
    rig.load();
    Ok(rig)
}

/// The primary dies, and its synchronous standby takes its place: nothing is lost, and the daemon continues.
pub(super) async fn synchronous(effort: Effort) -> Result<Verdict, Error> {
    let mut pair = Pair::start().await?;
    pair.wait_for_standby()?;
    let mut rig = rig("failover", effort, &pair).await?;
    for round in 0..effort.rounds {
        if round > 0 {
            pair = pair.complete()?;
            pair.wait_for_standby()?;
        }
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        pair.fail_over()?;
        let owed = rig.shared().oracle().open_numbers();
        rig.wait(PATIENCE, "after a failover it does not go on", |oracle| oracle.have_ended(&owed)).await;
        let has_ended = rig.has_ended()?;
        rig.blame(has_ended.then(|| "after a failover it ended".to_owned()));
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}

/// The primary dies, and a standby that is behind takes its place: the daemon notices that commits are lost.
pub(super) async fn asynchronous(effort: Effort) -> Result<Verdict, Error> {
    let mut verdict = None::<Verdict>;
    for _ in 0..effort.rounds {
        let mut pair = Pair::start().await?;
        let mut rig = rig("failover-loss", effort, &pair).await?;
        rig.progress(PROGRESS).await;
        pair.standby.sql("ALTER SYSTEM SET primary_conninfo = ''")?;
        pair.standby.sql("SELECT pg_reload_conf()")?;
        pair.primary.until("SELECT count(*) = 0 FROM pg_stat_replication")?;
        rig.progress(PROGRESS).await;
        pair.fail_over()?;
        let status = rig.ended_node(0).await?;
        let mut wrong = Vec::new();
        if status.code() != Some(IN_DOUBT) {
            wrong.push(format!("though commits are lost it ended with {status}"));
        }
        if !rig.ended_output().contains("it has lost writes that were committed") {
            wrong.push(format!("it does not say that commits are lost: {}", rig.ended_output()));
        }
        // It continues from the data that is left.
        rig.start().await?;
        rig.verdict().rounds = verdict.as_ref().map_or(0, |so_far| so_far.rounds) + 1;
        let round = rig.give_up(wrong).await?;
        if let Some(earlier) = verdict.replace(round) {
            let _ = std::fs::remove_dir_all(earlier.records);
        }
        if verdict.as_ref().is_some_and(|round| !round.violations.is_empty()) {
            break;
        }
    }
    verdict.ok_or(Error::NoDaemon)
}

/// The synchronous standby is gone: commits wait for it and are not given up, and new requests are refused.
pub(super) async fn standby_gone(effort: Effort) -> Result<Verdict, Error> {
    let mut pair = Pair::start().await?;
    pair.wait_for_standby()?;
    let mut rig = rig("standby-gone", effort, &pair).await?;
    for _ in 0..effort.rounds {
        rig.progress(PROGRESS).await;
        rig.some_more(MAX_FURTHER_EFFECTS).await;
        pair.standby.stop()?;
        until_refused(&rig, "without its standby").await;
        let before = pair.primary.sql(WAITING)?;
        pair.primary.until(WAITS_LONG)?;
        let after = pair.primary.sql(WAITING)?;
        rig.blame((before.is_empty() || before != after).then(|| {
            format!("commits that wait for the standby were given up: `{before}` waited, then `{after}`")
        }));
        pair.standby.run()?;
        let owed = rig.shared().oracle().open_numbers();
        let stuck = "with its standby again it does not go on";
        rig.wait(PATIENCE, stuck, |oracle| oracle.have_ended(&owed)).await;
        let has_ended = rig.has_ended()?;
        rig.blame(has_ended.then(|| "without a standby it ended".to_owned()));
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    rig.settle().await
}
