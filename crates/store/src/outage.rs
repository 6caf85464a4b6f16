//! Outages: the time in which the store takes no writes, with the reason, and one line in the log at its beginning and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::{Capacity, Error};

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
}

/// An outage that has not ended.
#[derive(Clone, Debug)]
pub struct Outage {
    /// Its kind.
    pub kind: OutageKind,
    /// The message of the database or the system.
    pub reason: String,
    /// The instant of the first failure, by the steady clock.
    pub since: Instant,
}

impl Outage {
    /// The time in which a write waits for the database before a caller gets an error. A restart of a server takes less.
    pub const GRACE: Duration = Duration::from_secs(2);

    /// Returns true if starts are refused: at once, unless the database does not answer and may do so within [`Self::GRACE`].
    #[must_use]
    pub fn refuses_starts(&self) -> bool {
        !self.keeps_writes() || self.since.elapsed() >= Self::GRACE
    }

    /// Returns true if writes wait for the end of the outage instead of failing.
    #[must_use]
    pub fn keeps_writes(&self) -> bool {
        !matches!(self.kind, OutageKind::Full | OutageKind::Refused)
    }

    /// Completes once writes have waited for `time` for the end of an outage. Pending for ever if that does not happen.
    pub async fn keeps_writes_for(outages: watch::Receiver<Option<Self>>, time: Duration) -> Self {
        Self::lasts(outages, time, Self::keeps_writes).await
    }

    /// Completes once the database has not answered for `time`. Pending for ever if that does not happen.
    pub async fn is_unreachable_for(outages: watch::Receiver<Option<Self>>, time: Duration) -> Self {
        Self::lasts(outages, time, |outage| outage.kind == OutageKind::Unreachable).await
    }

    async fn lasts(
        mut outages: watch::Receiver<Option<Self>>,
        time: Duration,
        counts: impl Fn(&Self) -> bool,
    ) -> Self {
        loop {
            let outage = outages.borrow_and_update().clone().filter(|outage| counts(outage));
            let left = outage.as_ref().map(|outage| time.saturating_sub(outage.since.elapsed()));
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
pub(crate) enum Source {
    /// The connections that write, by number.
    Lane(i16),
    /// The connections that read.
    Reader,
    /// The beat.
    Beat,
    /// Writes of a kind that were refused.
    Write(&'static str),
}

/// The outages of a store. All clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Outages(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The outages by source, in the order in which they began.
    open: Mutex<Vec<(Source, Outage)>>,
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
    pub(crate) fn begin(&self, source: Source, kind: OutageKind, reason: &str, since: Instant) {
        let mut open = self.open();
        match open.iter_mut().find(|(other, _)| *other == source) {
            Some((_, outage)) => (outage.kind, outage.reason) = (kind, reason.to_owned()),
            None => open.push((source, Outage { kind, reason: reason.to_owned(), since })),
        }
        let is_first = !self.0.is_open.swap(true, Ordering::Relaxed);
        self.publish(&open);
        drop(open);
        if is_first {
            tracing::error!(
                kind = kind.as_str(),
                reason,
                "writes wait for the database; new executions are refused until it takes writes again"
            );
        }
    }

    /// Notes that a write of a source succeeded. Logs the end if this was the last source.
    pub(crate) fn end(&self, source: Source) {
        if !self.0.is_open.load(Ordering::Relaxed) {
            return;
        }
        let mut open = self.open();
        open.retain(|(other, _)| *other != source);
        let was_open = self.0.is_open.swap(!open.is_empty(), Ordering::Relaxed);
        let began = self.publish(&open);
        let has_ended = was_open && open.is_empty();
        drop(open);
        if let Some(began) = began.filter(|_| has_ended) {
            tracing::info!(seconds = began.elapsed().as_secs(), "the database takes writes again");
        }
    }

    /// Returns the current outage.
    pub(crate) fn current(&self) -> Option<Outage> {
        if self.0.is_open.load(Ordering::Relaxed) { self.0.current.borrow().clone() } else { None }
    }

    /// Returns the room that is left: none in an outage for lack of space.
    pub(crate) fn limit(&self, capacity: Capacity) -> Capacity {
        let is_full = self.current().is_some_and(|outage| outage.kind == OutageKind::Full);
        if is_full { Capacity::Exhausted } else { capacity }
    }

    /// Returns true if writes of this source fail.
    pub(crate) fn has(&self, source: Source) -> bool {
        self.open().iter().any(|(other, _)| *other == source)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Outage>> {
        self.0.current.subscribe()
    }

    /// Publishes the gravest outage with the earliest beginning, also if the part that noticed it first writes again. Returns the
    /// beginning of the one before.
    fn publish(&self, open: &[(Source, Outage)]) -> Option<Instant> {
        let began = self.0.current.borrow().as_ref().map(|outage| outage.since);
        let since = open.iter().map(|(_, outage)| outage.since).chain(began).min();
        let rank = |outage: &Outage| OutageKind::ALL.iter().position(|kind| *kind == outage.kind);
        let first = open.iter().map(|(_, outage)| outage).min_by_key(|outage| rank(outage)).cloned();
        let next = first.zip(since).map(|(outage, since)| Outage { since, ..outage });
        let before = self.0.current.send_replace(next);
        before.map(|outage| outage.since)
    }

    fn open(&self) -> MutexGuard<'_, Vec<(Source, Outage)>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_when_every_part_that_noticed_it_writes_again() {
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

    #[test]
    fn only_a_database_that_does_not_answer_has_a_moment_of_grace() {
        let outage = |kind, ago| {
            let since = Instant::now().checked_sub(ago).expect("an instant");
            Outage { kind, reason: String::new(), since }
        };
        assert!(!outage(OutageKind::Unreachable, Duration::ZERO).refuses_starts());
        assert!(outage(OutageKind::Unreachable, Outage::GRACE).refuses_starts());
        for kind in [OutageKind::Full, OutageKind::Refused] {
            assert!(outage(kind, Duration::ZERO).refuses_starts(), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_caller_waits_for_an_outage_that_lasts_and_not_for_one_that_refuses() {
        let outages = Outages::default();
        let waits = Outage::keeps_writes_for(outages.subscribe(), Duration::ZERO);
        outages.begin(Source::Write("append"), OutageKind::Full, "no space", Instant::now());
        outages.begin(Source::Beat, OutageKind::Unreachable, "gone", Instant::now());
        assert_eq!(waits.await.reason, "gone");
    }
}
