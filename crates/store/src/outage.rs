//! Outages: the time in which the store takes no writes, with the reason, and one line in the log at its beginning and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::Backoff;
use tokio::sync::watch;

use crate::{Capacity, Error};

/// The pauses between probes of writes that failed.
pub const PROBE_PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));

/// The kind of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// The database does not answer.
    Unreachable,
    /// The database works on a write for long, such as behind the lock of another session.
    Stalled,
    /// The database takes reads only.
    ReadOnly,
    /// There is no space left for a write.
    Full,
    /// The database refuses writes for another reason, such as a missing right.
    Refused,
}

impl OutageKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Unreachable, Self::Stalled, Self::ReadOnly, Self::Full, Self::Refused];

    /// Returns the word for it in the API and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Stalled => "stalled",
            Self::ReadOnly => "readOnly",
            Self::Full => "full",
            Self::Refused => "refused",
        }
    }

    /// Returns true if writes wait for the end of an outage of this kind instead of failing.
    fn keeps_writes(self) -> bool {
        !matches!(self, Self::Full | Self::Refused)
    }

    /// Returns what the log says at the beginning.
    fn effect(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "the database does not answer; writes wait for the database, and new executions are refused after 2 seconds"
            }
            Self::Stalled => {
                "a write does not end; writes wait for the database, and new executions are refused after 2 seconds"
            }
            Self::ReadOnly => {
                "the database takes reads only; writes wait for the database, and new executions are refused after 2 seconds"
            }
            Self::Full => "writes fail for lack of space; executions wait and repeat them",
            Self::Refused => "the database refuses writes; executions wait and repeat them",
        }
    }
}

/// An outage that has not ended.
#[derive(Clone, Debug)]
pub struct Outage {
    /// The gravest kind of all parts of the store that fail.
    pub kind: OutageKind,
    /// The message of the database or the system, and after a semicolon the way out, if it is known.
    pub reason: String,
    /// The instant of the first failure of any kind, by the steady clock.
    pub since: Instant,
    /// The instant of the first failure of this kind.
    kind_since: Instant,
    /// The instant since which writes wait; `None` if none does.
    waits_since: Option<Instant>,
    /// True if the writes of new executions fail.
    starts_fail: bool,
}

impl Outage {
    /// The time in which a write waits for the database before a caller gets an error. A restart of a server takes less.
    pub const GRACE: Duration = Duration::from_secs(2);

    /// Creates an outage in which writes that are no starts are refused.
    #[must_use]
    pub fn of_refused_writes(reason: String, since: Instant) -> Self {
        let (kind, kind_since, waits_since, starts_fail) = (OutageKind::Refused, since, None, false);
        Self { kind, reason, since, kind_since, waits_since, starts_fail }
    }

    /// Returns true if starts are refused: at once if their writes fail, and once writes have waited for [`Self::GRACE`].
    #[must_use]
    pub fn refuses_starts(&self) -> bool {
        self.starts_fail || self.waits_since.is_some_and(|since| since.elapsed() >= Self::GRACE)
    }

    /// Returns true if writes wait for the end of the outage instead of failing.
    #[must_use]
    pub fn keeps_writes(&self) -> bool {
        self.waits_since.is_some()
    }

    /// Completes once writes have waited for `time` for the end of an outage. Pending for ever if that does not happen.
    pub async fn keeps_writes_for(outages: watch::Receiver<Option<Self>>, time: Duration) -> Self {
        Self::lasts(outages, time, |outage| outage.waits_since).await
    }

    /// Completes once the database has not answered for `time`. Pending for ever if that does not happen.
    pub async fn is_unreachable_for(outages: watch::Receiver<Option<Self>>, time: Duration) -> Self {
        let since = |outage: &Self| (outage.kind == OutageKind::Unreachable).then_some(outage.kind_since);
        Self::lasts(outages, time, since).await
    }

    async fn lasts(
        mut outages: watch::Receiver<Option<Self>>,
        time: Duration,
        since: impl Fn(&Self) -> Option<Instant>,
    ) -> Self {
        loop {
            let outage = outages.borrow_and_update().clone();
            let left = outage.as_ref().and_then(&since).map(|since| time.saturating_sub(since.elapsed()));
            // Without an outage there is no timer: most callers never need one.
            let over = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            match (outage, left) {
                (Some(outage), Some(Duration::ZERO)) => return outage,
                _ => tokio::select! {
                    biased;
                    changed = outages.changed() => {
                        if changed.is_err() {
                            std::future::pending::<()>().await;
                        }
                    }
                    () = over => {}
                },
            }
        }
    }

    /// Returns the error of a write during this outage. Nothing was written.
    #[must_use]
    pub fn error(&self) -> Error {
        match self.kind {
            OutageKind::Full => Error::Full,
            OutageKind::Refused => Error::Write { reason: self.reason.clone() },
            OutageKind::Unreachable | OutageKind::Stalled | OutageKind::ReadOnly => {
                Error::Unreachable { reason: self.reason.clone() }
            }
        }
    }
}

/// A part of the store that notices outages by itself. An outage of the store ends when it has ended for every part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The connections that write, by number.
    Lane(i16),
    /// The connections that read.
    Reader,
    /// The beat.
    Beat,
    /// The only writer of a store in a file.
    Writer,
    /// Writes of a kind that accepts executions.
    Start(&'static str),
    /// Writes of another kind.
    Write(&'static str),
}

/// An outage as one part of the store has noticed it.
#[derive(Debug)]
struct Noticed {
    source: Source,
    kind: OutageKind,
    reason: String,
    since: Instant,
    kind_since: Instant,
}

impl Noticed {
    /// Returns true if writes wait for its end. No write to a file does.
    fn waits(&self) -> bool {
        self.kind.keeps_writes() && self.source != Source::Writer
    }

    /// Returns true if the writes of new executions fail by this. A start can succeed while the database refuses another kind of
    /// write.
    fn fails_starts(&self) -> bool {
        !self.waits() && !matches!(self.source, Source::Write(_))
    }
}

/// The outages of a store. All clones share them.
#[derive(Clone, Debug)]
pub struct Outages(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open: Mutex<Vec<Noticed>>,
    /// True if `open` is not empty, to be read without a lock after each write.
    is_open: AtomicBool,
    current: watch::Sender<Option<Outage>>,
}

impl Default for Outages {
    fn default() -> Self {
        let (open, is_open) = (Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Inner { open, is_open, current: watch::Sender::new(None) }))
    }
}

impl Outages {
    /// Notes that writes of a source fail, for the first time at `since`. Logs the beginning if there was no outage.
    pub fn begin(&self, source: Source, kind: OutageKind, reason: &str, since: Instant) {
        let mut open = self.open();
        match open.iter_mut().find(|noticed| noticed.source == source) {
            Some(noticed) => {
                if noticed.kind != kind {
                    noticed.kind_since = since;
                }
                (noticed.kind, noticed.reason) = (kind, reason.to_owned());
            }
            None => open.push(Noticed { source, kind, reason: reason.to_owned(), since, kind_since: since }),
        }
        let is_first = !self.0.is_open.swap(true, Ordering::Relaxed);
        self.publish(&open);
        drop(open);
        if is_first {
            let effect = match source {
                Source::Writer => "writes fail; executions wait and repeat them",
                _ => kind.effect(),
            };
            tracing::error!(kind = kind.as_str(), reason, "{effect}");
        }
    }

    /// Notes that a write of a source succeeded. Logs the end if this was the last source.
    pub fn end(&self, source: Source) {
        if !self.0.is_open.load(Ordering::Relaxed) {
            return;
        }
        let mut open = self.open();
        open.retain(|noticed| noticed.source != source);
        let was_open = self.0.is_open.swap(!open.is_empty(), Ordering::Relaxed);
        let began = self.publish(&open);
        let has_ended = was_open && open.is_empty();
        drop(open);
        if let Some(began) = began.filter(|_| has_ended) {
            tracing::info!(seconds = began.elapsed().as_secs(), "the database takes writes again");
        }
    }

    /// Returns the current outage.
    pub fn current(&self) -> Option<Outage> {
        if self.0.is_open.load(Ordering::Relaxed) { self.0.current.borrow().clone() } else { None }
    }

    /// Returns the room that is left: none in an outage for lack of space.
    pub fn limit(&self, capacity: Capacity) -> Capacity {
        let is_full = self.current().is_some_and(|outage| outage.kind == OutageKind::Full);
        if is_full { Capacity::Exhausted } else { capacity }
    }

    /// Returns true if writes of this source fail.
    pub fn has(&self, source: Source) -> bool {
        self.open().iter().any(|noticed| noticed.source == source)
    }

    /// Subscribes to the outage that has not ended.
    pub fn subscribe(&self) -> watch::Receiver<Option<Outage>> {
        self.0.current.subscribe()
    }

    /// Publishes the gravest kind with the beginnings of the whole outage, of this kind and of the wait, which stay if the part that
    /// noticed them first writes again. Returns the beginning of the outage that was published before.
    fn publish(&self, open: &[Noticed]) -> Option<Instant> {
        let before = self.0.current.borrow().clone();
        let rank = |noticed: &&Noticed| OutageKind::ALL.iter().position(|kind| *kind == noticed.kind);
        let next = open.iter().min_by_key(rank).map(|gravest| {
            let kind = gravest.kind;
            let earlier = before.as_ref();
            let since = open.iter().map(|noticed| noticed.since).chain(earlier.map(|before| before.since));
            let of_kind =
                open.iter().filter(|noticed| noticed.kind == kind).map(|noticed| noticed.kind_since);
            let of_kind =
                of_kind.chain(earlier.filter(|before| before.kind == kind).map(|before| before.kind_since));
            let waits = open.iter().filter(|noticed| noticed.waits());
            let waits_since = waits.map(|noticed| noticed.kind_since).min();
            let waited_since = earlier.and_then(|before| before.waits_since);
            Outage {
                kind,
                reason: gravest.reason.clone(),
                since: since.min().unwrap_or(gravest.since),
                kind_since: of_kind.min().unwrap_or(gravest.kind_since),
                waits_since: waits_since.map(|since| waited_since.map_or(since, |waited| since.min(waited))),
                starts_fail: open.iter().any(Noticed::fails_starts),
            }
        });
        self.0.current.send_replace(next);
        before.map(|outage| outage.since)
    }

    fn open(&self) -> MutexGuard<'_, Vec<Noticed>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_once_every_reporting_source_has_recovered() {
        let (outages, begun) = (Outages::default(), Instant::now());
        assert!(outages.current().is_none());
        outages.begin(Source::Write("append"), OutageKind::Full, "no space", begun);
        outages.begin(Source::Lane(0), OutageKind::Unreachable, "refused", begun);
        outages.end(Source::Write("accept"));
        let current = outages.current().expect("it goes on");
        assert_eq!((current.kind, current.reason.as_str()), (OutageKind::Unreachable, "refused"));
        outages.end(Source::Lane(0));
        assert_eq!(outages.current().expect("it goes on").kind, OutageKind::Full);
        // A part that notices it later does not change its beginning, nor does the end of it in the first part.
        outages.begin(Source::Beat, OutageKind::Full, "no space", begun + Duration::from_secs(3));
        outages.end(Source::Write("append"));
        assert_eq!(outages.current().expect("it goes on").since, begun);
        outages.end(Source::Beat);
        assert!(outages.current().is_none());
        assert!(!outages.has(Source::Lane(0)));
    }

    /// Notices an outage of a kind in one part, and returns what is published.
    fn outage(source: Source, kind: OutageKind, ago: Duration) -> Outage {
        let outages = Outages::default();
        outages.begin(source, kind, "", before(ago));
        outages.current().expect("an outage")
    }

    fn before(ago: Duration) -> Instant {
        Instant::now().checked_sub(ago).expect("an instant")
    }

    #[test]
    fn only_an_unreachable_database_gets_a_grace_period() {
        let of_lane = |kind, ago| outage(Source::Lane(0), kind, ago);
        assert!(!of_lane(OutageKind::Unreachable, Duration::ZERO).refuses_starts());
        assert!(of_lane(OutageKind::Unreachable, Outage::GRACE).refuses_starts());
        for kind in [OutageKind::Full, OutageKind::Refused] {
            assert!(of_lane(kind, Duration::ZERO).refuses_starts(), "{kind:?}");
        }
        for kind in [OutageKind::Stalled, OutageKind::ReadOnly] {
            assert!(
                outage(Source::Writer, kind, Duration::ZERO).refuses_starts(),
                "{kind:?}, and no write to a file waits"
            );
        }
    }

    #[test]
    fn a_rejected_background_write_does_not_block_new_executions() {
        for kind in [OutageKind::Full, OutageKind::Refused] {
            assert!(!outage(Source::Write("prune"), kind, Outage::GRACE).refuses_starts(), "{kind:?}");
            assert!(outage(Source::Start("start"), kind, Duration::ZERO).refuses_starts(), "{kind:?}");
        }
        let outages = Outages::default();
        outages.begin(Source::Start("start"), OutageKind::Refused, "no right", Instant::now());
        outages.begin(Source::Beat, OutageKind::Unreachable, "gone", Instant::now());
        assert!(
            outages.current().expect("an outage").refuses_starts(),
            "its kind has grace, the start has none"
        );
        outages.end(Source::Start("start"));
        assert!(!outages.current().expect("an outage").refuses_starts());
    }

    #[tokio::test]
    async fn the_grace_period_starts_when_the_database_becomes_unreachable() {
        let (outages, long) = (Outages::default(), Duration::from_secs(600));
        outages.begin(Source::Write("prune"), OutageKind::Refused, "no right", before(long));
        outages.begin(Source::Beat, OutageKind::Unreachable, "gone", Instant::now());
        let current = outages.current().expect("an outage");
        assert!(!current.refuses_starts(), "it may be a restart of the server");
        assert!(current.since.elapsed() >= long, "the outage has lasted longer");
        let is_over = |waits| futures_util::FutureExt::now_or_never(waits).is_some();
        assert!(!is_over(Box::pin(Outage::is_unreachable_for(outages.subscribe(), Outage::GRACE))));
        // One part notices another kind.
        outages.begin(Source::Lane(0), OutageKind::Stalled, "a lock", before(long));
        assert!(outages.current().expect("an outage").refuses_starts(), "writes have waited for longer");
        assert!(!is_over(Box::pin(Outage::is_unreachable_for(outages.subscribe(), Outage::GRACE))));
        outages.begin(Source::Lane(0), OutageKind::Unreachable, "gone", Instant::now());
        assert!(outages.current().expect("an outage").refuses_starts(), "they wait on");
    }

    #[tokio::test]
    async fn a_caller_waits_only_for_an_outage_that_queues_writes() {
        let outages = Outages::default();
        let waits = Outage::keeps_writes_for(outages.subscribe(), Duration::ZERO);
        outages.begin(Source::Write("append"), OutageKind::Full, "no space", Instant::now());
        outages.begin(Source::Beat, OutageKind::Unreachable, "gone", Instant::now());
        assert_eq!(waits.await.reason, "gone");
    }
}
