//! Delivers an event to the steps that wait for it. Steps whose condition is false for the event are not woken.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use model::execution::{ExecutionId, Signal};
use store::EventWaiter;

use super::Admission;
use crate::api::{SentEvent, SignalError};
use crate::detached::spawn_on_drop;
use crate::error::Error;
use crate::event_filter::{Candidates, FilteredEvent};
use crate::recent_events::Delivery;

/// The number of executions to which one event is delivered concurrently.
const AT_ONCE: usize = 16;
/// The page size when the steps that wait for an event are read.
const PAGE: u32 = 1000;

impl Admission {
    /// Delivers an event to every step that waits for it. `sender` is the execution that sends it.
    /// `may_repeat` is true if it may have sent the event before; then steps that have passed it know it by its key.
    pub(crate) async fn deliver_event(
        self: &Arc<Self>,
        signal: Signal,
        sender: Option<ExecutionId>,
        may_repeat: bool,
    ) -> Result<SentEvent, Error> {
        let admission = self.clone();
        // The sender may stop waiting.
        spawn_on_drop(&self.context.tracker, async move {
            let key = match sender.filter(|_| may_repeat) {
                Some(sender) => admission.events.key_of(&signal, sender).await?,
                None => None,
            };
            // Retained before the waiting steps are looked up: a step that starts to wait meanwhile reads it there. Such a step may
            // have taken the event when it is found here. It does not forget that until the delivery is over.
            let retained = match key {
                Some(_) => None,
                None => admission.events.retain(&signal, sender).await?,
            };
            let kept = key.is_some() || retained.is_some();
            let delivered = admission.deliver_to_waiting(&Delivery { signal, key }, &|_| true).await?;
            Ok(SentEvent { delivered, kept, ..SentEvent::default() })
        })
        .await
    }

    /// Delivers a retained event once more, to steps that a crash may have kept from it.
    pub(super) async fn deliver_again(
        self: &Arc<Self>,
        name: &str,
        key: Option<String>,
    ) -> Result<(), Error> {
        let Some(key) = key else { return Ok(()) };
        let Some(delivery) = self.events.find(name, key).await? else { return Ok(()) };
        let admission = self.clone();
        let delivering = async move {
            // Executions that were accepted after it have looked for earlier events themselves.
            let is_older = |waiter: &EventWaiter| {
                delivery.key.as_ref().is_some_and(|key| waiter.execution.to_string() < *key)
            };
            admission.deliver_to_waiting(&delivery, &is_older).await
        };
        spawn_on_drop(&self.context.tracker, delivering).await.map(drop)
    }

    /// Delivers an event to the steps that wait for it and are concerned, and returns their number.
    pub(super) async fn deliver_to_waiting(
        self: &Arc<Self>,
        delivery: &Delivery,
        is_concerned: &(dyn Fn(&EventWaiter) -> bool + Sync),
    ) -> Result<u64, Error> {
        let signal = &delivery.signal;
        let mut event = FilteredEvent::new(signal);
        let mut delivered = 0;
        for path in self.context.store.event_paths(&signal.name).await? {
            let value = match event.candidates(&path) {
                Candidates::Value(value) => Some(value),
                Candidates::All => None,
                Candidates::None => continue,
            };
            let mut after = None;
            loop {
                if !self.context.accepting() {
                    return Err(Error::Closing);
                }
                let name = &signal.name;
                let page = self
                    .context
                    .store
                    .waiting_for_event(name, &path, value.as_deref(), after.take(), PAGE)
                    .await?;
                let Some(last) = page.last().cloned() else { break };
                after = Some(last);
                let page = page.into_iter().filter(is_concerned).collect();
                delivered += self.deliver_page(delivery, page, &mut event).await?;
            }
        }
        Ok(delivered)
    }

    /// Delivers an event to the steps whose condition it satisfies, and returns their number.
    async fn deliver_page(
        self: &Arc<Self>,
        delivery: &Delivery,
        page: Vec<EventWaiter>,
        event: &mut FilteredEvent,
    ) -> Result<u64, Error> {
        let mut concerned = Vec::new();
        for waiter in page {
            if event.passes(waiter.condition.as_deref(), &self.context.evaluator).await {
                concerned.push(waiter);
            }
            tokio::task::consume_budget().await;
        }
        let taken: Vec<Result<bool, SignalError>> = stream::iter(concerned)
            .map(|waiter| self.deliver(waiter.execution, waiter.step, delivery.clone()))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut delivered = 0;
        for result in taken {
            match result {
                Ok(new) => delivered += u64::from(new),
                Err(SignalError::Engine(error)) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(delivered)
    }
}
