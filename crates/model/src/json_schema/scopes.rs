//! Dynamic scopes (`$dynamicRef`): for every dynamic anchor, the outermost resource on the way here that has it.
//!
//! Scopes are numbered, and equal ones have the same number, so a result can be kept by it. A schema without dynamic
//! anchors has one scope.

use std::collections::HashMap;

use super::program::{Id, Program};
use crate::budget::{Budget, Exceeded};

/// A dynamic scope, by its number.
pub(super) type Scope = u32;

/// The scope around the whole schema.
pub(super) const OUTSIDE: Scope = 0;

/// The scopes met so far.
pub(super) struct Scopes {
    /// By scope, the target of each dynamic anchor.
    targets: Vec<Vec<Option<Id>>>,
    entered: HashMap<(Scope, usize), Scope>,
}

impl Scopes {
    pub(super) fn new(anchor_names: usize) -> Self {
        Self { targets: vec![vec![None; anchor_names]], entered: HashMap::new() }
    }

    /// The scope inside `resource`, which is entered from `scope`.
    pub(super) fn enter(
        &mut self,
        program: &Program,
        scope: Scope,
        resource: usize,
        budget: &Budget,
    ) -> Result<Scope, Exceeded> {
        let anchors = &program.dynamic_anchors[resource];
        if anchors.is_empty() {
            return Ok(scope);
        }
        budget.work(2)?;
        if let Some(inside) = self.entered.get(&(scope, resource)) {
            return Ok(*inside);
        }
        budget.work(self.targets.len())?;
        budget.list(program.anchor_names + 2)?;
        let mut targets = self.targets[scope as usize].clone();
        for (name, id) in anchors {
            targets[*name].get_or_insert(*id);
        }
        let inside = self.targets.iter().position(|known| *known == targets).unwrap_or_else(|| {
            self.targets.push(targets);
            self.targets.len() - 1
        });
        let inside = Scope::try_from(inside).unwrap_or(Scope::MAX);
        self.entered.insert((scope, resource), inside);
        Ok(inside)
    }

    /// The target of a dynamic anchor.
    pub(super) fn resolve(&self, scope: Scope, anchor: Option<usize>) -> Option<Id> {
        *self.targets.get(scope as usize)?.get(anchor?)?
    }
}
