//! The clock of one of three daemons steps, and that of their database.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::super::rig::{Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::clock::STEPS;
use crate::fake_clock::FakeClock;
use postgres_server::Server;

const DAEMONS: usize = 3;
/// The daemon whose clock steps.
const STEPPING: usize = 1;
/// The length of the executions' pause: too long to stay in memory, so that the time of their end is in the database.
const PAUSE: &str = "2500ms";
/// The number of requests that must be acknowledged between two steps.
const PROGRESS: u64 = 20;
/// The time limit for the end of the executions that were open at a step.
const END_WITHIN: Duration = Duration::from_secs(30);
/// A daemon's message for a step of the cluster's clock.
const STEPPED: &str = "the clock of the database was set by";
/// A daemon's message for a wrong clock of its machine.
const WRONG: &str = "the clock of this machine differs";
const DATABASE: &str = "the database";
/// A daemon's message when it declares another one dead.
const DECLARED_DEAD: &str = "has stopped beating";

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let folder = tempfile::tempdir()?;
    let of_daemon = FakeClock::new(folder.path().join("daemon"))?;
    let server = Server::start()?;
    server.make_clock_shiftable()?;
    let stores = vec![Server::url(&[&server]); DAEMONS];
    let parts = Parts { ticks: true, has_gaps: true, pause: Some(PAUSE), stores, ..Parts::default() };
    let mut rig = Rig::new("cluster-clock", effort.seed, parts).await?;
    rig.surround(STEPPING, &of_daemon.variables());
    rig.start().await?;
    rig.load();
    for round in 0..effort.rounds {
        for whose in ["a daemon", DATABASE] {
            for step in STEPS {
                rig.progress(PROGRESS).await;
                let owed = rig.shared().oracle().open_numbers();
                if whose == DATABASE {
                    server.shift_clock(step)?;
                } else {
                    of_daemon.set(step)?;
                }
                let should_differ = whose == DATABASE && step != 0;
                let is_right = differs(&server)? == should_differ;
                rig.blame((!is_right).then(|| "the clock of the database is not as it was set".to_owned()));
                let when = format!("when the clock of {whose} stepped to {step:+} s in round {round}");
                rig.wait(END_WITHIN, &format!("what was open {when} did not end"), |oracle| {
                    oracle.have_ended(&owed)
                })
                .await;
                rig.all_live(&when)?;
                for index in 0..DAEMONS {
                    let said = rig.daemon_at(index)?.output();
                    rig.blame(
                        said.contains(DECLARED_DEAD).then(|| format!("{when} a daemon was declared dead")),
                    );
                }
                if !rig.is_well() {
                    return rig.settle().await;
                }
            }
        }
        for index in 0..DAEMONS {
            let said = rig.daemon_at(index)?.output();
            let is_noticed = said.contains(STEPPED) && (index != STEPPING || said.contains(WRONG));
            rig.blame(
                (!is_noticed).then(|| format!("the daemon {index} has not noticed that a clock was set")),
            );
        }
        rig.verdict().rounds += 1;
    }
    rig.settle().await
}

/// True if the clock of the database differs by half an hour at least from that of this machine.
fn differs(server: &Server) -> Result<bool, Error> {
    let seconds = server.sql("SELECT extract(epoch FROM clock_timestamp())::int8")?;
    Ok(seconds.parse().is_ok_and(|at| is_far(Timestamp::from_second(at).unwrap_or_default())))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the machine is what that of the database differs from"
)]
fn is_far(at: Timestamp) -> bool {
    Timestamp::now().duration_since(at).abs() > SignedDuration::from_mins(30)
}
