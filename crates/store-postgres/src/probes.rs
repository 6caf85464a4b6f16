//! The probe of refused writes: while the database refuses a kind of write, the last refused one of each kind is sent again in a
//! transaction that is rolled back, with growing pauses, so that the end of the outage is noticed although nobody sends requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::arrange::arrange;
use super::connect::{LANE_SESSION, Session, Trouble, in_time, is_lost, is_transient, outage_kind};
use super::lane::Shared;
use super::op::{Item, Op, params};
use super::rights;
use store::OutageKind;
use store::outage::{PROBE_PAUSES, Source};

/// The largest write that is kept where fewer bytes, or other ones, tell as much.
const MAX_BYTES: usize = 1 << 20;

/// Locks the row of a lane as each transaction does.
const FENCE: &str = "UPDATE lanes SET batch = batch WHERE node = $1 AND lane = 0";
const FILL: &str = "INSERT INTO meta (name, value) VALUES ('probe', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// The write that a probe sends.
#[derive(Debug)]
enum Sample {
    /// A refused write itself.
    Write(Op),
    /// As many bytes as a large write that found no space.
    Bytes(usize),
}

/// The last refused write of each kind, in the order in which they are probed. There are as many kinds as statements.
#[derive(Debug, Default)]
pub(super) struct WriteProbes {
    waiting: Mutex<VecDeque<(Source, Sample)>>,
    noted: Notify,
}

impl WriteProbes {
    /// Keeps a refused write for the next probe.
    pub(super) fn note(&self, op: Op, kind: OutageKind) {
        let (source, bytes) = (op.source(), op.bytes());
        let is_large = bytes > MAX_BYTES;
        let sample =
            if is_large && kind == OutageKind::Full { Sample::Bytes(bytes) } else { Sample::Write(op) };
        let mut waiting = self.waiting();
        match waiting.iter_mut().find(|(other, _)| *other == source) {
            // A smaller one meets the same refusal.
            Some((_, Sample::Write(_))) if is_large && matches!(sample, Sample::Write(_)) => {}
            Some((_, last)) => *last = sample,
            None => waiting.push_back((source, sample)),
        }
        drop(waiting);
        self.noted.notify_one();
    }

    /// Takes a sample of each kind that is still refused.
    fn take(&self, is_refused: impl Fn(Source) -> bool) -> VecDeque<(Source, Sample)> {
        let mut taken = std::mem::take(&mut *self.waiting());
        taken.retain(|(source, _)| is_refused(*source));
        taken
    }

    /// Puts a sample back whose kind is refused again, unless there is a newer one.
    fn put_back(&self, source: Source, sample: Sample) {
        let mut waiting = self.waiting();
        if !waiting.iter().any(|(other, _)| *other == source) {
            waiting.push_back((source, sample));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(Source, Sample)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Probes refused writes until the task is aborted: all kinds after each pause.
pub(super) async fn keep_probing(shared: Arc<Shared>) {
    let mut pauses = PROBE_PAUSES;
    loop {
        let is_refused = |source| shared.outages.has(source);
        let round = shared.probes.take(is_refused);
        if round.is_empty() {
            pauses.reset();
            shared.probes.noted.notified().await;
            continue;
        }
        tokio::time::sleep(pauses.pause()).await;
        let settings = format!("{LANE_SESSION}; SET lock_timeout = '2s'; SET statement_timeout = '5s'");
        let session = in_time(shared.access.open(&settings)).await.ok();
        for (source, sample) in round {
            let (sample, probed) = match &session {
                Some(session) => probe(&shared, session, sample).await,
                // The other connections notice that the server does not answer.
                None => (sample, Err(None)),
            };
            match probed {
                Ok(()) => {
                    shared.outages.end(source);
                    pauses.reset();
                }
                Err(trouble) => {
                    if let Some(Trouble { kind, reason }) = trouble
                        && shared.outages.has(source)
                    {
                        shared.outages.begin(source, kind, &reason, Instant::now().into_std());
                    }
                    shared.probes.put_back(source, sample);
                }
            }
        }
    }
}

/// Sends a sample in a transaction that is rolled back. Returns it with the reason if it was refused, and `None` as the reason if
/// another transaction was in the way.
async fn probe(shared: &Shared, session: &Session, sample: Sample) -> (Sample, Result<(), Option<Trouble>>) {
    let op = match sample {
        Sample::Write(op) => op,
        Sample::Bytes(bytes) => {
            let fill = Op::Statements(vec![(FILL, params![incompressible(bytes)])]);
            return (Sample::Bytes(bytes), send(shared, session, fill).await.1);
        }
    };
    let (op, result) = send(shared, session, op).await;
    (Sample::Write(op), result)
}

async fn send(shared: &Shared, session: &Session, op: Op) -> (Op, Result<(), Option<Trouble>>) {
    let slow = !op.is_simple_append();
    let items = [Item { op, alone: true, slow, claim: None, reply: oneshot::channel().0 }];
    let client = &session.client;
    let sent = async {
        client.batch_execute("BEGIN").await?;
        client.execute(FENCE, &[&shared.node]).await?;
        for step in arrange(shared.node, &items) {
            client.query(step.sql, &step.params.borrowed()).await?;
        }
        Ok::<(), tokio_postgres::Error>(())
    };
    let sent = tokio::time::timeout(Duration::from_secs(10), sent).await;
    let rolled_back = in_time(client.batch_execute("ROLLBACK")).await;
    let result = match sent {
        // Of a lost connection the other ones tell.
        Ok(Err(error)) if is_transient(&error) || is_lost(&error) => Err(None),
        Ok(Err(error)) if let Some(kind) = outage_kind(&error) => {
            Err(Some(Trouble { kind, reason: rights::explain(client, &items[0].op, &error).await }))
        }
        Ok(_) => rolled_back.map_err(|_| None),
        Err(_) => Err(None),
    };
    let [item] = items;
    (item.op, result)
}

/// Returns bytes that take their space although the server compresses values.
fn incompressible(bytes: usize) -> Vec<u8> {
    let mut state = uuid::Uuid::new_v4().as_u64_pair().1;
    let words = std::iter::repeat_with(|| {
        // SplitMix64, by Steele, Lea and Flood: fast, and without a pattern that a compression finds.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    });
    words.take(bytes.div_ceil(8)).flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write of this kind with this number of statements.
    fn write(kind: &'static str, count: usize) -> Op {
        Op::Statements((0..count).map(|_| (kind, Vec::new())).collect())
    }

    fn sources(round: &VecDeque<(Source, Sample)>) -> Vec<Source> {
        round.iter().map(|(source, _)| *source).collect()
    }

    #[test]
    fn each_probe_round_covers_every_kind_still_rejected() {
        let probes = WriteProbes::default();
        for kind in ["one", "two", "three", "one"] {
            probes.note(write(kind, 1), OutageKind::Refused);
        }
        let (one, two, three) = (Source::Write("one"), Source::Write("two"), Source::Write("three"));
        let round = probes.take(|source| source != two);
        assert_eq!(sources(&round), [one, three]);
        for (source, sample) in round {
            probes.put_back(source, sample);
        }
        assert_eq!(sources(&probes.take(|_| true)), [one, three]);
    }

    #[test]
    fn a_large_write_is_probed_with_filler_bytes_only_when_space_is_short() {
        let (probes, large) = (WriteProbes::default(), 2 * MAX_BYTES / 256);
        let kept = || probes.take(|_| true).pop_front().expect("a sample").1;
        probes.note(write("one", large), OutageKind::Full);
        assert!(matches!(kept(), Sample::Bytes(bytes) if bytes > MAX_BYTES));
        probes.note(write("one", large), OutageKind::Refused);
        assert!(matches!(kept(), Sample::Write(_)), "bytes in another table would not be refused");
        probes.note(write("one", 1), OutageKind::Refused);
        probes.note(write("one", large), OutageKind::Refused);
        assert!(
            matches!(kept(), Sample::Write(op) if op.bytes() < MAX_BYTES),
            "the smaller one says as much"
        );
    }

    #[test]
    fn probe_bytes_are_incompressible() {
        let bytes = incompressible(1 << 16);
        assert_eq!(bytes.len(), 1 << 16);
        let words: std::collections::HashSet<&[u8]> = bytes.chunks(8).collect();
        assert_eq!(words.len(), 1 << 13);
    }
}
