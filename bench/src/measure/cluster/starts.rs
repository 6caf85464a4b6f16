//! The time from the acknowledgement of an event until the execution that it starts calls a server: on the daemon that delivers it, and
//! from another one.

use std::time::{Duration, Instant, SystemTime};

use super::failure::BEFORE;
use crate::Error;
use crate::daemon::Daemon;
use crate::database::Database;
use crate::driver::{Connection, authorized_post};
use crate::measure::server::Server;
use crate::process::Shared;
use crate::project::Project;
use crate::report::{Report, Row, Target, Unit};
use crate::statistics::Histogram;

/// The events, one after the other, and the time limit for each start.
const EVENTS: usize = 500;
const PATIENCE: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_micros(200);
/// The milliseconds after which 99 of 100 have started at most, on one daemon and from another one.
const ON_ONE_MS: f64 = 20.0;
const FROM_ANOTHER_MS: f64 = 50.0;
const ALLOW: [&str; 2] = ["--outbound-allow", "127.0.0.1"];

/// Measures both.
pub(super) async fn measure(shared: &Shared, report: &mut Report) -> Result<(), Error> {
    let server = Server::start(Duration::ZERO).await?;
    let projects = [project(&server)?, project(&server)?, project(&server)?];
    let alone = Daemon::start_with(shared.processors(), &projects[0], &ALLOW).await?;
    let on_one = starts(&server, &alone).await?;
    alone.stop().await?;
    let database = Database::start(shared.processors())?;
    let url = database.url();
    let one = Daemon::join_with(shared.processors(), &projects[1], &url, &ALLOW).await?;
    let other = Daemon::join_with(shared.processors(), &projects[2], &url, &ALLOW).await?;
    // A node that has joined gets its shards within some seconds.
    tokio::time::sleep(BEFORE).await;
    let mut of_nodes = [starts(&server, &one).await?, starts(&server, &other).await?];
    one.stop().await?;
    other.stop().await?;
    // The slower one does not have the shard of the event.
    of_nodes.sort_by_key(|times| times.percentile(0.5));
    let [delivering, from_another] = of_nodes;
    for (what, times, most) in [
        ("one daemon", on_one, ON_ONE_MS),
        ("the delivering one of two nodes", delivering, ON_ONE_MS),
        ("the other one of two nodes", from_another, FROM_ANOTHER_MS),
    ] {
        for (name, share, target) in
            [("median", 0.5, None), ("99th percentile", 0.99, Some(Target::AtMost(most)))]
        {
            let name = format!("start by an event that was sent to {what}, {name}");
            let value = times.percentile(share).as_secs_f64() * 1e3;
            report.add(Row::new("cluster", name, value, Unit::Milliseconds).target(target));
        }
    }
    Ok(())
}

/// A project with an automation that an event starts, and that calls a server.
fn project(server: &Server) -> Result<Project, Error> {
    let project = Project::new()?;
    let url = format!("http://{}/", server.address());
    let text = format!(
        "trigger: {{event: paid}}\nsteps:\n  - action: http.request\n    with: {{method: POST, url: \"{url}\", body: {{n: 1}}}}\n"
    );
    project.put("consumer", &text)?;
    Ok(project)
}

/// Sends events to a daemon, each after the start by the one before.
async fn starts(server: &Server, daemon: &Daemon) -> Result<Histogram, Error> {
    let mut connection = Connection::open(daemon.admin()).await?;
    let request = authorized_post("/api/v1/events", &daemon.token()?, br#"{"name": "paid", "data": 1}"#);
    let mut times = Histogram::default();
    for _ in 0..EVENTS {
        let before = server.arrivals().len();
        let answer = connection.ask(&request).await?;
        if answer.status != 200 {
            let text = String::from_utf8_lossy(answer.body).into_owned();
            return Err(Error::Server(format!("an event was answered {}: {text}", answer.status)));
        }
        let sent = now();
        let deadline = Instant::now() + PATIENCE;
        let arrived = loop {
            if let Some(arrived) = server.arrival(before) {
                break arrived;
            }
            if Instant::now() > deadline {
                return Err(Error::Server("an event started nothing".to_owned()));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        };
        // It may arrive before the acknowledgement.
        times.add(arrived.duration_since(sent).unwrap_or_default());
    }
    Ok(times)
}

#[expect(clippy::disallowed_methods, reason = "the server records arrivals by the clock of the machine")]
fn now() -> SystemTime {
    SystemTime::now()
}
