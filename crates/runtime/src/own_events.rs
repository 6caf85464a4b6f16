//! The own events of a project, for people: senders, consumers, events on their way, and events that are kept for steps that wait later.

use catalog::EventUses;
use jiff::Timestamp;
use model::action::InputSpec;
use model::automation::TriggerKey;
use model::execution::{ExecutionId, Signal};
use store::OutboxCount;

use crate::context::Context;
use crate::outbox::{DeliveryWait, ENGINE_EVENTS};
use crate::recent_events::scope;

/// An own event, for people.
#[derive(Clone, Debug, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnEvent {
    /// Its name.
    pub name: String,
    /// The automations in force with a step that sends it.
    pub senders: Vec<String>,
    /// The automations in force with a step that waits for it.
    pub waiters: Vec<String>,
    /// The triggers in force that it starts: `orders`, `orders/paid`.
    pub starts: Vec<String>,
    /// The fields that these triggers declare. A field is required if one of them requires it, and takes anything if they declare
    /// different types.
    pub data: Vec<InputSpec>,
    /// The number of events that are stored until each of these triggers has started or declined them.
    pub undelivered: u64,
    /// When the first of them was sent; absent without such events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
    /// The reasons why they wait; empty while they are being delivered, and if another daemon delivers them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<DeliveryWait>,
}

/// An event that is kept for steps that wait for it later.
#[derive(Clone, Debug)]
pub struct KeptEvent {
    /// When it was sent; `None` if the store is damaged.
    pub sent_at: Option<Timestamp>,
    /// When it is deleted.
    pub until: Option<Timestamp>,
    /// The event.
    pub signal: Signal,
}

impl Context {
    /// Returns the own events that automations in force name or that are on their way, by name.
    ///
    /// # Errors
    /// The store failed.
    pub async fn own_events(&self) -> Result<Vec<OwnEvent>, store::Error> {
        let counts = self.store.outbox_counts().await?;
        let catalog = self.catalog.load();
        let mut uses = catalog.event_uses();
        for count in &counts {
            uses.entry(count.name.clone()).or_default();
        }
        // The engine stores rows of its own under such names.
        uses.retain(|name, _| !name.starts_with(ENGINE_EVENTS));
        let event = |(name, uses): (String, EventUses)| {
            let count = counts.iter().find(|count| count.name == name);
            OwnEvent { data: catalog.declared_data(&name), ..self.own_event(name, &uses, count) }
        };
        Ok(uses.into_iter().map(event).collect())
    }

    fn own_event(&self, name: String, uses: &EventUses, count: Option<&OutboxCount>) -> OwnEvent {
        OwnEvent {
            senders: uses.senders.iter().map(ToString::to_string).collect(),
            waiters: uses.waiters.iter().map(ToString::to_string).collect(),
            starts: uses.consumers.iter().map(TriggerKey::name).collect(),
            data: Vec::new(),
            undelivered: count.map_or(0, |count| count.rows),
            oldest: count.map(|count| count.oldest),
            waits: count.map(|_| self.outbox.waits(&name)).unwrap_or_default(),
            name,
        }
    }

    /// Reads a page of the events with a name that are kept for steps that wait for them later, oldest first, after the key `after`; and the
    /// key after which there may be more.
    ///
    /// # Errors
    /// The store failed.
    pub async fn kept_events(
        &self,
        name: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<KeptEvent>, Option<String>), store::Error> {
        let now = self.clock.now();
        let rows = self.store.list_state(&scope(name), after, limit).await?;
        let next = rows.last().filter(|_| rows.len() >= limit as usize).map(|row| row.key.clone());
        let alive = rows.into_iter().filter(|row| row.entry.expires_at.is_none_or(|at| at > now));
        let event = alive.filter_map(|row| {
            Some(KeptEvent {
                sent_at: row.key.parse::<ExecutionId>().ok().and_then(|id| id.created_at()),
                until: row.entry.expires_at,
                signal: serde_json::from_str(&row.entry.value.to_json()).ok()?,
            })
        });
        Ok((event.collect(), next))
    }
}
