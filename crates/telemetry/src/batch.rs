//! The loop of an exporter: collects entries into batches, and sends each.

use std::sync::Arc;

use opentelemetry_sdk::error::OTelSdkResult;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::SignalConfig;
use crate::queue::Counts;

/// Turns entries of a queue into what is sent, and sends it.
pub(crate) trait Sink: Send {
    /// An entry of the queue.
    type Entry: Send;
    /// A span or a log record.
    type Item: Send;

    /// The items of an entry.
    fn items(&mut self, entry: Self::Entry) -> impl Future<Output = Vec<Self::Item>> + Send;

    /// Sends a batch. It ends by its own timeout.
    fn send(&mut self, batch: Vec<Self::Item>) -> impl Future<Output = OTelSdkResult> + Send;
}

/// Sends what comes through `queue` until `stop`, and then what is left in it.
pub(crate) async fn run<S: Sink>(
    mut sink: S,
    mut queue: mpsc::Receiver<S::Entry>,
    config: SignalConfig,
    counts: Arc<Counts>,
    stop: CancellationToken,
) {
    let mut batch = Vec::new();
    let mut due: Option<Instant> = None;
    let mut reporter = Reporter::default();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled(), if !queue.is_closed() => queue.close(),
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                flush(&mut sink, std::mem::take(&mut batch), &counts, &mut reporter).await;
            }
            entry = queue.recv() => {
                let Some(entry) = entry else { break };
                batch.extend(sink.items(entry).await);
                while batch.len() >= config.batch {
                    let rest = batch.split_off(config.batch);
                    flush(&mut sink, std::mem::replace(&mut batch, rest), &counts, &mut reporter).await;
                }
                due = match batch.is_empty() {
                    true => None,
                    false => due.or_else(|| Some(Instant::now() + config.delay)),
                };
            }
        }
    }
    flush(&mut sink, batch, &counts, &mut reporter).await;
}

async fn flush<S: Sink>(sink: &mut S, batch: Vec<S::Item>, counts: &Counts, reporter: &mut Reporter) {
    if batch.is_empty() {
        return;
    }
    let number = u64::try_from(batch.len()).unwrap_or(u64::MAX);
    let sent = sink.send(batch).await;
    if sent.is_ok() {
        counts.sent.add(number)
    } else {
        counts.dropped.add(number)
    }
    reporter.report(sent);
}

/// Logs the first failure in a row, and its end: a collector that is away for a day must not fill the log.
#[derive(Debug, Default)]
struct Reporter {
    is_failing: bool,
}

impl Reporter {
    fn report(&mut self, sent: OTelSdkResult) {
        let was_failing = std::mem::replace(&mut self.is_failing, sent.is_err());
        match sent {
            Err(error) if !was_failing => {
                tracing::warn!(%error, "the OpenTelemetry collector does not accept the data, which is dropped");
            }
            Ok(()) if was_failing => {
                tracing::info!("the OpenTelemetry collector accepts data again")
            }
            _ => {}
        }
    }
}
