//! Captures requests to a test address while a client listens. A captured request starts no execution.

mod capture;
mod payload_head;
mod preview;
mod saved;
mod shared;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{Trigger, TriggerKey, WebhookTrigger};
use model::payload::{HttpResponse, WebhookPayload};
use tokio::sync::watch;
use trigger::Rejection;
use trigger::webhook::Request;

use crate::ingress::Ingress;
use catalog::{Route, trigger_hook};
use runtime::Error;
use runtime::{Clock, MonotonicTime, remove_credentials};

pub use capture::{Capture, NonTrigger, Verdict};
pub(crate) use capture::{CaptureOutcome, RequestPreview};
pub use preview::{PayloadPreview, PayloadProblem};
pub use saved::{PayloadError, SavedPayload, VersionedPayload};
pub(crate) use shared::ListenRequest;

/// Default and maximum duration of a capture session.
pub const MAX_LISTEN_TIME: Duration = Duration::from_secs(10 * 60);
/// Default and maximum number of captured requests of a session.
pub const MAX_CAPTURES: u32 = 100;
/// Maximum size of all stored captures, in bytes. The session with max bytes loses its oldest captures first.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of captured requests of a session that could start nothing, such as challenges.
const MAX_NON_TRIGGERS: usize = 100;
/// Maximum number of addresses with stored captures. Ended sessions are dropped first, the oldest one before the
/// others.
const MAX_SESSIONS: usize = 16;

/// The time after which a waiting caller looks again for captures of other nodes.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Capture sessions by trigger.
pub(crate) struct Listeners {
    state: Mutex<HashMap<TriggerKey, CaptureSession>>,
    /// Incremented with every capture and with every start and end of a session.
    changes: watch::Sender<u64>,
    /// Serialises subscribing and unsubscribing for test addresses, so that a session that starts while another one
    /// ends does not rely on a subscription about to be removed.
    subscribing: tokio::sync::Mutex<()>,
}

struct CaptureSession {
    /// Number of the session at its address, from 0.
    number: u64,
    since: MonotonicTime,
    until: MonotonicTime,
    max: u32,
    /// Number of captured requests that could have started an execution.
    count: u32,
    /// Number of the last capture.
    last: u32,
    captures: VecDeque<Capture>,
    /// Size of all stored captures.
    bytes: usize,
}

/// State of a capture session.
#[derive(Clone, Debug)]
pub struct ListenView {
    /// The trigger.
    pub trigger: TriggerKey,
    /// True while requests are captured.
    pub listening: bool,
    /// Start of the session.
    pub since: Timestamp,
    /// Latest end of the session.
    pub until: Timestamp,
    /// Number of requests that can still be captured.
    pub left: u32,
    /// Number of the last capture.
    pub last: u32,
    /// Captured requests, oldest first.
    pub captures: Vec<Capture>,
}

/// Error of a look at a capture session.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// There was no session.
    #[error("`{}` has had no listener", .0.name())]
    NotListening(TriggerKey),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changes: watch::Sender::new(0),
            subscribing: tokio::sync::Mutex::default(),
        }
    }
}

impl Listeners {
    fn state(&self) -> MutexGuard<'_, HashMap<TriggerKey, CaptureSession>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_listening(&self, id: &TriggerKey, now: MonotonicTime) -> bool {
        self.state().get(id).is_some_and(|session| session.is_active(now))
    }

    /// Starts a session, replaces the previous one of the same address, and returns its number.
    fn begin(&self, id: &TriggerKey, now: MonotonicTime, until: MonotonicTime, max: u32) -> u64 {
        let mut state = self.state();
        let number = state.remove(id).map_or(0, |before| before.number + 1);
        while state.len() >= MAX_SESSIONS {
            let over = |session: &CaptureSession| {
                if session.is_active(now) { session.until } else { session.since }
            };
            let first = state.iter().min_by_key(|(_, one)| (one.is_active(now), over(one)));
            let Some(first) = first.map(|(id, _)| id.clone()) else { break };
            state.remove(&first);
        }
        let captures = VecDeque::new();
        let session =
            CaptureSession { number, since: now, until, max, count: 0, last: 0, captures, bytes: 0 };
        state.insert(id.clone(), session);
        drop(state);
        self.notify();
        number
    }

    /// Stores a request. Returns false if no session is active.
    fn add_capture(
        &self,
        id: &TriggerKey,
        clock: &dyn Clock,
        outcome: CaptureOutcome,
        payload: WebhookPayload,
    ) -> bool {
        let mut state = self.state();
        let now = clock.monotonic_now();
        let Some(session) = state.get_mut(id).filter(|session| session.is_active(now)) else {
            return false;
        };
        if outcome.aside.is_none() {
            session.count += 1;
        } else if session.captures.iter().filter(|one| one.aside.is_some()).count() >= MAX_NON_TRIGGERS {
            return true;
        }
        session.last += 1;
        let capture = Capture::new(session.last, clock.now(), outcome, payload);
        session.bytes += capture.memory();
        session.captures.push_back(capture);
        while state.values().map(|session| session.bytes).sum::<usize>() > MAX_BYTES {
            let Some(largest) = state.values_mut().max_by_key(|session| session.bytes) else { break };
            match largest.captures.pop_front() {
                Some(gone) => largest.bytes = largest.bytes.saturating_sub(gone.memory()),
                None => largest.bytes = 0,
            }
        }
        drop(state);
        self.notify();
        true
    }

    /// Goes on with a session under the key to which the records of its trigger have moved.
    pub(crate) fn rename(&self, from: &TriggerKey, to: &TriggerKey) {
        let mut state = self.state();
        if let Some(session) = state.remove(from) {
            state.insert(to.clone(), session);
        }
        drop(state);
        self.notify();
    }

    fn notify(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn end(&self, id: &TriggerKey, now: MonotonicTime) {
        if let Some(session) = self.state().get_mut(id) {
            session.until = session.until.min(now);
        }
        self.notify();
    }

    /// Returns the end of the session with this number; `None` if it is over.
    fn until(&self, id: &TriggerKey, number: u64, now: MonotonicTime) -> Option<MonotonicTime> {
        let state = self.state();
        let session = state.get(id).filter(|session| session.number == number && session.is_active(now));
        session.map(|session| session.until)
    }

    fn view(&self, id: &TriggerKey, after: u32, clock: &dyn Clock) -> Option<ListenView> {
        let (now, ahead) = (clock.monotonic_now(), clock.wall_offset());
        let state = self.state();
        let session = state.get(id)?;
        let captures = session.captures.iter().filter(|capture| capture.number > after).cloned();
        Some(ListenView {
            trigger: id.clone(),
            listening: session.is_active(now),
            since: session.since.to_wall(ahead),
            until: session.until.to_wall(ahead),
            left: session.max.saturating_sub(session.count),
            last: session.last,
            captures: captures.collect(),
        })
    }
}

impl CaptureSession {
    fn is_active(&self, now: MonotonicTime) -> bool {
        now < self.until && self.count < self.max
    }
}

impl Ingress {
    /// Starts a capture session at the test address of a trigger. `time` and `max` are limited to the allowed
    /// maximum. Captures of an earlier session are deleted. For an event trigger with subscriptions, the test address
    /// is subscribed while the session lasts.
    ///
    /// # Errors
    /// Returns an error if there is no such trigger, or it receives no requests.
    pub async fn listen(
        self: &Arc<Self>,
        id: &TriggerKey,
        time: Duration,
        max: u32,
    ) -> Result<ListenView, Error> {
        let catalog = self.context.catalog();
        let mount = catalog.find_mount(id)?;
        let is_subscribed = trigger_hook(mount.on(), &catalog).is_some();
        if !is_subscribed && !matches!(mount.on(), Trigger::Webhook(_)) {
            let (kind, name) = (mount.on().keyword(), id.name());
            return Err(Error::Input(format!("`{name}` receives no requests: its trigger is `{kind}`")));
        }
        if self.context.store.node().is_some() {
            return self
                .listen_shared(id, time.min(MAX_LISTEN_TIME), max.clamp(1, MAX_CAPTURES), is_subscribed)
                .await;
        }
        let since = self.context.clock.monotonic_now();
        let until = since.after(time.min(MAX_LISTEN_TIME));
        let listeners = &self.listeners;
        let subscribing = listeners.subscribing.lock().await;
        let number = listeners.begin(id, since, until, max.clamp(1, MAX_CAPTURES));
        if is_subscribed {
            self.subscribe_for_test(&catalog, &mount).await;
            self.context.tracker.spawn(self.clone().unsubscribe_after(id.clone(), number));
        }
        drop(subscribing);
        listeners.view(id, 0, &*self.context.clock).ok_or(Error::Closing)
    }

    /// Ends the capture session. Its captures remain until the next session.
    ///
    /// # Errors
    /// The store failed.
    pub async fn stop_listening(&self, id: &TriggerKey) -> Result<(), ListenError> {
        if self.context.store.node().is_some() {
            return self.stop_shared(id).await;
        }
        self.listeners.end(id, self.context.clock.monotonic_now());
        Ok(())
    }

    /// Returns the session at an address with the captures after number `after`. Waits up to `wait` for a new capture
    /// or the end of the session.
    ///
    /// # Errors
    /// There was no session, or the store failed.
    pub async fn captures(
        &self,
        id: &TriggerKey,
        after: u32,
        wait: Duration,
    ) -> Result<ListenView, ListenError> {
        let over = self.context.clock.sleep_for(wait);
        tokio::pin!(over);
        let mut is_over = wait.is_zero();
        let is_shared = self.context.store.node().is_some();
        let mut changes = self.listeners.changes.subscribe();
        loop {
            let elsewhere = self.peers.listening.notified();
            tokio::pin!(elsewhere);
            elsewhere.as_mut().enable();
            let view = match is_shared {
                true => self.shared_view(id, after).await?,
                false => self.listeners.view(id, after, &*self.context.clock),
            };
            let view = view.ok_or_else(|| ListenError::NotListening(id.clone()))?;
            if !view.captures.is_empty() || !view.listening || is_over {
                return Ok(view);
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = &mut elsewhere => {}
                // The hint of another node may be lost.
                () = self.context.clock.sleep_for(CHECK_INTERVAL), if is_shared => {}
                () = &mut over => is_over = true,
                () = self.context.clock.sleep_until_monotonic(MonotonicTime::from_wall(view.until, self.context.clock.wall_offset())) => {}
                () = self.context.closing.cancelled() => return Ok(view),
            }
        }
    }

    /// Returns true if a capture session is active at the address.
    ///
    /// # Errors
    /// Returns a rejection if the store cannot answer: a request that a listener waits for must start nothing.
    pub(crate) async fn is_listening(&self, route: &Route) -> Result<bool, Rejection> {
        let id = &route.mount.key();
        if !route.is_test {
            return Ok(false);
        }
        if self.context.store.node().is_some() {
            return self.is_listening_shared(id).await.map_err(|error| unavailable(&error));
        }
        Ok(self.listeners.is_listening(id, self.context.clock.monotonic_now()))
    }

    /// Captures a request instead of starting an execution, and sends the usual response. `preview` decides about the
    /// request without starting anything; rejected requests are captured too. Returns `None` if no session is active any
    /// more.
    pub(crate) async fn capture(
        &self,
        route: &Route,
        webhook: &WebhookTrigger,
        request: &Request,
        preview: impl Future<Output = Result<RequestPreview, Rejection>>,
    ) -> Option<Result<HttpResponse, Rejection>> {
        let (verdict, results, answer) = match preview.await {
            Err(rejection) => (Verdict::Refused, None, Err(rejection)),
            Ok(RequestPreview { verdict, response, results }) => {
                (verdict, results, Ok(response.unwrap_or_else(|| trigger::response::captured(webhook))))
            }
        };
        // Masking must come after `preview`: reading the secrets registers them with the redactor.
        let outcome =
            CaptureOutcome::new(request.body.len(), None, verdict, &answer, &self.context.settings.redactor);
        match self.store_capture(route, request, CaptureOutcome { results, ..outcome }).await {
            Ok(is_stored) => is_stored.then_some(answer),
            Err(error) => Some(Err(unavailable(&error))),
        }
    }

    /// Captures a request that never starts an execution, if a session is active.
    pub(crate) async fn capture_non_trigger(
        &self,
        route: &Route,
        request: &Request,
        aside: NonTrigger,
        answer: &Result<HttpResponse, Rejection>,
    ) {
        if matches!(self.is_listening(route).await, Ok(true)) {
            let verdict = if answer.is_ok() { Verdict::NonTrigger } else { Verdict::Refused };
            let redactor = &self.context.settings.redactor;
            let outcome = CaptureOutcome::new(request.body.len(), Some(aside), verdict, answer, redactor);
            if let Err(error) = self.store_capture(route, request, outcome).await {
                tracing::warn!(%error, "a request that starts nothing could not be captured");
            }
        }
    }

    /// Stores a captured request. Returns false if no session is active any more.
    async fn store_capture(
        &self,
        route: &Route,
        request: &Request,
        outcome: CaptureOutcome,
    ) -> Result<bool, store::Error> {
        let payload = trigger::webhook::unchecked_payload(request.clone());
        let payload = remove_credentials(payload, &self.context.settings.redactor);
        let id = &route.mount.key();
        if self.context.store.node().is_some() {
            return self.store_shared_capture(id, outcome, payload).await;
        }
        Ok(self.listeners.add_capture(id, &*self.context.clock, outcome, payload))
    }
}

impl Ingress {
    /// Removes the subscription of a test address when its session ends. A newer session at the same address keeps the
    /// subscription and removes it later.
    async fn unsubscribe_after(self: Arc<Self>, id: TriggerKey, number: u64) {
        let listeners = &self.listeners;
        let mut changes = listeners.changes.subscribe();
        while let Some(until) = listeners.until(&id, number, self.context.clock.monotonic_now()) {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = self.context.clock.sleep_until_monotonic(until) => {}
                // The next start of the daemon removes it.
                () = self.context.closing.cancelled() => return,
            }
        }
        let _subscribing = listeners.subscribing.lock().await;
        if !listeners.is_listening(&id, self.context.clock.monotonic_now()) {
            self.unsubscribe_from_test(&id).await;
        }
    }
}

fn unavailable(error: &store::Error) -> Rejection {
    tracing::warn!(%error, "it is not known whether a test address has a listener");
    Rejection::unavailable("the database does not answer; try again", Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn the_session_that_ends_first_is_dropped_over_the_maximum() {
        let listeners = Listeners::default();
        let now = MonotonicTime::from_wall(Timestamp::UNIX_EPOCH, SignedDuration::ZERO);
        let sessions: Vec<(TriggerKey, Duration)> = (1..)
            .take(MAX_SESSIONS + 1)
            .map(|number| {
                let id = format!("a{number}").parse().expect("a key");
                (id, Duration::from_secs(number))
            })
            .collect();
        let listening = || sessions.iter().filter(|(id, _)| listeners.is_listening(id, now)).count();
        for (count, (id, time)) in (1..).zip(&sessions) {
            listeners.begin(id, now, now.after(*time), 1);
            assert_eq!(listening(), MAX_SESSIONS.min(count));
        }
        assert!(!listeners.is_listening(&sessions[0].0, now));
    }
}
