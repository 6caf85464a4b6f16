//! Builds the response to the caller of a webhook. A synchronous caller waits for a `respond` step, the end of the
//! execution or the timeout.

use model::automation::{WebhookMode, WebhookTrigger};
use model::execution::{ExecutionId, Outcome};
use model::payload::HttpResponse;
use tokio::sync::watch;
use trigger::response;

use crate::Error;
use crate::engine::Engine;
use crate::run::Progress;

impl Engine {
    /// Builds the response for an accepted or duplicate request about which the trigger's code did not decide.
    /// `progress` is `None` if the execution was not started by this request.
    pub(super) async fn response_for(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
        progress: Option<watch::Receiver<Progress>>,
    ) -> HttpResponse {
        match webhook.mode {
            WebhookMode::Async => response::asynchronous(webhook, &id),
            WebhookMode::Sync => self.wait_for_response(webhook, id, progress).await,
        }
    }

    /// Waits for a `respond` step or the end of an execution, up to the webhook's timeout. The execution may have ended
    /// long ago.
    async fn wait_for_response(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
        mut progress: Option<watch::Receiver<Progress>>,
    ) -> HttpResponse {
        let services = self.services();
        if let Some(decided) = progress.as_mut().and_then(|progress| response_so_far(&progress.borrow(), &id))
        {
            return decided;
        }
        tokio::select! {
            biased;
            decided = self.wait_until_decided(id, progress) => decided,
            () = services.clock.sleep_for(webhook.timeout) => response::timed_out(&id),
        }
    }

    async fn wait_until_decided(
        &self,
        id: ExecutionId,
        mut started: Option<watch::Receiver<Progress>>,
    ) -> HttpResponse {
        let services = self.services();
        loop {
            let moved = services.intake.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let is_new = started.is_some();
            if let Some(mut progress) = started.take().or_else(|| services.intake.watch(id)) {
                if !is_new
                    && !services.intake.is_live(id)
                    && let Ok((Some(response), _)) = self.stored_response(id).await
                {
                    // The execution has responded and was suspended before this call began to wait.
                    return response;
                }
                let decided = progress.wait_for(|progress| {
                    progress.response.is_some() || progress.outcome.is_some() || progress.parked
                });
                if let Some(decided) = decided.await.ok().and_then(|progress| response_so_far(&progress, &id))
                {
                    return decided;
                }
            }
            // The execution is not in memory: read the stored events.
            match self.stored_response(id).await {
                Ok((Some(response), _)) => return response,
                Ok((None, Some(outcome))) => return response_for_outcome(outcome, &id),
                // Deduplication keys outlive deleted executions.
                Err(Error::NoSuchExecution(_)) => return response::started(&id),
                Err(_) => return response::timed_out(&id),
                Ok((None, None)) if services.closing.is_cancelled() => return response::timed_out(&id),
                // The execution is being loaded into memory.
                Ok((None, None)) => services.after_a_move(moved).await,
            }
        }
    }

    /// Returns the response that the caller of a synchronous webhook gets; `None` if the execution has not produced one
    /// yet.
    ///
    /// # Errors
    /// Returns an error if there is no such execution, or the store fails.
    pub async fn caller_response(&self, id: ExecutionId) -> Result<Option<HttpResponse>, Error> {
        let (response, outcome) = self.stored_response(id).await?;
        Ok(response.or_else(|| outcome.map(|outcome| response_for_outcome(outcome, &id))))
    }

    /// Reads the response and the outcome of an execution from its stored events.
    async fn stored_response(
        &self,
        id: ExecutionId,
    ) -> Result<(Option<HttpResponse>, Option<Outcome>), Error> {
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

/// Returns the response if the execution has responded or ended.
fn response_so_far(progress: &Progress, id: &ExecutionId) -> Option<HttpResponse> {
    let response = progress.response.clone();
    response.or_else(|| progress.outcome.clone().map(|outcome| response_for_outcome(outcome, id)))
}

fn response_for_outcome(outcome: Outcome, id: &ExecutionId) -> HttpResponse {
    match outcome {
        Outcome::Succeeded { result } => response::result(&result, id),
        Outcome::Failed { error } | Outcome::Stuck { error } => response::failed(&error.message, id),
        Outcome::Cancelled { reason } => response::failed(&reason, id),
    }
}
