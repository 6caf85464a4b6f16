//! Static analysis of the paths through the steps: unreachable steps, and the point at which the caller gets its
//! response.

mod loop_exits;

use model::automation::{Block, BlockKind, DeclaredTrigger, Handler, NestedBlock, OnError, Step, Verb};
use text::diagnostic::{Diagnostic, Diagnostics, Span};
use value::Value;

use crate::load::Unreadable;

/// The paths by which execution can reach a position.
#[derive(Clone, Copy)]
struct Paths {
    /// True if the caller has no response yet on some of them.
    open: bool,
    /// The span of the `respond` step that is on some of them.
    answered: Option<Span>,
    /// True if it is uncertain whether some of them are possible: two conditions decide, and may exclude each other.
    unsure: bool,
}

/// The exits of a step or a list; `None` if impossible.
#[derive(Clone, Copy, Default)]
struct Exits {
    /// To the next step.
    on: Option<Paths>,
    /// Out of the enclosing loop, by `break`.
    left: Option<Paths>,
    /// To the next iteration of the enclosing loop, by `continue`.
    next: Option<Paths>,
}

/// The lists of a file. The triggers are `None` if they could not all be read.
pub(in crate::load) struct Lists<'a> {
    pub(in crate::load) steps: &'a Block,
    pub(in crate::load) on_error: Option<&'a Block>,
    pub(in crate::load) finally: Option<&'a Block>,
    pub(in crate::load) triggers: Option<&'a [DeclaredTrigger]>,
    /// True if the file declares its result.
    pub(in crate::load) has_outputs: bool,
}

/// Checks the lists of a file: the steps, and separately `onError` and `finally`.
pub(in crate::load) fn check(lists: &Lists<'_>, unreadable: &Unreadable, diagnostics: &Diagnostics) {
    for list in [Some(lists.steps), lists.on_error, lists.finally].into_iter().flatten() {
        list.walk(&mut |step| caller(step, lists.triggers, diagnostics));
        loop_exits::check(list, diagnostics);
    }
    for list in [lists.on_error, lists.finally].into_iter().flatten() {
        Flow { unreadable, diagnostics, answers: None }.block(list, Paths::START);
    }
    // The result of an execution also responds to its caller; a declared result is assumed to be intended.
    let is_sync = |triggers: &&[DeclaredTrigger]| triggers.iter().any(|trigger| trigger.on.is_synchronous());
    let answers = lists.triggers.filter(is_sync).filter(|_| !lists.has_outputs);
    let answers = answers.and_then(|_| last_answer(lists.steps));
    let flow = Flow { unreadable, diagnostics, answers };
    let before = diagnostics.error_count();
    let end = flow.block(lists.steps, Paths::START).on;
    // If no path that reaches the end has a response, the result is assumed to be the response.
    if let Some(Paths { open: true, answered: Some(_), unsure: false }) = end
        && let Some(answer) = answers.filter(|_| diagnostics.error_count() == before)
    {
        flow.unanswered(answer);
    }
}

/// The last step that responds to the caller. A `fail` is left out: it answers in place of 500, so other paths need no answer.
fn last_answer(steps: &Block) -> Option<&Step> {
    let mut last = None;
    let answers = |step: &&Step| step.verb.response().is_some() && !matches!(step.verb, Verb::Fail(_));
    steps.walk(&mut |step| last = Some(step).filter(answers).or(last));
    last
}

/// Reports a `respond` without a waiting caller.
fn caller(step: &Step, triggers: Option<&[DeclaredTrigger]>, diagnostics: &Diagnostics) {
    let (Some(_), Some(triggers)) = (step.verb.response(), triggers) else { return };
    let diagnostic = match triggers {
        triggers if triggers.iter().any(|trigger| trigger.on.is_synchronous()) => return,
        triggers if triggers.iter().any(|trigger| trigger.on.answers_caller()) => {
            let message = "no caller waits for this response: the webhook is asynchronous";
            Diagnostic::warning("respond-without-caller", message, step.span)
                .help("write `mode: sync` in the webhook, or answer with its own `respond`")
        }
        _ => {
            let kind = triggers.first().map_or("manual", |trigger| trigger.on.keyword());
            let message = format!("no caller waits for this response: the trigger is `{kind}`");
            Diagnostic::error("respond-without-caller", message, step.span)
                .help("`respond` needs `webhook: {mode: sync}`; give a result with `outputs` or `stop`")
        }
    };
    diagnostics.push(diagnostic.step(step.id.as_ref()));
}

impl Paths {
    const START: Self = Self { open: true, answered: None, unsure: false };

    fn merge(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(first), Some(second)) => Some(Self {
                open: first.open || second.open,
                answered: first.answered.or(second.answered),
                unsure: first.unsure || second.unsure,
            }),
            (first, second) => first.or(second),
        }
    }
}

impl Exits {
    fn on(paths: Paths) -> Self {
        Self { on: Some(paths), ..Self::default() }
    }

    /// The union of two alternatives.
    fn or(self, other: Self) -> Self {
        Self {
            on: Paths::merge(self.on, other.on),
            left: Paths::merge(self.left, other.left),
            next: Paths::merge(self.next, other.next),
        }
    }
}

struct Flow<'d> {
    unreadable: &'d Unreadable,
    diagnostics: &'d Diagnostics,
    /// A step that responds, if every path should have a response.
    answers: Option<&'d Step>,
}

impl Flow<'_> {
    fn block(&self, block: &Block, start: Paths) -> Exits {
        // With `needs`, steps run concurrently: their order in the list does not matter.
        let in_order = block
            .steps
            .iter()
            .all(|step| step.needs.is_none() && !self.unreadable.has_in_step(&step.id, "needs"));
        let mut exits = Exits::on(start);
        for (index, step) in block.steps.iter().enumerate() {
            let Some(paths) = exits.on else { break };
            let own = self.step(step, paths);
            exits = Exits { on: None, ..exits }.or(own);
            if exits.on.is_none() && in_order {
                self.never_runs(step, own, block.steps.get(index + 1));
            }
            exits.on = exits.on.or((!in_order).then_some(paths));
        }
        exits
    }

    fn never_runs(&self, last: &Step, exits: Exits, next: Option<&Step>) {
        let Some(next) = next else { return };
        let ends = match (exits.left, exits.next) {
            (None, None) => "the execution always ends here",
            (Some(_), None) => "the loop always ends here",
            _ => "the iteration always ends here",
        };
        self.diagnostics.push(
            Diagnostic::warning("never-runs", "this step never runs", next.span)
                .related(last.span, ends)
                .help("remove it, or put a condition on what is before it")
                .step(next.id.as_ref()),
        );
    }

    fn step(&self, step: &Step, start: Paths) -> Exits {
        let mut failed = start;
        let exits = match &step.verb {
            Verb::Respond(_) => {
                self.answers_once(step, start);
                Exits::on(Paths {
                    open: false,
                    answered: Some(step.span),
                    unsure: start.unsure || (start.open && start.answered.is_some()),
                })
            }
            Verb::Break => Exits { left: Some(start), ..Exits::default() },
            Verb::Continue { .. } => Exits { next: Some(start), ..Exits::default() },
            Verb::Stop { respond: Some(_), .. } => {
                self.answers_once(step, start);
                Exits::default()
            }
            Verb::Stop { result, respond: None } => {
                if result.literal().is_some_and(Value::is_null) {
                    self.stops_unanswered(step, start);
                }
                Exits::default()
            }
            Verb::Fail(fail) if fail.respond.is_some() => {
                self.answers_once(step, start);
                failed = Paths { open: false, answered: Some(step.span), ..start };
                Exits::default()
            }
            verb if verb.ends_block() => Exits::default(),
            verb => self.inside(step, verb, start),
        };
        for (_, block) in step.handlers().filter(|(handler, _)| *handler != Handler::OnError) {
            self.block(block, Paths::START);
        }
        let exits = match &step.on_error {
            // A step that ends the execution, the loop or the iteration successfully has no error to handle.
            _ if matches!(step.verb, Verb::Stop { .. } | Verb::Break | Verb::Continue { .. }) => exits,
            OnError::Fail => exits,
            OnError::Continue => exits.or(Exits::on(failed)),
            // A `respond` in `onError` does not make one after the failed step superfluous.
            OnError::Steps(block) => exits.or(self.block(block, Paths { unsure: true, ..failed })),
        };
        // An unreadable part may let the execution continue, and may have answered.
        if self.unreadable.is_unsure(&step.id) {
            return exits.or(Exits::on(Paths { unsure: true, ..start }));
        }
        if step.guard.is_some() { exits.or(Exits::on(start)) } else { exits }
    }

    /// Reports a response where every path has one already.
    fn answers_once(&self, step: &Step, start: Paths) {
        if let (false, Some(first)) = (start.open, start.answered) {
            self.diagnostics.push(twice(step.span, first).step(step.id.as_ref()));
        }
    }

    /// The exits of the lists inside a step.
    fn inside(&self, step: &Step, verb: &Verb, start: Paths) -> Exits {
        let lists = verb.nested_blocks();
        let beside = |cut: bool| {
            let is_such = move |inner: &&NestedBlock<'_>| matches!(inner.kind, BlockKind::Parallel { may_be_cut } if may_be_cut == cut);
            lists.iter().filter(is_such).map(|inner| inner.block)
        };
        let mut through = self.parallel(beside(false), start);
        for block in beside(true) {
            // The others may suffice, so it is not known how far it comes.
            let own = self.block(block, start);
            let on = own.on.map(|paths| Paths { unsure: true, ..paths });
            through = through.or(Exits { on, ..own });
        }
        let cases: Vec<&NestedBlock<'_>> =
            lists.iter().filter(|inner| matches!(inner.kind, BlockKind::Case { .. })).collect();
        let goes_through = cases.is_empty() || !verb.covers_every_case();
        let mut exits = if goes_through { through } else { Exits::default() };
        for case in cases {
            exits = self.block(case.block, start).or(exits);
        }
        for once in lists.iter().filter(|inner| matches!(inner.kind, BlockKind::Sequence)) {
            exits = self.block(once.block, start);
        }
        for inner in &lists {
            if let BlockKind::Loop { certain, .. } = inner.kind {
                exits = self.turns(step, inner.block, certain, start);
            }
        }
        exits
    }

    /// The exits of a loop. `break` and `continue` end only its iterations.
    fn turns(&self, step: &Step, block: &Block, certain: bool, start: Paths) -> Exits {
        let turn = self.block(block, start);
        let again = Paths::merge(turn.on, turn.next);
        if let Some(Paths { open: false, answered: Some(place), .. }) = again.filter(|_| start.open) {
            self.in_loop(step, place);
        }
        let end = Paths::merge(again, turn.left);
        Exits { on: if certain { end } else { Paths::merge(end, Some(start)) }, ..Exits::default() }
    }

    fn parallel<'a>(&self, branches: impl Iterator<Item = &'a Block>, start: Paths) -> Exits {
        let mut exits = Exits::on(start);
        for branch in branches {
            let own = self.block(branch, start);
            if let (true, Some(Some(first)), Some(Paths { open: false, answered: Some(second), .. })) =
                (start.open, exits.on.filter(|end| !end.open).map(|end| end.answered), own.on)
            {
                self.diagnostics.push(twice(second, first));
            }
            let on = exits.on.zip(own.on).map(|(end, own)| Paths {
                open: end.open && own.open,
                answered: end.answered.or(own.answered),
                unsure: end.unsure || own.unsure,
            });
            exits = Exits { on, ..exits.or(own) };
        }
        exits
    }

    fn in_loop(&self, step: &Step, place: Span) {
        self.diagnostics.push(
            Diagnostic::error("respond-twice", "every iteration of the loop would answer the caller", place)
                .related(step.span, "the loop")
                .help("answer after the loop, or end the execution with `stop` after the answer"),
        );
    }

    /// Reports that some paths have a response and others have none.
    fn unanswered(&self, answer: &Step) {
        let message =
            "the caller is answered on some paths only: on the others it gets the last step's result";
        self.diagnostics.push(
            Diagnostic::warning("unanswered-path", message, answer.span)
                .help("answer on the others too, or say with `outputs` what the result is")
                .step(answer.id.as_ref()),
        );
    }

    /// Reports an end without a response and a result, if other paths have a response.
    fn stops_unanswered(&self, stop: &Step, start: Paths) {
        if let (Some(answer), Paths { open: true, answered: None, unsure: false }) = (self.answers, start) {
            let message =
                "this ends the execution without an answer: the caller gets the result, which is null";
            self.diagnostics.push(
                Diagnostic::warning("unanswered-path", message, stop.span)
                    .related(answer.span, "other paths have an answer")
                    .help("answer before it, or give a result: `stop: {result: …}`")
                    .step(stop.id.as_ref()),
            );
        }
    }
}

fn twice(place: Span, first: Span) -> Diagnostic {
    Diagnostic::error("respond-twice", "the caller is answered a second time", place)
        .related(first, "it is always answered here already")
        .help("keep one of the two, or end the execution with `stop` after the first")
}
