//! The steps of an Automation: what each does, and the lists inside it.

use std::sync::Arc;
use std::time::Duration;

use super::Named;
use crate::diagnostic::Span;
use crate::expression::Expression;
use crate::retry::RetryPolicy;
use crate::template::Template;

/// Steps in the order they are written.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The steps.
    pub steps: Vec<Step>,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub struct Step {
    /// What `steps.<id>` and the history call it; unique in the file. Without `id` it is the name in camelCase,
    /// and without a name `stepN`, the N-th step of the file in reading order.
    pub id: Arc<str>,
    /// For people.
    pub name: Option<String>,
    /// Where the step begins.
    pub span: Span,
    /// A guard: not met, the step is skipped.
    pub guard: Option<Expression>,
    /// The steps it waits for, in place of the one before it.
    pub needs: Option<Vec<Named>>,
    /// Further tries.
    pub retry: RetryPolicy,
    /// The longest that one try may take.
    pub timeout: Option<Duration>,
    /// What follows when it fails for good.
    pub on_error: OnError,
    /// What it does.
    pub verb: Verb,
}

/// What follows when a step fails for good.
#[derive(Clone, Debug)]
pub enum OnError {
    /// The error passes up.
    Fail,
    /// The result is `null` and `steps.<id>.error` is set.
    Continue,
    /// These steps run and see `error`; where they end well, their last result takes the step's place.
    Steps(Block),
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Calls an action.
    Action(ActionStep),
    /// Names values.
    Set(Vec<(Arc<str>, Template)>),
    /// Branches.
    If(IfStep),
    /// Runs steps for each item of a list.
    ForEach(Box<ForEachStep>),
    /// Runs named lists of steps side by side.
    Parallel(Vec<(Arc<str>, Block)>),
    /// Answers the caller.
    Respond(Box<RespondStep>),
    /// Ends the execution well.
    Stop {
        /// Its result.
        result: Template,
    },
    /// Ends the execution with an error.
    Fail {
        /// What the error says.
        message: Template,
    },
}

impl Verb {
    /// The key that is written for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Action(_) => "action",
            Self::Set(_) => "set",
            Self::If(_) => "if",
            Self::ForEach(_) => "forEach",
            Self::Parallel(_) => "parallel",
            Self::Respond(_) => "respond",
            Self::Stop { .. } => "stop",
            Self::Fail { .. } => "fail",
        }
    }

    /// The lists of steps inside it, and when each of them runs.
    #[must_use]
    pub fn lists(&self) -> Vec<Inner<'_>> {
        match self {
            Self::If(branch) => {
                let case = |name, block, holds| Inner {
                    name: Some(name),
                    block,
                    runs: Runs::Case { condition: Some((&branch.condition, holds)) },
                };
                let otherwise = branch.otherwise.as_ref().map(|block| case("else", block, false));
                std::iter::once(case("then", &branch.then, true)).chain(otherwise).collect()
            }
            Self::ForEach(each) => {
                let certain = match &each.items {
                    Template::Literal(value) => value.as_list().is_some_and(|items| !items.is_empty()),
                    Template::List(items) => !items.is_empty(),
                    Template::Expression(_) | Template::Text(_) | Template::Map(_) => false,
                };
                let in_order = each.concurrency <= 1;
                let runs = Runs::Turns { item: Some(&each.item), in_order, certain };
                vec![Inner { name: None, block: &each.steps, runs }]
            }
            Self::Parallel(branches) => {
                let beside = branches.iter();
                let beside = beside.map(|(name, block)| Inner {
                    name: Some(name.as_ref()),
                    block,
                    runs: Runs::Beside,
                });
                beside.collect()
            }
            Self::Action(_) | Self::Set(_) | Self::Respond(_) | Self::Stop { .. } | Self::Fail { .. } => {
                Vec::new()
            }
        }
    }

    /// Whether one of its [`Runs::Case`] lists runs for certain.
    #[must_use]
    pub fn covers_every_case(&self) -> bool {
        match self {
            Self::If(branch) => branch.otherwise.is_some(),
            _ => false,
        }
    }

    /// Whether nothing after it in its list runs.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self, Self::Stop { .. } | Self::Fail { .. })
    }

    /// Calls `visit` with every expression that the verb itself reads, those of the lists inside it left out.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Action(call) => call.with.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::Set(values) => values.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::If(branch) => visit(&branch.condition),
            Self::ForEach(each) => each.items.expressions(visit),
            Self::Parallel(_) => {}
            Self::Respond(respond) => {
                let body = match &respond.body {
                    RespondBody::Empty => None,
                    RespondBody::Body(body) | RespondBody::Json(body) | RespondBody::File(body) => Some(body),
                };
                let parts =
                    [Some(&respond.status), respond.content_type.as_ref(), Some(&respond.headers), body];
                parts.into_iter().flatten().for_each(|template| template.expressions(visit));
            }
            Self::Stop { result: template } | Self::Fail { message: template } => template.expressions(visit),
        }
    }
}

/// A list of steps inside a step.
#[derive(Clone, Copy, Debug)]
pub struct Inner<'a> {
    /// What it is called, where it has a name.
    pub name: Option<&'a str>,
    /// The steps.
    pub block: &'a Block,
    /// When they run.
    pub runs: Runs<'a>,
}

/// When a list of steps inside a step runs. What is checked of the paths through the steps goes by this alone, so
/// that a verb needs no rule of its own there.
#[derive(Clone, Copy, Debug)]
pub enum Runs<'a> {
    /// When its case is the one: of several such lists one runs, or none.
    Case {
        /// The condition that decides and whether it has to hold, where it is a plain condition.
        condition: Option<(&'a Expression, bool)>,
    },
    /// Turn after turn.
    Turns {
        /// What the item of a turn is called, where there is one.
        item: Option<&'a str>,
        /// Whether a turn begins only when the one before has ended.
        in_order: bool,
        /// Whether there is at least one turn.
        certain: bool,
    },
    /// Always, beside the other lists.
    Beside,
}

/// A call of an action.
#[derive(Clone, Debug)]
pub struct ActionStep {
    /// Which action: `connector.action`.
    pub action: Named,
    /// With which connection.
    pub connection: Option<Named>,
    /// The inputs as they are written, by name with the place of each.
    pub with: Vec<(Named, Template)>,
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

impl Block {
    /// Calls `visit` with every step, blocks inside and `onError` lists included, in reading order.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        for step in &self.steps {
            visit(step);
            for inner in step.verb.lists() {
                inner.block.walk(visit);
            }
            if let OnError::Steps(block) = &step.on_error {
                block.walk(visit);
            }
        }
    }
}
