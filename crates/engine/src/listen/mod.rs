//! Captures requests to a test address while a client listens. A captured request starts no execution.

mod saved;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::automation::{AutomationId, Trigger, WebhookTrigger};
use model::payload::{HttpResponse, Payload, WebhookPayload};
use serde::Serialize;
use tokio::sync::watch;
use trigger::Rejection;
use trigger::webhook::Request;

use crate::Error;
use crate::catalog::{Mounted, hooked};
use crate::clock::{Clock, Steady};
use crate::engine::Engine;
use crate::hooks::without_credentials;
use crate::services::Services;

pub use saved::{PayloadError, SavedPayload};

/// Default and maximum duration of a capture session.
pub const LISTEN_FOR: Duration = Duration::from_secs(10 * 60);
/// Default and maximum number of captured requests of a session.
pub const MOST_CAPTURES: u32 = 100;
/// Maximum size of all stored captures, in bytes. The session with most bytes loses its oldest captures first.
const MOST_BYTES: usize = 64 << 20;
/// Maximum number of captured requests of a session that could start nothing, such as challenges.
const MOST_ASIDES: usize = 100;
/// Maximum number of addresses with stored captures. Ended sessions are dropped first, the oldest one before the
/// others.
const MOST_LISTENINGS: usize = 16;

/// Capture sessions by Automation.
pub(crate) struct Listeners {
    state: Mutex<HashMap<AutomationId, Listening>>,
    /// Incremented with every capture and with every start and end of a session.
    news: watch::Sender<u64>,
    /// Serialises subscribing and unsubscribing for test addresses, so that a session that starts while another one
    /// ends does not rely on a subscription about to be removed.
    subscribing: tokio::sync::Mutex<()>,
}

struct Listening {
    /// Number of the session at its address, from 0.
    turn: u64,
    since: Steady,
    until: Steady,
    most: u32,
    /// Number of captured requests that could have started an execution.
    count: u32,
    /// Number of the last capture.
    last: u32,
    captures: VecDeque<Capture>,
    /// Size of all stored captures.
    bytes: usize,
}

/// A request that arrived during a capture session.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// Number within the session, from 1.
    pub number: u32,
    /// Time of arrival.
    pub at: Timestamp,
    /// Kind of a request that could not have started an execution; `None` for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<Aside>,
    /// Code of the rejection; `None` if the request would have been accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<&'static str>,
    /// The request without headers that may contain credentials.
    pub payload: Arc<Payload>,
}

/// Kinds of requests that never start an execution. They are shown and do not count towards the limit of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Aside {
    /// A challenge that the sender issues before its first event.
    Challenge,
    /// A request about the address itself: `HEAD`, `OPTIONS`.
    Probe,
    /// A request about an event other than the one that starts the Automation.
    Ignored,
}

impl Aside {
    /// The word in the API: `challenge`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Probe => "probe",
            Self::Ignored => "ignored",
        }
    }
}

/// State of a capture session.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenView {
    /// The Automation.
    pub automation: AutomationId,
    /// True while requests are captured.
    pub listening: bool,
    /// Start of the session.
    pub since: Timestamp,
    /// Latest end of the session.
    pub until: Timestamp,
    /// Number of requests that can still be captured.
    pub left: u32,
    /// Captured requests, oldest first.
    pub captures: Vec<Capture>,
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            news: watch::Sender::new(0),
            subscribing: tokio::sync::Mutex::default(),
        }
    }
}

impl Listeners {
    fn state(&self) -> MutexGuard<'_, HashMap<AutomationId, Listening>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_listening(&self, id: &AutomationId, now: Steady) -> bool {
        self.state().get(id).is_some_and(|listening| listening.goes_on(now))
    }

    /// Starts a session, replaces the previous one of the same address, and returns its number.
    fn begin(&self, id: &AutomationId, now: Steady, until: Steady, most: u32) -> u64 {
        let mut state = self.state();
        let turn = state.remove(id).map_or(0, |before| before.turn + 1);
        while state.len() >= MOST_LISTENINGS {
            let over = |listening: &Listening| {
                if listening.goes_on(now) { listening.until } else { listening.since }
            };
            let first = state.iter().min_by_key(|(_, one)| (one.goes_on(now), over(one)));
            let Some(first) = first.map(|(id, _)| id.clone()) else { break };
            state.remove(&first);
        }
        let captures = VecDeque::new();
        let listening = Listening { turn, since: now, until, most, count: 0, last: 0, captures, bytes: 0 };
        state.insert(id.clone(), listening);
        drop(state);
        self.tell();
        turn
    }

    /// Stores a request. Returns false if no session is active.
    fn put(
        &self,
        id: &AutomationId,
        clock: &dyn Clock,
        (aside, refused): (Option<Aside>, Option<&'static str>),
        payload: WebhookPayload,
    ) -> bool {
        let mut state = self.state();
        let now = clock.steady_now();
        let Some(listening) = state.get_mut(id).filter(|listening| listening.goes_on(now)) else {
            return false;
        };
        if aside.is_none() {
            listening.count += 1;
        } else if listening.captures.iter().filter(|one| one.aside.is_some()).count() >= MOST_ASIDES {
            return true;
        }
        listening.last += 1;
        listening.bytes += weight(&payload);
        let payload = Arc::new(Payload::Webhook(payload));
        let at = clock.now();
        listening.captures.push_back(Capture { number: listening.last, at, aside, refused, payload });
        while state.values().map(|listening| listening.bytes).sum::<usize>() > MOST_BYTES {
            let Some(largest) = state.values_mut().max_by_key(|listening| listening.bytes) else { break };
            match largest.captures.pop_front().as_ref().map(|gone| &*gone.payload) {
                Some(Payload::Webhook(gone)) => largest.bytes = largest.bytes.saturating_sub(weight(gone)),
                _ => largest.bytes = 0,
            }
        }
        drop(state);
        self.tell();
        true
    }

    fn tell(&self) {
        self.news.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn end(&self, id: &AutomationId, now: Steady) {
        if let Some(listening) = self.state().get_mut(id) {
            listening.until = listening.until.min(now);
        }
        self.tell();
    }

    /// Returns the end of the session with this number; `None` if it is over.
    fn until(&self, id: &AutomationId, turn: u64, now: Steady) -> Option<Steady> {
        let state = self.state();
        let listening = state.get(id).filter(|listening| listening.turn == turn && listening.goes_on(now));
        listening.map(|listening| listening.until)
    }

    fn view(&self, id: &AutomationId, after: u32, clock: &dyn Clock) -> Option<ListenView> {
        let (now, ahead) = (clock.steady_now(), clock.ahead());
        let state = self.state();
        let listening = state.get(id)?;
        let captures = listening.captures.iter().filter(|capture| capture.number > after).cloned();
        Some(ListenView {
            automation: id.clone(),
            listening: listening.goes_on(now),
            since: listening.since.shown(ahead),
            until: listening.until.shown(ahead),
            left: listening.most.saturating_sub(listening.count),
            captures: captures.collect(),
        })
    }
}

impl Listening {
    fn goes_on(&self, now: Steady) -> bool {
        now < self.until && self.count < self.most
    }
}

/// Approximate size of a request in memory, in bytes.
fn weight(payload: &WebhookPayload) -> usize {
    let headers: usize = payload.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    // The query is stored raw and decoded.
    payload.body.data.len() + headers + 2 * payload.raw_query.len() + payload.path_fragment.len()
}

impl Engine {
    /// Starts a capture session at the test address of an Automation. `time` and `most` are limited to the allowed
    /// maximum. Captures of an earlier session are deleted. For an event trigger with subscriptions, the test address
    /// is subscribed while the session lasts.
    ///
    /// # Errors
    /// Returns an error if there is no such Automation, or its trigger receives no requests.
    pub async fn listen(&self, id: &AutomationId, time: Duration, most: u32) -> Result<ListenView, Error> {
        let services = self.services();
        let catalog = self.catalog();
        let deployed = catalog.find(id.as_str())?;
        let is_told = hooked(deployed, &catalog).is_some();
        if !is_told && !matches!(deployed.automation.trigger, Trigger::Webhook(_)) {
            let kind = deployed.automation.trigger.word();
            return Err(Error::Input(format!("nothing is sent to `{id}`: its trigger is `{kind}`")));
        }
        let since = services.clock.steady_now();
        let until = since.after(time.min(LISTEN_FOR));
        let listeners = &services.listeners;
        let subscribing = listeners.subscribing.lock().await;
        let turn = listeners.begin(id, since, until, most.clamp(1, MOST_CAPTURES));
        if is_told {
            services.subscribe_for_test(&catalog, deployed).await;
            services.tracker.spawn(services.clone().unsubscribe_after(id.clone(), turn));
        }
        drop(subscribing);
        listeners.view(id, 0, &*services.clock).ok_or(Error::Closing)
    }

    /// Ends the capture session. Its captures remain until the next session.
    pub fn stop_listening(&self, id: &AutomationId) {
        let services = self.services();
        services.listeners.end(id, services.clock.steady_now());
    }

    /// Returns the session at an address with the captures after number `after`. Waits up to `wait` for a new capture
    /// or the end of the session if there is none yet; `None` if there was no session.
    pub async fn captures(&self, id: &AutomationId, after: u32, wait: Duration) -> Option<ListenView> {
        let services = self.services();
        let mut news = services.listeners.news.subscribe();
        let over = services.clock.sleep_for(wait);
        tokio::pin!(over);
        let mut is_over = wait.is_zero();
        loop {
            let view = services.listeners.view(id, after, &*services.clock)?;
            if !view.captures.is_empty() || !view.listening || is_over {
                return Some(view);
            }
            tokio::select! {
                changed = news.changed() => changed.ok()?,
                () = &mut over => is_over = true,
                () = services.clock.sleep_until_steady(Steady::of(view.until, services.clock.ahead())) => {}
                () = services.closing.cancelled() => return Some(view),
            }
        }
    }

    /// Returns true if a capture session is active at the address.
    pub(crate) fn is_listening(&self, mounted: &Mounted) -> bool {
        let services = self.services();
        let id = &mounted.deployed.automation.id;
        mounted.test && services.listeners.is_listening(id, services.clock.steady_now())
    }

    /// Captures a request instead of starting an execution, and sends the usual response. `judged` yields the
    /// rejection, or the response that needs no execution; rejected requests are captured too. Returns `None` if no
    /// session is active any more.
    pub(crate) async fn capture(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        request: &Request,
        judged: impl Future<Output = Result<Option<HttpResponse>, Rejection>>,
    ) -> Option<Result<HttpResponse, Rejection>> {
        let judged = judged.await;
        let refused = judged.as_ref().err().map(|rejection| rejection.code);
        // Masking must come after `judged`: reading the secrets registers them with the redactor.
        let kept = self.keep_capture(mounted, request, (None, refused));
        kept.then(|| judged.map(|told| told.unwrap_or_else(|| trigger::response::captured(webhook))))
    }

    /// Captures a request that never starts an execution, if a session is active.
    pub(crate) fn capture_aside(
        &self,
        mounted: &Mounted,
        request: &Request,
        aside: Aside,
        refused: Option<&Rejection>,
    ) {
        if self.is_listening(mounted) {
            self.keep_capture(mounted, request, (Some(aside), refused.map(|rejection| rejection.code)));
        }
    }

    fn keep_capture(
        &self,
        mounted: &Mounted,
        request: &Request,
        what: (Option<Aside>, Option<&'static str>),
    ) -> bool {
        let services = self.services();
        let payload = trigger::webhook::as_it_came(request.clone());
        let payload = without_credentials(payload, &services.settings.redactor);
        services.listeners.put(&mounted.deployed.automation.id, &*services.clock, what, payload)
    }
}

impl Services {
    /// Removes the subscription of a test address when its session ends. A newer session at the same address keeps the
    /// subscription and removes it later.
    async fn unsubscribe_after(self: Arc<Self>, id: AutomationId, turn: u64) {
        let listeners = &self.listeners;
        let mut news = listeners.news.subscribe();
        while let Some(until) = listeners.until(&id, turn, self.clock.steady_now()) {
            tokio::select! {
                changed = news.changed() => if changed.is_err() { return },
                () = self.clock.sleep_until_steady(until) => {}
                // The next start of the daemon removes it.
                () = self.closing.cancelled() => return,
            }
        }
        let _subscribing = listeners.subscribing.lock().await;
        if !listeners.is_listening(&id, self.clock.steady_now()) {
            self.unsubscribe_from_test(&id).await;
        }
    }
}
