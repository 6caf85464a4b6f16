//! Kept events: what was sent lately, for steps that begin to wait for it later.
//!
//! An event that some automation in force may wait for is kept in the state of the store, in a scope of its name and under
//! a key that orders it. A step that begins to wait reads the events since its execution began.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use model::automation::{Automation, Verb, WaitOn};
use model::execution::{ExecutionId, Signal};
use model::value::Value;
use store::StateWrite;

use crate::Error;
use crate::catalog::Catalog;
use crate::services::Services;

/// How long an event is kept.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24 * 7);
/// Kept events that are read at one time.
const PAGE: u32 = 1000;

/// The names of the events that automations wait for.
#[derive(Debug, Default)]
pub(crate) struct AwaitedEvents {
    names: BTreeSet<String>,
    /// True where a name is computed, so that it may be any.
    any: bool,
}

impl AwaitedEvents {
    /// The names in all automations in force.
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let mut awaited = Self::default();
        for deployed in catalog.automations() {
            awaited.add(&deployed.automation);
        }
        awaited
    }

    fn add(&mut self, automation: &Automation) {
        automation.walk(&mut |step| {
            let Verb::WaitFor(wait) = &step.verb else { return };
            let WaitOn::Event { name, .. } = &wait.on else { return };
            match name.literal() {
                Some(name) => drop(self.names.insert(name.to_text())),
                None => self.any = true,
            }
        });
    }

    fn may_include(&self, name: &str) -> bool {
        self.any || self.names.contains(name)
    }
}

/// The scope of the events of a name. No scope of an automation has a colon in it.
fn scope(name: &str) -> String {
    format!("events:{name}")
}

impl Services {
    /// Keeps an event that an automation in force may wait for. Durable when this comes back.
    pub(crate) async fn keep_event(&self, signal: &Signal) -> Result<(), Error> {
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
            key: self.intake.next_id(now).to_string(),
            expected: None,
            value: Some(value),
            expires_at: now.checked_add(KEPT_FOR).ok(),
        };
        self.store.write_state(vec![write]).await.inspect_err(|error| self.lost(error))?;
        Ok(())
    }

    /// A page of the events of a name that were sent after `after`, oldest first, and the place behind the last of them;
    /// `None` behind the last page.
    pub(crate) async fn kept_events(
        &self,
        name: &str,
        after: &str,
        now: Timestamp,
    ) -> Result<(Vec<Signal>, Option<String>), store::Error> {
        let page = self.store.list_state(&scope(name), Some(after), PAGE).await?;
        let last = page.last().map(|row| row.key.clone());
        let alive = page.into_iter().filter(|row| row.entry.expires_at.is_none_or(|at| at > now));
        let signals = alive.filter_map(|row| serde_json::from_str(&row.entry.value.to_json()).ok());
        Ok((signals.collect(), last))
    }
}

/// The place in the order of kept events at which an execution began.
pub(crate) fn since_begin(id: ExecutionId) -> String {
    id.to_string()
}
