//! Instructions and allocations of single operations. They are the same whatever else the machine does, so a change of one per cent
//! shows, which no clock on a shared machine can see.

mod callgrind;
mod figures;

use std::path::Path;
use std::time::Duration;

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

/// Counts of an operation, one at a time; the least is reported: the work of timers only adds to it, and some counts have none of it.
const ROUNDS: usize = 12;
/// The time without work before a count. A dump stops the daemon for up to a second, and the timers that are due by then, like its sign of
/// life in PostgreSQL, run first.
const IDLE_TIME: Duration = Duration::from_millis(100);
/// Requests before the first count, which fill caches and pools.
const FIRST: usize = 20;
/// A debug build executes ten times the instructions. It gets a shorter log and fewer waiting executions, so that `make test` can count it.
const SIZE: usize = if cfg!(debug_assertions) { 200 } else { 1000 };
/// Executions that wait for an event while one gets it.
const WAITING: usize = SIZE;
/// Turns in the log of an execution that is woken.
const TURNS: usize = SIZE;
/// The ids of automations whose executions wait.
const WAITS: &str = "waits";
const LONG: &str = "long";

/// Webhooks that are counted: name, id, automation.
fn requests(server: &Server) -> [(&'static str, &'static str, String); 4] {
    [
        ("acknowledged webhook with one step", "acknowledged", project::asynchronous()),
        ("three synchronous steps", "three", project::synchronous(3)),
        ("forty synchronous steps", "forty", project::synchronous(40)),
        ("synchronous step with a GET", "get", project::gets(1, &format!("http://{}/", server.address()))),
    ]
}

/// Counts every operation on both stores, compares the counts with the recorded file, or replaces it.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let database = Database::start(terms.processors)?;
    let url = database.url();
    // At once, and each daemon on a processor of its own: with one processor it has one thread for requests, and counts do not vary.
    let others = Terms { processors: terms.processors.swapped(), ..terms };
    let (mut figures, of_server) =
        tokio::try_join!(count_on(terms, "SQLite", None), count_on(others, "PostgreSQL", Some(&url)))?;
    figures.join(of_server);
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

async fn count_on(terms: Terms<'_>, store: &str, url: Option<&str>) -> Result<Figures, Error> {
    let mut figures = Figures::default();
    let server = Server::start(Duration::ZERO).await?;
    let project = Project::new()?;
    for (_, id, text) in requests(&server) {
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
    let mut session = Session { run: Run::without_address(&daemon).await?, daemon: &daemon, counter };
    for (name, id, _) in requests(&server) {
        session.run.reconnect().await?;
        session.run.select(id).await?;
        session.run.post(FIRST, &project::body()).await?;
        daemon.drained().await?;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let request = async |run: &mut Run<'_>| run.post(1, &project::body()).await;
            rounds.push(session.count(0, request).await?);
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
            let counts = session.count((count - number - 1) as u64, event).await?;
            // The first one fills caches.
            if number > 0 {
                rounds.push(counts);
            }
        }
        figures.add(format!("{store}: {name}"), &rounds);
    }
    drop(session);
    daemon.stop().await?;
    Ok(figures)
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
}

impl Session<'_> {
    /// Counts `work`, which leaves `left` executions, until the commit of its end.
    async fn count(
        &mut self,
        left: u64,
        work: impl AsyncFnOnce(&mut Run<'_>) -> Result<(), Error>,
    ) -> Result<Counts, Error> {
        self.daemon.idle_for(IDLE_TIME).await?;
        self.counter.reset()?;
        work(&mut self.run).await?;
        self.daemon.drained_to(left).await?;
        self.counter.take()
    }
}
