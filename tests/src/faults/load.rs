//! Senders: they post numbers to the daemon's webhooks as fast as it finishes them, in spite of all faults, and log
//! its answers.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Client;
use reqwest::header::RETRY_AFTER;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::oracle::{Oracle, Sent};
use crate::recorder::Recorder;

/// The numbers of senders that are answered when accepted, and when done.
const SENDERS: [(Sent, usize); 2] = [(Sent::Async, 12), (Sent::Sync, 4)];
/// The limit of open executions; senders wait at it.
const WINDOW: usize = 96;
/// The interval between a sender's checks for a daemon.
const AGAIN: Duration = Duration::from_millis(20);
/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(40);
/// The longest idle time of a connection before a request takes a new one. The daemon closes one after 15 s, and a request that is on its
/// way at that moment has no response.
const IDLE: Duration = Duration::from_secs(5);

/// The addresses of a daemon's webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) asynchronous: String,
    pub(super) synchronous: String,
}

impl Addresses {
    fn address(&self, sent: Sent) -> &str {
        match sent {
            Sent::Async => &self.asynchronous,
            Sent::Sync => &self.synchronous,
        }
    }
}

/// Returns the address for a number: each daemon gets its part of them.
fn address_of(daemons: &[Addresses], sent: Sent, number: u64) -> Option<String> {
    let turn = usize::try_from(number).unwrap_or_default() % daemons.len().max(1);
    daemons.get(turn).map(|addresses| addresses.address(sent).to_owned())
}

/// The state that the senders share with the oracle.
#[derive(Debug)]
pub(super) struct Shared {
    oracle: Mutex<Oracle>,
    sink: Recorder,
    acknowledged: Mutex<File>,
    addresses: watch::Sender<Vec<Addresses>>,
    numbers: AtomicU64,
    /// Answers 503 and 429 so far.
    refused: watch::Sender<u64>,
    /// Requests without an answer so far.
    unanswered: AtomicU64,
    stop: CancellationToken,
}

impl Shared {
    /// No sender runs yet. Acknowledged requests are also logged in the file at `acknowledged`.
    pub(super) fn new(sink: Recorder, acknowledged: &Path) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            oracle: Mutex::default(),
            sink,
            acknowledged: Mutex::new(File::options().create(true).append(true).open(acknowledged)?),
            addresses: watch::Sender::default(),
            numbers: AtomicU64::new(0),
            refused: watch::Sender::new(0),
            unanswered: AtomicU64::new(0),
            stop: CancellationToken::new(),
        }))
    }

    /// The judge, who knows all that the sink received.
    pub(super) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        let mut oracle = self.oracle.lock().unwrap_or_else(PoisonError::into_inner);
        for request in self.sink.drain() {
            oracle.received(&request);
        }
        oracle
    }

    pub(super) fn sink(&self) -> &Recorder {
        &self.sink
    }

    /// Sets the addresses of the daemons, of which there may be none.
    pub(super) fn serve_at(&self, addresses: Vec<Addresses>) {
        self.addresses.send_replace(addresses);
    }

    /// The number of refused requests.
    pub(super) fn refused(&self) -> watch::Receiver<u64> {
        self.refused.subscribe()
    }

    /// The number of requests without an answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Sends one request and notes what came of it: the status, or `None` where there was no answer.
    pub(super) async fn send_one(&self, http: &Client, sent: Sent) -> Option<u16> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let url = address_of(&self.addresses.borrow(), sent, number)?;
        self.send(http, &url, sent, number).await
    }

    /// Sends one request to this address, as [`Self::send_one`] does.
    pub(super) async fn send_to(&self, http: &Client, url: &str, sent: Sent) -> Option<u16> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.send(http, url, sent, number).await
    }

    async fn send(&self, http: &Client, url: &str, sent: Sent, number: u64) -> Option<u16> {
        self.oracle().sent(number, sent);
        let Ok(answer) = http.post(url).json(&json!({"n": number})).send().await else {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let status = answer.status().as_u16();
        let has_retry_after = answer.headers().contains_key(RETRY_AFTER);
        // An incomplete answer counts as none.
        let body = answer.json::<Value>().await;
        match (status, body) {
            (200, Ok(body)) => self.acknowledge(number, sent, &body),
            (200, Err(_)) => return None,
            (429 | 503, _) => {
                let wrong = (!has_retry_after).then(|| format!("{status} without Retry-After for {number}"));
                self.oracle().blame(wrong);
                self.refused.send_modify(|count| *count += 1);
            }
            (504, Ok(body)) => {
                let execution = body["executionId"].as_str().unwrap_or_default();
                self.oracle().goes_on(number, execution.to_owned());
            }
            // The fail-stop: nothing is promised.
            (500, _) => {}
            (status, body) => self.oracle().blame(Some(format!("{number} was answered {status}: {body:?}"))),
        }
        Some(status)
    }

    fn acknowledge(&self, number: u64, sent: Sent, body: &Value) {
        let execution = (sent == Sent::Async).then(|| body["executionId"].as_str().unwrap_or_default());
        let line = json!({"n": number, "execution": execution}).to_string() + "\n";
        let written = {
            let mut file = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(line.as_bytes())
        };
        let mut oracle = self.oracle();
        oracle.answered(number, execution.map(str::to_owned));
        oracle.blame(written.err().map(|error| format!("what was acknowledged cannot be noted: {error}")));
    }

    async fn keep_sending(self: Arc<Self>, http: Client, sent: Sent) {
        let mut addresses = self.addresses.subscribe();
        let mut received = self.sink.count();
        loop {
            if addresses.wait_for(|daemons| !daemons.is_empty()).await.is_err() {
                return;
            }
            // Each effect that arrives may have been the last of its execution.
            received.mark_unchanged();
            if self.oracle().open() >= WINDOW {
                let _ = tokio::time::timeout(AGAIN, received.changed()).await;
                continue;
            }
            addresses.mark_unchanged();
            if self.send_one(&http, sent).await != Some(200) {
                // Until there is another daemon, or this one has room.
                let _ = tokio::time::timeout(AGAIN, addresses.changed()).await;
            }
        }
    }
}

/// Senders at work.
#[derive(Debug)]
pub(super) struct Load {
    shared: Arc<Shared>,
    senders: TaskTracker,
}

impl Load {
    /// Begins to send.
    pub(super) fn start(shared: &Arc<Shared>, http: &Client) -> Self {
        let senders = TaskTracker::new();
        for (sent, count) in SENDERS {
            for _ in 0..count {
                let work = shared.clone().keep_sending(http.clone(), sent);
                let stop = shared.stop.clone();
                senders.spawn(async move { stop.run_until_cancelled(work).await });
            }
        }
        Self { shared: shared.clone(), senders }
    }

    /// Sends no more. Pending answers are not awaited: their senders have no result.
    pub(super) async fn stop(self) {
        self.shared.stop.cancel();
        self.senders.close();
        self.senders.wait().await;
    }
}

/// A client for the senders.
#[expect(
    clippy::disallowed_methods,
    reason = "what the daemon may call is guarded, and this is not the daemon"
)]
pub(super) fn client() -> Result<Client, reqwest::Error> {
    Client::builder().timeout(PATIENCE).pool_idle_timeout(IDLE).pool_max_idle_per_host(64).build()
}
