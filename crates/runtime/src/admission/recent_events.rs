//! Retained events, for steps that start to wait after the event was sent.
//!
//! An event that an automation in force may wait for is stored in the state, in a scope with its name and under a key that
//! orders it. A step that starts to wait reads the events since its execution was accepted.

use jiff::{SignedDuration, Timestamp};
use model::execution::{ExecutionId, Signal};
use model::value::Value;
use store::StateWrite;

use crate::context::Runtime;
use crate::error::Error;

/// The retention time of an event.
const RETAINED_FOR: SignedDuration = SignedDuration::from_hours(24 * 7);
/// The time within which the write of an event that was given a key is over. Until then an event with a smaller key may still
/// appear.
const WRITTEN_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// The page size when retained events are read.
const PAGE: u32 = 1000;

/// The scope of the events of a name. No scope of an automation has a colon in it.
fn scope(name: &str) -> String {
    format!("events:{name}")
}

impl Runtime {
    /// Retains an event if an automation in force may wait for it. The event is durable when the future completes.
    pub(crate) async fn retain_event(&self, signal: &Signal) -> Result<(), Error> {
        if !self.catalog.load().awaited_events().may_include(&signal.name) {
            return Ok(());
        }
        let Ok(value) = serde_json::to_value(signal).map(Value::from_serde) else { return Ok(()) };
        if value.estimated_size(StateWrite::MAX_VALUE_BYTES) >= StateWrite::MAX_VALUE_BYTES {
            tracing::warn!(
                event = signal.name,
                "an event of 1 MiB or more is not kept for steps that wait for it later"
            );
            return Ok(());
        }
        let now = self.clock.now();
        let write = StateWrite {
            scope: scope(&signal.name),
            key: self.admission.next_id(now).to_string(),
            expected: None,
            value: Some(value),
            expires_at: now.checked_add(RETAINED_FOR).ok(),
        };
        self.store.write_state(vec![write]).await.inspect_err(|error| self.lost(error))?;
        Ok(())
    }

    /// Reads a page of the events with a name that were sent after the key `after`, oldest first, each with its key; and the
    /// key of the last one; `None` after the last page.
    pub(crate) async fn retained_events(
        &self,
        name: &str,
        after: &str,
        now: Timestamp,
    ) -> Result<(Vec<(String, Signal)>, Option<String>), store::Error> {
        let page = self.store.list_state(&scope(name), Some(after), PAGE).await?;
        let last = page.last().map(|row| row.key.clone());
        let alive = page.into_iter().filter(|row| row.entry.expires_at.is_none_or(|at| at > now));
        let signals = alive.filter_map(|row| {
            let signal = serde_json::from_str(&row.entry.value.to_json()).ok()?;
            Some((row.key, signal))
        });
        Ok((signals.collect(), last))
    }
}

/// True if no event with a key before this one is written from now on.
pub(crate) fn is_settled(key: &str, now: Timestamp) -> bool {
    let sent_at = key.parse::<ExecutionId>().ok().and_then(|id| id.created_at());
    sent_at.is_some_and(|sent_at| now.duration_since(sent_at) > WRITTEN_WITHIN)
}

/// The key in the order of retained events at which an execution was accepted.
pub(crate) fn first_event_key(id: ExecutionId) -> String {
    id.to_string()
}
