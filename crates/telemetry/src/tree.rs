//! The nesting of steps: the step around each step, for the parents of spans.

use std::collections::HashMap;

use model::automation::{Automation, Block, BlockKind, Handler, Step};

/// The steps of an automation by id.
#[derive(Debug, Default)]
pub(crate) struct StepTree<'a>(HashMap<&'a str, Node<'a>>);

#[derive(Clone, Copy, Debug)]
struct Node<'a> {
    step: &'a Step,
    parent: Option<&'a str>,
    /// The number of loops around it.
    loops: usize,
}

impl<'a> StepTree<'a> {
    pub(crate) fn new(automation: &'a Automation) -> Self {
        let mut tree = Self::default();
        let closing = [&automation.on_error, &automation.finally];
        for block in std::iter::once(&automation.steps).chain(closing.into_iter().flatten()) {
            tree.add(block, None, 0);
        }
        tree
    }

    fn add(&mut self, block: &'a Block, parent: Option<&'a str>, loops: usize) {
        for step in &block.steps {
            let id = &*step.id;
            self.0.insert(id, Node { step, parent, loops });
            for inner in step.verb.nested_blocks() {
                let is_loop = matches!(inner.kind, BlockKind::Loop { .. });
                self.add(inner.block, Some(id), loops + usize::from(is_loop));
            }
            for (handler, block) in step.handlers() {
                // `undo` runs after the end of the step, so it is part of the execution only.
                self.add(block, (handler != Handler::Undo).then_some(id), loops);
            }
        }
    }

    /// The step with this key, which has the index of each iteration around it.
    pub(crate) fn step(&self, key: &str) -> Option<&'a Step> {
        Some(self.0.get(id_of(key))?.step)
    }

    /// The key of the step around this one.
    pub(crate) fn parent(&self, key: &str) -> Option<String> {
        let parent = self.0.get(id_of(key))?.parent?;
        let turns = &key[id_of(key).len()..];
        let outer: Vec<&str> = turns.split_inclusive(']').take(self.0.get(parent)?.loops).collect();
        Some(format!("{parent}{}", outer.concat()))
    }
}

/// The id of a step without the indices of iterations.
pub(crate) fn id_of(key: &str) -> &str {
    key.split(['[', '#']).next().unwrap_or(key)
}
