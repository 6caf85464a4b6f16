//! One execution as a stream of events: what is stored, then what happens, until its end.
//!
//! The store is the truth: a notice of the engine only says that it is time to look again. So a reader that is slow,
//! or comes back after its connection broke, misses nothing and sees nothing twice.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as ServerEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use engine::Engine;
use futures_util::{Stream, stream};
use http::HeaderMap;
use http::header::ACCEPT;
use model::{Event, ExecutionId, LogLine, Outcome};
use runtime::{EngineEvent, ReadMemory};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Interval, MissedTickBehavior};
use utoipa::{IntoParams, ToSchema};

use super::recorded::{Cuts, Recorded, on_thread};
use super::{history, large};
use crate::admin::extract::{self, Answer, Query, Segment};
use crate::admin::{Api, Problem, Shared};

/// Log lines read at one time.
const LINES: u32 = 1000;

/// The bytes of the large values of an event up to which a stream has them whole.
const WHOLE: usize = 64 << 10;

/// The time between two looks at an execution that runs on another daemon.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum and default number of events of a page.
const EVENTS: usize = 1000;

/// Page of the events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct EventsQuery {
    /// From the event with this index on, counted from 0. With it, or with `limit`, the answer is a page in JSON.
    after: Option<usize>,
    /// Maximum number: 1 to 1000. Default: 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Events of an execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Events {
    /// Each with its `index`, its `event` (the kind) and `at`. A value over 4 KiB is `{"$large": {at, bytes, type, start}}`.
    #[schema(value_type = Vec<EventInfo>)]
    events: Vec<serde_json::Value>,
    /// The number of stored events.
    total: usize,
    /// The `after` of the events that follow; absent where these are the last ones so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<usize>,
}

/// An event of an execution.
#[derive(ToSchema)]
#[schema(as = Event)]
#[expect(dead_code, reason = "it exists to be described")]
pub(super) struct EventInfo {
    /// The index, from 0.
    index: u32,
    /// The kind: `started`, `stepStarted`, `stepFinished` and so on.
    event: String,
    #[schema(format = DateTime)]
    at: String,
    /// The step, with its turns.
    step: Option<String>,
    /// The number of the attempt.
    attempt: Option<u32>,
    /// The members of this kind.
    #[serde(flatten)]
    others: BTreeMap<String, value::Json>,
}

fn page(events: &[Event], cuts: &Cuts, query: &EventsQuery) -> Result<Answer<Events>, Problem> {
    let (after, limit) = (query.after.unwrap_or(0), extract::limit(query.limit, EVENTS, EVENTS)?);
    let some = events.iter().enumerate().skip(after).take(limit);
    let shown = some.map(|(index, event)| {
        let mut shown = history::event(index, event);
        large::cut(&mut shown, &format!("/events/{index}"), Some(cuts));
        shown
    });
    let end = after.saturating_add(limit);
    let next = Some(end).filter(|end| *end < events.len());
    Ok(Answer::ok(Events { events: shown.collect(), total: events.len(), next }))
}

/// One execution as it happens, or a page of its events
///
/// With `after` or `limit`, or `Accept: application/json`: a page in JSON. Otherwise server-sent events. `event`: one event of the execution with its `index`; a step that begins is told at once,
/// without an index, and again with one when it is stored. `log`: one log line. `end`: the `status` it ended with;
/// the stream ends. `problem`: the events cannot be read; the stream ends. `closing`: the daemon stops, and the stream ends. The `id` of an event, sent back as
/// `Last-Event-ID`, goes on after it. A value of an event over 64 KiB is `{"$large": {at, bytes, type, start}}`.
#[utoipa::path(
    get, path = "/api/v1/executions/{id}/events", tag = "executions",
    params(("id" = String, Path, description = "The execution's id, or a beginning that no other has"), EventsQuery),
    responses(
        (status = 200, description = "The events", content((Events = "application/json"), (String = "text/event-stream"))),
    ),
)]
pub(crate) async fn events(
    State(api): Shared,
    Segment(id): Segment,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if query.after.is_some() || query.limit.is_some() || accepts.starts_with("application/json") {
        let Recorded { events, cuts, .. } = api.recorded(&id).await?;
        return Ok(on_thread(move || page(&events, &cuts, &query)).await?.into_response());
    }
    let permit = api.stream_permit()?;
    // Before the store is read: what is committed in between is then told at least once.
    let notices = api.engine.subscribe();
    let row = api.row(&id).await?;
    let place = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(Place::parse);
    let ticks = api.engine.store().node().map(|_| {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    });
    let follow = Follow {
        api,
        id: row.id,
        notices,
        place: place.unwrap_or_default(),
        queue: VecDeque::new(),
        ticks,
        look: true,
        ended: false,
        _permit: permit,
    };
    Ok(Sse::new(follow.into_stream()).keep_alive(KeepAlive::default()).into_response())
}

impl Api {
    /// A place among the event streams, if there is one.
    pub(crate) fn stream_permit(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let detail = "too many event streams are open";
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| Problem {
            retry_after: Some(5),
            ..Problem::new(http::StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
        })
    }
}

/// Part of an execution that has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    events: usize,
    logs: u32,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (events, logs) = text.split_once('-')?;
        Some(Self { events: events.parse().ok()?, logs: logs.parse().ok()? })
    }

    fn id(self) -> String {
        format!("{}-{}", self.events, self.logs)
    }
}

async fn tick(ticks: Option<&mut Interval>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// An event of the stream that was not sent yet.
enum Queued {
    /// An event with its data.
    Ready(ServerEvent),
    /// An event without its data: its index, and the data with markers of large values.
    Cut(ServerEvent, usize, serde_json::Value, Cuts),
}

/// The data of an event with its large values; if they are more than [`WHOLE`], with `$large` in their place.
async fn complete(
    engine: &Engine,
    index: usize,
    mut shown: serde_json::Value,
    cuts: Cuts,
) -> Result<String, Problem> {
    if cuts.missing_bytes(&shown) > WHOLE {
        large::cut(&mut shown, &format!("/events/{index}"), Some(&cuts));
        return Ok(shown.to_string());
    }
    // Not held while the client reads: it may be slow.
    let row = engine.store().execution(cuts.execution()).await?;
    let memory = match &row {
        Some(row) => Some(engine.context().reserve_for_cut_events(row).await?),
        None => None,
    };
    on_thread(move || {
        let _memory = memory;
        let mut data = Vec::new();
        let written = cuts.write(&shown, false, &mut data);
        written.map_err(|error| Problem::internal(&error))?;
        String::from_utf8(data).map_err(|error| Problem::internal(&error))
    })
    .await
}

struct Follow {
    api: Arc<Api>,
    id: ExecutionId,
    notices: Receiver<EngineEvent>,
    place: Place,
    queue: VecDeque<Queued>,
    /// Looks for what other daemons do, which this one gets no notices of; `None` if there are no others.
    ticks: Option<Interval>,
    /// True if the store may hold more than was sent.
    look: bool,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

impl Follow {
    fn into_stream(self) -> impl Stream<Item = Result<ServerEvent, Infallible>> {
        stream::unfold(self, async |mut follow| follow.next().await.map(|event| (Ok(event), follow)))
    }

    async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            match self.queue.pop_front() {
                Some(Queued::Ready(event)) => return Some(event),
                Some(Queued::Cut(event, index, shown, cuts)) => {
                    match complete(&self.api.engine, index, shown, cuts).await {
                        Ok(data) => return Some(event.data(data)),
                        Err(problem) => {
                            // The client asks for this event again, since it has not got its id.
                            self.queue.clear();
                            self.fail(&problem);
                            continue;
                        }
                    }
                }
                None => {}
            }
            if self.ended {
                return None;
            }
            if std::mem::take(&mut self.look) {
                self.read().await;
            } else {
                self.wait().await;
            }
        }
    }

    /// Waits for something to do with this execution, and takes all that has come until then at one go.
    async fn wait(&mut self) {
        let closing = self.api.closing.clone();
        let mut notice = tokio::select! {
            biased;
            () = closing.cancelled() => {
                self.queue.push_back(Queued::Ready(ServerEvent::default().event("closing").data("{}")));
                self.ended = true;
                return;
            }
            () = tick(self.ticks.as_mut()) => {
                self.look = self.is_ahead_elsewhere().await;
                return;
            }
            notice = self.notices.recv() => notice,
        };
        loop {
            match notice {
                Ok(EngineEvent::ExecutionEvents { id, events, logs, .. }) if id == self.id => {
                    self.take(&events, &logs)
                }
                Ok(_) => {}
                // Missed events are in the store.
                Err(RecvError::Lagged(_)) => self.look = true,
                Err(RecvError::Closed) => {
                    (self.look, self.ended) = (true, true);
                    return;
                }
            }
            notice = match self.notices.try_recv() {
                Ok(notice) => Ok(notice),
                Err(_) => return,
            };
        }
    }

    /// True if the execution does not run here and the store has more events than were sent.
    async fn is_ahead_elsewhere(&self) -> bool {
        if self.api.engine.admission().is_live(self.id) {
            return false;
        }
        match self.api.engine.store().execution(self.id).await {
            Ok(Some(row)) => usize::try_from(row.events).is_ok_and(|events| events > self.place.events),
            Ok(None) => true,
            // It looks again.
            Err(_) => false,
        }
    }

    fn take(&mut self, events: &[Event], logs: &[LogLine]) {
        let begins = |event: &Event| matches!(event, Event::StepStarted { .. });
        // A notice without content says that there is something in the store.
        if events.is_empty() || !logs.is_empty() || !events.iter().all(begins) {
            self.look = true;
            return;
        }
        for event in events {
            let mut shown = history::event(0, event);
            if let Some(entries) = shown.as_object_mut() {
                entries.shift_remove("index");
            }
            let event = ServerEvent::default().event("event").data(shown.to_string());
            self.queue.push_back(Queued::Ready(event));
        }
    }

    /// Queues what the store has beyond what was sent.
    async fn read(&mut self) {
        let store = Arc::clone(self.api.engine.store());
        // Lines before events: a line is stored with or before the event that follows it, so none is left behind
        // when the last event ends the stream.
        let cut = self.cut_events().await;
        let logs = store.logs(self.id, self.place.logs, LINES).await.map_err(Problem::from);
        let (events, cuts, _memory, logs) = match (cut, logs) {
            (Ok(Some((events, cuts, memory))), Ok(logs)) => (events, cuts, memory, logs),
            (Err(problem), _) | (_, Err(problem)) => return self.fail(&problem),
            // Deleted by age during the request.
            (Ok(None), _) => {
                self.ended = true;
                return;
            }
        };
        self.look = logs.len() >= LINES as usize;
        let mut logs = logs.into_iter().peekable();
        // While lines are left for the next look the events wait too, so that the end stays the end.
        let fresh = if self.look { &[][..] } else { events.get(self.place.events..).unwrap_or_default() };
        for event in fresh {
            while let Some(line) = logs.next_if(|line| line.at <= event.at()) {
                self.log(&line);
            }
            if matches!(event, Event::Finished { .. }) {
                logs.by_ref().for_each(|line| self.log(&line));
            }
            self.event(event, &cuts);
        }
        logs.for_each(|line| self.log(&line));
        if let (false, Some(Event::Finished { outcome, .. })) = (self.look, events.last()) {
            self.end(outcome);
        }
    }

    /// The events without their large values, with the memory that they take; `None` if the execution was deleted.
    async fn cut_events(&self) -> Result<Option<(Vec<Event>, Cuts, ReadMemory)>, Problem> {
        let engine = &self.api.engine;
        let Some(row) = engine.store().execution(self.id).await? else { return Ok(None) };
        let read = engine.context().read_cut_events(&row, large::SMALL).await?;
        Ok(read.map(|(cut, memory)| {
            let (events, cuts) = Cuts::new(engine.store().clone(), self.id, cut);
            (events, cuts, memory)
        }))
    }

    fn event(&mut self, event: &Event, cuts: &Cuts) {
        let shown = history::event(self.place.events, event);
        self.place.events += 1;
        if cuts.missing_bytes(&shown) > 0 {
            let event = ServerEvent::default().event("event").id(self.place.id());
            self.queue.push_back(Queued::Cut(event, self.place.events - 1, shown, cuts.clone()));
        } else {
            self.push("event", &shown);
        }
    }

    fn log(&mut self, line: &LogLine) {
        self.place.logs += 1;
        self.push("log", &serde_json::to_value(line).unwrap_or_default());
    }

    fn end(&mut self, outcome: &Outcome) {
        self.push("end", &serde_json::json!({ "status": outcome.status().as_str() }));
        self.ended = true;
    }

    fn push(&mut self, name: &'static str, data: &serde_json::Value) {
        let event = ServerEvent::default().event(name).id(self.place.id()).data(data.to_string());
        self.queue.push_back(Queued::Ready(event));
    }

    /// Sends a problem, without an id, and ends the stream.
    fn fail(&mut self, problem: &Problem) {
        let data = serde_json::to_string(problem).unwrap_or_default();
        self.queue.push_back(Queued::Ready(ServerEvent::default().event("problem").data(data)));
        self.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_position_round_trips_through_its_id() {
        let place = Place { events: 12, logs: 3 };
        assert_eq!(Place::parse(&place.id()), Some(place));
        for wrong in ["", "1", "a-1", "1-", "-1", "1-2-3"] {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
    }
}
