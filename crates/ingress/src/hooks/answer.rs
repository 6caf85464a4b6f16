//! What a caller of a synchronous webhook hears: a `respond` step, the end, or that its time is up.

use model::automation::{WebhookMode, WebhookTrigger};
use model::execution::{ExecutionId, Outcome};
use model::payload::HttpResponse;
use tokio::sync::watch;
use trigger::response;

use crate::ingress::Ingress;
use runtime::Error;
use runtime::Progress;

impl Ingress {
    /// The answer to the start that made the execution. A timeout is recorded in its log, which cannot tell it otherwise.
    pub(super) async fn first_answer(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
        progress: Option<watch::Receiver<Progress>>,
    ) -> HttpResponse {
        if webhook.mode == WebhookMode::Async {
            return response::asynchronous(webhook, &id);
        }
        let decided = self.decided(webhook, id, progress).await;
        decided.unwrap_or_else(|| {
            let timed_out = response::timed_out(&id);
            self.runtime.record_answer(id, timed_out.status);
            timed_out
        })
    }

    /// The answer to a start that was accepted, or to what was sent before and is not started again, where the code of the
    /// trigger decided none. `progress` is how far it has come, where that is known.
    pub(super) async fn answer_of(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
        progress: Option<watch::Receiver<Progress>>,
    ) -> HttpResponse {
        match webhook.mode {
            WebhookMode::Async => response::asynchronous(webhook, &id),
            WebhookMode::Sync => {
                self.decided(webhook, id, progress).await.unwrap_or_else(|| response::timed_out(&id))
            }
        }
    }

    /// Waits for the end of an execution, or for its `respond`, up to the limit: `None` if the time is up or the engine stops.
    /// The execution may have ended long ago.
    async fn decided(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
        mut progress: Option<watch::Receiver<Progress>>,
    ) -> Option<HttpResponse> {
        if let Some(decided) = progress.as_mut().and_then(|progress| in_progress(&progress.borrow(), &id)) {
            return Some(decided);
        }
        tokio::select! {
            biased;
            decided = self.decided_at_last(id, progress) => decided,
            () = self.runtime.clock.sleep_for(webhook.timeout) => None,
        }
    }

    async fn decided_at_last(
        &self,
        id: ExecutionId,
        mut begun: Option<watch::Receiver<Progress>>,
    ) -> Option<HttpResponse> {
        loop {
            let moved = self.runtime.intake.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let is_new = begun.is_some();
            if let Some(mut progress) = begun.take().or_else(|| self.runtime.intake.watch(id)) {
                if !is_new
                    && !self.runtime.intake.is_live(id)
                    && let Ok((Some(response), _)) = self.left(id).await
                {
                    // It has answered and gone to rest before anybody waited.
                    return Some(response);
                }
                let there = progress.wait_for(|progress| {
                    progress.response.is_some() || progress.outcome.is_some() || progress.is_left
                });
                if let Some(decided) = there.await.ok().and_then(|progress| in_progress(&progress, &id)) {
                    return Some(decided);
                }
            }
            // It was quicker than whoever waits for it: what it left is in the store.
            match self.left(id).await {
                Ok((Some(response), _)) => return Some(response),
                Ok((None, Some(outcome))) => return Some(of_outcome(outcome, &id)),
                // What was sent is remembered for longer than what became of it.
                Err(Error::NoSuchExecution(_)) => return Some(response::started(&id)),
                Err(_) => return None,
                Ok((None, None)) if self.runtime.closing.is_cancelled() => return None,
                // It is on its way into memory.
                Ok((None, None)) => self.runtime.next_move(moved).await,
            }
        }
    }

    /// The answer that the caller of a synchronous webhook gets from this execution; none before that is decided.
    ///
    /// # Errors
    /// There is no such execution, or the store failed.
    pub async fn answer_to_caller(&self, id: ExecutionId) -> Result<Option<HttpResponse>, Error> {
        let (response, outcome) = self.left(id).await?;
        Ok(response.or_else(|| outcome.map(|outcome| of_outcome(outcome, &id))))
    }

    /// The answer and the outcome of an execution that this process no longer has, as far as it came.
    async fn left(&self, id: ExecutionId) -> Result<(Option<HttpResponse>, Option<Outcome>), Error> {
        let events = self.runtime.store.events(id).await?.ok_or(Error::NoSuchExecution(id))?;
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

/// The answer of an execution that has come so far.
fn in_progress(progress: &Progress, id: &ExecutionId) -> Option<HttpResponse> {
    let response = progress.response.clone();
    response.or_else(|| progress.outcome.clone().map(|outcome| of_outcome(outcome, id)))
}

fn of_outcome(outcome: Outcome, id: &ExecutionId) -> HttpResponse {
    match outcome {
        Outcome::Succeeded { result } => response::result(&result, id),
        Outcome::Failed { error } | Outcome::Stuck { error } => response::failed(&error.message, id),
        Outcome::Cancelled { reason } => response::failed(&reason, id),
    }
}
