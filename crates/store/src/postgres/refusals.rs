//! The probe of refused writes: while the database refuses a kind of write, the last refused one is sent again in a transaction that
//! is rolled back, with growing pauses, so that the end of the outage is noticed although nobody sends requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::arrange::arrange;
use super::connect::{LANE_SESSION, Trouble, in_time, is_transient, outage_kind};
use super::lane::Shared;
use super::op::{Item, Op, params};
use crate::outage::Source;

/// The pauses between probes.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// The largest write that is kept for a probe. In place of a larger one as many bytes are written to one row.
const MAX_BYTES: usize = 1 << 20;
/// The most kinds of writes that are kept.
const MAX_KINDS: usize = 16;

/// Locks the row of a lane as each transaction does.
const FENCE: &str = "UPDATE lanes SET batch = batch WHERE node = $1 AND lane = 0";
const FILL: &str = "INSERT INTO meta (name, value) VALUES ('probe', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// The last refused write of each kind.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    last: Mutex<HashMap<&'static str, Op>>,
    noted: Notify,
}

impl Refusals {
    /// Keeps a refused write for the next probe.
    pub(super) fn note(&self, op: Op) {
        let kind = op.kind();
        let bytes = op.bytes();
        let kept = if bytes <= MAX_BYTES {
            op
        } else {
            // Not compressible, so that it takes its space.
            let filling: Vec<u8> = (0..bytes / 16).flat_map(|_| *uuid::Uuid::new_v4().as_bytes()).collect();
            Op::Statements(vec![(FILL, params![filling])])
        };
        let mut last = self.last();
        if last.len() < MAX_KINDS || last.contains_key(kind) {
            last.insert(kind, kept);
        }
        drop(last);
        self.noted.notify_one();
    }

    /// Takes a write whose kind is still refused.
    fn take(&self, is_refused: impl Fn(&'static str) -> bool) -> Option<(&'static str, Op)> {
        let mut last = self.last();
        last.retain(|kind, _| is_refused(kind));
        let kind = *last.keys().next()?;
        last.remove_entry(kind)
    }

    /// Puts a write back that is refused again, unless there is a newer one.
    fn put_back(&self, kind: &'static str, op: Op) {
        self.last().entry(kind).or_insert(op);
    }

    fn last(&self) -> MutexGuard<'_, HashMap<&'static str, Op>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Probes refused writes until the task is aborted.
pub(super) async fn keep_probing(shared: Arc<Shared>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let is_refused = |kind| shared.outages.has(Source::Write(kind));
        let Some((kind, op)) = shared.refusals.take(is_refused) else {
            pause = FIRST_PAUSE;
            shared.refusals.noted.notified().await;
            continue;
        };
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let (op, probed) = probe(&shared, op).await;
        match probed {
            Ok(()) => {
                shared.outages.end(Source::Write(kind));
                pause = FIRST_PAUSE;
            }
            Err(Some(Trouble { kind: of, reason })) => {
                if shared.outages.has(Source::Write(kind)) {
                    let now = Instant::now().into_std();
                    shared.outages.begin(Source::Write(kind), of, &reason, now);
                }
                shared.refusals.put_back(kind, op);
            }
            Err(None) => shared.refusals.put_back(kind, op),
        }
    }
}

/// Sends a write in a transaction that is rolled back. Returns it with the reason if it was refused, and `None` as the reason if
/// another transaction was in the way.
async fn probe(shared: &Shared, op: Op) -> (Op, Result<(), Option<Trouble>>) {
    let settings = format!("{LANE_SESSION}; SET lock_timeout = '2s'; SET statement_timeout = '5s'");
    let session = match in_time(shared.access.open(&settings)).await {
        Ok(session) => session,
        Err(trouble) => return (op, Err(Some(trouble))),
    };
    let slow = !op.is_simple_append();
    let items = [Item { op, alone: true, slow, claim: None, reply: oneshot::channel().0 }];
    let client = &session.client;
    let sent = async {
        client.batch_execute("BEGIN").await?;
        client.execute(FENCE, &[&shared.node]).await?;
        for step in arrange(shared.node, &items) {
            client.query(step.sql, &step.params.borrowed()).await?;
        }
        client.batch_execute("ROLLBACK").await
    };
    let result = match tokio::time::timeout(Duration::from_secs(10), sent).await {
        Ok(Err(error)) if is_transient(&error) => Err(None),
        Ok(Err(error)) if outage_kind(&error).is_some() => Err(Some(Trouble::from(&error))),
        Ok(_) => Ok(()),
        Err(_) => Err(None),
    };
    let [item] = items;
    (item.op, result)
}
