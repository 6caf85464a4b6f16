//! Delivers an event to the steps that wait for it. Steps whose condition is false for the event are not woken.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use model::execution::Signal;
use store::EventWaiter;

use super::signal::SignalError;
use crate::context::Runtime;
use crate::error::Error;
use crate::event_filter::{Candidates, FilteredEvent};

/// The number of executions to which one event is delivered concurrently.
const AT_ONCE: usize = 16;
/// The page size when the steps that wait for an event are read.
const PAGE: u32 = 1000;

impl Runtime {
    /// Delivers an event to every step that waits for it, and returns their number.
    pub(crate) async fn deliver_event(self: &Arc<Self>, signal: &Signal) -> Result<u64, Error> {
        // Retained before the waiting steps are looked up: a step that starts to wait meanwhile reads it there.
        self.retain_event(signal).await?;
        let mut event = FilteredEvent::new(signal);
        let mut delivered = 0;
        for path in self.store.event_paths(&signal.name).await? {
            let value = match event.candidates(&path) {
                Candidates::Value(value) => Some(value),
                Candidates::All => None,
                Candidates::None => continue,
            };
            let mut after = None;
            loop {
                let name = &signal.name;
                let page =
                    self.store.waiting_for_event(name, &path, value.as_deref(), after.take(), PAGE).await?;
                let Some(last) = page.last().cloned() else { break };
                after = Some(last);
                delivered += self.deliver_page(signal, page, &mut event).await?;
            }
        }
        Ok(delivered)
    }

    /// Delivers an event to those of the steps whose condition it satisfies, and returns their number.
    async fn deliver_page(
        self: &Arc<Self>,
        signal: &Signal,
        page: Vec<EventWaiter>,
        event: &mut FilteredEvent,
    ) -> Result<u64, Error> {
        let mut concerned = Vec::new();
        for waiter in page {
            if event.passes(waiter.condition.as_deref(), &self.evaluator).await {
                concerned.push(waiter);
            }
            tokio::task::consume_budget().await;
        }
        let taken: Vec<Result<bool, SignalError>> = stream::iter(concerned)
            .map(|waiter| self.deliver(waiter.execution, waiter.step, signal.clone()))
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
