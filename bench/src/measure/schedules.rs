//! Many schedules that are due at the same instant: the delay of each acceptance, of the last end, and of the request that
//! each execution sends.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::Origin;
use store::{ExecutionFilter, ExecutionRow, Page};

use super::Terms;
use super::server::Server;
use crate::Error;
use crate::daemon::Daemon;
use crate::project::{self, Project, numbered_id};
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::median;

/// The number of schedules, and the one of the quick form.
const SCHEDULES: usize = 10_000;
const QUICK: usize = 1000;
/// The number of measured instants, and the distance between them.
const INSTANTS: usize = 3;
const DISTANCE: Duration = Duration::from_secs(10);
/// The least remaining part of the distance when the daemon is ready, so that it is idle at the first instant.
const LEAD_TIME: Duration = Duration::from_secs(3);
/// The schedules with a request each.
const CALLS: usize = 1000;
/// The milliseconds after the instant at which half of their requests, and 99 of 100, have arrived at most.
const ARRIVAL_MS: [(f64, &str, f64); 2] = [(0.5, "median", 40.0), (0.99, "99th percentile", 80.0)];
/// The number of them on a page.
const PAGE: u32 = 1000;
/// The milliseconds that an instant may be late, as the manual promises.
const MAX_MS: f64 = 1000.0;

/// Measures both.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    acceptance(terms, report).await?;
    arrival(terms, report).await
}

/// Measures the time from the instant until the requests of the executions arrive at a server.
async fn arrival(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let server = Server::start(Duration::ZERO).await?;
    let url = format!("http://{}/", server.address());
    let project = Project::new()?;
    for number in 0..CALLS {
        project.put(&numbered_id(number), &project::scheduled_post(DISTANCE, &url))?;
    }
    let daemon = Daemon::start_with(terms.processors, &project, &["--outbound-allow", "127.0.0.1"]).await?;
    let first = next_instant(now() + LEAD_TIME);
    let until = first + DISTANCE * u32::try_from(INSTANTS).unwrap_or_default() - LEAD_TIME;
    tokio::time::sleep(until.duration_since(now()).try_into().unwrap_or_default()).await;
    let arrivals = server.arrivals();
    daemon.stop().await?;
    let mut late = Vec::new();
    for arrived in arrivals {
        let arrived = Timestamp::try_from(arrived).unwrap_or(Timestamp::MAX);
        // Requests of an instant before the first one are not measured: the daemon was starting.
        if arrived >= first {
            let past = arrived.duration_since(first).as_secs_f64() % DISTANCE.as_secs_f64();
            late.push(past * 1e3);
        }
    }
    if late.len() != CALLS * INSTANTS {
        return Err(Error::Server(format!("{} of {} requests arrived", late.len(), CALLS * INSTANTS)));
    }
    late.sort_by(f64::total_cmp);
    for (share, what, most) in ARRIVAL_MS {
        let name = format!("{CALLS} schedules due at one instant: arrival of their POSTs, {what}");
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a place within some thousand times"
        )]
        let place = (late.len() as f64 * share) as usize;
        let value = late.get(place).copied().unwrap_or(f64::NAN);
        report.add(Row::new("schedules", name, value, Unit::Milliseconds).target(Some(Target::AtMost(most))));
    }
    Ok(())
}

async fn acceptance(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let count = if terms.options.quick { QUICK } else { SCHEDULES };
    let project = Project::new()?;
    for number in 0..count {
        project.put(&numbered_id(number), &project::scheduled(DISTANCE))?;
    }
    let daemon = Daemon::start(terms.processors, &project).await?;
    let first = next_instant(now() + LEAD_TIME);
    let last = first + DISTANCE * u32::try_from(INSTANTS - 1).unwrap_or_default();
    // An execution that is absent shortly before the next instant counts as missed.
    let until = last + DISTANCE - LEAD_TIME;
    let left = until.duration_since(now());
    tokio::time::sleep(left.try_into().unwrap_or_default()).await;
    let rows = rows(&daemon, first).await?;
    daemon.stop().await?;

    let mut late: HashMap<Timestamp, Vec<f64>> = HashMap::new();
    let mut ended = 0.0_f64;
    for row in rows {
        let Origin::Schedule { instant } = row.origin else { continue };
        if instant < first || instant > last {
            continue;
        }
        late.entry(instant).or_default().push(milliseconds(row.started_at.duration_since(instant)));
        let end = row.finished_at.ok_or_else(|| Error::Server(format!("{} has not ended", row.id)))?;
        ended = ended.max(milliseconds(end.duration_since(instant)));
    }
    if late.len() != INSTANTS || late.values().any(|times| times.len() != count) {
        let found: Vec<usize> = late.values().map(Vec::len).collect();
        return Err(Error::Server(format!(
            "of {count} schedules at {INSTANTS} instants {found:?} were accepted"
        )));
    }
    let times: Vec<f64> = late.into_values().flatten().collect();
    let last = times.iter().copied().fold(0.0, f64::max);
    for (what, value, most) in [
        ("accepted, the median", median(times), None),
        ("accepted, the last", last, Some(Target::AtMost(MAX_MS))),
        ("ended, the last", ended, None),
    ] {
        let name = format!("{count} schedules due at one instant: {what}, late by");
        report.add(Row::new("schedules", name, value, Unit::Milliseconds).target(most));
    }
    Ok(())
}

/// The first instant after this one at which all of them are due.
fn next_instant(after: Timestamp) -> Timestamp {
    let distance = i64::try_from(DISTANCE.as_secs()).unwrap_or(1);
    let second = (after.as_second() / distance + 1) * distance;
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

/// All executions that were accepted since then.
async fn rows(daemon: &Daemon, since: Timestamp) -> Result<Vec<ExecutionRow>, Error> {
    let filter = ExecutionFilter { since: Some(since), ..ExecutionFilter::default() };
    let (mut rows, mut before) = (Vec::new(), None);
    loop {
        let page = daemon.executions(&filter, Page { before, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(rows) };
        before = Some(last.id);
        rows.extend(page);
    }
}

#[expect(clippy::disallowed_methods, reason = "the daemon's schedules go by the clock of the machine")]
fn now() -> Timestamp {
    Timestamp::now()
}

fn milliseconds(time: SignedDuration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_instants_are_counted_from_the_epoch() {
        let at = |second| Timestamp::from_second(second).expect("an instant");
        assert_eq!(next_instant(at(1_000_001)), at(1_000_010));
        assert_eq!(next_instant(at(1_000_010)), at(1_000_020));
    }
}
