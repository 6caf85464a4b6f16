//! Happens-before relation between steps: determines which steps have finished when another one starts.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use expression::Expression;
use language::load::Unreadable;
use model::automation::{Automation, Block, BlockKind, Handler, OnError, Step};

use crate::plan::{BlockGraph, Plan};

/// Path from a top-level list down to a step.
pub(super) type StepPath<'a> = Vec<Hop<'a>>;

/// Step of a list, and how the list is attached to its parent.
#[derive(Clone, Copy)]
pub(super) struct Hop<'a> {
    block: &'a Block,
    index: usize,
    pub(super) attachment: Attachment<'a>,
}

/// The way in which a list of steps is attached to its parent.
#[derive(Clone, Copy)]
pub(super) enum Attachment<'a> {
    /// Top-level list: `steps`, `onError` or `finally`.
    Root(&'static str),
    /// One of several alternative cases. Holds the condition and the value it must have, for a plain condition.
    Case(Option<(&'a Expression, bool)>),
    /// Iterations of a loop.
    Turn {
        /// Name of the loop variable, if any.
        item: Option<&'a str>,
        /// True if iterations run sequentially.
        in_order: bool,
        /// True if there is at least one iteration.
        certain: bool,
    },
    /// One of several concurrent lists. If it may be cut off, what it sets stays inside it.
    Branch { name: &'a str, may_be_cut: bool },
    /// List that always runs once.
    Within,
    /// List that runs after the step failed.
    OnError,
    /// List that runs at the end of the step. Its variables stay inside it.
    Finally,
    /// List that compensates the step.
    Undo,
}

/// Availability of a step's results at the reading position.
pub(super) enum Availability<'a> {
    /// Available.
    Always,
    /// Available unless one of these reasons kept the step from running.
    Maybe(Vec<Uncertainty<'a>>),
    /// Not available.
    Never(Absence<'a>),
    /// Unknown, because relevant parts of the file are unreadable.
    Unsure,
}

/// Reason why a step may not have run.
#[derive(Clone, Copy)]
pub(super) enum Uncertainty<'a> {
    /// A condition: the step's own guard or an outer one. A step skipped by its own guard has `null` as result.
    Condition { expression: &'a Expression, holds: bool, own: bool },
    /// Another case of this step may be taken.
    Case(&'a Step),
    /// The loop may have no iterations.
    Loop(&'a Step),
    /// The step runs only after another step fails.
    OnlyOnError,
    /// An earlier step may have failed.
    Failure,
    /// The step is undone as soon as it has begun.
    Begun,
}

/// Reason why a step has no results at the reading position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence<'a> {
    /// It is the reading step.
    Itself,
    /// It contains the reading step.
    Around,
    /// The reading step handles its end, and reads this name.
    Handled(&'static str),
    /// It is inside the reading step.
    Inside,
    /// It runs later.
    Later,
    /// It is in another, mutually exclusive case.
    OtherCase,
    /// It runs concurrently, in the list of this name.
    SideBySide(&'a str),
    /// It is in a list that may be cut off, of this step.
    InCutList(&'a str),
    /// `needs` does not make the reading step, or this parent of it, wait for it.
    NotWaited(&'a str),
    /// It is in a top-level list that is not visible to the reading step.
    OtherList(&'static str),
}

/// Order of two steps of one list.
enum Order<'a> {
    Before,
    Not(Absence<'a>),
    Unsure,
}

/// Indices of the steps that finish earlier, by list and index.
type Ancestors = HashMap<(*const Block, usize), Rc<HashSet<usize>>>;

/// All steps of a file, with their positions.
pub(super) struct StepOrder<'a> {
    plan: &'a Plan,
    unreadable: &'a Unreadable,
    paths: HashMap<&'a str, StepPath<'a>>,
    /// Cache of computed ancestors.
    ancestors: RefCell<Ancestors>,
}

impl<'a> StepOrder<'a> {
    pub(super) fn new(automation: &'a Automation, unreadable: &'a Unreadable, plan: &'a Plan) -> Self {
        let mut order = Self { plan, unreadable, paths: HashMap::new(), ancestors: RefCell::default() };
        let lists = [("steps", Some(&automation.steps)), ("onError", automation.on_error.as_ref())];
        for (name, block) in lists.into_iter().chain([("finally", automation.finally.as_ref())]) {
            if let Some(block) = block {
                order.block(block, Attachment::Root(name), &Vec::new());
            }
        }
        order
    }

    fn block(&mut self, block: &'a Block, attachment: Attachment<'a>, above: &StepPath<'a>) {
        for (index, step) in block.steps.iter().enumerate() {
            let mut path = above.clone();
            path.push(Hop { block, index, attachment });
            for (attachment, inner) in inner_blocks(step) {
                self.block(inner, attachment, &path);
            }
            self.paths.insert(&step.id, path);
        }
    }

    /// Iterates over the ids of all steps, unordered.
    pub(super) fn ids(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.paths.keys().copied()
    }

    pub(super) fn path_of(&self, id: &str) -> Option<&StepPath<'a>> {
        self.paths.get(id)
    }

    /// Returns the availability of a step at the end of the file's steps.
    pub(super) fn availability_at_end(&self, target: &StepPath<'a>) -> Availability<'a> {
        if let Some(why) = closed_list(target, 0) {
            return Availability::Never(why);
        }
        match target.first().map(|hop| hop.attachment) {
            Some(Attachment::Root("steps")) | None => {
                self.availability(uncertainties(target, 0), &[], target, &Vec::new())
            }
            Some(_) => Availability::Never(Absence::Later),
        }
    }

    /// Returns the availability of `target` to `reader`. `in_guard` is true if the reader is a step's own guard.
    pub(super) fn availability_to(
        &self,
        reader: &StepPath<'a>,
        in_guard: bool,
        target: &StepPath<'a>,
    ) -> Availability<'a> {
        let depth = common_prefix(reader, target);
        if let Some(why) = closed_list(target, depth) {
            return Availability::Never(why);
        }
        let known_conditions = known_conditions_at(reader, in_guard);
        let undoes = reader.iter().skip(depth).any(|hop| matches!(hop.attachment, Attachment::Undo));
        match (target.get(depth), reader.get(depth)) {
            (None, None) => Availability::Never(Absence::Itself),
            (None, Some(here)) if matches!(here.attachment, Attachment::Undo) => {
                let begun = is_undone_when_begun(reader, depth).then_some(Uncertainty::Begun);
                self.availability(begun.into_iter().collect(), &known_conditions, target, reader)
            }
            (None, Some(here)) => Availability::Never(match here.attachment {
                Attachment::OnError => Absence::Handled("error"),
                Attachment::Finally => Absence::Handled("outcome"),
                _ => Absence::Around,
            }),
            (Some(_), None) => Availability::Never(Absence::Inside),
            (Some(there), Some(here)) if std::ptr::eq(there.block, here.block) => {
                match self.before(there, here) {
                    Order::Before => {
                        self.availability(uncertainties(target, depth), &known_conditions, target, reader)
                    }
                    Order::Unsure => Availability::Unsure,
                    // Compensation runs after all steps that ran at all.
                    Order::Not(_) if undoes => self.after_failure(target, depth, &known_conditions, reader),
                    Order::Not(why) => Availability::Never(why),
                }
            }
            (Some(there), Some(here)) => match (there.attachment, here.attachment) {
                (Attachment::Finally, _) => Availability::Never(Absence::OtherList("finally")),
                (Attachment::Root("steps"), Attachment::Root(_))
                | (_, Attachment::OnError | Attachment::Finally) => {
                    self.after_failure(target, depth, &known_conditions, reader)
                }
                (_, Attachment::Undo) if is_undone_when_begun(reader, depth) => {
                    self.after_failure(target, depth, &known_conditions, reader)
                }
                (_, Attachment::Undo) => {
                    self.availability(uncertainties(target, depth), &known_conditions, target, reader)
                }
                _ if undoes => self.after_failure(target, depth, &known_conditions, reader),
                (Attachment::Root(list @ "onError"), Attachment::Root("finally")) => {
                    Availability::Never(Absence::OtherList(list))
                }
                (Attachment::Case(..), Attachment::Case(..)) => Availability::Never(Absence::OtherCase),
                (Attachment::Branch { name, .. }, Attachment::Branch { .. }) => {
                    Availability::Never(Absence::SideBySide(name))
                }
                _ => Availability::Never(Absence::Later),
            },
        }
    }

    /// Returns the availability of a step after a failure.
    fn after_failure(
        &self,
        target: &StepPath<'a>,
        depth: usize,
        known_conditions: &[(&Expression, bool)],
        reader: &StepPath<'a>,
    ) -> Availability<'a> {
        let mut uncertainties = uncertainties(target, depth);
        uncertainties.push(Uncertainty::Failure);
        self.availability(uncertainties, known_conditions, target, reader)
    }

    /// Returns the path of a reader at the end of a list inside a step, such as the `until` of a loop.
    pub(super) fn end_of_list(
        &self,
        step: &Step,
        block: &'a Block,
        attachment: Attachment<'a>,
    ) -> Option<StepPath<'a>> {
        let mut path = self.path_of(&step.id)?.clone();
        path.push(Hop { block, index: block.steps.len(), attachment });
        Some(path)
    }

    /// Determines the order of two steps of one list.
    fn before(&self, there: &Hop<'a>, here: &Hop<'a>) -> Order<'a> {
        let Some(graph) = self.plan.block(there.block) else { return Order::Before };
        if here.step().is_none() {
            return Order::Before;
        }
        if graph.is_chain() {
            return if there.index < here.index { Order::Before } else { Order::Not(Absence::Later) };
        }
        if graph.has_unknown_order(here.index) {
            return Order::Unsure;
        }
        if self.ancestors(graph, here).contains(&there.index) {
            return Order::Before;
        }
        if self.ancestors(graph, there).contains(&here.index) {
            return Order::Not(Absence::Later);
        }
        Order::Not(here.step().map_or(Absence::Later, |step| Absence::NotWaited(&step.id)))
    }

    /// Returns the steps that finish before this one starts; cached because it is queried often.
    fn ancestors(&self, graph: &BlockGraph, hop: &Hop<'a>) -> Rc<HashSet<usize>> {
        let key = (std::ptr::from_ref(hop.block), hop.index);
        self.ancestors.borrow_mut().entry(key).or_insert_with(|| Rc::new(graph.ancestors(hop.index))).clone()
    }

    /// Determines the availability from the remaining uncertainties; *unsure* if a relevant step is partly unreadable.
    fn availability(
        &self,
        uncertainties: Vec<Uncertainty<'a>>,
        known_conditions: &[(&Expression, bool)],
        target: &StepPath<'a>,
        reader: &StepPath<'a>,
    ) -> Availability<'a> {
        let steps = target.iter().chain(reader).filter_map(Hop::step);
        if steps.into_iter().any(|step| self.unreadable.is_unsure(&step.id)) {
            return Availability::Unsure;
        }
        remaining(
            uncertainties,
            known_conditions,
            target.last().and_then(Hop::step).map(|step| step.id.as_ref()),
        )
    }

    /// Returns true if both are inside a sequential loop, so that one can read the other's result of the previous
    /// iteration.
    pub(super) fn share_sequential_loop(reader: &StepPath<'a>, target: &StepPath<'a>) -> bool {
        let depth = common_prefix(reader, target);
        let same_list = |(there, here): (&Hop<'a>, &Hop<'a>)| std::ptr::eq(there.block, here.block);
        let more = usize::from(target.get(depth).zip(reader.get(depth)).is_some_and(same_list));
        target
            .iter()
            .take(depth + more)
            .any(|hop| matches!(hop.attachment, Attachment::Turn { in_order: true, .. }))
    }
}

/// Concurrency queries.
impl<'a> StepOrder<'a> {
    /// Returns true if the step may run concurrently with others: in a branch, an unordered list or parallel
    /// iterations.
    pub(super) fn is_concurrent(&self, path: &StepPath<'a>) -> bool {
        path.iter().any(|hop| match hop.attachment {
            Attachment::Branch { .. } | Attachment::Turn { in_order: false, .. } => true,
            _ => self.plan.block(hop.block).is_some_and(|graph| !graph.is_chain()),
        })
    }

    /// Returns the depth at which the paths of two concurrent steps part; `None` if they are not concurrent.
    pub(super) fn concurrent_at(&self, first: &StepPath<'a>, second: &StepPath<'a>) -> Option<usize> {
        let depth = common_prefix(first, second);
        let apart = matches!(
            (first.get(depth)?.attachment, second.get(depth)?.attachment),
            (Attachment::Branch { .. }, Attachment::Branch { .. }) if !std::ptr::eq(first[depth].block, second[depth].block)
        );
        if apart { Some(depth) } else { self.unordered_at(first, second) }
    }

    /// Returns the depth of the list in which two steps, or their parents, are unordered; `None` if ordered.
    pub(super) fn unordered_at(&self, first: &StepPath<'a>, second: &StepPath<'a>) -> Option<usize> {
        let depth = common_prefix(first, second);
        let (here, there) = (first.get(depth)?, second.get(depth)?);
        let same_list = std::ptr::eq(here.block, there.block);
        let unordered = same_list && matches!(self.before(there, here), Order::Not(Absence::NotWaited(_)));
        unordered.then_some(depth)
    }

    /// Returns the innermost loop with parallel iterations around a step, and the depth of its list.
    pub(super) fn parallel_loop(&self, path: &StepPath<'a>) -> Option<(usize, &'a Step)> {
        let depth = path
            .iter()
            .rposition(|hop| matches!(hop.attachment, Attachment::Turn { in_order: false, .. }))?;
        Some((depth, path.get(depth.checked_sub(1)?)?.step()?))
    }

    /// Returns true if two steps are in the same list at this depth.
    pub(super) fn same_list_at(&self, first: &StepPath<'a>, second: &StepPath<'a>, depth: usize) -> bool {
        let same_list = |first: &Hop<'a>, second: &Hop<'a>| std::ptr::eq(first.block, second.block);
        common_prefix(first, second) >= depth
            && first.get(depth).zip(second.get(depth)).is_some_and(|(first, second)| same_list(first, second))
    }
}

impl<'a> Hop<'a> {
    /// Returns the step; `None` at the end of a list.
    pub(super) fn step(&self) -> Option<&'a Step> {
        self.block.steps.get(self.index)
    }
}

/// Returns the lists of steps inside a step.
pub(super) fn inner_blocks(step: &Step) -> Vec<(Attachment<'_>, &Block)> {
    let lists = step.verb.nested_blocks().into_iter().map(|inner| {
        let attachment = match inner.kind {
            BlockKind::Case { condition } => Attachment::Case(condition),
            BlockKind::Loop { item, in_order, certain } => Attachment::Turn { item, in_order, certain },
            BlockKind::Parallel { may_be_cut } => {
                Attachment::Branch { name: inner.name.unwrap_or_default(), may_be_cut }
            }
            BlockKind::Sequence => Attachment::Within,
        };
        (attachment, inner.block)
    });
    let mut blocks: Vec<(Attachment<'_>, &Block)> = lists.collect();
    blocks.extend(step.handlers().map(|(handler, block)| {
        let attachment = match handler {
            Handler::OnError => Attachment::OnError,
            Handler::Finally => Attachment::Finally,
            Handler::Undo => Attachment::Undo,
        };
        (attachment, block)
    }));
    blocks
}

/// Returns the length of the common prefix of two paths.
pub(super) fn common_prefix(first: &StepPath<'_>, second: &StepPath<'_>) -> usize {
    let same = |(first, second): &(&Hop<'_>, &Hop<'_>)| {
        std::ptr::eq(first.block, second.block) && first.index == second.index
    };
    first.iter().zip(second).take_while(same).count()
}

/// Returns why nothing outside a list reads the target, if that list is below `depth` of its path: it may be cut off, or it is a
/// `finally`.
fn closed_list<'a>(target: &StepPath<'a>, depth: usize) -> Option<Absence<'a>> {
    (depth + 1..target.len()).find_map(|at| match target[at].attachment {
        Attachment::Branch { may_be_cut: true, .. } => {
            target[at - 1].step().map(|step| Absence::InCutList(step.id.as_ref()))
        }
        Attachment::Finally => Some(Absence::OtherList("finally")),
        _ => None,
    })
}

/// True if the list at this depth undoes a step that may only have begun.
fn is_undone_when_begun(reader: &StepPath<'_>, depth: usize) -> bool {
    let undone = depth.checked_sub(1).and_then(|above| reader.get(above)).and_then(Hop::step);
    undone.and_then(|step| step.undo.as_ref()).is_some_and(|undo| undo.when_begun)
}

/// Collects the reasons why a step may not have run, from a depth of its path on.
fn uncertainties<'a>(target: &StepPath<'a>, from: usize) -> Vec<Uncertainty<'a>> {
    let mut uncertainties = Vec::new();
    for (depth, hop) in target.iter().enumerate().skip(from) {
        if depth > from {
            match hop.attachment {
                Attachment::Case(Some((expression, holds))) => {
                    uncertainties.push(Uncertainty::Condition { expression, holds, own: false });
                }
                Attachment::Case(None) => {
                    uncertainties.extend(target.get(depth - 1).and_then(Hop::step).map(Uncertainty::Case))
                }
                // A literal list with items has iterations for certain.
                Attachment::Turn { certain: true, .. } => {}
                Attachment::Turn { .. } => {
                    uncertainties.extend(target.get(depth - 1).and_then(Hop::step).map(Uncertainty::Loop))
                }
                Attachment::OnError | Attachment::Undo => uncertainties.push(Uncertainty::OnlyOnError),
                Attachment::Branch { .. }
                | Attachment::Root(_)
                | Attachment::Within
                | Attachment::Finally => {}
            }
        }
        let own = depth + 1 == target.len();
        let Some(step) = hop.step() else { continue };
        if let Some(expression) = &step.guard {
            uncertainties.push(Uncertainty::Condition { expression, holds: true, own });
        }
        if !own && !matches!(step.on_error, OnError::Fail) {
            uncertainties.push(Uncertainty::Failure);
        }
    }
    uncertainties
}

/// Collects the conditions whose values are known where the reader is evaluated.
fn known_conditions_at<'a>(reader: &StepPath<'a>, in_guard: bool) -> Vec<(&'a Expression, bool)> {
    let mut known_conditions = Vec::new();
    for (depth, hop) in reader.iter().enumerate() {
        if let Attachment::Case(Some((expression, holds))) = hop.attachment {
            known_conditions.push((expression, holds));
        }
        let guard = hop.step().and_then(|step| step.guard.as_ref());
        if let Some(guard) = guard.filter(|_| !(in_guard && depth + 1 == reader.len())) {
            known_conditions.push((guard, true));
        }
    }
    known_conditions
}

/// Removes uncertainties settled by conditions with known values. A condition on the step itself (`steps.a is defined`)
/// settles all.
fn remaining<'a>(
    mut uncertainties: Vec<Uncertainty<'a>>,
    known_conditions: &[(&Expression, bool)],
    target: Option<&str>,
) -> Availability<'a> {
    let asks = |expression: &Expression| {
        expression.references().iter().any(|reference| match &*reference.path {
            [root, id, ..] => root == "steps" && Some(id.as_str()) == target,
            _ => false,
        })
    };
    if known_conditions.iter().any(|(expression, _)| asks(expression)) {
        return Availability::Always;
    }
    uncertainties.retain(|uncertainty| match uncertainty {
        Uncertainty::Condition { expression, holds, .. } => {
            !known_conditions.iter().any(|(known, value)| value == holds && known.text() == expression.text())
        }
        _ => true,
    });
    if uncertainties.is_empty() { Availability::Always } else { Availability::Maybe(uncertainties) }
}
