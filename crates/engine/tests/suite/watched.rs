//! A store that a test can observe, block, and make fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use model::{AutomationId, ExecutionId};
use store::{Call, Error, Layer, Layered, Outage, Store};
use tokio::sync::{Notify, Semaphore};

use crate::common::until;

/// A store that counts writes, blocks them at a gate, and can fail them with an unknown outcome or as full.
pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    accepts: AtomicU64,
    appends: AtomicU64,
    /// The number of reads of execution logs.
    pub(crate) reads: AtomicU64,
    /// The number of reads of execution rows.
    pub(crate) looks: AtomicU64,
    /// The number of pages of the outbox that were read.
    pub(crate) outbox_pages: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) fail: AtomicU64,
    /// The number of next writes that fail as full.
    pub(crate) full: AtomicU64,
    /// The number of next writes that are refused for another reason.
    pub(crate) refused: AtomicU64,
    /// True if the store refuses trigger progress that starts no execution.
    pub(crate) refuses_progress: AtomicBool,
    /// The reason why the store refuses appends; `None` if it takes them.
    pub(crate) refused_appends: Mutex<Option<String>>,
    /// An Automation, and the number of writes of its subscription that the store accepts before it refuses them.
    pub(crate) refused_subscription: Mutex<Option<(AutomationId, u64)>>,
    /// The number of next log reads that the database does not answer.
    pub(crate) unanswered: AtomicU64,
    pub(crate) gate: Semaphore,
    /// As `gate`, for log reads.
    pub(crate) reading: Semaphore,
    /// As `gate`, for searches of steps that wait for an event.
    pub(crate) searching: Semaphore,
    /// Notified when a read finds the file damaged.
    pub(crate) damaged: Notify,
    /// An execution that the store reports as missing.
    pub(crate) hidden: Mutex<Option<ExecutionId>>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        let open = || Semaphore::new(1 << 20);
        Arc::new(Self {
            inner,
            accepts: zero(),
            appends: zero(),
            reads: zero(),
            looks: zero(),
            outbox_pages: zero(),
            waiting: zero(),
            fail: zero(),
            full: zero(),
            refused: zero(),
            refuses_progress: AtomicBool::new(false),
            refused_appends: Mutex::default(),
            refused_subscription: Mutex::default(),
            unanswered: zero(),
            gate: open(),
            reading: open(),
            searching: open(),
            damaged: Notify::new(),
            hidden: Mutex::new(None),
        })
    }

    /// Returns the store.
    pub(crate) fn store(self: &Arc<Self>) -> Arc<dyn Store> {
        Arc::new(Layered { store: self.inner.clone(), layer: self.clone() })
    }

    /// Returns the numbers of accept and append calls.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.accepts.load(Ordering::Relaxed), self.appends.load(Ordering::Relaxed))
    }

    /// Blocks all writes from now on, until the gate has permits again.
    pub(crate) fn shut(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Waits until `count` writes are blocked.
    pub(crate) async fn held(&self, count: u64) {
        until(|| self.waiting.load(Ordering::SeqCst) >= count).await;
    }

    /// Returns the number of log reads by others while this log is read many times, which reveals a busy loop.
    pub(crate) async fn reads_meanwhile(&self, id: ExecutionId) -> u64 {
        const MANY: u64 = 300;
        let before = self.reads.load(Ordering::SeqCst);
        for _ in 0..MANY {
            self.inner.replay_log(id).await.expect("the store reads").expect("it is known");
        }
        self.reads.load(Ordering::SeqCst) - before
    }

    async fn before_write(&self) -> Result<(), Error> {
        if self.fail.load(Ordering::SeqCst) > 0 {
            return Err(in_doubt());
        }
        if takes_one(&self.full) {
            return Err(Error::Full);
        }
        if takes_one(&self.refused) {
            return Err(refusal());
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.expect("the gate stays").forget();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

#[async_trait]
impl Layer for Watched {
    type Guard = ();

    async fn before(&self, call: Call<'_>) -> Result<(), Error> {
        match call {
            Call::Accept(accept) => {
                self.accepts.fetch_add(1, Ordering::Relaxed);
                self.before_write().await?;
                if accept.executions.is_empty() && self.refuses_progress.load(Ordering::SeqCst) {
                    return Err(refusal());
                }
            }
            Call::Append => {
                self.appends.fetch_add(1, Ordering::Relaxed);
                if let Some(reason) = self.refused_appends.lock().expect("no panic").clone() {
                    return Err(Error::Write { reason });
                }
                self.before_write().await?;
            }
            Call::ReplayLog => {
                self.reads.fetch_add(1, Ordering::SeqCst);
                self.reading.acquire().await.expect("the gate stays").forget();
                if takes_one(&self.unanswered) {
                    let reason = "all connections that read are in use".to_owned();
                    return Err(Error::Unreachable { reason });
                }
            }
            Call::Execution => {
                self.looks.fetch_add(1, Ordering::SeqCst);
            }
            Call::OutboxPage => {
                self.outbox_pages.fetch_add(1, Ordering::SeqCst);
            }
            Call::WaitingForEvent => self.searching.acquire().await.expect("the gate stays").forget(),
            Call::PutSubscription(subscription) => {
                if let Some((refused, left)) = self.refused_subscription.lock().expect("no panic").as_mut()
                    && *refused == subscription.trigger.automation
                {
                    *left = left.checked_sub(1).ok_or_else(refusal)?;
                }
            }
            Call::Other => {}
        }
        Ok(())
    }

    fn hides(&self, execution: ExecutionId) -> bool {
        *self.hidden.lock().expect("nobody panicked") == Some(execution)
    }

    fn outage(&self) -> Option<Outage> {
        let refused = self.refused_appends.lock().expect("no panic").clone();
        refused.map(|reason| Outage::of_refused_writes(reason, std::time::Instant::now()))
    }

    async fn failure(&self) -> Error {
        self.damaged.notified().await;
        Error::DatabaseDamaged { detail: "a page".to_owned() }
    }
}

/// Takes one from a number. Returns false if it is zero.
fn takes_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn refusal() -> Error {
    Error::Write { reason: "permission denied".to_owned() }
}

fn in_doubt() -> Error {
    let error = Error::Commit { reason: "injected".to_owned() };
    assert!(error.outcome_unknown());
    error
}
