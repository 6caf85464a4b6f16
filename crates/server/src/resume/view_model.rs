//! The view of an execution at its resume address.

use std::collections::HashSet;

use engine::Engine;
use http::StatusCode;
use jiff::Timestamp;
use model::Status;
use model::execution::{Event, ExecutionId, WaitReason};
use runtime::Pending;
use serde_json::json;
use value::Map;

use super::questions::{Question, QuestionOutcome, questions};
use super::submission::Form;
use super::{ResumeError, failure, unknown_step};

/// The maximum size of a value of the history on the page, such as an answer, in bytes.
const MAX_VALUE: usize = 64 << 10;

/// The maximum number of questions, and of events, on one page.
pub(super) const MAX_SHOWN: usize = 50;

/// An execution with its open and closed questions.
pub(super) struct ResumeView {
    pub(super) id: ExecutionId,
    pub(super) automation: String,
    /// The display name of the automation.
    pub(super) name: String,
    pub(super) status: Status,
    pub(super) finished_at: Option<Timestamp>,
    /// The steps that wait for an answer or an event, questions before events.
    pub(super) open: Vec<Pending>,
    /// All questions, open and closed.
    pub(super) questions: Vec<Question>,
    /// The steps that have waited for an event.
    awaited_events: HashSet<String>,
    /// The instant of this view.
    pub(super) now: Timestamp,
}

/// The part of the execution that is shown.
pub(super) enum Focus<'s> {
    /// Questions to answer.
    Open(Vec<&'s Pending>),
    /// Events that another system sends.
    Events(Vec<&'s Pending>),
    /// Closed questions with their outcomes, the last one first.
    Closed(Vec<Closed<'s>>),
    /// The execution has asked no question.
    Nothing,
    /// The step has asked no question and waited for no event.
    Unknown,
}

/// A closed question.
#[derive(Clone, Copy)]
pub(super) struct Closed<'s> {
    pub(super) question: &'s Question,
    pub(super) at: Timestamp,
    pub(super) end: &'s QuestionOutcome,
}

impl ResumeView {
    pub(super) async fn load(engine: &Engine, id: ExecutionId) -> Result<Self, ResumeError> {
        let store = engine.store();
        let failed = |error: runtime::Error| failure(&error);
        // The waiting steps first, then the events, so that a concurrent answer is seen.
        let queue_status = engine.admission().queue_status(id).await.map_err(failed)?;
        let row = store.execution(id).await.map_err(|error| failure(&error.into()))?;
        let row = row.ok_or_else(ResumeError::unknown)?;
        let read = engine.context().read_cut_events(&row, MAX_VALUE).await.map_err(failed)?;
        let (cut, _memory) = read.ok_or_else(ResumeError::unknown)?;
        let events = cut.events;
        let questions = questions(&events);
        let answered = |step: &str| {
            questions
                .iter()
                .rev()
                .find(|question| question.step == step)
                .is_some_and(|last| last.end.is_some())
        };
        let mut open = queue_status.pauses;
        open.retain(|pending| match pending.on {
            // The answer may be stored before its step resumes.
            WaitReason::Approval { .. } => !answered(&pending.step),
            WaitReason::Event { .. } => true,
            WaitReason::Time | WaitReason::Call { .. } | WaitReason::Operation { .. } => false,
        });
        open.sort_by_key(|pending| (!is_question(pending), pending.since));
        let awaited_events = events.iter().filter_map(|event| match event {
            Event::Waiting { step, on: WaitReason::Event { .. }, .. } => Some(step.clone()),
            _ => None,
        });
        let automation = row.automation.to_string();
        let catalog = engine.catalog();
        let named = catalog.find(&automation).map(|deployment| deployment.automation.name.clone());
        let name = open.first().map(|pending| pending.automation_name.clone()).or(named.ok());
        Ok(Self {
            id,
            name: name.unwrap_or_else(|| automation.clone()),
            automation,
            status: row.status,
            finished_at: row.finished_at,
            open,
            questions,
            awaited_events: awaited_events.collect(),
            now: engine.clock().now(),
        })
    }

    /// The view at the address of a step, or of the execution.
    pub(super) fn focus(&self, step: Option<&str>) -> Focus<'_> {
        let here = |pending: &&Pending| step.is_none_or(|step| step == pending.step);
        let (questions, events): (Vec<&Pending>, Vec<&Pending>) =
            self.open.iter().filter(here).partition(|pending| is_question(pending));
        if !questions.is_empty() {
            return Focus::Open(questions);
        }
        if !events.is_empty() {
            return Focus::Events(events);
        }
        let questions =
            self.questions.iter().filter(|question| step.is_none_or(|step| step == question.step));
        let mut closed: Vec<Closed<'_>> = questions
            .filter_map(|question| question.end.as_ref().map(|(at, end)| Closed { question, at: *at, end }))
            .collect();
        closed.sort_by_key(|closed| std::cmp::Reverse(closed.at));
        match (closed.is_empty(), step) {
            (false, _) => Focus::Closed(closed),
            (true, Some(step)) if !self.awaited_events.contains(step) => Focus::Unknown,
            (true, _) => Focus::Nothing,
        }
    }

    /// The waiting step, if there is exactly one.
    pub(super) fn single_open(&self, step: Option<&str>) -> Result<&Pending, ResumeError> {
        let open: Vec<&Pending> =
            self.open.iter().filter(|pending| step.is_none_or(|step| step == pending.step)).collect();
        match open[..] {
            [single_open] => Ok(single_open),
            [] if matches!(self.focus(step), Focus::Unknown) => Err(unknown_step()),
            [] => {
                let message =
                    "nothing is waited for here; it may have been answered already, or its time is up";
                Err(ResumeError::new(StatusCode::CONFLICT, "not_waiting", message))
            }
            [..] => {
                let steps: Vec<String> = open.iter().map(|pending| format!("`{}`", pending.step)).collect();
                let message =
                    format!("several steps wait; add the step to the address: {}", steps.join(", "));
                Err(ResumeError::new(StatusCode::CONFLICT, "several_waiting", message))
            }
        }
    }

    /// The number of open questions.
    pub(super) fn questions(&self) -> usize {
        self.open.iter().filter(|pending| is_question(pending)).count()
    }

    /// The view as JSON, for programs.
    pub(super) fn json(&self, step: Option<&str>) -> Result<serde_json::Value, ResumeError> {
        let focus = self.focus(step);
        if matches!(focus, Focus::Unknown) {
            return Err(unknown_step());
        }
        let waiting: Vec<&Pending> =
            self.open.iter().filter(|pending| step.is_none_or(|step| step == pending.step)).collect();
        let closed = match &focus {
            Focus::Closed(closed) => closed.iter().take(MAX_SHOWN).map(Closed::json).collect(),
            _ => Vec::new(),
        };
        Ok(json!({
            "execution": self.id,
            "automation": self.automation,
            "automationName": self.name,
            "status": self.status.as_str(),
            "waiting": waiting,
            "closed": closed,
        }))
    }
}

impl Closed<'_> {
    fn json(&self) -> serde_json::Value {
        let Self { question: Question { step, .. }, at, end } = self;
        match end {
            QuestionOutcome::Answered { option, form } => {
                let form = value::Value::from(form.clone()).to_serde();
                json!({ "step": step, "at": at, "end": "answered", "option": option, "form": form })
            }
            QuestionOutcome::TimedOut => json!({ "step": step, "at": at, "end": "timedOut" }),
            QuestionOutcome::Superseded => json!({ "step": step, "at": at, "end": "over" }),
        }
    }
}

fn is_question(pending: &Pending) -> bool {
    matches!(pending.on, WaitReason::Approval { .. })
}

/// Reads a user's answer from the page's form.
pub(super) fn read(pending: &Pending, mut form: Form) -> Result<(String, Map), ResumeError> {
    let option = form.option.take().ok_or_else(|| {
        ResumeError::new(
            StatusCode::BAD_REQUEST,
            "bad_answer",
            "choose one of the answers at the end of the form",
        )
    })?;
    // An empty input counts as absent.
    form.fields.retain(|(name, text)| {
        let required = pending.form.iter().any(|input| input.name == *name && input.required);
        !(required && text.trim().is_empty())
    });
    Ok((option, pending.read_form(&form.fields)))
}
