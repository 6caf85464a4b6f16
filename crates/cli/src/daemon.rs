//! Requests to the daemon that runs on a project's data, if there is one.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::Context as _;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use server::{Client, Events};

use crate::settings::Config;

/// The timeout of a response that needs no work.
const QUICK: Duration = Duration::from_secs(4);

/// An API path; its segments may be any text.
pub(crate) fn path(segments: &[&str]) -> String {
    let escaped =
        segments.iter().map(|segment| format!("/{}", utf8_percent_encode(segment, NON_ALPHANUMERIC)));
    format!("/api/v1{}", escaped.collect::<String>())
}

/// A text as the value of a query parameter.
pub(crate) fn query(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The daemon's response to `GET path`; `None` if no daemon runs.
///
/// # Errors
/// A daemon runs and refuses, or its files cannot be read.
pub(crate) async fn get<T: DeserializeOwned>(config: &Config, path: &str) -> anyhow::Result<Option<T>> {
    let Some(client) = client(config)? else { return Ok(None) };
    match client.get(path).await {
        Ok(answer) => Ok(Some(answer)),
        // It was killed and could not remove its file.
        Err(server::Error::Unreachable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Like [`get`], for a response that needs no work: a slower daemon is waiting itself, such as for its store.
///
/// # Errors
/// A daemon runs and rejects the request or does not respond in time, or its files cannot be read.
pub(crate) async fn get_quickly<T: DeserializeOwned>(
    config: &Config,
    path: &str,
) -> anyhow::Result<Option<T>> {
    let Some(client) = client(config)? else { return Ok(None) };
    match client.within(QUICK).get(path).await {
        Ok(answer) => Ok(Some(answer)),
        Err(server::Error::Unreachable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// True if a daemon runs on the project's data.
///
/// # Errors
/// A daemon runs and refuses, or its files cannot be read.
pub(crate) async fn runs(config: &Config) -> anyhow::Result<bool> {
    Ok(get::<serde_json::Value>(config, "/api/v1/status").await?.is_some())
}

/// The daemon's response to `GET path`.
///
/// # Errors
/// No daemon runs, or it refuses.
pub(crate) async fn fetch<T: DeserializeOwned>(config: &Config, path: &str) -> anyhow::Result<T> {
    heard(config, require(config)?.get(path).await)
}

/// Like [`fetch`], for a response that needs no work.
///
/// # Errors
/// No daemon runs, it refuses, or it does not answer in time.
pub(crate) async fn fetch_quickly<T: DeserializeOwned>(config: &Config, path: &str) -> anyhow::Result<T> {
    let answer = require(config)?.within(QUICK).get(path).await;
    if let Err(error @ server::Error::Slow { .. }) = answer {
        return Err(anyhow::anyhow!(
            "{error}: it waits, perhaps for its store; `cogwork doctor` finds the cause"
        ));
    }
    heard(config, answer)
}

/// The daemon's response to `POST path`.
///
/// # Errors
/// No daemon runs, or it refuses.
pub(crate) async fn post<T: DeserializeOwned>(
    config: &Config,
    path: &str,
    body: &serde_json::Value,
) -> anyhow::Result<T> {
    heard(config, require(config)?.post(path, body).await)
}

/// The daemon's response to `POST path`; `None` if no daemon runs.
///
/// # Errors
/// A daemon runs and refuses, or its files cannot be read.
pub(crate) async fn post_if_running<T: DeserializeOwned>(
    config: &Config,
    path: &str,
    body: &impl Serialize,
) -> anyhow::Result<Option<T>> {
    let Some(client) = client(config)? else { return Ok(None) };
    match client.post(path, body).await {
        Ok(answer) => Ok(Some(answer)),
        Err(server::Error::Unreachable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The daemon's response to JSON lines at `POST path`.
///
/// # Errors
/// No daemon runs, or it refuses.
pub(crate) async fn post_lines<T: DeserializeOwned>(
    config: &Config,
    path: &str,
    lines: Vec<u8>,
) -> anyhow::Result<T> {
    heard(config, require(config)?.post_lines(path, lines).await)
}

/// The events that the daemon streams at `path`.
///
/// # Errors
/// No daemon runs, or it rejects the request.
pub(crate) async fn events(config: &Config, path: &str) -> anyhow::Result<Events> {
    heard(config, require(config)?.events(path).await)
}

/// The daemon's response to `PUT path`.
///
/// # Errors
/// No daemon runs, or it refuses.
pub(crate) async fn put<T: DeserializeOwned>(
    config: &Config,
    path: &str,
    body: &serde_json::Value,
) -> anyhow::Result<T> {
    heard(config, require(config)?.put(path, body).await)
}

/// The daemon's response to `PUT path` that replaces the version `etag`; with `None` it must not exist.
///
/// # Errors
/// No daemon runs, or it refuses.
pub(crate) async fn put_version<T: DeserializeOwned>(
    config: &Config,
    path: &str,
    body: &serde_json::Value,
    etag: Option<&str>,
) -> anyhow::Result<T> {
    heard(config, require(config)?.put_version(path, body, etag).await)
}

/// The daemon's response to `DELETE path`.
///
/// # Errors
/// No daemon runs, or it refuses.
pub(crate) async fn delete<T: DeserializeOwned>(config: &Config, path: &str) -> anyhow::Result<T> {
    heard(config, require(config)?.delete(path).await)
}

/// A client of the daemon that runs on the project's data.
///
/// # Errors
/// There is no record of a running daemon, or its files cannot be read.
pub(crate) fn require(config: &Config) -> anyhow::Result<Client> {
    client(config)?.with_context(|| none(config))
}

fn heard<T>(config: &Config, answer: Result<T, server::Error>) -> anyhow::Result<T> {
    match answer {
        // It was killed and could not remove its file.
        Err(error @ server::Error::Unreachable { .. }) => Err(error).with_context(|| none(config)),
        answer => Ok(answer?),
    }
}

fn none(config: &Config) -> String {
    format!("no daemon runs on `{}`; start one with `cogwork serve`", config.data_dir.display())
}

fn client(config: &Config) -> anyhow::Result<Option<Client>> {
    match Client::of_folder(&config.data_dir, config.admin_token.as_ref()) {
        Err(error @ server::Error::File { .. }) if is_forbidden(&error) => Err(anyhow::anyhow!(
            "{error}; run this as the user of the daemon, or give its token with COGWORK_ADMIN_TOKEN"
        )),
        found => Ok(found?),
    }
}

fn is_forbidden(error: &server::Error) -> bool {
    matches!(error, server::Error::File { source, .. } if source.kind() == ErrorKind::PermissionDenied)
}

/// A runtime for a command that waits for one operation at a time.
///
/// # Errors
/// The system gives no threads or timers.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}
