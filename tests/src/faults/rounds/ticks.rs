//! Four daemons with many schedules of one second, one of which freezes again and again: each instant of each runs once.

use std::time::{Duration, Instant};

use super::super::rig::{Parts, Rig};
use super::super::{Effort, Error, Verdict};
use super::IN_DOUBT;
use postgres_server::Server;

const DAEMONS: usize = 4;
const SCHEDULES: usize = 200;
/// The default length of all of it, which is extended until one of them was frozen once.
const LENGTH: Duration = Duration::from_secs(10);
/// The undisturbed time before one freezes, and after its return.
const CALM: Duration = Duration::from_secs(3);
/// The time between two looks at what the daemons say.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The time limit for the others to declare it dead: it counts as dead after ten seconds.
const DECLARED: Duration = Duration::from_secs(40);
/// The time limit for the due instants at the end.
const END_WITHIN: Duration = Duration::from_secs(60);
/// A daemon's message when it declares another one dead.
const DECLARED_DEAD: &str = "has stopped beating";

pub(super) async fn run(effort: Effort) -> Result<Verdict, Error> {
    let server = Server::start()?;
    let stores = vec![Server::url(&[&server]); DAEMONS];
    let parts = Parts { schedules: SCHEDULES, has_gaps: true, stores, ..Parts::default() };
    let mut rig = Rig::new("ticks", effort.seed, parts).await?;
    rig.start().await?;
    let length = effort.length.unwrap_or(LENGTH);
    let (mut frozen, mut slowest) = (0, Duration::ZERO);
    for _ in 0..effort.rounds {
        let begun = Instant::now();
        while begun.elapsed() < length {
            rig.rate(CALM).await;
            // Any of them but the first, which the judge asks in the end.
            let index = rig.random().usize(1..DAEMONS);
            let before = deaths(&rig)?;
            rig.daemon_at(index)?.freeze()?;
            let since = Instant::now();
            while deaths(&rig)? == before && since.elapsed() < DECLARED {
                rig.rate(CHECK_INTERVAL).await;
            }
            let is_dead = deaths(&rig)? > before;
            slowest = slowest.max(since.elapsed());
            rig.blame((!is_dead).then(|| "a daemon that is frozen is not declared dead".to_owned()));
            rig.shared().oracle().next_life();
            rig.rate(CALM).await;
            rig.daemon_at(index)?.thaw()?;
            let status = rig.ended_node(index).await?;
            let is_right = status.code() == Some(IN_DOUBT);
            rig.blame((!is_right).then(|| format!("frozen and declared dead, it ended with {status}")));
            rig.start_node(index).await?;
            frozen += 1;
            rig.all_live("while another is frozen")?;
            if !rig.is_well() {
                break;
            }
        }
        rig.verdict().rounds += 1;
        if !rig.is_well() {
            break;
        }
    }
    rig.finish_ticks(SCHEDULES, END_WITHIN).await;
    let late = rig.shared().oracle().ticks().delays();
    let at = |part: f64| {
        late.get(((late.len() as f64 * part) as usize).min(late.len().saturating_sub(1))).copied()
    };
    let seconds = |part| at(part).unwrap_or_default().as_secs_f64();
    rig.verdict().notes.push(format!(
        "{} instants of {SCHEDULES} schedules; {frozen} times a daemon froze, declared dead after {:.1} s at the most; delay: {:.2} s \
         for half of them, {:.2} s for 90 %, {:.2} s for 99 %, {:.2} s at the most",
        late.len(),
        slowest.as_secs_f64(),
        seconds(0.5),
        seconds(0.9),
        seconds(0.99),
        seconds(1.0),
    ));
    rig.settle().await
}

/// The number of declarations of death in the output of running daemons.
fn deaths(rig: &Rig) -> Result<usize, Error> {
    let mut deaths = 0;
    for index in 0..DAEMONS {
        deaths += rig.daemon_at(index)?.output().matches(DECLARED_DEAD).count();
    }
    Ok(deaths)
}
