//! Builds the response to the caller of a webhook. A synchronous caller waits for a `respond` step, the end of the
//! execution or the timeout.

use model::automation::{WebhookMode, WebhookTrigger};
use model::execution::{ExecutionId, Outcome};
use model::payload::HttpResponse;
use tokio::sync::watch;
use trigger::response;

use crate::ingress::Ingress;
use runtime::Error;
use runtime::Progress;

impl Ingress {
    /// Returns the response to the start of the execution. A timeout is recorded in its log, which does not imply it otherwise.
    pub(super) async fn first_answer(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
        progress: Option<watch::Receiver<Progress>>,
    ) -> HttpResponse {
        if webhook.mode == WebhookMode::Async {
            return response::asynchronous(webhook, &id);
        }
        let decided = self.wait_for_response(webhook, id, progress).await;
        decided.unwrap_or_else(|| {
            let timed_out = response::timed_out(&id);
            self.admission.record_answer(id, timed_out.status);
            timed_out
        })
    }

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
            WebhookMode::Sync => self
                .wait_for_response(webhook, id, progress)
                .await
                .unwrap_or_else(|| response::timed_out(&id)),
        }
    }

    /// Waits for the end of an execution, or for its `respond`, up to the limit: `None` if the time is up or the engine stops.
    /// The execution may have ended long ago.
    async fn wait_for_response(
        &self,
        webhook: &WebhookTrigger,
        id: ExecutionId,
        mut progress: Option<watch::Receiver<Progress>>,
    ) -> Option<HttpResponse> {
        let so_far = progress.as_mut().and_then(|progress| Decision::so_far(&progress.borrow()));
        let decided = match so_far {
            Some(decided) => Some(decided),
            None => tokio::select! {
                biased;
                decided = self.wait_until_decided(id, progress) => decided,
                () = self.context.clock.sleep_for(webhook.timeout) => None,
            },
        };
        Some(self.response_for_decision(decided?, id).await)
    }

    /// Builds the response of a decision; the files in a result are read on another thread.
    async fn response_for_decision(&self, decided: Decision, id: ExecutionId) -> HttpResponse {
        let outcome = match decided {
            Decision::Response(response) => return response,
            Decision::Outcome(outcome) => outcome,
        };
        let reads_files = matches!(&outcome, Outcome::Succeeded { result } if result.as_file().is_none() && result.has_external_file());
        if !reads_files {
            return response_for_outcome(outcome, &id);
        }
        let building = self.context.large_work.run(move || response_for_outcome(outcome, &id));
        building.await.unwrap_or_else(|error| response::failed(&error.to_string(), &id))
    }

    async fn wait_until_decided(
        &self,
        id: ExecutionId,
        mut started: Option<watch::Receiver<Progress>>,
    ) -> Option<Decision> {
        loop {
            let moved = self.admission.moved();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let is_new = started.is_some();
            if let Some(mut progress) = started.take().or_else(|| self.admission.watch(id)) {
                if !is_new
                    && !self.admission.is_live(id)
                    && let Ok((Some(response), _)) = self.stored_response(id).await
                {
                    // The execution has responded and was suspended before this call began to wait.
                    return Some(Decision::Response(response));
                }
                let decided = progress.wait_for(|progress| {
                    progress.response.is_some() || progress.outcome.is_some() || progress.is_left
                });
                if let Some(decided) = decided.await.ok().and_then(|progress| Decision::so_far(&progress)) {
                    return Some(decided);
                }
            }
            // The execution is not in memory: read the stored events.
            match self.stored_response(id).await {
                Ok((Some(response), _)) => return Some(Decision::Response(response)),
                Ok((None, Some(outcome))) => return Some(Decision::Outcome(outcome)),
                // Deduplication keys outlive deleted executions.
                Err(Error::NoSuchExecution(_)) => return Some(Decision::Response(response::started(&id))),
                Err(_) => return None,
                Ok((None, None)) if self.context.closing.is_cancelled() => return None,
                // The execution is being loaded into memory, or another node has it.
                Ok((None, None)) => self.admission.next_move_of(id, moved).await,
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
        let decided = response.map(Decision::Response).or(outcome.map(Decision::Outcome));
        Ok(match decided {
            Some(decided) => Some(self.response_for_decision(decided, id).await),
            None => None,
        })
    }

    /// Reads the response and the outcome of an execution from its stored events.
    async fn stored_response(
        &self,
        id: ExecutionId,
    ) -> Result<(Option<HttpResponse>, Option<Outcome>), Error> {
        let (events, _memory) = self.context.load_events(id).await?.ok_or(Error::NoSuchExecution(id))?;
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

/// The source of the response to a synchronous caller.
enum Decision {
    /// A `respond` step or code.
    Response(HttpResponse),
    /// The end of the execution.
    Outcome(Outcome),
}

impl Decision {
    /// The decision, if the execution has responded or ended.
    fn so_far(progress: &Progress) -> Option<Self> {
        let response = progress.response.clone().map(Self::Response);
        response.or_else(|| progress.outcome.clone().map(Self::Outcome))
    }
}

pub(super) fn response_for_outcome(outcome: Outcome, id: &ExecutionId) -> HttpResponse {
    match outcome {
        Outcome::Succeeded { result } => response::result(&result, id),
        Outcome::Failed { error } | Outcome::Stuck { error } => response::failed(&error.message, id),
        Outcome::Cancelled { reason } => response::failed(&reason, id),
    }
}
