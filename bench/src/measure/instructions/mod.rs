//! Instructions and allocations of single operations. They are the same whatever else the machine does, so a change of one per cent
//! shows, which no clock on a shared machine can see.

mod callgrind;
mod figures;

use std::path::Path;
use std::time::{Duration, Instant};

use self::callgrind::{Counter, Counts};
pub(crate) use self::figures::Figures;
use super::Terms;
use super::growth::Run;
use super::server::Server;
use crate::Error;
use crate::daemon::Daemon;
use crate::database::Database;
use crate::project::{self, Project, scratch};
use crate::report::{Report, Row, Unit};

/// Counts of an operation; the least is reported, since timers and other threads only add to it.
const ROUNDS: usize = 5;
/// The time over which the instructions of an idle daemon are counted, which do not belong to an operation.
const IDLE: Duration = Duration::from_secs(2);
/// Executions that wait for an event while one gets it.
const WAITING: usize = 1000;
/// Turns in the log of an execution that is woken.
const TURNS: usize = 1000;
/// The ids of automations whose executions wait.
const WAITS: &str = "waits";
const LONG: &str = "long";

/// Webhooks that are counted: name, id, automation, and requests in a round.
fn requests(server: &Server) -> [(&'static str, &'static str, String, usize); 4] {
    [
        ("acknowledged webhook with one step", "acknowledged", project::asynchronous(), 50),
        ("three synchronous steps", "three", project::synchronous(3), 50),
        ("forty synchronous steps", "forty", project::synchronous(40), 20),
        (
            "synchronous step with a GET",
            "get",
            project::gets(1, &format!("http://{}/", server.address())),
            25,
        ),
    ]
}

/// Counts every operation on both stores, compares the counts with the recorded file, or replaces it.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let mut figures = Figures::default();
    count_on(terms, "SQLite", None, &mut figures).await?;
    let database = Database::start(terms.processors)?;
    count_on(terms, "PostgreSQL", Some(&database.url()), &mut figures).await?;
    for (name, counts) in figures.rows() {
        for (what, value) in [("instructions", counts.instructions), ("allocations", counts.allocations)] {
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            report.add(Row::new("instructions", format!("{name}: {what}"), value as f64, Unit::Count));
        }
    }
    match &terms.options.counts {
        Some(file) if terms.options.record => figures.write(file),
        Some(file) => figures.compare(file, report),
        None => Ok(()),
    }
}

async fn count_on(
    terms: Terms<'_>,
    store: &str,
    url: Option<&str>,
    figures: &mut Figures,
) -> Result<(), Error> {
    let server = Server::start(Duration::ZERO).await?;
    let project = Project::new()?;
    for (_, id, text, _) in requests(&server) {
        project.put(id, &text)?;
    }
    let wait = "waitFor: {event: paid, if: event.data.n == trigger.results.body.data.n}";
    let trigger = "trigger:\n  webhook: {verify: none}\nsteps:\n";
    project.put(WAITS, &format!("{trigger}  - {wait}\n"))?;
    let turns = format!(
        "  - repeat: {{max: {TURNS}}}\n    steps:\n      - action: log.info\n        with: {{message: turn}}\n"
    );
    project.put(LONG, &format!("{trigger}{turns}  - {wait}\n"))?;
    let output = scratch()?;
    let (daemon, counter) = start(terms, &project, url, output.path()).await?;
    let mut session =
        Session { run: Run::without_address(&daemon).await?, daemon: &daemon, counter, idle: 0.0 };
    session.measure_idle().await?;
    for (name, id, _, count) in requests(&server) {
        session.run.reconnect().await?;
        session.run.select(id).await?;
        // Fills caches and pools.
        session.run.post(count, &project::body()).await?;
        daemon.drained().await?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let requests = async |run: &mut Run<'_>| {
                for _ in 0..count {
                    run.post(1, &project::body()).await?;
                    // The commit of its end never joins that of the next start.
                    daemon.drained().await?;
                }
                Ok(())
            };
            rounds.push(session.count(count, 0, requests).await?);
        }
        figures.add(format!("{store}: {name}"), &rounds);
    }
    // The executions of the last one are left waiting.
    for (name, id, count) in [
        (format!("wake of an execution of {TURNS} turns"), LONG, 1 + ROUNDS),
        (format!("event to one of {WAITING} that wait"), WAITS, WAITING),
    ] {
        session.run.reconnect().await?;
        session.run.select(id).await?;
        session.run.post_numbers(count).await?;
        session.run.suspended(count).await?;
        session.run.reconnect().await?;
        let mut rounds = Vec::new();
        for number in 0..=ROUNDS {
            let event = async |run: &mut Run<'_>| run.emit(number).await;
            let counts = session.count(1, (count - number - 1) as u64, event).await?;
            // The first one fills caches.
            if number > 0 {
                rounds.push(counts);
            }
        }
        figures.add(format!("{store}: {name}"), &rounds);
    }
    drop(session);
    daemon.stop().await
}

async fn start(
    terms: Terms<'_>,
    project: &Project,
    url: Option<&str>,
    folder: &Path,
) -> Result<(Daemon, Counter), Error> {
    let output = folder.join("counts");
    let wrap = |program: &Path| callgrind::command(program, &output);
    let arguments = ["--outbound-allow", "127.0.0.1"];
    let daemon = Daemon::start_wrapped(terms.processors, project, url, &arguments, wrap).await?;
    let counter = Counter::new(daemon.process().id(), output);
    Ok((daemon, counter))
}

/// A daemon whose instructions are counted.
struct Session<'daemon> {
    run: Run<'daemon>,
    daemon: &'daemon Daemon,
    counter: Counter,
    /// Instructions a second while nothing is to do.
    idle: f64,
}

impl Session<'_> {
    async fn measure_idle(&mut self) -> Result<(), Error> {
        self.counter.reset()?;
        let begun = Instant::now();
        tokio::time::sleep(IDLE).await;
        let counts = self.counter.take()?;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let instructions = counts.instructions as f64;
        self.idle = instructions / begun.elapsed().as_secs_f64();
        Ok(())
    }

    /// Counts `work`, which is `count` operations and leaves `left` executions, and returns the share of one.
    async fn count(
        &mut self,
        count: usize,
        left: u64,
        work: impl AsyncFnOnce(&mut Run<'_>) -> Result<(), Error>,
    ) -> Result<Counts, Error> {
        self.counter.reset()?;
        let begun = Instant::now();
        work(&mut self.run).await?;
        self.daemon.drained_to(left).await?;
        let elapsed = begun.elapsed().as_secs_f64();
        let counts = self.counter.take()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number of instructions"
        )]
        let idle = (self.idle * elapsed) as u64;
        let count = count as u64;
        let instructions = counts.instructions.saturating_sub(idle) / count;
        Ok(Counts { instructions, allocations: counts.allocations / count })
    }
}
