//! Listening at a test address: what comes is kept for whoever watches, and starts nothing.

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

/// How long somebody listens where nothing else is said, and at most.
pub const LISTEN_FOR: Duration = Duration::from_secs(10 * 60);
/// How many requests are captured where nothing else is said, and at most.
pub const MOST_CAPTURES: u32 = 100;
/// The most bytes of requests that are kept, all together. The oldest of whoever has most go first.
const MOST_BYTES: usize = 64 << 20;
/// How many requests are kept besides that could start nothing, such as challenges.
const MOST_ASIDES: usize = 100;
/// The most addresses of which captures are kept. Those at which listening was over first go first.
const MOST_LISTENINGS: usize = 16;

/// Who listens.
pub(crate) struct Listeners {
    state: Mutex<HashMap<AutomationId, Listening>>,
    /// Told of every capture, and of every beginning and end.
    news: watch::Sender<u64>,
    /// Held while a subscription for a test address is asked for or taken back, so that one who begins to listen while
    /// another ends never trusts in a subscription that goes.
    subscribing: tokio::sync::Mutex<()>,
}

struct Listening {
    /// Tells it from earlier ones at the same address.
    turn: u64,
    since: Steady,
    until: Steady,
    most: u32,
    /// How many requests were captured that could have started something.
    count: u32,
    /// The number of the last capture.
    last: u32,
    captures: VecDeque<Capture>,
    /// Of all that is captured.
    bytes: usize,
}

/// A request that came while somebody listened.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// Its number within the listening, from 1.
    pub number: u32,
    /// When it came.
    pub at: Timestamp,
    /// What it is, where it could not have started anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<Aside>,
    /// Why it would have been refused, if it would: the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<&'static str>,
    /// As it came, without headers that may hold a credential.
    pub payload: Arc<Payload>,
}

/// A request that starts nothing, whether or not somebody listens. It is shown, and does not count as one of those that
/// are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Aside {
    /// What its sender asks before it sends anything.
    Challenge,
    /// A question about the address: `HEAD`, `OPTIONS`.
    Probe,
    /// About another event than the one that starts the Automation.
    Ignored,
}

impl Aside {
    /// As it is written: `challenge`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Probe => "probe",
            Self::Ignored => "ignored",
        }
    }
}

/// How the listening at an address stands.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenView {
    /// For which Automation.
    pub automation: AutomationId,
    /// Whether it goes on.
    pub listening: bool,
    /// Since when.
    pub since: Timestamp,
    /// Until when at most.
    pub until: Timestamp,
    /// How many more requests are captured.
    pub left: u32,
    /// What came, oldest first.
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

    /// Begins a listening in place of the one before at the same address, and gives its turn.
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

    /// Keeps a request. False where nobody listens any more.
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

    /// Whether the listening of this turn goes on, and if so until when.
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

/// About how many bytes of memory a request takes.
fn weight(payload: &WebhookPayload) -> usize {
    let headers: usize = payload.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    // The query is kept as it came and decoded.
    payload.body.data.len() + headers + 2 * payload.raw_query.len() + payload.path_fragment.len()
}

impl Engine {
    /// Listens at the test address of an Automation, for so long and so many requests: both are cut to what is allowed. What
    /// was captured before is forgotten. Where the trigger is an event that is told, it is subscribed to meanwhile.
    ///
    /// # Errors
    /// There is no such Automation, or nothing is sent to it.
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

    /// Listens no longer. What was captured stays until somebody listens again.
    pub fn stop_listening(&self, id: &AutomationId) {
        let services = self.services();
        services.listeners.end(id, services.clock.steady_now());
    }

    /// How the listening at an address stands, with what came after the capture of this number: at once if something did,
    /// else as soon as something does, the listening ends, or `wait` is over. Nothing if nobody has listened there.
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

    /// Whether somebody listens at the address.
    pub(crate) fn is_listening(&self, mounted: &Mounted) -> bool {
        let services = self.services();
        let id = &mounted.deployed.automation.id;
        mounted.test && services.listeners.is_listening(id, services.clock.steady_now())
    }

    /// Keeps a request instead of starting an execution, and answers it as its sender would be answered. `judged` says
    /// whether it would be refused, and what it would be told that needs no execution; what is refused is kept too. Nothing
    /// where nobody listens any more.
    pub(crate) async fn capture(
        &self,
        mounted: &Mounted,
        webhook: &WebhookTrigger,
        request: &Request,
        judged: impl Future<Output = Result<Option<HttpResponse>, Rejection>>,
    ) -> Option<Result<HttpResponse, Rejection>> {
        let judged = judged.await;
        let refused = judged.as_ref().err().map(|rejection| rejection.code);
        // Only now: whoever judged it has read the secrets that have to stay out of it.
        let kept = self.keep_capture(mounted, request, (None, refused));
        kept.then(|| judged.map(|told| told.unwrap_or_else(|| trigger::response::captured(webhook))))
    }

    /// Keeps a request that starts nothing in any case, where somebody listens.
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
        let payload = trigger::webhook::unchecked_payload(request.clone());
        let payload = without_credentials(payload, &services.settings.redactor);
        services.listeners.put(&mounted.deployed.automation.id, &*services.clock, what, payload)
    }
}

impl Services {
    /// Takes the subscription for a test address back once nobody listens there any more. Who listens anew at the same
    /// address sees to it themselves.
    async fn unsubscribe_after(self: Arc<Self>, id: AutomationId, turn: u64) {
        let listeners = &self.listeners;
        let mut news = listeners.news.subscribe();
        while let Some(until) = listeners.until(&id, turn, self.clock.steady_now()) {
            tokio::select! {
                changed = news.changed() => if changed.is_err() { return },
                () = self.clock.sleep_until_steady(until) => {}
                // The next start takes it back.
                () = self.closing.cancelled() => return,
            }
        }
        let _subscribing = listeners.subscribing.lock().await;
        if !listeners.is_listening(&id, self.clock.steady_now()) {
            self.unsubscribe_from_test(&id).await;
        }
    }
}
