//! The growth of costs: one size of a project or a load is doubled three times while all others stay, and the exponents of
//! processor time, memory and stored bytes are fitted. An exponent of 1 means that twice the size costs twice as much.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Terms;
use crate::Error;
use crate::daemon::Daemon;
use crate::driver::{Connection, authorized_post, request};
use crate::project::{self, Project, numbered_id};
use crate::report::{Report, Row, Target, Unit};

/// The id of the automation that takes the load.
const MEASURED: &str = "measured";
/// The body of a request whose content does not matter.
const BODY: &[u8] = br#"{"quantity": 1, "n": 0}"#;
/// The number of sizes, each twice the one before.
const SIZES: usize = 4;
/// The highest exponent that counts as growing with the work.
const MOST: f64 = 1.1;
/// The highest exponent of what does not depend on the size at all.
const FLAT: f64 = 0.2;
/// Limit for waiting until the daemon has reached an expected state.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval at which the state is read meanwhile.
const LOOK: Duration = Duration::from_millis(1);
/// Processor time, in seconds, below which a difference is noise: the system counts it in steps of 10 ms.
const LEAST_TIME: f64 = 0.03;
/// Memory below this difference is noise of the allocator, in bytes.
const LEAST_MEMORY: f64 = 4e6;

/// One size that is doubled.
#[derive(Clone, Copy)]
struct Dimension {
    /// The name of the size.
    name: &'static str,
    /// The smallest size.
    first: usize,
    /// The load at each size.
    load: Load,
    /// The highest exponent of processor time.
    most: f64,
}

/// A load, and what its size means.
#[derive(Clone, Copy)]
enum Load {
    /// The daemon starts over so many automations.
    Automations,
    /// So many requests for a synchronous webhook whose steps a function writes for the size.
    Requests(usize, fn(usize) -> String),
    /// So many requests with a body of the size, in KiB.
    Bodies(usize),
    /// As many asynchronous executions as the size, each with its number in the body.
    Executions(&'static str),
    /// As many automations with different code as the size, each called this often.
    CodeTexts(usize),
    /// So many events, each for one of as many waiting executions as the size.
    WaitingExecutions(usize),
    /// One execution of as many turns as the size, each of which waits for an event.
    PausingTurns,
}

const DIMENSIONS: [Dimension; 12] = [
    Dimension { name: "automations", first: 500, load: Load::Automations, most: MOST },
    Dimension {
        name: "steps of an automation",
        first: 50,
        load: Load::Requests(40, project::synchronous),
        most: MOST,
    },
    Dimension { name: "turns of a loop", first: 250, load: Load::Requests(20, turns), most: MOST },
    Dimension {
        name: "turns of nested loops",
        first: 256,
        load: Load::Requests(20, nested_turns),
        most: MOST,
    },
    Dimension { name: "branches", first: 10, load: Load::Requests(20, branches), most: MOST },
    Dimension { name: "log lines", first: 100, load: Load::Requests(20, log_lines), most: MOST },
    Dimension { name: "payload", first: 32, load: Load::Bodies(20), most: MOST },
    Dimension {
        name: "keys of state",
        first: 500,
        load: Load::Executions(
            "  - action: state.set\n    with: {key: \"k${{ trigger.results.body.data.n }}\", value: 1}\n",
        ),
        most: MOST,
    },
    Dimension { name: "executions", first: 1000, load: Load::Executions("  - set: {a: 1}\n"), most: MOST },
    Dimension { name: "code texts", first: 50, load: Load::CodeTexts(5), most: MOST },
    Dimension {
        name: "waiting executions, an event",
        first: 500,
        load: Load::WaitingExecutions(50),
        most: FLAT,
    },
    Dimension { name: "turns that pause", first: 200, load: Load::PausingTurns, most: MOST },
];

/// The costs of one size.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    /// Processor time of the load, in seconds.
    time: f64,
    /// Memory that the daemon has more than before, in bytes.
    memory: f64,
    /// Bytes that the store has more than before.
    stored: f64,
}

/// Measures the exponents of all dimensions.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for dimension in DIMENSIONS {
        let mut points = Vec::with_capacity(SIZES);
        for doubling in 0..SIZES {
            let size = dimension.first << doubling;
            points.push((size, costs(terms, dimension.load, size).await?));
        }
        let name = |what: &str| {
            let last = dimension.first << (SIZES - 1);
            format!("{} ({} to {last}): exponent of {what}", dimension.name, dimension.first)
        };
        let row = |what: &str, exponent: f64, most: f64| {
            let target = Some(Target::AtMost(most));
            Row::new("growth", name(what), exponent, Unit::Exponent).target(target)
        };
        report.add(row("time", exponent(&points, |costs| costs.time.max(LEAST_TIME)), dimension.most));
        if points.iter().any(|(_, costs)| costs.memory > LEAST_MEMORY) {
            report.add(row("memory", exponent(&points, |costs| costs.memory.max(LEAST_MEMORY)), MOST));
        }
        if points.iter().all(|(_, costs)| costs.stored > 0.0) {
            report.add(row("stored bytes", exponent(&points, |costs| costs.stored), MOST));
        }
    }
    Ok(())
}

/// The slope of the least-squares line through the logarithms.
fn exponent(points: &[(usize, Costs)], cost: impl Fn(Costs) -> f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    let logs: Vec<(f64, f64)> =
        points.iter().map(|(size, costs)| ((*size as f64).ln(), cost(*costs).max(1e-6).ln())).collect();
    #[expect(clippy::cast_precision_loss, reason = "there are four")]
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let covariance: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let variance: f64 = logs.iter().map(|point| (point.0 - x).powi(2)).sum();
    covariance / variance
}

async fn costs(terms: Terms<'_>, load: Load, size: usize) -> Result<Costs, Error> {
    let project = project(load, size)?;
    let daemon = Daemon::start(terms.processors, &project).await?;
    if let Load::Automations = load {
        let (time, memory, _) = reading(&daemon).await?;
        daemon.stop().await?;
        return Ok(Costs { time, memory, stored: 0.0 });
    }
    let mut run = Run::of(&daemon, MEASURED).await?;
    if let Load::WaitingExecutions(_) = load {
        run.post_numbers(size).await?;
        run.suspended(size).await?;
    }
    let before = reading(&daemon).await?;
    match load {
        Load::Automations => {}
        Load::Requests(count, _) => run.post(count, BODY).await?,
        Load::Bodies(count) => {
            let body = format!("{{\"quantity\": 1, \"text\": \"{}\"}}", "x".repeat(size << 10));
            run.post(count, body.as_bytes()).await?;
        }
        Load::Executions(_) => run.post_numbers(size).await?,
        Load::CodeTexts(rounds) => {
            for _ in 0..rounds {
                for number in 0..size {
                    run.select(&numbered_id(number)).await?;
                    run.post(1, BODY).await?;
                }
            }
        }
        Load::WaitingExecutions(count) => {
            for number in 0..count {
                run.emit(number).await?;
            }
            run.suspended(size - count).await?;
        }
        Load::PausingTurns => {
            run.post(1, BODY).await?;
            for number in 0..size {
                run.suspended(1).await?;
                run.emit(number).await?;
            }
        }
    }
    if !matches!(load, Load::WaitingExecutions(_)) {
        daemon.drained().await?;
    }
    let after = reading(&daemon).await?;
    daemon.stop().await?;
    Ok(Costs { time: after.0 - before.0, memory: after.1 - before.1, stored: after.2 - before.2 })
}

/// Processor time in seconds, memory and stored bytes of a daemon.
async fn reading(daemon: &Daemon) -> Result<(f64, f64, f64), Error> {
    let process = daemon.process();
    let absent = || Error::Server("the system does not tell what a process uses".to_owned());
    let time = process.processor_time().ok_or_else(absent)?.as_secs_f64();
    let memory = process.resident().ok_or_else(absent)?;
    #[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^52")]
    Ok((time, memory as f64, daemon.stored().await? as f64))
}

fn project(load: Load, size: usize) -> Result<Project, Error> {
    if let Load::Automations = load {
        return Project::of_size(size);
    }
    let project = Project::new()?;
    let text = match load {
        Load::Requests(_, steps) => steps(size),
        Load::Executions(steps) => format!("{ASYNCHRONOUS}steps:\n{steps}"),
        Load::WaitingExecutions(_) => format!(
            "{ASYNCHRONOUS}steps:\n  - waitFor: {{event: paid, if: event.data.n == trigger.results.body.data.n}}\n"
        ),
        Load::PausingTurns => {
            format!(
                "{ASYNCHRONOUS}steps:\n  - repeat: {{max: {size}}}\n    steps:\n      - waitFor: {{event: paid}}\n"
            )
        }
        Load::Automations | Load::Bodies(_) | Load::CodeTexts(_) => project::synchronous(1),
    };
    project.put(MEASURED, &text)?;
    if let Load::CodeTexts(_) = load {
        for number in 0..size {
            let code =
                format!("  - code: |\n      export default () => ({{ data: {{ value: {number} }} }});\n");
            project.put(&numbered_id(number), &format!("{SYNCHRONOUS}steps:\n{code}"))?;
        }
    }
    Ok(project)
}

const SYNCHRONOUS: &str = "trigger:\n  webhook: {mode: sync, verify: none}\n";
const ASYNCHRONOUS: &str = "trigger:\n  webhook: {verify: none}\n";

fn turns(size: usize) -> String {
    format!(
        "{SYNCHRONOUS}steps:\n  - forEach: ${{{{ range({size}) | list }}}}\n    steps:\n      - set: {{a: \"${{{{ item }}}}\"}}\n"
    )
}

fn nested_turns(size: usize) -> String {
    let inner = size / 16;
    format!(
        "{SYNCHRONOUS}steps:\n  - forEach: ${{{{ range(16) | list }}}}\n    as: outer\n    steps:\n      - forEach: ${{{{ range({inner}) | list }}}}\n        steps:\n          - set: {{a: \"${{{{ item }}}}\"}}\n"
    )
}

fn branches(size: usize) -> String {
    let mut text = format!("{SYNCHRONOUS}steps:\n  - parallel:\n");
    for number in 0..size {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "      b{number}:\n        - set: {{v{number}: 1}}");
    }
    text
}

fn log_lines(size: usize) -> String {
    let mut text = format!("{SYNCHRONOUS}steps:\n");
    for number in 0..size {
        let _ = writeln!(text, "  - action: log.info\n    with: {{message: line {number}}}");
    }
    text
}

/// A daemon under one of these loads.
struct Run<'daemon> {
    daemon: &'daemon Daemon,
    connection: Connection,
    admin: Connection,
    token: String,
    path: String,
}

impl<'daemon> Run<'daemon> {
    async fn of(daemon: &'daemon Daemon, automation: &str) -> Result<Self, Error> {
        Ok(Self {
            daemon,
            connection: Connection::open(daemon.hooks()).await?,
            admin: Connection::open(daemon.admin()).await?,
            token: daemon.token()?,
            path: daemon.path(automation).await?,
        })
    }

    /// Sends the following requests to this automation.
    async fn select(&mut self, automation: &str) -> Result<(), Error> {
        self.path = self.daemon.path(automation).await?;
        Ok(())
    }

    /// Sends so many requests, one after another.
    async fn post(&mut self, count: usize, body: &[u8]) -> Result<(), Error> {
        let bytes = request("POST", &self.path, body);
        for _ in 0..count {
            ask(&mut self.connection, &bytes).await?;
        }
        Ok(())
    }

    /// Sends so many requests with their numbers.
    async fn post_numbers(&mut self, count: usize) -> Result<(), Error> {
        for number in 0..count {
            self.post(1, format!("{{\"n\": {number}}}").as_bytes()).await?;
        }
        Ok(())
    }

    /// Sends an event with this number.
    async fn emit(&mut self, number: usize) -> Result<(), Error> {
        let body = format!("{{\"name\": \"paid\", \"data\": {{\"n\": {number}}}}}");
        let bytes = authorized_post("/api/v1/events", &self.token, body.as_bytes());
        ask(&mut self.admin, &bytes).await
    }

    /// Waits until exactly so many executions are suspended and no other is left.
    async fn suspended(&self, count: usize) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        while self.daemon.suspended().await? != count {
            if Instant::now() > until {
                return Err(Error::Server(format!("{count} executions did not come to wait")));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

async fn ask(connection: &mut Connection, bytes: &Arc<[u8]>) -> Result<(), Error> {
    let answer = connection.ask(bytes).await?;
    if answer.status != 200 {
        let body = String::from_utf8_lossy(answer.body).into_owned();
        return Err(Error::Server(format!("a request was answered {}: {body}", answer.status)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_is_its_exponent() {
        for power in [0.0, 1.0, 2.0] {
            let points: Vec<(usize, Costs)> = [10_usize, 20, 40, 80]
                .map(|size| {
                    let time = f64::from(u32::try_from(size).expect("it is small")).powf(power);
                    (size, Costs { time, ..Costs::default() })
                })
                .to_vec();
            assert!((exponent(&points, |costs| costs.time) - power).abs() < 1e-9, "{power}");
        }
    }
}
