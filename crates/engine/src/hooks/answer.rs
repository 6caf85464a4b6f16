//! What a caller of a synchronous webhook hears: a `respond` step, the end, or that its time is up.

use model::automation::{WebhookMode, WebhookTrigger};
use model::execution::{ExecutionId, Outcome};
use model::payload::HttpResponse;
use trigger::response;

use crate::Error;
use crate::engine::Engine;

impl Engine {
    /// The answer to a start that was accepted, or to what was sent before and is not started again.
    pub(super) async fn answer_of(&self, webhook: &WebhookTrigger, id: ExecutionId) -> HttpResponse {
        match webhook.mode {
            WebhookMode::Async if webhook.code.is_some() => {
                let decided = self.decided_answer(id).await.ok().flatten();
                decided.unwrap_or_else(|| response::asynchronous(webhook, &id))
            }
            WebhookMode::Async => response::asynchronous(webhook, &id),
            WebhookMode::Sync => self.decided(webhook, id).await,
        }
    }

    /// Waits for the end of an execution, or for its `respond`, up to the limit. It may have ended long ago.
    async fn decided(&self, webhook: &WebhookTrigger, id: ExecutionId) -> HttpResponse {
        let services = self.services();
        tokio::select! {
            biased;
            decided = self.decided_at_last(id) => decided,
            () = services.clock.sleep_for(webhook.timeout) => response::timed_out(&id),
        }
    }

    async fn decided_at_last(&self, id: ExecutionId) -> HttpResponse {
        let services = self.services();
        loop {
            let moved = services.intake.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if let Some(mut progress) = services.intake.watch(id) {
                if !services.intake.is_live(id)
                    && let Ok((Some(response), _)) = self.left(id).await
                {
                    // It has answered and gone to rest before anybody waited.
                    return response;
                }
                let there = progress.wait_for(|progress| {
                    progress.response.is_some() || progress.outcome.is_some() || progress.parked
                });
                let progress = there.await.map(|progress| progress.clone()).unwrap_or_default();
                match (progress.response, progress.outcome) {
                    (Some(response), _) => return response,
                    (None, Some(outcome)) => return of_outcome(outcome, &id),
                    (None, None) => {}
                }
            }
            // It was quicker than whoever waits for it: what it left is in the store.
            match self.left(id).await {
                Ok((Some(response), _)) => return response,
                Ok((None, Some(outcome))) => return of_outcome(outcome, &id),
                // What was sent is remembered for longer than what became of it.
                Err(Error::NoSuchExecution(_)) => return response::started(&id),
                Err(_) => return response::timed_out(&id),
                Ok((None, None)) if services.closing.is_cancelled() => return response::timed_out(&id),
                // It is on its way into memory.
                Ok((None, None)) => services.after_a_move(moved).await,
            }
        }
    }

    /// The answer and the outcome of an execution that this process no longer has, as far as it came.
    async fn left(&self, id: ExecutionId) -> Result<(Option<HttpResponse>, Option<Outcome>), Error> {
        let events = self.services().store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
        let (mut response, mut outcome) = (None, None);
        for event in events {
            match event {
                model::Event::Responded { response: decided, .. } => response = Some(decided),
                model::Event::Finished { outcome: ended, .. } => outcome = Some(ended),
                _ => {}
            }
        }
        Ok((response, outcome))
    }
}

fn of_outcome(outcome: Outcome, id: &ExecutionId) -> HttpResponse {
    match outcome {
        Outcome::Succeeded { result } => response::result(&result, id),
        Outcome::Failed { error } | Outcome::Stuck { error } => response::failed(&error.message, id),
        Outcome::Cancelled { reason } => response::failed(&reason, id),
    }
}
