//! A client that does nothing but send requests side by side: what an execution that does the same is compared with.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::Error;

/// How many requests go out side by side.
pub(crate) const GETS: usize = 10;
/// How many connections are kept, and for how long: as the daemon keeps them.
const KEPT: usize = 16;
const KEPT_FOR: Duration = Duration::from_secs(30);
/// How long an answer may take, as the daemon's.
const PATIENCE: Duration = Duration::from_secs(60);

/// The library that the daemon sends with, with the daemon's settings and nothing around it.
#[expect(
    clippy::disallowed_methods,
    reason = "what the guard and the limits cost is part of what is measured"
)]
pub(super) fn client() -> Result<reqwest::Client, Error> {
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

/// Gets what is at the address in `body` so many times side by side, and says how many nanoseconds that took from the
/// first request to the end of the last answer. That it was asked for it and tells about it is no part of it.
pub(super) async fn timed(client: &reqwest::Client, body: &Bytes) -> Result<String, Error> {
    let url =
        std::str::from_utf8(body).map_err(|_| Error::Server("an address that is no text".to_owned()))?;
    let started = Instant::now();
    let gets = (0..GETS).map(|_| async { client.get(url).send().await?.error_for_status()?.bytes().await });
    let answers = try_join_all(gets).await.map_err(|error| Error::Server(error.to_string()))?;
    let took = started.elapsed();
    drop(answers);
    Ok(took.as_nanos().to_string())
}
