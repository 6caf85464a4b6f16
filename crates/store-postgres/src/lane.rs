//! A lane: a connection that commits one batch after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use model::Backoff;
use tokio::time::Instant;

use super::access::{Access, Late, Lost, PID};
use super::attempt::{Failure, Prepared, Verdict, lacks_partition, refusal};
use super::connect::{LANE_SESSION, Trouble, in_time, is_lost, message, outage_kind};
use super::exchange::Exchange;
use super::op::Item;
use super::partitions::Partitions;
use super::probes::WriteProbes;
use super::queue::{Batch, Queue};
use super::reader::Closing;
use super::recall::recall;
use super::rights;
use store::OutageKind;
use store::counters::Counters;
use store::outage::{Outages, Source};
use store::poison::Poison;

/// The pauses between attempts to connect.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
/// The time after which a write on which the server still works counts as an outage.
const LONG: Duration = Duration::from_secs(10);
/// Maximum number of attempts for a batch that other transactions are in the way of.
const MAX_CONTENTIONS: u32 = 100;

/// Begins again on a new connection: waits for the transaction of the lost one if it is still open, and is synced behind it.
const RESUME: &str =
    "UPDATE lanes SET pid = pg_backend_pid() WHERE node = $1 AND lane = $2 RETURNING batch, dead";
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM lanes \
    WHERE node = $1 AND lane = $2 AND pid <> pg_backend_pid()";

/// The state that the lanes of a store share.
pub(super) struct Shared {
    pub(super) node: i64,
    pub(super) access: Access,
    /// Further settings of the session.
    pub(super) session: String,
    pub(super) queue: Queue,
    pub(super) poison: Poison,
    pub(super) counters: Counters,
    pub(super) outages: Outages,
    pub(super) probes: WriteProbes,
    pub(super) closing: Closing,
    pub(super) partitions: Partitions,
    pub(super) exchange: Exchange,
}

/// A lane.
pub(super) struct Lane {
    shared: Arc<Shared>,
    index: i16,
    prepared: Option<Prepared>,
    /// The number of the last batch that was committed.
    number: i64,
}

/// The end of a lane: no write is possible any more.
struct Stopped;

impl Lane {
    pub(super) fn new(shared: Arc<Shared>, index: i16) -> Self {
        Self { shared, index, prepared: None, number: 0 }
    }

    /// Writes batches until the queue is closed or the store fails.
    pub(super) async fn run(mut self) {
        let queue = self.shared.queue.clone();
        while let Some(batch) = queue.next(self.index == 0).await {
            if self.write(batch).await.is_err() {
                queue.abandon();
                return;
            }
        }
    }

    async fn write(&mut self, mut batch: Batch) -> Result<(), Stopped> {
        let mut pending = VecDeque::from([batch.take()]);
        let mut has_retried = false;
        while let Some(mut items) = pending.pop_front() {
            match self.commit(&mut items).await? {
                Ok(verdicts) => {
                    let mut again = Vec::new();
                    for (mut item, verdict) in items.into_iter().zip(verdicts) {
                        // A caller that went away needs no result.
                        match verdict {
                            Verdict::Done(done) => {
                                self.shared.outages.end(item.op.source());
                                drop(item.reply.send(Ok(done)));
                            }
                            Verdict::Refused(error) => drop(item.reply.send(Err(error))),
                            Verdict::Again => {
                                item.slow = true;
                                again.push(item);
                            }
                        }
                    }
                    if !again.is_empty() {
                        pending.push_front(again);
                    }
                }
                Err(error) if lacks_partition(&error) && !has_retried => {
                    has_retried = true;
                    self.shared.partitions.make_again(&items).await;
                    pending.push_front(items);
                }
                Err(error) => match <[Item; 1]>::try_from(items) {
                    Ok([item]) => self.refuse(item, &error).await,
                    Err(items) => {
                        pending.extend(items.into_iter().map(|item| vec![Item { alone: true, ..item }]))
                    }
                },
            }
        }
        Ok(())
    }

    /// Answers a write that failed by itself, and notes the outage if others fail too.
    async fn refuse(&self, item: Item, error: &tokio_postgres::Error) {
        let kind = outage_kind(error);
        let refusal = refusal(&item.op, error);
        if refusal.outcome_unknown() {
            self.shared.poison.set(&refusal.to_string());
        } else if let Some(kind) = kind {
            let begun = std::time::Instant::now();
            let reason = match &self.prepared {
                Some(prepared) => rights::explain(&prepared.session.client, &item.op, error).await,
                None => message(error),
            };
            self.shared.outages.begin(item.op.source(), kind, &reason, begun);
        }
        let Item { op, reply, .. } = item;
        if let Some(kind) = kind {
            self.shared.probes.note(op, kind);
        }
        drop(reply.send(Err(refusal)));
    }

    /// Commits a batch under the next number, without the writes that were withdrawn before they were sent. Returns the error of a
    /// statement if one failed, and nothing is written then.
    async fn commit(
        &mut self,
        items: &mut Vec<Item>,
    ) -> Result<Result<Vec<Verdict>, tokio_postgres::Error>, Stopped> {
        let (mut contentions, number) = (0, self.number + 1);
        loop {
            let mut prepared = match self.prepared.take() {
                Some(prepared) => prepared,
                None => {
                    let (prepared, stored) = self.connect().await?;
                    if stored == number {
                        match recall(&prepared.session.client, self.shared.node, items).await {
                            Ok(verdicts) => {
                                self.number = number;
                                self.prepared = Some(prepared);
                                return Ok(Ok(verdicts));
                            }
                            Err(error) if is_lost(&error) => continue,
                            Err(error) => return Err(self.stop(&message(&error))),
                        }
                    }
                    if stored != self.number {
                        return Err(self.stop(&format!(
                            "the database has {} batches of this daemon and not {}: it has lost writes that were committed",
                            stored, self.number
                        )));
                    }
                    prepared
                }
            };
            items.retain_mut(Item::claim);
            if items.is_empty() {
                self.prepared = Some(prepared);
                return Ok(Ok(Vec::new()));
            }
            let begun = Instant::now();
            let pid = prepared.pid;
            let attempt = prepared.attempt((self.shared.node, self.index), number, items);
            match self.watch(pid, attempt).await.unwrap_or_else(|lost| Err(Failure::Unknown(lost))) {
                Ok(verdicts) => {
                    self.number = number;
                    let bytes = items.iter().map(|item| item.op.bytes()).sum();
                    self.shared.counters.committed(items.len(), bytes, begun.elapsed());
                    self.prepared = Some(prepared);
                    return Ok(Ok(verdicts));
                }
                Err(Failure::Failed(error)) => {
                    self.prepared = Some(prepared);
                    return Ok(Err(error));
                }
                Err(Failure::Transient(reason)) => {
                    self.prepared = Some(prepared);
                    contentions += 1;
                    if contentions >= MAX_CONTENTIONS {
                        return Err(self.stop(&reason));
                    }
                    tokio::time::sleep(Duration::from_millis(contentions.into())).await;
                }
                Err(Failure::Unknown(reason)) if self.shared.closing.is_over() => {
                    return Err(self.stop(&reason));
                }
                // A new connection finds out if it is committed.
                Err(Failure::Unknown(reason)) => {
                    tracing::info!(lane = self.index, reason, "a connection to the database is lost")
                }
                Err(Failure::Fenced) => {}
            }
        }
    }

    /// Connects, waits for what the lost connection may still do, and returns the number of the last batch that is committed.
    async fn connect(&mut self) -> Result<(Prepared, i64), Stopped> {
        let mut pauses = PAUSES;
        loop {
            match self.resume().await {
                Ok((prepared, batch, false)) => {
                    self.shared.outages.end(Source::Lane(self.index));
                    return Ok((prepared, batch));
                }
                Ok((_, _, true)) => return Err(self.stop("another daemon has taken over")),
                Err(Trouble { kind, reason }) => {
                    self.begin_outage(kind, &reason, Instant::now());
                    if self.shared.closing.is_over() {
                        return Err(self.stop(&format!("the database does not answer: {reason}")));
                    }
                    tokio::time::sleep(pauses.pause()).await;
                }
            }
        }
    }

    fn begin_outage(&self, kind: OutageKind, reason: &str, since: Instant) {
        self.shared.outages.begin(Source::Lane(self.index), kind, reason, since.into_std());
    }

    async fn resume(&self) -> Result<(Prepared, i64, bool), Trouble> {
        let settings = format!("{LANE_SESSION}; {}", self.shared.session);
        let session = in_time(self.shared.access.open(&settings)).await?;
        let pid = in_time(session.client.query_one(PID, &[])).await?;
        let pid = pid.try_get(0).map_err(|error| Trouble::from(&error))?;
        // Without the right to do so, the new connection waits until the server notices that the old one is gone.
        let _ = in_time(session.client.query(TERMINATE, &[&self.shared.node, &self.index])).await;
        let resumed =
            self.watch(pid, session.client.query_opt(RESUME, &[&self.shared.node, &self.index])).await;
        let resumed = resumed.map_err(Trouble::unreachable)?;
        let row = resumed.map_err(|error| Trouble::from(&error))?;
        let (batch, dead) = match row {
            Some(row) => {
                let read = row.try_get(0).and_then(|batch| Ok((batch, row.try_get(1)?)));
                read.map_err(|error| Trouble::from(&error))?
            }
            None => (0, true),
        };
        Ok((Prepared::new(session, pid), batch, dead))
    }

    /// Waits for the answer to a write, as long as the server works on it: a commit may wait for a standby, and is never cancelled.
    /// New requests are refused while one does, while the server does not answer, and while it works longer than [`LONG`], such as
    /// behind the lock of another session. Returns the reason if the server does not work on the write, so that its answer is lost on
    /// the way, or if the store closes and the server still works on it.
    async fn watch<T>(&self, pid: i32, write: impl Future<Output = T>) -> Result<T, String> {
        let mut is_out = false;
        let mut lost = "the answer to a write is lost".to_owned();
        let late = |late: Late, begun: Instant| {
            let (kind, reason) = match late {
                Late::WaitsForStandby => {
                    (OutageKind::Stalled, "commits wait for the synchronous standby".to_owned())
                }
                Late::Unreachable(reason) => (OutageKind::Unreachable, reason),
                Late::Active(event) if self.shared.closing.is_over() => {
                    lost = format!("a write has not ended; the server waits for {event}");
                    return Err(Lost);
                }
                Late::Active(event) if begun.elapsed() >= LONG => {
                    let seconds = LONG.as_secs();
                    let reason =
                        format!("a write takes longer than {seconds} s; the server waits for {event}");
                    (OutageKind::Stalled, reason)
                }
                Late::Active(_) => return Ok(()),
            };
            is_out = true;
            self.begin_outage(kind, &reason, begun);
            Ok(())
        };
        let answer = self.shared.access.watch(pid, write, late).await;
        let answer = answer.map_err(|Lost| lost)?;
        if is_out {
            self.shared.outages.end(Source::Lane(self.index));
        }
        Ok(answer)
    }

    fn stop(&self, reason: &str) -> Stopped {
        self.shared.poison.set(reason);
        Stopped
    }
}
