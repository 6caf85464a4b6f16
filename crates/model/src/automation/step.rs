//! Steps, their verbs, and the blocks nested in them.

use std::sync::Arc;
use std::time::Duration;

use expression::Expression;
use expression::template::Template;
use text::diagnostic::Span;

use super::SpannedName;
use super::code::Code;
use super::defaults::TakenDefaults;
use super::setting::{DurationRule, EVENT_TIMEOUT, NameSetting, Setting, TIMEOUT};
use super::step_retry::StepRetry;
use super::verbs::{
    ActionStep, CallStep, FailStep, ForEachStep, IfStep, ParallelStep, RepeatStep, RespondStep, SwitchCases,
    SwitchStep, WaitForStep, WaitOn, WaitStep,
};

/// A list of steps, in document order.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The id, unique in the file, used in `steps.<id>` and the history. Default: the name in camelCase, or `stepN` for the
    /// N-th step of the file in document order.
    pub id: Arc<str>,
    /// The name for people.
    pub name: Option<String>,
    /// The span of the step's start.
    pub span: Span,
    /// The span of the whole step.
    pub extent: Span,
    /// The condition of the step: if it is false, the step is skipped.
    pub guard: Option<Expression>,
    /// The steps that must finish first; `None` for the previous step of the block.
    pub needs: Option<Vec<SpannedName>>,
    /// The retry policies; `None` if the file sets none. An explicit `retry: 0` is a policy without retries.
    pub retry: Option<Box<StepRetry>>,
    /// The timeout of one attempt.
    pub timeout: Option<Setting<Duration>>,
    /// The handling of a permanent failure.
    pub on_error: OnError,
    /// The handling of an interruption by a daemon's crash.
    pub on_interrupt: OnInterrupt,
    /// The steps that run after its last attempt and its `onError`, however it ended.
    pub finally: Option<Block>,
    /// The compensation, which runs if the execution fails later.
    pub undo: Option<Undo>,
    /// The values that come from [`super::Defaults`].
    pub taken: TakenDefaults,
    /// The verb.
    pub verb: Verb,
}

impl Step {
    /// Calls `visit` with every expression of the step itself, without those of nested blocks.
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.guard.iter().for_each(&mut *visit);
        self.computed_settings().into_iter().for_each(&mut *visit);
        self.verb.expressions(visit);
        self.verb.nested_blocks().iter().filter_map(|inner| inner.until).for_each(&mut *visit);
        if let Verb::WaitFor(wait) = &self.verb {
            wait.condition().into_iter().for_each(&mut *visit);
        }
        self.retry.iter().flat_map(|retry| retry.conditions()).for_each(visit);
    }
}

impl Step {
    /// Returns the handlers of the step, in the order in which they run.
    pub fn handlers(&self) -> impl Iterator<Item = (Handler, &Block)> {
        let on_error = match &self.on_error {
            OnError::Steps(block) => Some((Handler::OnError, block)),
            OnError::Fail | OnError::Continue => None,
        };
        let finally = self.finally.as_ref().map(|block| (Handler::Finally, block));
        let undo = self.undo.as_ref().map(|undo| (Handler::Undo, &undo.steps));
        on_error.into_iter().chain(finally).chain(undo)
    }

    /// True if the log has to show that the step has begun: its `finally`, or its `undo`, runs then however it ends.
    #[must_use]
    pub fn records_begin(&self) -> bool {
        self.finally.is_some() || self.undo.as_ref().is_some_and(|undo| undo.when_begun)
    }

    /// True if the id names the step or a step inside it; `finally` and `undo` are not inside.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        let mut handled = self.handlers().filter(|(handler, _)| *handler == Handler::OnError);
        *self.id == *id
            || self.verb.nested_blocks().iter().any(|nested| nested.block.contains(id))
            || handled.any(|(_, block)| block.contains(id))
    }

    /// Returns the expressions that compute its settings, in the order of their evaluation when the step begins, after its condition.
    #[must_use]
    pub fn computed_settings(&self) -> Vec<&Expression> {
        // Each step of an execution asks for them, and nearly all have none.
        let mut found = Vec::new();
        if let Some(timeout) = &self.timeout {
            found.extend(timeout.expression());
        }
        if let Some(retry) = &self.retry {
            found.extend(retry.computed_settings());
        }
        match &self.verb {
            Verb::Action(call) => found.extend(call.connection.as_ref().and_then(selecting)),
            Verb::Call(call) => found.extend(selecting(&call.automation)),
            Verb::ForEach(each) => found.extend(each.concurrency.expression()),
            Verb::Repeat(repeat) => {
                found.extend(repeat.max.expression());
                found.extend(repeat.delay.expression());
            }
            _ => {}
        }
        found
    }
}

fn selecting(name: &NameSetting) -> Option<&Expression> {
    name.selection().map(|selection| &selection.name)
}

/// The handling of a step that a daemon's crash interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInterrupt {
    /// The step runs again (guarantee G5).
    #[default]
    Retry,
    /// The step fails: it never starts twice (guarantee G6).
    Fail,
}

/// The handling of a permanent failure of a step.
#[derive(Clone, Debug)]
pub enum OnError {
    /// The error propagates.
    Fail,
    /// The result is `null` and `steps.<id>.error` is set.
    Continue,
    /// These steps run and read `error`. If they succeed, their last result replaces that of the step.
    Steps(Block),
}

/// The compensation of a step.
#[derive(Clone, Debug)]
pub struct Undo {
    /// True if `undo` runs for every step that has begun; false if only for a step that has succeeded.
    pub when_begun: bool,
    /// True if it also runs after a cancellation of the execution.
    pub on_cancel: bool,
    /// True if the file has the form with keys.
    pub is_map: bool,
    /// The steps.
    pub steps: Block,
}

/// A list of steps that handles the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// After its permanent failure.
    OnError,
    /// At its end.
    Finally,
    /// After the execution has failed.
    Undo,
}

impl Handler {
    /// Returns the YAML key.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::OnError => "onError",
            Self::Finally => "finally",
            Self::Undo => "undo",
        }
    }
}

/// The operation of a step.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Calls an action.
    Action(ActionStep),
    /// Runs JavaScript.
    Code(Code),
    /// Sets variables.
    Set(Vec<(Arc<str>, Template)>),
    /// Branches by a condition.
    If(IfStep),
    /// Branches by a value.
    Switch(SwitchStep),
    /// Runs steps for each item of a list.
    ForEach(Box<ForEachStep>),
    /// Repeats steps.
    Repeat(RepeatStep),
    /// Runs named blocks in parallel.
    Parallel(ParallelStep),
    /// Runs steps that share a condition, a timeout, a retry policy or an error handler.
    Group(Block),
    /// Runs another automation.
    Call(CallStep),
    /// Waits for a duration or until an instant.
    Wait(WaitStep),
    /// Waits for an event or an answer.
    WaitFor(Box<WaitForStep>),
    /// Answers the caller.
    Respond(Box<RespondStep>),
    /// Ends the innermost loop.
    Break,
    /// Ends the iteration of the innermost loop.
    Continue {
        /// The result of the iteration.
        result: Template,
    },
    /// Ends the execution successfully.
    Stop {
        /// The result of the execution.
        result: Template,
        /// The response to the caller, sent before the end; `None` if the step sends none.
        respond: Option<Box<RespondStep>>,
    },
    /// Fails with an error of the author.
    Fail(Box<FailStep>),
}

impl Verb {
    /// Returns the range of `timeout` of a step with this verb.
    #[must_use]
    pub fn timeout_rule(&self) -> &'static DurationRule {
        match self {
            Self::WaitFor(wait) if matches!(wait.on, WaitOn::Event { .. }) => &EVENT_TIMEOUT,
            _ => &TIMEOUT,
        }
    }

    /// Returns the YAML key of the verb.
    #[must_use]
    pub fn keyword(&self) -> &'static str {
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
            Self::Continue { .. } => "continue",
            Self::Stop { .. } => "stop",
            Self::Fail(_) => "fail",
        }
    }

    /// Returns the nested blocks and when each of them runs.
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
                let case = |name, block, condition| {
                    NestedBlock::new(Some(name), block, BlockKind::Case { condition })
                };
                let default = switch.default.as_ref().map(|block| case("default", block, None));
                let cases: Vec<_> = match &switch.cases {
                    SwitchCases::Values { cases, .. } => {
                        cases.iter().map(|(name, block)| case(name.name.as_str(), block, None)).collect()
                    }
                    SwitchCases::Conditions(cases) => cases
                        .iter()
                        .map(|each| case(&each.name, &each.then, Some((&each.condition, true))))
                        .collect(),
                };
                cases.into_iter().chain(default).collect()
            }
            Self::ForEach(each) => {
                let certain = match &each.items {
                    Template::Literal(value) => value.as_list().is_some_and(|items| !items.is_empty()),
                    Template::List(items) => !items.is_empty(),
                    Template::Expression(_) | Template::Text(_) | Template::Map(_) => false,
                };
                let in_order = each.is_in_order();
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
            Self::Parallel(parallel) => {
                let kind = BlockKind::Parallel { may_be_cut: parallel.enough.is_some() };
                let branches = parallel.branches.iter();
                branches.map(|(name, block)| NestedBlock::new(Some(name), block, kind)).collect()
            }
            Self::Group(block) => vec![NestedBlock::new(None, block, BlockKind::Sequence)],
            Self::Action(_)
            | Self::Code(_)
            | Self::Set(_)
            | Self::Call(_)
            | Self::Wait(_)
            | Self::WaitFor(_)
            | Self::Respond(_)
            | Self::Break
            | Self::Continue { .. }
            | Self::Stop { .. }
            | Self::Fail(_) => Vec::new(),
        }
    }

    /// True if exactly one of its [`BlockKind::Case`] blocks always runs.
    #[must_use]
    pub fn covers_every_case(&self) -> bool {
        match self {
            Self::If(branch) => branch.otherwise.is_some(),
            Self::Switch(switch) => switch.default.is_some(),
            _ => false,
        }
    }

    /// True if no later step of the same block runs.
    #[must_use]
    pub fn ends_block(&self) -> bool {
        matches!(self, Self::Stop { .. } | Self::Fail(_) | Self::Break | Self::Continue { .. })
    }

    /// Returns the response to the caller that the verb decides, if any.
    #[must_use]
    pub fn response(&self) -> Option<&RespondStep> {
        match self {
            Self::Respond(respond) => Some(respond),
            Self::Stop { respond, .. } => respond.as_deref(),
            Self::Fail(fail) => fail.respond.as_ref(),
            _ => None,
        }
    }

    /// Calls `visit` with every expression that the verb itself evaluates before its nested blocks run.
    ///
    /// This excludes end conditions of loops ([`NestedBlock::until`]), conditions on events ([`WaitForStep::condition`]), and settings
    /// ([`Step::computed_settings`]).
    pub fn expressions<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Action(call) => call.with.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::Set(values) => values.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::If(branch) => visit(&branch.condition),
            Self::Switch(switch) => switch.cases.expressions().for_each(visit),
            Self::ForEach(each) => each.items.expressions(visit),
            Self::Code(_) | Self::Repeat(_) | Self::Parallel(_) | Self::Group(_) | Self::Break => {}
            Self::Call(call) => call.with.iter().for_each(|(_, template)| template.expressions(visit)),
            Self::Wait(WaitStep::For(_)) => {}
            Self::Wait(WaitStep::Computed(template)) => template.expressions(visit),
            Self::Wait(WaitStep::Until(expression)) => visit(expression),
            Self::WaitFor(wait) => {
                match &wait.on {
                    WaitOn::Event { name, .. } => name.expressions(visit),
                    WaitOn::Approval(approval) => approval.message.expressions(visit),
                }
                wait.until.iter().for_each(visit);
            }
            Self::Respond(respond) => respond.templates().for_each(|template| template.expressions(visit)),
            Self::Stop { result, respond } => {
                let response = respond.iter().flat_map(|respond| respond.templates());
                response.chain([result]).for_each(|template| template.expressions(visit));
            }
            Self::Continue { result } => result.expressions(visit),
            Self::Fail(fail) => fail.templates().for_each(|(_, template)| template.expressions(visit)),
        }
    }
}

/// A block nested in a step.
#[derive(Clone, Copy, Debug)]
pub struct NestedBlock<'a> {
    /// The name; `None` for an unnamed block.
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
    /// Runs once, in parallel with the step's other blocks.
    Parallel {
        /// True if the step may end before the block does and cuts it off. The variables of the block stay inside it then.
        may_be_cut: bool,
    },
    /// Always runs once.
    Sequence,
}

impl Block {
    /// True if the id is that of a step in it, or inside one of its steps.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        let mut found = false;
        self.walk(&mut |step| found |= *step.id == *id);
        found
    }

    /// Calls `visit` with every step in document order, also in nested blocks and [`Step::handlers`].
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step)) {
        for step in &self.steps {
            visit(step);
            for inner in step.verb.nested_blocks() {
                inner.block.walk(visit);
            }
            step.handlers().for_each(|(_, block)| block.walk(visit));
        }
    }
}
