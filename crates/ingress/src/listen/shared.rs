//! Capture sessions of nodes that share a store: a session that began on one node captures the requests that reach any of them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use catalog::trigger_hook;
use jiff::{SignedDuration, Timestamp};
use model::automation::TriggerKey;
use model::payload::{HttpResponse, Payload, WebhookPayload};
use runtime::{Error, MonotonicTime};
use serde::{Deserialize, Serialize};
use store::{NewCapture, NewListening, News};
use value::{Data, Reserved, Value, collect_refs};

use super::capture::{Capture, CaptureOutcome, NonTrigger, Verdict};
use super::{CHECK_INTERVAL, ListenError, ListenView, MAX_BYTES, MAX_NON_TRIGGERS, MAX_SESSIONS};
use crate::forward::{ForwardError, Operation};
use crate::ingress::Ingress;

/// A session to begin at the node that subscribes for the trigger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListenRequest {
    milliseconds: u64,
    max: u32,
}

/// The reply of that node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ListenReply {
    /// It listens.
    Done,
    /// It does not, with the reason.
    Refused(String),
}

/// A capture as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCapture {
    at: Timestamp,
    aside: Option<NonTrigger>,
    verdict: Verdict,
    refused: Option<Cow<'static, str>>,
    reason: Option<String>,
    answer: HttpResponse,
    results: Option<Value>,
    bytes: usize,
    payload: Payload,
}

impl Ingress {
    /// Begins a session. If the test address is to be subscribed, the node that has the subscriptions of the trigger begins it.
    pub(super) async fn listen_shared(
        self: &Arc<Self>,
        id: &TriggerKey,
        time: Duration,
        max: u32,
        is_subscribed: bool,
    ) -> Result<ListenView, Error> {
        let hold = self.peers.shards.hold(&id.automation);
        if is_subscribed && hold.is_none() {
            let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let request = Operation::Listen(ListenRequest { milliseconds, max });
            let reply = self.forward(id, request).await.map_err(|error| match error {
                ForwardError::Closing => Error::Closing,
                ForwardError::Store(error) => Error::Store(error),
                ForwardError::Unanswered(_) => Error::Unanswered,
                ForwardError::Unreadable(reason) => Error::Input(reason),
            })?;
            if let ListenReply::Refused(reason) = reply {
                return Err(Error::Input(reason));
            }
        } else {
            self.begin_shared(id, time, max).await?;
        }
        self.shared_view(id, 0).await?.ok_or(Error::Closing)
    }

    /// Starts a session for another node. `None` if it must be requested again, here or at the next owner of the shard.
    pub(crate) async fn answer_listen(
        self: &Arc<Self>,
        id: &TriggerKey,
        request: ListenRequest,
    ) -> Option<ListenReply> {
        let _hold = self.peers.shards.hold(&id.automation)?;
        match self.begin_shared(id, Duration::from_millis(request.milliseconds), request.max).await {
            Ok(()) => Some(ListenReply::Done),
            Err(Error::Store(_) | Error::Closing) => None,
            Err(error) => Some(ListenReply::Refused(error.to_string())),
        }
    }

    async fn begin_shared(self: &Arc<Self>, id: &TriggerKey, time: Duration, max: u32) -> Result<(), Error> {
        let catalog = self.context.catalog();
        let mount = catalog.find_mount(id)?;
        let since = self.context.clock.now();
        let time = SignedDuration::try_from(time).unwrap_or_default();
        let new = NewListening {
            trigger: id.clone(),
            since,
            until: since.checked_add(time).unwrap_or(since),
            most: max,
            sessions: u32::try_from(MAX_SESSIONS).unwrap_or(u32::MAX),
        };
        let subscribing = self.listeners.subscribing.lock().await;
        let turn = self.context.store.begin_listening(new).await?;
        if trigger_hook(mount.on(), &catalog).is_some() {
            self.subscribe_for_test(&catalog, &mount).await;
            self.context.tracker.spawn(self.clone().unsubscribe_after_shared(id.clone(), turn));
        }
        drop(subscribing);
        self.notify_listeners();
        Ok(())
    }

    pub(super) async fn stop_shared(&self, id: &TriggerKey) -> Result<(), ListenError> {
        self.context.store.end_listening(id, self.context.clock.now()).await?;
        self.notify_listeners();
        Ok(())
    }

    pub(super) async fn is_listening_shared(&self, id: &TriggerKey) -> Result<bool, store::Error> {
        let session = self.context.store.listening(id).await?;
        Ok(session.is_some_and(|session| session.is_active(self.context.clock.now())))
    }

    pub(super) async fn shared_view(
        &self,
        id: &TriggerKey,
        after: u32,
    ) -> Result<Option<ListenView>, store::Error> {
        let Some(session) = self.context.store.listening(id).await? else { return Ok(None) };
        let captures = match session.last > after {
            true => self.context.store.captures(id, after).await?,
            false => Vec::new(),
        };
        let captures = match captures.is_empty() {
            true => Vec::new(),
            // The bodies may be large.
            false => self.context.large_work.run(move || decode(captures)).await.unwrap_or_default(),
        };
        Ok(Some(ListenView {
            trigger: id.clone(),
            listening: session.is_active(self.context.clock.now()),
            since: session.since,
            until: session.until,
            left: session.most.saturating_sub(session.count),
            last: session.last,
            captures,
        }))
    }

    /// Stores a capture. Returns false if no session is active.
    pub(super) async fn store_shared_capture(
        &self,
        id: &TriggerKey,
        outcome: CaptureOutcome,
        payload: WebhookPayload,
    ) -> Result<bool, store::Error> {
        let now = self.context.clock.now();
        let aside = outcome.aside.is_some();
        let capture = Capture::new(0, now, outcome, payload);
        let size = u64::try_from(capture.memory()).unwrap_or(u64::MAX);
        let failed = |reason: String| store::Error::Invalid { reason };
        // The bytes, and the text that contains them.
        let memory = self.context.reserve_to_load(external_bytes(&capture).saturating_mul(3)).await;
        let encoded = self.context.large_work.run(move || encode(capture, &memory)).await;
        let body = encoded.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        let capture = NewCapture {
            id: store::random()?,
            trigger: id.clone(),
            now,
            aside,
            size,
            body,
            max_asides: u32::try_from(MAX_NON_TRIGGERS).unwrap_or(u32::MAX),
            max_bytes: u64::try_from(MAX_BYTES).unwrap_or(u64::MAX),
        };
        let is_stored = self.context.store.add_capture(capture).await?;
        if is_stored {
            self.notify_listeners();
        }
        Ok(is_stored)
    }

    /// Tells those who wait for captures, on any node, to look.
    fn notify_listeners(&self) {
        self.listeners.notify();
        self.context.store.tell(None, News::Listening);
    }

    /// Removes the subscription of a test address when its session ends, as [`Ingress::listen`] does for a process that is alone.
    async fn unsubscribe_after_shared(self: Arc<Self>, id: TriggerKey, turn: u64) {
        let clock = &self.context.clock;
        let mut changes = self.listeners.changes.subscribe();
        loop {
            let elsewhere = self.peers.listening.notified();
            tokio::pin!(elsewhere);
            elsewhere.as_mut().enable();
            let until = match self.context.store.listening(&id).await {
                Ok(Some(session)) if session.turn == turn && session.is_active(clock.now()) => session.until,
                Ok(_) => break,
                // It looks again.
                Err(_) => Timestamp::MAX,
            };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = &mut elsewhere => {}
                () = clock.sleep_for(CHECK_INTERVAL) => {}
                () = clock.sleep_until_monotonic(MonotonicTime::from_wall(until, clock.wall_offset())) => {}
                // The next node that has the subscription removes it.
                () = self.context.closing.cancelled() => return,
            }
        }
        let _subscribing = self.listeners.subscribing.lock().await;
        if !self.is_listening_shared(&id).await.unwrap_or_default() {
            self.unsubscribe_from_test(&id).await;
        }
    }
}

/// The bytes of a capture that are in files.
fn external_bytes(capture: &Capture) -> usize {
    let external = |data: &Data| if data.is_external() { data.len() } else { 0 };
    let body = match &*capture.payload {
        Payload::Webhook(request) => external(&request.body.data),
        _ => 0,
    };
    body + external(&capture.answer.body)
}

/// Returns the stored form, which has all bytes in it. Reads files.
fn encode(capture: Capture, memory: &Reserved) -> Result<Vec<u8>, String> {
    let mut payload = Arc::unwrap_or_clone(capture.payload);
    if let Payload::Webhook(request) = &mut payload {
        request.body.data = loaded(&request.body.data, memory)?;
    }
    let mut answer = Arc::unwrap_or_clone(capture.answer);
    answer.body = loaded(&answer.body, memory)?;
    // Results with parts of a large body would be read from files of this node. Steps use the parts of the payload instead.
    let refers = |results: &Value| !collect_refs(|| serde_json::to_vec(results)).1.is_empty();
    let stored = StoredCapture {
        at: capture.at,
        aside: capture.aside,
        verdict: capture.verdict,
        refused: capture.refused,
        reason: capture.reason.as_deref().map(str::to_owned),
        answer,
        results: capture.results.filter(|results| !refers(results)),
        bytes: capture.bytes,
        payload,
    };
    serde_json::to_vec(&stored).map_err(|error| error.to_string())
}

fn loaded(data: &Data, memory: &Reserved) -> Result<Data, String> {
    data.load(MAX_BYTES, memory).map(Data::from).map_err(|error| error.to_string())
}

fn decode(stored: Vec<(u32, Vec<u8>)>) -> Vec<Capture> {
    let capture = |(number, body): (u32, Vec<u8>)| {
        let stored = serde_json::from_slice::<StoredCapture>(&body);
        let stored = stored.inspect_err(|error| tracing::error!(%error, "a captured request cannot be read"));
        let StoredCapture { at, aside, verdict, refused, reason, answer, results, bytes, payload } =
            stored.ok()?;
        let (reason, answer, payload) = (reason.map(Into::into), Arc::new(answer), Arc::new(payload));
        Some(Capture { number, at, aside, verdict, refused, reason, answer, results, bytes, payload })
    };
    stored.into_iter().filter_map(capture).collect()
}
