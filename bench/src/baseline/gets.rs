//! A client that only sends requests, concurrently or one after another: the baseline of an execution that does the same.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::Error;

/// The number of requests.
pub(crate) const GETS: usize = 10;
/// The number of kept connections, and their idle time: the same as the daemon's.
const KEPT: usize = 16;
const KEPT_FOR: Duration = Duration::from_secs(30);
/// The time limit of an answer: the same as the daemon's.
const PATIENCE: Duration = Duration::from_secs(60);

/// The library that the daemon sends with, with the daemon's settings and nothing around it.
#[expect(
    clippy::disallowed_methods,
    reason = "what the guard and the limits cost is part of what is measured"
)]
pub(crate) fn client() -> Result<reqwest::Client, Error> {
    connector::install_crypto();
    let client = reqwest::Client::builder()
        .user_agent("cogwork-bench")
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .timeout(PATIENCE)
        .pool_idle_timeout(KEPT_FOR)
        .pool_max_idle_per_host(KEPT)
        .build();
    client.map_err(|error| Error::Server(format!("the bare client: {error}")))
}

/// The prefix of a body that asks for requests one after another.
pub(crate) const IN_TURN: &str = "in turn ";

/// Sends the requests to the address in `body`, and returns the time from the first request to the end of the last
/// answer, in nanoseconds. The incoming request and the answer to it are not part of that time.
pub(super) async fn timed(client: &reqwest::Client, body: &Bytes) -> Result<String, Error> {
    let url =
        std::str::from_utf8(body).map_err(|_| Error::Server("an address that is no text".to_owned()))?;
    let (url, in_turn) = url.strip_prefix(IN_TURN).map_or((url, false), |url| (url, true));
    let get = async || client.get(url).send().await?.error_for_status()?.bytes().await;
    let started = Instant::now();
    let answers = if in_turn {
        let mut answers = Vec::with_capacity(GETS);
        for _ in 0..GETS {
            answers.push(get().await.map_err(|error| Error::Server(error.to_string()))?);
        }
        answers
    } else {
        try_join_all((0..GETS).map(|_| get())).await.map_err(|error| Error::Server(error.to_string()))?
    };
    let took = started.elapsed();
    drop(answers);
    Ok(took.as_nanos().to_string())
}
