//! The position of a step in an automation, and its order relative to another step.

use std::collections::{HashMap, HashSet, VecDeque};

use catalog::Plan;
use model::automation::{Automation, Block, BlockKind, OnError, Step};

/// The lists of steps around a step, the outermost first.
pub(super) type Position<'a> = Vec<Level<'a>>;

/// One list of steps around a step.
#[derive(Clone, Copy)]
pub(super) struct Level<'a> {
    pub(super) block: &'a Block,
    /// The index in the list: of the step itself in the innermost list, of the step around it in the others.
    pub(super) index: usize,
    pub(super) kind: Nesting,
}

/// The way in which a list of steps runs within its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nesting {
    /// The list `steps` of the file.
    Main,
    /// Once per iteration; `in_order` is true if an iteration begins after the previous one has ended.
    Loop { in_order: bool },
    /// Beside the other lists of its step.
    Parallel,
    /// If its case is selected, or always.
    Once,
    /// If the step fails.
    OnError,
}

impl<'a> Level<'a> {
    pub(super) fn step(&self) -> &'a Step {
        &self.block.steps[self.index]
    }
}

/// The positions of all steps in the list `steps` of an automation, by id. Undo lists and the closing lists of the file run
/// outside of that order and are left out.
pub(super) fn positions(automation: &Automation) -> HashMap<&str, Position<'_>> {
    let mut found = HashMap::new();
    visit(&automation.steps, Nesting::Main, &mut Vec::new(), &mut found);
    found
}

fn visit<'a>(
    block: &'a Block,
    kind: Nesting,
    around: &mut Position<'a>,
    found: &mut HashMap<&'a str, Position<'a>>,
) {
    for (index, step) in block.steps.iter().enumerate() {
        around.push(Level { block, index, kind });
        found.insert(&step.id, around.clone());
        for inner in step.verb.nested_blocks() {
            let kind = match inner.kind {
                BlockKind::Loop { in_order, .. } => Nesting::Loop { in_order },
                BlockKind::Parallel { .. } => Nesting::Parallel,
                BlockKind::Case { .. } | BlockKind::Sequence => Nesting::Once,
            };
            visit(inner.block, kind, around, found);
        }
        if let OnError::Steps(block) = &step.on_error {
            visit(block, Nesting::OnError, around, found);
        }
        around.pop();
    }
}

/// The number of loops around a position.
pub(super) fn loops(position: &[Level<'_>]) -> usize {
    position.iter().filter(|level| matches!(level.kind, Nesting::Loop { .. })).count()
}

/// The indices of the steps that start only after the step at `index` has ended.
pub(super) fn after(plan: &Plan, block: &Block, index: usize) -> HashSet<usize> {
    let mut found = HashSet::new();
    let Some(graph) = plan.block(block) else { return found };
    let mut next: VecDeque<usize> = graph.dependents(index).collect();
    while let Some(step) = next.pop_front() {
        if found.insert(step) {
            next.extend(graph.dependents(step));
        }
    }
    found
}

/// The indices of the steps that end before the step at `index` starts.
pub(super) fn before(plan: &Plan, block: &Block, index: usize) -> Vec<usize> {
    let ancestors = plan.block(block).map(|graph| graph.ancestors(index)).unwrap_or_default();
    let mut ancestors: Vec<usize> = ancestors.into_iter().collect();
    ancestors.sort_unstable();
    ancestors
}

/// The id and the iteration indices of a key: `copy[2][0]` is the step `copy` in the iterations 2 and 0. `None` if an index
/// is not a number.
pub(super) fn split(key: &str) -> Option<(&str, Vec<usize>)> {
    let (id, turns) = key.split_at(key.find('[').unwrap_or(key.len()));
    let turns = turns.split('[').skip(1).map(|turn| turn.strip_suffix(']')?.parse().ok());
    Some((id, turns.collect::<Option<Vec<usize>>>()?))
}

/// The key of a step in these iterations.
pub(super) fn key(id: &str, turns: &[usize]) -> String {
    turns.iter().fold(id.to_owned(), |key, turn| format!("{key}[{turn}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_key_round_trips() {
        for (id, turns) in [("copy", vec![]), ("copy", vec![2]), ("a-b", vec![0, 17])] {
            assert_eq!(split(&key(id, &turns)), Some((id, turns)));
        }
        for wrong in ["copy[", "copy[x]", "copy[1", "copy[1]x"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
