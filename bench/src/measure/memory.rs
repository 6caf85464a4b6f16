//! Memory under a load that stays the same for ten minutes: what grows then grows for ever.

use std::time::Duration;

use super::Terms;
use crate::Error;
use crate::daemon::Daemon;
use crate::driver::{Load, PacedLoad, request};
use crate::project::{self, Project, body};
use crate::report::{Report, Row, Target, Unit, mebibytes};
use crate::statistics::median;

/// Executions a second: 100,000 a minute.
const RATE: f64 = 100_000.0 / 60.0;
/// The duration of the load, and the one of the quick form.
const TIME: Duration = Duration::from_secs(600);
const QUICK: Duration = Duration::from_secs(20);
/// The number of its connections.
const CONNECTIONS: usize = 32;
/// The interval between two reads of the memory.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Beginning and end are compared: of ten minutes the first and the last.
const PARTS: usize = 10;
/// The largest multiple of the first part's memory in the last part: what an allocator keeps varies by more
/// than a few parts in a hundred.
const MAX_RATIO: f64 = 1.1;
/// The share of the requested executions that must be accepted, or the load was too small.
const TAKEN: f64 = 0.99;

/// Measures the daemon with its settings as they come, its history kept as it keeps it.
pub(super) async fn measure(terms: Terms<'_>, report: &mut Report) -> Result<(), Error> {
    let time = if terms.options.quick { QUICK } else { TIME };
    let project = Project::new()?;
    project.put("measured", &project::asynchronous())?;
    let daemon = Daemon::start(terms.processors, &project).await?;
    let Some(idle) = daemon.process().resident() else {
        return Err(Error::Server("this system does not say how much memory a process has".to_owned()));
    };
    let request = request("POST", &daemon.path("measured").await?, &body());
    let load = Load { address: daemon.hooks(), requests: [request].into(), connections: CONNECTIONS };
    let paced = PacedLoad { load, rate: RATE };
    let mut samples = Vec::new();
    let answers = tokio::select! {
        answers = paced.run(time) => answers?,
        error = sample(&daemon, &mut samples) => return Err(error),
    };
    daemon.drained().await?;
    let what = "at 100,000 executions a minute";
    let row = Row::new("memory", format!("taken {what}"), answers.rate(), Unit::PerSecond);
    report.add(row.beside("asked for", RATE, answers.rate() / RATE).target(Some(Target::Ratio(TAKEN))));
    let late = answers.times.percentile(0.99).as_secs_f64() * 1e3;
    let name = format!("99th percentile time of an answer {what}, from when it was due");
    report.add(Row::new("memory", name, late, Unit::Milliseconds));
    let part = (samples.len() / PARTS).max(1);
    let first = median(samples.iter().take(part).copied());
    let last = median(samples.iter().rev().take(part).copied());
    let name = format!("memory in the last tenth of {} s {what}", time.as_secs());
    let row = Row::new("memory", name, last, Unit::Mebibytes).beside("the first tenth", first, last / first);
    report.add(row.target(Some(Target::RatioAtMost(MAX_RATIO))));
    let most = samples.iter().copied().fold(0.0, f64::max);
    let settled = samples.get(part..).unwrap_or_default();
    for (name, value) in [
        ("memory before the load", mebibytes(idle)),
        ("the most memory under it", most),
        (
            "memory a minute more, from the second tenth on",
            slope(settled) * 60.0 / SAMPLE_INTERVAL.as_secs_f64(),
        ),
        ("the store after it", mebibytes(daemon.stored().await?)),
    ] {
        report.add(Row::new("memory", name.to_owned(), value, Unit::Mebibytes));
    }
    daemon.stop().await
}

/// Writes down the daemon's memory again and again, until it is dropped or there is no memory to be seen.
async fn sample(daemon: &Daemon, samples: &mut Vec<f64>) -> Error {
    let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
    // The first comes at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        match daemon.process().resident() {
            Some(bytes) => samples.push(mebibytes(bytes)),
            None => return Error::Server("the daemon ended under the load".to_owned()),
        }
    }
}

/// By how much each is more than the one before, by least squares.
#[expect(clippy::cast_precision_loss, reason = "there are hundreds")]
fn slope(samples: &[f64]) -> f64 {
    let count = samples.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, samples.iter().sum::<f64>() / count);
    let from_middle = |index: usize| index as f64 - middle;
    let rises = samples.iter().enumerate().map(|(index, value)| from_middle(index) * (value - mean));
    let squares = (0..samples.len()).map(|index| from_middle(index).powi(2)).sum::<f64>();
    if squares > 0.0 { rises.sum::<f64>() / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_gain_from_one_sample_to_the_next() {
        assert!((slope(&[1.0, 1.5, 2.0, 2.5]) - 0.5).abs() < 1e-9);
        assert!(slope(&[7.0, 9.0, 7.0]).abs() < 1e-9);
        assert_eq!((slope(&[]), slope(&[3.0])), (0.0, 0.0));
    }
}
