//! A bounded queue whose senders never wait: what does not fit is dropped and counted.

use model::metric::Counter;
use tokio::sync::mpsc;

/// The counters of a signal.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Spans or records that a collector accepted.
    pub(crate) sent: Counter,
    /// Spans or records that were lost.
    pub(crate) dropped: Counter,
    /// Entries that did not fit into the queue.
    pub(crate) refused: Counter,
}

/// Puts `entry` into the queue, or counts it as refused. After the end of the exporter nothing is taken or counted.
pub(crate) fn offer<T>(queue: &mpsc::Sender<T>, counts: &Counts, entry: T) {
    if let Err(mpsc::error::TrySendError::Full(_)) = queue.try_send(entry) {
        counts.refused.increment();
    }
}
