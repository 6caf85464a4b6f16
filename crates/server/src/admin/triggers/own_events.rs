//! The own events of a project, and the events kept for steps that wait later.

use axum::extract::State;
use jiff::Timestamp;
use runtime::{KeptEvent, OwnEvent};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::admin::executions::large;
use crate::admin::extract::{self, Answer, Query};
use crate::admin::{Problem, Shared};

/// Default and maximum number of kept events on a page. An event has up to 1 MiB.
const PAGE: u32 = 20;

/// The own events.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnEvents {
    /// By name.
    events: Vec<OwnEvent>,
}

/// List the own events: who sends them, who waits for them, what they start, and how many are on their way
#[utoipa::path(
    get, path = "/api/v1/own-events", tag = "automations",
    responses((status = 200, description = "The events that automations in force name, or that are on their way", body = OwnEvents)),
)]
pub(crate) async fn list(State(api): Shared) -> Result<Answer<OwnEvents>, Problem> {
    Ok(Answer::ok(OwnEvents { events: api.engine.context().own_events().await? }))
}

/// The events of a name that are kept.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct KeptQuery {
    /// The name of the event.
    #[param(example = "order.paid")]
    name: String,
    /// The `next` of the page before.
    after: Option<String>,
    /// Maximum number: 1 to 20. Default: 20.
    #[param(minimum = 1, maximum = 20)]
    limit: Option<u32>,
}

/// A page of kept events.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptEvents {
    /// Oldest first.
    events: Vec<KeptEventView>,
    /// The `after` of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// An event that is kept for steps that wait for it later.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KeptEvent)]
struct KeptEventView {
    /// The id of the event.
    id: String,
    /// The sender, in words; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// When it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_at: Option<Timestamp>,
    /// When it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// Its data; values over 4 KiB are replaced by `{"$large": {at, bytes, type, start}}`.
    #[schema(value_type = value::Json)]
    data: serde_json::Value,
}

impl From<KeptEvent> for KeptEventView {
    fn from(event: KeptEvent) -> Self {
        let mut data = event.signal.data.to_serde();
        large::cut(&mut data, "/data", None);
        Self { id: event.signal.id, by: event.signal.by, sent_at: event.sent_at, until: event.until, data }
    }
}

/// The events with a name that are kept for steps that wait for them later
#[utoipa::path(
    get, path = "/api/v1/own-events/kept", tag = "automations", params(KeptQuery),
    responses((status = 200, description = "A page of them, oldest first", body = KeptEvents)),
)]
pub(crate) async fn kept(
    State(api): Shared,
    Query(query): Query<KeptQuery>,
) -> Result<Answer<KeptEvents>, Problem> {
    let limit = extract::limit(query.limit, PAGE, PAGE)?;
    let context = api.engine.context();
    let (events, next) = context.kept_events(&query.name, query.after.as_deref(), limit).await?;
    Ok(Answer::ok(KeptEvents { events: events.into_iter().map(KeptEventView::from).collect(), next }))
}
