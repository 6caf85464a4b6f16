//! Requests at a constant rate, independent of the time of the answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{Answers, Connection, Load, ask};
use crate::Error;
use crate::statistics::Histogram;

/// A load in which each request has its own instant.
#[derive(Clone)]
pub(crate) struct PacedLoad {
    /// The requests and their address. The connections alternate; a late one catches up by sending at once.
    pub(crate) load: Load,
    /// Requests a second.
    pub(crate) rate: f64,
}

impl PacedLoad {
    /// Sends what is due within `time`, and waits for the answers. A time is counted from when its request was due, so
    /// that the wait for others is included. An answer other than 200 ends it.
    pub(crate) async fn run(&self, time: Duration) -> Result<Answers, Error> {
        let open = self.load.connect().await?;
        let (started, count) = (Instant::now(), due_within(time, self.rate));
        let mut tasks = JoinSet::new();
        for (first, connection) in open.into_iter().enumerate() {
            let turns = (first as u64..count).step_by(self.load.connections);
            let turns = turns.map(due_at(self.rate)).map(move |offset| started + offset);
            tasks.spawn(keep_pace(connection, self.load.requests_from(first), turns));
        }
        self.load.answers(tasks, started, time, "fell behind the load by").await
    }
}

async fn keep_pace(
    mut connection: Connection,
    requests: impl Iterator<Item = Arc<[u8]>>,
    turns: impl Iterator<Item = Instant>,
) -> Result<Histogram, Error> {
    let mut times = Histogram::default();
    for (due, request) in turns.zip(requests) {
        tokio::time::sleep_until(due.into()).await;
        ask(&mut connection, &request).await?;
        times.add(due.elapsed());
    }
    Ok(times)
}

/// The number of requests that are due within this time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an hour has millions of them")]
fn due_within(time: Duration, rate: f64) -> u64 {
    (time.as_secs_f64() * rate).round() as u64
}

/// When the numbered request is due, from the start.
fn due_at(rate: f64) -> impl Fn(u64) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "an hour has millions of them")]
    move |number| Duration::from_secs_f64(number as f64 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spread_evenly_over_the_time() {
        let rate = 100_000.0 / 60.0;
        assert_eq!(due_within(Duration::from_secs(60), rate), 100_000);
        assert_eq!(due_at(rate)(50_000), Duration::from_secs(30));
    }
}
