//! The times of a cluster: an answer from another node, and what follows when a node is killed.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use model::{AutomationId, Origin};
use store::{ExecutionFilter, Page};

use crate::Error;
use crate::daemon::Daemon;
use crate::database::Database;
use crate::driver::{Connection, request};
use crate::measure::Terms;
use crate::process::Shared;
use crate::project::{self, Project, body, numbered_id};
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::Histogram;

/// Synchronous requests to each of two nodes, and the time limit for 99 of 100.
const ASKED: usize = 500;
const ANSWER_MS: f64 = 20.0;
/// Automations with a concurrency limit: their shards are spread over both nodes.
const LIMITED: usize = 16;
/// Schedules of one second each.
const SCHEDULES: usize = 32;
/// Executions that wait in the node that is killed.
const WAITING: usize = 200;
/// Maximum duration of a takeover, and of the gap between two ticks.
const MAX_MS: f64 = 15_000.0;
/// The time limit of the wait for a takeover, and the interval between two checks.
const PATIENCE: Duration = Duration::from_secs(60);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The time that both nodes run before they are measured.
pub(super) const BEFORE: Duration = Duration::from_secs(4);
const PAGE: u32 = 1000;

/// Measures both with two nodes.
pub(super) async fn measure(_: Terms<'_>, shared: &Shared, report: &mut Report) -> Result<(), Error> {
    let database = Database::start(shared.processors())?;
    let first = project()?;
    let survivor = Daemon::join(shared.processors(), &first, &database.url()).await?;
    let second = project()?;
    let killed = Daemon::join(shared.processors(), &second, &database.url()).await?;
    // A node that has joined gets its shards within some seconds.
    tokio::time::sleep(BEFORE).await;
    answers(&[&survivor, &killed], report).await?;
    takeover(&survivor, killed, report).await?;
    survivor.stop().await
}

fn project() -> Result<Project, Error> {
    let project = Project::new()?;
    let limited = format!("concurrency: {{limit: 64, policy: skip}}\n{}", project::synchronous(3));
    for number in 0..LIMITED {
        project.put(&numbered_id(number), &format!("name: Limited {number}\n{limited}"))?;
    }
    let waits = "trigger:\n  webhook: {verify: none}\nsteps:\n  - wait: 6s\n";
    project.put("waits", waits)?;
    for number in 0..SCHEDULES {
        project.put(&format!("tick-{number:03}"), &project::scheduled(Duration::from_secs(1)))?;
    }
    Ok(project)
}

/// Answers of executions, about half of which run on the other one of two nodes.
async fn answers(nodes: &[&Daemon], report: &mut Report) -> Result<(), Error> {
    let mut times = Histogram::default();
    for daemon in nodes {
        let mut connection = Connection::open(daemon.hooks()).await?;
        let mut requests = Vec::with_capacity(LIMITED);
        for number in 0..LIMITED {
            requests.push(request("POST", &daemon.path(&numbered_id(number)).await?, &body()));
        }
        for request in requests.iter().cycle().take(ASKED) {
            let asked = Instant::now();
            let answer = connection.ask(request).await?;
            if answer.status != 200 {
                let text = String::from_utf8_lossy(answer.body).into_owned();
                return Err(Error::Server(format!("an answer of status {}: {text}", answer.status)));
            }
            times.add(asked.elapsed());
        }
    }
    for (name, share, target) in
        [("median", 0.5, None), ("99th percentile", 0.99, Some(Target::AtMost(ANSWER_MS)))]
    {
        let name = format!("synchronous answer where half run on the other node, {name}");
        let value = times.percentile(share).as_secs_f64() * 1e3;
        report.add(Row::new("cluster", name, value, Unit::Milliseconds).target(target));
    }
    Ok(())
}

/// Kills a node with waiting executions and with schedules.
async fn takeover(survivor: &Daemon, killed: Daemon, report: &mut Report) -> Result<(), Error> {
    let mut connection = Connection::open(killed.hooks()).await?;
    let start = request("POST", &killed.path("waits").await?, &body());
    for _ in 0..WAITING {
        connection.ask(&start).await?;
    }
    // Dropping a daemon kills it.
    drop(killed);
    let killed_at = now();
    let began = Instant::now();
    let filter = ExecutionFilter { automation: Some(id("waits")?), ..ExecutionFilter::default() };
    let ended = loop {
        let rows = survivor.executions(&filter, Page { before: None, limit: PAGE }).await?;
        if rows.len() == WAITING && rows.iter().all(|row| row.finished_at.is_some()) {
            break began.elapsed();
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::Server(format!("executions were not taken over in {} s", PATIENCE.as_secs())));
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    };
    let name = format!("{WAITING} executions of a killed node have ended on another one, after");
    let row = Row::new("cluster", name, ended.as_secs_f64() * 1e3, Unit::Milliseconds);
    report.add(row.target(Some(Target::AtMost(MAX_MS))));
    let late = latest_tick(survivor, killed_at).await?;
    let name = "a schedule of a killed node is due on another one: the longest delay".to_owned();
    let row = Row::new("cluster", name, late, Unit::Milliseconds);
    report.add(row.target(Some(Target::AtMost(MAX_MS))));
    Ok(())
}

/// The longest time between two executions of a schedule that were accepted since shortly before the kill, in milliseconds.
async fn latest_tick(daemon: &Daemon, killed_at: Timestamp) -> Result<f64, Error> {
    let mut longest: f64 = 0.0;
    for number in 0..SCHEDULES {
        let name = format!("tick-{number:03}");
        let since = killed_at.checked_sub(jiff::SignedDuration::from_secs(2)).ok();
        let filter = ExecutionFilter { automation: Some(id(&name)?), since, ..ExecutionFilter::default() };
        let rows = daemon.executions(&filter, Page { before: None, limit: PAGE }).await?;
        let mut times: Vec<Timestamp> = rows
            .iter()
            .filter(|row| matches!(row.origin, Origin::Schedule { .. }))
            .map(|row| row.started_at)
            .collect();
        times.sort();
        if times.len() < 2 {
            return Err(Error::Server(format!("`{name}` was not due any more after the kill")));
        }
        for pair in times.windows(2) {
            longest = longest.max(pair[1].duration_since(pair[0]).as_secs_f64() * 1e3);
        }
    }
    Ok(longest)
}

fn id(text: &str) -> Result<AutomationId, Error> {
    AutomationId::parse(text).ok_or_else(|| Error::Server(format!("`{text}` is no id")))
}

#[expect(clippy::disallowed_methods, reason = "the daemons' schedules go by the clock of the machine")]
fn now() -> Timestamp {
    Timestamp::now()
}
