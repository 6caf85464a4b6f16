//! The exchange of a node with the others: between the callers of the store and the task that beats.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use store::Error;
use store::{Load, News, NodeDetails, NodeId, RunningGeneration, ServerTime};

/// The time after its last confirmed beat was sent in which no other node can have declared this one dead. The rest of
/// the silence after which it counts as dead is the time between the look of the observer and that of this node, and the delay of a beat.
const CONFIDENCE: Duration = Duration::from_millis(6600);
/// Maximum number of waiting messages in each direction. Further ones are dropped; the receiver finds the change by polling.
const NEWS: usize = 1024;

/// The exchange of a node with the others: its load and its generation for the next beat, news in both directions, and the time of its
/// last beat and the reading of the server's clock that came with it.
#[derive(Debug)]
pub(super) struct Exchange {
    load: Mutex<Load>,
    running: Mutex<RunningGeneration>,
    details: Mutex<Details>,
    begun: Instant,
    /// When the last confirmed beat was sent, in milliseconds after `begun`.
    confirmed: AtomicU64,
    server_time: watch::Sender<ServerTime>,
    requests: mpsc::Sender<Request>,
    incoming: mpsc::Sender<News>,
    received: tokio::sync::Mutex<mpsc::Receiver<News>>,
}

/// The details of this node for the other nodes.
#[derive(Debug, Default)]
struct Details {
    /// The details for the next beat; `None` if the others know them.
    waiting: Option<NodeDetails>,
    /// The details of the last beat that told any.
    told: Option<NodeDetails>,
}

/// A request to the task that beats, whose session it uses.
#[derive(Debug)]
pub(super) enum Request {
    /// Send news to a node, or to all others.
    Tell(Option<NodeId>, News),
    /// Take a lock, if it is free.
    Lock(String, oneshot::Sender<bool>),
    /// Give a lock up.
    Unlock(String),
}

/// The requests that wait.
pub(super) type Requests = mpsc::Receiver<Request>;

impl Exchange {
    /// The exchange of a node that has just joined, with a first reading of the server's clock, and the requests to its beat.
    pub(super) fn new(server_time: ServerTime) -> (Self, Requests) {
        let (requests, waiting) = mpsc::channel(NEWS);
        let (incoming, received) = mpsc::channel(NEWS);
        let (load, running, details) = (Mutex::default(), Mutex::default(), Mutex::default());
        let confirmed = AtomicU64::new(0);
        let received = tokio::sync::Mutex::new(received);
        let server_time = watch::Sender::new(server_time);
        let begun = Instant::now();
        let own =
            Self { load, running, details, begun, confirmed, server_time, requests, incoming, received };
        (own, waiting)
    }

    /// Returns true if no other node can have declared this one dead yet.
    pub(super) fn may_act(&self) -> bool {
        let confirmed = Duration::from_millis(self.confirmed.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(confirmed) < CONFIDENCE
    }

    /// Sets the load that the next beat reports.
    pub(super) fn report(&self, load: Load) {
        *self.load.lock().unwrap_or_else(PoisonError::into_inner) = load;
    }

    /// Sets the generation that the next beat reports.
    pub(super) fn report_running(&self, running: RunningGeneration) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }

    /// Returns the generation that the next beat reports.
    pub(super) fn running(&self) -> RunningGeneration {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what the next beat tells about this node, unless a beat has told the same.
    pub(super) fn report_details(&self, reported: NodeDetails) {
        let mut details = self.details.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = details.told.as_ref() != Some(&reported);
        details.waiting = is_new.then_some(reported);
    }

    /// Returns what the next beat tells about this node; `None` if the beats before have told it.
    pub(super) fn details(&self) -> Option<NodeDetails> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner).waiting.clone()
    }

    /// Notes that a beat has told these details.
    pub(super) fn confirm_details(&self, told: &Option<NodeDetails>) {
        let mut details = self.details.lock().unwrap_or_else(PoisonError::into_inner);
        if details.waiting == *told {
            details.waiting = None;
        }
        if told.is_some() {
            details.told.clone_from(told);
        }
    }

    /// Sends news, which are lost while too many wait.
    pub(super) fn tell(&self, to: Option<NodeId>, news: News) {
        let _ = self.requests.try_send(Request::Tell(to, news));
    }

    /// Takes a lock, if no other node has it.
    pub(super) async fn try_lock(&self, name: &str) -> Result<bool, Error> {
        let (reply, result) = oneshot::channel();
        let sent = self.requests.send(Request::Lock(name.to_owned(), reply)).await;
        sent.map_err(|_| Error::Closed)?;
        let refused = |_| Error::Unreachable { reason: "the connection that locks is lost".to_owned() };
        result.await.map_err(refused)
    }

    /// Gives a lock up.
    pub(super) fn unlock(&self, name: &str) {
        let result = self.requests.try_send(Request::Unlock(name.to_owned()));
        if let Err(TrySendError::Full(request)) = result
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            let requests = self.requests.clone();
            handle.spawn(async move { drop(requests.send(request).await) });
        }
    }

    /// Returns the load that the next beat reports.
    pub(super) fn load(&self) -> Load {
        *self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes news from another node, which are lost while too many wait.
    pub(super) fn receive(&self, news: News) {
        let _ = self.incoming.try_send(news);
    }

    /// Waits for news.
    pub(super) async fn next(&self) -> News {
        match self.received.lock().await.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// The readings of the server's clock.
    pub(super) fn server_time(&self) -> watch::Receiver<ServerTime> {
        self.server_time.subscribe()
    }

    /// Notes a reading of the server's clock.
    pub(super) fn set_server_time(&self, read: ServerTime) {
        self.server_time.send_replace(read);
    }

    /// Notes that the beat that was sent at this time has come back.
    pub(super) fn confirm(&self, sent: Instant) {
        let at = u64::try_from(sent.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX);
        self.confirmed.fetch_max(at, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_details_are_sent_once_and_after_each_change() {
        let now = ServerTime {
            told: jiff::Timestamp::UNIX_EPOCH,
            received: Instant::now(),
            round_trip: Duration::ZERO,
        };
        let (exchange, _requests) = Exchange::new(now);
        let details =
            |address: &str| NodeDetails { address: Some(address.to_owned()), ..NodeDetails::default() };
        exchange.report_details(details("one"));
        let told = exchange.details();
        assert_eq!(told, Some(details("one")));
        // It changes while the beat is under way, and back again.
        exchange.report_details(details("two"));
        exchange.confirm_details(&told);
        assert_eq!(exchange.details(), Some(details("two")));
        exchange.report_details(details("one"));
        assert_eq!(exchange.details(), None);
        exchange.report_details(details("two"));
        assert_eq!(exchange.details(), Some(details("two")));
    }
}
