//! The stream of change notices: names only; clients fetch the details.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event as ServerEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use runtime::EngineEvent;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::admin::{Api, Problem, Shared};

/// Stream changes as they happen
///
/// Server-sent events. `catalog`: another `generation` of the folder is in force. `execution`: the execution `id` of
/// `automation` went on and stands at `status`. `dropped`: the reader was too slow and `missed` as many; the stream
/// ends, and whoever comes back should ask for the lists again. `closing`: the daemon stops, and the stream ends.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "executions",
    responses((status = 200, description = "The events", body = String, content_type = "text/event-stream")),
)]
pub(crate) async fn events(State(api): Shared) -> Result<Response, Problem> {
    let permit = api.stream_permit()?;
    let notices = api.engine.subscribe();
    let watch = Watch { api, notices, ended: false, _permit: permit };
    Ok(Sse::new(watch.into_stream()).keep_alive(KeepAlive::default()).into_response())
}

struct Watch {
    api: Arc<Api>,
    notices: Receiver<EngineEvent>,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl Watch {
    fn into_stream(self) -> impl Stream<Item = Result<ServerEvent, Infallible>> {
        stream::unfold(self, async |mut watch| watch.next().await.map(|event| (Ok(event), watch)))
    }

    async fn next(&mut self) -> Option<ServerEvent> {
        if self.ended {
            return None;
        }
        let notice = tokio::select! {
            biased;
            () = self.api.closing.cancelled() => {
                self.ended = true;
                return Some(ServerEvent::default().event("closing").data("{}"));
            }
            notice = self.notices.recv() => notice,
        };
        let (name, data) = match notice {
            Ok(EngineEvent::CatalogChanged { generation }) => {
                ("catalog", json!({ "generation": generation }))
            }
            Ok(EngineEvent::ExecutionEvents { id, automation, status, .. }) => {
                ("execution", json!({ "id": id, "automation": automation, "status": status.as_str() }))
            }
            Err(RecvError::Lagged(missed)) => {
                self.ended = true;
                ("dropped", json!({ "missed": missed }))
            }
            Err(RecvError::Closed) => return None,
        };
        Some(ServerEvent::default().event(name).data(data.to_string()))
    }
}
