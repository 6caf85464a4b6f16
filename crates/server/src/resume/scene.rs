//! What there is to see of an execution at its resume address.

use std::collections::HashSet;

use engine::{Engine, Pending};
use http::StatusCode;
use jiff::Timestamp;
use model::Status;
use model::execution::{Event, ExecutionId, WaitReason};
use model::value::Map;
use serde_json::json;

use super::asked::{Asked, End, asked};
use super::given::Form;
use super::{Fault, failure, unknown_step};

/// The most questions of either kind that are shown at one time.
pub(super) const SHOWN: usize = 50;

/// An execution with what it asks and asked.
pub(super) struct Scene {
    pub(super) id: ExecutionId,
    pub(super) automation: String,
    /// What people call the Automation.
    pub(super) name: String,
    pub(super) status: Status,
    pub(super) finished_at: Option<Timestamp>,
    /// The steps that somebody outside can let go on, questions before events.
    pub(super) open: Vec<Pending>,
    /// Every question, those with an end among them.
    pub(super) asked: Vec<Asked>,
    /// The steps that ever waited for an event.
    listened: HashSet<String>,
    /// When all this was so.
    pub(super) now: Timestamp,
}

/// What of it is looked at.
pub(super) enum Focus<'s> {
    /// Questions to answer.
    Open(Vec<&'s Pending>),
    /// Events that another system sends.
    Events(Vec<&'s Pending>),
    /// Questions that have come to their end, with that; the last one first.
    Closed(Vec<Closed<'s>>),
    /// Nothing was ever asked of a person.
    Nothing,
    /// A step that never asked or waited for anything.
    Unknown,
}

/// A question that has come to its end.
#[derive(Clone, Copy)]
pub(super) struct Closed<'s> {
    pub(super) question: &'s Asked,
    pub(super) at: Timestamp,
    pub(super) end: &'s End,
}

impl Scene {
    pub(super) async fn of(engine: &Engine, id: ExecutionId) -> Result<Self, Fault> {
        let store = engine.store();
        let failed = |error: engine::Error| failure(&error);
        // First what pauses, then what came: an answer that comes in between is seen.
        let standing = engine.runtime().standing(id).await.map_err(failed)?;
        let row = store.execution(id).await.map_err(|error| failure(&error.into()))?;
        let events = store.events(id).await.map_err(|error| failure(&error.into()))?;
        let (Some(row), Some(events)) = (row, events) else { return Err(Fault::unknown()) };
        let asked = asked(&events);
        let answered = |step: &str| {
            asked.iter().rev().find(|question| question.step == step).is_some_and(|last| last.end.is_some())
        };
        let mut open = standing.pauses;
        open.retain(|pending| match pending.on {
            // The answer may have come though its step has not gone on yet.
            WaitReason::Approval { .. } => !answered(&pending.step),
            WaitReason::Event { .. } => true,
            WaitReason::Time | WaitReason::Call { .. } => false,
        });
        open.sort_by_key(|pending| (!is_question(pending), pending.since));
        let listened = events.iter().filter_map(|event| match event {
            Event::Waiting { step, on: WaitReason::Event { .. }, .. } => Some(step.clone()),
            _ => None,
        });
        let automation = row.automation.to_string();
        let catalog = engine.catalog();
        let named = catalog.find(&automation).map(|deployed| deployed.automation.name.clone());
        let name = open.first().map(|pending| pending.automation_name.clone()).or(named.ok());
        Ok(Self {
            id,
            name: name.unwrap_or_else(|| automation.clone()),
            automation,
            status: row.status,
            finished_at: row.finished_at,
            open,
            asked,
            listened: listened.collect(),
            now: engine.clock().now(),
        })
    }

    /// What there is to look at, at the address of a step or at that of the execution.
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
        let asked = self.asked.iter().filter(|question| step.is_none_or(|step| step == question.step));
        let mut closed: Vec<Closed<'_>> = asked
            .filter_map(|question| question.end.as_ref().map(|(at, end)| Closed { question, at: *at, end }))
            .collect();
        closed.sort_by_key(|closed| std::cmp::Reverse(closed.at));
        match (closed.is_empty(), step) {
            (false, _) => Focus::Closed(closed),
            (true, Some(step)) if !self.listened.contains(step) => Focus::Unknown,
            (true, _) => Focus::Nothing,
        }
    }

    /// The one step that somebody outside can let go on.
    pub(super) fn only(&self, step: Option<&str>) -> Result<&Pending, Fault> {
        let open: Vec<&Pending> =
            self.open.iter().filter(|pending| step.is_none_or(|step| step == pending.step)).collect();
        match open[..] {
            [only] => Ok(only),
            [] if matches!(self.focus(step), Focus::Unknown) => Err(unknown_step()),
            [] => {
                let message =
                    "nothing is waited for here; it may have been answered already, or its time is up";
                Err(Fault::new(StatusCode::CONFLICT, "not_waiting", message))
            }
            [..] => {
                let steps: Vec<String> = open.iter().map(|pending| format!("`{}`", pending.step)).collect();
                let message =
                    format!("several steps wait; add the step to the address: {}", steps.join(", "));
                Err(Fault::new(StatusCode::CONFLICT, "several_waiting", message))
            }
        }
    }

    /// How many questions are open.
    pub(super) fn questions(&self) -> usize {
        self.open.iter().filter(|pending| is_question(pending)).count()
    }

    /// The same for programs.
    pub(super) fn json(&self, step: Option<&str>) -> Result<serde_json::Value, Fault> {
        let focus = self.focus(step);
        if matches!(focus, Focus::Unknown) {
            return Err(unknown_step());
        }
        let waiting: Vec<&Pending> =
            self.open.iter().filter(|pending| step.is_none_or(|step| step == pending.step)).collect();
        let closed = match &focus {
            Focus::Closed(closed) => closed.iter().take(SHOWN).map(Closed::json).collect(),
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
        let Self { question: Asked { step, .. }, at, end } = self;
        match end {
            End::Answered { option, form } => {
                let form = model::Value::from(form.clone()).to_serde();
                json!({ "step": step, "at": at, "end": "answered", "option": option, "form": form })
            }
            End::TimedOut => json!({ "step": step, "at": at, "end": "timedOut" }),
            End::Over => json!({ "step": step, "at": at, "end": "over" }),
        }
    }
}

fn is_question(pending: &Pending) -> bool {
    matches!(pending.on, WaitReason::Approval { .. })
}

/// A person's answer out of the page's form.
pub(super) fn read(pending: &Pending, mut form: Form) -> Result<(String, Map), Fault> {
    let option = form.option.take().ok_or_else(|| {
        Fault::new(StatusCode::BAD_REQUEST, "bad_answer", "choose one of the answers at the end of the form")
    })?;
    // To be left empty is not to be filled in.
    form.fields.retain(|(name, text)| {
        let required = pending.form.iter().any(|input| input.name == *name && input.required);
        !(required && text.trim().is_empty())
    });
    Ok((option, pending.read_form(&form.fields)))
}
