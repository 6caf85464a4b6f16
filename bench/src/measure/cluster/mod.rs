//! Daemons on one PostgreSQL: their rate beside `pgbench` and a daemon on SQLite, their cost for the database, and how
//! long its promises take. All processors are shared by everything that runs.

mod failure;
mod nodes;
mod starts;

use std::time::Duration;

use super::Terms;
use super::cluster::nodes::{Costs, Nodes};
use crate::Error;
use crate::daemon::Daemon;
use crate::database::Database;
use crate::process::Shared;
use crate::project::{self, BODY, Project, numbered_id};
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::median;

/// The connections to each node.
const CONNECTIONS: usize = 64;
/// The rounds of each side.
const ROUNDS: u32 = 5;
/// The numbers of nodes, and the least that each has to reach of the rate of one. More processors than two are needed for it.
const NODES: [(usize, Option<f64>); 3] = [(1, None), (2, Some(1.7)), (4, Some(3.0))];
/// The part of a round that precedes the first, and does not count.
const WARM_UP: u32 = 2;

/// A workload, and its targets.
struct Workload {
    name: &'static str,
    text: fn() -> String,
    /// The least ratio to the rows of `pgbench`.
    beside_rows: f64,
    /// Maximum number of bytes of write-ahead log of an execution beside its payload.
    log: f64,
    /// Maximum number of microseconds of the database for an execution.
    processor: f64,
}

const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "finished in one commit",
        text: || project::synchronous(1),
        beside_rows: 3.0,
        log: 400.0,
        processor: 20.0,
    },
    Workload {
        name: "finished in two commits",
        text: project::asynchronous,
        beside_rows: 2.0,
        log: 1100.0,
        processor: 40.0,
    },
];

/// Measures both workloads, then the times.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let shared = terms.processors.share();
    for workload in &WORKLOADS {
        rates(terms, &shared, workload, report).await?;
    }
    starts::measure(&shared, report).await?;
    failure::measure(terms, &shared, report).await
}

/// Measures a workload with each number of nodes, alternating with `pgbench` and a daemon on SQLite.
async fn rates(
    terms: Terms<'_>,
    shared: &Shared,
    workload: &Workload,
    report: &mut Report,
) -> Result<(), Error> {
    let database = Database::start(shared.processors())?;
    database.prepare()?;
    let alone = Project::new()?;
    alone.put(&numbered_id(0), &(workload.text)())?;
    let alone = Nodes::of_one(Daemon::start(shared.processors(), &alone).await?, alone, CONNECTIONS).await?;
    let mut nodes = Nodes::default();
    let turn = terms.options.time / ROUNDS;
    let mut one = None;
    let mut of_rows = Costs::default();
    for (count, least) in NODES {
        while nodes.count() < count {
            let project = Project::new()?;
            project.put(&numbered_id(0), &(workload.text)())?;
            let daemon = Daemon::join(shared.processors(), &project, &database.url()).await?;
            nodes.add(daemon, project, CONNECTIONS).await?;
        }
        nodes.take_turn(turn / WARM_UP).await?;
        let mut rounds = Vec::new();
        let mut costs = Costs::default();
        for _ in 0..ROUNDS {
            let rows = if count == 1 { rows(&database, turn, &mut of_rows).await? } else { 0.0 };
            let on_file = if count == 1 { alone.take_turn(turn).await?.rate() } else { 0.0 };
            let before = costs_so_far(&database)?;
            let finished = nodes.take_turn(turn).await?;
            costs.add(&before, &costs_so_far(&database)?, finished.count);
            rounds.push(Round { rows, on_file, ours: finished.rate() });
        }
        let ours = median(rounds.iter().map(|round| round.ours));
        let title = format!("{}, {count} node{}", workload.name, if count == 1 { "" } else { "s" });
        if let (Some(one), Some(least)) = (one, least) {
            let row = Row::new("cluster", title, ours, Unit::PerSecond);
            report.add(row.beside("one node", one, ours / one).target(Some(Target::Ratio(least))));
        } else {
            one = Some(ours);
            beside(&title, &rounds, "rows of pgbench", |round| round.rows, workload.beside_rows, report);
            beside(&title, &rounds, "SQLite", |round| round.on_file, 0.4, report);
        }
        costs.report(workload, count, of_rows.processor_us_of_each(), report);
    }
    nodes.stop().await?;
    alone.stop().await
}

/// Rows that `pgbench` commits in a second. Adds what they cost.
async fn rows(database: &Database, time: Duration, costs: &mut Costs) -> Result<f64, Error> {
    let before = costs_so_far(database)?;
    let rate = database.insert_rows(time).await?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rows")]
    let rows = (rate * time.as_secs_f64().max(1.0).floor()) as u64;
    costs.add(&before, &costs_so_far(database)?, rows);
    Ok(rate)
}

/// A round of each side: rows of `pgbench`, executions of the daemon on SQLite, executions of the nodes, a second.
struct Round {
    rows: f64,
    on_file: f64,
    ours: f64,
}

fn beside(
    title: &str,
    rounds: &[Round],
    name: &'static str,
    theirs: impl Fn(&Round) -> f64,
    least: f64,
    report: &mut Report,
) {
    let row =
        Row::new("cluster", title.to_owned(), median(rounds.iter().map(|round| round.ours)), Unit::PerSecond);
    let ratio = median(rounds.iter().map(|round| round.ours / theirs(round)));
    let row = row.beside(name, median(rounds.iter().map(&theirs)), ratio);
    report.add(row.target(Some(Target::Ratio(least))));
}

fn costs_so_far(database: &Database) -> Result<(u64, Option<Duration>), Error> {
    Ok((database.logged()?, database.processor_time()))
}

impl Costs {
    fn report(&self, workload: &Workload, count: usize, row_us: Option<f64>, report: &mut Report) {
        let title = |what: &str| {
            format!("{}, {count} node{}: {what}", workload.name, if count == 1 { "" } else { "s" })
        };
        #[expect(clippy::cast_precision_loss, reason = "it is below 2^52")]
        let log = self.log_of_each() - BODY as f64;
        let row =
            Row::new("cluster", title("log of the database for each, beside the payload"), log, Unit::Bytes);
        report.add(row.target(Some(Target::AtMost(workload.log))));
        if let Some(time) = self.processor_us_of_each() {
            let row = Row::new(
                "cluster",
                title("processor time of the database for each"),
                time,
                Unit::Microseconds,
            );
            let row = match row_us {
                Some(theirs) => row.beside("a row of pgbench", theirs, time / theirs),
                None => row,
            };
            report.add(row.target(Some(Target::AtMost(workload.processor))));
        }
    }
}
