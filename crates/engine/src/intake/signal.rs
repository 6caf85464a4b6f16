//! What comes to executions that pause: events, and answers of people.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::stream::{self, StreamExt as _};
use jiff::SignedDuration;
use model::action::InputType;
use model::automation::{Automation, Verb, WaitOn};
use model::execution::{ExecutionId, Signal, WaitReason, Waiting};
use model::value::{JsonLimits, Map, Value};

use super::rest::PATIENCE;
use super::{Queued, Sleeper};
use crate::Error;
use crate::inputs::check_given;
use crate::run::{Run, Taken, Wake};
use crate::services::Services;
use crate::told::Pending;

/// Executions that one event is taken to at one time.
const AT_ONCE: usize = 16;
/// Executions that wait for one event that are read at one time.
const PAGE: u32 = 1000;

/// A person's answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Which of the answers to choose from.
    pub option: String,
    /// What was filled in, by name.
    pub form: Map,
    /// By whom, in words.
    pub by: Option<String>,
}

/// Why something did not reach a step that pauses.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// No step waits for it, or it has been answered already.
    #[error("no step of the execution waits for this; it may have been answered already")]
    NotWaiting,
    /// Several steps wait, and it was not said which is meant.
    #[error("several steps wait; say which is meant: {}", .0.join(", "))]
    Several(Vec<String>),
    /// The answer is none of those to choose from, or what was filled in does not fit.
    #[error("{0}")]
    Answer(String),
    /// More came than a step looks at.
    #[error(
        "the step has been sent too many events that it does not wait for; put what tells them apart into the event's name"
    )]
    TooMany,
    /// The engine could not do it.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl Pending {
    /// What was filled in, read from the texts of an HTML form.
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
                // A box that is not ticked is not sent.
                form.insert(input.name.as_str(), false);
            }
        }
        form
    }
}

/// A text as a value of a type; what cannot be one stays text, and is refused as such.
fn typed(kind: &InputType, text: &str) -> Value {
    match kind {
        InputType::Boolean => Value::from(matches!(text, "true" | "on" | "yes")),
        InputType::Text | InputType::Url | InputType::Choice { .. } => Value::from(text),
        _ => Value::from_json(text.as_bytes(), JsonLimits::default()).unwrap_or_else(|_| Value::from(text)),
    }
}

impl Services {
    /// The address at which an execution that pauses is answered. It is made of the execution's id and what only this
    /// store's key gives for it, so that it need not be kept and nobody can guess another's.
    pub(crate) fn resume_url(&self, id: ExecutionId) -> String {
        let base = self.settings.public_url.as_deref().unwrap_or("http://127.0.0.1:7070");
        format!("{}/resume/{}", base.trim_end_matches('/'), self.resume_token(id))
    }

    fn resume_token(&self, id: ExecutionId) -> String {
        let mut bytes = id.as_bytes().to_vec();
        bytes.extend(self.secret.derive(&[b"resume", id.as_bytes()]));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The execution that a token stands for.
    pub(crate) fn resumed_by(&self, token: &str) -> Option<ExecutionId> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (id, mac) = bytes.split_at_checked(16)?;
        let id = ExecutionId::from_bytes(id.try_into().ok()?);
        let right = self.secret.derive(&[b"resume", id.as_bytes()]);
        // Every byte is compared, whatever the first ones are.
        let same =
            mac.len() == right.len() && mac.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0;
        same.then_some(id)
    }

    /// The steps of an execution that pause; none once it has ended.
    pub(crate) async fn pending(&self, id: ExecutionId) -> Result<Vec<Pending>, Error> {
        let live = self.intake.state().live.get(&id).cloned();
        let (automation, pauses) = match live {
            Some(run) => (run.deployed.automation.clone(), run.journal.pauses()),
            None => match self.load(Queued::new(id, SignedDuration::ZERO)).await {
                Ok(Some(live)) => (live.deployed.automation.clone(), live.journal.pauses()),
                Ok(None) if self.store.execution(id).await?.is_none() => {
                    return Err(Error::NoSuchExecution(id));
                }
                Ok(None) => return Ok(Vec::new()),
                Err(message) => return Err(Error::Input(message)),
            },
        };
        // What a loop keeps for one of its turns is nothing that can be answered.
        let pauses = pauses.into_iter().map(|(step, waiting)| pending(&automation, id, step, waiting));
        Ok(pauses.collect())
    }

    /// Takes an event to every execution that waits for one of its name, and gives how many there were.
    pub(crate) async fn emit(self: &Arc<Self>, signal: &Signal) -> Result<u64, Error> {
        // Before the steps that wait are looked up: one that begins to wait meanwhile reads what is kept.
        self.keep_event(signal).await?;
        let mut after = None;
        let mut delivered = 0;
        loop {
            let page = self.store.waiting_for_event(&signal.name, after.take(), PAGE).await?;
            let Some(last) = page.last().cloned() else { return Ok(delivered) };
            after = Some(last);
            let taken = stream::iter(page)
                .map(|(id, step)| self.deliver(id, step, signal.clone()))
                .buffer_unordered(AT_ONCE);
            let taken: Vec<Result<bool, SignalError>> = taken.collect().await;
            for result in taken {
                match result {
                    Ok(new) => delivered += u64::from(new),
                    Err(SignalError::Engine(error)) => return Err(error),
                    Err(_) => {}
                }
            }
        }
    }

    /// Takes a signal to a step that pauses. It is durable when this comes back; false if it had come before.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        id: ExecutionId,
        step: String,
        signal: Signal,
    ) -> Result<bool, SignalError> {
        if !self.accepting() {
            return Err(Error::Closing.into());
        }
        // In a task of its own: while it has taken the execution out of its rest, nobody else sees to that.
        let services = self.clone();
        let delivery = self.tracker.spawn(async move { services.deliver_to(id, &step, signal).await });
        delivery.await.unwrap_or(Err(SignalError::Engine(Error::Closing)))
    }

    async fn deliver_to(
        self: &Arc<Self>,
        id: ExecutionId,
        step: &str,
        signal: Signal,
    ) -> Result<bool, SignalError> {
        let give_up = self.clock.steady_now().after(PATIENCE);
        loop {
            let moved = self.intake.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            match self.intake.find(id) {
                Found::Live(run) => match run.journal.signal(step, signal.clone()) {
                    Taken::OnItsWay => {}
                    other => {
                        let new = taken(other)?;
                        run.activity.notify_signal();
                        self.committed(&run.journal).await?;
                        return Ok(new);
                    }
                },
                Found::Taken(queued, wake) => {
                    return self.deliver_at_rest(queued, wake, step, signal).await;
                }
                Found::Nowhere => {
                    let row = self.store.execution(id).await.map_err(Error::from)?;
                    match row {
                        None => return Err(Error::NoSuchExecution(id).into()),
                        Some(row) if row.status.is_terminal() => return Err(SignalError::NotWaiting),
                        Some(_) => {}
                    }
                }
            }
            // It is on its way into memory, or to rest.
            if self.clock.steady_now() >= give_up {
                return Err(Error::Closing.into());
            }
            self.after_a_move(moved).await;
        }
    }

    async fn deliver_at_rest(
        self: &Arc<Self>,
        mut queued: Queued,
        wake: Wake,
        step: &str,
        signal: Signal,
    ) -> Result<bool, SignalError> {
        let result = self.record_at_rest(&mut queued, step, signal).await;
        let mut state = self.intake.state();
        if let Some(place) = state.backlog.iter_mut().find(|waiting| waiting.id == queued.id) {
            *place = queued;
        } else if matches!(result, Err(SignalError::NotWaiting)) {
            state.lay_to_rest(queued.id, Sleeper { wake, ahead: queued.ahead });
        } else {
            state.backlog.push_back(queued);
        }
        let end = state.out_of_hand(queued.id);
        drop(state);
        self.intake.rest.notify_one();
        self.intake.wake.notify_one();
        if let Some(reason) = end {
            self.intake.cancel(self, queued.id, &reason);
        }
        result
    }

    async fn record_at_rest(
        &self,
        queued: &mut Queued,
        step: &str,
        signal: Signal,
    ) -> Result<bool, SignalError> {
        let live = self.load(*queued).await.map_err(Error::Input)?;
        let Some(live) = live else { return Err(SignalError::NotWaiting) };
        let new = taken(live.journal.signal(step, signal))?;
        self.committed(&live.journal).await?;
        queued.ahead = live.journal.ahead();
        Ok(new)
    }

    /// Takes a person's answer to the step that waits for it.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        id: ExecutionId,
        step: Option<&str>,
        answer: Answer,
    ) -> Result<(), SignalError> {
        let asks = |pending: &Pending| matches!(pending.on, WaitReason::Approval { .. });
        let pending = self.one_pending(id, step, asks).await?;
        let WaitReason::Approval { options, .. } = &pending.on else { return Err(SignalError::NotWaiting) };
        if !options.contains(&answer.option) {
            let message = format!("`{}` is none of the answers: {}", answer.option, options.join(", "));
            return Err(SignalError::Answer(message));
        }
        check_given(&pending.form, &answer.form, "the form")
            .map_err(|error| SignalError::Answer(error.to_string()))?;
        let mut form = Map::new();
        for input in &pending.form {
            let given = answer.form.get(&input.name).cloned();
            form.insert(input.name.as_str(), given.or_else(|| input.default.clone()).unwrap_or_default());
        }
        let data = Map::from_iter([
            (Arc::<str>::from("option"), Value::from(answer.option.as_str())),
            (Arc::from("form"), Value::from(form)),
        ]);
        // One answer counts, whoever gives it first.
        let signal =
            Signal { id: "answer".to_owned(), name: String::new(), data: data.into(), by: answer.by };
        match self.deliver(id, pending.step, signal).await? {
            true => Ok(()),
            false => Err(SignalError::NotWaiting),
        }
    }

    /// Takes data to the step that waits for an event, whatever the event's name.
    pub(crate) async fn signal(
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
        self.deliver(id, pending.step, signal).await.map(|_| ())
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

/// Whether what was taken is new.
fn taken(taken: Taken) -> Result<bool, SignalError> {
    match taken {
        Taken::New => Ok(true),
        Taken::Known => Ok(false),
        Taken::NotWaiting | Taken::OnItsWay => Err(SignalError::NotWaiting),
        Taken::TooMany => Err(SignalError::TooMany),
    }
}

fn pending(automation: &Automation, execution: ExecutionId, step: String, waiting: Waiting) -> Pending {
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

/// Where an execution is found.
enum Found {
    Live(Arc<Run>),
    /// At rest, or in the backlog, where it keeps its place: in hand, so that nobody else goes on with it.
    Taken(Queued, Wake),
    Nowhere,
}

impl super::Intake {
    fn find(&self, id: ExecutionId) -> Found {
        let mut state = self.state();
        if let Some(run) = state.live.get(&id) {
            return Found::Live(run.clone());
        }
        if state.in_hand.contains_key(&id) {
            return Found::Nowhere;
        }
        let wake = state.resting.get(&id).map(|sleeper| sleeper.wake).unwrap_or_default();
        let waiting = state.backlog.iter().find(|queued| queued.id == id).copied();
        match state.take_resting(id).or(waiting) {
            Some(queued) => {
                state.in_hand.insert(id, None);
                Found::Taken(queued, wake)
            }
            None => Found::Nowhere,
        }
    }
}
