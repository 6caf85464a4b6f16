//! `/metrics`: the state of the daemon for a monitoring system, in the OpenMetrics text form.
//!
//! The engine counts with plain atomics; names, labels and the text form are made here, when somebody asks.

mod family;
mod read;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::admin::{Problem, Shared};

/// The media type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of the older form of Prometheus, for clients that take no other.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of the daemon, for Prometheus and others
#[utoipa::path(
    get, path = "/metrics", tag = "status",
    responses((
        status = 200, description = "OpenMetrics; the text form 0.0.4 of Prometheus if `accept` has only `text/plain`",
        body = String, content_type = "application/openmetrics-text",
    )),
)]
pub(crate) async fn metrics(State(api): Shared, headers: HeaderMap) -> Result<Response, Problem> {
    let families = read::families(&api.engine).await?;
    let (media_type, text) = match takes_plain_only(&headers) {
        true => (PLAIN, family::plain(families)),
        false => (OPEN_METRICS, family::open_metrics(families)),
    };
    let text = text.map_err(|error| Problem::internal(&error))?;
    Ok(([(CONTENT_TYPE, media_type)], text).into_response())
}

/// True if a client names `text/plain` and not OpenMetrics.
fn takes_plain_only(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let (mut plain, mut open_metrics) = (false, false);
    for media_type in accepted.flat_map(|field| field.split(',')) {
        let name = media_type.split(';').next().unwrap_or_default().trim();
        plain |= name.eq_ignore_ascii_case("text/plain");
        open_metrics |= name.eq_ignore_ascii_case("application/openmetrics-text");
    }
    plain && !open_metrics
}
