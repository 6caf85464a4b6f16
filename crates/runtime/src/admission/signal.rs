//! Signals to one waiting execution, and answers of people.

use std::sync::Arc;

use jiff::SignedDuration;
use model::action::InputType;
use model::automation::{Automation, Verb, WaitOn};
use model::execution::{ExecutionId, Signal, WaitReason};
use value::{JsonLimits, Map, Value};

use super::Admission;
use super::suspend::PATIENCE;
use super::table::{Claim, ExecutionState, Queued, Suspended};
use crate::api::{Pending, SignalError};
use crate::error::Error;
use crate::inputs::convert_declared;
use crate::recent_events::Delivery;
use crate::run::{ReplaySource, StepWait, Taken};

/// A person's answer to an approval.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The chosen option.
    pub option: String,
    /// The form values, by name.
    pub form: Map,
    /// The name of the person, for the history.
    pub by: Option<String>,
}

impl Pending {
    /// Reads the fields of an HTML form as typed values.
    #[must_use]
    pub fn read_form(&self, fields: &[(String, String)]) -> Map {
        let mut form = Map::new();
        for (name, text) in fields {
            let Some(input) = self.form.iter().find(|input| input.name == *name) else { continue };
            if !text.is_empty() || matches!(input.kind, InputType::Text) {
                form.insert(name.as_str(), typed(&input.kind, text));
            }
        }
        for input in self.form.iter().filter(|input| input.kind == InputType::Boolean) {
            if !form.contains_key(&input.name) {
                // Browsers do not send an unticked box.
                form.insert(input.name.as_str(), false);
            }
        }
        form
    }
}

/// Converts a text to a type. A text that does not fit stays a text, and is rejected by the check of the form.
fn typed(kind: &InputType, text: &str) -> Value {
    match kind {
        InputType::Boolean => Value::from(matches!(text, "true" | "on" | "yes")),
        InputType::Text | InputType::Url | InputType::Choice { .. } => Value::from(text),
        _ => Value::from_json(text.as_bytes(), JsonLimits::default()).unwrap_or_else(|_| Value::from(text)),
    }
}

impl Admission {
    /// The waiting steps of an execution; empty once it has ended.
    pub async fn pending(&self, id: ExecutionId) -> Result<Vec<Pending>, Error> {
        let live = self.table().run(id).cloned();
        let (automation, pauses) = match live {
            Some(run) => (run.deployment.automation.clone(), run.journal.pauses()),
            None => match self.load_large(id, ReplaySource::ThisProcess, SignedDuration::ZERO).await {
                Ok(Some(live)) => (live.deployment.automation.clone(), live.journal.pauses()),
                Ok(None) if self.context.store.execution(id).await?.is_none() => {
                    return Err(Error::NoSuchExecution(id));
                }
                Ok(None) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            },
        };
        // Delays between loop iterations cannot be answered.
        let pauses = pauses.into_iter().map(|(step, waiting)| pending(&automation, id, step, waiting));
        Ok(pauses.collect())
    }

    /// Delivers a signal to a waiting step. It is durable when the future completes; false if it was delivered before.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        id: ExecutionId,
        step: String,
        delivery: Delivery,
    ) -> Result<bool, SignalError> {
        if !self.context.accepting() {
            return Err(Error::Closing.into());
        }
        // In a task of its own: a claim must be released even if the caller stops waiting.
        let admission = self.clone();
        let delivering =
            self.context.tracker.spawn(async move { admission.deliver_to(id, &step, delivery).await });
        delivering.await.unwrap_or(Err(SignalError::Engine(Error::Closing)))
    }

    async fn deliver_to(
        self: &Arc<Self>,
        id: ExecutionId,
        step: &str,
        delivery: Delivery,
    ) -> Result<bool, SignalError> {
        let give_up = self.context.clock.monotonic_now().after(PATIENCE);
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            let claim = self.table().claim(id);
            match claim {
                Claim::Running(run) => match run.journal.signal(step, delivery.clone()) {
                    Taken::OnItsWay => {}
                    other => {
                        let new = taken(other)?;
                        run.activity.notify_signal();
                        self.committed(&run.journal).await?;
                        return Ok(new);
                    }
                },
                Claim::Queued(queued) => return self.deliver_queued(id, queued, step, delivery).await,
                Claim::Suspended(suspended) => {
                    return self.deliver_suspended(id, suspended, step, delivery).await;
                }
                Claim::Unavailable => {
                    let row = self.context.store.execution(id).await.map_err(Error::from)?;
                    match row {
                        None => return Err(Error::NoSuchExecution(id).into()),
                        Some(row) if row.status.is_terminal() => return Err(SignalError::NotWaiting),
                        Some(_) => {}
                    }
                    if let Some(owner) = self.elsewhere(id).await? {
                        return self.letters.deliver_elsewhere(owner, id, step, delivery).await;
                    }
                }
            }
            // It is being loaded or suspended.
            if self.context.clock.monotonic_now() >= give_up {
                return Err(Error::Closing.into());
            }
            self.next_move(moved).await;
        }
    }

    async fn deliver_queued(
        self: &Arc<Self>,
        id: ExecutionId,
        mut queued: Queued,
        step: &str,
        delivery: Delivery,
    ) -> Result<bool, SignalError> {
        let result = self.record_signal(id, queued.source, &mut queued.wall_offset, step, delivery).await;
        self.release(id, ExecutionState::Queued(queued));
        result
    }

    /// Records a signal for a suspended execution, which is then queued.
    async fn deliver_suspended(
        self: &Arc<Self>,
        id: ExecutionId,
        mut suspended: Suspended,
        step: &str,
        delivery: Delivery,
    ) -> Result<bool, SignalError> {
        let result =
            self.record_signal(id, ReplaySource::Suspended, &mut suspended.wall_offset, step, delivery).await;
        let state = match result {
            Err(SignalError::NotWaiting) => ExecutionState::Suspended(suspended),
            _ => ExecutionState::Queued(suspended.into_queued(self.context.clock.monotonic_now())),
        };
        self.release(id, state);
        result
    }

    /// Records a signal in the log of a claimed execution. `wall_offset` is that of the last event, before and after.
    async fn record_signal(
        &self,
        id: ExecutionId,
        source: ReplaySource,
        wall_offset: &mut SignedDuration,
        step: &str,
        delivery: Delivery,
    ) -> Result<bool, SignalError> {
        let live = self.load_large(id, source, *wall_offset).await?;
        let Some(live) = live else { return Err(SignalError::NotWaiting) };
        let new = taken(live.journal.signal(step, delivery))?;
        self.committed(&live.journal).await?;
        *wall_offset = live.journal.wall_offset();
        Ok(new)
    }

    /// Delivers a person's answer to the step that waits for it.
    ///
    /// # Errors
    /// No step waits for it, or it does not fit.
    pub async fn answer(
        self: &Arc<Self>,
        id: ExecutionId,
        step: Option<&str>,
        answer: Answer,
    ) -> Result<(), SignalError> {
        let asks = |pending: &Pending| matches!(pending.on, WaitReason::Approval { .. });
        let pending = self.one_pending(id, step, asks).await?;
        let WaitReason::Approval { options, .. } = &pending.on else { return Err(SignalError::NotWaiting) };
        if !options.contains(&answer.option) {
            let message =
                format!("`{}` is not an option; choose one of: {}", answer.option, options.join(", "));
            return Err(SignalError::Answer(message));
        }
        let mut given = convert_declared(&pending.form, &answer.form, "the form")
            .map_err(|error| SignalError::Answer(error.to_string()))?;
        let mut form = Map::new();
        for input in &pending.form {
            let given = given.remove(&input.name);
            form.insert(input.name.as_str(), given.or_else(|| input.default.clone()).unwrap_or_default());
        }
        let data = Map::from_iter([
            (Arc::<str>::from("option"), Value::from(answer.option.as_str())),
            (Arc::from("form"), Value::from(form)),
        ]);
        // The first answer counts.
        let signal =
            Signal { id: "answer".to_owned(), name: String::new(), data: data.into(), by: answer.by };
        let by = signal.by.clone();
        if !self.deliver(id, pending.step.clone(), signal.into()).await? {
            return Err(SignalError::NotWaiting);
        }
        self.answers.record(self.context.clock.now(), pending, answer.option, by);
        Ok(())
    }

    /// Delivers data to the step that waits for an event of any name.
    ///
    /// # Errors
    /// No step waits for it.
    pub async fn signal(
        self: &Arc<Self>,
        id: ExecutionId,
        step: Option<&str>,
        data: Value,
        by: Option<String>,
    ) -> Result<(), SignalError> {
        let listens = |pending: &Pending| matches!(pending.on, WaitReason::Event { .. });
        let pending = self.one_pending(id, step, listens).await?;
        let WaitReason::Event { name } = pending.on else { return Err(SignalError::NotWaiting) };
        let signal = Signal { id: uuid::Uuid::new_v4().to_string(), name, data, by };
        self.deliver(id, pending.step, signal.into()).await.map(|_| ())
    }

    async fn one_pending(
        &self,
        id: ExecutionId,
        step: Option<&str>,
        fits: impl Fn(&Pending) -> bool,
    ) -> Result<Pending, SignalError> {
        let mut pending = self.pending(id).await?;
        pending.retain(|pending| fits(pending) && step.is_none_or(|step| step == pending.step));
        match pending.len() {
            0 => Err(SignalError::NotWaiting),
            1 => Ok(pending.remove(0)),
            _ => Err(SignalError::Several(pending.into_iter().map(|pending| pending.step).collect())),
        }
    }
}

/// Returns true if the signal is new.
fn taken(taken: Taken) -> Result<bool, SignalError> {
    match taken {
        Taken::New => Ok(true),
        Taken::Known => Ok(false),
        Taken::NotWaiting | Taken::OnItsWay => Err(SignalError::NotWaiting),
        Taken::TooMany => Err(SignalError::TooMany),
    }
}

fn pending(automation: &Automation, execution: ExecutionId, step: String, waiting: StepWait) -> Pending {
    let id = step.split(['[', '#']).next().unwrap_or_default();
    let mut form = Vec::new();
    automation.walk(&mut |known| {
        if let (true, Verb::WaitFor(wait)) = (known.id.as_ref() == id, &known.verb)
            && let WaitOn::Approval(approval) = &wait.on
        {
            form.clone_from(&approval.form);
        }
    });
    Pending {
        execution,
        automation: automation.id.clone(),
        automation_name: automation.name.clone(),
        step,
        since: waiting.since,
        until: waiting.until,
        on: waiting.on,
        form,
    }
}
