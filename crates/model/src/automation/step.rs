//! The steps of an Automation: what each does, and the lists inside it.

use std::sync::Arc;
use std::time::Duration;

use super::SpannedName;
use super::code::Code;
use super::verbs::{
    ActionStep, CallStep, ForEachStep, IfStep, RepeatStep, RespondBody, RespondStep, SwitchStep, WaitForStep,
    WaitOn, WaitStep,
};
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
    pub needs: Option<Vec<SpannedName>>,
    /// Further tries, where the step says how many; that there are none is said by zero of them.
    pub retry: Option<Box<RetryPolicy>>,
    /// The longest that one try may take.
    pub timeout: Option<Duration>,
    /// What follows when it fails for good.
    pub on_error: OnError,
    /// What follows when the daemon died while it was under way.
    pub on_interrupt: OnInterrupt,
    /// What takes back what it did, should the execution fail later.
    pub undo: Option<Block>,
    /// What it does.
    pub verb: Verb,
}

impl Step {
    /// Calls `visit` with every expression that the step itself reads at any time, those of the lists inside it left out.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.guard.iter().for_each(&mut *visit);
        self.verb.expressions(visit);
        self.verb.nested_blocks().iter().filter_map(|inner| inner.until).for_each(&mut *visit);
        if let Verb::WaitFor(wait) = &self.verb {
            wait.condition().into_iter().for_each(visit);
        }
    }
}

/// What follows when the daemon died while a step was under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInterrupt {
    /// It begins again (guarantee G5).
    #[default]
    Retry,
    /// It has failed: it is never begun twice (guarantee G6).
    Fail,
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
    /// BlockKind JavaScript.
    Code(Code),
    /// Names values.
    Set(Vec<(Arc<str>, Template)>),
    /// Branches.
    If(IfStep),
    /// Branches by a value.
    Switch(SwitchStep),
    /// BlockKind steps for each item of a list.
    ForEach(Box<ForEachStep>),
    /// BlockKind steps again and again.
    Repeat(RepeatStep),
    /// BlockKind named lists of steps side by side.
    Parallel(Vec<(Arc<str>, Block)>),
    /// BlockKind steps that share a guard, a time limit, tries or an error list.
    Group(Block),
    /// BlockKind another Automation.
    Call(CallStep),
    /// Pauses for a time.
    Wait(WaitStep),
    /// Pauses until something happens.
    WaitFor(Box<WaitForStep>),
    /// Answers the caller.
    Respond(Box<RespondStep>),
    /// Ends the loop around it.
    Break,
    /// Ends the turn of the loop around it.
    Continue,
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
            Self::Code(_) => "code",
            Self::Set(_) => "set",
            Self::If(_) => "if",
            Self::Switch(_) => "switch",
            Self::ForEach(_) => "forEach",
            Self::Repeat(_) => "repeat",
            Self::Parallel(_) => "parallel",
            Self::Group(_) => "steps",
            Self::Call(_) => "call",
            Self::Wait(_) => "wait",
            Self::WaitFor(_) => "waitFor",
            Self::Respond(_) => "respond",
            Self::Break => "break",
            Self::Continue => "continue",
            Self::Stop { .. } => "stop",
            Self::Fail { .. } => "fail",
        }
    }

    /// The lists of steps inside it, and when each of them runs.
    #[must_use]
    pub fn nested_blocks(&self) -> Vec<NestedBlock<'_>> {
        match self {
            Self::If(branch) => {
                let case = |name, block, holds| {
                    NestedBlock::new(
                        Some(name),
                        block,
                        BlockKind::Case { condition: Some((&branch.condition, holds)) },
                    )
                };
                let otherwise = branch.otherwise.as_ref().map(|block| case("else", block, false));
                std::iter::once(case("then", &branch.then, true)).chain(otherwise).collect()
            }
            Self::Switch(switch) => {
                let case =
                    |name, block| NestedBlock::new(Some(name), block, BlockKind::Case { condition: None });
                let cases = switch.cases.iter().map(|(name, block)| case(name.name.as_str(), block));
                cases.chain(switch.default.as_ref().map(|block| case("default", block))).collect()
            }
            Self::ForEach(each) => {
                let certain = match &each.items {
                    Template::Literal(value) => value.as_list().is_some_and(|items| !items.is_empty()),
                    Template::List(items) => !items.is_empty(),
                    Template::Expression(_) | Template::Text(_) | Template::Map(_) => false,
                };
                let in_order = each.concurrency <= 1;
                let kind = BlockKind::Loop { item: Some(&each.item), in_order, certain };
                vec![NestedBlock::new(None, &each.steps, kind)]
            }
            Self::Repeat(repeat) => {
                let kind = BlockKind::Loop { item: None, in_order: true, certain: true };
                vec![NestedBlock {
                    until: repeat.until.as_ref(),
                    ..NestedBlock::new(None, &repeat.steps, kind)
                }]
            }
            Self::Parallel(branches) => branches
                .iter()
                .map(|(name, block)| NestedBlock::new(Some(name), block, BlockKind::Parallel))
                .collect(),
            Self::Group(block) => vec![NestedBlock::new(None, block, BlockKind::Sequence)],
            Self::Action(_)
            | Self::Code(_)
            | Self::Set(_)
            | Self::Call(_)
            | Self::Wait(_)
            | Self::WaitFor(_)
            | Self::Respond(_)
            | Self::Break
            | Self::Continue
            | Self::Stop { .. }
            | Self::Fail { .. } => Vec::new(),
        }
    }

    /// Whether one of its [`BlockKind::Case`] lists runs for certain.
    #[must_use]
    pub fn covers_every_case(&self) -> bool {
        match self {
            Self::If(branch) => branch.otherwise.is_some(),
            Self::Switch(switch) => switch.default.is_some(),
            _ => false,
        }
    }

    /// Whether nothing after it in its list runs.
    #[must_use]
    pub fn ends(&self) -> bool {
        matches!(self, Self::Stop { .. } | Self::Fail { .. } | Self::Break | Self::Continue)
    }

    /// Calls `visit` with every expression that the verb itself reads before any list inside it runs. Left out are what
    /// is read after a turn ([`NestedBlock::after`]) and what is read of an event ([`WaitForStep::condition`]).
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Action(call) => call.with.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::Set(values) => values.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::If(branch) => visit(&branch.condition),
            Self::Switch(switch) => visit(&switch.value),
            Self::ForEach(each) => each.items.expressions(visit),
            Self::Code(_)
            | Self::Repeat(_)
            | Self::Parallel(_)
            | Self::Group(_)
            | Self::Break
            | Self::Continue => {}
            Self::Call(call) => call.with.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::Wait(WaitStep::For(_)) => {}
            Self::Wait(WaitStep::Computed(template)) => template.expressions(visit),
            Self::Wait(WaitStep::Until(expression)) => visit(expression),
            Self::WaitFor(wait) => match &wait.on {
                WaitOn::Event { name, .. } => name.expressions(visit),
                WaitOn::Approval(approval) => approval.message.expressions(visit),
            },
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
pub struct NestedBlock<'a> {
    /// What it is called, where it has a name.
    pub name: Option<&'a str>,
    /// The steps.
    pub block: &'a Block,
    /// When they run.
    pub kind: BlockKind<'a>,
    /// The loop's end condition, evaluated after each iteration; `None` for any other block and for a loop without one.
    pub until: Option<&'a Expression>,
}

impl<'a> NestedBlock<'a> {
    fn new(name: Option<&'a str>, block: &'a Block, kind: BlockKind<'a>) -> Self {
        Self { name, block, kind, until: None }
    }
}

/// Tells when a block nested in a step runs.
///
/// The checks of the paths through an automation depend on this alone, so they need no rule for each verb.
#[derive(Clone, Copy, Debug)]
pub enum BlockKind<'a> {
    /// Runs if its case is selected: at most one of the step's `Case` blocks runs.
    Case {
        /// The condition and the value it must have for the block to run; `None` if a value selects the case.
        condition: Option<(&'a Expression, bool)>,
    },
    /// Runs once per iteration.
    Loop {
        /// The name of the iteration's item; `None` for a `repeat`.
        item: Option<&'a str>,
        /// True if an iteration starts only after the previous one has finished.
        in_order: bool,
        /// True if there is at least one iteration.
        certain: bool,
    },
    /// Always runs once, in parallel with the step's other blocks.
    Parallel,
    /// Always runs once.
    Sequence,
}

impl Block {
    /// Calls `visit` with every step, blocks inside, `onError` and `undo` lists included, in reading order.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        for step in &self.steps {
            visit(step);
            for inner in step.verb.nested_blocks() {
                inner.block.walk(visit);
            }
            if let OnError::Steps(block) = &step.on_error {
                block.walk(visit);
            }
            if let Some(block) = &step.undo {
                block.walk(visit);
            }
        }
    }
}
