//! Drives a running test: advances the clock when all tasks wait, and triggers the test's scripted events.

use model::execution::WaitReason;
use model::test_suite::{Stimulus, StimulusKind};
use text::Span;

use crate::error::TestError;
use crate::test_run::TestRun;
use runtime::Answer;
use runtime::Clock as _;
use runtime::Pending;

/// Result of driving a test to its end.
pub(super) struct DriveResult {
    /// Explanation if an execution waits for something that never happens.
    pub(super) stuck: Option<String>,
    /// Positions of scripted events that no step waited for.
    pub(super) unawaited: Vec<Span>,
}

impl DriveResult {
    fn over(stuck: Option<String>, upcoming: &[&Stimulus]) -> Self {
        let unawaited = upcoming.iter().filter(|happening| happening.after.is_none());
        Self { stuck, unawaited: unawaited.map(|happening| happening.span).collect() }
    }
}

impl TestRun<'_> {
    /// Advances the clock and triggers scripted events until all executions have ended.
    pub(super) async fn drive(&self) -> Result<DriveResult, TestError> {
        let start_result = self.clock.now();
        let mut upcoming: Vec<&Stimulus> = self.case.stimuli.iter().collect();
        loop {
            self.quiescence.wait().await;
            if self.doubles.unknown_call().is_some() {
                return Ok(DriveResult::over(None, &upcoming));
            }
            if self.ingress.deliver_due_events().await {
                continue;
            }
            let unfinished = self.runtime.context.store.unfinished_count().await.map_err(TestError::store)?;
            if self.started.get() && unfinished == 0 {
                return Ok(DriveResult::over(None, &upcoming));
            }
            if let Some(at) = self.first_awaited(&upcoming).await? {
                let happening = upcoming.remove(at);
                self.trigger_happening(happening).await?;
                continue;
            }
            let due = |happening: &&Stimulus| happening.after.map(|after| start_result.checked_add(after));
            let next = upcoming.iter().enumerate();
            let next = next.filter_map(|(index, happening)| Some((due(happening)?.ok()?, index))).min();
            let wake = self.clock.sleeping_until().into_iter().next();
            match (next, wake) {
                (Some((at, index)), wake) if wake.is_none_or(|wake| at <= wake) => {
                    self.clock.advance_to(at);
                    let happening = upcoming.remove(index);
                    self.trigger_happening(happening).await?;
                }
                (_, Some(wake)) => self.clock.advance_to(wake),
                (_, None) => return Ok(DriveResult::over(Some(self.explain_waits().await?), &upcoming)),
            }
        }
    }

    /// Returns the index of the first scripted event that a step waits for now.
    async fn first_awaited(&self, upcoming: &[&Stimulus]) -> Result<Option<usize>, TestError> {
        for (index, happening) in upcoming.iter().enumerate() {
            if happening.after.is_some() {
                continue;
            }
            let awaited = match &happening.what {
                StimulusKind::Cancel { .. } => self.test_execution().await?.is_some(),
                StimulusKind::Event { name, .. } => {
                    let paths = self.runtime.context.store.event_paths(&name.name).await;
                    !paths.map_err(TestError::store)?.is_empty()
                }
                StimulusKind::Approval { step, .. } => {
                    self.pending().await?.iter().any(|pending| pending.step == step.name)
                }
            };
            if awaited {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    async fn trigger_happening(&self, happening: &Stimulus) -> Result<(), TestError> {
        match &happening.what {
            StimulusKind::Event { name, data } => {
                self.runtime
                    .admission
                    .emit(&name.name, data.clone(), None)
                    .await
                    .map_err(TestError::engine)?;
            }
            StimulusKind::Approval { step, option, form } => {
                let Some(id) = self.test_execution().await? else { return Ok(()) };
                let answer = Answer { option: option.name.clone(), form: form.clone(), by: None };
                self.runtime.admission.answer(id, Some(&step.name), answer).await.map_err(|error| {
                    TestError {
                        message: format!("the step `{}` does not take this answer: {error}", step.name),
                        span: option.span,
                        help: None,
                    }
                })?;
            }
            StimulusKind::Cancel { reason } => {
                let Some(id) = self.test_execution().await? else { return Ok(()) };
                self.runtime.admission.cancel(id, reason).await.map_err(TestError::engine)?;
            }
        }
        Ok(())
    }

    /// Returns the waiting steps of the test's execution.
    async fn pending(&self) -> Result<Vec<Pending>, TestError> {
        match self.test_execution().await? {
            Some(id) => self.runtime.admission.pending(id).await.map_err(TestError::engine),
            None => Ok(Vec::new()),
        }
    }

    /// Explains which steps still wait, and how to continue them.
    async fn explain_waits(&self) -> Result<String, TestError> {
        let pending = self.pending().await?;
        let waits = pending.iter().map(|pending| match &pending.on {
            WaitReason::Event { name } => {
                format!("the step `{}` waits for the event `{name}`: give it below `events:`", pending.step)
            }
            WaitReason::Approval { options, .. } => {
                let options = options.join(", ");
                format!(
                    "the step `{}` waits for an answer ({options}): give it below `approvals:`",
                    pending.step
                )
            }
            WaitReason::Call { .. } => {
                format!("the step `{}` waits for the automation that it calls", pending.step)
            }
            WaitReason::Operation { id, .. } => {
                format!("the step `{}` waits for the operation `{id}` of the service", pending.step)
            }
            WaitReason::Time => format!("the step `{}` waits for a time that does not come", pending.step),
        });
        let waits: Vec<String> = waits.collect();
        Ok(if waits.is_empty() { "no step is running or waiting".to_owned() } else { waits.join("; ") })
    }
}
