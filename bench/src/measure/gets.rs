//! Ten requests that one execution sends concurrently, or one after another, beside a client that only sends them.
//!
//! The daemon's time is that of the webhook's caller, with nothing subtracted: the incoming request, the
//! execution on disk before the first of its requests goes out, ten steps with their guard, limits and log, their
//! results and the end on disk, and the answer. The client's is that of its ten requests alone: it runs in a process of
//! its own where the daemon runs, with the daemon's library and settings, and nothing comes in, is written or answered
//! while its time is taken. Both keep their connections. The server of the requests runs beside the load driver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Terms;
use super::contest::start_baseline;
use super::server::Server;
use crate::Error;
use crate::baseline::{GETS, IN_TURN, Kind};
use crate::daemon::Daemon;
use crate::driver::{Connection, request};
use crate::process::Process;
use crate::project::{self, Project, numbered_id};
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::{Histogram, median};

/// The times of the server's answers: none, and that of a fast service.
const DELAYS: [(Duration, &str); 2] =
    [(Duration::ZERO, "answered at once"), (Duration::from_millis(5), "answered after 5 ms")];
/// The orders of the requests, each with the daemon's largest multiple of the client's time.
const ORDERS: [(Order, f64); 2] = [(Order::SideBySide, 1.5), (Order::InTurn, 2.0)];
/// The numbers of different automations that the daemon runs in turn, each with its delays.
const AUTOMATIONS: [(usize, &[(Duration, &str)]); 2] = [(1, &DELAYS), (1000, DELAYS.split_at(1).0)];
/// The number of rounds of each.
const ROUNDS: u32 = 5;
/// The time limit of one answer, after which the measurement is abandoned.
const PATIENCE: Duration = Duration::from_secs(30);

/// The order of the requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    SideBySide,
    InTurn,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::SideBySide => "side by side",
            Self::InTurn => "one after another",
        }
    }
}

/// Measures both alternately, with each delay and order.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for ((order, most), (count, delays)) in
        ORDERS.into_iter().flat_map(|order| AUTOMATIONS.map(|automations| (order, automations)))
    {
        for &(delay, how) in delays {
            let name = match count {
                1 => format!("{GETS} GETs {}, {how}", order.name()),
                count => format!("{GETS} GETs {}, {how}, {count} automations in turn", order.name()),
            };
            beside_a_client(terms, report, order, most, count, delay, &name).await?;
        }
    }
    Ok(())
}

async fn beside_a_client(
    terms: Terms<'_>,
    report: &mut Report,
    order: Order,
    most: f64,
    count: usize,
    delay: Duration,
    name: &str,
) -> Result<(), Error> {
    let asked = Server::start(delay).await?;
    let url = format!("http://{}/", asked.address());
    let project = Project::new()?;
    let (text, body) = match order {
        Order::SideBySide => (project::gets(GETS, &url), url),
        Order::InTurn => (project::gets_in_turn(GETS, &url), format!("{IN_TURN}{url}")),
    };
    for number in 0..count {
        project.put(&numbered_id(number), &format!("name: Measured {number}\n{text}"))?;
    }
    let arguments = ["--outbound-allow", "127.0.0.1"];
    let daemon = Daemon::start_with(terms.processors, &project, &arguments).await?;
    let (process, _folder, address) = start_baseline(terms, Kind::Gets).await?;
    let requests = daemon.paths().await?.iter().map(|path| request("POST", path, b"{}")).collect();
    let mut ours = Side::new(daemon.hooks(), requests, false).await?;
    let mut client = Side::new(address, vec![request("POST", "/", body.as_bytes())], true).await?;
    // Connections are made here, and everything else of the first request of each automation.
    for _ in 0..count {
        ours.ask().await?;
    }
    for side in [&mut ours, &mut client] {
        side.turn(terms.options.time / ROUNDS).await?;
        side.forget();
    }
    let (before, theirs_before) = (cost(daemon.process()), cost(&process));
    for _ in 0..ROUNDS {
        client.turn(terms.options.time / ROUNDS).await?;
        ours.turn(terms.options.time / ROUNDS).await?;
    }
    let costs = (cost(daemon.process()) - before, cost(&process) - theirs_before);
    add(report, name, most, &ours, &client, costs);
    drop((ours, client));
    daemon.stop().await
}

fn add(report: &mut Report, name: &str, most: f64, ours: &Side, client: &Side, costs: (f64, f64)) {
    let rounds = ours.medians.iter().zip(&client.medians);
    let ratio = median(rounds.map(|(ours, client)| ours / client));
    let row = Row::new("gets", format!("{name}, median time"), ours.percentile_us(0.5), Unit::Microseconds);
    let row = row.beside("bare client", client.percentile_us(0.5), ratio);
    report.add(row.target(Some(Target::RatioAtMost(most))));
    for (name, ours, client) in [
        (format!("{name}, 99th percentile time"), ours.percentile_us(0.99), client.percentile_us(0.99)),
        (format!("{name}, processor time"), costs.0 / ours.count(), costs.1 / client.count()),
    ] {
        let row = Row::new("gets", name, ours, Unit::Microseconds);
        report.add(row.beside("bare client", client, ours / client));
    }
}

/// Microseconds of a processor that a process has taken.
fn cost(process: &Process) -> f64 {
    process.processor_time().map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

/// One of the two.
struct Side {
    connection: Connection,
    /// The requests, which are sent in turn.
    requests: Vec<Arc<[u8]>>,
    /// The number of the next request.
    next: usize,
    /// True if it reports its own duration.
    tells: bool,
    times: Histogram,
    /// The median of each turn, in microseconds.
    medians: Vec<f64>,
}

impl Side {
    async fn new(address: SocketAddr, requests: Vec<Arc<[u8]>>, tells: bool) -> Result<Self, Error> {
        let connection = Connection::open(address).await?;
        let times = Histogram::default();
        Ok(Self { connection, requests, next: 0, tells, times, medians: Vec::new() })
    }

    /// Asks again and again for so long.
    async fn turn(&mut self, time: Duration) -> Result<(), Error> {
        let (until, mut times) = (Instant::now() + time, Histogram::default());
        while Instant::now() < until || times.count() == 0 {
            let answered = tokio::time::timeout(PATIENCE, self.ask()).await;
            let late = || Error::Server(format!("no answer within {} s", PATIENCE.as_secs()));
            times.add(answered.map_err(|_| late())??);
        }
        self.medians.push(times.percentile(0.5).as_secs_f64() * 1e6);
        self.times.merge(&times);
        Ok(())
    }

    async fn ask(&mut self) -> Result<Duration, Error> {
        let request = &self.requests[self.next % self.requests.len().max(1)];
        self.next += 1;
        let asked = Instant::now();
        let answer = self.connection.ask(request).await?;
        let took = asked.elapsed();
        let text = String::from_utf8_lossy(answer.body);
        if answer.status != 200 {
            return Err(Error::Server(format!("an answer of status {}: {text}", answer.status)));
        }
        if !self.tells {
            return Ok(took);
        }
        let nanoseconds = text.parse().map_err(|_| Error::Server(format!("`{text}` is no time")))?;
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Discards the previous measurements.
    fn forget(&mut self) {
        (self.times, self.medians) = (Histogram::default(), Vec::new());
    }

    fn percentile_us(&self, share: f64) -> f64 {
        self.times.percentile(share).as_secs_f64() * 1e6
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    fn count(&self) -> f64 {
        self.times.count() as f64
    }
}
