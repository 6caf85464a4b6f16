//! Projects of different sizes: how soon the daemon is there, how much memory it takes, how soon a change is in force.

use std::time::{Duration, Instant};

use super::Terms;
use crate::Error;
use crate::daemon::Daemon;
use crate::driver::{Connection, request};
use crate::project::{Project, numbered, numbered_id};
use crate::report::{Report, Row, Target, Unit, mebibytes};
use crate::statistics::median;

/// The numbers of automations, with the milliseconds that starting may take and the mebibytes of memory.
const SIZES: [(usize, f64, f64); 3] = [(1, 30.0, 25.0), (1000, 300.0, 40.0), (LARGEST, 3000.0, 150.0)];
const LARGEST: usize = 10_000;
/// The largest in the quick form.
const QUICK: usize = 1000;
/// The number of starts of a daemon after its first start.
const STARTS: usize = 3;
/// The number of saves of a file.
const SAVES: usize = 15;
/// The milliseconds that a change may take to be in force.
const RELOAD_MS: f64 = 50.0;
/// The time limit of a change, after which the measurement is abandoned.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time after which an idle daemon's memory is read: it has read its folder again, and freed all that it could.
const IDLE: Duration = Duration::from_secs(5);

/// Starting and idling.
pub(super) async fn start(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    for (size, most_ms, most_mib) in sizes(terms) {
        let project = Project::of_size(size)?;
        let what = automations(size);
        let first = Daemon::start(terms.processors, &project).await?;
        let first_ms = first.came_up_in.as_secs_f64() * 1e3;
        first.stop().await?;
        let mut times = Vec::with_capacity(STARTS);
        let mut resident = None;
        for turn in 1..=STARTS {
            let daemon = Daemon::start(terms.processors, &project).await?;
            times.push(daemon.came_up_in.as_secs_f64() * 1e3);
            if turn == STARTS {
                tokio::time::sleep(IDLE).await;
                resident = daemon.process().resident();
            }
            daemon.stop().await?;
        }
        let name = format!("first start with {what}");
        report.add(Row::new("start", name, first_ms, Unit::Milliseconds));
        let row = Row::new("start", format!("start with {what}"), median(times), Unit::Milliseconds);
        report.add(row.target(Some(Target::AtMost(most_ms))));
        if let Some(bytes) = resident {
            let name = format!("idle memory with {what}");
            let row = Row::new("start", name, mebibytes(bytes), Unit::Mebibytes);
            report.add(row.target(Some(Target::AtMost(most_mib))));
        }
    }
    Ok(())
}

/// Saving one file among many, beside saving the only one there is: it should cost no more.
pub(super) async fn reload(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let mut alone = None;
    for (size, ..) in sizes(terms) {
        let times = saves(terms, size).await?;
        let Some(alone) = &alone else {
            let name = "the only file saved, until it is in force".to_owned();
            report.add(Row::new("reload", name, median(times.clone()), Unit::Milliseconds));
            alone = Some(times);
            continue;
        };
        let ratio = median(times.clone()) / median(Vec::clone(alone));
        let name = format!("one file saved among {}, until it is in force", automations(size));
        let row = Row::new("reload", name, median(times), Unit::Milliseconds);
        let row = row.beside("the only file", median(Vec::clone(alone)), ratio);
        report.add(row.target((size == LARGEST).then_some(Target::AtMost(RELOAD_MS))));
    }
    Ok(())
}

/// The milliseconds that each of several saves takes to be in force.
async fn saves(terms: Terms<'_>, size: usize) -> Result<Vec<f64>, Error> {
    let project = Project::of_size(size)?;
    let daemon = Daemon::start(terms.processors, &project).await?;
    let number = size / 2;
    let id = numbered_id(number);
    // The answer to OPTIONS names the version in force, and starts nothing.
    let ask = request("OPTIONS", &daemon.path(&id).await?, b"");
    let mut connection = Connection::open(daemon.hooks()).await?;
    let mut times = Vec::with_capacity(SAVES);
    for save in 0..SAVES {
        let methods = if save % 2 == 0 { "POST, PUT" } else { "POST" };
        project.put(&id, &numbered(number, methods))?;
        let saved = Instant::now();
        wait_until_allowed(&mut connection, &ask, methods).await?;
        times.push(saved.elapsed().as_secs_f64() * 1e3);
    }
    drop(connection);
    daemon.stop().await?;
    Ok(times)
}

async fn wait_until_allowed(connection: &mut Connection, ask: &[u8], methods: &str) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let answer = connection.ask(ask).await?;
        if allowed(answer.head) == Some(methods) {
            return Ok(());
        }
        // Without a pause the questions would take the time that the answer needs.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err(Error::Server(format!("a change was not in force after {} s", PATIENCE.as_secs())))
}

/// The value of the header `allow`.
fn allowed(head: &[u8]) -> Option<&str> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    lines.find_map(|line| line.strip_prefix("allow:").map(str::trim))
}

fn sizes(terms: Terms<'_>) -> impl Iterator<Item = (usize, f64, f64)> {
    SIZES.into_iter().filter(move |(size, ..)| !terms.options.quick || *size <= QUICK)
}

fn automations(count: usize) -> String {
    match count {
        1 => "1 automation".to_owned(),
        10_000 => "10,000 automations".to_owned(),
        1000 => "1,000 automations".to_owned(),
        other => format!("{other} automations"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowed_methods_are_read_from_the_head() {
        assert_eq!(allowed(b"HTTP/1.1 204 No Content\r\nallow: POST, PUT\r\n\r\n"), Some("POST, PUT"));
        assert_eq!(allowed(b"HTTP/1.1 204 No Content\r\n\r\n"), None);
    }
}
