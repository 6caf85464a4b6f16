//! What is said of each verb, beside the lists of steps inside it.

use std::sync::Arc;
use std::time::Duration;

use super::{Block, SpannedName};
use crate::action::InputSpec;
use crate::diagnostic::Span;
use crate::expression::Expression;
use crate::template::Template;

/// A call of an action.
#[derive(Clone, Debug)]
pub struct ActionStep {
    /// Which action: `connector.action`.
    pub action: SpannedName,
    /// With which connection.
    pub connection: Option<SpannedName>,
    /// The inputs as they are written, by name with the place of each.
    pub with: Vec<(SpannedName, Template)>,
    /// Where `with` stands, or the step if it does not.
    pub with_span: Span,
    /// Whether the request is logged (Debug Request).
    pub debug: bool,
}

/// A branch.
#[derive(Clone, Debug)]
pub struct IfStep {
    /// What decides.
    pub condition: Expression,
    /// Runs when it holds.
    pub then: Block,
    /// Runs when it does not.
    pub otherwise: Option<Block>,
}

/// A branch by a value.
#[derive(Clone, Debug)]
pub struct SwitchStep {
    /// What decides. It is compared as text: `3` and `"3"` are the same case, lists and maps are none.
    pub value: Expression,
    /// The lists by the value that each is for.
    pub cases: Vec<(SpannedName, Block)>,
    /// Runs where no case fits.
    pub default: Option<Block>,
}

/// A loop that ends by what its turns find.
#[derive(Clone, Debug)]
pub struct RepeatStep {
    /// Ends the loop after the turn in which it holds; without it there are `max` turns.
    pub until: Option<Expression>,
    /// The most turns, at least 1. Where there is an `until` that does not hold after so many, the step fails.
    pub max: u32,
    /// How long it pauses between turns.
    pub delay: Duration,
    /// Runs in each turn.
    pub steps: Block,
}

/// A call of another Automation.
#[derive(Clone, Debug)]
pub struct CallStep {
    /// Its id.
    pub automation: SpannedName,
    /// The inputs as they are written, by name with the place of each.
    pub with: Vec<(SpannedName, Template)>,
    /// Where `with` stands, or the step if it does not.
    pub with_span: Span,
    /// Whether it goes on by itself: the result is then `{executionId}`.
    pub detached: bool,
}

/// A pause.
#[derive(Clone, Debug)]
pub enum WaitStep {
    /// Of this length.
    For(Duration),
    /// Of a length that is computed: a text such as `90s`.
    Computed(Template),
    /// Until an instant: RFC 3339 text, or seconds since 1970.
    Until(Expression),
}

/// A pause until something happens. The step's `timeout` bounds it.
#[derive(Clone, Debug)]
pub struct WaitForStep {
    /// What it waits for.
    pub on: WaitOn,
    /// What follows when its time is up.
    pub on_timeout: OnTimeout,
}

/// What a pause waits for.
#[derive(Clone, Debug)]
pub enum WaitOn {
    /// An event that `events.emit`, the resume address or the API sends.
    Event {
        /// Its name.
        name: Template,
        /// Which of them: reads `event.name` and `event.data` beside the names in force.
        condition: Option<Expression>,
    },
    /// A person's answer.
    Approval(Approval),
}

/// What a person is asked.
#[derive(Clone, Debug)]
pub struct Approval {
    /// The question.
    pub message: Template,
    /// The answers to choose from, at least one.
    pub options: Vec<String>,
    /// What else to fill in.
    pub form: Vec<InputSpec>,
}

/// What follows when a pause's time is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// The step fails.
    #[default]
    Fail,
    /// Its result is null.
    Continue,
}

impl WaitForStep {
    /// Which events it waits for, where it does not take any of the name.
    #[must_use]
    pub fn condition(&self) -> Option<&Expression> {
        match &self.on {
            WaitOn::Event { condition, .. } => condition.as_ref(),
            WaitOn::Approval(_) => None,
        }
    }
}

/// A loop over a list.
#[derive(Clone, Debug)]
pub struct ForEachStep {
    /// The list: an expression, or its items.
    pub items: Template,
    /// What an item is called inside.
    pub item: Arc<str>,
    /// Runs for each item.
    pub steps: Block,
    /// How many turns run side by side, at least 1.
    pub concurrency: u32,
    /// Whether the first failed turn ends the loop.
    pub fail_fast: bool,
}

/// An answer to the caller.
#[derive(Clone, Debug)]
pub struct RespondStep {
    /// 200 to 599; 200 where none is given.
    pub status: Template,
    /// The media type, where it is not the body's own.
    pub content_type: Option<Template>,
    /// Further headers, a map.
    pub headers: Template,
    /// The body.
    pub body: RespondBody,
    /// The exceptions from the sandbox of a page.
    pub allow: Vec<SandboxPermission>,
}

/// An exception from the sandbox in which a browser shows a page that an automation answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxPermission {
    /// Its forms may be sent.
    Forms,
    /// Its scripts may run.
    Scripts,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum RespondBody {
    /// None.
    Empty,
    /// A text, `text/plain` unless the type says otherwise; any other value becomes JSON.
    Body(Template),
    /// JSON, whatever the value.
    Json(Template),
    /// A file's bytes with its type.
    File(Template),
}
