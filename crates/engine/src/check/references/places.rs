//! Happens-before relation between steps: determines which steps have finished when another one starts.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use model::Expression;
use model::automation::{Automation, Block, OnError, Runs, Step};
use model::load::Gaps;

use crate::plan::{BlockGraph, Plan};

/// Path from a top-level list down to a step.
pub(super) type Chain<'a> = Vec<Hop<'a>>;

/// Step of a list, and how the list is attached to its parent.
#[derive(Clone, Copy)]
pub(super) struct Hop<'a> {
    block: &'a Block,
    index: usize,
    way: Way<'a>,
}

/// How a list of steps is attached to its parent.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
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
    /// One of several concurrent lists.
    Branch(&'a str),
    /// List that always runs once.
    Within,
    /// List that runs after the step failed.
    OnError,
    /// List that compensates the step.
    Undo,
}

/// Availability of a step's results at the reading position.
pub(super) enum Seen<'a> {
    /// Available.
    Always,
    /// Available unless one of these reasons kept the step from running.
    Maybe(Vec<Doubt<'a>>),
    /// Not available.
    Never(Why<'a>),
    /// Unknown, because relevant parts of the file are unreadable.
    Unsure,
}

/// Reason why a step may not have run.
#[derive(Clone, Copy)]
pub(super) enum Doubt<'a> {
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
}

/// Reason why a step has no results at the reading position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why<'a> {
    /// It is the reading step.
    Itself,
    /// It contains the reading step.
    Around,
    /// It is inside the reading step.
    Inside,
    /// It runs later.
    Later,
    /// It is in another, mutually exclusive case.
    OtherCase,
    /// It runs concurrently, in the list of this name.
    SideBySide(&'a str),
    /// `needs` does not make the reading step, or this parent of it, wait for it.
    NotWaited(&'a str),
    /// It is in a top-level list that is not visible to the reading step.
    OtherList(&'static str),
}

/// Order of two steps of one list.
enum Order<'a> {
    Before,
    Not(Why<'a>),
    Unsure,
}

/// Indices of the steps that finish earlier, by list and index.
type Ancestors = HashMap<(*const Block, usize), Rc<HashSet<usize>>>;

/// All steps of a file, with their positions.
pub(super) struct Places<'a> {
    plan: &'a Plan,
    gaps: &'a Gaps,
    chains: HashMap<&'a str, Chain<'a>>,
    /// Cache of computed ancestors.
    ancestors: RefCell<Ancestors>,
}

impl<'a> Places<'a> {
    pub(super) fn of(automation: &'a Automation, gaps: &'a Gaps, plan: &'a Plan) -> Self {
        let mut places = Self { plan, gaps, chains: HashMap::new(), ancestors: RefCell::default() };
        let lists = [("steps", Some(&automation.steps)), ("onError", automation.on_error.as_ref())];
        for (name, block) in lists.into_iter().chain([("finally", automation.finally.as_ref())]) {
            if let Some(block) = block {
                places.block(block, Way::Root(name), &Vec::new());
            }
        }
        places
    }

    fn block(&mut self, block: &'a Block, way: Way<'a>, above: &Chain<'a>) {
        for (index, step) in block.steps.iter().enumerate() {
            let mut chain = above.clone();
            chain.push(Hop { block, index, way });
            for (way, inner) in inner_blocks(step) {
                self.block(inner, way, &chain);
            }
            self.chains.insert(&step.id, chain);
        }
    }

    /// Iterates over the ids of all steps, unordered.
    pub(super) fn ids(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.chains.keys().copied()
    }

    pub(super) fn chain(&self, id: &str) -> Option<&Chain<'a>> {
        self.chains.get(id)
    }

    /// Returns the availability of a step at the end of the file's steps.
    pub(super) fn at_the_end(&self, target: &Chain<'a>) -> Seen<'a> {
        match target.first().map(|hop| hop.way) {
            Some(Way::Root("steps")) | None => self.seen(doubts(target, 0), &[], target, &Vec::new()),
            Some(_) => Seen::Never(Why::Later),
        }
    }

    /// Returns the availability of `target` to `reader`. `in_guard` is true if the reader is a step's own guard.
    pub(super) fn seen_by(&self, reader: &Chain<'a>, in_guard: bool, target: &Chain<'a>) -> Seen<'a> {
        let depth = shared(reader, target);
        let assured = assurances(reader, in_guard);
        let undoes = reader.iter().skip(depth).any(|hop| matches!(hop.way, Way::Undo));
        match (target.get(depth), reader.get(depth)) {
            (None, None) => Seen::Never(Why::Itself),
            (None, Some(here)) if matches!(here.way, Way::Undo) => Seen::Always,
            (None, Some(_)) => Seen::Never(Why::Around),
            (Some(_), None) => Seen::Never(Why::Inside),
            (Some(there), Some(here)) if std::ptr::eq(there.block, here.block) => {
                match self.before(there, here) {
                    Order::Before => self.seen(doubts(target, depth), &assured, target, reader),
                    Order::Unsure => Seen::Unsure,
                    // Compensation runs after all steps that ran at all.
                    Order::Not(_) if undoes => self.after_failure(target, depth, &assured, reader),
                    Order::Not(why) => Seen::Never(why),
                }
            }
            (Some(there), Some(here)) => match (there.way, here.way) {
                (Way::Root("steps"), Way::Root(_)) | (_, Way::OnError) => {
                    self.after_failure(target, depth, &assured, reader)
                }
                (_, Way::Undo) => self.seen(doubts(target, depth), &assured, target, reader),
                _ if undoes => self.after_failure(target, depth, &assured, reader),
                (Way::Root(list @ "onError"), Way::Root("finally")) => Seen::Never(Why::OtherList(list)),
                (Way::Case(..), Way::Case(..)) => Seen::Never(Why::OtherCase),
                (Way::Branch(name), Way::Branch(_)) => Seen::Never(Why::SideBySide(name)),
                _ => Seen::Never(Why::Later),
            },
        }
    }

    /// Returns the availability of a step after a failure.
    fn after_failure(
        &self,
        target: &Chain<'a>,
        depth: usize,
        assured: &[(&Expression, bool)],
        reader: &Chain<'a>,
    ) -> Seen<'a> {
        let mut doubts = doubts(target, depth);
        doubts.push(Doubt::Failure);
        self.seen(doubts, assured, target, reader)
    }

    /// Returns the path of a reader at the end of a list inside a step, such as the `until` of a loop.
    pub(super) fn at_the_end_of(&self, step: &Step, block: &'a Block, way: Way<'a>) -> Option<Chain<'a>> {
        let mut chain = self.chain(&step.id)?.clone();
        chain.push(Hop { block, index: block.steps.len(), way });
        Some(chain)
    }

    /// Determines the order of two steps of one list.
    fn before(&self, there: &Hop<'a>, here: &Hop<'a>) -> Order<'a> {
        let Some(graph) = self.plan.block(there.block) else { return Order::Before };
        if here.step().is_none() {
            return Order::Before;
        }
        if graph.is_chain() {
            return if there.index < here.index { Order::Before } else { Order::Not(Why::Later) };
        }
        if graph.is_unsettled(here.index) {
            return Order::Unsure;
        }
        if self.ancestors(graph, here).contains(&there.index) {
            return Order::Before;
        }
        if self.ancestors(graph, there).contains(&here.index) {
            return Order::Not(Why::Later);
        }
        Order::Not(here.step().map_or(Why::Later, |step| Why::NotWaited(&step.id)))
    }

    /// Returns the steps that finish before this one starts; cached because it is queried often.
    fn ancestors(&self, graph: &BlockGraph, hop: &Hop<'a>) -> Rc<HashSet<usize>> {
        let key = (std::ptr::from_ref(hop.block), hop.index);
        self.ancestors.borrow_mut().entry(key).or_insert_with(|| Rc::new(graph.ancestors(hop.index))).clone()
    }

    /// Determines the availability from the remaining doubts; *unsure* if a relevant step is partly unreadable.
    fn seen(
        &self,
        doubts: Vec<Doubt<'a>>,
        assured: &[(&Expression, bool)],
        target: &Chain<'a>,
        reader: &Chain<'a>,
    ) -> Seen<'a> {
        let steps = target.iter().chain(reader).filter_map(Hop::step);
        if steps.into_iter().any(|step| self.gaps.is_unsure(&step.id)) {
            return Seen::Unsure;
        }
        remaining(doubts, assured, target.last().and_then(Hop::step).map(|step| step.id.as_ref()))
    }

    /// Returns true if both are inside a sequential loop, so that one can read the other's result of the previous
    /// iteration.
    pub(super) fn share_turns(reader: &Chain<'a>, target: &Chain<'a>) -> bool {
        let depth = shared(reader, target);
        let same_list = |(there, here): (&Hop<'a>, &Hop<'a>)| std::ptr::eq(there.block, here.block);
        let more = usize::from(target.get(depth).zip(reader.get(depth)).is_some_and(same_list));
        target.iter().take(depth + more).any(|hop| matches!(hop.way, Way::Turn { in_order: true, .. }))
    }
}

/// Concurrency queries.
impl<'a> Places<'a> {
    /// Returns true if the step may run concurrently with others: in a branch, an unordered list or parallel
    /// iterations.
    pub(super) fn in_strand(&self, chain: &Chain<'a>) -> bool {
        chain.iter().any(|hop| match hop.way {
            Way::Branch(_) | Way::Turn { in_order: false, .. } => true,
            _ => self.plan.block(hop.block).is_some_and(|graph| !graph.is_chain()),
        })
    }

    /// Returns the depth at which the paths of two concurrent steps part; `None` if they are not concurrent.
    pub(super) fn beside(&self, first: &Chain<'a>, second: &Chain<'a>) -> Option<usize> {
        let depth = shared(first, second);
        let apart = matches!(
            (first.get(depth)?.way, second.get(depth)?.way),
            (Way::Branch(_), Way::Branch(_)) if !std::ptr::eq(first[depth].block, second[depth].block)
        );
        if apart { Some(depth) } else { self.unordered(first, second) }
    }

    /// Returns the depth of the list in which two steps, or their parents, are unordered; `None` if ordered.
    pub(super) fn unordered(&self, first: &Chain<'a>, second: &Chain<'a>) -> Option<usize> {
        let depth = shared(first, second);
        let (here, there) = (first.get(depth)?, second.get(depth)?);
        let same_list = std::ptr::eq(here.block, there.block);
        let unordered = same_list && matches!(self.before(there, here), Order::Not(Why::NotWaited(_)));
        unordered.then_some(depth)
    }

    /// Returns the innermost loop with parallel iterations around a step, and the depth of its list.
    pub(super) fn turn_beside(&self, chain: &Chain<'a>) -> Option<(usize, &'a Step)> {
        let depth = chain.iter().rposition(|hop| matches!(hop.way, Way::Turn { in_order: false, .. }))?;
        Some((depth, chain.get(depth.checked_sub(1)?)?.step()?))
    }

    /// Returns true if two steps are in the same list at this depth.
    pub(super) fn shares(&self, first: &Chain<'a>, second: &Chain<'a>, depth: usize) -> bool {
        let same_list = |first: &Hop<'a>, second: &Hop<'a>| std::ptr::eq(first.block, second.block);
        shared(first, second) >= depth
            && first.get(depth).zip(second.get(depth)).is_some_and(|(first, second)| same_list(first, second))
    }
}

impl<'a> Hop<'a> {
    /// Returns the step; `None` at the end of a list.
    fn step(&self) -> Option<&'a Step> {
        self.block.steps.get(self.index)
    }
}

/// Returns the lists of steps inside a step.
pub(super) fn inner_blocks(step: &Step) -> Vec<(Way<'_>, &Block)> {
    let lists = step.verb.lists().into_iter().map(|inner| {
        let way = match inner.runs {
            Runs::Case { condition } => Way::Case(condition),
            Runs::Turns { item, in_order, certain } => Way::Turn { item, in_order, certain },
            Runs::Beside => Way::Branch(inner.name.unwrap_or_default()),
            Runs::Once => Way::Within,
        };
        (way, inner.block)
    });
    let mut blocks: Vec<(Way<'_>, &Block)> = lists.collect();
    if let OnError::Steps(block) = &step.on_error {
        blocks.push((Way::OnError, block));
    }
    blocks.extend(step.undo.as_ref().map(|block| (Way::Undo, block)));
    blocks
}

/// Returns the length of the common prefix of two paths.
pub(super) fn shared(first: &Chain<'_>, second: &Chain<'_>) -> usize {
    let same = |(first, second): &(&Hop<'_>, &Hop<'_>)| {
        std::ptr::eq(first.block, second.block) && first.index == second.index
    };
    first.iter().zip(second).take_while(same).count()
}

/// Collects the reasons why a step may not have run, from a depth of its path on.
fn doubts<'a>(target: &Chain<'a>, from: usize) -> Vec<Doubt<'a>> {
    let mut doubts = Vec::new();
    for (depth, hop) in target.iter().enumerate().skip(from) {
        if depth > from {
            match hop.way {
                Way::Case(Some((expression, holds))) => {
                    doubts.push(Doubt::Condition { expression, holds, own: false });
                }
                Way::Case(None) => doubts.extend(target.get(depth - 1).and_then(Hop::step).map(Doubt::Case)),
                // A literal list with items has iterations for certain.
                Way::Turn { certain: true, .. } => {}
                Way::Turn { .. } => doubts.extend(target.get(depth - 1).and_then(Hop::step).map(Doubt::Loop)),
                Way::OnError | Way::Undo => doubts.push(Doubt::OnlyOnError),
                Way::Branch(_) | Way::Root(_) | Way::Within => {}
            }
        }
        let own = depth + 1 == target.len();
        let Some(step) = hop.step() else { continue };
        if let Some(expression) = &step.guard {
            doubts.push(Doubt::Condition { expression, holds: true, own });
        }
        if !own && !matches!(step.on_error, OnError::Fail) {
            doubts.push(Doubt::Failure);
        }
    }
    doubts
}

/// Collects the conditions whose values are known where the reader is evaluated.
fn assurances<'a>(reader: &Chain<'a>, in_guard: bool) -> Vec<(&'a Expression, bool)> {
    let mut assured = Vec::new();
    for (depth, hop) in reader.iter().enumerate() {
        if let Way::Case(Some((expression, holds))) = hop.way {
            assured.push((expression, holds));
        }
        let guard = hop.step().and_then(|step| step.guard.as_ref());
        if let Some(guard) = guard.filter(|_| !(in_guard && depth + 1 == reader.len())) {
            assured.push((guard, true));
        }
    }
    assured
}

/// Removes doubts settled by conditions with known values. A condition on the step itself (`steps.a is defined`)
/// settles all.
fn remaining<'a>(
    mut doubts: Vec<Doubt<'a>>,
    assured: &[(&Expression, bool)],
    target: Option<&str>,
) -> Seen<'a> {
    let asks = |expression: &Expression| {
        expression.references().iter().any(|reference| match &*reference.path {
            [root, id, ..] => root == "steps" && Some(id.as_str()) == target,
            _ => false,
        })
    };
    if assured.iter().any(|(expression, _)| asks(expression)) {
        return Seen::Always;
    }
    doubts.retain(|doubt| match doubt {
        Doubt::Condition { expression, holds, .. } => {
            !assured.iter().any(|(known, value)| value == holds && known.text() == expression.text())
        }
        _ => true,
    });
    if doubts.is_empty() { Seen::Always } else { Seen::Maybe(doubts) }
}
