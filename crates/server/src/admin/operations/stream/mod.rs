//! One stream of news for everything that a page shows.

mod hub;
mod samples;
mod topic;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as ServerEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::{IntoParams, ToSchema};

use crate::admin::extract::Query;
use crate::admin::{Api, Problem, Shared};
pub(crate) use hub::Hub;
use hub::{After, Burst, News};
use topic::Topic;

/// Maximum number of executions that a message names.
const NAMED: usize = 100;
/// The time after which a quiet stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The topics that a stream follows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct StreamQuery {
    /// Topics with commas between them: `catalog`, `executions`, `execution:ID`, `listen:AUTOMATION`, `bulk:ID`,
    /// `polls`, `subscriptions`, `connections`.
    #[param(example = "catalog,executions")]
    topics: String,
}

/// A message of the stream. Its event has the name of the variant in lower case.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum StreamMessage {
    Catalog(CatalogMessage),
    Executions(ExecutionsMessage),
    Execution(ExecutionMessage),
    Listen(ListenMessage),
    Bulk(BulkMessage),
    Polls(PollsMessage),
    Subscriptions(SubscriptionsMessage),
    Connections(ConnectionsMessage),
    Resync(ResyncMessage),
    Dropped(DroppedMessage),
}

impl StreamMessage {
    /// The name of its event.
    fn name(&self) -> &'static str {
        match self {
            Self::Catalog(_) => "catalog",
            Self::Executions(_) => "executions",
            Self::Execution(_) => "execution",
            Self::Listen(_) => "listen",
            Self::Bulk(_) => "bulk",
            Self::Polls(_) => "polls",
            Self::Subscriptions(_) => "subscriptions",
            Self::Connections(_) => "connections",
            Self::Resync(_) => "resync",
            Self::Dropped(_) => "dropped",
        }
    }
}

/// Another snapshot of the project is in force.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CatalogMessage {
    generation: u64,
}

/// Executions went on since the previous message, of which there are at most four a second.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionsMessage {
    /// Number of executions that came to each status.
    statuses: BTreeMap<&'static str, usize>,
    /// Where some of them stand now, at most 100.
    executions: Vec<ExecutionMessage>,
    /// Number of further executions.
    more: usize,
    /// True if there may be even more that were not counted.
    uncounted: bool,
}

/// An execution went on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionMessage {
    id: String,
    /// Absent if it may have gone on: there were too many executions to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    automation: Option<String>,
    /// Where it stands now; absent where `automation` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<model::Status>,
}

/// A listening session has changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListenMessage {
    automation: String,
}

/// An operation on many executions went on, or ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkMessage {
    /// The id of the operation.
    id: String,
}

/// Polls were made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PollsMessage {
    /// Of these automations.
    automations: Vec<String>,
}

/// Subscriptions at other applications were made or taken back, or that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubscriptionsMessage {
    /// Of these automations.
    automations: Vec<String>,
}

/// The health of connections has changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConnectionsMessage {
    /// Of these connections.
    connections: Vec<String>,
}

/// News may be missing before this message: what is shown has to be read anew.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResyncMessage {
    /// Why, in words.
    reason: String,
}

/// The stream ends, since its reader was too slow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DroppedMessage {
    /// Why, in words.
    reason: String,
    /// Number of missed messages.
    missed: u64,
}

/// Stream news of these topics
///
/// Server-sent events. Each has an `id`: sent back as `Last-Event-ID`, the stream goes on after it, or begins with `resync`
/// if what was missed is not known any more. `open` begins a stream without such an id. A reader that is too slow gets
/// `dropped` with the reason; `closing` says that the daemon stops. The stream ends after both.
#[utoipa::path(
    get, path = "/api/v1/stream", tag = "status", params(StreamQuery),
    responses((status = 200, description = "The news", body = StreamMessage, content_type = "text/event-stream")),
)]
pub(crate) async fn stream(
    State(api): Shared,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let topics = Topic::parse_list(&query.topics)?;
    let permit = api.stream_permit()?;
    if api.hub.enter(&topics) {
        // Subscribed before `open` is sent: nothing that happens after it is missed.
        let notices = api.engine.subscribe();
        api.tasks.spawn(Arc::clone(&api.hub).run(api.engine.clone(), notices, api.closing.clone()));
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let reader = Reader::new(api, topics, last, permit);
    Ok(Sse::new(reader.into_stream()).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

struct Reader {
    api: Arc<Api>,
    topics: Vec<Topic>,
    /// The id of the last message that was looked at.
    place: u64,
    newest: watch::Receiver<u64>,
    queue: VecDeque<ServerEvent>,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.api.hub.leave(&self.topics);
    }
}

impl Reader {
    fn new(api: Arc<Api>, topics: Vec<Topic>, last: Option<&str>, permit: OwnedSemaphorePermit) -> Self {
        let (newest, changes) = api.hub.newest();
        let known = last.and_then(|id| api.hub.place(id));
        let mut reader = Self {
            place: known.unwrap_or(newest),
            api,
            topics,
            newest: changes,
            queue: VecDeque::new(),
            ended: false,
            _permit: permit,
        };
        match (last, known) {
            (Some(_), Some(_)) => return reader,
            (Some(_), None) => {
                let reason = "what came after this id is not known any more".to_owned();
                reader.push(&StreamMessage::Resync(ResyncMessage { reason }));
            }
            (None, _) => reader.push_empty("open"),
        }
        reader.mark();
        reader
    }

    fn into_stream(self) -> impl Stream<Item = Result<ServerEvent, Infallible>> {
        stream::unfold(self, async |mut reader| reader.next().await.map(|event| (Ok(event), reader)))
    }

    async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            self.newest.mark_unchanged();
            match self.api.hub.after(self.place) {
                After::Missed(missed) => {
                    let reason = "the reader was too slow".to_owned();
                    self.push(&StreamMessage::Dropped(DroppedMessage { reason, missed }));
                    self.ended = true;
                }
                After::Messages(messages) if messages.is_empty() => self.wait().await,
                After::Messages(messages) => {
                    for message in messages {
                        self.place = message.id;
                        self.take(&message.news);
                    }
                }
            }
        }
    }

    async fn wait(&mut self) {
        let closing = self.api.closing.clone();
        tokio::select! {
            biased;
            () = closing.cancelled() => {
                self.push_empty("closing");
                self.ended = true;
            }
            // The hub lives as long as the API.
            _ = self.newest.changed() => {}
        }
    }

    /// Queues the events that news becomes for the topics of this stream.
    fn take(&mut self, news: &News) {
        let before = self.queue.len();
        match news {
            News::Catalog { generation } if self.topics.contains(&Topic::Catalog) => {
                self.push(&StreamMessage::Catalog(CatalogMessage { generation: *generation }));
            }
            News::Executions(burst) => self.take_burst(burst),
            News::Sampled { topic, message } if self.topics.contains(topic) => self.push(message),
            News::Catalog { .. } | News::Sampled { .. } => {}
        }
        if self.queue.len() > before {
            self.mark();
        }
    }

    fn take_burst(&mut self, burst: &Burst) {
        let one =
            |(id, (automation, status)): (&model::ExecutionId, &(model::AutomationId, model::Status))| {
                let (automation, status) = (Some(automation.to_string()), Some(*status));
                ExecutionMessage { id: id.to_string(), automation, status }
            };
        let mut followed = Vec::new();
        for topic in &self.topics {
            match topic {
                Topic::Executions => {
                    let message = ExecutionsMessage {
                        statuses: burst.statuses.clone(),
                        executions: burst.changed.iter().take(NAMED).map(one).collect(),
                        more: burst.changed.len().saturating_sub(NAMED),
                        uncounted: burst.is_cut,
                    };
                    followed.push(StreamMessage::Executions(message));
                }
                Topic::Execution(id) => match burst.changed.get_key_value(id) {
                    Some(found) => followed.push(StreamMessage::Execution(one(found))),
                    None if burst.is_cut => {
                        let message = ExecutionMessage { id: id.to_string(), automation: None, status: None };
                        followed.push(StreamMessage::Execution(message));
                    }
                    None => {}
                },
                _ => {}
            }
        }
        followed.iter().for_each(|message| self.push(message));
    }

    fn push(&mut self, message: &StreamMessage) {
        let data = serde_json::to_string(message).unwrap_or_default();
        self.queue.push_back(ServerEvent::default().event(message.name()).data(data));
    }

    /// Queues an event without data.
    fn push_empty(&mut self, name: &'static str) {
        self.queue.push_back(ServerEvent::default().event(name).data("{}"));
    }

    /// Gives the last queued event the id of this place: with fewer events a reader would skip the others of a message.
    fn mark(&mut self) {
        if let Some(event) = self.queue.pop_back() {
            self.queue.push_back(event.id(self.api.hub.id(self.place)));
        }
    }
}
