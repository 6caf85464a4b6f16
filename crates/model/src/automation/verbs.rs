//! Settings of the verbs.

use std::sync::Arc;
use std::time::Duration;

use expression::Expression;
use expression::template::Template;
use text::diagnostic::Span;

use super::{Block, NameSetting, Setting, SpannedName};
use crate::action::{ErrorKind, InputSpec};

/// The settings of an `action` step.
#[derive(Clone, Debug)]
pub struct ActionStep {
    /// The action, `connector.action`.
    pub action: SpannedName,
    /// The connection; `None` if the step neither names one nor takes a default.
    pub connection: Option<NameSetting>,
    /// True for `connection: null`: the step takes no default connection.
    pub refuses_default: bool,
    /// The inputs by name.
    pub with: Vec<(SpannedName, Template)>,
    /// The span of `with`, or of the step without one.
    pub with_span: Span,
    /// True if the request is logged (Debug Request).
    pub debug: bool,
}

/// The settings of an `if` step.
#[derive(Clone, Debug)]
pub struct IfStep {
    /// The condition.
    pub condition: Expression,
    /// The steps that run if the condition is true.
    pub then: Block,
    /// The steps that run if it is false.
    pub otherwise: Option<Block>,
}

/// The settings of a `switch` step.
#[derive(Clone, Debug)]
pub struct SwitchStep {
    /// The cases, at least one.
    pub cases: SwitchCases,
    /// The block that runs if no case is selected.
    pub default: Option<Block>,
}

/// The cases of a `switch` step, and how one of them is selected.
#[derive(Clone, Debug)]
pub enum SwitchCases {
    /// A value selects the case.
    Values {
        /// The value, compared as text: `3` and `"3"` select the same case; lists and maps select none.
        value: Expression,
        /// The blocks by the value that selects them.
        cases: Vec<(SpannedName, Block)>,
    },
    /// The first case whose condition is true is selected. The conditions after it are not evaluated.
    Conditions(Vec<ConditionCase>),
}

/// A case of a `switch` step that a condition selects.
#[derive(Clone, Debug)]
pub struct ConditionCase {
    /// The name in the history and in tests, unique in the step: the `name` of the case, or its number, counted from 1.
    pub name: Arc<str>,
    /// The span of the case's start.
    pub span: Span,
    /// The condition.
    pub condition: Expression,
    /// The steps that run if it is true.
    pub then: Block,
}

impl SwitchCases {
    /// Returns the expressions that select a case, in the order of their evaluation.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let (value, conditions) = match self {
            Self::Values { value, .. } => (Some(value), &[][..]),
            Self::Conditions(cases) => (None, cases.as_slice()),
        };
        value.into_iter().chain(conditions.iter().map(|case| &case.condition))
    }

    /// Returns the blocks of the cases, in the order of the file.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let (values, conditions) = match self {
            Self::Values { cases, .. } => (cases.as_slice(), &[][..]),
            Self::Conditions(cases) => (&[][..], cases.as_slice()),
        };
        values.iter().map(|(_, block)| block).chain(conditions.iter().map(|case| &case.then))
    }

    /// Returns the blocks of the cases for a change, in the order of the file.
    pub(super) fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        let (values, conditions) = match self {
            Self::Values { cases, .. } => (cases.as_mut_slice(), &mut [][..]),
            Self::Conditions(cases) => (&mut [][..], cases.as_mut_slice()),
        };
        values.iter_mut().map(|(_, block)| block).chain(conditions.iter_mut().map(|case| &mut case.then))
    }
}

/// The settings of a `repeat` step.
#[derive(Clone, Debug)]
pub struct RepeatStep {
    /// The end condition, evaluated after each iteration; `None` for `max` iterations.
    pub until: Option<Expression>,
    /// The maximum number of iterations, at least 1. The step fails if `until` is still false after them.
    pub max: Setting<u32>,
    /// The delay between iterations.
    pub delay: Setting<Duration>,
    /// The steps of an iteration.
    pub steps: Block,
}

/// The settings of a `parallel` step.
#[derive(Clone, Debug)]
pub struct ParallelStep {
    /// The blocks by name.
    pub branches: Vec<(Arc<str>, Block)>,
    /// The number of blocks that must succeed: the step then ends and cuts off the others. `None` if all must.
    pub enough: Option<u32>,
}

/// The settings of a `call` step.
#[derive(Clone, Debug)]
pub struct CallStep {
    /// The id of the called automation.
    pub automation: NameSetting,
    /// The inputs by name.
    pub with: Vec<(SpannedName, Template)>,
    /// The span of `with`, or of the step without one.
    pub with_span: Span,
    /// True if the step does not wait for the execution; its result is then `{executionId}`.
    pub detached: bool,
}

/// The settings of a `wait` step.
#[derive(Clone, Debug)]
pub enum WaitStep {
    /// Waits for this duration.
    For(Duration),
    /// Waits for a computed duration: a text such as `90s`.
    Computed(Template),
    /// Waits until an instant: RFC 3339 text, or seconds since 1970.
    Until(Expression),
}

impl WaitStep {
    /// The longest duration, constant or computed: a year and a day.
    pub const MAX: Duration = Duration::from_secs(366 * 86_400);
}

/// The settings of a `waitFor` step. The step's `timeout` limits the wait.
#[derive(Clone, Debug)]
pub struct WaitForStep {
    /// The event, approval, end of an execution, or instant that the step waits for.
    pub on: WaitOn,
    /// The instant at which the wait ends, in place of a timeout: RFC 3339 text, or seconds since 1970.
    pub until: Option<Expression>,
    /// The handling of a timeout, and of the instant `until`.
    pub on_timeout: OnTimeout,
}

/// The end condition of a `waitFor` step.
#[derive(Clone, Debug)]
pub enum WaitOn {
    /// An event sent by `events.emit`, the resume URL or the API.
    Event {
        /// The name of the event.
        name: Template,
        /// The condition on events of that name, which may also read `event.name` and `event.data`; `None` accepts any.
        condition: Option<Expression>,
        /// The time before the acceptance of the execution from which events count, at most [`WaitForStep::MAX_SINCE`]; `None` if
        /// they count from the acceptance.
        since: Option<Duration>,
    },
    /// A person's answer.
    Approval(Approval),
}

/// An approval: a question to a person.
#[derive(Clone, Debug)]
pub struct Approval {
    /// The question.
    pub message: Template,
    /// The options to choose from, at least one.
    pub options: Vec<String>,
    /// The fields of the form.
    pub form: Vec<InputSpec>,
    /// True if a field of the form is declared by its type alone.
    pub short_form: bool,
}

/// The handling of a `waitFor` timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// The step fails.
    #[default]
    Fail,
    /// The result is null.
    Continue,
}

impl WaitForStep {
    /// Returns the time before the acceptance of the execution from which events count.
    #[must_use]
    pub fn since(&self) -> Duration {
        match &self.on {
            WaitOn::Event { since, .. } => since.unwrap_or_default(),
            WaitOn::Approval(_) => Duration::ZERO,
        }
    }

    /// The longest `since`: events are kept for so long.
    pub const MAX_SINCE: Duration = Duration::from_secs(7 * 86_400);

    /// Returns the condition on events; `None` if the step accepts every event of the name, or waits for an approval.
    #[must_use]
    pub fn condition(&self) -> Option<&Expression> {
        match &self.on {
            WaitOn::Event { condition, .. } => condition.as_ref(),
            WaitOn::Approval(_) => None,
        }
    }
}

/// The settings of a `forEach` step.
#[derive(Clone, Debug)]
pub struct ForEachStep {
    /// The list: an expression, or a list of items.
    pub items: Template,
    /// The name of the item in expressions.
    pub item: Arc<str>,
    /// The steps of an iteration.
    pub steps: Block,
    /// The maximum number of parallel iterations, at least 1. With a computed one, each iteration has variables of its own, whatever
    /// the value is.
    pub concurrency: Setting<u32>,
    /// True if the first failed iteration ends the loop.
    pub fail_fast: bool,
}

impl ForEachStep {
    /// True if an iteration starts only after the previous one has finished, and reads the variables that it has set.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.concurrency.literal().is_some_and(|concurrency| concurrency <= 1)
    }
}

/// The settings of a `respond` step.
#[derive(Clone, Debug)]
pub struct RespondStep {
    /// The status code, 200 to 599. Default: 200.
    pub status: Template,
    /// The media type; `None` for that of the body.
    pub content_type: Option<Template>,
    /// Further headers, as a map.
    pub headers: Template,
    /// The body.
    pub body: RespondBody,
    /// The exceptions from the sandbox.
    pub allow: Vec<SandboxPermission>,
}

impl RespondStep {
    /// Returns the templates of its parts.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let body = match &self.body {
            RespondBody::Empty => None,
            RespondBody::Body(body) | RespondBody::Json(body) | RespondBody::File(body) => Some(body),
        };
        [Some(&self.status), self.content_type.as_ref(), Some(&self.headers), body].into_iter().flatten()
    }
}

/// The settings of a `fail` step.
#[derive(Clone, Debug)]
pub struct FailStep {
    /// True if it is written as a mapping.
    pub is_map: bool,
    /// The message; an error in its place is passed on.
    pub message: Template,
    /// The kind; `None` for `failed`, or for that of the handled error.
    pub kind: Option<ErrorKind>,
    /// The HTTP status, 100 to 599.
    pub status: Option<Template>,
    /// The code, a text.
    pub code: Option<Template>,
    /// The data, at most [`FailStep::MAX_DATA`] bytes.
    pub data: Option<Template>,
    /// The response to the caller, sent before the step fails; `None` if the step sends none.
    pub respond: Option<RespondStep>,
}

impl FailStep {
    /// The maximum size of the data of an error, in bytes.
    pub const MAX_DATA: usize = 64 << 10;

    /// Creates the settings of a `fail` with nothing but a message.
    #[must_use]
    pub fn new(message: Template) -> Self {
        Self { is_map: false, message, kind: None, status: None, code: None, data: None, respond: None }
    }

    /// Returns the templates of its parts, each with its key; the response has the key `respond`.
    pub fn templates(&self) -> impl Iterator<Item = (&'static str, &Template)> {
        let own = [("status", &self.status), ("code", &self.code), ("data", &self.data)];
        let own = own.into_iter().filter_map(|(key, template)| Some((key, template.as_ref()?)));
        let response = self.respond.iter().flat_map(RespondStep::templates);
        std::iter::once(("message", &self.message))
            .chain(own)
            .chain(response.map(|template| ("respond", template)))
    }
}

/// An exception from the sandbox in which browsers show a page returned by an automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxPermission {
    /// Forms may be submitted.
    Forms,
    /// Scripts may run.
    Scripts,
}

/// The body of a response.
#[derive(Clone, Debug)]
pub enum RespondBody {
    /// No body.
    Empty,
    /// A text (`text/plain` by default), or any other value as JSON.
    Body(Template),
    /// Any value as JSON.
    Json(Template),
    /// The bytes of a file, with its media type.
    File(Template),
}
